"""Specifications of hosts: unchanged through JSON, and wrong ones are refused."""

import json
from dataclasses import dataclass, replace

import pytest

from testbed.experiment import load_text
from testbed.protocols.host_spec import (
    Compute,
    HostSpec,
    HostSumsSpec,
    PoolSpec,
    SystemSpec,
    Tensor,
)
from testbed.schemes import set_up
from testbed.setup.host_specs import host_specs
from tests.support.experiments import memory_line
from tests.support.host_specs import JOB, OPTIONS, WORKER, host_spec

TEXT = """
name: specs
system: %s
topology: {kind: star, hosts: 4}
links: {bandwidth: 100 Mbit/s}
%s
seed: 3
jobs: [{model: resnet50, scale: 0.001, workers: 3, iterations: 2, compute_jitter: 1 %%}]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSpec(PoolSpec):
    """A field that a system of another package may add."""

    share: float


@pytest.mark.parametrize("system", ["esa", "atp", "switchml", "ps", "ring", "{name: grid}"])
def test_a_specification_survives_json(system):
    memory = memory_line(system, 32)
    specs = host_specs(set_up(load_text(TEXT % (system, memory))))
    assert {spec.role for spec in specs} >= {"worker"}
    for spec in specs:
        assert HostSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_a_system_may_add_fields_of_its_own():
    there = replace(OPTIONS, extra={"levels": [1, {"deep": 2}], "title": "x"})
    spec = host_spec(options=there)
    back = HostSpec.from_json(json.loads(json.dumps(spec.to_json())))
    assert back == spec and back.options.extra["levels"] == [1, {"deep": 2}]

    own = OtherSpec.of(
        OPTIONS,
        reminder=True,
        reminder_delay_ns=0,
        min_reminder_delay_ns=1,
        max_reminder_delay_ns=1,
        aggregators=4,
        index="hash",
        priority="esa",
        share=0.5,
    )
    spec = host_spec(options=own)
    back = HostSpec.from_json(json.loads(json.dumps(spec.to_json())))
    assert back == spec and back.options_of(OtherSpec).share == 0.5


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"workers": 0}, r"JobSpec.workers: found 0"),
        ({"start_ns": -1}, r"JobSpec.start_ns: found -1"),
        ({"values": 64.0}, r"JobSpec.values: found 64.0"),
        ({"bound_ns": "1 ms"}, r"JobSpec.bound_ns: found '1 ms'"),
        ({"tensors": [Tensor("t", 1, 1, 1)]}, r"JobSpec.tensors: found \["),
        ({"bitmap_width": 33}, r"JobSpec.bitmap_width: found 33"),
        ({"workers": 40}, r"JobSpec.bitmap_width: found 32 for 40 workers"),
    ],
)
def test_a_wrong_field_of_a_job_is_named(change, error):
    with pytest.raises((TypeError, ValueError), match=error):
        replace(JOB, **change)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"role": "server"}, "HostSpec.role: found 'server'"),
        ({"role": "ps"}, "HostSpec.compute: found Compute"),
        ({"compute": None}, "HostSpec.compute: found None of a worker"),
        ({"number": 4}, "HostSpec.number: found 4 of 4 workers"),
        ({"options": {}}, "HostSpec.options: found {}"),
    ],
)
def test_a_wrong_field_of_a_host_is_named(change, error):
    with pytest.raises((TypeError, ValueError), match=error):
        replace(WORKER, **change)


def test_missing_and_unknown_fields_are_errors():
    with pytest.raises(TypeError, match="window"):
        SystemSpec(order="front")
    data = WORKER.to_json()
    with pytest.raises(TypeError, match="wrong"):
        HostSpec.from_json(data | {"wrong": 1})
    del data["peers"]
    with pytest.raises(TypeError, match="peers"):
        HostSpec.from_json(data)
    with pytest.raises(TypeError, match="expected a HostSpec"):
        HostSpec.from_json(Compute().to_json())
    with pytest.raises(TypeError, match="no part of a specification"):
        HostSpec.from_json({"kind": "pathlib:Path"})


def test_a_machine_says_which_options_it_needs():
    with pytest.raises(
        TypeError, match="options of system esa are SystemSpec; expected HostSumsSpec"
    ):
        WORKER.options_of(HostSumsSpec)
