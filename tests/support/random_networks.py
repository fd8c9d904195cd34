"""Experiments on random networks whose links have random delays."""

from __future__ import annotations

import numpy as np

from tests.support.experiments import memory_line

SYSTEMS = ("esa", "switchml", "atp", "{name: grid, memory: esa}", "ps", "ring")
DELAYS_NS = (200, 350, 1000, 1001, 2500, 20_000)
SHORT_NS = (0, 1, 60)  # switches so near each other are in one part


def drawn(seed: int) -> str:
    """An experiment on a tree of two to six switches, with some more links between them."""
    draw = np.random.default_rng(seed)
    switches = [f"s{number + 1}" for number in range(draw.integers(2, 7))]
    links = []

    def link(a: str, b: str, *delays: int) -> None:
        each = []
        for name in ("forward", "backward"):
            delay = int(draw.choice(delays))
            jitter = f", jitter: {min(150, delay)} ns" * (seed % 3 == 1)
            each.append(f"{name}: {{delay: {delay} ns{jitter}}}")
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
    late = "reorder: 1 %, reorder_delay: 3 us, " * (seed % 3 == 2)
    pause = "{at: 40 us, fault: pause, job: resnet18-0, worker: 2, for: 10 ms}" * (seed % 2)
    return f"""
name: drawn
seed: {seed + 1}
runtime: virtual
topology:
  kind: explicit
  hosts: [{", ".join(hosts)}]
  switches: [{", ".join(switches)}]
  links: [{", ".join(links)}]
links: {{bandwidth: {draw.choice([1, 10, 100])} Gbit/s, {loss}{late}ecn_threshold: 20 packets}}
virtual: {{switch_latency: {draw.choice([0, 100, 400])} ns}}
system: {system}
{memory_line(system, 4096 if "grid" in system else 48)}
values_per_packet: 16
jobs:
  - {{model: resnet18, workers: 4, iterations: 2, scale: 0.0003, placement: random}}
  - {{model: vgg16, workers: 3, iterations: 2, scale: 0.00003, start: 30 us, placement: random}}
faults: [{pause}]
"""
