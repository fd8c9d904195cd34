"""An entry of `background` and one of `flows` with the same words are the same traffic."""

from __future__ import annotations

from random import Random

from p4fabric_testing.virtual_networks import MARKING, built, flow, run_text, star

from testbed.experiment import load_text
from testbed.schemes import set_up
from testbed.simulate import background
from tests.support.virtual import run_virtual

EXPERIMENT = """
runtime: virtual
virtual: {steps: exact, switch_latency: 400 ns, worker_delay: 0, worker_jitter: 0}
topology: {kind: star, hosts: 8}
links: {bandwidth: 100 Mbit/s, delay: 1 us}
system: esa
memory: {aggregators: 64}
jobs:
  - {model: resnet18, workers: 2, iterations: 1, scale: 0.0005, compute_scale: 0.5,
     placement: {workers: [h1, h2], ps: h3}}
background:
"""
COUNTED = ("duplicates", "late", "min_ns", "mean_ns", "p50_ns", "p99_ns", "max_ns")
ENDS = [(sender, 4 + (sender - 3) % 5) for sender in range(4, 9)]  # each host of 4 to 8 once


def entry(draw: Random, sender: int, receiver: int) -> str:
    """A flow that ends within 10 ms. The times of its packets are whole ns."""
    text = f"name: f{sender}, kind: udp, from: h{sender}, to: h{receiver}"
    text += f", rate: {draw.choice([10, 20, 40, 80])} Mbit/s, size: {draw.randint(160, 1514)} B"
    text += f", start: {draw.randint(0, 3000)} us, for: {draw.randint(1, 6000)} us"
    if draw.random() < 0.6:
        text += f", on: {draw.randint(1, 900)} us, off: {draw.randint(1, 900)} us"
    return f"  - {{{text}}}\n"


def test_the_same_words_send_the_same_packets(tmp_path):
    draw = Random(63)
    entries = "".join(entry(draw, *ends) for ends in ENDS)
    beside = {row["name"]: row for row in run_virtual(load_text(EXPERIMENT + entries))["flows"]}
    more = f"virtual: {{duration: 20 ms, steps: exact}}\nflows:\n{entries}"
    text = star(MARKING, 8, more, links="bandwidth: 100 Mbit/s, delay: 1 us")
    _, alone = run_text(tmp_path, text)
    assert len(beside) == len(ENDS)
    for name, row in beside.items():
        same = flow(alone, name)
        assert (row["kind"], row["source"], row["target"]) == (
            same["kind"],
            same["from"],
            same["to"],
        )
        assert row["packets_sent"] == same["sent"] > 0 and row["lost"] == same["lost"] == 0
        assert row["packets_received"] == same["received"]
        assert [row[name] for name in COUNTED] == [same[name] for name in COUNTED]


def test_the_least_timeout_is_the_same_on_links_without_a_rate(tmp_path):
    entries = "  - {name: t, kind: tcp, from: h4, to: h5, size: 1000 B}\n"
    text = EXPERIMENT.replace("bandwidth: 100 Mbit/s, ", "") + entries
    setup = set_up(load_text(text))
    beside = background._way(setup.platform, setup.flows[0])
    more = f"virtual: {{duration: 1 ms}}\nflows:\n{entries}"
    network = built(tmp_path, star(MARKING, 8, more, links="delay: 1 us")).network
    (sender,) = network.machines["h4"].tcp.ends
    own_ns = 4 * (beside.round_trip_ns - 4000 - 800)  # what hosts and switches take may differ
    assert beside.timeout_ns(1000) - own_ns == 400 * 8000 + 4 * (4000 + 800)
    assert sender["least_timeout_ns"] == 400 * 8000 + 4 * (4000 + 2 * 400)
