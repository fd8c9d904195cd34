"""Packets that nobody of the job has sent, beside those of the job: every sum stays exact.

A forger sees each frame on a wire and adds frames of its own, made from it, so that they are as
plausible as they can be. What cannot be told from a member's own packet is not forged here.
"""

from __future__ import annotations

import struct

import pytest

from testbed.protocols import sizes, wire
from tests.support.experiments import memory_line, setup_of
from tests.support.fabric import MS, Fabric, check_values, total
from tests.support.matrix import first_of
from tests.support.switches import start_switches

TEXT = """
name: test
topology: {kind: star, hosts: 8}
system: {name: %(system)s, window: 32}
%(memory)s
values_per_packet: 16
jobs:
  - {model: resnet18, workers: 3, iterations: %(iterations)d, scale: %(scale)s}
"""
WORKERS = 3
HEADER = sizes.FRAME_OVERHEAD
BITMAP = HEADER + 4 * sizes.HEADER_WORDS
VALUES = BITMAP + 4


def kind(frame: bytes) -> int:
    return frame[HEADER] & 0xF


def word(frame: bytes, at: int) -> int:
    return struct.unpack_from("!I", frame, at)[0]


def changed(frame: bytes, **parts: int) -> bytes:
    """The frame with other values (all 12345) and these parts of its header."""
    made = bytearray(frame)
    for part, value in parts.items():
        if part == "kind":
            made[HEADER] = made[HEADER] & 0xF0 | value
        elif part == "sender":
            struct.pack_into("!H", made, HEADER + 20, value)
        else:
            at = {"fragment": HEADER + 8, "step": HEADER + 16, "bitmap": BITMAP}[part]
            struct.pack_into("!I", made, at, value)
    for at in range(VALUES, len(made), 4):
        struct.pack_into("!I", made, at, 12345)
    return bytes(made)


def run(system: str, forger, iterations: int = 2, scale: float = 0.001) -> Fabric:
    """Run the job beside the forger to its end, and check every value."""
    memory = memory_line(system, 16)
    parts = {"system": system, "memory": memory, "iterations": iterations, "scale": scale}
    setup = setup_of(TEXT % parts)
    fabric = Fabric(setup, start_switches(setup), forger=forger)
    fabric.run(10_000 * MS)
    check_values(fabric)
    return fabric


def is_gradient(frame: bytes) -> bool:
    return kind(frame) == wire.GRADIENT and len(frame) > VALUES


@pytest.mark.parametrize("strangers", first_of([1 << 31 | 1, 1 << 31, 1 << 5, 0], 1))
@pytest.mark.parametrize("system", first_of(["esa", "switchml", "atp", "ps"], 2))
def test_gradients_of_workers_that_the_job_does_not_have(system, strangers):
    """On every wire: to the switch, and past it to the server. They come just before the job's."""
    fabric = run(
        system,
        lambda now, node, frame: (
            [(-1, changed(frame, bitmap=strangers))] if is_gradient(frame) else []
        ),
    )
    if system != "switchml" and strangers:
        assert total(fabric.servers(), "foreign") > 0


@pytest.mark.parametrize("system", ["switchml", "esa"])
def test_a_stranger_far_in_the_future(system):
    run(
        system,
        lambda now, node, frame: (
            [(-1, changed(frame, bitmap=1 << 31, fragment=2**32 - 1))] if is_gradient(frame) else []
        ),
    )


@pytest.mark.parametrize("system", first_of(["ps", "esa", "atp"], 1))
def test_what_is_two_iterations_ahead_is_not_believed(system):
    """Not even over a member's own wire: nobody can be done with an iteration that the server is
    not done with. A server keeps two iterations, so it would forget the one that goes on."""
    small = 0.0002
    fragments = run(system, lambda now, node, frame: [], 1, small).setup.jobs[0].fragments
    fabric = run(
        system,
        lambda now, node, frame: (
            [(-1, changed(frame, fragment=word(frame, HEADER + 8) + 2 * fragments))]
            if is_gradient(frame)
            else []
        ),
        iterations=4,
        scale=small,
    )
    assert total(fabric.servers(), "foreign") > 0


def test_a_ring_member_takes_nothing_but_from_its_neighbour():
    fabric = run(
        "ring",
        lambda now, node, frame: (
            [(-1, changed(frame, sender=(frame[HEADER + 21] + 1) % WORKERS))]
            if kind(frame) == wire.CONTROL and word(frame, HEADER + 16) > 0
            else []
        ),
    )
    assert total(fabric.workers(), "foreign") > 0


def test_no_sum_of_all_is_taken_without_the_own_part():
    """Just before a partial sum comes, what claims to be the sum of all does."""

    def forger(now, node, frame):
        chunk, way = divmod(word(frame, HEADER + 16) - 1, 2)
        receiver = (frame[HEADER + 21] + 1) % WORKERS
        if kind(frame) == wire.CONTROL and chunk >= 0 and way == 0 and receiver != chunk:
            return [(-1, changed(frame, step=2 * chunk + 2))]
        return []

    fabric = run("ring", forger)
    assert total(fabric.workers(), "foreign") > 0
