"""Store of a parameter server: the sums of the fragments that are under way, and their timers.

A worker that sends a packet of iteration i + 1 has received all of iteration i. So two iterations'
results are all that is ever needed, and there is one row for each fragment of an even and of an odd
iteration.

A row is held in a *slot* from its first packet on. A slot has all that the server knows of it; a
row itself takes four bytes. A complete row is held on, to be sent again to a worker that has lost
the result, until `kept` more rows are complete. It is then let go, and its slot is used again. So
the store takes the memory of some windows, however long the tensors are, and stays in the
processor's cache. It happens that a worker has lost a result so often that it asks for it even
later. Then the row begins anew, and the workers are asked for their parts once more (wire.AGAIN),
which they make again. What a program has given cannot be made again; its rounds are short, and
their rows are never let go.

Values need no memory for long: a complete sum that is what all workers' generated values add up to
is made again when it is sent again. Other sums are held as they are.

If all slots are in use, the packet of another row is dropped, like one that is lost on the way.
This module has the fields of configuration and state, and the operations on a row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from p4fabric.simulate.jit import by_type, njit
from p4fabric.simulate.records import new_record, record

from testbed.number_formats import FORMATS, INT32
from testbed.protocols import (
    block_float,
    floats,
    heap,
    sizes,
    stripes,
    values,
    wire,
)
from testbed.protocols.floats import ServerFloats
from testbed.protocols.formats import bfloat16, by_number
from testbed.protocols.host_spec import HostSpec, ServerSpec, ServerStripes
from testbed.protocols.progress import Progress, new_progress, no_progress
from testbed.protocols.status import new_counters, new_status
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
    "index_start",  # where the job starts in the pool, or the salt of its hash (esa.py)
    "floats",  # 1: what leaves int32 is summed as floating-point numbers; 2: what a worker sends as
    #            such is, and sums of whole numbers are modulo 2^32
    "omit_zeros",  # 1: a result that is all zeros goes without its values
    "short",  # kind of values that are sent in fewer bits if they fit (wire.short_of); 0: none
    "rounded_bits",  # by which sums are rounded that are to be
    "request_ps",  # link time set aside for a reminder or request with its answer; 0: none
    "kept",  # complete rows that are held; 0: all
    "delivered",  # 1: a switch sends complete sums on as results, with a copy for the server
    "adder",  # of the format of sums (testbed/number_formats.py)
    # 1: complete sums can be made again (values.py), with these
    "generated",
    "seed",
    "shift",
    "share",
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
    "slots",  # that have ever been used
    "free",  # entries in Server.free
    "done",  # rows that have become complete since the start, those that began anew again
    "sums",  # rows of Server.sums that have ever been used
    "free_sums",  # entries in Server.free_sums
    "factors_of",  # iteration whose workers' factors have been added up, + 1
    "factor_sum",
)

# Values of Server.stage
EMPTY = 0  # also of a slot that is free
PART = 1
COMPLETE = 2

NO_SLOT = -1
MADE_AGAIN = -1  # in Server.place
KEPT_WINDOWS = 16  # of complete rows are held,
KEPT_ROWS = 4096  # and at least so many

# What is sent again is flagged RESEND, and REMINDED too if nothing was lost: an aggregator still
# had it, or it had not been sent before. So are a row that waited for it, and its result.
SENT_AGAIN = wire.RESEND | wire.REMINDED
OTHER_VALUES = wire.OVERFLOW | wire.FLOAT | wire.FOR_SOME | wire.INTEGERS | wire.ROUND
RESULT_FLAGS = wire.ECN | wire.OVERFLOW | wire.FLOAT | SENT_AGAIN | wire.FOR_SOME | wire.INTEGERS


class Server(NamedTuple):
    """Rows: fragment f of iteration i is row (i & 1) * F + f. S slots, B words of bitmap, V
    values."""

    config: np.record  # CONFIG
    state: np.record  # STATE
    nodes: np.ndarray  # int64[N], numbers of the switches that aggregate for the job
    stripes: Stripes
    everyone: np.ndarray  # uint32[B], bitmap of all workers in packet order
    held: np.ndarray  # int32[2F], the row's slot, from 1; 0: nothing has come; -1 - i: complete in
    #                   iteration i, and let go
    row: np.ndarray  # int32[S], and so on, what the slot holds
    iteration: np.ndarray  # int32[S]
    stage: np.ndarray  # uint8[S]
    flags: np.ndarray  # uint16[S]
    meant: np.ndarray  # uint16[S], the worker that FOR_ONE or FROM_ONE is about
    bitmap: np.ndarray  # uint32[S, B], in packet order, native bytes
    place: np.ndarray  # int32[S], row of `sums`; MADE_AGAIN: its sum is not held
    sums: np.ndarray  # int32[S, V]; of floats, their bits
    free_sums: np.ndarray  # int32[S], rows of `sums` to use again, the last one first
    wide: np.ndarray  # int64[S, V, by_number.WIDTHS], sums of more bits instead; else empty
    attempts: np.ndarray  # uint8[S], reminders sent
    awaited: np.ndarray  # uint16[S], answers of switches after which workers are asked; 0: none is
    first_ns: np.ndarray  # int64[S], first arrival
    reminded_ns: np.ndarray  # int64[S], last reminder
    due_ns: np.ndarray  # int64[S], next reminder
    timed: np.ndarray  # uint8[S], 1: the slot is in `timers`
    timers: np.ndarray  # int32[S], heap of slots by due_ns
    free: np.ndarray  # int32[S], slots to use again, the last one first
    done: np.ndarray  # int64[K], the last rows that became complete: whole fragment numbers, in a
    #                   ring; K: as many as are kept
    progress: Progress
    rules: Any  # of the system's class, see `Rules`
    floats: ServerFloats
    counters: np.ndarray  # int64
    status: np.ndarray  # int64, see records.py


# What is of slots, of whose memory only that of slots in use is taken.
BY_SLOT = (
    *("row", "iteration", "stage", "flags", "meant", "bitmap", "sums", "attempts", "first_ns"),
    "wide",
    *("awaited", "reminded_ns", "due_ns", "timed", "timers", "free", "done"),
    *("place", "free_sums"),
)


def room_of(spec: HostSpec) -> tuple[int, int]:
    """Number of complete rows that a job's server keeps (0: all), and its number of slots."""
    job, window = spec.job, spec.options.window
    rows, kept = 2 * job.fragments, max(KEPT_WINDOWS * window, KEPT_ROWS)
    # Of each worker, at most a window and its reserved part is under way.
    slots = kept + 2 * job.workers * window
    return (0, rows) if job.program or slots >= rows else (kept, slots)


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
    def arrived(server, row):
        """A gradient packet has come that is of a worker's of the job, and not out of date."""

    @staticmethod
    @njit(cache=True)
    def completed(server, row, slot):
        """The fragment in a slot is complete, and its result is in `row`."""
        name_previous(server, row)


begin = by_type("rules", "begin")
_index_for = by_type("rules", "index_for")
arrived = by_type("rules", "arrived")
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
        # every iteration. Of a program's round it may have none, and of an iteration whose results
        # a switch has sent it may have lost them all.
        ahead=job.iterations if job.program or options.delivered else 1,
        remind=int(options.reminder),
        delay_ns=options.reminder_delay_ns,
        min_delay_ns=options.min_reminder_delay_ns,
        max_delay_ns=options.max_reminder_delay_ns,
        omit_zeros=int(job.omit_zeros),
        short=wire.short_of(*job.short),
        rounded_bits=sizes.rounded_bits(job.workers),
        request_ps=2 * frame_ps,
        delivered=int(options.delivered),
        adder=FORMATS[job.sum].adder,
        generated=int(
            not job.program
            and job.gradients is None
            and FORMATS[job.sum].adder == INT32
            and job.value_bits == 32
        ),
        seed=job.seed,
        shift=values.hash_shift(job.parts or job.workers, job.value_bits),
        share=job.parts // job.workers,
        **fields,
    )
    nodes = [switch.number for switch in options.switches]
    rows, words = 2 * job.fragments, job.bitmap_width // 32
    kept, slots = room_of(spec)
    width = by_number.WIDTHS.get(FORMATS[job.sum].adder, 0)
    config.kept = kept
    server = Server(
        config=config,
        state=new_record(STATE, iteration=-1),
        nodes=np.asarray(nodes, np.int64),
        stripes=stripes.one_stripe(len(nodes)),
        everyone=bitmap_of(job.workers, words),
        held=np.zeros(rows, np.int32),
        row=np.zeros(slots, np.int32),
        iteration=np.zeros(slots, np.int32),
        stage=np.zeros(slots, np.uint8),
        flags=np.zeros(slots, np.uint16),
        meant=np.zeros(slots, np.uint16),
        bitmap=np.zeros((slots, words), np.uint32),
        place=np.zeros(slots, np.int32),
        sums=np.zeros((0 if width else slots, job.values), np.int32),
        free_sums=np.zeros(slots, np.int32),
        wide=np.zeros((slots if width else 0, job.values, width), np.int64),
        attempts=np.zeros(slots, np.uint8),
        awaited=np.zeros(slots, np.uint16),
        first_ns=np.zeros(slots, np.int64),
        reminded_ns=np.zeros(slots, np.int64),
        due_ns=np.zeros(slots, np.int64),
        timed=np.zeros(slots, np.uint8),
        timers=np.zeros(slots, np.int32),
        free=np.zeros(slots, np.int32),
        done=np.zeros(kept, np.int64),
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
def slot_of(server, place):
    """The slot of row `place`, NO_SLOT if it has none."""
    return max(np.int64(server.held[place]), 0) - 1


@njit(cache=True)
def iteration_of(server, place):
    """The iteration of the row's fragment, -1: nothing has come."""
    held = np.int64(server.held[place])
    return np.int64(server.iteration[held - 1]) if held > 0 else -1 - held


@njit(cache=True)
def write_header(server, row, kind, flags, node, slot):
    """Header of a packet about the fragment in a slot."""
    config = server.config
    fragment = server.row[slot] % config.fragments
    whole = server.iteration[slot] * config.fragments + fragment
    index, extra = _index_for(server, server.iteration[slot], fragment)
    wire.write_header(row, kind, 255, flags, config.job, node, whole, index, wire.SERVER)
    wire.set_extra(row, extra)


@njit(cache=True)
def needs_values(server, slot, worker):
    """True if a worker needs the values of the result in a slot."""
    flags, meant = np.int64(server.flags[slot]), np.int64(server.meant[slot])
    if flags & wire.FOR_ONE:
        return meant == worker
    return flags & wire.FROM_ONE == 0 or meant != worker


@njit(cache=True)
def write_result_for(server, row, kind, slot, worker):
    """`write_result` for one worker."""
    size = write_result(server, row, kind, slot)
    if needs_values(server, slot, worker):
        return size
    return wire.omit_values(row, wire.HEADER_WORDS + server.config.bitmap_words)


@njit(cache=True)
def write_result(server, row, kind, slot):
    """Returns the bytes of the payload."""
    config = server.config
    base = wire.HEADER_WORDS + config.bitmap_words
    flags = np.int64(server.flags[slot]) & RESULT_FLAGS
    write_header(server, row, kind, flags, 0, slot)
    if flags & wire.FOR_SOME:
        wire.set_meant(row, np.int64(server.meant[slot]))
    for i in range(config.bitmap_words):
        row[wire.HEADER_WORDS + i] = wire.swap(server.everyone[i])
    if server.flags[slot] & wire.FLOAT:
        floats.write_sum(server.floats, slot, row, base)
    elif server.wide.shape[0] > 0 and flags & wire.INTEGERS:
        for i in range(config.values):
            row[base + i] = wire.swap(np.uint32(server.wide[slot, i, 0] & 0xFFFFFFFF))
    elif server.wide.shape[0] > 0:
        for i in range(config.values):
            row[base + i] = wire.swap(by_number.read_wide(config.adder, server.wide[slot, i]))
        if server.flags[slot] & wire.ROUND and config.short == wire.SHORT_BLOCKS:
            wire.round_blocks(row, base, config.values)
    elif server.flags[slot] & wire.ROUND and config.short == wire.SHORT_FLOATS:
        for i in range(config.values):
            number = server.sums[server.place[slot], i]
            row[base + i] = wire.swap(bfloat16.rounded(np.uint32(number)))
    elif server.place[slot] == MADE_AGAIN:
        key, factor_sum = _generated(server, slot)
        values.write_generated(row, base, config.values, key, factor_sum, config.shift)
    else:
        bits = config.rounded_bits if server.flags[slot] & wire.ROUND else 0
        for i in range(config.values):
            value = block_float.round_off(np.int64(server.sums[server.place[slot], i]), bits)
            row[base + i] = wire.swap(np.uint32(value & 0xFFFFFFFF))
    if config.omit_zeros == 1 or config.short > 0:
        return wire.compact(row, base, config.values, config.omit_zeros, config.short)
    return 4 * (base + config.values)


@njit(cache=True)
def name_previous(server, row):
    """Let a result name the one before it, so that a worker knows that it has missed one."""
    wire.set_extra(row, server.state.previous)
    server.state.previous = wire.fragment(row) + 1


@njit(cache=True)
def open_row(server, place, iteration):
    """Begin a row of this iteration; returns its slot, NO_SLOT if all are in use."""
    state = server.state
    if server.held[place] > 0:
        let_go(server, place)
    if state.free > 0:
        state.free -= 1
        slot = np.int64(server.free[state.free])
    elif state.slots < server.row.size:
        slot = state.slots
        state.slots += 1
    else:
        return NO_SLOT
    if state.free_sums > 0:
        state.free_sums -= 1
        server.place[slot] = server.free_sums[state.free_sums]
    else:
        server.place[slot] = state.sums
        state.sums += 1
    server.held[place] = slot + 1
    server.row[slot] = place
    server.iteration[slot] = iteration
    server.stage[slot] = EMPTY
    server.flags[slot] = 0
    server.attempts[slot] = 0
    server.awaited[slot] = 0
    for i in range(server.config.bitmap_words):
        server.bitmap[slot, i] = np.uint32(0)
    return slot


@njit(cache=True)
def let_go(server, place):
    """A row that is held is complete and needed no more: free its slot."""
    slot = np.int64(server.held[place]) - 1
    drop_timer(server, slot)
    server.held[place] = -1 - server.iteration[slot]
    server.stage[slot] = EMPTY
    _free_sum(server, slot)
    server.free[server.state.free] = slot
    server.state.free += 1


@njit(cache=True)
def _free_sum(server, slot):
    """Let the sum of a slot be held no longer."""
    if server.place[slot] != MADE_AGAIN:
        server.free_sums[server.state.free_sums] = server.place[slot]
        server.state.free_sums += 1
        server.place[slot] = MADE_AGAIN


@njit(cache=True)
def _generated(server, slot):
    """The key of a slot's fragment, and the sum of all workers' factors."""
    config, state = server.config, server.state
    iteration = np.int64(server.iteration[slot])
    if state.factors_of != iteration + 1:
        state.factors_of = iteration + 1
        state.factor_sum, _ = by_number.factor_sums(
            INT32, config.seed, config.job, iteration, config.workers, config.share
        )
    fragment = server.row[slot] % config.fragments
    whole = iteration * config.fragments + fragment
    return values.fragment_key(config.seed, config.job, whole), state.factor_sum


@njit(cache=True)
def _may_be_made_again(server, slot):
    """True if the sum in a slot is that of generated values, and they fill the packet."""
    config = server.config
    if config.generated == 0 or server.flags[slot] & OTHER_VALUES:
        return False
    key, factor_sum = _generated(server, slot)
    return values.are_generated(server.sums[server.place[slot]], key, factor_sum, config.shift)


@njit(cache=True)
def note_done(server, slot):
    """The row in a slot has become complete: one that was long ago is let go for it."""
    config, state = server.config, server.state
    if _may_be_made_again(server, slot):
        _free_sum(server, slot)
    if config.kept == 0:
        return
    entry = state.done % server.done.size
    if state.done >= config.kept:
        whole = server.done[(state.done - config.kept) % server.done.size]
        iteration = whole // config.fragments
        place = (iteration & 1) * config.fragments + whole - iteration * config.fragments
        old = slot_of(server, place)
        if old >= 0 and server.iteration[old] == iteration and server.stage[old] == COMPLETE:
            let_go(server, place)
    fragment = server.row[slot] % config.fragments
    server.done[entry] = server.iteration[slot] * config.fragments + fragment
    state.done += 1


@njit(cache=True)
def arm(server, slot, due):
    """Have a slot's timer run, which does not."""
    server.due_ns[slot] = due
    server.timed[slot] = 1
    server.state.timers = heap.push(server.timers, server.state.timers, server.due_ns, slot)


@njit(cache=True)
def take_timer(server):
    """Take the earliest timer out; returns its slot."""
    slot = np.int64(server.timers[0])
    server.timed[slot] = 0
    server.state.timers = heap.pop(server.timers, server.state.timers, server.due_ns)
    return slot


@njit(cache=True)
def drop_timer(server, slot):
    """Take a slot's timer out, if it runs. Searches for it, so only for rare events."""
    if server.timed[slot] == 1:
        heap.decrease_due(server.timers, server.state.timers, server.due_ns, slot, -1)
        take_timer(server)


@njit(cache=True)
def lacks(server, slot, worker):
    """True if the row in a slot lacks this worker of the job."""
    word = server.config.bitmap_words - 1 - worker // 32
    return (
        worker < server.config.workers
        and (server.bitmap[slot, word] >> np.uint32(worker % 32)) & np.uint32(1) == 0
    )


@njit(cache=True)
def become_floats(server, slot):
    """Forget a slot's whole numbers: from here on it is a sum of floating-point numbers."""
    server.flags[slot] |= np.uint16(wire.FLOAT | wire.OVERFLOW | SENT_AGAIN)
    for i in range(server.config.bitmap_words):
        server.bitmap[slot, i] = np.uint32(0)
    floats.clear(server.floats, slot)
    server.counters[0].float_results += 1
