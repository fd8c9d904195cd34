"""The state of virtual time: named places in arrays.

Nodes are numbered: hosts from 0, in the order in which who makes the world has them; switches from
0, in the topology's order. A *source* of events is a host (its next arrival
or deadline), a *trunk* (the direction of a link that leads into a switch from another switch), or
a switch (its traffic manager's next event). Trunks and switches are numbered together, in this
order. Hosts and trunks have an *inbox*: the frames on their way to it, in order of time; hosts'
inboxes come first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from p4fabric.base.topology import FRAME_OVERHEAD
from p4fabric.simulate.event_queue import EventQueue, new_event_queue
from p4fabric.simulate.frames import FrameMemory, Frames
from p4fabric.simulate.machine import Batch, new_batch
from p4fabric.simulate.records import new_table, record

FRAMES = 1024  # room at first; a world grows
SHORTEST_NS = 200  # of a turn of hosts or switches; in less time too little happens
SWITCH_SLICES = 4  # that a slice of time has for switches, whose packets wait in a buffer meanwhile
TURNS = 4  # at the end of a run, until hosts and switches meet

# World.state
STATE = record(
    "open",  # machines for which the run waits and which have not finished
    "free",  # entries in Frames.free
    "pending",  # switch whose packets have to be collected first, -1: none
    "failed_host",  # the host whose machine has failed
    "failed_ns",  # when
    "events",
    "oversized",  # frames longer than any of ours, which a program has made
    "now",
    "pauses",  # of World.pauses that have begun
    "report_finished",  # 1: the loop returns when one of these has finished
    "background",  # 1: some hosts have a second machine, told apart by its UDP port
    "controls",  # 1: switches tell hosts' network cards to pause, which hosts do not see
    "finished_host",  # that of which it has finished since the last such return, -1: none
    "closed_ns",  # time at which one of these finished last
    "goes_on",  # 1: the loop goes on when all of them have finished
    # Hosts one after the other (loop.py), 0 in `to_switch_ns`: not so
    "to_switch_ns",  # a packet takes at least so long from a host to its switch,
    "to_host_ns",  # and so long from there until a host handles it
    "slice_ns",  # hosts do so much at a time,
    "switch_slice_ns",  # and a switch so much after an event, at least 0
    "grid_ns",  # a run ends at a multiple of it,
    "after_ns",  # at least so long after the last of these machines has finished
    "lag_ns",  # so long before the time up to which the loop runs hosts are left where they are
    "too_late",  # packets that came after the events of later times: none
    "hosts_ns",  # all steps of hosts before this time are done,
    "switches_ns",  # and all steps of switches before this
)

# A row of World.hosts
HOST = record(
    "switch",
    "port",  # of that switch
    "step",  # addresses of the step function,
    "machine",  # the machine
    "hot_bytes",  # from there on, what every step reads
    "status",  # and its status
    "header",  # row of World.headers for its first destination
    "awaited",  # 1: the run waits until its machine has finished
    "delay_ns",  # from a frame's arrival to its handling: the shortest,
    "spread_ns",  # and how much longer it may be
    "hold_ns",  # so long a drawn delay lasts; 0: it is drawn for each frame
    "cost_ns",  # processor time that a frame takes
    "stream",  # of its random numbers
    "draws",  # of these so far, of those that are drawn for each frame
    "free_ns",  # time at which the last frame has been handled
    "deadline_ns",  # of its machine
    "due_ns",  # time of its next step
    "idle_steps",  # in a row at one time, without a packet that came or went
    "done",
    "packets_sent",
    "packets_received",
    "bytes_sent",
    "bytes_received",
    "discarded",  # frames that are not for it
    "background",  # 1: ends of flows, whose packets may be longer than a batch's rows
    "resumed_ns",  # end of its last pause that has begun
    "raw",  # 1: its packets are whole frames, of which each is for it
)

# Functions of tm.h.
CALLED = (
    "receive",
    "receive_ahead",
    "receive_seeded",  # 0: it takes whole packets alone
    "advance",
    "next_event",
    "outputs",
    "outputs_clear",
)
# A row of World.switches: the addresses of the traffic manager and of these.
SWITCH = record(
    "manager",
    *CALLED,
    "done_ns",  # all its events up to here have been handled
)


class World(NamedTuple):
    """H hosts, T trunks, S switches."""

    state: np.ndarray  # STATE[1]
    queue: EventQueue  # of hosts
    fabric: EventQueue  # of trunks and switches
    hosts: np.ndarray  # HOST[H]
    pauses: np.ndarray  # int64[*, 3], begin and end in ns and the host that stands still, by begin
    identity: np.ndarray  # uint8[H, 16], MAC address, 2 bytes of 0, IPv4 address, UDP port, 2 of 0
    headers: np.ndarray  # uint8[*, 42], Ethernet, IPv4 and UDP of each host and destination
    partial: np.ndarray  # int64[*], sum of the IPv4 header's words without length and checksum
    trunks: np.ndarray  # int64[T, 2], switch and its port
    switches: np.ndarray  # SWITCH[S]
    leads: np.ndarray  # int32[S, ports], the inbox behind each port; -1: none; H + T + trunk: it is
    #                    in another part
    background: np.ndarray  # int32[S, ports], that of the second machine, -1: none
    first: np.ndarray  # int32[H + 2 T], of each inbox, then of each trunk's outbox, -1: empty
    last: np.ndarray  # int32[H + 2 T]
    leaving: np.ndarray  # int64[T], frames in each outbox
    frames: Frames
    arrived: Batch
    out: Batch
    places: np.ndarray  # int64[3], addresses of `arrived`, `out` and `deadline`
    deadline: np.ndarray  # int64[1], of the last step
    frame: np.ndarray  # uint8[B], that a host is sending
    fill: np.ndarray  # int64[1], address of the tm_fill for seeded packets (machine.Batch); 0: none
    left: np.ndarray  # int64[2], where the traffic manager says what has left


def new_world(hosts: int, trunks: int, switches: int, ports: int, memory: FrameMemory) -> World:
    """A world of so many nodes, none of which is anything yet, with its frames in `memory`.
    `headers`, `partial`, `arrived` and `out` are empty, to be replaced."""
    batch = new_batch(0, 8)
    return World(
        state=new_table(STATE, free=FRAMES, pending=-1, failed_host=-1, finished_host=-1),
        queue=new_event_queue(hosts),
        fabric=new_event_queue(trunks + switches),
        hosts=np.zeros(hosts, HOST),
        pauses=np.zeros((0, 3), np.int64),
        identity=np.zeros((hosts, 16), np.uint8),
        headers=np.zeros((0, FRAME_OVERHEAD), np.uint8),
        partial=np.zeros(0, np.int64),
        trunks=np.zeros((trunks, 2), np.int64),
        switches=np.zeros(switches, SWITCH),
        leads=np.full((switches, ports), -1, np.int32),
        background=np.full((switches, ports), -1, np.int32),
        first=np.full(hosts + 2 * trunks, -1, np.int32),
        last=np.full(hosts + 2 * trunks, -1, np.int32),
        leaving=np.zeros(trunks, np.int64),
        frames=memory.new_frames(FRAMES),
        arrived=batch,
        out=batch,
        places=np.zeros(3, np.int64),
        deadline=np.zeros(1, np.int64),
        frame=np.zeros(memory.frame_bytes, np.uint8),
        fill=np.zeros(1, np.int64),
        left=np.zeros(2, np.int64),
    )


def set_turns(
    world: World,
    to_switch_ns: int,
    to_host_ns: int,
    slice_ns: int,
    back_ns: int,
    window_ns: int = 0,
) -> None:
    """Let hosts and switches take turns if a packet takes long enough from any host to its switch,
    and from there until a host has handled it. `slice_ns`: of hosts, at a time. `back_ns`: least
    time after which what a switch has sent to another one can bring it a packet back."""
    if min(to_switch_ns, to_host_ns) < SHORTEST_NS:
        return
    state = world.state[0]
    state.to_switch_ns, state.to_host_ns = to_switch_ns, to_host_ns
    state.slice_ns = slice_ns
    state.switch_slice_ns = max(min(slice_ns // SWITCH_SLICES, back_ns - 1), 0)
    state.grid_ns = window_ns or TURNS * (to_switch_ns + to_host_ns)
    state.after_ns = to_switch_ns if window_ns else 0
