"""What virtual time keeps: places in arrays, for the loop and for those who fill and read them.

Nodes are numbered: hosts from 0, in the order of the plan; switches from 0, in the topology's.
Where jobs come and go, every job has hosts of its own here, which stand for hosts of the topology
while it runs and for none before and afterwards. A *source* of events is a host (its next arrival
or deadline), a *trunk* (the direction of a link that leads into a switch from another switch), or a
switch (its traffic manager's next event), numbered in this order. Hosts and trunks have an *inbox*:
the frames on their way to it, in order of time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from testbed.protocols.sizes import FRAME_OVERHEAD
from testbed.simulate.event_queue import Agenda, new_agenda
from testbed.workload.machine import Batch, new_batch

FRAMES = 1024  # room at first; a world grows

# Places in World.s
OPEN = 0  # workers that have not finished
FREE = 1  # entries in Frames.free
PENDING = 2  # switch whose packets have to be collected first, -1: none
WHO = 3  # host of which the loop says something
EVENTS = 4
OVERSIZED = 5  # frames longer than any of ours, which a program has made
NOW = 6
PAUSES = 7  # of World.pauses that have begun
HEEDED = 8  # 1: jobs come and go, so the loop says when a worker has finished
ENDED = 9  # workers that have finished since it last said so
STATE = 10

# Columns of World.hosts
SWITCH = 0
PORT = 1  # of that switch
STEP = 2  # addresses of the step function,
MACHINE = 3  # the machine
STATUS = 4  # and its status
HEADER = 5  # row of World.headers for its first destination
IS_WORKER = 6
DELAY_NS = 7  # from a frame's arrival to its handling: the shortest,
SPREAD_NS = 8  # and how much longer it may be
COST_NS = 9  # processor time that a frame takes
STREAM = 10  # of its random numbers
DRAWS = 11  # of these so far
FREE_NS = 12  # when the last frame has been handled
DEADLINE_NS = 13  # of its machine
DONE = 14
PACKETS_SENT = 15
PACKETS_RECEIVED = 16
BYTES_SENT = 17
BYTES_RECEIVED = 18
DISCARDED = 19  # frames that are not for it
RESUMED_NS = 20  # end of its last pause that has begun
HOST = 21

# Columns of World.switches: the traffic manager and the functions of tm.h
MANAGER, RECEIVE, ADVANCE, NEXT_EVENT, OUTPUTS, OUTPUTS_CLEAR = range(6)


class Frames(NamedTuple):
    """Frames between nodes: N rows of at most B bytes."""

    bytes: np.ndarray  # uint8[N, B]
    length: np.ndarray  # int64[N]
    when_ns: np.ndarray  # int64[N], when it is there (a host: when it is handled)
    next: np.ndarray  # int32[N], behind it in the inbox, -1: none
    free: np.ndarray  # int32[N], rows that are not in use


class World(NamedTuple):
    """H hosts, T trunks, S switches."""

    s: np.ndarray  # int64[STATE]
    agenda: Agenda
    hosts: np.ndarray  # int64[H, HOST]
    pauses: np.ndarray  # int64[*, 3], begin and end in ns and the host that stands still, by begin
    identity: np.ndarray  # uint8[H, 12], MAC address, IPv4 address and UDP port
    headers: np.ndarray  # uint8[*, 42], Ethernet, IPv4 and UDP of each host and destination
    partial: np.ndarray  # int64[*], sum of the IPv4 header's words without length and checksum
    trunks: np.ndarray  # int64[T, 2], switch and its port
    switches: np.ndarray  # int64[S, 6]
    leads: np.ndarray  # int32[S, ports], the inbox behind each port, -1: none
    first: np.ndarray  # int32[H + T], of each inbox, -1: empty
    last: np.ndarray  # int32[H + T]
    frames: Frames
    arrived: Batch
    out: Batch
    places: np.ndarray  # int64[3], addresses of `arrived`, `out` and `deadline`
    deadline: np.ndarray  # int64[1], of the last step
    frame: np.ndarray  # uint8[B], that a host is sending
    left: np.ndarray  # int64[2], where the traffic manager says what has left


def new_world(hosts: int, trunks: int, switches: int, ports: int, width: int) -> World:
    """A world of so many nodes, none of which is anything yet; frames have up to `width` bytes.
    `headers`, `partial`, `arrived` and `out` are empty, to be replaced."""
    batch = new_batch(0, 1, 32)
    s = np.zeros(STATE, np.int64)
    s[FREE] = FRAMES
    s[PENDING] = -1
    return World(
        s=s,
        agenda=new_agenda(hosts + trunks + switches),
        hosts=np.zeros((hosts, HOST), np.int64),
        pauses=np.zeros((0, 3), np.int64),
        identity=np.zeros((hosts, 12), np.uint8),
        headers=np.zeros((0, FRAME_OVERHEAD), np.uint8),
        partial=np.zeros(0, np.int64),
        trunks=np.zeros((trunks, 2), np.int64),
        switches=np.zeros((switches, 6), np.int64),
        leads=np.full((switches, ports), -1, np.int32),
        first=np.full(hosts + trunks, -1, np.int32),
        last=np.full(hosts + trunks, -1, np.int32),
        frames=new_frames(FRAMES, width),
        arrived=batch,
        out=batch,
        places=np.zeros(3, np.int64),
        deadline=np.zeros(1, np.int64),
        frame=np.zeros(width, np.uint8),
        left=np.zeros(2, np.int64),
    )


def new_frames(rows: int, width: int) -> Frames:
    return Frames(
        bytes=np.zeros((rows, width), np.uint8),
        length=np.zeros(rows, np.int64),
        when_ns=np.zeros(rows, np.int64),
        next=np.full(rows, -1, np.int32),
        free=np.arange(rows, dtype=np.int32),
    )


def larger(world: World) -> World:
    """The same world with room for twice as many frames on their way."""
    old = world.frames
    rows, width = old.bytes.shape
    new = new_frames(2 * rows, width)
    for name in ("bytes", "length", "when_ns", "next"):
        getattr(new, name)[:rows] = getattr(old, name)
    free = int(world.s[FREE])
    new.free[:free] = old.free[:free]
    new.free[free : free + rows] = np.arange(rows, 2 * rows)
    world.s[FREE] += rows
    return world._replace(frames=new)


def empty(world: World, inbox: int) -> None:
    """Drop the frames on their way to an inbox."""
    row = int(world.first[inbox])
    while row >= 0:
        world.frames.free[world.s[FREE]] = row
        world.s[FREE] += 1
        row = int(world.frames.next[row])
    world.first[inbox] = -1
