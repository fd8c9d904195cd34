"""`ina import` of programs of ranks, and `ina workload`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from p4fabric.base import units

from testbed.cli.main import main
from testbed.experiment import load
from testbed.traffic import chakra
from testbed.traffic.rank_graph import COMPUTE
from tests.support.paths import ROOT
from tests.support.trace_events import checked
from tests.support.workloads import workload

ROW = "layer 1000 ALLREDUCE 4000 1000 NONE 0 1000 REDUCESCATTER 8000 10"


def made(folder: Path) -> Path:
    path = folder / "work.txt"
    path.write_text(workload(ROW, ROW, tp=2, gpus=8))
    return path


POD = """\
7 2 2 1 8 H100
4 5 6
0 4 2880Gbps 0.000025ms 0
1 4 2880Gbps 0.000025ms 0
2 5 2880Gbps 0.000025ms 0
3 5 2880Gbps 0.000025ms 0
0 6 400Gbps 0.0005ms 0
1 6 400Gbps 0.0005ms 0
2 6 400Gbps 0.0005ms 0
3 6 400Gbps 0.0005ms 0
"""


def test_a_network_of_another_simulator_is_an_experiment_and_can_be_written_back(tmp_path, capsys):
    """The content says what a file is: .txt is a workload, too."""
    pod, out = tmp_path / "pod.txt", tmp_path / "pod.yaml"
    pod.write_text(POD)
    assert main(["import", str(pod), "-o", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "pod.txt is a topology of SimAI: 4 hosts, 3 switches" in printed
    assert "not taken over: the type of the GPUs, H100" in printed
    experiment = load(out)
    assert experiment.topology_object().servers == {"n1": ("h1", "h2"), "n2": ("h3", "h4")}
    rates = [forward.bandwidth_bps for forward, _ in experiment.directions]
    assert rates == [2880 * 10**9] * 4 + [400 * 10**9] * 4
    back = tmp_path / "back.txt"
    assert main(["show", str(out), "--network", str(back)]) == 0
    assert back.read_text() == POD.replace("H100", "GPU")
    capsys.readouterr()
    for words, error in (
        (["import", str(pod), "-o", str(out)], "there already"),
        (["import", str(pod), "--virtual"], "--virtual needs --program"),
        (["import", str(pod), "--replicas", "2"], "--replicas is for programs of ranks"),
        (["show", str(out), "--network", str(back)], "there already"),
        (["show", str(out), "--network", "x.txt", "--json"], "neither --hash nor --json"),
        (["show", str(out), "links.duplicate=1 %", "--network", "x.txt"], "no jitter, duplicate"),
        (["show", str(out), "links.each=[{between: [h1, s1], forward: {loss: 1 %}}]"]
         + ["--network", "x.txt"], "its directions differ"),
    ):  # fmt: skip
        assert main(words) == 2
        assert error in capsys.readouterr().err


def test_a_workload_is_imported_as_traces(tmp_path, capsys):
    path, out = made(tmp_path), tmp_path / "out.et"
    words = ["import", str(path), "--replicas", "2", "--scale", "0.5", "-o", str(out)]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "work.txt is a SimAI workload: 4 ranks" in printed
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
        (["work.txt", "--program", "a.p4"], "--program is for topologies; take it out"),
        (["p4app.json", "--replicas", "2"], "--replicas is for programs of ranks; take it out"),
        (["work.txt", "-o", "out.yaml"], "out.yaml: name traces that end in .et"),
        (["work.txt", "-o", "no/out.et"], "there is no folder"),
        (["work.txt", "--scale", "0"], "found '0'; allowed: a number above 0"),
        (["other.et"], "there is no such trace"),
        (["odd.txt"], "found the policy 'odd'"),
        (["odd.txt"], "(it was taken for a SimAI workload)"),
        (["odd.yaml"], "neither an infrastructure of InfraGraph"),
        (["missing.yaml"], "missing.yaml can't be read"),
    ],
)
def test_what_cannot_be_imported_is_said(words, message, tmp_path, capsys, monkeypatch):
    made(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("odd.txt").write_text("odd\n")
    Path("odd.yaml").write_text("topology: {kind: star, hosts: 2}\n")
    assert main(["import", *words]) == 2
    assert message in capsys.readouterr().err


LLAMA = """
runtime: virtual
topology: {kind: star, hosts: 5}
links: {bandwidth: 100 Gbit/s}
system: %s
memory: {aggregators: 1024}
values_per_packet: 256
jobs:
  - name: llama
    model: {transformer: llama2-7b, sequence: 4096, global_batch: 4, layers: 2, gpu: h100}
    parallel: {tp: 2, dp: 2}
    workers: 4
    iterations: 1
"""


def shown(capsys, *words) -> dict:
    assert main(["workload", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_workload_is_shown_with_its_least_times_before_it_runs(tmp_path, capsys):
    """Of llama2-7b at full size, with two layers: the formulas of docs/workloads.md."""
    file = tmp_path / "llama.yaml"
    file.write_text(LLAMA % "switchml")
    found = shown(capsys, file)
    hidden, tokens, microbatches, layers = 4096, 4096, 2, 2
    activations = microbatches * (4 * layers + 2) * 2 * tokens * hidden
    calls = {(row["groups"], row["dtype"]): row for row in found["calls"]["rows"]}
    assert calls["tp", "bfloat16"]["bytes"] == activations
    assert calls["tp", "bfloat16"]["number"] == 2
    (links, whole) = (
        {row["groups"]: row for row in found["links"]["rows"] if (row["groups"] == "all") == all_}
        for all_ in (False, True)
    )
    # A sum has an int32 for each bfloat16, and 70 bytes of headers for each 256 values.
    frames = activations // 2 / 256 + 3 * microbatches * tokens / 256
    assert links["tp"]["bytes"] == frames * (1024 + 70)
    least = whole["all"]["least_ns"]
    assert whole["all"]["bytes"] == links["tp"]["bytes"] + links["dp"]["bytes"]
    assert least == pytest.approx(whole["all"]["bytes"] * 8 / 100, rel=1e-6)
    times = [row["ns"] for row in found["least"]["rows"]]
    (ranks,) = found["ranks"]["rows"]
    assert times[0] == ranks["compute_ns"] and times[1] == least
    # Calls of tp hold up; those of dp overlap with them in the graph, and share the links.
    assert links["tp"]["least_ns"] < times[2] < times[0] + times[1]
    # The same as a ring of two: 2 (n - 1) / n = 1 for tp and dp.
    file.write_text((LLAMA % "ring").replace("memory: {aggregators: 1024}\n", ""))
    ring = {row["groups"]: row["bytes"] for row in shown(capsys, file)["links"]["rows"]}
    assert ring == {"tp": links["tp"]["bytes"], "dp": links["dp"]["bytes"], "all": sum(
        links[each]["bytes"] for each in ("tp", "dp"))}  # fmt: skip


def test_tokens_per_second_are_those_of_the_least_time_at_full_size(tmp_path, capsys):
    file = tmp_path / "llama.yaml"
    file.write_text(LLAMA % "switchml")
    assert main(["workload", str(file)]) == 0
    printed = capsys.readouterr().out
    assert "4 ranks (tp 2, dp 2)" in printed
    least_ns = max(row["ns"] for row in shown(capsys, file)["least"]["rows"])
    rate = 4 * 4096 / 4 / least_ns * 1e9
    assert f"at most {units.number(round(rate))} tokens/s and rank" in printed
    file.write_text(LLAMA.replace("iterations: 1", "iterations: 1\n    scale: 0.5") % "switchml")
    assert main(["workload", str(file)]) == 0
    assert "tokens/s" not in capsys.readouterr().out


def test_a_workload_file_is_shown_on_links_of_a_rate(tmp_path, capsys):
    path = made(tmp_path)
    found = shown(capsys, path, "--system", "switchml", "--rate", "8 Gbit/s", "--scale", "10")
    # A call of tp has 10,000 values in 40 packets of 1,094 bytes, at 1 byte a nanosecond.
    rows = {row["groups"]: row for row in found["links"]["rows"]}
    assert rows["tp"]["bytes"] == rows["tp"]["least_ns"] == 2 * 40 * 1094
    assert found["ranks"]["rows"][0]["compute_ns"] == 60_200


def test_a_layer_by_layer_job_is_shown_too(tmp_path, capsys):
    text = LLAMA[: LLAMA.index("  - name")] % "switchml"
    file = tmp_path / "small.yaml"
    job = "  - {name: %s, model: alexnet, workers: 2, iterations: 1, scale: 0.5, gpu: v100}\n"
    file.write_text(text + job % "one" + job % "two")
    found = shown(capsys, file, "--job", "two")
    (row,) = found["calls"]["rows"]
    assert (row["groups"], row["operation"], row["calls"]) == ("dp", "all_reduce", 8)
    assert row["bytes"] == 4 * round(61_100_840 / 2)


def test_a_rank_is_drawn_and_the_program_written(tmp_path, capsys):
    file, picture, out = (tmp_path / name for name in ("l.yaml", "rank.pdf", "out.et"))
    text = LLAMA.replace("tp: 2", "pp: 2").replace(
        "iterations: 1", "iterations: 1\n    scale: 0.01"
    )
    file.write_text(text % "switchml")
    assert (
        main(["workload", str(file), "--figure", str(picture), "--rank", "3", "-o", str(out)]) == 0
    )
    printed = capsys.readouterr().out
    assert str(picture) in printed and str(picture.with_suffix(".png")) in printed
    assert picture.stat().st_size > 1000 and picture.with_suffix(".png").stat().st_size > 1000
    program = chakra.load(out)
    assert len(program.ranks) == 4 and set(program.groups) == {"dp.0", "dp.1"}
    kinds = {node.kind for node in program.ranks[0]}
    assert kinds == {"compute", "send", "recv", "all_reduce"}


def test_the_graphs_of_all_ranks_are_a_trace(tmp_path, capsys):
    file, out = tmp_path / "l.yaml", tmp_path / "ranks.json"
    file.write_text(LLAMA % "ring" if "memory" not in LLAMA else LLAMA % "switchml")
    assert main(["workload", str(file), "--perfetto", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    events = checked(out)
    named = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert named == [f"rank {rank}" for rank in range(4)]
    lanes = {event["cat"] for event in events if event["ph"] == "b"}
    assert {"compute", "tp", "dp"} <= lanes
    last = max(event["ts"] for event in events if event["ph"] == "e")
    assert last > 0


@pytest.mark.parametrize(
    "words, message",
    [
        (["llama.yaml", "--perfetto", "a.txt"], "a.txt: name a file that ends in .json"),
        (["llama.yaml", "--rank", "4"], "--rank 4: the program has ranks 0 to 3"),
        (["llama.yaml", "--job", "other"], "--job: found 'other'; the jobs are llama"),
        (["llama.yaml", "--rate", "1 Gbit/s"], "--rate is for workload files"),
        (["llama.yaml", "--figure", "a.txt"], "a.txt: name a file that ends in .pdf or .png"),
        (["work.txt", "--system", "other"], "--system: found 'other'; allowed: "),
        (["work.txt", "--job", "a"], "--job is for experiments; take it out"),
        (["work.txt", "--rate", "1"], "links.bandwidth: found 1"),
        (["program.yaml"], "job is a program, whose calls are known when it runs; record them"),
        (["two.yaml"], "two.yaml: name one of its jobs with --job: a, b"),
    ],
)
def test_what_cannot_be_shown_is_said(words, message, tmp_path, capsys, monkeypatch):
    made(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("llama.yaml").write_text(LLAMA % "esa")
    head = LLAMA[: LLAMA.index("  - name")] % "ring"
    head = head.replace("memory: {aggregators: 1024}\n", "")
    Path("program.yaml").write_text(
        head.replace("runtime: virtual\n", "").replace(
            "bandwidth: 100 Gbit/s", "bandwidth: 1 Gbit/s"
        )
        + "  - {name: job, command: 'true', workers: 2}\n"
    )
    job = "  - {name: %s, model: alexnet, workers: 2, iterations: 1}\n"
    Path("two.yaml").write_text(head + job % "a" + job % "b")
    assert main(["workload", *words]) == 2
    assert message in capsys.readouterr().err


def test_the_page_has_what_the_command_prints(tmp_path, capsys):
    text = (ROOT / "experiments" / "llama.yaml").read_text()
    file = tmp_path / "llama.yaml"
    file.write_text(text.replace("scale: 0.001", "scale: 1"))
    assert main(["workload", str(file)]) == 0
    printed = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    shown = printed[printed.index("Bytes on links") :].strip()
    assert shown in (ROOT / "docs" / "workloads.md").read_text()
