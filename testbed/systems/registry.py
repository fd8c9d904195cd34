"""The list of systems: one entry each, the testbed's own and those of other packages.

An entry has a system's facts: its name, the P4 program of its switches, how figures draw it, and
which options an experiment may set. Its code is its scheme (testbed/schemes).
"""

from __future__ import annotations

from p4fabric.base.errors import UserError

from testbed import plugins
from testbed.paths import P4
from testbed.systems.system import System

_HOSTS = "HostSumsOptions"
# Systems in which the workers add up: name, algorithm (testbed/algorithms), title, options, look.
HOSTS = (
    ("ring", "ring", "Ring", _HOSTS, "#56B4E9", "D"),
    ("halving_doubling", "halving_doubling", "Halving-doubling", _HOSTS, "#7F3C8D", "X"),
    ("double_tree", "double_tree", "Double tree", _HOSTS, "#8C6D31", "p"),
    ("hierarchical", "hierarchical", "Hierarchical", _HOSTS, "#A5AA99", "h"),
    ("colocated_ps", "direct", "PS on workers", "ColocatedPsOptions", "#666666", "<"),
)

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
            name="a2tp",
            title="A2TP",
            color="#882255",
            marker="d",
            program=P4 / "a2tp.p4",
            options="testbed.systems.options:A2tpOptions",
            slot_bytes=31,
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
            name="tree",
            title="Static trees",
            color="#E69F00",
            marker=">",
            program=P4 / "tree.p4",
            options="testbed.systems.options:TreeOptions",
            slot_bytes=15,
            servers="none",
            managed=True,
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
        *(
            System(
                name=name,
                title=title,
                color=color,
                marker=marker,
                program=P4 / "forward.p4",
                options=f"testbed.systems.options:{options}",
                slot_bytes=0,
                servers="none",
                memory=False,
                algorithm=algorithm,
                reroutes=True,
            )
            for name, algorithm, title, options, color, marker in HOSTS
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
