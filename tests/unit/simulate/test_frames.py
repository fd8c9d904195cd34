"""Frames on their way (testbed/simulate/state.py): rows that are free, and rows that wait."""

from __future__ import annotations

from testbed.simulate.state import FRAMES, empty, larger, new_world


def taken(world, count, inbox=0):
    """Let so many frames wait at an inbox, each before the one that came earlier."""
    state, frames = world.state[0], world.frames
    for _ in range(count):
        state.free -= 1
        row = frames.free[state.free]
        frames.next[row], world.first[inbox] = world.first[inbox], row


def test_an_inbox_that_is_emptied_gives_all_rows_back():
    world = new_world(hosts=2, trunks=0, switches=1, ports=3, width=64)
    taken(world, FRAMES)
    assert world.state[0].free == 0
    empty(world, 0)
    assert world.state[0].free == FRAMES and world.first[0] == -1
    assert sorted(world.frames.free.tolist()) == list(range(FRAMES))


def test_more_room_keeps_what_is_on_its_way():
    world = new_world(hosts=2, trunks=0, switches=1, ports=3, width=64)
    taken(world, 3)
    world.frames.bytes[FRAMES - 1] = 7
    world = larger(world)
    assert world.state[0].free == 2 * FRAMES - 3 and (world.frames.bytes[FRAMES - 1] == 7).all()
    taken(world, 2 * FRAMES - 3)
    empty(world, 0)
    assert sorted(world.frames.free.tolist()) == list(range(2 * FRAMES))
