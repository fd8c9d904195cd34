"""A child process that talks in JSON messages over a socket."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

SEND_TIMEOUT_S = 5  # a process reads within milliseconds, and has room for dozens of messages


class Controlled:
    """`control`: the runner's end of the socket."""

    control: socket.socket

    def fileno(self) -> int:
        """File descriptor for select: readable when the process has sent a message."""
        return self.control.fileno()

    def send(self, **message: object) -> None:
        """Send a message; a process that is gone is noticed elsewhere, by its exit, and one that
        is stopped and has no room for more messages by its silence."""
        limit = struct.pack("ll", SEND_TIMEOUT_S, 0)
        self.control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        try:
            self.control.send(json.dumps(message).encode())
        except OSError:
            pass

    def heard(self) -> tuple[list[dict[str, Any]], bool]:
        """Messages of the process since the last call, without waiting, and True if its end of the
        connection is still open."""
        messages: list[dict[str, Any]] = []
        while True:
            try:
                data = self.control.recv(1 << 16, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return messages, True
            except ConnectionResetError:
                continue  # it ended before it read everything; what it has said comes now
            if not data:
                return messages, False
            messages.append(json.loads(data))
