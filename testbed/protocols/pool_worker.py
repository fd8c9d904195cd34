"""The worker of a system with a shared pool of aggregators and a parameter server.

It sends the fragments that its scoreboard selects, paced at the link's rate and within a window. It
checks every result, retransmits unanswered fragments, and answers the server's requests. What a
system does its own way is in the class of `Worker.rules` (see `Rules`).

`receive` takes a batch of packets, `send` fills one; `deadline` says when to call again although
nothing has arrived. Times are int64 ns since the run's start.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from p4fabric.simulate.jit import by_type, njit
from p4fabric.simulate.machine import SEEDED
from p4fabric.simulate.records import new_record, record, untouched

from testbed.protocols import (
    floats,
    given,
    kept_results,
    lag,
    payload,
    priority,
    send_scoreboard,
    server_store,
    stripes,
    unproven_losses,
    wire,
    worker_state,
)
from testbed.protocols.formats import kept_sums, recorded_floats
from testbed.protocols.host_spec import HostSpec, ServerSpec
from testbed.protocols.status import new_counters, new_status

TO_SERVER = 0  # the only destination, of most systems

# A row of Worker.retransmit_requests
REQUEST = record("fragment", "why", "iteration", "as_floats")
ASKED = 0  # why: the server wants the fragment,
MISSED = 1  # its result is missing,
DROPPED = 2  # a switch has dropped it and may take it next time,
NEEDED = 3  # another worker needs it, and this one has its result of `iteration`

# Of a trace: a worker's own, and the sums of all workers.
Gradients = tuple[np.ndarray, np.ndarray] | recorded_floats.RecordedFloats


class Worker(NamedTuple):
    config: np.record  # worker_state.CONFIG
    state: np.record  # worker_state.STATE
    priority: np.ndarray  # int64[T], of the tensors in this iteration
    levels: np.ndarray  # int64[T], those that are given; 0: by the policy
    retransmit_requests: np.ndarray  # REQUEST[*], what to send again
    recorded: np.ndarray  # int32[I, F * V], this worker's gradients if the trace has values
    sums: np.ndarray  # int32[I, F * V], their sums over the workers
    singles: recorded_floats.RecordedFloats  # in place of both, in a format of floats
    rules: Any  # of the system's class, see `Rules`
    stripes: stripes.Stripes
    floats: floats.WorkerFloats
    given: given.Given
    kept: kept_results.KeptResults
    kept_sums: np.ndarray  # uint32[I, F * V], see formats/kept_sums.py
    counters: np.ndarray  # int64
    status: np.ndarray  # int64, see records.py
    lag: np.ndarray  # int64, see lag.py


def new_worker(
    spec: HostSpec, rules: tuple, gradients: Gradients | None = None, **fields: int
) -> Worker:
    """A worker machine with its system's rules and fields of `worker_state.CONFIG`.

    `gradients`, for a trace with values: (own, sums), both int32[I, F * V], or floats."""
    own = sums = np.zeros((0, 0), np.int32)
    singles = recorded_floats.no_floats()
    if isinstance(gradients, recorded_floats.RecordedFloats):
        singles = gradients
    elif gradients is not None:
        own, sums = gradients
    kept = kept_results.no_results()
    if spec.job.program and isinstance(spec.options, ServerSpec) and spec.options.delivered:
        words = spec.job.bitmap_width // 32 + spec.job.values
        kept = kept_results.new_kept_results(spec.job.fragments, words)
    return Worker(
        config=worker_state.configuration(
            spec,
            communication_ns=max(1, spec.job.communication_ns),
            computation_ns=max(1, spec.job.computation_ns),
            **{"policy": priority.CONSTANT, **fields},
        ),
        state=new_record(worker_state.STATE, credit=spec.options.window * worker_state.UNIT),
        priority=np.zeros(len(spec.job.tensors), np.int64),
        levels=np.array(spec.job.levels or (0,) * len(spec.job.tensors), np.int64),
        retransmit_requests=untouched(4096, REQUEST),
        recorded=own,
        sums=sums,
        singles=singles,
        rules=rules,
        stripes=stripes.one_stripe(),
        floats=floats.no_worker_floats(),
        given=given.no_values(),
        kept=kept,
        kept_sums=kept_sums.new_sums(spec),
        counters=new_counters(),
        status=new_status(),
        lag=lag.new_lag(),
    )


class Stateless(NamedTuple):
    """Rules without a state."""


class Rules:
    """Rules that a system may replace, with defaults for most systems. A system's class
    (esa.WorkerRules, atp.WorkerRules...) derives from this one and is a named tuple, with the
    system's own state."""

    @staticmethod
    @njit(cache=True)
    def begin(worker):
        """An iteration begins."""

    @staticmethod
    @njit(cache=True)
    def index_for(worker, scoreboard, fragment):
        """The index that a gradient packet of the fragment carries; asked once per packet."""
        return 0

    @staticmethod
    @njit(cache=True)
    def sent(worker, fragment):
        """The fragment has been sent for the first time."""

    @staticmethod
    @njit(cache=True)
    def heard(worker, scoreboard, now, row):
        """A result of this iteration has come, perhaps not for the first time."""
        if wire.kind(row) == wire.RESULT:
            _miss_previous(worker, scoreboard, now, wire.extra(row) - 1)

    @staticmethod
    @njit(cache=True)
    def taken(worker, scoreboard, fragment, row):
        """A result has come for the first time."""

    @staticmethod
    @njit(cache=True)
    def adapt(worker, flags, whole_step, once, sent_ns, now):
        """A result with these flags has come for the first time: the window may change.
        `whole_step`: by a whole fragment. `once`: its fragment was sent only once, at `sent_ns`."""
        worker_state.adapt_window(worker, flags & wire.ECN != 0, whole_step, sent_ns, now)

    @staticmethod
    @njit(cache=True)
    def widens(worker, fragment, once):
        """True if this result makes the window wider by a whole fragment. `once`: the fragment was
        sent only once."""
        return False

    @staticmethod
    @njit(cache=True)
    def resend_early(worker, scoreboard, now, packets, lengths, filled):
        """Fill rows from `filled` on with what is to be sent again before its timer; returns the
        new count."""
        return filled

    @staticmethod
    @njit(cache=True)
    def address(worker, scoreboard, packets, destinations, filled):
        """Say where the `filled` packets go."""
        for i in range(filled):
            destinations[i] = TO_SERVER


_begin = by_type("rules", "begin")
_index_for = by_type("rules", "index_for")
_sent = by_type("rules", "sent")
_heard = by_type("rules", "heard")
_taken = by_type("rules", "taken")
_adapt = by_type("rules", "adapt")
_widens = by_type("rules", "widens")
_resend_early = by_type("rules", "resend_early")
_address = by_type("rules", "address")


@njit(cache=True)
def begin(worker, scoreboard, iteration):
    """Start exchanging the gradients of an iteration."""
    send_scoreboard.begin(scoreboard, iteration)
    worker_state.begin(worker, iteration)
    worker.state.retransmit_requests = 0
    _begin(worker)
    for t in range(worker.priority.size):
        _set_priority(worker, iteration, t, t)


@njit(cache=True)
def open_tensor(worker, scoreboard, tensor, layer):
    """A tensor that a program has given has the priority of the layer that it names."""
    _set_priority(worker, scoreboard.state.iteration, tensor, layer)


@njit(cache=True)
def _set_priority(worker, iteration, tensor, layer):
    config = worker.config
    if worker.levels[tensor] > 0:
        worker.priority[tensor] = worker.levels[tensor]
        return
    worker.priority[tensor] = priority.priority_of(
        config.policy,
        config.communication_ns,
        config.computation_ns,
        config.iterations - iteration,
        layer,
        iteration,
    )


@njit(cache=True)
def receive(worker, scoreboard, now, packets, lengths, count):
    """Take `count` packets: uint32[*, words] rows with their payload lengths in bytes.

    Returns True when the iteration's last result is among them. After a wrong value it stops, with
    the status FAILED set."""
    config, state, counters = worker.config, worker.state, worker.counters[0]
    base = wire.HEADER_WORDS + config.bitmap_words
    value_count = scoreboard.state.values
    full = 4 * (base + value_count)
    finished = False
    for i in range(count):
        row = packets[i]
        if wire.is_foreign(row, lengths[i], base, config.job):
            counters.foreign += 1
            continue
        length = wire.expand(row, lengths[i], base, value_count, config.short)
        kind = wire.kind(row)
        whole = wire.fragment(row)
        iteration = whole // scoreboard.state.fragments
        fragment = whole - iteration * scoreboard.state.fragments
        if kind == wire.ASK:
            if wire.flags(row) & wire.AGAIN and _has_made(worker, scoreboard, iteration, fragment):
                _request(worker, fragment, NEEDED, iteration, wire.flags(row) & wire.FLOAT)
            elif iteration != scoreboard.state.iteration:
                counters.stale += 1
            elif not send_scoreboard.has_result(scoreboard, fragment):
                if wire.flags(row) & wire.FLOAT:
                    scoreboard.status[fragment] |= send_scoreboard.FLOAT
                if not send_scoreboard.was_sent(scoreboard, fragment):
                    scoreboard.status[fragment] |= send_scoreboard.REQUESTED
                elif wire.flags(row) & wire.FLOAT or _may_be_lost(
                    worker, scoreboard, fragment, now
                ):
                    _request(worker, fragment, ASKED, iteration, 0)
            continue
        if kind == wire.COLLIDED:
            _take_back(worker, scoreboard, now, iteration, fragment)
            continue
        if (kind != wire.RESULT and kind != wire.RESULT_ONE) or length != full:
            counters.foreign += 1
            continue
        if iteration < scoreboard.state.iteration:  # of an iteration that has all its results
            counters.duplicate_results += 1
            continue
        if iteration > scoreboard.state.iteration:
            counters.foreign += 1
            continue
        _heard(worker, scoreboard, now, row)
        if send_scoreboard.has_result(scoreboard, fragment):  # it counts once
            counters.duplicate_results += 1
            continue
        flags = wire.flags(row)
        if flags & wire.FLOAT:
            if not payload.check_floats(worker, scoreboard, row, base, fragment):
                return finished
            counters.float_results += 1
        elif not payload.check_values(worker, scoreboard, row, base, fragment, flags):
            return finished
        counters.results += 1
        kept_results.keep(worker.kept, iteration, fragment, row)
        if flags & wire.OVERFLOW:
            counters.saturated += 1
        once = send_scoreboard.sent_once(scoreboard, fragment)
        if flags & server_store.SENT_AGAIN == wire.RESEND or kind == wire.RESULT_ONE:
            unproven_losses.prove(worker)
        if flags & wire.RESEND or unproven_losses.explain(worker, now):
            state.recovered_ns = now
        elif once and send_scoreboard.sent_ns(scoreboard, fragment) > state.recovered_ns:
            worker_state.measure_round_trip(
                state, now - send_scoreboard.sent_ns(scoreboard, fragment)
            )
        _adapt(
            worker,
            flags,
            _widens(worker, fragment, once),
            once,
            send_scoreboard.sent_ns(scoreboard, fragment),
            now,
        )
        if send_scoreboard.mark_received(scoreboard, fragment, now):
            finished = True
        elif once:
            _miss_earlier(worker, scoreboard, now, fragment)
        _taken(worker, scoreboard, fragment, row)
    return finished


@njit(cache=True)
def _may_be_lost(worker, scoreboard, fragment, now):
    """False if a fragment that the server has requested may still be on its way there, and nothing
    shows that packets get lost."""
    age = now - send_scoreboard.sent_ns(scoreboard, fragment)
    return age >= worker.config.min_patience_ns or unproven_losses.are_believed(worker)


@njit(cache=True)
def _has_made(worker, scoreboard, iteration, fragment):
    """True if this worker has the result of a fragment of this iteration, or the one before, whose
    values it can make again, or whose result it has kept. Values that a program has given cannot be
    made again."""
    latest = scoreboard.state.iteration
    if worker.given.source.size > 0 or iteration < 0:
        # A row may have an older round's result, which no worker can lack.
        return iteration >= latest - 1 and kept_results.has(worker.kept, iteration, fragment)
    if iteration == latest:
        return send_scoreboard.has_result(scoreboard, fragment)
    return iteration == latest - 1


@njit(cache=True)
def _request(worker, fragment, why, iteration, as_floats):
    """Have `send` send a fragment again; returns False if there is no room for the request."""
    state = worker.state
    if state.retransmit_requests == worker.retransmit_requests.size:
        return False
    request = worker.retransmit_requests[state.retransmit_requests]
    request.fragment = fragment
    request.why = why
    request.iteration = iteration
    request.as_floats = as_floats
    state.retransmit_requests += 1
    return True


@njit(cache=True)
def _make_again(worker, scoreboard, now, packets, lengths, filled, request):
    """Write a fragment that has its result into the batch's next row; returns the new count."""
    config, state = worker.config, worker.state
    fragment, iteration = request.fragment, request.iteration
    latest, status, factor = scoreboard.state.iteration, scoreboard.status[fragment], state.factor
    worker.counters[0].answered_asks += 1
    if worker.kept.iteration.size > 0:
        return _send_kept(worker, scoreboard, now, packets, lengths, filled, iteration, fragment)
    scoreboard.state.iteration = iteration
    scoreboard.status[fragment] = send_scoreboard.FLOAT if request.as_floats else 0
    state.factor = worker_state.factor_of(config, iteration, config.number)
    filled = send_again(worker, scoreboard, now, packets, lengths, filled, fragment, wire.RESEND)
    scoreboard.state.iteration, scoreboard.status[fragment], state.factor = latest, status, factor
    return filled


@njit(cache=True)
def _send_kept(worker, scoreboard, now, packets, lengths, filled, iteration, fragment):
    """Write a result that was kept into the batch's next row, as the sum of all workers; returns
    the new count."""
    config, row = worker.config, packets[filled]
    whole = iteration * scoreboard.state.fragments + fragment
    # Switches pass on a partial sum as it is, whoever is in it.
    flags = wire.RESEND | wire.PARTIAL
    wire.write_header(row, wire.GRADIENT, 1, flags, config.job, 0, whole, 0, config.number)
    kept_results.write(worker.kept, iteration, fragment, row)
    base, values_of = wire.HEADER_WORDS + config.bitmap_words, scoreboard.state.values
    lengths[filled] = wire.compact(row, base, values_of, config.omit_zeros, config.short)
    worker_state.take_pace(worker.state, config, now, lengths[filled])
    worker.counters[0].gradient_packets += 1
    worker.counters[0].retransmissions += 1
    return filled + 1


@njit(cache=True)
def _take_back(worker, scoreboard, now, iteration, fragment):
    """A switch had no room for a fragment and has dropped it: slow down, and try again."""
    state = worker.state
    if iteration != scoreboard.state.iteration:
        worker.counters[0].stale += 1
        return
    worker.counters[0].collisions_signalled += 1
    if not send_scoreboard.in_flight(scoreboard, fragment):
        return
    worker_state.cut_window(state, send_scoreboard.sent_ns(scoreboard, fragment), now)
    _request(worker, fragment, DROPPED, iteration, 0)


@njit(cache=True)
def _miss(worker, scoreboard, now, fragment):
    """Have a fragment sent again without waiting for its timer."""
    if _request(worker, fragment, MISSED, scoreboard.state.iteration, 0):
        send_scoreboard.mark_missed(scoreboard, fragment, now)


@njit(cache=True)
def _miss_previous(worker, scoreboard, now, whole):
    """A result says of which fragment the server sent one before it. If it is not here, it is
    lost."""
    fragment = whole - scoreboard.state.iteration * scoreboard.state.fragments
    if not 0 <= fragment < scoreboard.state.fragments:
        return
    if send_scoreboard.in_flight(scoreboard, fragment):
        _miss(worker, scoreboard, now, fragment)


@njit(cache=True)
def _miss_earlier(worker, scoreboard, now, fragment):
    """The result is here of a fragment that was sent only once. What was sent well before it and
    has none is lost, or a slower worker has sent both just now.

    Within a tensor only: its fragments are sent in order by every worker. Which of two tensors goes
    first may differ among them, as they become ready."""
    before = send_scoreboard.sent_ns(scoreboard, fragment) - worker_state.patience_ns(worker)
    oldest = scoreboard.oldest[scoreboard.tensor[fragment]]
    if (
        oldest < fragment
        and not send_scoreboard.sent_again(scoreboard, oldest)
        and send_scoreboard.sent_ns(scoreboard, oldest) > before
    ):
        return  # the others were sent after it
    for earlier in range(oldest, fragment):
        if (
            not send_scoreboard.has_result(scoreboard, earlier)
            and send_scoreboard.sent_ns(scoreboard, earlier) <= before
        ):
            if not unproven_losses.take(worker, now):
                return
            _miss(worker, scoreboard, now, earlier)


@njit(cache=True)
def _write_gradient(worker, scoreboard, row, fragment, flags):
    """Returns the bytes of the payload."""
    config = worker.config
    tensor = scoreboard.tensor[fragment]
    whole = scoreboard.state.iteration * scoreboard.state.fragments + fragment
    level = worker.priority[tensor]
    if config.policy == priority.RANDOM:
        level = priority.random_priority(config.seed, config.job, whole)
    index = _index_for(worker, scoreboard, fragment)
    as_floats = payload.goes_as_floats(worker, scoreboard, fragment)
    if as_floats:
        flags |= wire.FLOAT
    flags |= payload.flags_of(worker, scoreboard, fragment)
    stripe = stripes.stripe_of(worker.stripes, fragment)
    node = worker.stripes.node[stripe]
    wire.write_header(
        row, wire.GRADIENT, level, flags, config.job, node, whole, index, config.number
    )
    wire.set_extra(row, worker.stripes.tag[stripe])
    wire.set_worker(row, config.bitmap_words, config.number)
    base = wire.HEADER_WORDS + config.bitmap_words
    if payload.name_meant(worker, scoreboard, row, fragment):
        worker.counters[0].gradient_packets += 1
        return wire.omit_values(row, base)
    seeded = False
    if as_floats:
        payload.write_floats(worker, scoreboard, row, base, fragment)
    else:
        seeded = payload.write_values(worker, scoreboard, row, base, fragment)
    worker.counters[0].gradient_packets += 1
    if seeded:
        return 4 * (base + scoreboard.state.values) + SEEDED * 4 * base
    if config.omit_zeros == 1 or config.short > 0:
        return wire.compact(row, base, scoreboard.state.values, config.omit_zeros, config.short)
    return 4 * (base + scoreboard.state.values)


@njit(cache=True)
def send_again(worker, scoreboard, now, packets, lengths, filled, fragment, flags):
    """Write a fragment that has been sent before into the batch's next row; returns the new
    count."""
    lengths[filled] = _write_gradient(worker, scoreboard, packets[filled], fragment, flags)
    worker_state.take_pace(worker.state, worker.config, now, lengths[filled])
    worker.counters[0].retransmissions += 1
    return filled + 1


@njit(cache=True)
def send(worker, scoreboard, now, packets, lengths, destinations):
    """Fill rows of `packets` with what is due at `now`; returns their number."""
    config, state, counters = worker.config, worker.state, worker.counters[0]
    capacity = packets.shape[0]
    retry = worker_state.retry_ns(worker)
    filled = 0
    while state.retransmit_requests > 0 and filled < capacity:
        state.retransmit_requests -= 1
        request = worker.retransmit_requests[state.retransmit_requests]
        if request.why == NEEDED:
            filled = _make_again(worker, scoreboard, now, packets, lengths, filled, request)
            continue
        fragment = request.fragment
        if not send_scoreboard.has_result(scoreboard, fragment):
            flags = 0
            if request.why == DROPPED:
                send_scoreboard.mark_tried_again(scoreboard, fragment, now)
            else:
                send_scoreboard.mark_sent_again(scoreboard, fragment, now, retry)
                flags = wire.RESEND
            filled = send_again(worker, scoreboard, now, packets, lengths, filled, fragment, flags)
            if request.why == ASKED:
                counters.answered_asks += 1
            elif request.why == MISSED:
                counters.gap_resends += 1
    filled = _resend_early(worker, scoreboard, now, packets, lengths, filled)
    timeout = worker_state.timeout_ns(worker)
    while filled < capacity:
        if unproven_losses.not_before(worker) > now:
            break
        fragment = send_scoreboard.resend(scoreboard, now, timeout, retry)
        if fragment < 0:
            break
        unproven_losses.take(worker, now)
        filled = send_again(
            worker, scoreboard, now, packets, lengths, filled, fragment, wire.RESEND
        )
    window = state.credit // worker_state.UNIT
    waited = state.pacing == 1
    state.pacing = 0
    while filled < capacity:
        fragment = send_scoreboard.next_fragment(scoreboard, window)
        if fragment < 0:
            break
        if state.next_send_ps > now * 1000:
            state.pacing = 1
            break
        if waited:
            lag.record(worker.lag, now - worker_state.paced_ns(state, config))
            waited = False
        flags = (
            server_store.SENT_AGAIN if send_scoreboard.was_requested(scoreboard, fragment) else 0
        )
        lengths[filled] = _write_gradient(worker, scoreboard, packets[filled], fragment, flags)
        worker_state.take_pace(state, config, now, lengths[filled])
        send_scoreboard.mark_sent(scoreboard, fragment, now, timeout)
        _sent(worker, fragment)
        filled += 1
    state.more = 1 if filled == capacity else 0
    _address(worker, scoreboard, packets, destinations, filled)
    return filled


@njit(cache=True)
def deadline(worker, scoreboard):
    """Time of the next call of `send` if nothing arrives before; ns, NEVER if there is none."""
    state = worker.state
    if state.more == 1:
        return 0
    due = send_scoreboard.next_resend_ns(scoreboard)
    if due < 0:
        due = worker_state.NEVER
    due = max(due, unproven_losses.not_before(worker))
    if state.pacing == 1:
        due = min(due, worker_state.paced_ns(state, worker.config))
    return due
