"""The loop of a host process, compiled: packets in, one step of the machine, packets out, sleep.

The machine is stepped by its address (testbed/workload/placed_machine.py), so this is the same code
for every system. It returns to Python only for what is rare: a message from the runner, the end of
the work, a wrong value. A wake-up costs a few microseconds more in Python than here, and a host has
two per packet when little is under way.

Waking is expensive too, a fifth of all work at the highest rates. So a host moderates its wakings
as network cards do their interrupts: a packet that arrives soon after the last waking waits a
moment for others. At most that moment is added to a round trip, and only where packets come that
fast.
"""

from __future__ import annotations

import numpy as np

from testbed.hosts import progress_board, socket_calls, trains
from testbed.protocols import sizes
from testbed.protocols.jit import njit
from testbed.workload.placed_machine import call_step

HEARTBEAT_NS = 50_000_000
LONGEST_SLEEP_NS = 50_000_000
STILL_NS = 100_000_000  # that a turn may begin late before it counts as a standstill
MODERATION_NS = 200_000  # between wakings by packets, when fewer than FEW_PACKETS arrive in it
FEW_PACKETS = 16

# Why the loop returned
MESSAGE = 0
FINISHED = 1
WRONG_VALUE = 2
RAISED = 3  # an exception, in plain Python
NEWS = 4  # for the program that gives the values


@njit(cache=True)
def _account(board, lengths, count, bytes_column, packets_column):
    total = sizes.FRAME_OVERHEAD * count
    for i in range(count):
        total += lengths[i]
    board[bytes_column] += total
    board[packets_column] += count


@njit(cache=True)
def _take_in(io, arrived, board):
    if io.in_trains:
        count = trains.receive(io.fd, io.arrived, arrived)
    else:
        count = socket_calls.receive(io.fd, io.in_messages, arrived.lengths)
    if count > 0:
        _account(
            board,
            arrived.lengths,
            count,
            progress_board.BYTES_RECEIVED,
            progress_board.PACKETS_RECEIVED,
        )
    return count


@njit(cache=True)
def _send_out(io, out, filled, board):
    if filled == 0:
        return
    if io.in_trains:
        sent = trains.send(io.fd, io.leaving, out, io.names, filled)
    else:
        sent = socket_calls.send(
            io.fd, io.out_messages, io.out_vectors, io.names, out.lengths, out.destinations, filled
        )
    _account(board, out.lengths, sent, progress_board.BYTES_SENT, progress_board.PACKETS_SENT)
    board[progress_board.UNSENT] += filled - sent


@njit(cache=True)
def _update(board, status, counters, counted, now):
    board[progress_board.HEARTBEAT_NS] = now
    board[progress_board.ITERATION] = status[0].iterations
    board[progress_board.SENT] = counters[0].gradient_packets
    board[progress_board.FINISHED] = counters[0].results
    board[progress_board.RETRANSMISSIONS] = counters[0].retransmissions
    board[progress_board.OPEN_CALLS] = status[0].open_calls
    for i in range(counted.size):
        board[progress_board.COUNTERS + i] = counted[i]


@njit(cache=True)
def run(stepped, status, counters, counted, arrived, out, io, board, origin_ns, finished_is_news):
    """Run until there is something to report; returns MESSAGE, FINISHED, WRONG_VALUE, RAISED or
    NEWS.

    `stepped` is int64[4], the addresses of the step function, the machine and its batches `arrived`
    and `out`; `status` and `counters` are the machine's, and
    `counted` int64[*] is the memory of `counters`. `origin_ns` is the run's start on
    CLOCK_MONOTONIC."""
    deadline = np.zeros(1, np.int64)
    beat = 0
    woken = 0
    while True:
        count = _take_in(io, arrived, board)
        clock = socket_calls.monotonic_ns(io.scratch)
        if clock - board[progress_board.DUE_NS] > STILL_NS:
            board[progress_board.STILL_NS] += clock - board[progress_board.DUE_NS]
        board[progress_board.DUE_NS] = clock
        now = clock - origin_ns
        filled = call_step(
            stepped[0], (stepped[1], stepped[2], stepped[3], now, count, deadline.ctypes.data)
        )
        if filled < 0:
            return RAISED
        _send_out(io, out, filled, board)
        if clock - beat > HEARTBEAT_NS:
            beat = clock
            _update(board, status, counters, counted, clock)
        if status[0].failed == 1:
            return WRONG_VALUE
        if status[0].news == 1:
            return NEWS
        if finished_is_news and status[0].finished == 1:
            _update(board, status, counters, counted, clock)
            return FINISHED
        if count == arrived.packets.shape[0]:
            continue
        begin = socket_calls.monotonic_ns(io.scratch)
        pause = min(deadline[0] + origin_ns - begin, LONGEST_SLEEP_NS)
        if pause <= 0:
            continue
        board[progress_board.DUE_NS] += pause
        if 0 < count < FEW_PACKETS and clock - woken < MODERATION_NS:
            socket_calls.pause(min(pause, MODERATION_NS), io.scratch)
            woken = socket_calls.monotonic_ns(io.scratch)
            continue
        woken = clock
        if socket_calls.wait(io.descriptors, pause, io.scratch):
            return MESSAGE
