"""Served models in virtual time: sums under loss, and times of requests."""

from __future__ import annotations

import os
from itertools import pairwise, product

import pytest
from p4fabric_testing.matrix import first_of

from testbed.analysis.data.run_summary import jobs
from testbed.experiment import load_text
from testbed.results import read
from testbed.traffic import rank_source
from tests.support.experiments import memory_line
from tests.support.ina import ina
from tests.support.virtual import run_virtual

EXPERIMENT = """
name: served
runtime: virtual
topology: {kind: star, hosts: %d}
links: {bandwidth: 100 Gbit/s, delay: 1 us%s}
system: %s
%s
values_per_packet: 256
jobs:
  - name: chat
    model:
      transformer: %s
      kind: %s
      layers: 2
      gpu: h100
      batch: 2
      requests: {count: 3, prompt: {from: 1, to: 9}, output: {from: 1, to: 3}}%s
    parallel: {tp: %d, ep: %d, pp: %d}
    workers: %d
    iterations: %d
    scale: %s
    compute_scale: 1
"""
WAYS = [
    *[("serve", 2, 1, 2), ("serve", 2, 2, 2), ("decode", 2, 1, 1), ("prefill", 1, 1, 2)],
    *[("serve", 4, 1, 1), ("decode", 2, 2, 1), ("prefill", 2, 2, 1)],
]


def text(kind="serve", tp=2, ep=1, pp=1, system="switchml", links="", iterations=1, scale="0.01"):
    model, experts, ranks = "llama3-8b", "", tp * ep * pp
    if ep > 1:
        calls = "sets" if system == "ring" else "packets"
        model, experts = "mixtral-8x7b", f"\n      experts: {{calls: {calls}}}"
    sizes = experts, tp, ep, pp, ranks, iterations, scale
    return EXPERIMENT % (ranks + 1, links, system, memory_line(system, 1024), model, kind, *sizes)


def steps_of(tables, iteration, worker):
    """(node, kind, start, end) of a rank."""
    rows = tables["steps"]
    names = ("node", "kind", "start_ns", "end_ns")
    chosen = (rows["iteration"] == iteration) & (rows["worker"] == worker)
    return list(zip(*(rows[name][chosen].tolist() for name in names), strict=True))


@pytest.mark.parametrize("system", first_of(["switchml", "esa", "tree", "ring"], 2))
@pytest.mark.parametrize(("kind", "tp", "ep", "pp"), first_of(WAYS, 2))
def test_requests_are_answered_by_right_sums_when_the_last_stage_has_made_their_tokens(
    kind, tp, ep, pp, system
):
    spec = load_text(text(kind, tp, ep, pp, system, ", loss: 1 %", iterations=2))
    tables = run_virtual(spec)
    (job,) = tables["jobs"]
    assert job["exact"] and job["model"] in ("llama3-8b", "mixtral-8x7b")
    source = rank_source.of(spec.jobs[0].trace().ranks)
    rows = tables["requests"]
    assert [(row["iteration"], row["request"]) for row in rows] == [
        (iteration, number) for iteration in range(2) for number in range(3)
    ]
    for iteration, place in product(range(2), range(ep)):
        steps, answered = source.inference.schedules[place]
        last = steps_of(tables, iteration, ((pp - 1) * ep + place) * tp)
        # The head's computation is the last one of a step; with tp, its logits are gathered then.
        ends = [end for _, kind, _, end in last if kind == "all_gather"]
        if tp == 1:
            computes = [end for _, kind, _, end in last if kind == "compute"]
            ends = computes[2::3]  # of a layer, which the stage has: attention and MLP; the head
        assert len(ends) == sum(bool(step.new) for step in steps)
        firsts = (steps_of(tables, iteration, each * tp) for each in range(ep))
        begin = min(start for first in firsts for _, _, start, _ in first)
        moments = [begin, *ends]
        busy = [
            sum(
                end - start
                for stage in range(pp)
                for _, kind, start, end in steps_of(tables, iteration, (stage * ep + place) * tp)
                if kind == "compute" and before <= start and end <= after
            )
            for before, after in pairwise(moments)
        ]
        for row, times in zip(rows[3 * iteration :][place:3:ep], answered, strict=True):
            assert row["sent_ns"] == moments[times.sent + 1]
            assert row["first_ns"] == moments[times.first + 1]
            assert row["end_ns"] == moments[times.last + 1]
            assert row["compute_ns"] == sum(busy[times.sent + 1 : times.last + 1])


def test_keys_of_prompts_travel_beside_decoding():
    """As many bytes as their formula says, from the ranks that read prompts, and right sums."""
    changed = text("decode", links=", loss: 1 %", scale="1").replace("workers: 2", "workers: 4")
    changed = changed.replace("hosts: 3", "hosts: 5")
    spec = load_text(changed.replace("batch: 2", "batch: 1\n      transfers: yes"))
    tables = run_virtual(spec)
    source = rank_source.of(spec.jobs[0].trace().ranks)
    prompts = sum(each.prompt for each in source.inference.requests)
    rows = [row for row in tables["collectives"] if row["collective"] == "send"]
    # Two layers' keys and values of 1,024 numbers each, and two requests for more.
    assert sum(row["bytes"] for row in rows) == 2 * 4 * 1024 * prompts + 2 * 2 * 4
    assert len(tables["requests"]) == 3 and tables["jobs"][0]["exact"]
    assert all(row["sent_ns"] < row["first_ns"] <= row["end_ns"] for row in tables["requests"])


def test_requests_come_at_their_times_and_wait_for_places(tmp_path):
    """Steps are found by simulations before the run, and the results' file runs again as it is."""
    path, asked = tmp_path / "open.yaml", tmp_path / "asked.csv"
    arrivals = [40, 41, 42, 30_000]  # of which two wait for the others, and the last one for nobody
    asked.write_text(
        "prompt, output, arrival_us\n"
        + "".join(f"9, {n + 2}, {a}\n" for n, a in enumerate(arrivals))
    )
    changed = text(scale="1").replace("workers: 2", "workers: 3").replace("hosts: 3", "hosts: 4")
    first, rest = changed.split("      requests: ")
    changed = f"{first}      requests: {{file: asked.csv}}\n{rest.partition(chr(10))[2]}"
    found = []
    for name in ("first", "again"):
        path.write_text(changed)
        done = ina(
            path, "--results", tmp_path / name, "--no-report", env={**os.environ, "INA_LAWS": "1"}
        )
        assert done.returncode == 0, done.stderr
        (folder,) = (tmp_path / name).iterdir()
        changed = (folder / "experiment.yaml").read_text()
        results = read(folder)
        rows, job = results.requests, results.jobs.iloc[0]
        assert [(sent - job.start_ns) // 1000 for sent in rows.sent_ns] == arrivals
        assert list(rows.waited_ns > 0) == [False, True, True, False]
        (computed,) = jobs(results).computation_ns  # clients wait between their requests
        assert computed == job.compute_ns and computed < 30_000_000
        (listed,) = results.experiment["jobs"]
        steps = [job.start_ns + each for each in listed["model"]["requests"]["steps"]]
        assert {*rows.first_ns, *rows.end_ns} <= {*steps}
        found.append((rows.to_dict("records"), steps))
    assert found[0] == found[1]


PAUSE = "{at: 1 us, fault: pause, job: chat, worker: 2, for: 10 ms}"


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("iterations: 1", "iterations: 2", "requests with times of arrival need"),
        ("compute_scale: 1", "compute_scale: 2", "need compute_scale: 1"),
        ("kind: serve", "kind: decode, transfers: yes", "transfers: found with times of arrival"),
        ("rate: 9", "steps: [3]", "requests.steps: found without times of arrival"),
        ("rate: 9", "rate: 9, steps: [3, 2]", "each larger than the one before"),
        ("runtime: virtual", "runtime: mininet", "need runtime: virtual"),
        ("jobs:", f"faults: [{PAUSE}]\njobs:", "it is of worker 2, which stands for clients"),
    ],
)
def test_what_open_loops_cannot_have_is_told(old, new, said):
    changed = (
        text(scale="1").replace("count: 3", "count: 3, rate: 9").replace("workers: 2", "workers: 3")
    )
    changed = changed.replace("hosts: 3", "hosts: 4")
    new = new.replace(", transfers", "\n      transfers")
    with pytest.raises(Exception, match=said):
        load_text(changed.replace(old, new))


def test_a_check_that_does_not_hold_fails_the_run_and_the_sweep(tmp_path):
    checks = '      checks: {p99 tpot: "<= %s", network share: "> 1 %%"}\n    parallel'
    path = tmp_path / "served.yaml"
    for limit, code in (("1 s", 0), ("1 ns", 1)):
        path.write_text(text().replace("    parallel", checks % limit))
        done = ina(path, "--results", tmp_path, "--no-report")
        assert done.returncode == code, done.stderr
        assert f"p99 tpot <= {limit}" in done.stdout and "network share > 1 %" in done.stdout
        assert ("check failed: job chat: p99 tpot <= 1 ns; found" in done.stderr) == bool(code)
    (*_, folder) = sorted(each for each in tmp_path.iterdir() if each.is_dir())
    assert len(read(folder.resolve()).requests) == 3
    path.write_text(path.read_text() + 'sweep: {"jobs[0].scale": [0.01]}\n')
    done = ina(path, "--results", tmp_path, "--no-report")
    assert done.returncode == 1 and "p99 tpot <= 1 ns; found" in done.stderr
