"""Store of a parameter server: the sum of every fragment of two iterations, and its timers.

A worker that sends a packet of iteration i + 1 has received all of iteration i. So two iterations'
results are all that is ever needed, and the store has one row for each fragment of an even and of
an odd iteration. This module has the fields of configuration and state, and the operations on a
row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from testbed.protocols import (
    block_float,
    floats,
    sizes,
    stripes,
    wire,
)
from testbed.protocols.floats import ServerFloats
from testbed.protocols.host_spec import HostSpec, ServerSpec, ServerStripes
from testbed.protocols.jit import by_type, njit
from testbed.protocols.progress import Progress, new_progress, no_progress
from testbed.protocols.records import new_counters, new_record, new_status, record
from testbed.protocols.stripes import Stripes

# Destinations: the workers' multicast group, then each worker, then each switch of the job's tree.
TO_WORKERS = 0
FIRST_WORKER = 1

# Server.config, the configuration
CONFIG = record(
    "job",
    "workers",
    "fragments",  # per iteration
    "values",  # per fragment
    "bitmap_words",
    "iterations",
    "ahead",  # a worker's gradients are of at most so many iterations after the latest heard of
    "remind",  # 0: no reminders
    "delay_ns",  # of the reminder; 0: adaptive
    "min_delay_ns",
    "max_delay_ns",
    "index_mode",
    "aggregators",
    "index_start",  # where the job starts in the pool (esa.py)
    "floats",  # 1: what leaves int32 is summed as floating-point numbers; 2: what a worker sends as
    #            such is, and sums of whole numbers are modulo 2^32
    "omit_zeros",  # 1: a result that is all zeros goes without its values
    "short",  # 1: values that fit go in 16 bits
    "rounded_bits",  # by which sums are rounded that are to be
    "request_ps",  # link time set aside for a reminder or request with its answer; 0: none
)

# Server.state
STATE = record(
    "timers",  # entries in the heap
    "spread_ns",  # smoothed time from a fragment's first arrival here to its last, if not requested
    "round_trip_ns",  # smoothed time from a reminder to its answer
    "iteration",  # latest that has been heard of
    "completed",  # fragments with a result, all iterations
    "next_request_ps",  # earliest time of the next reminder or request
    "previous",  # the last result's whole fragment number + 1, 0: none yet
)

# Values of Server.stage
EMPTY = 0
PART = 1
COMPLETE = 2

RESULT_FLAGS = wire.ECN | wire.OVERFLOW | wire.FLOAT | wire.RESEND | wire.FOR_SOME


class Server(NamedTuple):
    """Rows: fragment f of iteration i is row (i & 1) * F + f. B words of bitmap, V values."""

    config: np.record  # CONFIG
    state: np.record  # STATE
    nodes: np.ndarray  # int64[N], numbers of the switches that aggregate for the job
    stripes: Stripes
    everyone: np.ndarray  # uint32[B], bitmap of all workers in packet order
    iteration: np.ndarray  # int32[2F], -1: none yet
    stage: np.ndarray  # uint8[2F]
    flags: np.ndarray  # uint16[2F]
    meant: np.ndarray  # uint16[2F], the worker that FOR_ONE or FROM_ONE is about
    bitmap: np.ndarray  # uint32[2F, B], in packet order, native bytes
    sums: np.ndarray  # int32[2F, V]
    attempts: np.ndarray  # uint8[2F], reminders sent
    first_ns: np.ndarray  # int64[2F], first arrival
    reminded_ns: np.ndarray  # int64[2F], last reminder
    due_ns: np.ndarray  # int64[2F], next reminder
    timers: np.ndarray  # int32[2F]
    progress: Progress
    rules: Any  # of the system's class, see `Rules`
    floats: ServerFloats
    counters: np.ndarray  # int64
    status: np.ndarray  # int64, see records.py


def bitmap_of(workers: int, words: int) -> np.ndarray:
    """The bitmap that names workers 0 .. workers - 1; uint32[words], most significant first."""
    whole = (1 << workers) - 1
    return np.array(
        [(whole >> (32 * (words - 1 - i))) & 0xFFFFFFFF for i in range(words)], np.uint32
    )


class Rules:
    """Rules that a system may replace, with defaults for most systems. A system's class
    (esa.ServerRules, atp.ServerRules) derives from this one and is a named tuple, with the system's
    own state."""

    @staticmethod
    @njit(cache=True)
    def begin(server):
        """An iteration begins."""

    @staticmethod
    @njit(cache=True)
    def index_for(server, iteration, fragment):
        """The index and the field `extra` of a packet about a fragment."""
        return 0, 0

    @staticmethod
    @njit(cache=True)
    def completed(server, row, place):
        """The fragment in row `place` of the store is complete, and its result is in `row`."""
        name_previous(server, row)


begin = by_type("rules", "begin")
_index_for = by_type("rules", "index_for")
completed = by_type("rules", "completed")


def new_server(spec: HostSpec, rules: tuple, **fields: int) -> Server:
    """A server machine with its system's rules and fields of `CONFIG`."""
    job, options = spec.job, spec.options_of(ServerSpec)
    # An answer takes a frame's time on the link; at most half of it is for answers.
    frame_ps = sizes.frame_ps(job.values, job.bitmap_width, spec.rate_bps)
    config = new_record(
        CONFIG,
        job=job.number,
        workers=job.workers,
        fragments=job.fragments,
        values=job.values,
        bitmap_words=job.bitmap_width // 32,
        iterations=job.iterations,
        # Who begins an iteration has received all of the one before, and each server has a part of
        # every iteration. Of a program's round it may have none.
        ahead=job.iterations if job.program else 1,
        remind=int(options.reminder),
        delay_ns=options.reminder_delay_ns,
        min_delay_ns=options.min_reminder_delay_ns,
        max_delay_ns=options.max_reminder_delay_ns,
        omit_zeros=int(job.omit_zeros),
        short=int(job.value_bits == 16),
        rounded_bits=sizes.rounded_bits(job.workers),
        request_ps=2 * frame_ps,
        **fields,
    )
    nodes = [switch.number for switch in options.switches]
    rows, words = 2 * job.fragments, job.bitmap_width // 32
    server = Server(
        config=config,
        state=new_record(STATE, iteration=-1),
        nodes=np.asarray(nodes, np.int64),
        stripes=stripes.one_stripe(len(nodes)),
        everyone=bitmap_of(job.workers, words),
        iteration=np.full(rows, -1, np.int32),
        stage=np.zeros(rows, np.uint8),
        flags=np.zeros(rows, np.uint16),
        meant=np.zeros(rows, np.uint16),
        bitmap=np.zeros((rows, words), np.uint32),
        sums=np.zeros((rows, job.values), np.int32),
        attempts=np.zeros(rows, np.uint8),
        first_ns=np.zeros(rows, np.int64),
        reminded_ns=np.zeros(rows, np.int64),
        due_ns=np.zeros(rows, np.int64),
        timers=np.zeros(rows, np.int32),
        progress=no_progress(),
        rules=rules,
        floats=floats.new_server_floats(0, 0),
        counters=new_counters(),
        status=new_status(),
    )
    if any(switch.later for switch in options.switches):
        reached = tuple(int(not switch.later) for switch in options.switches)
        planned = ServerStripes((job.fragments,), (reached,))
        server = server._replace(stripes=stripes.of_server(planned))
    if options.reminder and nodes:
        server = server._replace(progress=new_progress(job.first_fragments, job.workers))
    return server


@njit(cache=True)
def write_header(server, row, kind, flags, node, place):
    """Header of a packet about the fragment in row `place` of the store."""
    config = server.config
    fragment = place % config.fragments
    whole = server.iteration[place] * config.fragments + fragment
    index, extra = _index_for(server, server.iteration[place], fragment)
    wire.write_header(row, kind, 255, flags, config.job, node, whole, index, 0x4000)
    wire.set_extra(row, extra)


@njit(cache=True)
def needs_values(server, place, worker):
    """True if a worker needs the values of the result in row `place` of the store."""
    flags, meant = np.int64(server.flags[place]), np.int64(server.meant[place])
    if flags & wire.FOR_ONE:
        return meant == worker
    return flags & wire.FROM_ONE == 0 or meant != worker


@njit(cache=True)
def write_result_for(server, row, kind, place, worker):
    """`write_result` for one worker."""
    size = write_result(server, row, kind, place)
    if needs_values(server, place, worker):
        return size
    return wire.omit_values(row, wire.HEADER_WORDS + server.config.bitmap_words)


@njit(cache=True)
def write_result(server, row, kind, place):
    """Returns the bytes of the payload."""
    config = server.config
    base = wire.HEADER_WORDS + config.bitmap_words
    flags = np.int64(server.flags[place]) & RESULT_FLAGS
    write_header(server, row, kind, flags, 0, place)
    if flags & wire.FOR_SOME:
        wire.set_meant(row, np.int64(server.meant[place]))
    for i in range(config.bitmap_words):
        row[wire.HEADER_WORDS + i] = wire.swap(server.everyone[i])
    if server.flags[place] & wire.FLOAT:
        floats.write_sum(server.floats, place, row, base)
    else:
        bits = config.rounded_bits if server.flags[place] & wire.ROUND else 0
        for i in range(config.values):
            value = block_float.round_off(np.int64(server.sums[place, i]), bits)
            row[base + i] = wire.swap(np.uint32(value & 0xFFFFFFFF))
    if config.omit_zeros == 1 or config.short == 1:
        return wire.compact(row, base, config.values, config.omit_zeros, config.short)
    return 4 * (base + config.values)


@njit(cache=True)
def name_previous(server, row):
    """Let a result name the one before it, so that a worker knows that it has missed one."""
    wire.set_extra(row, server.state.previous)
    server.state.previous = wire.fragment(row) + 1


@njit(cache=True)
def open_row(server, place, iteration):
    server.iteration[place] = iteration
    server.stage[place] = EMPTY
    server.flags[place] = 0
    server.attempts[place] = 0
    for i in range(server.config.bitmap_words):
        server.bitmap[place, i] = np.uint32(0)


@njit(cache=True)
def become_floats(server, place):
    """Forget the row's whole numbers: from here on it is a sum of floating-point numbers."""
    server.flags[place] |= np.uint16(wire.FLOAT | wire.OVERFLOW)
    for i in range(server.config.bitmap_words):
        server.bitmap[place, i] = np.uint32(0)
    floats.clear(server.floats, place)
    server.counters[0].float_results += 1
