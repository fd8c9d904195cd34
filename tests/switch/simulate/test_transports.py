"""Reliable connections in virtual time: marks of queues, losses, and the expected values."""

from __future__ import annotations

import pytest
import yaml

from testbed.experiment import load_text
from tests.support.virtual import run_virtual
from tools import expected_transports
from tools.expected_transports import MARKS, RC, run

ROWS = {row["name"]: row for row in yaml.safe_load(expected_transports.FILE.read_text())["rows"]}
INCAST = f"{RC}, from: [h5, h6, h7], to: h4, congestion_control: "


def test_a_queue_marks_as_many_packets_as_it_is_long():
    """Without a control three senders keep a window each in flight, so the queue is as long as all
    but one of them, and the marks follow from its length."""
    window = "window: 40 packets"
    shares = []
    for least, most in ((200, 400), (10, 150), (2, 20)):
        links = (
            f", ecn_threshold: {least} packets, ecn_max_threshold: {most} packets,"
            " ecn_max_probability: 50 %"
        )
        rows = run([f"{INCAST}none, {window}"], links, compute=0.02)
        assert all(row["lost"] == row["cnps"] == row["cuts"] == 0 for row in rows)
        received = sum(row["packets_received"] for row in rows)
        shares.append(sum(row["marked"] for row in rows) / received)
    none, some, nearly_all = shares
    assert none == 0 and 0.15 < some < 0.35 and nearly_all > 0.9


def test_dcqcn_shares_a_port():
    rows = run([f"{INCAST}dcqcn"], MARKS, compute=0.15)
    rates = [row["mean_bps"] for row in rows]
    assert sum(rates) ** 2 / (3 * sum(rate**2 for rate in rates)) > 0.98
    assert all(0 < row["cuts"] == row["cnps"] <= row["marked"] for row in rows)
    (without,) = run([f"{RC}, from: h5, to: h4, congestion_control: dcqcn"], MARKS, compute=0.02)
    assert without["marked"] == without["cuts"] == without["lost"] == 0


@pytest.mark.parametrize("control", ["dcqcn", "swift"])
def test_flows_arrive_at_the_rates_that_their_control_has_over_time(control):
    given = [f"{INCAST}{control}"], MARKS
    rates = run(*given, compute=0.05, table="rates")
    for flow in run(*given, compute=0.05):
        own = [row["sending_bps"] for row in rates if row["flow"] == flow["flow"]]
        # Packets with their headers; the first ones wait at the port.
        arrived_bps = flow["mean_bps"] * 1078 / (1078 - 42)
        assert 0.9 < arrived_bps / (sum(own) / len(own)) < 1.02


def test_swift_keeps_the_queue_short():
    none, swift = (
        run([f"{INCAST}{name}, window: 400 packets"], compute=0.05) for name in ("none", "swift")
    )
    assert min(row["p50_ns"] for row in none) > 2 * max(row["p50_ns"] for row in swift)
    assert sum(row["mean_bps"] for row in swift) > 0.85 * 40e9


@pytest.mark.parametrize("recovery", ["go_back_n", "selective_repeat"])
@pytest.mark.parametrize("control", ["none", "dcqcn_vendor", "swift"])
def test_bursts_are_whole_in_spite_of_losses(recovery, control):
    links = ", loss: 2 %, duplicate: 2 %, reorder: 2 %, reorder_delay: 3 us"
    keys = f"recovery: {recovery}, ack_every: 4, burst: 50 kB, every: 1 ms, for: 10 ms"
    flow = f"{RC}, from: h5, to: h6, congestion_control: {control}, {keys}"
    (row,) = run([flow], links, compute=0.1)
    packets = -(-50_000 // (1078 - 42))
    assert row["bursts"] == 10 and row["bytes"] == 10 * packets * (1078 - 42)
    assert row["lost"] == row["resent_gap"] + row["resent_timeout"] > 0
    assert row["packets_sent"] == 10 * packets + row["lost"]


STREAMS = """
name: test
runtime: virtual
topology: {kind: leaf_spine, leaves: 2, spines: 1, hosts: 3}
links: {bandwidth: 10 Gbit/s, delay: 2 us, ecn_threshold: 5 packets}
system: {name: %s, marks: %s, window: 64}
memory: {aggregators: 2048}
jobs:
  - {model: resnet18, workers: 2, scale: 0.001, iterations: 1, compute_scale: 0,
     placement: {workers: [h1, h4]}}
  - {model: resnet18, workers: 2, scale: 0.001, iterations: 1, compute_scale: 0,
     placement: {workers: [h2, h5]}}
"""


@pytest.mark.parametrize("system", ["switchml", "tree, mode: quotas"])
def test_windows_of_slots_follow_marks_if_they_are_told_to(system):
    longest, marked = {}, {}
    for marks in ("ignored", "halve"):
        tables = run_virtual(load_text(STREAMS % (system, marks)))
        assert all(job["exact"] for job in tables["jobs"])
        longest[marks] = sum(row["max_queue"] for row in tables["links"])
        marked[marks] = sum(job["marked_results"] for job in tables["jobs"])
    assert marked["ignored"] == 0 < marked["halve"]
    assert longest["halve"] < 0.9 * longest["ignored"]


RING = """
name: test
runtime: virtual
topology: {kind: star, hosts: 4}
links:
  bandwidth: 10 Gbit/s
  delay: 2 us
  queue: 60 packets
  ecn_threshold: 5 packets
  each: [{between: [h4, s1], forward: {bandwidth: 1 Gbit/s}, backward: {bandwidth: 1 Gbit/s}}]
system: {name: ring, window: 256}
transport: {congestion_control: %s}
jobs:
  - {model: resnet18, workers: 4, iterations: 1, scale: 0.0005, compute_scale: 0}
"""


def test_swift_loses_nothing_where_a_ring_of_windows_does():
    (aimd,), (swift,) = (run_virtual(load_text(RING % name))["jobs"] for name in ("aimd", "swift"))
    assert aimd["exact"] and swift["exact"]
    assert aimd["retransmissions"] > 0 == swift["retransmissions"]


@pytest.mark.parametrize("name", ["dcqcn_recovery", "dcqcn_increase", "gbn_loss"])
def test_the_file_has_what_is_measured(name):
    """Of the expected values, those that take little time; whether they hold is in the file."""
    assert ROWS[name]["measured"] == pytest.approx(expected_transports.ROWS[name](), rel=1e-3)
