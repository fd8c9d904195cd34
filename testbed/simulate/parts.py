"""A world in parts that run side by side, in several threads, or one after the other.

A frame that leaves a switch is on its way for at least the delay of the link and of the switch.
Two switches with such a link between them cannot affect each other sooner. So time is cut into
*windows* as long as the shortest of these delays. Within a window every part (some switches with
their hosts) handles its own events. Frames for other parts are handed over at the window's end.
This is conservative parallel simulation: nothing is ever taken back. Every node sees the same
frames at the same times as in one piece, so the results are the same to the last bit, whatever the
numbers of parts and threads. There are more parts than threads: what the hosts of a small part
need stays in a processor's cache for a whole window.

Switches stay together where the delay between them is shorter than `SHORTEST_NS`, or not known in
advance (a link that reorders holds frames up as they arrive). A run with windows ends with the
window that holds the time at which the last worker has finished, plus that of a host's link, also
if the world is in one piece.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from p4fabric.base.hops import next_hop, switch_of
from p4fabric.simulate import event_queue, loop
from p4fabric.simulate.event_queue import NEVER, EventQueue
from p4fabric.simulate.frames import hand_over
from p4fabric.simulate.jit import njit
from p4fabric.simulate.machine import Batch
from p4fabric.simulate.native import INTERPRETED
from p4fabric.simulate.placed_machine import Placed, at
from p4fabric.simulate.state import FRAMES, World

from testbed.setup import Platform, Setup
from testbed.setup.late_trees import late_jobs
from testbed.simulate.host_switch_turns import take_turns, ways_out
from testbed.simulate.world import Nodes

SHORTEST_NS = 200  # of a window; in less time too little happens
WORTHWHILE = 200  # hosts; with fewer of them too little happens in a window
PART_HOSTS = 64  # about as many hosts in a part
EVENTS_AT_ONCE = 200_000  # a fraction of a second


class Parts:
    """All parts of the `nodes` of one run. `window_ns` is 0 where there are no windows: jobs come
    and go, links fail (so frames are kept until they arrive), or no two switches are far enough
    apart."""

    def __init__(self, nodes: Nodes, threads: int = 1) -> None:
        """Divide the world; with few hosts, or one group of switches, it stays in one piece."""
        self.nodes = nodes
        self._batches: list[Placed] = []
        self._threads = 1
        self._others: ThreadPoolExecutor | None = None
        self._end_ns = NEVER - 1  # of the last window, once it is known
        self._done_ns = -1  # up to here all windows are done
        self.window_ns = 0
        platform = nodes.setup.platform
        if platform.arrivals or platform.links_fail or late_jobs(nodes.setup):
            return
        ahead = _lookaheads(platform)
        groups = _groups(list(nodes.switches), ahead)
        if len(groups) > 1:
            of = {switch: number for number, group in enumerate(groups) for switch in group}
            self.window_ns = min(ns for (a, b), ns in ahead.items() if of[a] != of[b])
        take_turns(nodes, self.window_ns)
        if len(groups) == 1:
            return
        count = max(threads, len(nodes.hosts) // PART_HOSTS)
        if count > 1 and len(nodes.hosts) >= WORTHWHILE and not INTERPRETED:
            self._divide(_shares(groups, _loads(nodes.setup), count))
            self._threads = min(threads, len(self))
        if self._threads > 1:
            self._others = ThreadPoolExecutor(self._threads - 1)

    def __len__(self) -> int:
        return len(self.nodes.worlds)

    @property
    def now_ns(self) -> int:
        """Time of the last event."""
        return max(int(world.part.state[0].now) for world in self.nodes.worlds)

    @property
    def events(self) -> int:
        """Handled so far."""
        return sum(int(world.part.state[0].events) for world in self.nodes.worlds)

    @property
    def next_ns(self) -> int:
        """Time of the next event: before it nothing more will happen."""
        return min(_next_ns(world.part) for world in self.nodes.worlds)

    @property
    def failed_host(self) -> int:
        """The first host that has found a wrong value, after FAILED."""
        states = [world.part.state[0] for world in self.nodes.worlds]
        failed = [state for state in states if state.failed_host >= 0]
        return int(min(failed, key=lambda state: int(state.failed_ns)).failed_host)

    def close(self) -> None:
        """End the threads."""
        if self._others is not None:
            self._others.shutdown()

    def run(self, until_ns: int, events: int) -> int:
        """Handle events up to and including `until_ns`, about `events` of them at most; returns why
        it ended (loop.py), never NO_ROOM."""
        if not self.window_ns:
            return self._run_part(0, until_ns, events)
        last = self.events + events
        while True:
            next_ns = self.next_ns
            if next_ns >= NEVER and self._end_ns == NEVER - 1:
                return loop.NO_EVENTS
            if next_ns > self._end_ns:
                for world in self.nodes.worlds:
                    world.part.state[0].now = self._end_ns
                return loop.FINISHED
            if next_ns > until_ns:
                return loop.TIME_REACHED
            if self.events >= last:
                return loop.EVENTS_HANDLED
            stop_ns = min(until_ns, self._end_ns)
            if len(self) == 1:
                reason = self._run_part(0, stop_ns, last - self.events)
            else:
                lag_ns = int(self.nodes.world.state[0].to_switch_ns)
                some_ns = min(_next_ns(world.part, lag_ns) for world in self.nodes.worlds)
                end_ns = self._window_end(max(some_ns, self._done_ns + 1))
                reason = self._run_window(end_ns, stop_ns)
            if reason in (loop.FAILED, loop.RAISED):
                return reason
            states = [world.part.state[0] for world in self.nodes.worlds]
            if self._end_ns == NEVER - 1 and not any(state.open for state in states):
                closed_ns = max(int(state.closed_ns) for state in states)
                self._end_ns = self._window_end(closed_ns + int(states[0].after_ns))
                for state in states:
                    state.goes_on = 1

    def _window_end(self, time_ns: int) -> int:
        """The last ns of the window with this time."""
        return time_ns - time_ns % self.window_ns + self.window_ns - 1

    def _run_part(self, number: int, until_ns: int, events: int) -> int:
        while True:
            reason = loop.run(self.nodes.worlds[number], until_ns, events)
            assert self.nodes.worlds[number].part.state[0].too_late == 0
            if reason == loop.STUCK:
                world = self.nodes.worlds[number]
                failed = self.nodes.present_at(int(world.part.state[0].failed_host))
                raise loop.stuck(world, failed.spec.host)
            if reason != loop.NO_ROOM:
                return reason
            self.grow(number)

    def grow(self, number: int = 0) -> None:
        """Make room for more frames on their way to the nodes of a part."""
        world = self.nodes.worlds[number].part
        frames = self.nodes.memory.larger(world.frames, int(world.state[0].free))
        world.state[0].free += world.frames.free.size
        self.nodes.worlds[number] = Placed(world._replace(frames=frames))

    # -- several parts

    def _divide(self, shares: list[set[str]]) -> None:
        """Give each share of the switches a world of its own, which has the nodes in common with
        the others, but not the events and the frames."""
        whole = self.nodes.world
        owner = np.zeros(len(whole.switches), np.int64)
        for number, switch in enumerate(self.nodes.switches):
            owner[number] = next(part for part, share in enumerate(shares) if switch in share)
        hosts, trunks = len(whole.hosts), len(whole.trunks)
        self._from_to = np.stack([owner[whole.trunks[:, 0]]] * 2, axis=1)
        for number, row in enumerate(whole.leads):
            ours = row - hosts
            self._from_to[ours[ours >= 0], 0] = owner[number]
            leaves = (ours >= 0) & (self._from_to[np.maximum(ours, 0), 1] != owner[number])
            row[leaves] += trunks
        made = [_part(self.nodes, owner, number) for number in range(len(shares))]
        self.nodes.worlds[:] = [Placed(world) for world, _ in made]
        self._batches = [batch for _, batches in made for batch in batches]

    def _run_window(self, end_ns: int, stop_ns: int) -> int:
        """Let all parts handle their events up to a window's end, or only to `stop_ns`; then every
        frame gets to its part.

        What a host sends at the end of a window reaches its switch in the next one, with the frames
        of all other parts in between. So hosts are left where they are so long before the end, and
        go on in the next window, side by side with their switches."""
        until_ns = self._done_ns = min(end_ns, stop_ns)
        for world in self.nodes.worlds:
            state = world.part.state[0]
            state.lag_ns = state.to_switch_ns if until_ns < stop_ns else 0
        numbers = iter(range(len(self)))  # threads take turns, each the next part
        others = []
        if self._others is not None:
            others = [
                self._others.submit(self._run_wholly, numbers, until_ns)
                for _ in range(self._threads - 1)
            ]
        reasons = [self._run_wholly(numbers, until_ns), *(other.result() for other in others)]
        for reason in (loop.FAILED, loop.RAISED):
            if reason in reasons:
                return reason
        while (full := self._hand_over()) >= 0:
            self.grow(full)
        return loop.TIME_REACHED

    def _run_wholly(self, numbers: Iterator[int], until_ns: int) -> int:
        reason = loop.TIME_REACHED
        for number in numbers:
            ended = loop.EVENTS_HANDLED
            while ended == loop.EVENTS_HANDLED:
                ended = self._run_part(number, until_ns, EVENTS_AT_ONCE)
            if ended in (loop.FAILED, loop.RAISED):
                reason = ended
        return reason

    def _hand_over(self) -> int:
        """Give the frames that have left parts to theirs. Returns -1, or a part without room."""
        addresses = np.array([world.address for world in self.nodes.worlds])
        return _hand_over(addresses, self._from_to)


@njit(cache=True)
def _hand_over(addresses, from_to):
    for trunk in range(from_to.shape[0]):
        source, target = at(addresses[from_to[trunk, 0]], loop.WORLD), from_to[trunk, 1]
        if not hand_over(source, at(addresses[target], loop.WORLD), trunk):
            return target
    return -1


def _next_ns(world: World, lag_ns: int = 0) -> int:
    """Time of the next event, or, where hosts lag behind, up to which time the world must run to
    handle one."""
    host_ns, fabric_ns = (int(each.time[each.winner[1]]) for each in (world.queue, world.fabric))
    return min(host_ns + lag_ns, fabric_ns)


def _part(nodes: Nodes, owner: np.ndarray, number: int) -> tuple[World, list[Placed]]:
    """A world with the events of those nodes that belong to a part, and the batches of packets that
    it needs for itself."""
    whole = nodes.world
    hosts = owner[whole.hosts["switch"]] == number
    switches = np.concatenate([owner[whole.trunks[:, 0]] == number, owner == number])
    state = whole.state.copy()
    state[0].open = np.sum(whole.hosts["awaited"][hosts])
    state[0].goes_on = 1
    frames = nodes.memory.new_frames(FRAMES)
    state[0].free = len(frames.free)
    arrived, out = (
        Placed(Batch(*(np.zeros(each.shape, each.dtype) for each in batch)))  # not written to
        for batch in (whole.arrived, whole.out)
    )
    deadline = np.zeros_like(whole.deadline)
    part = whole._replace(
        state=state,
        queue=_those(whole.queue, hosts),
        fabric=_those(whole.fabric, switches),
        pauses=whole.pauses[hosts[whole.pauses[:, 2]]],
        frames=frames,
        arrived=arrived.part,
        out=out.part,
        places=np.array([arrived.address, out.address, deadline.ctypes.data]),
        deadline=deadline,
        frame=np.zeros_like(whole.frame),
        left=np.zeros_like(whole.left),
    )
    return part, [arrived, out]


def _those(queue: EventQueue, mine: np.ndarray) -> EventQueue:
    """The same queue without the sources that are not `mine`."""
    made = event_queue.new_event_queue(mine.size)
    for source in np.flatnonzero(mine):
        event_queue.put(made, source, queue.time[source])
    return made


# -- which switches belong together


def _lookaheads(platform: Platform) -> dict[tuple[str, str], int]:
    """Shortest time that a frame is on its way between each pair of neighbouring switches, (from,
    to), in ns."""
    topology = platform.topology
    found: dict[tuple[str, str], int] = {}
    for switch in topology.switches:
        for neighbour, _, _, ahead_ns in ways_out(platform, switch):
            if not topology.is_host(neighbour):
                pair = switch, neighbour
                found[pair] = min(found.get(pair, NEVER), ahead_ns)
    return found


def _groups(switches: list[str], ahead: dict[tuple[str, str], int]) -> list[set[str]]:
    """The switches in groups that are far enough apart."""
    groups = {switch: {switch} for switch in switches}
    for (a, b), ns in ahead.items():
        if ns < SHORTEST_NS and groups[a] is not groups[b]:
            groups[a] |= groups[b]
            groups |= dict.fromkeys(groups[b], groups[a])
    return [group for switch, group in groups.items() if switch == min(group, key=switches.index)]


def _loads(setup: Setup) -> Counter[str]:
    """About how much work each switch is with its hosts: what a packet of each worker passes on its
    way to its job's server, or to the root."""
    topology = setup.platform.topology
    loads: Counter[str] = Counter()
    for job in setup.jobs.values():
        placement = job.group
        for server in placement.servers:
            loads[switch_of(topology, server)] += 2 * len(placement.workers)
        target = placement.servers[0] if placement.servers else placement.workers[0]
        for worker in placement.workers:
            at_switch = switch_of(topology, worker)
            loads[at_switch] += 2
            while not topology.is_host(at_switch):
                loads[at_switch] += 1
                hop = next_hop(topology, at_switch, target)
                if hop is None:
                    break
                at_switch = hop[1]
    return loads


def _shares(groups: list[set[str]], loads: Counter[str], count: int) -> list[set[str]]:
    """The groups in `count` about equal shares, or in one for each of them."""
    shares: list[set[str]] = [set() for _ in range(min(count, len(groups)))]
    work = [0] * len(shares)
    for group in sorted(groups, key=lambda group: -sum(loads[switch] for switch in group)):
        least = work.index(min(work))
        shares[least] |= group
        work[least] += sum(loads[switch] for switch in group)
    return [share for share in shares if share]
