"""`ina report --perfetto`: a trace keeps the rules of its format, and says what the tables say."""

from __future__ import annotations

from collections import Counter

import pytest

from testbed.cli import main as commands
from testbed.results import find, read
from tests.support.trace_events import checked

TEXT = """
name: traced
runtime: virtual
seed: 3
topology: {kind: star, hosts: 9}
links: {bandwidth: 1 Gbit/s, delay: 5 us}
system: {name: esa, window: 64}
memory: {aggregators: 24}
jobs:
  - {name: a, model: resnet50, workers: 3, iterations: 2, scale: 0.002, compute_scale: 0.01}
  - {name: b, model: vgg16, workers: 3, iterations: 2, scale: 0.0005, compute_scale: 0.01}
faults:
  - {at: 1 ms, fault: pause, job: a, worker: 1, for: 10 ms}
background:
  - {name: beside, from: h9, to: h1, kind: udp, rate: 10 Mbit/s}
"""


def ran(tmp_path, text=TEXT):
    path = tmp_path / "traced.yaml"
    path.write_text(text)
    assert commands.main([str(path), "--results", str(tmp_path), "--no-report"]) == 0
    folder = find(tmp_path)[-1]
    assert commands.main(["report", str(folder), "--perfetto"]) == 0
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = ran(tmp_path_factory.mktemp("perfetto"))
    return read(folder), checked(folder / "perfetto.json")


def named(events: list[dict]) -> dict[int, str]:
    return {
        event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"
    }


def test_workers_switches_faults_and_flows_are_processes(run):
    _, events = run
    assert set(named(events).values()) == {
        *(f"a worker {n} on h{n + 1}" for n in range(3)),
        *(f"b worker {n} on h{n + 5}" for n in range(3)),
        *("switch s1", "faults", "background traffic"),
    }


def test_computing_and_waiting_fill_a_workers_time(run):
    results, events = run
    names = named(events)
    for (job, worker), rows in results.iterations.groupby(["job", "worker"]):
        title = f"{'ab'[job]} worker {worker} "
        (process,) = (number for number, name in names.items() if name.startswith(title))
        slices = [event for event in events if event["ph"] == "X" and event["pid"] == process]
        total = sum(round(1000 * event["dur"]) for event in slices)
        assert total == rows.compute_end_ns.max() - rows.start_ns.min()
        kinds = Counter(event["name"].split()[0] for event in slices)
        tensors = results.tensors[(results.tensors.job == job) & (results.tensors.worker == worker)]
        assert kinds["forward"] == len(tensors) and 0 < kinds["backward"] <= len(tensors)
        assert kinds["wait"] > 0


def test_tensors_are_in_flight_as_the_table_says(run):
    results, events = run
    begun = [event for event in events if event.get("cat") == "tensors in flight"]
    sent = results.tensors[results.tensors.first_sent_ns.notna() & results.tensors.done_ns.notna()]
    found = Counter((event["ph"], round(1000 * event["ts"])) for event in begun)
    assert found == Counter(
        [*(("b", int(t)) for t in sent.first_sent_ns), *(("e", int(t)) for t in sent.done_ns)]
    )


def test_memory_queues_and_faults_are_there(run):
    results, events = run
    counters = {event["name"] for event in events if event["ph"] == "C"}
    assert {"filling, all jobs", "held, a", "filling, b", "preemptions", "queue to h4"} <= counters
    total = [
        event["args"]["aggregators"] for event in events if event["name"] == "filling, all jobs"
    ]
    whole = results.memory[results.memory.job.isna()]
    assert total == whole.occupied.tolist() and max(total) > 0
    (pause,) = [event for event in events if event.get("cat") == "faults" and event["ph"] == "b"]
    assert pause["ts"] == 1000 and pause["name"] == "pause worker 1 of job a"
    assert [event["name"] for event in events if event.get("cat") == "flows"] == ["beside"] * 2


def test_repetitions_have_files_of_their_own(tmp_path):
    folder = ran(tmp_path, TEXT + "repetitions: 2\n")
    assert sorted(path.name for path in folder.glob("*.json") if "perf" in path.name) == [
        *("perfetto-0.json", "perfetto-1.json"),
    ]
    assert checked(folder / "perfetto-0.json") != checked(folder / "perfetto-1.json")


def test_what_is_no_run_is_refused(tmp_path, capsys):
    assert commands.main(["report", str(tmp_path), "--perfetto"]) == 2
    assert commands.main(["report", str(tmp_path), "--perfetto", "--json"]) == 2
    assert "not allowed with argument" in capsys.readouterr().err
