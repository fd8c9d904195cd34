"""Both kinds of switches in a run: the arguments of their processes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from p4fabric.base.errors import UserError

from testbed.bmv2 import simple_switch
from testbed.emulate import switch_backends
from testbed.emulate.switch_backends import backend_of
from testbed.experiment import load_text
from testbed.run_parts.program import prepare
from testbed.schemes import set_up

TEXT = """
topology: {kind: leaf_spine, leaves: 2, spines: 2, hosts: 2}
links: {each: [{between: [s1, s3], failed: true}]}
system: ps
offload: %s
switch: %s
jobs: [{model: resnet18, workers: 2, iterations: 1, scale: 0.001}]
"""


def node(folder: Path):
    interfaces = {port: f"s1-eth{port}" for port in range(1, 5)}
    return SimpleNamespace(
        name="s1", namespace=5, control_path=folder / "s1.sock", ports_in_use=lambda: interfaces
    )


@pytest.mark.parametrize("offload", ["auto", "off", "on"])
@pytest.mark.parametrize("why_not", ["", "too old"])
def test_packets_travel_in_trains_where_the_kernel_can(monkeypatch, tmp_path, offload, why_not):
    monkeypatch.setattr(switch_backends.kernel_probe, "why_no_trains", lambda: why_not)
    setup = set_up(load_text(TEXT % (offload, "embedded")))
    program = prepare(setup)
    if why_not and offload == "on":
        with pytest.raises(UserError, match="trains \\(too old\\); write `offload: auto`"):
            backend_of(setup.platform, program)
        return
    backend = backend_of(setup.platform, program)
    trains = offload != "off" and not why_not
    assert backend.trains == trains and backend.network_options() == {"trains": trains}
    assert backend.versions() == {"offload": "trains" if trains else "off"}
    (tmp_path / "s1.sock").touch()  # of an earlier process
    made = backend.arguments(node(tmp_path), seed=7)
    assert not (tmp_path / "s1.sock").exists()
    assert (made["seed"], made["trains"]) == (7, trains)
    assert made["control"] == str(tmp_path / "s1.sock")
    assert Path(made["compiled"]).exists() and Path(made["program"]).name.endswith(".p4")
    assert made["interfaces"] == node(tmp_path).ports_in_use()


def test_bmv2_gets_no_port_of_a_link_that_is_down(monkeypatch, tmp_path):
    monkeypatch.setattr(simple_switch, "command", lambda *words, **options: [*words, options])
    setup = set_up(load_text(TEXT % ("auto", "bmv2")))
    ports = setup.platform.topology.ports("s1")
    assert [name for name, _, _ in ports.values()] == ["h1", "h2", "s4"]
    backend = backend_of(setup.platform, SimpleNamespace(json=Path("program.json")))
    made = backend.arguments(node(tmp_path), seed=7)
    assert made["namespace"] == 5 and not backend.trains
    assert made["command"] == [
        Path("program.json"),
        {port: f"s1-eth{port}" for port in ports},
        {"notifications": tmp_path / "s1.ipc"},
    ]
