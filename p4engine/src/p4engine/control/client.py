"""Run-time control of a switch process over a local socket: the same calls as in process.

One JSON object per line in both directions, so that a person with `socat` can talk to a switch
and a program needs no library:

    {"id": 1, "call": "register_read", "args": ["pool", 0, 4], "kwargs": {}}
    {"id": 1, "result": [0, 0, 7, 0]} or {"id": 1, "error": "..."}

`batch` takes a list of calls, carries them out with no packet in between, and stops at the first
that fails. JSON has no byte strings and is slow for long vectors: {"hex": "0a00"} stands for
bytes and {"words": "..."} for a list of unsigned 64-bit numbers (base64, little-endian). A
message that makes no sense is answered with an error and changes nothing. The socket is only for
the user who started the switch (mode 0600).
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from p4engine.control.wire import decode, encode, encode_all, gc_paused
from p4engine.switch.traffic_manager import SwitchError


class CallError(SwitchError):
    """A control call that failed; the message says which one and why."""


class Client:
    """Control of a switch process. Every call of `library.Switch` is a method here.

    Args:
        at: path of the control socket, or a socket that is connected to the switch.
        timeout_s: for each call; a switch answers within milliseconds or is dead.

    Raises:
        CallError: the call failed, or nobody answers.
    """

    def __init__(self, at: str | Path | socket.socket, timeout_s: float = 30.0) -> None:
        self._number = 0
        if isinstance(at, socket.socket):
            self.path = f"descriptor {at.fileno()}"
            self._socket = at
            self._socket.settimeout(timeout_s)
        else:
            self.path = str(at)
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
        """File descriptor of the socket."""
        return self._socket.fileno()

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call by name."""
        return self._send(name, encode_all(args), {k: encode(v) for k, v in kwargs.items()})

    def _send(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
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

    def batch(self, calls: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Many calls in one message, with no packet in between.

        Args:
            calls: (name, *args), the last of which may be a dict of keyword arguments if it follows
                a name and positional arguments and all its keys are names of parameters.

        Returns:
            The results, in order. The first failure raises CallError and ends the batch; the calls
            before it have been carried out.
        """
        messages = []
        with gc_paused(many=True):
            for name, *args in calls:
                kwargs = args.pop() if args and isinstance(args[-1], dict) else {}
                message = {"call": name, "args": encode_all(args)}
                messages.append(message | {"kwargs": encode(kwargs)} if kwargs else message)
            results: list[Any] = self._send("batch", [messages], {})
            return results

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self.call(name, *args, **kwargs)
