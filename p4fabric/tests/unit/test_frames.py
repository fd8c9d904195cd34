"""Frames on their way (p4fabric.simulate.frames): rows that are free, rows that wait, and rows
that change their owner."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from p4fabric.simulate import frames, loop
from p4fabric.simulate.event_queue import NEVER, first
from p4fabric.simulate.frames import CHUNK, HEAD, FrameMemory
from p4fabric.simulate.placed_machine import Placed
from p4fabric.simulate.state import FRAMES, World, new_world

HOSTS, TRUNKS = 2, 3
INBOX, OUTBOX = HOSTS + 1, HOSTS + TRUNKS + 1  # of the second trunk


@pytest.fixture
def memory():
    return FrameMemory(40)


def made(memory: FrameMemory) -> World:
    return new_world(hosts=HOSTS, trunks=TRUNKS, switches=1, ports=3, memory=memory)


def put(world: World, inbox: int, *contents: int) -> None:
    """A frame of `content` times the byte `content` for each of them, there at so many ns."""
    for content in contents:
        frame = np.full(content, content, np.uint8)
        frames.put(world, inbox, frame.ctypes.data, content, content)


def taken(world: World, inbox: int) -> list[int]:
    """The contents of all frames of an inbox, which is empty then."""
    found = []
    while world.first[inbox] >= 0:
        row = int(frames.address(world.frames, frames.take(world, inbox)))
        length = ctypes.c_int64.from_address(row + frames.LENGTH).value
        frame = ctypes.string_at(row + HEAD, length)
        assert frame == bytes([length]) * length
        found.append(length)
    return found


def free(world: World) -> list[int]:
    return sorted(world.frames.free[: world.state[0].free].tolist())


def larger(world: World, memory: FrameMemory) -> World:
    more = memory.larger(world.frames, int(world.state[0].free))
    world.state[0].free += FRAMES
    return world._replace(frames=more)


def test_frames_are_taken_in_the_order_in_which_they_were_put(memory):
    world = made(memory)
    put(world, 0, 3, 5)
    put(world, 1, 4)
    put(world, 0, 7)
    assert (world.queue.time[:2].tolist(), first(world.queue)) == ([3, 4], 0)
    assert taken(world, 0) == [3, 5, 7] and taken(world, 1) == [4]
    assert free(world) == list(range(FRAMES))


def test_an_inbox_that_is_emptied_gives_all_rows_back(memory):
    world = made(memory)
    put(world, 0, *[1] * FRAMES)
    assert world.state[0].free == 0
    loop.empty(Placed(world), 0)
    assert world.first[0] == -1 and free(world) == list(range(FRAMES))


@pytest.mark.parametrize("seed", range(3))
def test_frames_with_the_same_bytes_behind_share_them(seed):
    long, random = FrameMemory(2000), np.random.default_rng(seed)
    world = made(long)
    bodies = random.integers(0, 256, (3, 2000), np.uint8)
    waiting: list[list[bytes]] = [[], []]
    shared = 0
    for when in range(300):
        inbox = int(random.integers(HOSTS))
        if random.random() < 0.4 and waiting[inbox]:
            row, read = frames.take(world, inbox), np.zeros(2000, np.uint8)
            sent, start = waiting[inbox].pop(0), int(random.integers(frames.OWN))
            frames.read(world.frames, row, read.ctypes.data, start, len(sent) - start)
            assert read[: len(sent) - start].tobytes() == sent[start:]
            continue
        frame = bodies[random.integers(3)][: 1900 + random.integers(2)].copy()
        frame[: frames.OWN] = random.integers(0, 256, frames.OWN, np.uint8)
        frames.put(world, inbox, frame.ctypes.data, frame.size, when)
        waiting[inbox].append(frame.tobytes())
        row = int(world.last[inbox])
        place = int(frames.address(world.frames, row))
        shared += ctypes.c_int64.from_address(place + frames.BODY).value != row
    assert shared > 50
    for inbox in range(HOSTS):
        loop.empty(Placed(world), inbox)
    assert free(world) == list(range(FRAMES)) and (world.frames.shared == -1).all()


def test_more_room_keeps_what_is_on_its_way(memory):
    world = made(memory)
    put(world, 0, 1, 2, 3)
    world = larger(world, memory)
    assert world.state[0].free == 2 * FRAMES - 3
    put(world, 1, *[9] * (2 * FRAMES - 3))
    assert taken(world, 0) == [1, 2, 3] and len(taken(world, 1)) == 2 * FRAMES - 3
    assert free(world) == list(range(2 * FRAMES))


def test_no_two_rows_are_in_the_same_place(memory):
    rows = memory.new_frames(1).free, memory.new_frames(CHUNK).free, memory.new_frames(5).free
    every = np.concatenate(rows).tolist()
    assert every == list(range(CHUNK + 6))
    of = memory.new_frames(1)
    places = [int(frames.address(of, row)) for row in every]
    assert all(place % 64 == 0 for place in places)
    ordered = sorted(places)
    assert min(np.diff(ordered)) >= HEAD + 40


def test_what_leaves_a_part_is_behind_what_waits_in_the_other_one(memory):
    source, target = made(memory), made(memory)
    put(target, INBOX, 1, 2)
    put(source, OUTBOX, 3, 4)
    assert source.leaving.tolist() == [0, 2, 0]
    assert source.fabric.time[1] == NEVER  # it is not for this part
    before = set(free(source)) | set(free(target))
    assert frames.hand_over(source, target, 1)
    assert source.first[OUTBOX] == -1 and source.leaving.tolist() == [0, 0, 0]
    assert (len(free(source)), len(free(target))) == (FRAMES, FRAMES - 4)
    assert set(free(source)) | set(free(target)) == before
    assert taken(target, INBOX) == [1, 2, 3, 4]
    assert sorted(free(source) + free(target)) == list(range(2 * FRAMES))
    assert frames.hand_over(source, target, 1)  # nothing


def test_the_first_frame_that_is_handed_over_is_an_event(memory):
    source, target = made(memory), made(memory)
    put(source, OUTBOX, 8, 9)
    assert frames.hand_over(source, target, 1)
    assert target.fabric.time[:TRUNKS].tolist() == [NEVER, 8, NEVER]


def test_nothing_is_handed_over_where_there_is_no_room(memory):
    source, target = made(memory), made(memory)
    put(target, 0, *[1] * (FRAMES - 1))
    put(source, OUTBOX, 8, 9)
    assert not frames.hand_over(source, target, 1)
    assert source.leaving.tolist() == [0, 2, 0] and target.first[INBOX] == -1
    assert frames.hand_over(source, larger(target, memory), 1)
