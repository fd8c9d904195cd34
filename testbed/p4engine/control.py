"""Run-time control of a switch process over a local socket: the same calls as in process.

One JSON object per line in both directions, so that a person with `socat` can talk to a switch
and a program needs no library:

{"id": 1, "call": "register_read", "args": ["pool", 0, 4], "kwargs": {}} {"id": 1, "result": [0,
0, 7, 0]} or {"id": 1, "error": "..."}

`batch` takes a list of calls, carries them out with no packet in between, and stops at the first
that fails. JSON has no byte strings and is slow for long vectors: {"hex": "0a00"} stands for
bytes and {"words": "..."} for a list of unsigned 64-bit numbers (base64, little-endian). A
message that makes no sense is answered with an error and changes nothing. The socket is only for
the user who started the switch (mode 0600).
"""

from __future__ import annotations

import base64
import ctypes
import inspect
import json
import os
import selectors
import socket
import sys
import traceback
from array import array
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NoReturn

from testbed.p4engine.diagnostics import P4Error
from testbed.p4engine.manager import SwitchError

LONGEST_MESSAGE = 64 << 20
LONGEST_PLAIN_LIST = 256  # longer lists of numbers travel as words
BAD_ARGUMENTS = (TypeError, ValueError, KeyError, IndexError, OverflowError, ctypes.ArgumentError)


PLAIN = {int, str, float, bool, type(None)}  # as they are in JSON: asked of every number in a batch


def encode(value: Any) -> Any:
    """A value as JSON can carry it."""
    if isinstance(value, bytes | bytearray):
        return {"hex": bytes(value).hex()}
    if isinstance(value, list | tuple | array):
        if len(value) > LONGEST_PLAIN_LIST:
            try:
                words = (
                    value
                    if isinstance(value, array) and value.typecode == "Q"
                    else array("Q", value)
                )
            except (TypeError, OverflowError):
                pass
            else:
                if sys.byteorder == "big":
                    words.byteswap()
                return {"words": base64.b64encode(words.tobytes()).decode()}
        return [each if type(each) in PLAIN else encode(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): encode(each) for key, each in value.items()}
    return value


def decode(value: Any) -> Any:
    """The inverse of `encode`; tuples come back as lists."""
    if isinstance(value, list):
        return [each if type(each) in PLAIN else decode(each) for each in value]
    if isinstance(value, dict):
        if set(value) == {"hex"} and isinstance(value["hex"], str):
            return bytes.fromhex(value["hex"])
        if set(value) == {"words"} and isinstance(value["words"], str):
            words = array("Q", base64.b64decode(value["words"], validate=True))
            if sys.byteorder == "big":
                words.byteswap()
            return words.tolist()
        return {key: decode(each) for key, each in value.items()}
    return value


class CallError(SwitchError):
    """A control call that failed; the message says which one and why."""


class Server:
    """Answers control calls on a Unix socket until it is told to stop.

    Args:
        path: of the socket. One that is left over is replaced; one that a switch answers on is an
            error.
        calls: what can be called, by name.
        lock: makes a context in which no packet is processed; entered once per message.
    """

    def __init__(
        self,
        path: Path,
        calls: Mapping[str, Callable[..., Any]],
        lock: Callable[[], AbstractContextManager] = nullcontext,
    ) -> None:
        self.path = Path(path)
        self.calls = dict(calls)
        self.lock = lock
        self.stopping = False
        self._wake_end, self._wake = socket.socketpair()
        for end in (self._wake_end, self._wake):
            end.setblocking(False)
        self._listener = _listen(self.path)
        self._inode = os.stat(self.path).st_ino
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._selector.register(self._wake_end, selectors.EVENT_READ, None)
        self._connections: set[_Connection] = set()

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
        self._listener.close()
        self._wake.close()
        self._wake_end.close()
        try:
            if os.stat(self.path).st_ino == self._inode:
                os.unlink(self.path)
        except FileNotFoundError:
            pass

    # ---- connections ----

    def _accept(self) -> None:
        try:
            peer, _ = self._listener.accept()
        except OSError:
            return
        peer.setblocking(False)
        connection = _Connection(peer)
        self._connections.add(connection)
        self._selector.register(peer, selectors.EVENT_READ, connection)

    def _drop(self, connection: _Connection) -> None:
        self._selector.unregister(connection.peer)
        connection.peer.close()
        self._connections.discard(connection)

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
        number = None
        try:
            message = json.loads(line)
            if not isinstance(message, dict):
                raise CallError('a message is an object: {"call": name, "args": [...]}')
            number = message.get("id")
            name, args, kwargs = _parts(message)
            with self.lock():
                reply = {"result": encode(self._call(name, args, kwargs))}
            text = json.dumps({"id": number, **reply})
        except RecursionError:
            text = json.dumps({"id": None, "error": "the message is nested too deeply"})
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            text = json.dumps({"id": None, "error": f"not a JSON message: {error}"})
        except P4Error as error:
            text = json.dumps({"id": number, "error": str(error)})
        except Exception as error:  # a defect; the switch must live on
            traceback.print_exc()
            text = json.dumps({"id": None, "error": f"internal error: {error!r}"})
        return text.encode() + b"\n"

    def _call(self, name: str, args: list, kwargs: dict) -> Any:
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
            try:  # which of the two it was; asking before each call would take most of its time
                inspect.signature(function).bind(*args, **kwargs)
            except TypeError as mismatch:
                raise CallError(f"{name}: {mismatch}") from None
            raise CallError(f"{name}: bad argument: {error}") from None

    def _batch(self, calls: list) -> list:
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


def _parts(message: dict) -> tuple[str, list, dict]:
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


class Client:
    """Control of a switch process. Every call of `library.Switch` is a method here.

    Args:
        path: of the control socket.
        timeout_s: for each call; a switch answers within milliseconds or is dead.

    Raises:
        CallError: the call failed, or nobody answers.
    """

    def __init__(self, path: str | Path, timeout_s: float = 30.0) -> None:
        self.path = str(path)
        self._number = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(self.path)
        except OSError as error:
            self._socket.close()
            raise CallError(f"no switch at {self.path}: {error.strerror or error}") from None
        self._file = self._socket.makefile("rb")

    def close(self) -> None:
        """Close the connection; the switch goes on."""
        self._file.close()
        self._socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        """Of the socket."""
        return self._socket.fileno()

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call by name."""
        return self._send(name, encode_all(args), {k: encode(v) for k, v in kwargs.items()})

    def _send(self, name: str, args: list, kwargs: dict[str, Any]) -> Any:
        self._number += 1
        message = {"id": self._number, "call": name, "args": args, "kwargs": kwargs}
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
            line = self._file.readline()
        except OSError as error:
            raise CallError(f"switch at {self.path}: {name}: {error.strerror or error}") from None
        if not line.endswith(b"\n"):
            raise CallError(f"switch at {self.path} closed the connection during {name}")
        reply = json.loads(line)
        if "error" in reply:
            raise CallError(reply["error"])
        return decode(reply["result"])

    def batch(self, calls: Iterable[tuple]) -> list:
        """Many calls in one message, with no packet in between.

        Args:
            calls: (name, *args), the last of which may be a dict of keyword arguments if it follows
                a name and positional arguments and all its keys are names of parameters.

        Returns:
            The results, in order. The first failure raises CallError and ends the batch; the calls
            before it have been carried out.
        """
        messages = []
        for name, *args in calls:
            kwargs = args.pop() if args and isinstance(args[-1], dict) else {}
            message = {"call": name, "args": encode_all(args)}
            messages.append(message | {"kwargs": encode(kwargs)} if kwargs else message)
        return self._send("batch", [messages], {})

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self.call(name, *args, **kwargs)


def encode_all(values: Iterable[Any]) -> list:
    """Like `encode` for each, and always a list."""
    return [each if type(each) in PLAIN else encode(each) for each in values]
