"""Fidelity of a run's results: the compared numbers and their limits."""

from testbed.results import read
from testbed.results.fidelity import broken, still_row, wait_rows
from testbed.results.fidelity import rows as fidelity_rows
from tests.support.synthetic_results import write_run


def test_a_degraded_run_says_why(tmp_path):
    results = read(write_run(tmp_path, stretches=(1.0, 1.0), cpu=0.9))
    assert results.fidelity == "degraded"
    assert results.reasons == ["cpu peak share 0.9, limit 0.8, at host h1 (and 5 more)"]
    assert results.notice.startswith("DEGRADED: cpu peak share 0.9")


def test_fidelity_rows_by_hand():
    job = {"job": 0, "jct_ns": 1000, "iterations": 2}
    host = {
        "host": "h1",
        "role": "worker",
        "job": 0,
        "socket_drops": 1,
        "cpu_peak_share": 0.8,
        "lag_p99_ns": 6,
    }
    link = {"node": "s1", "port": 2, "direction": "egress", "unmodelled_drops": None}
    found = fidelity_rows([job], [host], [link], {"s1": 0.81}, {"s1": 9.0})
    assert [(row["name"], row["measure"], row["value"], row["ok"]) for row in found] == [
        ("h1", "socket drops", 1, False),
        ("h1", "cpu peak share", 0.8, True),
        ("h1", "lag p99 / iteration", 0.012, False),
        ("s1-eth2 egress", "unmodelled drops", None, False),
        ("s1", "cpu peak share", 0.81, False),
        ("s1", "waited for a processor", 9.0, False),
    ]
    assert [row["limit"] for row in found] == [0, 0.8, 0.01, 0, 0.8, 1]
    assert "unmodelled drops could not be measured, limit 0, at link s1-eth2 egress" in broken(
        found
    )


def test_a_standstill_counts_beyond_what_was_planned():
    found = [
        still_row("host", "h1", 3_000_000_000),
        still_row("host", "h2", 2_050_000_000, 2_000_000_000),
        still_row("host", "h3", 2_000_000_000, 2_100_000_000),
        still_row("run", "runner", 999_000_000),
    ]
    assert [(row["value"], row["ok"]) for row in found] == [
        (3, False), (0.05, True), (0, True), (0.999, True)
    ]  # fmt: skip
    assert broken(found) == ["seconds of standstill 3, limit 0.1, at host h1"]


def test_waits_are_compared_with_the_window():
    worker = {"host": "h1", "role": "worker", "job": 0, "wait_mean_ns": 80}
    server = {"host": "h2", "role": "ps", "job": 0, "wait_mean_ns": 50}
    other = {"host": "h3", "role": "worker", "job": 1, "wait_mean_ns": 100}
    shorter, strange = server | {"wait_mean_ns": 10}, server | {"job": 1, "wait_mean_ns": 900}
    switches = [{"switch": "s1", "wait_mean_ns": 20}, {"switch": "s2", "wait_mean_ns": 10}]
    hosts = [worker, server, shorter, strange, other]
    found = wait_rows(hosts, switches, {0: 10_000, 1: None})
    assert [(row["name"], row["value"], row["ok"]) for row in found] == [("h1", 0.025, True)]
    unknown = server | {"wait_mean_ns": None}
    assert wait_rows([worker, unknown], switches, {0: 200})[0]["value"] == 1
    worker["wait_mean_ns"] = 81
    found = wait_rows([worker, server], switches, {0: 10_000})
    assert not found[0]["ok"] and "wait / window 0.0252, limit 0.025, at host h1" in broken(found)
    silent = [{"switch": "s1", "wait_mean_ns": None}]
    assert wait_rows([worker, server], silent, {0: 10_000}) == []
