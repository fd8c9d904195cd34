"""The board: shared memory in which host processes write their progress and signs of life.

It is int64[hosts, COLUMNS]. A host process writes its own row, the runner reads all of them. The
columns are declared here and nowhere else; this module imports no numba.
"""

from __future__ import annotations

import mmap

import numpy as np

MACHINES = 64  # that a host process can have, one for each of its communicators

# Columns of a row
HEARTBEAT_NS = 0  # last sign of life, on CLOCK_MONOTONIC
ITERATION = 1  # iterations finished (a server: begun)
SENT = 2  # gradient packets
FINISHED = 3  # fragments with a result
BYTES_SENT = 4  # on the wire, from the Ethernet header on
BYTES_RECEIVED = 5
STATE = 6  # STARTING, RUNNING, DONE or FAILED
PACKETS_SENT = 7
PACKETS_RECEIVED = 8
RETRANSMISSIONS = 9  # gradient packets sent again
UNSENT = 10  # packets that the kernel did not take
OPEN_CALLS = 11  # collectives of the host's program that are not done
DUE_NS = 12  # when the loop was to go on at the latest, on CLOCK_MONOTONIC
STILL_NS = 13  # how long the loop stood still, all times of more than packet_loop.STILL_NS
COUNTERS = 16  # from here on the machine's counters, in the order of testbed.protocols.status
COLUMNS = 64

# Values of STATE
STARTING, RUNNING, DONE, FAILED = range(4)


def board_bytes(hosts: int) -> int:
    """Size of the board of so many hosts; at least one row, since memory cannot be empty."""
    return max(hosts, 1) * COLUMNS * 8


def open_board(descriptor: int, hosts: int) -> np.ndarray:
    """The board of so many hosts in the memory file `descriptor`; int64[hosts or 1, COLUMNS]."""
    memory = mmap.mmap(descriptor, board_bytes(hosts))
    return np.frombuffer(memory, np.int64).reshape(-1, COLUMNS)
