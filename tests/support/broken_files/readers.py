"""Readers of files that a user or a program has written, with a sound folder for each.

A reader is called in the folder, with the file that was changed. It may end well, raise UserError,
or end a command with exit code 0, 1 or 2.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from p4fabric.netfile.load_network import load_network
from p4fabric_testing import topology_files
from rich.console import Console

from testbed.analysis import report
from testbed.analysis.data.sweep_data import frame, read_sweep
from testbed.artifacts.verify import opened
from testbed.cli.main import main
from testbed.experiment.load import load
from testbed.experiment.sweep_file import is_sweep, load_sweep
from testbed.results import ResultsError, read
from testbed.routing.graph_file import read_graph
from testbed.traffic import chakra, simai
from testbed.traffic.arrivals import read_mix
from testbed.traffic.cluster_traces import read_cluster_trace
from testbed.traffic.recording import load_recording
from testbed.traffic.trace import load_gradients, load_trace
from tests.support import cluster_traces as traces
from tests.support.paths import ROOT
from tests.support.recordings import PROGRAM, write_recording
from tests.support.synthetic_results import EXPERIMENT, write_run, write_sweep
from tests.support.workloads import workload

GRAPH = """<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="d0" for="edge" attr.name="rate"
 attr.type="string"/><graph edgedefault="undirected"><node id="h1"/><node id="s1"/><node id="h2"/>
<edge source="h1" target="s1"><data key="d0">1 Gbit/s</data></edge><edge source="s1" target="h2"/>
</graph></graphml>
"""
MODEL = """# name: mine
# values: 6
# times: computed
# hardware: none
# sample: none
# source: times: made up
# gradients: mine.npz
name,shape,values,forward_ns,backward_ns
fc,3x2,6,1000,2000
"""
WORKLOAD = workload("one 9 ALLGATHER 64 9 ALLTOALL_EP 8 9 NONE 0 1", tp=2, ep=2, gpus=4)
RUN = "run"  # the folder of a run's results: inputs name files by their paths
MIX = "submit,model,workers,iterations,scale\n0 s,vgg16,2,3,0.01\n1 ms,resnet50,4,2,0.1\n"


@dataclass(frozen=True)
class Reader:
    """`sound` fills an empty folder and says which of its files to change; `read` reads."""

    sound: Callable[[Path], list[Path]]
    read: Callable[[Path], object]


def _experiments(folder: Path) -> list[Path]:
    for name in ("experiments", "examples", "traffic/recordings"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("schema"))
    found = sorted((folder / "experiments").rglob("*.yaml"))
    return [path for path in found if path.parent.name not in ("costs", "expected", "fabrics")]


def _experiment(path: Path) -> None:
    if is_sweep(path):
        load_sweep(path)
    else:
        load(path).resolved_yaml()


def _network(folder: Path) -> list[Path]:
    return _one("mine.yaml", topology_files.NETWORK, folder)


def _imported(topology: Path, *options: str) -> int:
    output = topology.parent / "imported.yaml"
    output.unlink(missing_ok=True)
    return main(["import", str(topology), "-o", str(output), *options])


def _p4app(folder: Path) -> list[Path]:
    return [topology_files.app(folder), folder / "s1-commands.txt"]


def _exercise(folder: Path) -> list[Path]:
    return [topology_files.exercise(folder), folder / "s1-runtime.json"]


def _exercise_of(path: Path) -> int:
    folder = path.parent if path.name == "s1-runtime.json" else path.parents[1]
    return _imported(folder / "lab" / "topology.json", "--virtual")


def _models(folder: Path) -> list[Path]:
    found = [ROOT / "tests" / "data" / "tiny.csv", ROOT / "traffic" / "models" / "alexnet.csv"]
    return [Path(shutil.copy(path, folder)) for path in found]


def _float_gradients(folder: Path) -> list[Path]:
    arrays = {"gradients": np.ones((1, 1, 6), np.float32), "iterations": np.arange(1)}
    np.savez(folder / "mine.npz", loss=np.ones((1, 1), np.float32), **arrays)
    (folder / "mine.csv").write_text(MODEL)
    load_gradients(load_trace(str(folder / "mine.csv")))
    return [folder / "mine.npz"]


def _one(name: str, text: str, folder: Path) -> list[Path]:
    (folder / name).write_text(text)
    return [folder / name]


def _recording(folder: Path) -> list[Path]:
    return [write_recording(folder / "run.npz")]


def _program(folder: Path) -> list[Path]:
    chakra.write(folder / "run.et", PROGRAM)
    return [folder / "run.0.et", folder / "run.json"]


def _values(path: Path) -> None:
    recording = load_recording(path)
    recording.trace()
    if recording.has_values:
        recording.values()


def _graphs(folder: Path) -> list[Path]:
    edges = shutil.copy(ROOT / "topos" / "graphs" / "grid-example.txt", folder)
    return [*_one("graph.graphml", GRAPH, folder), Path(edges)]


def _run(folder: Path) -> list[Path]:
    made = write_run(folder).rename(folder / RUN)
    return sorted(path for path in made.rglob("*") if path.is_file())


def _report(path: Path) -> None:
    folder = next(each for each in path.parents if each.name == RUN)
    results = read(folder)
    if results.finished:
        Console(file=open("/dev/null", "w"), width=200).print(report.render(results))  # noqa: SIM115


def _sweep(folder: Path) -> list[Path]:
    return [write_sweep(folder) / "sweep.json"]


def _frame(path: Path) -> None:
    sweep = read_sweep(path.parent)
    try:
        report.render_sweep(sweep, frame(sweep))
    except ResultsError:
        pass


def _artifact(folder: Path) -> list[Path]:
    run = write_run(folder / "results")
    (run / "experiment.yaml").write_text(EXPERIMENT)
    assert main(["pack", str(run), "-o", str(folder / "run.ina.zip")]) == 0
    return [folder / "run.ina.zip"]


def _unpack(path: Path) -> None:
    with opened(path):
        pass


READERS: dict[str, Reader] = {
    "experiment": Reader(_experiments, _experiment),
    "network": Reader(_network, load_network),
    "p4app": Reader(_p4app, lambda path: _imported(path.with_name("p4app.json"))),
    "exercise": Reader(_exercise, _exercise_of),
    "model": Reader(_models, lambda path: load_trace(str(path))),
    "gradients": Reader(
        _float_gradients, lambda path: load_gradients(load_trace(str(path.with_suffix(".csv"))))
    ),
    "recording": Reader(_recording, _values),
    "workload": Reader(partial(_one, "work.txt", WORKLOAD), simai.load),
    "program": Reader(_program, lambda path: chakra.load(path.with_name("run.et"))),
    "mix": Reader(partial(_one, "mix.csv", MIX), read_mix),
    "graph": Reader(_graphs, read_graph),
    "results": Reader(_run, _report),
    "sweep": Reader(_sweep, _frame),
    "artifact": Reader(_artifact, _unpack),
    **{
        form: Reader(partial(_one, "trace", text), partial(read_cluster_trace, form=form))
        for form, text in (
            ("philly", json.dumps(traces.PHILLY, indent=1)),
            ("helios", traces.HELIOS),
            ("alibaba", traces.ALIBABA),
        )
    },
}
