"""The switch's end of the control socket: messages (see wire.py) in, calls made, replies out.

One thread serves all clients. A call that cannot be carried out is answered with an error, and so
is a message that makes no sense: the switch lives on.
"""

from __future__ import annotations

import ctypes
import inspect
import json
import os
import selectors
import socket
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NoReturn

from p4engine.control.client import CallError
from p4engine.control.wire import LONG_MESSAGE, decode, encode, gc_paused
from p4engine.frontend.diagnostics import P4Error
from p4engine.switch.traffic_manager import SwitchError

LONGEST_MESSAGE = 64 << 20
BAD_ARGUMENTS = (TypeError, ValueError, KeyError, IndexError, OverflowError, ctypes.ArgumentError)


class Server:
    """Answers control calls on a Unix socket until it is told to stop.

    Args:
        at: path of the socket. One that is left over is replaced; one that a switch answers on is
            an error. Or a connected socket, the other end of which is the only client: when it
            closes, or its process dies, `run` returns, and no file is ever made.
        calls: what can be called, by name.
        lock: makes a context in which no packet is processed; entered once per message.
    """

    def __init__(
        self,
        at: Path | socket.socket,
        calls: Mapping[str, Callable[..., Any]],
        lock: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self.calls = dict(calls)
        self.lock = lock
        self.stopping = False
        self._wake_end, self._wake = socket.socketpair()
        for end in (self._wake_end, self._wake):
            end.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_end, selectors.EVENT_READ, None)
        self._connections: set[_Connection] = set()
        self._listener: socket.socket | None = None
        if isinstance(at, socket.socket):
            self._add(at)
        else:
            self.path = Path(at)
            self._listener = _listen(self.path)
            self._inode = os.stat(self.path).st_ino
            self._selector.register(self._listener, selectors.EVENT_READ, None)

    @property
    def wake_fd(self) -> int:
        """A byte written to this descriptor wakes `run`; fit for `signal.set_wakeup_fd`."""
        return self._wake.fileno()

    def stop(self) -> None:
        """Make `run` return after the call at hand; for any thread or signal handler."""
        self.stopping = True
        try:
            self._wake.send(b"s")
        except OSError:
            pass

    def run(self) -> None:
        """Serve until `stop`."""
        while not self.stopping:
            self.poll(None)

    def poll(self, timeout_s: float | None) -> None:
        """Serve what has come in within the time."""
        for key, events in self._selector.select(timeout_s):
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj is self._wake_end:
                try:
                    self._wake_end.recv(4096)
                except BlockingIOError:
                    pass
            else:
                self._serve(key.data, events)

    def close(self) -> None:
        """Close all connections and remove the socket (unless somebody has replaced it)."""
        for connection in list(self._connections):
            self._drop(connection)
        self._selector.close()
        self._wake.close()
        self._wake_end.close()
        if self._listener is None:
            return
        self._listener.close()
        try:
            if os.stat(self.path).st_ino == self._inode:
                os.unlink(self.path)
        except FileNotFoundError:
            pass

    # ---- connections ----

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            peer, _ = self._listener.accept()
        except OSError:
            return
        self._add(peer)

    def _add(self, peer: socket.socket) -> None:
        peer.setblocking(False)
        connection = _Connection(peer)
        self._connections.add(connection)
        self._selector.register(peer, selectors.EVENT_READ, connection)

    def _drop(self, connection: _Connection) -> None:
        self._selector.unregister(connection.peer)
        connection.peer.close()
        self._connections.discard(connection)
        if self._listener is None:
            self.stop()

    def _serve(self, connection: _Connection, events: int) -> None:
        try:
            if events & selectors.EVENT_READ:
                for line in connection.read():
                    connection.pending += self.answer(line)
            connection.write()
        except (ConnectionError, OSError):
            self._drop(connection)
            return
        if connection.ended and not connection.pending:
            self._drop(connection)
            return
        wanted = 0 if connection.ended else selectors.EVENT_READ
        wanted |= selectors.EVENT_WRITE if connection.pending else 0
        self._selector.modify(connection.peer, wanted, connection)

    # ---- calls ----

    def answer(self, line: bytes) -> bytes:
        """The reply to one message, ending in a newline."""
        with gc_paused(many=len(line) > LONG_MESSAGE):
            return self._answer(line)

    def _answer(self, line: bytes) -> bytes:
        number = None
        try:
            message = _parsed(line)
            if not isinstance(message, dict):
                raise CallError('a message is an object: {"call": name, "args": [...]}')
            number = message.get("id")
            name, args, kwargs = _parts(message)
            with self.lock():
                reply = {"result": encode(self._call(name, args, kwargs))}
            text = json.dumps({"id": number, **reply})
        except RecursionError:
            text = json.dumps({"id": None, "error": "the message is nested too deeply"})
        except P4Error as error:
            text = json.dumps({"id": number, "error": str(error)})
        except Exception as error:  # a defect; the switch must live on
            traceback.print_exc()
            text = json.dumps({"id": None, "error": f"internal error: {error!r}"})
        return text.encode() + b"\n"

    def _call(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A call with its arguments as they came."""
        if name == "batch":
            if len(args) != 1 or kwargs:
                _refuse_batch()
            return self._batch(args[0])
        try:
            args, kwargs = decode(args), decode(kwargs)
        except ValueError as error:
            raise CallError(f"bad encoding: {error}") from None
        if name not in self.calls:
            raise CallError(f"no call {name!r}; there are {', '.join(sorted(self.calls))}, batch")
        function = self.calls[name]
        try:
            return function(*args, **kwargs)
        except P4Error:
            raise
        except BAD_ARGUMENTS as error:
            try:  # find the cause now; a check before each call would take most of its time
                inspect.signature(function).bind(*args, **kwargs)
            except TypeError as mismatch:
                raise CallError(f"{name}: {mismatch}") from None
            raise CallError(f"{name}: bad argument: {error}") from None

    def _batch(self, calls: list[Any]) -> list[Any]:
        if not isinstance(calls, list):
            _refuse_batch()
        results = []
        for index, each in enumerate(calls):
            try:
                if not isinstance(each, dict):
                    raise CallError("not an object")
                name, args, kwargs = _parts(each)
                if name == "batch":
                    raise CallError("a batch contains no batch")
                results.append(self._call(name, args, kwargs))
            except P4Error as error:
                raise CallError(f"call {index} of the batch: {error}") from None
        return results


def _refuse_batch() -> NoReturn:
    raise CallError("batch takes one list of calls")


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:  # also an integer with thousands of digits
        raise CallError(f"not a JSON message: {error}") from None


def _parts(message: dict[str, Any]) -> tuple[str, list[Any], dict[str, Any]]:
    name, args, kwargs = message.get("call"), message.get("args", []), message.get("kwargs", {})
    if not isinstance(name, str):
        raise CallError('"call" is missing or not a string')
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise CallError('"args" is a list and "kwargs" an object')
    return name, args, kwargs


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(
            listener.fileno(), 0o600
        )  # before bind, so that there is no moment with another mode
        try:
            listener.bind(str(path))
        except OSError as error:
            if error.errno != 98:  # EADDRINUSE
                raise
            probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                os.unlink(path)
                listener.bind(str(path))
            else:
                raise SwitchError(f"control socket {path}: in use by a switch") from None
            finally:
                probe.close()
        listener.listen(64)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise SwitchError(f"control socket {path}: {error.strerror or error}") from None
    except SwitchError:
        listener.close()
        raise
    return listener


class _Connection:
    """One client: what came in without a newline yet, and what it has not taken yet."""

    def __init__(self, peer: socket.socket) -> None:
        self.peer = peer
        self.partial = bytearray()
        self.pending = bytearray()
        self.ended = False

    def read(self) -> Iterable[bytes]:
        try:
            data = self.peer.recv(1 << 20)
        except BlockingIOError:
            return
        if not data:
            self.ended = True
            return
        searched = len(self.partial)
        self.partial += data
        while (end := self.partial.find(b"\n", searched)) >= 0:
            line = bytes(self.partial[:end])
            del self.partial[: end + 1]
            searched = 0
            if line.strip():
                yield line
        if len(self.partial) > LONGEST_MESSAGE:
            self.partial.clear()
            self.ended = True
            self.pending += b'{"id": null, "error": "the message is too long"}\n'

    def write(self) -> None:
        if self.pending:
            try:
                del self.pending[: self.peer.send(self.pending)]
            except BlockingIOError:
                pass
