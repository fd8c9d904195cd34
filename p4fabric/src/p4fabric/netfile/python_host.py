"""A host that is a Python class of the user's, in virtual time.

    class Client:
        def __init__(self, host): ...        # host: a Host, see below
        def start(self, now_ns): ...         # at time 0
        def receive(self, now_ns, frame): ...
        def timer(self, now_ns): ...         # when the time of host.set_timer has come
        def results(self): ...               # a dictionary, for the results; at the end

All but `__init__` may be left out. They are called with the virtual time in ns and do nothing but
compute: what they send goes through `host.send`. So a class is tested without a network, and two
runs are equal if it takes random numbers from `host.random` only.
"""

from __future__ import annotations

import ctypes
import json
import struct
from collections import deque
from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from p4fabric.base.errors import RunError, UserError
from p4fabric.netfile.python_object import load_object, place_of
from p4fabric.simulate.generator import ACKNOWLEDGEMENT, DATA, NO_FLOW, Generator
from p4fabric.simulate.placed_machine import Placed, Stepper, raised
from p4fabric.simulate.records import new_status

if TYPE_CHECKING:
    from p4fabric.netfile.load_network import NetworkPlan

NEVER = (1 << 62) - 1
STREAM = 0xB6F5  # distinguishes a class's random numbers from others of the same seed
_TAG = struct.Struct("<HHIQ")
_STEP = ctypes.CFUNCTYPE(*[ctypes.c_int64] * 6, ctypes.POINTER(ctypes.c_int64))
METHODS = ("start", "receive", "timer", "results")


class Address(NamedTuple):
    """Of a host. `ip` has no prefix."""

    mac: str
    ip: str


class Host:
    """A host for its class: attributes and actions.

    Attributes: `name`; `mac`; `ip`; `hosts`, the addresses of all hosts by name; `random`, a
    random.Random of this host's own."""

    def __init__(self, name: str, hosts: Mapping[str, Address], seed: int, longest: int) -> None:
        self.name = name
        self.hosts = hosts
        self.mac, self.ip = hosts[name]
        self.random = Random(seed << 32 | STREAM << 16 | list(hosts).index(name))
        self._longest = longest
        self._to_send: deque[bytes] = deque()
        self._timer_ns: int | None = None

    def send(self, frame: Any) -> None:
        """Send a frame now: bytes, or a packet of scapy. Raises ValueError if it is too long."""
        made = bytes(frame)
        if not 14 <= len(made) <= self._longest:
            raise ValueError(
                f"a frame of {len(made)} B; 14 B to {self._longest} B fit (virtual.longest_frame)"
            )
        self._to_send.append(made)

    def tag(self, now_ns: int, number: int = 0) -> bytes:
        """16 bytes. A host with `answer` sends a packet that ends with them back; `read_tag` gives
        what is in them."""
        return _TAG.pack(DATA, NO_FLOW, number & 0xFFFFFFFF, now_ns)

    def read_tag(self, frame: bytes) -> tuple[int, int] | None:
        """(number, time at which it was sent) of a packet that ends with a tag, of a class or of a
        flow; None: it does not."""
        if len(frame) < 14 + _TAG.size:
            return None
        kind, _, number, sent_ns = _TAG.unpack(frame[-_TAG.size :])
        return (number, sent_ns) if DATA <= kind <= ACKNOWLEDGEMENT else None

    def set_timer(self, time_ns: int | None) -> None:
        """Have `timer` called at `time_ns`, instead of any time that was set before; None: not."""
        self._timer_ns = None if time_ns is None else int(time_ns)


class PythonHost:
    """The step of such a host, of type placed_machine.STEP, at `address`."""

    def __init__(
        self,
        plan: NetworkPlan,
        name: str,
        hosts: Mapping[str, Address],
        batches: tuple[Placed, Placed],
        counting: Generator,
    ) -> None:
        """`batches`: of frames to hosts and from them. `counting`: counts what arrives of flows.
        Raises UserError for a class that cannot be made."""
        text = plan.net.hosts[name].class_
        assert text is not None
        self._title = f"host {name}, {text}"
        where = f"{plan.path}: network.hosts.{name}.class"
        kind = load_object(text, plan.folder, where)
        self._arrived, self._out = arrived, out = batches[0].part, batches[1].part
        self._counter = Placed(counting), Stepper(counting, arrived, out)
        self._addresses = self._counter[0].address, *(batch.address for batch in batches)
        self._count = _STEP(self._counter[1].address or 0)
        longest = 4 * self._out.packets.shape[1]
        self._host = Host(name, hosts, plan.file.virtual.seed, longest)
        try:
            self._object = kind(self._host)
        except Exception as error:
            raise UserError(f"{where}: {text} cannot be made: {place_of(error)}") from None
        if not any(hasattr(self._object, each) for each in METHODS):
            raise UserError(f"{where}: {text} has none of the methods {', '.join(METHODS)}")
        self.status = new_status()
        self._end_ns = plan.file.virtual.duration_ns
        self._begun = False
        self._bytes = [batch.packets.view(np.uint8) for batch in (arrived, out)]
        self._function = _STEP(self._step)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value

    def results(self) -> dict[str, Any]:
        """Results of the class at the end. Raises RunError, also for what JSON cannot say."""
        if not hasattr(self._object, "results"):
            return {}
        try:
            found = dict(self._object.results())
            json.dumps(found)
            return found
        except Exception as error:
            raise RunError(f"{self._title}: results: {place_of(error)}") from None

    def _step(self, at: int, arrived: int, out: int, now: int, count: int, deadline: Any) -> int:
        try:
            return self._handle(now, count, deadline)
        except Exception as error:
            raised.append(RunError(f"{self._title}: at {now} ns: {place_of(error)}"))
        except BaseException as error:  # Ctrl-C
            raised.append(error)
        return -1

    def _handle(self, now: int, count: int, deadline: Any) -> int:
        host, own = self._host, self._object
        if not self._begun:
            self._begun = True
            if hasattr(own, "start"):
                own.start(now)
        if count:
            self._count(*self._addresses, now, count, deadline)
        if count and hasattr(own, "receive"):
            for row in range(count):
                own.receive(now, self._bytes[0][row, : self._arrived.lengths[row]].tobytes())
        if host._timer_ns is not None and host._timer_ns <= now:
            host._timer_ns = None
            if now < self._end_ns and hasattr(own, "timer"):
                own.timer(now)
        filled = 0
        while host._to_send and filled < len(self._out.lengths):
            frame = host._to_send.popleft()
            self._bytes[1][filled, : len(frame)] = np.frombuffer(frame, np.uint8)
            self._out.lengths[filled] = len(frame)
            filled += 1
        due = NEVER if host._timer_ns is None else max(host._timer_ns, now)
        deadline[0] = now if host._to_send else due if due < self._end_ns else NEVER
        return filled
