"""`ina import` of programs of ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.cli.main import main
from testbed.traffic import chakra
from testbed.traffic.rank_graph import COMPUTE
from tests.support.workloads import workload

ROW = "layer 1000 ALLREDUCE 4000 1000 NONE 0 1000 REDUCESCATTER 8000 10"


def made(folder: Path) -> Path:
    path = folder / "work.txt"
    path.write_text(workload(ROW, ROW, tp=2, gpus=8))
    return path


def test_a_workload_is_imported_as_traces(tmp_path, capsys):
    path, out = made(tmp_path), tmp_path / "out.et"
    words = ["import", str(path), "--replicas", "2", "--scale", "0.5", "-o", str(out)]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "work.txt, 4 ranks, a slice of 8 GPUs: 2 of 4 replicas" in printed
    assert f"{tmp_path}/out.0.et to out.3.et" in printed
    program = chakra.load(out)
    assert program.groups == {"tp.0": (0, 1), "tp.1": (2, 3), "dp.0": (0, 2), "dp.1": (1, 3)}
    calls = [(node.kind, node.bytes) for node in program.ranks[0] if node.kind != COMPUTE]
    assert calls == [("all_reduce", 2000)] * 2 + [("reduce_scatter", 4000)] * 2
    assert program.ranks[3][0].duration_ns == 500
    # The traces are imported in their turn, and nothing is overwritten.
    assert main(["import", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["program"] == program.about["title"]
    assert found["calls"]["rows"] == [
        {
            **{"groups": "dp", "number": 2, "size": 2, "operation": "reduce_scatter"},
            **{"dtype": None, "calls": 2, "bytes": 8000},
        },
        {
            **{"groups": "tp", "number": 2, "size": 2, "operation": "all_reduce"},
            **{"dtype": None, "calls": 2, "bytes": 4000},
        },
    ]
    assert found["ranks"]["rows"] == [
        {"ranks": "0-3", "compute_ns": 3010, "collectives": 4, "sends": 0, "bytes": 12000}
    ]
    assert main(words) == 2
    assert "out.0.et is there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, message",
    [
        (["work.txt", "--stage", "1"], "work.txt, line 1: is of stage 0, and not of 1"),
        (["work.txt", "--program", "a.p4"], "--program is for a p4app.json; take it out"),
        (["p4app.json", "--replicas", "2"], "--replicas is for programs of ranks; take it out"),
        (["work.txt", "-o", "out.yaml"], "out.yaml: name traces that end in .et"),
        (["work.txt", "-o", "no/out.et"], "there is no folder"),
        (["work.txt", "--scale", "0"], "found '0'; allowed: a number above 0"),
        (["other.et"], "there is no such trace"),
    ],
)
def test_what_cannot_be_imported_is_said(words, message, tmp_path, capsys, monkeypatch):
    made(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["import", *words]) == 2
    assert message in capsys.readouterr().err
