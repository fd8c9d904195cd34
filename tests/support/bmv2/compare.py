"""One case on both switches: which packets left which port, and what the registers hold then.

Equal means equal to the byte, and in order for each port. Both switches get their packets in one
order, but not at the same times: BMv2 has a clock. So registers that hold times or sums of times
are not compared (TIMES); none of the cases lets a time decide anything.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from p4engine.switch.library import Switch

from p4engine import compile_program
from testbed import dataplane
from testbed.bmv2.compiler import compile_for_bmv2
from tests.support.bmv2.cases import Case, address_of_port, calls_of, surroundings
from tests.support.bmv2.packets import sequence
from tests.support.bmv2.simple_switch import SimpleSwitch, marks

# Of pool.p4 and switchml.p4: clock readings and sums of differences of clock readings.
TIMES = (
    *("slot_since", "slot_touched", "first_since", "second_since"),
    *("filling_time", "held_time"),
)
GAP_NS = 1000


@dataclass(frozen=True)
class Outcome:
    """Result of a comparison. `events`: the number of times that each event of the program's
    register `events` occurred, by the event's number."""

    packets: int
    outputs: int
    registers: int
    events: dict[int, int]


class Difference(AssertionError):
    """The switches disagree; the message says where first."""


def compare(
    case: Case, count: int, seed: int, values: int = 4, embedded: Path | None = None
) -> Outcome:
    """Send `count` random packets through both switches. Raises Difference.

    `embedded`: another P4 file for the embedded switch alone, to see that a difference is seen."""
    setup = case.setup(values)
    calls = calls_of(case, setup)
    source, definitions, include_dirs = dataplane.program(setup.platform)
    around = surroundings(case, setup)
    last = marks(address_of_port(calls))
    if sorted(port for port, _ in last) != sorted(around.ports):
        raise ValueError("every port needs a destination behind it")
    packets = [*sequence(around, count, seed), *last]

    with tempfile.TemporaryDirectory(prefix="bmv2-") as name:
        json = compile_for_bmv2(source, definitions, include_dirs)
        with SimpleSwitch(json, around.ports, calls, Path(name)) as switch:
            theirs = switch.run(packets)
            their_registers = switch.registers()

    compiled = compile_program(embedded or source, definitions, include_dirs)
    with contextlib.closing(Switch(compiled, ports=around.ports, seed=1)) as switch:
        switch.batch(calls)
        ours = outputs(switch, packets)
        _same_outputs(ours, theirs, packets)
        compared = 0
        for register, found in their_registers.items():
            short = register.rpartition(".")[2]
            if short not in TIMES:
                _same_register(register, switch.register_read(register, 0, len(found)), found)
                compared += 1
        events = events_of(switch) if case.has_events() else {}
    left = sum(map(len, theirs.values()))
    return Outcome(len(packets), left, compared, events)


def events_of(switch: Switch) -> dict[int, int]:
    """Number of times that each event of a program with memory occurred, all jobs together, by the
    event's number."""
    read = np.asarray(switch.register_read("events"), dtype=object).reshape(-1, 32)
    return {event: int(count) for event, count in enumerate(read.sum(axis=0)) if count}


def outputs(
    switch: Switch, packets: Sequence[tuple[int, bytes]]
) -> dict[int, list[tuple[int, bytes]]]:
    """Frames that leave the embedded switch, by port: (number of the packet that came in,
    frame)."""
    by_port: dict[int, list[tuple[int, bytes]]] = {port: [] for port in switch.ports}
    for number, (port, data) in enumerate(packets):
        now_ns = (number + 1) * GAP_NS
        switch.receive(port, data, now_ns)
        for _, way, left in switch.advance(now_ns):
            by_port[way].append((number, left))
    return by_port


def _same_outputs(
    ours: dict[int, list[tuple[int, bytes]]],
    theirs: dict[int, list[bytes]],
    packets: Sequence[tuple[int, bytes]],
) -> None:
    first: tuple[int, str] | None = None
    for port, left in ours.items():
        others = theirs[port]
        for place in range(max(len(left), len(others))):
            number, data = left[place] if place < len(left) else (len(packets) - 1, b"")
            other = others[place] if place < len(others) else b""
            if data != other:
                if first is None or number < first[0]:
                    first = number, _told(port, place, number, packets[number], data, other)
                break
    if first is not None:
        raise Difference(first[1])


def _told(
    port: int, place: int, number: int, packet: tuple[int, bytes], data: bytes, other: bytes
) -> str:
    return (
        f"packet {place} out of port {port} differs, at the latest after packet {number} came in"
        f" at port {packet[0]}:\n"
        f"  in       {packet[1].hex()}\n"
        f"  embedded {data.hex() or 'nothing'}\n"
        f"  BMv2     {other.hex() or 'nothing'}"
    )


MOST_TOLD = 2**63 - 1  # of an element of more than 64 bits, by BMv2's Thrift interface


def _same_register(name: str, ours: Sequence[int], theirs: Sequence[int]) -> None:
    for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if min(int(one), MOST_TOLD) != min(other, MOST_TOLD):
            raise Difference(f"{name}[{index}]: embedded {int(one)}, BMv2 {other}")
