"""The testbed: the command `ina` (run.py), and the interface for Python.

    import testbed as tb

    experiment = tb.load("experiments/quickstart.yaml").with_(runtime="virtual")
    result = tb.run(experiment)
    result.jobs

docs/python.md describes the interface, docs/architecture.md the folders and layers behind it.

P4 programs, topologies, traces, analysis and experiment files are top-level folders of a
checkout; links here lead to them (paths.py).

Importing this package imports nothing else, so that a process pays only for what it uses: a switch
process never loads numba, a host process never loads Mininet. A name of the interface is found when
it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from p4fabric.base.errors import RunError as RunError
    from p4fabric.base.errors import UserError as UserError
    from p4fabric.base.topology import Topology as Topology

    from testbed.api.drawing import figure as figure
    from testbed.api.drawing import style as style
    from testbed.api.experiment_parts import Background as Background
    from testbed.api.experiment_parts import Fault as Fault
    from testbed.api.experiment_parts import Job as Job
    from testbed.api.experiments import Experiment as Experiment
    from testbed.api.experiments import load as load
    from testbed.api.results import Result as Result
    from testbed.api.results import SweepResult as SweepResult
    from testbed.api.results import read as read
    from testbed.api.running import run as run
    from testbed.api.running import run_async as run_async
    from testbed.api.running import sweep as sweep
    from testbed.collective.measures import report as report
    from testbed.topos.fat_tree import FatTree as FatTree
    from testbed.topos.graph import Graph as Graph
    from testbed.topos.leaf_spine import LeafSpine as LeafSpine
    from testbed.topos.rails import Rails as Rails
    from testbed.topos.star import Star as Star
    from testbed.topos.triangle import Triangle as Triangle
    from testbed.topos.two_level import TwoLevel as TwoLevel

# Where each name is.
_NAMES = {
    "load": "api.experiments",
    "run": "api.running",
    "run_async": "api.running",
    "sweep": "api.running",
    "read": "api.results",
    "figure": "api.drawing",
    "style": "api.drawing",
    "report": "collective.measures",
    "Experiment": "api.experiments",
    "Job": "api.experiment_parts",
    "Fault": "api.experiment_parts",
    "Background": "api.experiment_parts",
    "Result": "api.results",
    "SweepResult": "api.results",
    "Topology": "topology",
    "Star": "topos.star",
    "TwoLevel": "topos.two_level",
    "LeafSpine": "topos.leaf_spine",
    "FatTree": "topos.fat_tree",
    "Rails": "topos.rails",
    "Triangle": "topos.triangle",
    "Graph": "topos.graph",
    "UserError": "errors",
    "RunError": "errors",
}


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'testbed' has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(f"testbed.{_NAMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(_NAMES)
