"""The loop of a host process, compiled: packets in, one step of each machine, packets out, sleep.

Machines are stepped by their addresses (p4fabric.simulate.placed_machine), so this is the same
code for every system. It returns to Python only for what is rare: a message from the runner, the
end of the work, a wrong value. A wake-up costs a few microseconds more in Python than here, and a
host has two per packet when little is under way.

Waking is expensive too, a fifth of all work at the highest rates. So a host moderates its wakings
as network cards do their interrupts: a packet that arrives soon after the last waking waits a
moment for others. At most that moment is added to a round trip, and only where packets come that
fast.
"""

from __future__ import annotations

import numpy as np
from p4fabric.simulate.jit import njit
from p4fabric.simulate.placed_machine import call_step

from testbed.hosts import progress_board, socket_calls, trains
from testbed.protocols import sizes
from testbed.protocols.status import COUNTER_NAMES
from testbed.protocols.worker_state import NEVER
from testbed.workload.machine_group import find_owners, give_pace, pick, take_pace

HEARTBEAT_NS = 50_000_000
LONGEST_SLEEP_NS = 50_000_000
STILL_NS = 100_000_000  # that a turn may begin late before it counts as a standstill
MODERATION_NS = 200_000  # between wakings by packets, when fewer than FEW_PACKETS arrive in it
FEW_PACKETS = 16

# Why the loop returned
NOTHING = -1  # it goes on
MESSAGE = 0
FINISHED = 1
WRONG_VALUE = 2
RAISED = 3  # an exception, in plain Python
NEWS = 4  # for the program that gives the values

_SENT = COUNTER_NAMES.index("gradient_packets")
_FINISHED = COUNTER_NAMES.index("results")
_RESENT = COUNTER_NAMES.index("retransmissions")


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
def _update(board, table, now):
    """Write the signs of life: iterations of the first machine, and the sums over all machines."""
    board[progress_board.HEARTBEAT_NS] = now
    board[progress_board.ITERATION] = table.status[0].iterations
    board[progress_board.OPEN_CALLS] = 0
    for i in range(table.counters.shape[1]):
        board[progress_board.COUNTERS + i] = 0
    for machine in range(table.used[0]):
        board[progress_board.OPEN_CALLS] += table.status[machine].open_calls
        for i in range(table.counters.shape[1]):
            board[progress_board.COUNTERS + i] += table.counters[machine, i]
    board[progress_board.SENT] = board[progress_board.COUNTERS + _SENT]
    board[progress_board.FINISHED] = board[progress_board.COUNTERS + _FINISHED]
    board[progress_board.RETRANSMISSIONS] = board[progress_board.COUNTERS + _RESENT]


@njit(cache=True)
def _step(table, machine, batches, now, arrived, picked, out, count, owner, deadline):
    """Step one machine with its packets; returns how many it sends. owner: whose all packets are,
    or -1; `deadline` is int64[2], that of this machine and the least of all."""
    packets, own = batches[0], count
    if owner == -1:
        packets, own = batches[1], pick(table, machine, arrived, count, picked)
    elif owner != machine:
        own = 0
    give_pace(table, machine)
    filled = call_step(
        table.steps[machine, 0],
        (table.steps[machine, 1], packets, batches[2], now, own, deadline.ctypes.data),
    )
    take_pace(table, machine)
    deadline[1] = min(deadline[1], deadline[0])
    if table.first[machine] > 0:
        for i in range(filled):
            out.destinations[i] += table.first[machine]
    return filled


@njit(cache=True)
def run(table, batches, arrived, picked, out, io, board, origin_ns, finished_is_news):
    """Run until there is something to report; returns MESSAGE, FINISHED, WRONG_VALUE, RAISED or
    NEWS. The machine that has failed or has news is then `table.used[1]`.

    `table` is a machine_table.Table, and `batches` its batches' addresses. `origin_ns` is the run's
    start on CLOCK_MONOTONIC."""
    deadline = np.zeros(2, np.int64)
    beat = 0
    woken = 0
    while True:
        count = _take_in(io, arrived, board)
        clock = socket_calls.monotonic_ns(io.scratch)
        if clock - board[progress_board.DUE_NS] > STILL_NS:
            board[progress_board.STILL_NS] += clock - board[progress_board.DUE_NS]
        board[progress_board.DUE_NS] = clock
        now = clock - origin_ns
        machines = table.used[0]
        owner = 0 if machines == 1 else find_owners(table, arrived, count)
        deadline[1] = NEVER
        reason = NOTHING
        asked = False
        unfinished = 0
        for i in range(machines):
            machine = (table.used[2] + i) % machines
            if table.steps[machine, 0] == 0:
                continue
            filled = _step(
                table, machine, batches, now, arrived, picked, out, count, owner, deadline
            )
            if filled < 0:
                return RAISED
            _send_out(io, out, filled, board)
            status = table.status[machine]
            if status.finished == 0:
                unfinished += 1
            if status.failed == 1:
                reason, table.used[1] = WRONG_VALUE, machine
            elif status.news == 1 and reason == NOTHING:
                reason, table.used[1] = NEWS, machine
        table.used[2] = (table.used[2] + 1) % machines
        if clock - beat > HEARTBEAT_NS:
            beat = clock
            _update(board, table, clock)
            asked = socket_calls.wait(io.descriptors, 0, io.scratch)  # it may never sleep
        if reason != NOTHING:
            return reason
        if finished_is_news and unfinished == 0:
            _update(board, table, clock)
            return FINISHED
        if asked:
            return MESSAGE
        if count == arrived.packets.shape[0]:
            continue
        begin = socket_calls.monotonic_ns(io.scratch)
        pause = min(deadline[1] + origin_ns - begin, LONGEST_SLEEP_NS)
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
