"""What a run has read is part of what it is: whatever a key names, and what that includes.

Every key of the experiment's schema and of a network file's that names a file is in `CASES`; a new
one without a case fails. A case is written into a folder, where each of its files is edited.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from p4engine.frontend.preprocessor.includes import included
from p4fabric.base.config.fields import Reads
from p4fabric.base.config.input_files import Input
from p4fabric.netfile.load_network import load_network
from p4fabric.netfile.network_schema import NetworkFile
from p4fabric.netfile.virtual_results import inputs_of
from p4fabric_testing.virtual_networks import MARKING, star
from pydantic import BaseModel

from testbed.experiment import Experiment, inputs, load
from testbed.experiment.inputs import changes, have_changed, recorded
from testbed.experiment.schema import ExperimentFile
from testbed.paths import P4
from testbed.systems import SYSTEMS
from testbed.traffic import transformer_times
from testbed.traffic.trace import MODELS_FOLDER
from tests.support.ranks import Ranks
from tests.support.recordings import write_recording
from tests.support.workloads import workload

BASE = {
    "runtime": "runtime: virtual",
    "topology": "topology: {kind: star, hosts: 5}",
    "links": "links: {bandwidth: 10 Gbit/s}",
    "system": "system: ring",
    "jobs": "jobs: [{model: resnet18, workers: 2, iterations: 1}]",
}
KINDS = "models: [{model: mine/m.csv, workers: 2}]"
LOG = (
    "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
    + "".join(
        f"{n},u,v,2,1,1,COMPLETED,2020-06-09 18:{n:02}:00,2020-06-09 19:00:00,"
        f"2020-06-09 20:00:00,500,0\n"
        for n in range(3)
    )
)
TOPOLOGY = """
import json, math
from pathlib import Path
from p4fabric.base.topology import Topology
from parts.names import SWITCH
class Mine(Topology):
    FILES = ("sizes",)
    def __init__(self, sizes: str) -> None:
        self.add_switch(SWITCH)
        self.add_hosts(SWITCH, int(Path(sizes).read_text()))
        extra = json.loads((Path(__file__).parent / "extra.json").read_text())
        self.add_hosts(SWITCH, extra["hosts"])
"""
# key: (sections in place of those of BASE, the files whose content belongs to it)
CASES: dict[str, tuple[dict[str, str], list[str]]] = {
    "SystemOptions.program": (
        {
            "system": "system: {name: esa, program: mine/esa.p4}",
            "memory": "memory: {aggregators: 64}",
        },
        ["mine/esa.p4", "mine/pool.p4", "common/more.p4", "common/never.p4"],
    ),
    "Job.model": (
        {"jobs": "jobs: [{model: mine/m.csv, workers: 2, iterations: 1}]"},
        ["mine/m.csv"],
    ),
    "JobShape.model": (
        {
            "jobs": "",
            "arrivals": "arrivals: {submissions: [{model: mine/r.npz, workers: 2, iterations: 1}]}",
        },
        ["mine/r.npz"],
    ),
    "RankModel.file": (
        {
            "jobs": "jobs:\n  - {model: {file: mine/w.txt}, workers: 2, iterations: 1}"
            "\n  - {model: mine/pair.et, workers: 2, iterations: 1}"
        },
        ["mine/w.txt", "mine/pair.0.et", "mine/pair.1.et", "mine/pair.json"],
    ),
    "Requests.file": (
        {
            "jobs": "jobs: [{model: {transformer: llama3-8b, kind: decode, batch: 2, layers: 1,"
            " requests: {file: mine/asked.csv}}, workers: 2, iterations: 1, parallel: {tp: 2}}]"
        },
        ["mine/asked.csv"],
    ),
    "Experts.counts": (
        {
            "jobs": "jobs: [{model: {transformer: mixtral-8x7b, sequence: 4, global_batch: 2,"
            " layers: 1, experts: {counts: mine/counts.csv}}, workers: 2, iterations: 1,"
            " parallel: {ep: 2}}]"
        },
        ["mine/counts.csv"],
    ),
    "RankModel.times": (
        {
            "jobs": "jobs: [{model: {transformer: llama3-8b, sequence: 2048, global_batch: 1,"
            " times: measured, gpu: h200, layers: 1}, workers: 2, iterations: 1,"
            " parallel: {tp: 2}}]"
        },
        ["layers.csv"],
    ),
    "Arrivals.csv": ({"jobs": "", "arrivals": "arrivals: {csv: mine/a.csv}"}, ["mine/a.csv"]),
    "ClusterTrace.file": (
        {
            "jobs": "",
            "arrivals": "arrivals: {cluster_trace: {file: mine/log.csv, format: helios, jobs: 2,"
            " time_scale: 0.001, models: [{model: resnet18, scale: 0.001}]}}",
        },
        ["mine/log.csv"],
    ),
    "Job.command": (
        {
            "runtime": "",
            "jobs": "jobs: [{command: mine/train.py --with=mine/c.yaml, workers: 2}]",
        },
        ["mine/train.py", "mine/parts/__init__.py", "mine/parts/names.py", "mine/c.yaml"],
    ),
    "topology.class": (
        {"topology": "topology: {class: mine/topo.py:Mine, sizes: mine/sizes.txt}"},
        ["mine/topo.py", "mine/parts/names.py", "mine/sizes.txt", "mine/extra.json"],
    ),
}  # fmt: skip
OF_NETWORKS = {
    "Net.program": ["net.p4"],
    "SwitchSettings.program": ["switch.p4"],
    "Host.class_": ["host.py", "parts/names.py"],
    "Host.commands": ["up.sh"],
    "FlowEntry.packets": ["packets.py"],
    "Check.run": ["look.sh"],
    "Check.start": ["serve.py"],
}
EDITS = {".json": '{"hosts": 3}', ".txt": "4"}  # what cannot have a line more


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """All files that the cases name."""
    here = tmp_path / "first"
    (here / "mine" / "parts").mkdir(parents=True)
    (here / "common").mkdir()
    mine = here / "mine"
    for name in ("esa.p4", "pool.p4"):
        shutil.copy(P4 / name, mine / name)
    with (mine / "esa.p4").open("a") as file:
        file.write(
            '#define MORE "../common/more.p4"\n#include MORE\n'
            '/* #include "no.p4" */\n#ifdef NEVER\n#include "../common/never.p4"\n#endif\n'
        )
    for name in ("more", "never"):
        (here / "common" / f"{name}.p4").write_text(f'#include "{name}.p4"\n')  # itself
    shutil.copy(MODELS_FOLDER / "resnet18.csv", mine / "m.csv")
    write_recording(mine / "r.npz")
    ranks = Ranks(pair=(0, 1))
    for rank in range(2):
        ranks.add(rank, "all_reduce", group="pair", bytes=1000)
    ranks.write(mine / "pair.et")
    (mine / "w.txt").write_text(workload("one 1 ALLREDUCE 8 1 NONE 0 1 NONE 0 1", tp=2, gpus=2))
    (mine / "a.csv").write_text("submit, model, workers, iterations\n0, resnet18, 2, 1\n")
    (mine / "log.csv").write_text(LOG)
    (mine / "asked.csv").write_text("prompt, output\n16, 2\n8, 3\n")
    (mine / "counts.csv").write_text("expert, count\n0, 2\n7, 3\n")
    (mine / "topo.py").write_text(TOPOLOGY)
    (mine / "sizes.txt").write_text("5")
    (mine / "extra.json").write_text('{"hosts": 1}')
    (mine / "parts" / "__init__.py").write_text("")
    (mine / "parts" / "names.py").write_text('SWITCH = "s1"\n')
    (mine / "train.py").write_text("from parts import names\nimport numpy\n")
    (mine / "c.yaml").write_text("rate: 3\n")
    shutil.copy(transformer_times.FILE, here / "layers.csv")
    monkeypatch.chdir(here)  # where relative words of commands start
    monkeypatch.setattr(transformer_times, "FILE", here / "layers.csv")
    return here


def loaded(folder: Path, sections: dict[str, str]) -> Experiment:
    path = folder / "one.yaml"
    path.write_text("\n".join((BASE | sections).values()))
    return load(path)


def edit(file: Path) -> None:
    """Another content, which means something else where that is possible."""
    if file.name == "a.csv":
        file.write_text(file.read_text() + "1 ms, resnet18, 2, 1\n")
    elif file.name in ("extra.json", "sizes.txt"):
        file.write_text(EDITS[file.suffix])
    else:
        mark = {".p4": b"//", ".csv": b"##", ".py": b"#"}.get(file.suffix, b"")
        file.write_bytes(file.read_bytes() + mark + b"\n")


@pytest.mark.parametrize("key", CASES)
def test_an_edited_file_makes_another_experiment(key, folder):
    sections, files = CASES[key]
    original = loaded(folder, sections)
    elsewhere = shutil.copytree(folder, folder.with_name("second"))
    assert loaded(elsewhere, sections).identity == original.identity, "a path is in it"
    for name in files:
        file = folder / name
        content = file.read_bytes()
        edit(file)
        reads_text = name in ("mine/a.csv", "mine/extra.json", "mine/sizes.txt")
        now = loaded(folder, sections) if reads_text else original.noted()
        assert now.identity != original.identity, name
        changed = changes(original.inputs, now.inputs)
        if name not in ("mine/a.csv", "mine/extra.json"):  # what they say is in the experiment
            assert Path(changed[0]).name == file.name or file.name in str(changed), name
        file.write_bytes(content)
    assert original.noted().identity == original.identity


@pytest.mark.parametrize("key", OF_NETWORKS)
def test_a_network_records_what_it_reads(key, tmp_path):
    texts = {"host.py": "import parts.names\n"}
    (tmp_path / "parts").mkdir()
    for name in [name for files in OF_NETWORKS.values() for name in files]:
        (tmp_path / name).write_text(texts.get(name, ""))
    for name in ("net.p4", "switch.p4"):
        shutil.copy(MARKING, tmp_path / name)
    packets = "{from: h1, to: h2, rate: 1 Gbit/s, packets: 'packets.py:P'}"
    text = star(
        "net.p4", 3, f"flows: [{packets}]\n", "program: switch.p4", host={3: "class: 'host.py:H'"}
    )
    if not key.startswith(("Net.", "SwitchS", "Host.class", "FlowE")):
        checks = "checks: [{on: h1, run: sh look.sh}, {on: h1, start: python3 serve.py}]\n"
        text = star("net.p4", 2, checks, host={1: "commands: ['sh up.sh']"})
        text = text.replace("runtime: virtual\n", "")
    (tmp_path / "net.yaml").write_text(text)
    plan = load_network(tmp_path / "net.yaml")
    before = inputs_of(plan)
    for name in OF_NETWORKS[key]:
        with (tmp_path / name).open("a") as file:
            file.write("\n")
        assert changes(read(before), read(inputs_of(plan))) == [name]
        before = inputs_of(plan)


def read(records: list[dict[str, str]]) -> tuple[Input, ...]:
    found = recorded({"inputs": records})
    assert found is not None
    return found


def sections_of(kind: Any, seen: set[Any]) -> Iterator[type[BaseModel]]:
    """All models in an annotation."""
    if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in seen:
        seen.add(kind)
        yield kind
        for info in kind.model_fields.values():
            yield from sections_of(info.annotation, seen)
    for part in get_args(kind):
        yield from sections_of(part, seen)


def test_every_key_that_names_a_file_has_a_case():
    seen: set[Any] = set()
    tops = (ExperimentFile, NetworkFile, *(each.option_model for each in SYSTEMS.values()))
    marked, unmarked = set(), set()
    for model in (each for top in tops for each in sections_of(top, seen)):
        for name, info in model.model_fields.items():
            owner = next(
                each for each in model.__mro__ if name in each.__dict__.get("__annotations__", ())
            )
            key = f"{owner.__name__}.{name}"
            if any(isinstance(each, Reads) for each in info.metadata):
                marked.add(key)
            elif re.search(NAMES, info.description or ""):
                unmarked.add(key)
    assert marked == {*CASES, *OF_NETWORKS} - {"topology.class"}
    assert unmarked == NAME_NO_FILE


NAMES = r"FILE\.py|NAME\.\w+|\b(the path of|[Aa] file|'s file|P4 program|program and its)\b"
# Keys whose description says so, and which name none.
NAME_NO_FILE = {
    "ClusterTrace.format",
    "ExperimentFile.costs",  # one whose content the experiment has
    "ExperimentFile.offload",
    "ExperimentFile.switch",
}


def test_parts_of_the_testbed_are_inputs_by_content(folder):
    found = loaded(folder, {"system": "system: esa", "memory": "memory: {aggregators: 64}"}).inputs
    by_name = {each.name: each for each in found}
    assert {"esa.p4", "pool.p4", "resnet18.csv", "star.py"} <= by_name.keys()
    assert all(len(each.sha256) == 64 for each in found)
    files = [path.name for path in included(P4 / "esa.p4", [P4])]
    assert files[0] == "esa.p4" and files.count("values.p4") == 1 and "core.p4" not in files


@pytest.mark.parametrize("damaged", [None, 3, [3], [{"role": "x"}], [{"role": 1, "name": "b"}]])
def test_results_that_do_not_say_what_they_read_are_not_believed(damaged):
    assert recorded({"inputs": damaged}) is None and recorded({}) is None


def test_changed_inputs_are_named_and_counted():
    assert have_changed(["esa.p4"]) == "esa.p4 has changed since"
    assert have_changed(list("abc")) == "a, b and c have changed since"
    assert have_changed(list("abcde")) == "a, b, c and 2 more have changed since"
    old = (Input("model", "m.csv", "1"), Input("P4 program", "z.p4", "2"))
    new = (Input("model", "m.csv", "3"), Input("P4 program", "z.p4", "4"), Input("x", "y", "5"))
    assert changes(old, new) == ["z.p4", "m.csv", "y"] and inputs.changes(old, old) == []
