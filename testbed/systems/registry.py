"""The list of systems: one entry each, the testbed's own and those of other packages.

An entry has a system's facts: its name, the P4 program of its switches, how figures draw it, and
which options an experiment may set. Its code is its scheme (testbed/schemes).
"""

from __future__ import annotations

from testbed import plugins
from testbed.errors import UserError
from testbed.paths import P4
from testbed.systems.system import System

SHIPPED: dict[str, System] = {
    system.name: system
    for system in (
        System(
            name="esa",
            title="ESA",
            color="#D55E00",
            marker="o",
            program=P4 / "esa.p4",
            options="testbed.systems.options:EsaOptions",
            slot_bytes=26,
            reroutes=True,
        ),
        System(
            name="atp",
            title="ATP",
            color="#0072B2",
            marker="s",
            program=P4 / "atp.p4",
            options="testbed.systems.options:AtpOptions",
            slot_bytes=26,
            reroutes=True,
        ),
        System(
            name="grid",
            title="GRID",
            color="#CC79A7",
            marker="P",
            program=P4 / "grid.p4",
            options="testbed.systems.options:GridOptions",
            slot_bytes=28,
            planned=True,
            reroutes=True,
        ),
        System(
            name="switchml",
            title="SwitchML",
            color="#009E73",
            marker="^",
            program=P4 / "switchml.p4",
            options="testbed.systems.options:SwitchmlOptions",
            slot_bytes=14,
            servers="none",
            divided=True,
            lost_with_registers="SwitchML keeps results in switch registers alone, so one that some"
            " workers had and others did not is lost",
            reroutes=True,
        ),
        System(
            name="ps",
            title="PS",
            color="#000000",
            marker="v",
            program=P4 / "forward.p4",
            options="testbed.systems.options:PsOptions",
            slot_bytes=0,
            servers="many",
            memory=False,
            reroutes=True,
        ),
        System(
            name="ring",
            title="Ring",
            color="#56B4E9",
            marker="D",
            program=P4 / "forward.p4",
            options="testbed.systems.options:RingOptions",
            slot_bytes=0,
            servers="none",
            memory=False,
            reroutes=True,
        ),
    )
}


def _all() -> dict[str, System]:
    systems = plugins.with_shipped(plugins.SYSTEMS, SHIPPED, System)
    for name, system in systems.items():
        if system.name != name:
            raise UserError(
                f"the plug-in system {name!r} calls itself {system.name!r}; its entry point and its"
                " `name` must be the same"
            )
    return systems


SYSTEMS = _all()
