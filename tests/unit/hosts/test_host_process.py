"""The counters that a host process tells, with a socket of this machine's loopback."""

from __future__ import annotations

import json
import os
import socket
import time
from pathlib import Path

import numpy as np
import pytest

from testbed.hosts import host_process, progress_board
from testbed.hosts.sockets import SocketSettings
from testbed.protocols.host_spec import SlotsSpec
from testbed.protocols.status import COUNTER_NAMES
from tests.support.host_specs import OPTIONS, host_spec


@pytest.mark.parametrize("begun_s", [0, 1000], ids=["waiting", "always due"])
def test_the_last_message_counts_what_came_after_the_end(begun_s):
    """The worker has said that it is done (here it has not begun, or sends again all the time);
    then a packet comes, and the runner says stop."""
    job = {"system": "switchml", "start_ns": 0 if begun_s else 10**18}
    host = host_process._Host(
        host_spec(job, options=SlotsSpec.of(OPTIONS, sets=2)), Path(os.devnull)
    )
    host.said_done = True
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    board = np.zeros(progress_board.COLUMNS, np.int64)
    with ours, its, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        host.open("127.0.0.1", 0, its.fileno(), 1 << 16, SocketSettings())
        try:
            other.sendto(bytes(60), host.packets._socket.getsockname())
            ours.send(b'{"stop": true}')
            host_process._serve(host, board, its, time.monotonic_ns() - begun_s * 10**9)
            counted = json.loads(ours.recv(1 << 16))["counted"]
        finally:
            host.packets.close()
    assert counted.keys() >= {*COUNTER_NAMES, "packets_sent", "packets_received"}
    assert counted["packets_received"] == counted["foreign"] == 1
