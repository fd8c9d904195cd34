"""The switch process: a compiled program between network interfaces, under the real clock.

A C loop (packet_loop.py) handles packets in a thread of its own; the main thread answers control
calls. The command `p4engine switch` and the stand-in of simple_switch_grpc run `serve`. SIGTERM and
SIGINT end the switch cleanly. An interface that goes down ends it, too, and stderr has its name.
"""

from __future__ import annotations

import ctypes
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from p4engine.control.server import Server
from p4engine.switch.library import CALLS, Switch
from p4engine.switch.packet_loop import PacketLoop, declare


class NetworkSwitch(Switch):
    """A `Switch` whose ports are network interfaces.

    Args:
        compiled: the program, see `compile_program`.
        interfaces: port number -> interface name in this process's network namespace; each is up.
        seed, timestamp_unit_ns, priority_queues: as for `Switch`.
        cpu_port: a port without an interface, for packets of controllers (and copies to the CPU).
        options: of `PacketLoop`.

    P4 timestamps count from the moment of construction.
    """

    def __init__(
        self,
        compiled: Any,
        interfaces: Mapping[int, str],
        *,
        seed: int = 0,
        timestamp_unit_ns: int = 1000,
        priority_queues: int = 1,
        cpu_port: int | None = None,
        **options: Any,
    ) -> None:
        self._loop: PacketLoop | None = None
        lib = ctypes.CDLL(str(compiled.so_path))
        declare(lib)
        super().__init__(
            compiled,
            ports=sorted({*interfaces} | (set() if cpu_port is None else {cpu_port})),
            seed=seed,
            timestamp_unit_ns=timestamp_unit_ns,
            epoch_ns=lib.io_now(),
            priority_queues=priority_queues,
        )
        if cpu_port is not None:
            self.cpu_copies(cpu_port)
        self._loop = PacketLoop(self.lib, self.address, interfaces, cpu_port=cpu_port, **options)

    @property
    def loop(self) -> PacketLoop:
        """The runtime that moves its packets."""
        assert self._loop is not None
        return self._loop

    def _clock(self) -> Callable[[], int]:
        lib = self.lib
        declare(lib)
        return lambda: int(lib.io_now())

    def inject(self, frame: bytes) -> None:
        """A packet comes in through the CPU port."""
        with self.loop.locked():
            port = self.loop.cpu_port
            assert port is not None
            self.receive(port, frame, self.lib.io_now())

    def close(self) -> None:
        if self._loop:
            self._loop.close()
        super().close()

    def stats(self) -> dict[str, int | None]:
        """Counters as of `Switch.stats`, with those of the loop: received and sent are frames on
        interfaces here.

        cpu_ns and wall_ns give the share of a core; unmodelled_drops sums up everything that was
        lost outside the model.
        """
        loop = self.loop.stats()
        now_ns = self.lib.io_now()
        merged = {**super().stats(), **loop}
        merged |= {"now_ns": now_ns, "timestamp": self.timestamp(now_ns)}
        merged["unmodelled_drops"] = loop["ring_drops"] + loop["oversized"] + loop["send_drops"]
        return merged

    def port_stats(self) -> list[dict[str, Any]]:
        """Counters as of `Switch.port_stats`, with `interface` and the `unmodelled_drops`."""
        drops = self.loop.port_drops()
        rows = super().port_stats()
        for row in rows:
            port = row["port"]
            row["interface"] = self.loop.interfaces.get(port)
            row["unmodelled_drops"] = drops[port][row["direction"] == "egress"]
        return rows

    def info(self) -> dict[str, Any]:
        """Description as of `Switch.info`, with the interfaces."""
        return super().info() | {"interfaces": self.loop.interfaces}


def _calls(switch: NetworkSwitch) -> dict[str, Callable[..., Any]]:
    return {name: getattr(switch, name) for name in CALLS}


def no_controllers(_switch: NetworkSwitch) -> AbstractContextManager[None]:
    return nullcontext()


def serve(
    compiled: Any,
    interfaces: Mapping[int, str],
    control: str | Path | socket.socket,
    *,
    seed: int = 0,
    timestamp_unit_ns: int = 1000,
    ready: Callable[[], None] = lambda: None,
    controllers: Callable[[NetworkSwitch], AbstractContextManager[None]] = no_controllers,
    **options: Any,
) -> int:
    """Be a switch until SIGTERM, SIGINT or a `shutdown` call; for the main thread of a process.

    Args:
        controllers: serves others than `control` while its context lasts (p4runtime/serve.py).
        compiled, interfaces, seed, timestamp_unit_ns, options: as for `NetworkSwitch`.
        control: path of the control socket, or a connected one: the switch ends with its other end.
        ready: called once packets are received and control calls answered.

    Returns:
        The exit code: 0 after a clean stop, 1 when an interface failed (its name goes to stderr).

    Raises:
        SwitchError: it cannot start.
    """
    switch = NetworkSwitch(
        compiled, interfaces, seed=seed, timestamp_unit_ns=timestamp_unit_ns, **options
    )
    server = None
    try:
        at = control if isinstance(control, socket.socket) else Path(control)
        server = Server(at, _calls(switch), lock=switch.loop.locked)
        server.calls["shutdown"] = server.stop
        switch.on_install(lambda: server.calls.update(_calls(switch)))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: server.stop())
        signal.set_wakeup_fd(server.wake_fd, warn_on_full_buffer=False)
        with controllers(switch):
            switch.loop.start(on_end=server.stop)
            ready()
            server.run()
        switch.loop.stop()
        if switch.loop.cause:
            print(f"switch: {switch.loop.cause}", file=sys.stderr, flush=True)
            return 1
        return 0
    finally:
        signal.set_wakeup_fd(-1)
        if server:
            server.close()
        switch.close()
