"""Listening to what passes the ports of switches in virtual time.

The loop calls a switch's traffic manager by the addresses in World.switches. A tap puts addresses
of its own there: functions that tell what passes and then do the same. So a run without taps has no
cost, and one with taps has the same events to the last bit.

What enters a port is seen when the node at the other end sends it, before the link; what leaves a
port when it arrives at the other end, behind the link. What is lost on a link is seen at its
beginning alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping
from ctypes import CFUNCTYPE, POINTER, byref, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any, Protocol

from p4engine.switch.traffic_manager_abi import Output

from p4fabric.base.config.pcapng import INBOUND, OUTBOUND

if TYPE_CHECKING:
    from p4engine.switch.library import Switch

    from p4fabric.simulate.state import World


class Nodes(Protocol):
    """A world with its switches by name, in their order there."""

    switches: dict[str, Switch]

    @property
    def world(self) -> World: ...


# (switch, port, INBOUND or OUTBOUND, time in ns, frame)
Seen = Callable[[str, int, int, int, bytes], None]

_RECEIVE = CFUNCTYPE(c_int32, c_void_p, c_uint32, c_void_p, c_uint32, c_int64)
_CLEAR = CFUNCTYPE(None, c_void_p)
_OUTPUTS = CFUNCTYPE(c_uint64, c_void_p, c_void_p, c_void_p)


def listen(nodes: Nodes, ports: Mapping[str, Collection[int]], seen: Seen) -> list[Any]:
    """Call `seen` for each packet that passes these ports, by switch, from now on. Packets of one
    port and direction come in order of time, others in any order; what enters, once the switch has
    it. Returns what must live as long
    as the nodes. `seen` must not raise; threads call it one at a time."""
    kept: list[Any] = []
    for number, name in enumerate(nodes.switches):
        if not ports.get(name):
            continue
        row = nodes.world.switches[number]
        chosen = frozenset(ports[name])
        for field in ("receive", "receive_ahead"):
            made = _entering(name, chosen, _RECEIVE(int(row[field])), seen)
            kept.append(made)
            row[field] = ctypes.cast(made, c_void_p).value
        row.receive_seeded = 0  # who listens wants all bytes
        outputs, clear = _OUTPUTS(int(row.outputs)), _CLEAR(int(row.outputs_clear))
        made = _leaving(name, chosen, outputs, clear, seen)
        kept.append(made)
        row.outputs_clear = ctypes.cast(made, c_void_p).value
    return kept


def _entering(name: str, ports: Collection[int], receive: Any, seen: Seen) -> Any:
    def tell(manager: int, port: int, data: int, length: int, time_ns: int) -> int:
        if port not in ports:
            return int(receive(manager, port, data, length, time_ns))
        frame = ctypes.string_at(data, length)
        status = int(receive(manager, port, data, length, time_ns))
        if status >= 0:  # else it comes again, otherwise
            seen(name, port, INBOUND, time_ns, frame)
        return status

    return _RECEIVE(tell)


def _leaving(name: str, ports: Collection[int], outputs: Any, clear: Any, seen: Seen) -> Any:
    """The loop clears the outputs once it has taken them all."""

    def tell(manager: int) -> None:
        rows, data = POINTER(Output)(), c_void_p()
        count = outputs(manager, byref(rows), byref(data))
        for row in rows[:count]:
            if row.port in ports:
                frame = ctypes.string_at((data.value or 0) + row.offset, row.length)
                seen(name, row.port, OUTBOUND, row.time_ns, frame)
        clear(manager)

    return _CLEAR(tell)
