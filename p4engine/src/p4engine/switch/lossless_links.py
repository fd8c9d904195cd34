"""Lossless links of a switch from Python: its buffer, and what was paused by whom (runtime/tm.h).

A switch without a call of `set_buffer` has none of this.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping
from ctypes import POINTER, byref, c_uint64, c_void_p
from dataclasses import dataclass
from typing import NamedTuple

from p4engine.switch.traffic_manager import NEVER, Manager, SwitchError
from p4engine.switch.traffic_manager_abi import Buffer, Flow, Pause, as_dict

CLASSES = 8
PFC, CREDITS = "pfc", "cbfc"
KINDS = (PFC, CREDITS)  # in the order of their numbers in tm.h, from 1 on
NO_CAUSE = 0xFFFF


@dataclass(frozen=True)
class BufferSettings:
    """Shares of a switch's buffer for its inputs: the classes of packets from each port.

    kind: `pfc` (pause frames) or `cbfc` (credits; an input's buffer is its headroom). Sizes are in
    bytes. threshold: of an input's shared memory; None: what is left of that, shifted right by
    `shift`. resume: so far below the threshold an input goes on. classes: the lossless ones, 0 to
    7. by_output: an output whose queue exceeds the threshold pauses all ports. longest: frame.
    held: what the program drops stays in the buffer until a packet has left with the same 8 bytes
    from held[0] on, of which the bits of held[1] count; None: it takes no buffer. repeat_ns:
    credits are told again after so long, to a switch that was not there before; 0: never."""

    kind: str
    size: int
    longest: int
    reserve: int = 4096
    threshold: int | None = None
    shift: int = 0
    resume: int = 3072
    classes: Collection[int] = (0,)
    by_output: bool = False
    held: tuple[int, int] | None = None
    repeat_ns: int = 0


class Paused(NamedTuple):
    """A pause of the far end of a port's link. until_ns None: it has not ended. cause: the output
    for which packets from there waited; None: not known."""

    from_ns: int
    until_ns: int | None
    port: int
    priority: int
    cause: int | None


def set_buffer(
    manager: Manager, buffer: BufferSettings, headroom: Mapping[int, int], hosts: Collection[int]
) -> None:
    """Make all links of a switch lossless, before its first packet. Every port must have a rate.

    headroom: bytes of each class, by port. hosts: the ports that lead to hosts, whose network cards
    are part of the ingress links. Raises SwitchError.
    """
    if buffer.by_output and not buffer.threshold:
        raise SwitchError("pausing by output queue needs a threshold")
    made = Buffer(
        kind=KINDS.index(buffer.kind) + 1,
        bytes=buffer.size,
        reserve=buffer.reserve,
        xoff=buffer.threshold or 0,
        shift=buffer.shift,
        resume=buffer.resume,
        classes=sum(1 << each for each in buffer.classes),
        by_output=int(buffer.by_output),
        longest=buffer.longest,
        held_at=buffer.held[0] if buffer.held else 0,
        held_mask=buffer.held[1] if buffer.held else 0,
        repeat_ns=buffer.repeat_ns,
    )
    status = manager.lib.tm_buffer_set(manager.address, byref(made))
    if status:
        raise SwitchError(
            "lossless links need a rate at every port, 1 or 8 egress queues, and are set up once"
        )
    for port in manager.ports:
        status = manager.lib.tm_headroom_set(
            manager.address, port, headroom[port], int(port in hosts)
        )
        if status:
            raise SwitchError(f"port {port}: headroom {headroom[port]} B, or a host without a rate")


def flow(manager: Manager, port: int, priority: int) -> dict[str, int]:
    """The counts of `tm_flow` of one class at a port."""
    found = Flow()
    if manager.lib.tm_flow_get(manager.address, port, priority, byref(found)):
        raise SwitchError(f"port {port} has no lossless class {priority}")
    return as_dict(found)


def pauses(manager: Manager) -> tuple[list[Paused], int]:
    """All pauses of far ends in the order of their begins, and how many more there was no room to
    note."""
    rows, missed = POINTER(Pause)(), c_uint64()
    count = manager.lib.tm_pauses(manager.address, byref(rows), byref(missed))
    found = [
        Paused(
            row.from_ns,
            None if row.until_ns == NEVER else row.until_ns,
            row.port,
            row.priority,
            None if row.cause == NO_CAUSE else row.cause,
        )
        for row in rows[:count]
    ]
    return found, missed.value


def waiting(manager: Manager, port: int, priority: int, host: bool = False) -> bytes | None:
    """The first packet of a class that waits for a port, as it came in; host: in the network card
    at the far end. None: no packet waits."""
    data = c_void_p()
    length = manager.lib.tm_waiting_get(manager.address, port, priority, int(host), byref(data))
    return ctypes.string_at(data.value, length) if data.value and length else None


def holds(manager: Manager, port: int, priority: int, output: int) -> bool:
    """True if packets of a class that came in by a port wait for this output."""
    return bool(manager.lib.tm_holds(manager.address, port, priority, output))


def lacks(
    manager: Manager, port: int, priority: int, other: Manager, output: int, host: bool = False
) -> bool:
    """True if what the program keeps of an input waits for a packet that waits at a port of another
    switch; host: in the network card at the far end of that port."""
    found = manager.lib.tm_held_lacks(
        manager.address, port, priority, other.address, output, int(host)
    )
    return bool(found)
