"""Queues of networks in virtual time have the lengths and the waiting times of the theory."""

from __future__ import annotations

import math
import statistics

import pytest
from p4fabric_testing.virtual_networks import MARKING, flow, port, run_text, star

SERVICE_NS = 100  # 1250 B at 100 Gbit/s


def with_fast_senders(text: str, receiver: int) -> str:
    """Only the receiver's link has a rate, so that all waiting is in front of it."""
    lines = text.splitlines()
    for place, line in enumerate(lines):
        if "between:" in line and f"[h{receiver}," not in line:
            lines[place] = line.replace("bandwidth: 100 Gbit/s, ", "")
    return "\n".join(lines) + "\n"


def waiting_ns(tmp_path, share: float, seed: int, duration: str) -> tuple[float, float]:
    """Mean waiting time, and mean number of packets that wait, of a Poisson process with this share
    of the link."""
    more = (
        f"virtual: {{duration: {duration}, seed: {seed}, sample: 1 us, switch_latency: 0}}\n"
        f"flows: [{{name: f, from: h1, to: h2, size: 1250 B, gaps: exponential,"
        f" packet_rate: {share / SERVICE_NS * 1e9}}}]\n"
    )
    _, found = run_text(tmp_path, with_fast_senders(star(MARKING, 2, more), 2))
    mean_ns = flow(found, "f")["mean_ns"] - 2000 - SERVICE_NS
    return mean_ns, port(found, "s1", 2, "egress")["queue_mean"]


def agrees(values: list[float], expected: float, within: float) -> None:
    """The mean of independent values is within four standard errors, and these are small."""
    error = statistics.stdev(values) / math.sqrt(len(values))
    assert error < within * expected, (values, expected)
    assert abs(statistics.mean(values) - expected) < 4 * error, (values, expected)


@pytest.mark.parametrize(
    ("share", "seeds", "duration", "within"),
    [
        (0.5, 8, "4 ms", 0.03),
        pytest.param(0.8, 12, "10 ms", 0.01, marks=pytest.mark.slow),
        pytest.param(0.95, 12, "40 ms", 0.03, marks=pytest.mark.slow),
    ],
)
def test_waiting_and_length_of_an_m_d_1_queue(tmp_path, share, seeds, duration, within):
    """Pollaczek and Khinchine: W = share / (2 (1 - share)) services, and Little: L = rate x W."""
    found = [waiting_ns(tmp_path, share, seed, duration) for seed in range(1, seeds + 1)]
    services = share / (2 * (1 - share))
    agrees([wait for wait, _ in found], services * SERVICE_NS, within)
    agrees([length for _, length in found], share * services, 2 * within)


@pytest.mark.parametrize("packets", [1, 2, 33, 1000])
def test_a_burst_of_two_senders_waits_as_long_as_the_sum_says(tmp_path, packets):
    """Two packets come in each service time and one leaves: packet i of the queue, from 0, waits
    ceil(i / 2) services, of which the mean over 2 n packets is n / 2."""
    more = (
        "virtual: {duration: 1 ms, switch_latency: 0, steps: exact}\n"
        "flows:\n"
        "  - {name: f, from: [h1, h2], to: h3, size: 1250 B, rate: 1 Gbit/s,"
        f" packet_burst: {packets}, count: {packets}}}\n"
    )
    _, found = run_text(tmp_path, star(MARKING, 3, more))
    rows = [flow(found, "f-h1-h3"), flow(found, "f-h2-h3")]
    # A packet waits for its own predecessors at the sender, too: i services for packet i.
    base = 2000 + 2 * SERVICE_NS + SERVICE_NS * (packets - 1) / 2
    mean = sum(row["mean_ns"] for row in rows) / 2 - base
    assert mean == pytest.approx(packets * SERVICE_NS / 2, abs=1e-6)
    assert max(row["max_ns"] for row in rows) == 2000 + SERVICE_NS * (2 * packets + 1)
    assert port(found, "s1", 3, "egress")["queue_max"] in (packets, packets + 1)


def test_a_lasting_incast_fills_the_queue_and_loses_half(tmp_path):
    more = (
        "virtual: {duration: 500 us, switch_latency: 0, steps: exact}\n"
        "flows: [{name: f, from: [h1, h2], to: h3, size: 1250 B, rate: 100 Gbit/s}]\n"
    )
    text = star(MARKING, 3, more, links="bandwidth: 100 Gbit/s, delay: 1 us, queue: 64 packets")
    _, found = run_text(tmp_path, text)
    rows = [flow(found, "f-h1-h3"), flow(found, "f-h2-h3")]
    sent, received = (sum(row[key] for row in rows) for key in ("sent", "received"))
    assert sent == 2 * 5000
    # What was in the queue at the end comes, too, and the packet on the wire, unless it leaves the
    # queue in the moment of the last arrivals.
    assert received in (4999 + 64, 5000 + 64)
    longest_ns = max(row["max_ns"] for row in rows)
    assert longest_ns in (2000 + (2 + 63) * SERVICE_NS, 2000 + (2 + 64) * SERVICE_NS)
    egress = port(found, "s1", 3, "egress")
    assert egress["queue_max"] == 64 and egress["queue_drops"] == sent - received
    [drops] = found["drops"]
    assert (drops["switch"], drops["port"], drops["cause"]) == ("s1", 3, "queue full (egress)")
    assert drops["packets"] == sent - received


def test_programs_see_the_depth_and_mark_what_waited(tmp_path):
    more = (
        "virtual: {duration: 100 us, steps: exact}\n"
        "flows:\n"
        "  - {name: f, from: [h1, h2], to: h3, size: 1250 B, rate: 1 Gbit/s, packet_burst: 100,"
        " count: 100, ecn: ect0}\n"
        "  - {name: deaf, from: h2, to: h1, size: 1250 B, rate: 1 Gbit/s, packet_burst: 9,"
        " count: 9}\n"
        "readings: [{register: 'deepest[3]', of: s1, at: 100 us}]\n"
    )
    run, found = run_text(tmp_path, star(MARKING, 3, more))
    marked = sum(flow(found, name)["marked"] for name in ("f-h1-h3", "f-h2-h3"))
    # A queue grows by one in each service, and two packets come in it; 20 is the threshold.
    assert marked == pytest.approx(2 * (100 - 20), abs=2)
    assert flow(found, "deaf")["marked"] == 0
    most = port(found, "s1", 3, "egress")["queue_max"]
    assert run.readings[0]["value"] in (most, most - 1)


def test_the_higher_priority_does_not_wait(tmp_path):
    more = (
        "virtual: {duration: 200 us, switch_latency: 0, steps: exact}\n"
        "flows:\n"
        "  - {name: high, from: h1, to: h3, size: 1250 B, rate: 40 Gbit/s, dscp: 8}\n"
        "  - {name: low, from: h2, to: h3, size: 1250 B, rate: 100 Gbit/s}\n"
    )
    _, found = run_text(tmp_path, star(MARKING, 3, more, switch="priority_queues: 2"))
    high, low = flow(found, "high"), flow(found, "low")
    assert high["max_ns"] <= 2000 + 3 * SERVICE_NS  # behind at most one packet on the wire
    assert low["throughput_bps"] < 80e9 and low["max_ns"] > 50_000
    rows = {row["priority"]: row for row in found["priorities"] if row["port"] == 3}
    assert rows[1]["packets"] == high["received"] and rows[0]["max_queue"] > 100
