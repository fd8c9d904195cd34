"""A host's row of the board: shared memory that the runner reads for progress and signs of life."""

from __future__ import annotations

(
    HEARTBEAT_NS,
    ITERATION,  # finished
    SENT,  # gradient packets
    FINISHED,  # fragments with a result
    BYTES_SENT,  # on the wire
    BYTES_RECEIVED,
    STATE,
    PACKETS_SENT,
    PACKETS_RECEIVED,
    RETRANSMISSIONS,
    UNSENT,  # packets that the kernel did not take
) = range(11)
COUNTERS = 16  # here follow the machine's counters (testbed.protocols.counters)
COLUMNS = 64

# Values of STATE
STARTING, RUNNING, DONE, FAILED = range(4)
