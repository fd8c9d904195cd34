"""Frames on their way: rows of memory, in lists.

A row has a head (HEAD) and the frame's bytes behind it, so what one node reads of another one's
frame lies together. Rows of all parts of a world (parts.py) are in one memory, which grows without
moving: a frame that goes to another part changes its owner, not its place. Each part knows which
rows are free to it.

A switch often sends the same bytes to many hosts, with other headers. So of a long frame to a host
only the first bytes are in its own row (OWN), if the rest is on its way to another host of the part
already: it stays where it is, with the number of its *users*, until the last of them has been
handled.

An *inbox* of a host or a trunk is a list of rows in the order of their times. An *outbox* is the
list of rows that leave a part by a trunk, for the trunk's inbox.

A frame is read long after it was written, with thousands of others in between, so its lines are no
longer in the processor's caches. Which row is written or read next, and which one after it, is
known, so these are prefetched.
"""

from __future__ import annotations

from threading import Lock
from typing import NamedTuple

import numpy as np

from p4fabric.simulate import event_queue
from p4fabric.simulate.jit import njit
from p4fabric.simulate.native import copy, equal, peek, poke, prefetch, prefetch_to_write

LINE_BYTES = 64  # of the cache
CHUNK = 1024  # rows whose addresses follow each other
MOST_CHUNKS = 1 << 16
SHARED_ROWS = 256

# A row's head, int64 each, by offset in bytes
WHEN_NS = 0  # time at which the frame is there (a host: at which it is handled)
NEXT = 8  # the row behind it in its list, -1: none
LENGTH = 16  # in bytes
BODY = 24  # row that has the bytes behind OWN: this one, or another of the same part
USERS = 32  # frames that have theirs here
SHARED = 40  # its entry in `Frames.shared`
HEAD = 48
OWN = 2 * LINE_BYTES - HEAD  # first bytes of a frame, which are in its own row
LEAST_SHARED = 1024  # bytes of a frame; less is copied as soon as compared


class Frames(NamedTuple):
    """The rows of a world."""

    chunks: np.ndarray  # int64[*], address of every CHUNK rows; the same in all parts
    row_bytes: np.ndarray  # int64[1]
    free: np.ndarray  # int32[N], rows that are not in use; the first `state.free` entries count
    shared: (
        np.ndarray
    )  # int32[SHARED_ROWS], rows that have what is shared, -1: none, by its content


class FrameMemory:
    """Memory for the rows of all parts of a world. `frame_bytes`: of the longest frame, which may
    become a few more."""

    def __init__(self, frame_bytes: int) -> None:
        self.row_bytes = -(-(HEAD + frame_bytes) // LINE_BYTES) * LINE_BYTES
        self.frame_bytes = self.row_bytes - HEAD
        self.chunks = np.zeros(MOST_CHUNKS, np.int64)
        self.rows = 0  # given out
        self._room = 0  # of all blocks
        self._blocks: list[np.ndarray] = []
        self._lock = Lock()

    def new_frames(self, rows: int) -> Frames:
        """So many rows, all of them free."""
        shared = np.full(SHARED_ROWS, -1, np.int32)
        return Frames(self.chunks, np.array([self.row_bytes]), self._take(rows), shared)

    def larger(self, frames: Frames, free: int) -> Frames:
        """The same rows, of which `free` are free, and as many more, all free."""
        rows = frames.free.size
        more = np.zeros(2 * rows, np.int32)
        more[:free] = frames.free[:free]
        more[free : free + rows] = self._take(rows)
        return frames._replace(free=more)

    def _take(self, rows: int) -> np.ndarray:
        with self._lock:
            if self.rows + rows > self._room:
                self._add_block(max(rows, self._room))
            self.rows += rows
            return np.arange(self.rows - rows, self.rows, dtype=np.int32)

    def _add_block(self, rows: int) -> None:
        """Room for at least so many rows more. numpy asks for large pages if that is 4 MiB."""
        count = -(-rows // CHUNK)
        block = np.zeros(count * CHUNK * self.row_bytes + LINE_BYTES, np.uint8)
        first = self._room // CHUNK
        if first + count > MOST_CHUNKS:
            raise MemoryError(f"more than {MOST_CHUNKS * CHUNK} frames on their way")
        start = block.ctypes.data + -block.ctypes.data % LINE_BYTES
        places = start + CHUNK * self.row_bytes * np.arange(count)
        self.chunks[first : first + count] = places
        self._blocks.append(block)
        self._room += count * CHUNK


@njit(cache=True)
def address(frames, row):
    """Address of a row."""
    return frames.chunks[row // CHUNK] + row % CHUNK * frames.row_bytes[0]


@njit(cache=True)
def when_ns(frames, row):
    """Time at which the row's frame is there."""
    return peek(address(frames, row) + WHEN_NS)


@njit(cache=True)
def put(world, inbox, start, length, when):
    """Put a frame of so many bytes from `start` into an inbox or outbox, where it is at `when`;
    there must be room."""
    state, frames = world.state[0], world.frames
    state.free -= 1
    row = np.int64(frames.free[state.free])
    if state.free > 1:
        to_write = np.int64(frames.free[state.free - 2])
        prefetch_to_write(address(frames, to_write), HEAD + length)
    place = address(frames, row)
    poke(place + WHEN_NS, when)
    poke(place + NEXT, -1)
    poke(place + LENGTH, length)
    poke(place + BODY, row)
    poke(place + USERS, 1)
    poke(place + SHARED, -1)
    own = length
    if length >= LEAST_SHARED and inbox < world.hosts.shape[0]:
        own = _share(frames, row, place, start, length)
    copy(place + HEAD, start, own)
    if world.first[inbox] >= 0:
        poke(address(frames, np.int64(world.last[inbox])) + NEXT, row)
    else:
        world.first[inbox] = row
        _expect_first(world, inbox, when)
    world.last[inbox] = row
    hosts, trunks = world.hosts.shape[0], world.trunks.shape[0]
    if inbox >= hosts + trunks:
        world.leaving[inbox - hosts - trunks] += 1


@njit(cache=True)
def _share(frames, row, place, start, length):
    """Let a frame in this row have what is behind its OWN bytes from `start` in another row, if
    there is one with the same; returns how many bytes remain to be copied."""
    last = peek(start + length - 8)
    entry = ((peek(start + OWN) ^ last ^ last >> 29) * 0x9E3779B1 >> 32) & (SHARED_ROWS - 1)
    other = np.int64(frames.shared[entry])
    if other >= 0:
        there = address(frames, other)
        if peek(there + LENGTH) == length and equal(there + HEAD + OWN, start + OWN, length - OWN):
            poke(place + BODY, other)
            poke(there + USERS, peek(there + USERS) + 1)
            return OWN
        poke(there + SHARED, -1)
    frames.shared[entry] = row
    poke(place + SHARED, entry)
    return length


@njit(cache=True)
def _expect_first(world, inbox, when):
    """An inbox was empty, and its first frame is there at `when`."""
    hosts, trunks = world.hosts.shape[0], world.trunks.shape[0]
    if inbox < hosts:
        if when < world.queue.time[inbox]:
            event_queue.put(world.queue, inbox, when)
    elif inbox < hosts + trunks and when < world.fabric.time[inbox - hosts]:
        event_queue.put(world.fabric, inbox - hosts, when)


@njit(cache=True)
def take(world, inbox):
    """Take the first frame out of an inbox; returns its row, which is free from now on, but keeps
    its content until the next frame is put anywhere."""
    frames = world.frames
    row = np.int64(world.first[inbox])
    place = address(frames, row)
    world.first[inbox] = peek(place + NEXT)
    body = peek(place + BODY)
    there = address(frames, body)
    users = peek(there + USERS) - 1
    poke(there + USERS, users)
    if users == 0:
        entry = peek(there + SHARED)
        if entry >= 0:
            frames.shared[entry] = -1
        _set_free(world, body)
    if row != body:
        _set_free(world, row)
    return row


@njit(cache=True)
def _set_free(world, row):
    world.frames.free[world.state[0].free] = row
    world.state[0].free += 1


@njit(cache=True)
def read(frames, row, target, start, count):
    """Copy `count` bytes of a row's frame, from its byte `start` below OWN on, to `target`."""
    place = address(frames, row)
    body = address(frames, peek(place + BODY))
    own = count
    if body != place:
        own = min(count, OWN - start)
        copy(target + own, body + HEAD + OWN, count - own)
    copy(target, place + HEAD + start, own)


@njit(cache=True)
def prefetch_next(world, inbox):
    """Prefetch the frame behind an inbox's first one, the head of which has been read."""
    frames = world.frames
    first = np.int64(world.first[inbox])
    if first >= 0:
        place = address(frames, first)
        following = peek(place + NEXT)
        if frames.row_bytes[0] < LEAST_SHARED:
            if following >= 0:
                prefetch(address(frames, following), frames.row_bytes[0])
            return
        if following >= 0:
            prefetch(address(frames, following), HEAD + OWN)
        length, body = peek(place + LENGTH), address(frames, peek(place + BODY))
        prefetch(body + HEAD + OWN, length - OWN)


@njit(cache=True)
def prefetch_first(world, inbox):
    """Prefetch an inbox's first frame."""
    first = np.int64(world.first[inbox])
    if first >= 0:
        row_bytes = world.frames.row_bytes[0]
        prefetch(
            address(world.frames, first), row_bytes if row_bytes < LEAST_SHARED else HEAD + OWN
        )


@njit(cache=True)
def hand_over(source, target, trunk):
    """Move the frames that leave a part by a trunk to the part that it leads into, and as many free
    rows back. False, with nothing done, if that has too few of them."""
    hosts, trunks = source.hosts.shape[0], source.trunks.shape[0]
    outbox, inbox = hosts + trunks + trunk, hosts + trunk
    count = source.leaving[trunk]
    if count == 0:
        return True
    if target.state[0].free < count:
        return False
    for _ in range(count):
        target.state[0].free -= 1
        source.frames.free[source.state[0].free] = target.frames.free[target.state[0].free]
        source.state[0].free += 1
    first = np.int64(source.first[outbox])
    if target.first[inbox] >= 0:
        poke(address(target.frames, np.int64(target.last[inbox])) + NEXT, first)
    else:
        target.first[inbox] = first
        _expect_first(target, inbox, when_ns(target.frames, first))
    target.last[inbox] = source.last[outbox]
    source.first[outbox] = -1
    source.leaving[trunk] = 0
    return True
