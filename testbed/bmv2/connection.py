"""Reaching a switch's Thrift server, inside its network namespace, through p4utils.

p4utils itself makes one attempt to connect, ends the whole program if there is no answer, and has
neither namespaces nor time limits. It only needs Thrift clients. So they come from here:
`p4utils_api` makes its constructor call `Connection.clients`.

A namespace is entered by a thread that makes a socket there and ends; a socket stays in the
namespace in which it was made.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from ipaddress import AddressValueError, IPv6Address
from pathlib import Path
from typing import Any

from p4fabric.base.errors import RunError, UserError
from p4fabric.base.linux import kernel

from testbed.bmv2.simple_switch import THRIFT_PORT
from testbed.paths import command_line

LOOPBACK = "127.0.0.1"
PATIENCE_S = 30
# For each wait within a call. simple_switch answers within milliseconds, on a busy machine within a
# second; one that is stopped never does, and its connection stays open.
CALL_TIMEOUT_S = 10
PAUSE_S = 0.02

# [(name of a Thrift service, its client class), ...] -> [client, ...]
Clients = Callable[[Sequence[tuple[str, Any]]], list[Any]]


class Connection:
    """The way to one switch: `namespace` is a process in its network namespace, None for ours."""

    def __init__(self, namespace: int | None = None, port: int = THRIFT_PORT) -> None:
        self.namespace = namespace
        self.port = port
        self._sockets: list[socket.socket] = []

    def answers(self) -> bool:
        """True if the server listens and has its last service: it listens before that."""
        from sswitch_runtime import SimpleSwitch
        from thrift import Thrift
        from thrift.transport import TTransport

        try:
            (client,) = self.clients([("simple_switch", SimpleSwitch.Client)])
            client.get_time_elapsed_us()
        except (OSError, Thrift.TApplicationException, TTransport.TTransportException):
            return False
        finally:
            self.close()
        return True

    def clients(self, services: Sequence[tuple[str, Any]]) -> list[Any]:
        """Thrift clients of services, which share one connection. Raises OSError."""
        from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
        from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
        from thrift.transport import TSocket, TTransport

        handle = _socket_in(self.namespace)
        self._sockets.append(handle)
        handle.settimeout(CALL_TIMEOUT_S)
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        handle.connect((LOOPBACK, self.port))
        wire = TSocket.TSocket()
        wire.setHandle(handle)
        # Plain Python takes a hundred times as long for a register of some thousand elements.
        protocol = TBinaryProtocolAccelerated(TTransport.TBufferedTransport(wire))
        return [client(TMultiplexedProtocol(protocol, name)) for name, client in services]

    def close(self) -> None:
        """Close all sockets."""
        while self._sockets:
            self._sockets.pop().close()


def _socket_in(namespace: int | None) -> socket.socket:
    made: list[socket.socket] = []
    failed: list[OSError] = []

    def make() -> None:
        try:
            if namespace is not None:
                kernel.enter_network(namespace)
            made.append(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=make, name="socket maker")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


def wait(
    connection: Connection,
    alive: Callable[[], bool],
    name: str,
    log: Path,
    patience_s: float = PATIENCE_S,
) -> None:
    """Wait until a switch answers.

    Raises RunError, with what the switch has written, when `alive()` turns false or after
    `patience_s`."""
    deadline = time.monotonic() + patience_s
    while not connection.answers():
        gone = not alive()
        if gone or time.monotonic() > deadline:
            reason = "ended before it was up" if gone else f"is not up after {patience_s:g} s"
            tail = log.read_text(errors="replace").strip() if log.exists() else ""
            raise RunError(f"switch {name} (simple_switch) {reason}", tail[-2000:], str(log))
        time.sleep(PAUSE_S)


def p4utils_api(clients: Clients, json: Path) -> Any:
    """p4utils' `SimpleSwitchThriftAPI` of the switch to which `clients` leads. Raises UserError
    where p4utils is missing."""
    try:
        from p4utils.utils import thrift_API
        from p4utils.utils.sswitch_thrift_API import SimpleSwitchThriftAPI
    except ImportError as error:
        raise UserError(
            f"p4utils, which controls BMv2, cannot be imported ({error});"
            f" `{command_line('doctor')}` says how to install what is missing (docs/bmv2.md)"
        ) from None

    def connect(address: str, port: int, services: Sequence[tuple[str, Any]]) -> list[Any]:
        return clients(services)

    def bytes_of_ipv6(text: str) -> list[int]:
        """Raises what p4utils then takes for a number, or for a wrong address."""
        if ":" not in text:
            raise thrift_API.CLI_FormatExploreError
        try:
            return list(IPv6Address(text).packed)
        except AddressValueError:
            raise thrift_API.UIn_BadIPv6Error from None

    # Its own asks a module that Python 3 has not, whatever a value of 128 bits is: wide bitmaps.
    thrift_API.ipv6Addr_to_bytes = bytes_of_ipv6
    theirs, thrift_API.thrift_connect = thrift_API.thrift_connect, connect
    try:
        return SimpleSwitchThriftAPI(THRIFT_PORT, LOOPBACK, str(json))
    finally:
        thrift_API.thrift_connect = theirs
