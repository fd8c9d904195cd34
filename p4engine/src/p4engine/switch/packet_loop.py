"""The packet loop of a switch process, runtime/io.c, as a Python object.

The loop moves packets between network interfaces and the traffic manager in a thread of its own
that never needs the interpreter; whoever makes control calls asks it to give way (`locked`).
"""

from __future__ import annotations

import ctypes
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_uint32, c_uint64, c_void_p

from p4engine.switch.traffic_manager import SwitchError
from p4engine.switch.traffic_manager_abi import as_dict

ERROR_BYTES = 256
LONGEST_PACKET = 1 << 20
LONGEST_TRAIN = 64  # packets, TRAIN_PACKETS of runtime/train.h


class _Options(ctypes.Structure):
    _fields_ = [(name, c_uint32) for name in ("ring_frames", "spin_ns", "bypass", "trains")]


class _LoopStats(ctypes.Structure):
    _fields_ = [
        (name, c_uint64)
        for name in (
            "received",
            "ring_drops",
            "oversized",
            "completed",
            "trains_received",
            "trains_sent",
            "sent",
            "send_drops",
            "sleeps",
            "cpu_ns",
            "wall_ns",
            "late_max_ns",
            "late_events",
            "still_ns",
        )
    ]


class _PortStats(ctypes.Structure):
    _fields_ = [(name, c_uint64) for name in ("oversized", "send_drops", "received")] + [
        (name, c_uint32) for name in ("ifindex", "mtu")
    ]


def declare(lib: ctypes.CDLL) -> None:
    signatures = {
        "io_create": (c_void_p, [c_void_p, POINTER(_Options), c_char_p]),
        "io_port_add": (c_int, [c_void_p, c_uint32, c_char_p, c_char_p]),
        "io_cpu_port": (c_int, [c_void_p, c_uint32, c_int, c_char_p]),
        "io_cpu_drops": (c_uint64, [c_void_p]),
        "io_open": (c_int, [c_void_p, c_char_p]),
        "io_run": (c_int, [c_void_p, c_char_p]),
        "io_stop": (None, [c_void_p]),
        "io_destroy": (None, [c_void_p]),
        "io_lock": (None, [c_void_p]),
        "io_unlock": (None, [c_void_p]),
        "io_stats_get": (None, [c_void_p, POINTER(_LoopStats)]),
        "io_port_stats_get": (c_int, [c_void_p, c_uint32, POINTER(_PortStats)]),
        "io_now": (c_uint64, []),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = arguments


class PacketLoop:
    """The C loop around a traffic manager: ports are network interfaces of this process's
    namespace.

    The loop runs in a thread between `start` and `stop`. While it runs, calls on the traffic
    manager are made within `locked`.

    `trains`: send packets that leave together for one receiver as trains of up to so many
    (runtime/train.h); 0 sends them one by one. Trains that come in are always taken.
    """

    def __init__(
        self,
        lib: ctypes.CDLL,
        manager: int,
        interfaces: Mapping[int, str],
        *,
        ring_frames: int = 0,
        spin_ns: int = 0,
        bypass: bool = False,
        trains: int = 0,
        cpu_port: int | None = None,
    ) -> None:
        self._io = None
        self.lib = lib
        self.interfaces = dict(interfaces)
        self.cpu_port = cpu_port
        self._cpu: tuple[socket.socket, ...] = ()
        self.cause: str | None = None
        self._thread: threading.Thread | None = None
        self._on_end: Callable[[], None] = lambda: None
        declare(lib)
        error = ctypes.create_string_buffer(ERROR_BYTES)
        options = _Options(ring_frames, spin_ns, bypass, trains)
        self._io = lib.io_create(manager, byref(options), error)
        if not self._io:
            raise SwitchError(error.value.decode())
        try:
            for port, name in self.interfaces.items():
                if lib.io_port_add(self._io, port, name.encode(), error) < 0:
                    raise SwitchError(error.value.decode())
            if cpu_port is not None:
                self._cpu = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                if lib.io_cpu_port(self._io, cpu_port, self._cpu[1].fileno(), error) < 0:
                    raise SwitchError(error.value.decode())
            if lib.io_open(self._io, error) < 0:
                raise SwitchError(error.value.decode())
        except SwitchError:
            self.close()
            raise
        self._received_before = _device_counters()

    def start(self, on_end: Callable[[], None] = lambda: None) -> None:
        """Start handling packets; `on_end` is called in the loop's thread when that ends."""
        self._on_end = on_end
        self._thread = threading.Thread(target=self.run, name="packets", daemon=True)
        self._thread.start()

    def run(self) -> None:
        """Handle packets in this thread, which is the caller's, until `stop`.

        Who calls this instead of `start` waits for its return before it calls `close`.
        """
        error = ctypes.create_string_buffer(ERROR_BYTES)
        if self.lib.io_run(self._io, error) < 0:  # without the interpreter's lock
            self.cause = error.value.decode()
        self._on_end()

    def stop(self) -> None:
        """End the loop; queued packets are not sent any more."""
        if self._io:
            self.lib.io_stop(self._io)
        if self._thread:
            self._thread.join()
            self._thread = None

    def close(self) -> None:
        """Stop and free everything."""
        self.stop()
        if self._io:
            self.lib.io_destroy(self._io)
            self._io = None
        if self._cpu:
            self._cpu[1].shutdown(socket.SHUT_RDWR)  # the reader's call returns
        for end in self._cpu:
            end.close()
        self._cpu = ()

    def from_cpu_port(self, function: Callable[[bytes], None]) -> None:
        """Call `function` with every packet that leaves for the CPU port, in another thread."""

        def read() -> None:
            while data := self._cpu[0].recv(LONGEST_PACKET):
                function(data)

        threading.Thread(target=read, name="cpu port", daemon=True).start()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """No packet is processed inside."""
        self.lib.io_lock(self._io)
        try:
            yield
        finally:
            self.lib.io_unlock(self._io)

    def stats(self) -> dict[str, int]:
        """The counters of io.h; call it within `locked`."""
        stats = _LoopStats()
        self.lib.io_stats_get(self._io, byref(stats))
        return as_dict(stats)

    def port_drops(self) -> dict[int, tuple[int, int]]:
        """Per port: packets lost outside the model on (ingress, egress); call it within `locked`.

        The kernel counts what its ring had no room for per socket, not per port. Where there was
        such a loss, a port's share is what its interface has received and the ring has not given
        out.
        """
        ring_drops = self.stats()["ring_drops"]
        now = _device_counters() if ring_drops else {}
        drops = {}
        for port, name in self.interfaces.items():
            stats = _PortStats()
            self.lib.io_port_stats_get(self._io, port, byref(stats))
            missing = 0
            if ring_drops:
                got = now.get(name, 0) - self._received_before.get(name, 0)
                missing = min(max(0, got - stats.received), ring_drops)
            drops[port] = (missing + stats.oversized, stats.send_drops)
        if self.cpu_port is not None:
            drops[self.cpu_port] = (0, self.lib.io_cpu_drops(self._io))
        return drops


def _device_counters() -> dict[str, int]:
    """Packets that each interface of this namespace has received since it exists."""
    counters = {}
    with open("/proc/thread-self/net/dev") as lines:
        for line in list(lines)[2:]:
            name, _, numbers = line.partition(":")
            counters[name.strip()] = int(numbers.split()[1])
    return counters
