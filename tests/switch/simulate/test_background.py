"""Background flows in virtual time: what each carries, and that jobs stay exact beside them."""

from __future__ import annotations

import pytest

from testbed.experiment import load_text
from testbed.schemes import set_up
from testbed.simulate.background import _way
from tests.support.fabric import MS
from tests.support.virtual import run_virtual

# The job only computes for most of the run: 100 ms of compute steps.
TEXT = """
name: test
runtime: virtual
topology: {kind: %(topology)s}
links: {bandwidth: 100 Mbit/s, delay: 10 us, queue: 30 packets%(links)s}
system: %(system)s
memory: {aggregators: 64}
jobs:
  - {model: resnet18, workers: 2, iterations: 1, scale: 0.0005, compute_scale: %(compute)s,
     placement: {workers: [h1, h2], ps: h3}}
background:
%(flows)s
"""
STAR = "star, hosts: 8"
FRAME_BITS = 8000
PAYLOAD = 1000 - 66  # TCP's headers with time stamps


def run(*flows, links="", system="esa", topology=STAR, compute=1.5, seed=1):
    listed = "\n".join(f"  - {{{flow}}}" for flow in flows)
    values = {"flows": listed, "links": links, "system": system, "topology": topology,
              "compute": compute}  # fmt: skip
    return run_virtual(load_text(f"seed: {seed}\n{TEXT % values}"))


def rows(tables):
    return {row["name"]: row for row in tables["flows"]}


def test_the_least_timeout_of_a_flow_follows_from_its_path():
    flow = "kind: tcp, from: h5, to: h6"

    def timeout(rate, delay="10 us", latency="1 us"):
        text = TEXT.replace("100 Mbit/s, delay: 10 us", f"{rate}, delay: {delay}")
        values = {"flows": f"  - {{{flow}}}", "links": "", "system": "esa", "topology": STAR,
                  "compute": 1}  # fmt: skip
        virtual = f"virtual: {{switch_latency: {latency}, worker_delay: 5 us}}\n"
        setup = set_up(load_text(virtual + text % values))
        return _way(setup.platform, setup.flows[0]).timeout_ns(1000)

    delay_ns = 2 * 5000 + 2 * 1000 + 4 * 10_000  # hosts; the switch, links there and back
    assert timeout("10 Mbit/s") == 400 * FRAME_BITS * 100 + 4 * delay_ns
    assert timeout("1 Gbit/s") == 400 * FRAME_BITS + 4 * delay_ns
    assert timeout("1 Gbit/s", delay="1 ms") == 400 * FRAME_BITS + 4 * (delay_ns - 40_000 + 4 * MS)


def test_a_constant_rate_is_exact_and_tcp_gets_what_it_leaves():
    found = rows(
        run(
            "kind: udp, name: c, from: h7, to: h6, rate: 30 Mbit/s",
            "kind: tcp, name: t, from: h5, to: h6",
        )
    )
    sent, interval_ns = found["c"]["packets_sent"], FRAME_BITS * 10**9 // 30_000_000
    assert sent - found["c"]["ended_ns"] // interval_ns in (0, 1)  # its phase is drawn
    assert found["c"]["lost"] + found["c"]["packets_received"] == sent
    arrived = found["c"]["packets_received"] / sent
    left = (100e6 - 30e6 * arrived) * PAYLOAD / 1000
    assert arrived > 0.9 and found["t"]["mean_bps"] == pytest.approx(left, rel=0.06)


def test_short_pulses_send_a_packet_each_and_copies_do_not_count_as_arrived():
    """Packets are drawn up to a packet's distance late: 1 ms, with the pulses 0.1 ms long."""
    flow = "kind: udp, rate: 8 Mbit/s"
    found = rows(
        run(
            f"{flow}, name: pulsed, from: h5, to: h6, on: 100 us, off: 900 us",
            f"{flow}, name: steady, from: h7, to: h8",
            links=", duplicate: 20 %",
        )
    )
    for row in found.values():
        assert abs(row["packets_sent"] - row["ended_ns"] / 1e6) <= 2
        different = row["packets_received"] - row["duplicates"]
        assert row["duplicates"] > 10 and row["bytes"] == different * (1000 - 42)
        assert 0 <= row["lost"] == row["packets_sent"] - different <= 1


def test_a_flow_ends_when_it_is_told_to():
    (row,) = run("kind: tcp, from: h5, to: h6, start: 10 ms, for: 20 ms")["flows"]
    assert (row["begun_ns"], row["ended_ns"]) == (10_000_000, 30_000_000)
    assert 0.85 * 20e-3 * 100e6 / 8 < row["bytes"] < 20.5e-3 * 100e6 / 8
    (row,) = run("kind: tcp, from: h5, to: h6, start: 3 s")["flows"]
    assert row["begun_ns"] is None and row["mean_bps"] is None and row["bytes"] == 0


def test_incast():
    # 3 x 50 packets of 80 us come at once to a queue of 30; without losses it would take 12 ms.
    found = rows(
        run("kind: tcp, name: i, from: [h4, h5, h7], to: h6, burst: 46700 B, every: 30 ms")
    )
    assert sum(row["lost"] for row in found.values()) > 0
    for row in found.values():
        assert row["bursts"] >= 2 and row["bytes"] >= 46700 * row["bursts"]
        assert 4e6 < row["burst_mean_ns"] <= row["burst_max_ns"]
    assert max(row["burst_max_ns"] for row in found.values()) > 12e6


def packets_from(tables, host):
    """Packets and bytes that a host has sent."""
    (row,) = (
        row for row in tables["links"]
        if (row["neighbour"], row["direction"]) == (host, "ingress")
    )  # fmt: skip
    return row["packets"], row["bytes"]


def test_every_second_packet_is_acknowledged():
    tables = run("kind: tcp, from: h5, to: h6")
    data, _ = packets_from(tables, "h5")
    answers, size = packets_from(tables, "h6")
    lost = tables["flows"][0]["lost"]
    assert size == 66 * answers
    on_their_way = 40  # a queue of 30, and some more
    assert (data - lost - on_their_way) / 2 <= answers <= data / 2 + 2 * lost


def test_the_end_of_a_burst_is_acknowledged_at_once():
    flow = "kind: tcp, from: h5, to: h6, every: 10 ms, burst: "
    even, odd = (run(f"{flow}{n * PAYLOAD} B")["flows"][0] for n in (4, 5))
    packet_ns = FRAME_BITS * 10  # at 100 Mbit/s
    # On average packets leave 1.5 packets' times apart at most; an answer would wait for 8 ms more.
    assert 0 < odd["burst_mean_ns"] - even["burst_mean_ns"] < 3 * packet_ns
    # One that is not the last waits for the next one, or for a quarter of the shortest timeout.
    alone = run(f"{flow}1 GiB, for: 40 us")
    assert packets_from(alone, "h6")[0] == 1 and alone["flows"][0]["bytes"] == PAYLOAD


@pytest.mark.parametrize("system", ["esa", "atp", "switchml", "{name: ps}"])
def test_jobs_stay_exact_on_the_same_links(system):
    text = TEXT.replace("memory: {aggregators: 64}\n", "") if "ps" in system else TEXT
    if system == "switchml":
        text = text.replace(", ps: h3", "")
    flows = ("  - {kind: tcp, from: h5, to: [h1, h2, h3]}\n"
             "  - {kind: udp, from: [h1, h2], to: [h6], rate: 40 Mbit/s}")  # fmt: skip
    values = {"flows": flows, "links": "", "system": system, "topology": STAR, "compute": 0.2}
    spec = load_text((text % values).replace("scale: 0.0005", "scale: 0.01"))
    quiet = spec.model_copy(update={"background": ()})
    loud, alone = run_virtual(spec), run_virtual(quiet)
    assert "flows" not in alone
    (job,), (before,) = loud["jobs"], alone["jobs"]
    assert job["exact"] and job["values_checked"] == before["values_checked"]
    assert job["jct_ns"] > 1.1 * before["jct_ns"]
    assert all(row["bytes"] > 0 for row in loud["flows"])
