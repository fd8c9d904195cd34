"""Histories of a network: drawn, played and told in words.

A *history* is what happens to the frames of a run and its hosts: the n-th frame of a wire is lost,
doubled or held up, a host stands still for a while. Each is one *event* of a list, so that
Hypothesis can take a history that breaks a protocol apart: it leaves out events as long as the run
still fails, and makes what is left simpler. `tell` prints the few events that matter and what
passed on the wires about the fragment that came out wrong.

Frames are named by their wire and their number on it, since that changes least when other events
are left out. A fault on a frame that is not sent does nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from hypothesis import strategies as st

from testbed.dissect import Ina
from testbed.protocols import send_scoreboard, sizes, wire
from testbed.setup import Setup
from tests.support.fabric import MS, NEVER, US, Fabric, Host, check_values

LIMIT_NS = 30_000 * MS  # virtual; retransmission timers are at most a second
FAULTY_FRAMES = 64  # of each wire, from its first: a run must be able to end
TOLD_LINES = 60


@dataclass(frozen=True, order=True)
class Fault:
    """Fault of the `number`-th frame, from 0, that `node` sends to `neighbour`.

    `extra_ns`: the additional time that each of its copies takes; () lost, (0, 5000) doubled."""

    node: str
    neighbour: str
    number: int
    extra_ns: tuple[int, ...]

    def words(self) -> str:
        if not self.extra_ns:
            return "lost"
        if self.extra_ns == (0,):
            return "nothing"
        held = [f"{ns / US:g} us" for ns in self.extra_ns if ns]
        if len(self.extra_ns) == 1:
            return f"held up for {held[0]}"
        if 0 in self.extra_ns:
            return f"doubled, the copy {' and '.join(held)} later"
        return f"doubled, held up for {' and '.join(held)}"


@dataclass(frozen=True, order=True)
class Pause:
    """A host does nothing from `start_ns` to `end_ns`; what arrives waits. NEVER: it is dead."""

    host: str
    start_ns: int
    end_ns: int

    def words(self) -> str:
        if self.end_ns == NEVER:
            return f"{self.host} dies at {self.start_ns / US:g} us"
        return f"{self.host} stands still from {self.start_ns / US:g} to {self.end_ns / US:g} us"


Event = Fault | Pause


@dataclass(frozen=True)
class History:
    """`events`, and how much longer than others wires take: drawn from `unequal`, if it is not 0.
    Without it all workers of a job are in step to the nanosecond."""

    events: tuple[Event, ...] = ()
    unequal: int = 0


# From overtaking the next frame to outliving the whole exchange.
HELD_NS = [ns << power for power in range(13) for ns in (2000, 3000)]
LATE = [
    *((ns,) for ns in HELD_NS),
    *((0, ns) for ns in HELD_NS),
    *((first, second) for first in HELD_NS[::5] for second in HELD_NS[::5]),
]
LOST: list[tuple[int, ...]] = [()] * (len(LATE) // 2)


@st.composite
def histories(draw: st.DrawFn, setup: Setup, lossless: bool = False) -> History:
    """A history of an experiment. `lossless`: frames arrive, be it late or twice."""
    topology = setup.platform.topology
    nodes = *topology.hosts, *topology.switches
    ends = draw(st.sampled_from((topology.hosts, topology.switches, nodes)))
    frames = [
        (node, to, number)
        for number in range(FAULTY_FRAMES)
        for node in ends
        for to, _, _ in topology.ports(node).values()
    ]
    faults = st.tuples(st.sampled_from(frames), st.sampled_from(LATE if lossless else LOST + LATE))
    least = draw(st.sampled_from((0, 4, 24)))
    found = draw(st.lists(faults, min_size=least, max_size=4 * least + 4))
    events: list[Event] = [Fault(*frame, extra_ns) for frame, extra_ns in found]
    if draw(st.integers(0, 3)) == 3:
        start, length = draw(st.integers(0, 400)) * US, draw(st.integers(0, 20)) * MS
        groups = [job.group for job in setup.jobs.values()]
        hosts = {host for group in groups for host in (*group.workers, *group.servers)}
        events.append(Pause(draw(st.sampled_from(sorted(hosts))), start, start + length))
    return History(tuple(events), draw(st.integers(0, 99)))


class Passage(NamedTuple):
    """A frame on a wire."""

    now: int
    node: str
    neighbour: str
    number: int
    frame: bytes
    extra_ns: tuple[int, ...]

    def words(self) -> str:
        said = Fault(self.node, self.neighbour, self.number, self.extra_ns).words()
        fate = "" if said == "nothing" else f"   {said.upper()}"
        wire = f"{self.node} -> {self.neighbour}"
        what = f"#{self.number:<3d} {frame_words(self.frame)}{fate}"
        return f"{self.now / US:11.2f} us  {wire:9s} {what}"


def frame_words(frame: bytes) -> str:
    """A frame in a few words: kind, job and fragment, whose values, flags, the first value."""
    ina = Ina(frame[sizes.FRAME_OVERHEAD :])
    kind = ina.sprintf("%kind%")
    text = f"{kind} {ina.job}/{ina.fragment_number}"
    if kind == "control":
        return f"{kind} from {ina.sender}, numbers from {ina.index}"
    if kind in ("gradient", "gradient_zeros", "ask"):
        text += f" of {{{', '.join(str(w) for w in range(32) if ina.bitmap >> w & 1)}}}"
    if ina.flags:
        text += f" {ina.flags}"
    if ina.values:
        text += f", values {ina.values[0]} ..."
    return text


class Network(Fabric):
    """A fabric whose wires and hosts suffer a history; `passages`: what was on wires."""

    def __init__(self, setup: Setup, switches: dict, history: History) -> None:
        super().__init__(setup, switches)
        self.history = history
        self.passages: list[Passage] = []
        self.arrived: Counter[tuple[str, int]] = Counter()  # frames by host and kind
        self._numbers: dict[tuple[str, str], int] = {}
        self._faults = {
            (event.node, event.neighbour, event.number): event.extra_ns
            for event in history.events
            if isinstance(event, Fault)
        }
        self._pauses = [event for event in history.events if isinstance(event, Pause)]
        self._dead = {pause.host for pause in self._pauses if pause.end_ns == NEVER}

    def workers(self) -> list[Host]:
        """Workers that are not dead, which must finish."""
        return [host for host in super().workers() if host.spec.host not in self._dead]

    def usual_ns(self, node: str, neighbour: str) -> int:
        """How much longer than other wires a wire takes."""
        unequal = self.history.unequal
        return unequal and random.Random(f"{unequal} {node} {neighbour}").randrange(20) * US // 4

    def play(self, limit_ns: int = LIMIT_NS) -> str:
        """What goes wrong, "" if nothing: the run must end within `limit_ns`, with every value
        exact, no host may get packets that are not for it, and each must have counted what was on
        its wire."""
        try:
            self.run(limit_ns)
            check_values(self)
            for name, host in self.hosts.items():
                assert host.counters()["foreign"] == 0, f"{name}: foreign packets"
                self._check_counters(name)
        except AssertionError as error:
            return (str(error).splitlines() or ["an assertion failed"])[0]
        return ""

    def _check_counters(self, name: str) -> None:
        """What a host says that it has sent and got is what was on its wire."""
        host, counted = self.hosts[name], self.hosts[name].counters()
        sent, data = Counter[int](), []
        for passage in self.passages:
            if passage.node == name:
                ina = passage.frame[sizes.FRAME_OVERHEAD :]
                kind = ina[0] & (7 if ina[0] & 15 > wire.COLLIDED else 15)
                sent[kind] += 1
                if kind == wire.GRADIENT or kind == wire.CONTROL and any(ina[16:20]):
                    to = passage.frame[30:34] + (ina[16:20] if kind == wire.CONTROL else b"")
                    data.append(to + ina[8:12])
        found = {"reminders": sent[wire.REMINDER], "asks": sent[wire.ASK]}
        if host.is_worker:  # each packet goes for the first time once
            found = {"gradient_packets": len(data), "retransmissions": len(data) - len({*data})}
        elif self.forger is None:
            kinds = wire.GRADIENT, wire.RESULT  # the latter of a switch
            found["ps_packets"] = sum(self.arrived[name, kind] for kind in kinds)
            found["reminders_empty"] = self.arrived[name, wire.REMINDER_EMPTY]
        for counter, count in found.items():
            assert counted[counter] == count, f"{name}: {counter} {counted[counter]}, not {count}"

    def _delays(self, node: str, neighbour: str, frame: bytes) -> tuple[int, ...]:
        wire = node, neighbour
        number = self._numbers[wire] = self._numbers.get(wire, -1) + 1
        extra_ns = self._faults.get((*wire, number), (0,))
        self.passages.append(Passage(self.now, *wire, number, frame, extra_ns))
        usual = self.usual_ns(*wire)
        return tuple(usual + extra for extra in extra_ns)

    def _at_host(self, name: str, arrival: tuple[int, bytes] | None) -> None:
        for pause in self._pauses:
            if pause.host == name and pause.start_ns <= self.now < pause.end_ns:
                if pause.end_ns < NEVER:
                    self._call(pause.end_ns, name, arrival)
                return
        if arrival is not None:
            kind = arrival[1][sizes.FRAME_OVERHEAD] & 15
            self.arrived[name, kind & 7 if kind > wire.COLLIDED else kind] += 1
        super()._at_host(name, arrival)


def tell(network: Network, failure: str) -> str:
    """Text about a history that has failed: its events, the wrong fragment's path, the end."""
    history = network.history
    where = {(p.node, p.neighbour, p.number): p for p in network.passages}
    lines = [failure, f"{len(history.events)} events:"]
    for event in history.events:
        if isinstance(event, Pause):
            lines.append(f"  {event.words()}")
            continue
        passage = where.get((event.node, event.neighbour, event.number))
        lines.append("  " + (passage.words() if passage else f"{event} (no such frame)"))
    if history.unequal:
        wires = sorted({(p.node, p.neighbour) for p in network.passages})
        longer = (f"{node} -> {to} {network.usual_ns(node, to) / US:g}" for node, to in wires)
        lines.append(f"wires take longer, by us: {', '.join(longer)}")
    for job, fragment in _wrong(network)[:1]:
        lines.append(f"job {job}, fragment {fragment} on the wires:")
        told = [p.words() for p in network.passages if _is_about(p.frame, job, fragment)]
        if len(told) > TOLD_LINES:
            told[TOLD_LINES - 5 : -5] = [f"    ... and {len(told) - TOLD_LINES} more ..."]
        lines += told
    return "\n".join(lines)


def _wrong(network: Network) -> list[tuple[int, int]]:
    """(job, fragment counted through all iterations) of what is wrong or missing, per worker."""
    found = []
    for host in network.workers():
        status, job, b = host.machine.status, host.spec.job.number, host.machine.scoreboard
        if status[0].failed:
            return [(job, _number(host, int(status[0].iteration), int(status[0].fragment)))]
        missing = [
            f for f in range(host.spec.job.fragments) if not b.status[f] & send_scoreboard.RECEIVED
        ]
        if not host.finished() and missing:
            found.append((job, _number(host, int(b.state.iteration), missing[0])))
    return found


def _number(host: Host, iteration: int, fragment: int) -> int:
    """The number under which a fragment of an iteration is on the wire."""
    stream = getattr(host.machine.protocol, "stream", None)
    if stream is None:
        return iteration * host.spec.job.fragments + fragment
    return iteration * stream.fragment.size + int((stream.fragment == fragment).argmax())


def _is_about(frame: bytes, job: int, fragment: int) -> bool:
    ina = Ina(frame[sizes.FRAME_OVERHEAD :])
    return ina.sprintf("%kind%") != "control" and (ina.job, ina.fragment_number) == (job, fragment)
