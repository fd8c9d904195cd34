"""A child process that listens to JSON messages on a socket."""

from __future__ import annotations

import json
import socket


class Controlled:
    """`control`: the runner's end of the socket."""

    control: socket.socket

    def fileno(self) -> int:
        """For select: readable when the process has said something."""
        return self.control.fileno()

    def send(self, **message: object) -> None:
        """Send a message; a process that is gone is noticed elsewhere, by its exit."""
        try:
            self.control.send(json.dumps(message).encode())
        except OSError:
            pass
