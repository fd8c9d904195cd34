"""The tools of a check: switches that run the submission, its Python, and a seeded source of
randomness.

The switch runs in a confined process. Packets go there one by one, with a time that the bench
counts itself (virtual time). The bench compares the answers.
"""

from __future__ import annotations

import functools
import random
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from p4engine.backend.build import Compiled, compile_program, compiled_before
from p4engine.switch.library import MANAGER_CALLS, PROGRAM_CALLS
from scapy.packet import Packet

from labs.grader.box import CLOCK, Box, BoxDied, BoxError, NotJudged, Refused
from labs.grader.failure import Failure
from labs.grader.network import Wires
from labs.grader.packets import differences, wrapped

Frame = Packet | bytes
Packets = list[tuple[int, bytes]]

PACKET_GAP_NS = 100_000
# Limits in seconds of processor time.
CALL_S = 5.0  # for a call of the student's Python
PACKETS_S = 2.0  # for the packets of one call to a switch; they take milliseconds
LIFE_S = 30.0
# On the clock, until a switch on a network has nothing more to do.
SETTLE_S = PACKETS_S * CLOCK / 2
MAX_FRAMES = 1024  # that are captured at a port for one packet


NOWHERE = "a port or a multicast group that the switch does not have"
ASTRAY = f"a packet leaves for {NOWHERE}"
STF = "test.stf"
COMMON = Path(__file__).resolve().parents[1] / "common"


class Broken(Exception):
    """A file of the submission cannot be run at all: it does not compile, say. The message tells
    why."""


def plain(text: str) -> str:
    """The beginning of a message about a process, without what the submission may have added."""
    return text.partition(": ")[0].partition(" (")[0]


class BoxedSwitch:
    """A switch in a confined process."""

    def __init__(self, bench: Bench, box: Box, number: int, traced: bool) -> None:
        self.bench, self.box, self.number, self.traced = bench, box, number, traced
        self.astray = 0  # of what was sent last

    def control(self, calls: list[list]) -> list:
        return self.bench.call(self.box, "control", self.number, calls)

    def send(self, packets: list[list], until_ns: int | None) -> tuple[list, int, list[str]]:
        """Packets that leave, their number, and the log; `astray` is then the number of packets
        that have left for ports and multicast groups that are not there."""
        outputs, count, log, astray = self.bench.call(
            self.box, "send", self.number, packets, until_ns, limit_s=PACKETS_S
        )
        self.astray = int(astray)
        return [(int(t), int(p), bytes(d)) for t, p, d in outputs], int(count), list(log)

    def trace(self) -> list[str]:
        return self.bench.call(self.box, "trace", self.number) if self.traced else []


class WiredSwitch(BoxedSwitch):
    """A switch in a confined process that is a node of a Mininet network, under the real clock."""

    def __init__(self, bench: Bench, box: Box, number: int, traced: bool, wires: Wires) -> None:
        super().__init__(bench, box, number, traced)
        self.wires = wires
        self._counted = {port: [0, 0] for port in wires.interfaces}
        self._astray = 0  # since the switch exists

    def send(self, packets: list[list], until_ns: int | None) -> tuple[list, int, list[str]]:
        """The packets one after the other, as fast as possible; their times do not count."""
        assert until_ns is None, "this check should say that it needs virtual time"
        assert self is self.bench.wired, "a network has one switch: the one made last"
        self.wires.forget()
        for port, data, _ in packets:
            self.wires.send(port, data)
        received = sum(r for r, _ in self._counted.values()) + len(packets)
        settled = self.bench.call(
            self.box, "settle", self.number, received, SETTLE_S, limit_s=PACKETS_S
        )
        done, counted, log = bool(settled[0]), settled[1], list(settled[2])
        self.astray, self._astray = int(settled[3]) - self._astray, int(settled[3])
        sent = {port: counted[port][1] - s for port, (_, s) in self._counted.items()}
        self._counted = {port: counted[port] for port in self._counted}
        self.bench.carried[0] += len(packets)
        if not done:
            raise NotJudged(f"not judged, run again: not done with a packet after {SETTLE_S:.0f} s")
        outputs = self.wires.capture({port: min(n, MAX_FRAMES) for port, n in sent.items()})
        self.bench.carried[1] += len(outputs)
        count = sum(sent.values())
        if len(outputs) < min(count, MAX_FRAMES):
            text = f"of {count} packets that left the switch {len(outputs)} have arrived"
            raise NotJudged(f"not judged, run again: {text}")
        return outputs, count, log


class Switch:
    """A switch with the submission's program, as checks see it.

    Control calls are those of p4engine.switch.library.Switch: table_add, multicast_group, ...
    """

    def __init__(self, bench: Bench, target: BoxedSwitch) -> None:
        self._bench, self._target = bench, target
        self._history: Packets = []
        self.now_ns = 0
        self.astray = 0  # packets that have left for ports and groups that are not there

    def __getattr__(self, name: str) -> Any:
        if name not in PROGRAM_CALLS + MANAGER_CALLS:
            raise AttributeError(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                (result,) = self._target.control([[name, list(args), kwargs]])
            except Refused as error:
                what = ", ".join(str(a) for a in args[:2])
                raise Failure(f"the control plane's {name}({what}) was refused: {error}") from None
            return result

        return call

    def send(self, port: int, frame: Frame) -> Packets:
        """Send one packet and return what leaves for it, as (port, frame)."""
        self.now_ns += PACKET_GAP_NS
        return [(p, d) for _, p, d in self.burst([(self.now_ns, port, frame)])]

    def burst(
        self, packets: Sequence[tuple[int, int, Frame]], until_ns: int | None = None
    ) -> list[tuple[int, int, bytes]]:
        """Send packets (time_ns, port, frame) and return what leaves, as (time_ns, port, frame)."""
        sent = [(port, bytes(frame)) for _, port, frame in packets]
        ready = [[*pair, at_ns] for pair, (at_ns, _, _) in zip(sent, packets, strict=True)]
        self._bench.about = sent[-1] if sent else None
        outputs, count, log = self._target.send(ready, until_ns)
        self._bench.heard(log)
        self._bench.traced(self._target.trace())
        if count > len(outputs):
            raise Failure(f"the switch sends {count} packets in answer to {len(ready)}")
        self.astray += self._target.astray
        self._history += sent
        self.now_ns = max([self.now_ns, *(at for at, _, _ in packets)])
        return outputs

    def expect(
        self,
        port: int,
        frame: Frame,
        leaving: Mapping[int, Frame | Sequence[Frame]],
        why: str = "",
        only: Collection[str] = (),
        ignore: Collection[str] = (),
    ) -> None:
        """Send a packet and require what leaves: frames by port, in order, and nothing else.

        Args:
            why: what should happen, as a sentence for the student.
            only, ignore: compare these fields only, or all but these ("Agg.kind", "Ether").

        Raises:
            Failure: with all that was sent, expected and got.
        """
        wanted: Packets = []
        for number, frames in sorted(leaving.items()):
            many = frames if isinstance(frames, list | tuple) else [cast(Frame, frames)]
            wanted += [(number, bytes(f)) for f in many]
        sent = (port, bytes(frame))
        before, astray = list(self._history), self.astray
        got = self.send(port, frame)
        failure = functools.partial(Failure, sent=sent, expected=wanted, got=got, history=before)
        for number in sorted({p for p, _ in wanted} | {p for p, _ in got}):
            want = [d for p, d in wanted if p == number]
            have = [d for p, d in got if p == number]
            for i, (left, right) in enumerate(zip(want, have, strict=False)):
                found = differences(left, right, only, ignore) if left != right else []
                if found:
                    which = f"port {number}" + (f", packet {i + 1}" if len(want) > 1 else "")
                    raise failure(
                        why or "a packet that leaves is not what it should be",
                        differences=found,
                        where=f"{which} differs in",
                    )
            if len(want) != len(have):
                text = f"{_count(len(have))} left port {number}, not {_count(len(want))}"
                raise failure(f"{why} ({text})" if why else text)
        if self.astray > astray:
            text = f"{_count(self.astray - astray)} left for {NOWHERE}, instead of being dropped"
            raise failure(f"{why} ({text})" if why else text, case=ASTRAY)

    def nothing_astray(self) -> None:
        """For checks that look at what leaves by themselves: nothing has left for a port or group
        that is not there. Raises Failure."""
        if self.astray:
            raise Failure(f"{_count(self.astray)} left for {NOWHERE}", case=ASTRAY)

    def expect_one(
        self,
        port: int,
        frame: Frame,
        leaving: Frame,
        why: str,
        only: Collection[str] = (),
        ignore: Collection[str] = (),
    ) -> None:
        """Like `expect`, of the first packet that leaves on whatever port: for checks of what a
        packet says, which a mistake in where it goes should not fail."""
        before = list(self._history)
        got = self.send(port, frame)
        sent = (port, bytes(frame))
        failure = functools.partial(Failure, sent=sent, got=got, history=before)
        if not got:
            raise failure(f"{why} (nothing left the switch)")
        found = differences(bytes(leaving), got[0][1], only, ignore)
        if found:
            where = f"port {got[0][0]} differs in"
            raise failure(why, differences=found, where=where)


def _count(n: int) -> str:
    return "no packet" if n == 0 else "1 packet" if n == 1 else f"{n} packets"


class Python:
    """A student's Python module in a confined process."""

    def __init__(self, bench: Bench, box: Box) -> None:
        self._bench, self._box = bench, box

    def function(self, name: str, *args: Any, limit_s: float = CALL_S) -> Any:
        """The result of the module's function, as plain values and arrays. Raises Failure."""
        return self._call(f"{name}()", "function", name, list(args), limit_s=limit_s)

    def make(self, name: str, *args: Any) -> int:
        """A new object of a class; returns its number."""
        return self._call(f"{name}()", "make", name, list(args))

    def method(self, number: int, name: str, *args: Any) -> Any:
        """Call an object's method."""
        return self._call(f"{name}()", "method", number, name, list(args))

    def methods(self, calls: Sequence[tuple[int, str, list]]) -> list:
        """Call several methods, (number, name, arguments) each; what they return."""
        names = ", ".join(dict.fromkeys(f"{name}()" for _, name, _ in calls))
        return self._call(names, "methods", [list(call) for call in calls])

    def _call(self, what: str, call: str, *args: Any, limit_s: float = CALL_S) -> Any:
        try:
            return self._bench.call(self._box, call, *args, limit_s=limit_s)
        except Refused as error:
            text = f"{what} raises an error"
            raise Failure(text, details=str(error).splitlines(), case=text) from None


class Setting(Protocol):
    """A lab as a bench sees it (lab.py): the name of the submission's P4 program or Python module,
    the packages that the module may import, compile-time parameters, and the switch's ports."""

    program: str
    module: str
    packages: tuple[str, ...]
    defines: dict[str, int]
    ports: tuple[int, ...]


@functools.cache
def _own_program(name: str, text: str, defines: tuple[tuple[str, int], ...]) -> Compiled:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_text(text)
        return compile_program(Path(folder) / name, dict(defines), [COMMON])


class Bench:
    """One check's view of a submission. Closed after the check.

    Args:
        build: makes a program: (name, defines, traced) -> key in the scratch folder's cache.
        switches: starts a process that holds switches, or gives the one that is there.
        limit_s: processor time for all calls of the check.
        wires: the network that the submission's switch is on; None: none, and time is virtual.
        node: like `switches`, of the process in the network's switch.
        broken: why a Python module cannot be run; of all checks of a submission.
        student: whose submission it is.
    """

    def __init__(
        self,
        lab: Setting,
        scratch: Path,
        stream: random.Random,
        build: Callable[[str, dict[str, int], bool], str],
        switches: Callable[[], Box],
        limit_s: float,
        trace: bool = False,
        wires: Wires | None = None,
        node: Callable[[], Box] | None = None,
        broken: dict[str, Broken] | None = None,
        student: str = "",
    ) -> None:
        self.student = student
        self._broken = {} if broken is None else broken
        self.wires, self._node = wires, node
        self.wired: WiredSwitch | None = None  # the one that has the wires now
        self.carried = [0, 0]  # frames that hosts have sent and captured
        self.virtual = 0  # switches without a network
        self.lab, self.scratch, self.trace = lab, scratch, trace
        self.random = stream
        self.case = ""  # the class of case that a check is at, told where values are hidden
        self.score: float | None = None  # for a league table
        self.share = 0.0  # of the points, that a submission has earned although it fails
        self.limit_s, self.used_s = limit_s, 0.0
        self._build, self._switches = build, switches
        self._boxes: list[Box] = []
        self.about: tuple[int, bytes] | None = None  # the packet sent last
        self.trace_lines: list[str] = []
        self.log: list[str] = []
        self.notes: list[str] = []

    def close(self) -> None:
        for box in self._boxes:
            box.close()

    def printed(self) -> str:
        """The output of the submission."""
        return "".join(b.printed.decode(errors="replace") for b in self._boxes)

    @property
    def modules(self) -> bool:
        """A Python module of the submission has been in use."""
        return bool(self._boxes)

    def note(self, text: str) -> None:
        """Something worth knowing, told with the result whether or not the check passes."""
        self.notes.append(text)

    def switch(self, **defines: int) -> Switch:
        """A fresh switch with the submission's program and these compile-time parameters.

        On a network it takes the place of the one before.
        """
        defines = {**self.lab.defines, **defines}
        if self.wires is None:
            return self._boxed(self.lab.program, defines, self.trace)
        key = self._build(self.lab.program, defines, self.trace)
        assert self._node is not None, "a network has a process in its switch"
        box = self._node()
        seed = self.random.getrandbits(32)
        number = self.call(box, "attach", key, self.wires.interfaces, seed, self.trace)
        self.wired = WiredSwitch(self, box, number, self.trace, self.wires)
        return Switch(self, self.wired)

    def traced_switch(self, program: str) -> Switch:
        """A switch with any P4 program of the lab, whose trace is kept; never on a network."""
        return self._boxed(program, dict(self.lab.defines), True)

    def _boxed(self, program: str, defines: dict[str, int], trace: bool) -> Switch:
        return self._loaded(self._build(program, defines, trace), trace)

    def _loaded(self, key: str, trace: bool) -> Switch:
        box = self._switches()
        seed = self.random.getrandbits(32)
        number = self.call(box, "load", key, list(self.lab.ports), seed, trace)
        self.virtual += 1
        return Switch(self, BoxedSwitch(self, box, number, trace))

    def own_switch(self, name: str, text: str, **defines: int) -> Switch:
        """A switch with a program of ours; never on a network."""
        return self._loaded(self.own_program(name, text, **defines), False)

    def own_program(self, name: str, text: str, **defines: int) -> str:
        """The key of a program of ours. It is compiled outside of the sandbox, once."""
        compiled = _own_program(name, text, tuple(sorted(defines.items())))
        cache = self.scratch / "cache"
        if not (cache / f"{compiled.hash}.so").exists():
            for path in (compiled.so_path, compiled.so_path.with_suffix(".json")):
                shutil.copy(path, cache)
        return compiled.hash

    def stf(self, key: str, text: str) -> str:
        """Run a test of the submission, in the format STF, on a fresh switch with a program of
        ours; why it fails, "": it passes."""
        (self.scratch / "cache" / STF).write_text(text)
        return str(self.call(self._switches(), "stf", key, STF, limit_s=PACKETS_S))

    def register_bits(self) -> int:
        """The bits of all registers of the submission's program."""
        key = self._build(self.lab.program, dict(self.lab.defines), self.trace)
        compiled = compiled_before(self.scratch / "cache" / f"{key}.so")
        assert compiled is not None, "a program that was compiled just now is damaged"
        return sum(register.size * register.width for register in compiled.info.registers)

    def read(self, name: str) -> str:
        """The text of a file that was handed in."""
        return (self.scratch / "source" / name).read_text(errors="replace")

    def python(self, module: str = "") -> Python:
        """The submission's Python module in a fresh process. Raises Broken if it has errors."""
        name = module or self.lab.module
        if name in self._broken:
            raise self._broken[name]
        box = Box("python", self.scratch, max(LIFE_S, self.limit_s), self.lab.packages)
        self._boxes.append(box)
        try:
            box.call("module_load", name, limit_s=CALL_S)
            self.used_s += box.used_s
        except BoxError as error:
            self._broken[name] = Broken(f"{name} cannot be imported\n{error}")
            raise self._broken[name] from None
        return Python(self, box)

    def call(self, box: Box, name: str, *args: Any, limit_s: float = CALL_S) -> Any:
        """A call to a confined process within the check's time. Raises Refused, or Failure for a
        process that is gone."""
        left = self.limit_s - self.used_s
        try:
            if left <= 0:
                raise BoxDied("")
            return box.call(name, *args, limit_s=min(limit_s, left))
        except BoxDied as error:
            over = f"the time for this test is over ({self.limit_s:g} s of computing)"
            text = over if left <= limit_s else str(error)
            raise Failure(text, sent=self.about, case=plain(text)) from None
        finally:
            self.used_s += box.used_s

    def heard(self, log: list[str]) -> None:
        """The program's log_msg texts."""
        self.log += [str(text) for text in log[:20]]

    def traced(self, lines: list[str]) -> None:
        """Keep the last packet's trace."""
        self.trace_lines = [str(line) for line in lines]


__all__ = ["Bench", "BoxError", "Broken", "Failure", "Packets", "Python", "Switch"]


def numbers(t: Bench, count: int, bits: int = 31) -> list[int]:
    """`count` random values below 2^bits in size, one of four next to an end."""
    made = [t.random.randrange(-(1 << bits), 1 << bits) for _ in range(count)]
    ends = (1 << bits) - 1, -(1 << bits), 1 - (1 << bits)
    return [t.random.choice(ends) if t.random.random() < 0.25 else value for value in made]


def draw_bits(t: Bench, count: int) -> list[int]:
    """Bits of two or more workers, in any order: the lowest and the highest, and some between."""
    made = [0, 31, *t.random.sample(range(1, 31), count - 2)]
    t.random.shuffle(made)
    return made


def first_number(t: Bench, near: int) -> int:
    """A number from which consecutive ones go on. Between `near` and twice as many of them later,
    31 bits no longer do: registers that are too narrow, and comparisons with a sign, are wrong."""
    return (1 << 31) - t.random.randrange(near, 2 * near)


def total(parts: Iterable[Sequence[int]]) -> list[int]:
    """The sum at each position, as int32."""
    return [wrapped(sum(column)) for column in zip(*parts, strict=True)]
