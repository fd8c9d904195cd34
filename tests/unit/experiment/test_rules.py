"""The table of checks names what there is, and an unsound section causes no errors elsewhere."""

from __future__ import annotations

import inspect
import string

import pytest
import yaml
from p4fabric.base.config.explain import keys_of, section_model
from p4fabric.base.config.problems import ExperimentError

from testbed.experiment import load_text, resolve_jobs
from testbed.experiment.resolve import CHECKS
from testbed.experiment.rules import EACH, Rule
from testbed.experiment.schema import ExperimentFile
from testbed.experiment.schema_jobs import Job
from testbed.systems import SYSTEMS
from tests.support.experiments import BASE

COMMON = yaml.safe_load(
    BASE + "seed: 3\nvalues_per_packet: 32\nvalue_bits: 32\nswitches: {aggregates: true}\n"
)
KIND = COMMON["jobs"][0]
PACKET = {"packet": "198 B"}  # the jobs', on BMv2
WHOLE = {
    "jobs": COMMON
    | {
        "jobs": [{**KIND, "placement": {"workers": ["h1", "h2", "h3", "h4"], "ps": "h5"}}],
        "switch": "bmv2",
        "background": [{"kind": "cbr", "from": "h9", "to": "h8", "rate": "9 kbit/s"} | PACKET],
        "faults": [{"at": 0, "fault": "slow", "job": "resnet50-0", "factor": 2}],
    },
    "arrivals": {key: value for key, value in COMMON.items() if key != "jobs"}
    | {
        "runtime": "virtual",
        "virtual": {"worker_delay": "2 us"},
        "scale_windows": True,
        "arrivals": {"poisson": {"jobs": 3, "interval": "1 ms", "kinds": [KIND]}},
    },
}
OF_JOBS = [*resolve_jobs.OF_PROGRAM, *resolve_jobs.OF_MODEL, *resolve_jobs.OF_TRACE]


def test_a_check_needs_and_shows_what_there_is(monkeypatch):
    names = {"each", "found", *ExperimentFile.model_fields}

    def look(known):
        names.update(known)
        yield from ()

    monkeypatch.setattr("testbed.experiment.resolve.CHECKS", (*CHECKS, look))
    for whole in WHOLE.values():
        load_text(yaml.safe_dump(whole))
    names |= {"job", "trace", "declared", "ranks", "fragments"}
    for check in (*CHECKS, *OF_JOBS):
        needed = set(inspect.signature(getattr(check, "wrong", check)).parameters)
        for _, field, _, _ in string.Formatter().parse(getattr(check, "says", "")):
            needed |= {field.partition(".")[0]} if field else set()
        assert needed <= names, f"{check}: nothing finds {needed - names} out"


def test_the_key_of_a_rule_is_one_of_the_file():
    fields = {info.alias or name: info for name, info in ExperimentFile.model_fields.items()}
    options = {key for system in SYSTEMS.values() for key in keys_of(system.option_model)}
    for rule in (check for check in CHECKS if isinstance(check, Rule)):
        first, _, inner = rule.at.replace(EACH, ".").partition(".")
        model = section_model(fields[first].annotation)
        assert not inner or inner in (options if first == "system" else keys_of(model))
    assert {rule.at for rule in OF_JOBS} <= set(keys_of(Job))


@pytest.mark.parametrize("whole, key", [(name, key) for name in WHOLE for key in WHOLE[name]])
def test_a_section_that_is_not_sound_causes_no_errors_elsewhere(whole, key):
    with pytest.raises(ExperimentError) as error:
        load_text(yaml.safe_dump(WHOLE[whole] | {key: [{"x": 1}, {}]}))
    assert {problem.path[0] for problem in error.value.problems} == {key}
