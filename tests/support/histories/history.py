"""Random histories of a network: made from a seed, replayed, shrunk, and told in words.

A *history* is what befalls the frames of a run and its hosts: the n-th frame of a wire is lost,
doubled or held up, a host stands still for a while. Each is one *event* of a list, so a history
that breaks a protocol can be taken apart: `shrink` leaves out events as long as the run still
fails, and makes what is left simpler (ddmin, Zeller and Hildebrandt 2002). `tell` then prints the
few events that matter and what passed on the wires about the fragment that came out wrong.

Frames are named by their wire and their number on it, since that changes least when other events
are left out. A fault on a frame that is not sent any more does nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from testbed.dissect import Ina
from testbed.protocols import send_scoreboard, sizes
from testbed.setup import Setup
from tests.support.fabric import MS, NEVER, US, Fabric, Host, check_values

LIMIT_NS = 30_000 * MS  # virtual; retransmission timers are at most a second
FAULTY_FRAMES = 100  # of each wire, from its first: a run must be able to end
MIN_HELD_NS = 2 * US
MAX_HELD_NS = 8 * MS
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
    """`events` on wires that take `usual_ns` longer than the fabric's own delay, 0 where not said:
    ((node, neighbour, ns), ...)."""

    events: tuple[Event, ...] = ()
    usual_ns: tuple[tuple[str, str, int], ...] = ()


class Chances:
    """Draws what befalls a frame from (seed, wire, number) alone, at rates that the seed decides.

    `lossless`: frames may be doubled and held up, but arrive."""

    def __init__(self, seed: int, lossless: bool = False) -> None:
        draw = random.Random(f"rates {seed}")
        self.seed = seed
        self.loss = 0 if lossless else draw.choice((0, 0.01, 0.05, 0.2))
        self.doubled = draw.choice((0, 0.02, 0.1, 0.3))
        self.held = draw.choice((0, 0.02, 0.1, 0.4))
        self.faulty_end = draw.choice(("all", "hosts", "switches"))

    def usual_ns(self, fabric: Fabric) -> tuple[tuple[str, str, int], ...]:
        """Unequal paths: without them all workers of a job are in step to the nanosecond."""
        draw = random.Random(f"wires {self.seed}")
        wires = [
            (node, neighbour)
            for node in (*fabric.topology.hosts, *fabric.topology.switches)
            for neighbour, _, _ in fabric.topology.ports(node).values()
        ]
        return tuple((*wire, draw.randrange(20) * US // 4) for wire in wires)

    def pauses(self, fabric: Fabric) -> tuple[Pause, ...]:
        draw = random.Random(f"pauses {self.seed}")
        if draw.random() < 0.7:
            return ()
        start = draw.randrange(400) * US
        return (Pause(draw.choice(sorted(fabric.hosts)), start, start + draw.randrange(20) * MS),)

    def extra_ns(self, node: str, neighbour: str, number: int, at_switch: bool) -> tuple[int, ...]:
        if number >= FAULTY_FRAMES or self.faulty_end == ("hosts" if at_switch else "switches"):
            return (0,)
        draw = random.Random(f"{self.seed} {node} {neighbour} {number}")
        if draw.random() < self.loss:
            return ()
        extra = [self._held(draw) if draw.random() < self.held else 0]
        if draw.random() < self.doubled:
            extra.append(self._held(draw))
        return tuple(extra)

    def _held(self, draw: random.Random) -> int:
        """Log-uniform: from overtaking the next frame to outliving the whole exchange."""
        return int(MIN_HELD_NS * (MAX_HELD_NS / MIN_HELD_NS) ** draw.random()) // US * US


@dataclass(frozen=True)
class Passage:
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
    """A fabric whose wires and hosts suffer a history, or chances, which it writes down as one."""

    def __init__(self, setup: Setup, switches: dict, cause: History | Chances, telling=False):
        self.cause = cause
        self.telling = telling
        self.suffered: list[Event] = []
        self.passages: list[Passage] = []
        self._numbers: dict[tuple[str, str], int] = {}
        super().__init__(setup, switches)
        if isinstance(cause, Chances):
            self.usual_ns = cause.usual_ns(self)
            pauses = cause.pauses(self)
        else:
            self.usual_ns = cause.usual_ns
            pauses = tuple(event for event in cause.events if isinstance(event, Pause))
            self._faults = {
                (event.node, event.neighbour, event.number): event.extra_ns
                for event in cause.events
                if isinstance(event, Fault)
            }
        self._usual = {(node, neighbour): ns for node, neighbour, ns in self.usual_ns}
        self._pauses = pauses
        self._dead = {pause.host for pause in pauses if pause.end_ns == NEVER}
        self.suffered += pauses

    def workers(self) -> list[Host]:
        """Workers that are not dead, which must finish."""
        return [host for host in super().workers() if host.spec.host not in self._dead]

    def history(self) -> History:
        """The faults so far, as a history that can be run again."""
        return History(tuple(self.suffered), self.usual_ns)

    def _delays(self, node: str, neighbour: str, frame: bytes) -> tuple[int, ...]:
        wire = node, neighbour
        number = self._numbers.get(wire, 0)
        self._numbers[wire] = number + 1
        if isinstance(self.cause, Chances):
            extra_ns = self.cause.extra_ns(*wire, number, node in self.switches)
        else:
            extra_ns = self._faults.get((*wire, number), (0,))
        if extra_ns != (0,):
            self.suffered.append(Fault(*wire, number, extra_ns))
        if self.telling:
            self.passages.append(Passage(self.now, *wire, number, frame, extra_ns))
        usual = self._usual.get(wire, 0)
        return tuple(usual + extra for extra in extra_ns)

    def _at_host(self, name: str, arrival: tuple[int, bytes] | None) -> None:
        for pause in self._pauses:
            if pause.host == name and pause.start_ns <= self.now < pause.end_ns:
                if pause.end_ns < NEVER:
                    self._call(pause.end_ns, name, arrival)
                return
        super()._at_host(name, arrival)


# A run of a history: the network after it, and what went wrong, "" if nothing.
Run = Callable[[History | Chances, bool], tuple[Network, str]]


def run_of(setup: Setup, switches: Callable[[], dict], limit_ns: int = LIMIT_NS) -> Run:
    """Function that runs an experiment; `switches` makes its switches anew. The run must end within
    `limit_ns`, with every value exact, and no host may get packets that are not for it."""

    def run(cause: History | Chances, telling: bool = False) -> tuple[Network, str]:
        network = Network(setup, switches(), cause, telling)
        try:
            network.run(limit_ns)
            check_values(network)
            for name, host in network.hosts.items():
                assert host.counters()["foreign"] == 0, f"{name}: foreign packets"
        except AssertionError as error:
            return network, (str(error).splitlines() or ["an assertion failed"])[0]
        return network, ""

    return run


def kind_of(failure: str) -> str:
    """Failures that count as the same: a wrong value stays a wrong value, a stop a stop."""
    return next(kind for kind in ("wrong value", "foreign", "finished", "") if kind in failure)


def shrink(run: Run, history: History, failure: str) -> History:
    """A history as small as leaving out single events can make it that still fails alike."""

    def fails(events: Iterable[Event], usual_ns=history.usual_ns) -> bool:
        _, found = run(History(tuple(events), usual_ns), False)
        return found != "" and kind_of(found) == kind_of(failure)

    usual_ns = () if fails(history.events, ()) else history.usual_ns
    events = list(history.events)
    parts = 2
    while events:
        size = -(-len(events) // parts)
        for start in range(0, len(events), size):
            rest = events[:start] + events[start + size :]
            if fails(rest, usual_ns):
                events, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(2 * parts, len(events))
    for i, event in enumerate(events):
        for simpler in _simpler(event):
            if fails([*events[:i], simpler, *events[i + 1 :]], usual_ns):
                events[i] = simpler
                break
    return History(tuple(events), usual_ns)


def _simpler(event: Event) -> list[Event]:
    """The same event with rounder times and fewer copies, the simplest first."""
    if isinstance(event, Pause):
        return [] if event.end_ns == NEVER else [replace(event, end_ns=event.start_ns + MS)]
    rounded = [10 * US, 100 * US, MS]
    if not event.extra_ns:
        return []
    if len(event.extra_ns) == 1:
        return [replace(event, extra_ns=(ns,)) for ns in rounded if (ns,) < event.extra_ns]
    held = [replace(event, extra_ns=(ns,)) for ns in event.extra_ns if ns]
    return held + [replace(event, extra_ns=(0, ns)) for ns in rounded if (0, ns) != event.extra_ns]


def tell(run: Run, history: History) -> str:
    """Text about a failing history: its events, the wrong fragment's path, the end."""
    network, failure = run(history, True)
    where = {(p.node, p.neighbour, p.number): p for p in network.passages}
    lines = [failure, f"{len(history.events)} events:"]
    for event in history.events:
        if isinstance(event, Pause):
            lines.append(f"  {event.words()}")
            continue
        passage = where.get((event.node, event.neighbour, event.number))
        lines.append("  " + (passage.words() if passage else f"{event} (no such frame)"))
    if history.usual_ns:
        lines.append("wires that take longer, by 0.25 to 4.75 us: " + _longer(history.usual_ns))
    for job, fragment in _wrong(network)[:1]:
        lines.append(f"job {job}, fragment {fragment} on the wires:")
        told = [p.words() for p in network.passages if _is_about(p.frame, job, fragment)]
        if len(told) > TOLD_LINES:
            told[TOLD_LINES - 5 : -5] = [f"    ... and {len(told) - TOLD_LINES} more ..."]
        lines += told
    return "\n".join(lines)


def _longer(usual_ns: tuple[tuple[str, str, int], ...]) -> str:
    return ", ".join(f"{node} -> {to} {ns / US:g}" for node, to, ns in usual_ns if ns)


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


@dataclass(frozen=True)
class Found:
    """A history that breaks a run."""

    seed: int
    history: History
    failure: str


def hunt(run: Run, seeds: Iterable[int], lossless: bool = False) -> Found | None:
    """The first seed whose chances break the run; None if none does."""
    for seed in seeds:
        network, failure = run(Chances(seed, lossless), False)
        if failure:
            return Found(seed, network.history(), failure)
    return None


def explain(run: Run, found: Found) -> str:
    """A failure in words, shrunk: for an assertion's message."""
    history = shrink(run, found.history, found.failure)
    before = len(found.history.events)
    return f"seed {found.seed}, shrunk from {before} events:\n{tell(run, history)}"
