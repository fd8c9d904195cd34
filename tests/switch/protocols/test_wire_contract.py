"""The contract of the wire notices what it says: runs whose packets hold it meet each of its rows,
and a changed bit of one of their packets is found wherever the row leaves no choice."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from tests.support.experiments import memory_line, setup_of
from tests.support.fabric import Fabric, lossy
from tests.support.switches import start_switches
from tests.support.wire_tap import ROWS, held

TEXT = """
name: test
topology: {kind: two_level, tors: 2, hosts: 4, servers: 2}
system: {name: %s}
%s
values_per_packet: 16
jobs:
  - {model: resnet18, workers: 4, iterations: 2, scale: 0.0002}
  - {model: vgg16, workers: 3, iterations: 2, scale: 0.00003, start: 50 us}
"""
SYSTEMS = ("esa", "a2tp", "switchml", "ring", "ps")
# Fields of the header by their bytes in a frame with a bitmap of 32 bits; those of Ethernet, IPv4
# and UDP have no choice, but for the congestion mark.
BYTES = {"priority": (43,), "node": (48, 49), "index": range(54, 58), "extra": range(58, 62)}
BYTES |= {"sender": (62, 63), "exponents": (64, 65), "bitmap": range(66, 70)}
EXACT = {"0", "1", "255", "maker", "server", "destination", "slot and set", "all", "sender"}


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_changed_bit_is_noticed(system, monkeypatch):
    setup = setup_of(TEXT % (system, memory_line(system, 24)))
    fabric = Fabric(setup, start_switches(setup), lossy(1, loss=0.05, duplicate=0.02))
    network = next(iter(fabric.switches.values())).network
    fabric.run()
    seen: dict[str, list[tuple[bytes, int]]] = defaultdict(list)
    draw = random.Random(system)
    frames, at = network.frames, network.at
    for number in draw.sample(range(len(frames)), 150):
        network.met.clear()
        assert not list(held(network, [frames[number]], [at[number]]))
        ((title, _),) = network.met
        seen[title].append((frames[number], at[number]))
    rows = {row["title"]: row for row in ROWS if not row["systems"] or system in row["systems"]}
    changed, links, told = [], [], []
    for title, examples in seen.items():
        exact = [*range(15), *range(16, 36), *range(38, 42), 46, 47]
        for field, places in BYTES.items():
            exact += places if rows[title][field] in EXACT else ()
        for frame, link in examples:
            for place in draw.sample(exact, 15):
                wrong = bytearray(frame)
                wrong[place] ^= 1 << draw.randrange(8)
                changed.append(bytes(wrong))
                links.append(link)
                told.append((title, place))
    found = {number for _, _, number in held(network, changed, links)}
    assert not [told[number] for number in range(len(changed)) if number not in found]
