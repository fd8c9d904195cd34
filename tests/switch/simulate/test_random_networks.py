"""Random networks with links of random delays: whatever the order in which events are handled, one
after the other, in turns, or in parts, every node ends in the same state."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.simulate import parts, turns
from testbed.simulate.event_queue import NEVER
from tests.support.event_orders import (
    assert_equal,
    ended,
    everything,
    go_on_until,
    in_order,
    started,
)
from tests.support.experiments import memory_line
from tests.support.matrix import first_of

SYSTEMS = ("esa", "switchml", "atp", "{name: grid, memory: esa}", "ps", "ring")
DELAYS_NS = (200, 350, 1000, 1001, 2500, 20_000)
SHORT_NS = (0, 1, 60)  # switches so near each other are in one part


def drawn(seed: int) -> str:
    """An experiment on a tree of two to six switches, with some more links between them."""
    draw = np.random.default_rng(seed)
    switches = [f"s{number + 1}" for number in range(draw.integers(2, 7))]
    links = []

    def link(a: str, b: str, *delays: int) -> None:
        each = [f"{name}: {{delay: {draw.choice(delays)} ns}}" for name in ("forward", "backward")]
        links.append(f"{{between: [{a}, {b}], {', '.join(each)}}}")

    for number, switch in enumerate(switches[1:], 1):
        short = SHORT_NS if draw.random() < 0.3 else ()
        link(switches[draw.integers(number)], switch, *DELAYS_NS, *short)
    for _ in range(draw.integers(0, 3)):
        a, b = draw.choice(switches, 2, replace=False)
        link(a, b, *DELAYS_NS)
    hosts = [f"h{number + 1}" for number in range(9)]
    for host in hosts:
        link(host, draw.choice(switches), *DELAYS_NS)
    system = SYSTEMS[seed % len(SYSTEMS)]
    loss = "loss: 0.5 %, duplicate: 0.5 %, " * int(draw.integers(2))
    return f"""
name: drawn
seed: {seed + 1}
runtime: virtual
topology:
  kind: explicit
  hosts: [{", ".join(hosts)}]
  switches: [{", ".join(switches)}]
  links: [{", ".join(links)}]
links: {{bandwidth: {draw.choice([1, 10, 100])} Gbit/s, {loss}ecn_threshold: 20 packets}}
virtual: {{switch_latency: {draw.choice([0, 100, 400])} ns}}
system: {system}
{memory_line(system, 4096 if "grid" in system else 48)}
values_per_packet: 16
jobs:
  - {{model: resnet18, workers: 4, iterations: 2, scale: 0.0003, placement: random}}
  - {{model: vgg16, workers: 3, iterations: 2, scale: 0.00003, start: 30 us, placement: random}}
"""


@pytest.mark.parametrize("seed", first_of(range(30), 3))
def test_the_order_of_events_changes_nothing(seed, monkeypatch):
    text = drawn(seed)
    monkeypatch.setattr(parts, "WORTHWHILE", NEVER)
    one_by_one = in_order(text)
    ended(one_by_one)
    monkeypatch.setattr(turns, "SLICE_FRAMES", 2 + seed % 40)
    runs = [started(text)]
    monkeypatch.setattr(parts, "WORTHWHILE", 0)
    runs += [started(text, threads) for threads in (2, 7)]
    ends = {ended(run) for run in runs}
    assert len(ends) == 1
    go_on_until(one_by_one, ends.pop())
    expected = everything(one_by_one)
    for run in runs:
        run.close()
        assert_equal(everything(run), expected)


def test_the_networks_have_windows_of_many_lengths_and_mostly_turns():
    made = [started(drawn(seed)) for seed in (0, 1, 2, 4, 5)]
    assert len({run.window_ns for run in made}) > 2
    assert sum(int(run.nodes.world.state[0].to_switch_ns) > 0 for run in made) > 2
