"""A program's calls, laid out as blocks of a round: what takes the training loop's place where a
program on the host gives the arrays.

A job with a program has *rounds* in place of iterations. A round has T blocks of K fragments each,
as many for every host, so servers and switches need to know nothing of a program. A call takes the
next blocks of the round, from the last to the first, as backward would make tensors ready: one for
its prelude (testbed/collective/prelude.py), then those of its values. A block that is not full uses
fewer of its fragments' numbers, and sends no more packets than it has values for. When a round's
blocks are all used and have their results, the next round begins.

To the scoreboard a block is a tensor. With front order, a call's blocks of values are *one* tensor,
as far as the round has room for them. They are ready at the same time and equally urgent. As
tensors of their own, each would send its probes and wait to be shared. The probes that other
workers have not yet sent then fill the window, and what is left of it carries a fraction of the
link's rate.

The ranks submit the same calls in the same order, and a call's blocks depend on its size alone. So
all workers give a fragment number the same place in the same call, without further messages.

The values of a call of scaled floats wait for its prelude, which says how; those of integers, and
of floats that travel as they are, follow it at once. The next call's prelude waits for these values
to be laid out. So the order is the same on all workers, and no worker fills its window with what
another one may not send yet.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba.extending import register_jitable
from p4fabric.simulate.jit import njit, of_module
from p4fabric.simulate.records import new_record, record

from testbed.collective import memory_map, prelude
from testbed.protocols import block_float, given, send_scoreboard
from testbed.protocols.host_spec import HostSpec

for formula in (
    prelude.counter_bits,
    prelude.counters_per_word,
    prelude.words_per_block,
    prelude.exponent_of,
    prelude.steps,
    prelude.ranks_agree,
    prelude.read_levels,
):
    register_jitable(formula)

_begin, _open_tensor = of_module("begin"), of_module("open_tensor")  # of a protocol
NEVER = (1 << 62) - 1

# What `advance` wants of the machine
NOTHING = 0
BEGIN = 1  # to begin round `state.latest`
OPEN = 2  # to open block `state.block` of the round

# Feed.state.stage
IDLE = 0  # no call is being laid out
OPENING = 1  # its prelude comes next
WAITING = 2  # for the prelude's sum, which says how its floats are scaled
BLOCKS = 3  # its values come next

# Feed.state.failed
DIFFERENT = 1  # the ranks give different arrays
TOO_MANY = 2  # no fragment numbers are left

# Feed.state
STATE = record(
    "latest",  # round that has been begun last, -1: none
    "block",  # of it, that has been laid out last; T: none
    "submitted",  # calls that the host process knows of
    "closed",  # 1: there will be no more
    "call",  # that is being laid out, or is laid out next
    "stage",
    "laid_out",  # blocks of its values
    "oldest",  # all calls before it are done
    "disputed",  # the call about which the ranks disagree, if they do
    "done",  # calls
    "news",  # 1: the program is to be told something
    "failed",
    "end_ns",  # end of the last call after the program has closed
    "rounds",  # that there are numbers for
    "workers",
    "block_values",  # of a full block
    "joined",  # 1: a call's blocks are one tensor
)


class Feed(NamedTuple):
    """T blocks per round."""

    state: np.record  # STATE
    given: given.Given  # the protocol's
    calls: np.ndarray  # memory_map.CALL[CALLS]
    layer: np.ndarray  # int64[T], of the call whose part a block is
    level: np.ndarray  # int64[B], of the blocks of the call that is being laid out
    rare: np.ndarray  # uint8[B], 1: one of its values is not finite on some rank


def of_spec(spec: HostSpec, order: int, own: given.Given) -> Feed:
    """The feed of a worker's specification, whose scoreboard has this order; its memory comes later
    (worker.attach)."""
    tensors = spec.job.tensors
    return Feed(
        state=new_record(
            STATE,
            latest=-1,
            rounds=spec.job.iterations,
            workers=spec.job.workers,
            block_values=tensors[0].values,
            joined=int(order == send_scoreboard.FRONT),
        ),
        given=own,
        calls=memory_map.shared(memory_map.new_memory(0)).calls,
        layer=np.zeros(len(tensors), np.int64),
        level=np.zeros(tensors[0].values, np.int64),
        rare=np.zeros(tensors[0].values, np.uint8),
    )


@njit(cache=True)
def advance(feed, scoreboard, now):
    """Lay out as much as there are calls and blocks for: BEGIN, OPEN or NOTHING. The caller does
    that and calls again."""
    state, g = feed.state, feed.given
    _note_done(feed, scoreboard, now)
    while state.failed == 0:
        if state.stage == IDLE:
            if state.call == state.submitted:
                return NOTHING
            _take_call(feed, scoreboard, now)
        call = feed.calls[state.call % memory_map.CALLS]
        if state.stage == WAITING:
            if call.form in (memory_map.FLOATS, memory_map.FIXED_SCALE):
                _check_prelude(feed, scoreboard, state.call)
                if state.failed or g.left[2 * (state.call % memory_map.CALLS)] > 0:
                    return NOTHING
            if call.form == memory_map.FLOATS:
                call.rare_blocks = prelude.read_levels(
                    g.words[call.prelude : call.prelude + call.prelude_words],
                    state.workers,
                    _fragments(call.values, state.block_values),
                    feed.level,
                    feed.rare,
                )
            state.stage = BLOCKS
            state.laid_out = 0
            if call.values == 0:
                _end_layout(state)
            continue
        if state.latest < 0 or state.block == 0:
            if state.latest >= 0 and scoreboard.state.unfinished > 0:
                return NOTHING
            if state.latest + 1 == state.rounds:
                state.failed = TOO_MANY
                state.news = 1
                return NOTHING
            state.latest += 1
            state.block = feed.layer.size
            return BEGIN
        if state.stage == OPENING:
            _lay_out_prelude(feed, scoreboard, call)
        else:
            _lay_out_blocks(feed, scoreboard, call)
        feed.layer[state.block] = call.layer
        return OPEN
    return NOTHING


@njit(cache=True)
def drive(feed, protocol, scoreboard, now):
    """Lay out the next block, or begin a round. False if there is nothing more to do."""
    wanted = advance(feed, scoreboard, now)
    if wanted == BEGIN:
        _begin(protocol, scoreboard, feed.state.latest)
    elif wanted == OPEN:
        block = feed.state.block
        _open_tensor(protocol, scoreboard, block, feed.layer[block])
        send_scoreboard.make_ready(scoreboard, block, now)
    return wanted != NOTHING


@njit(cache=True)
def gradient_finished(feed, iteration, now, status):
    """The last result of a round has arrived; `advance` sees that for itself."""


@njit(cache=True)
def note(feed, status):
    """Tell the runtime how far the program's calls are."""
    state = feed.state
    status[0].iterations = max(state.latest, 0)
    status[0].news |= state.news
    status[0].open_calls = state.submitted - state.done
    if state.end_ns > 0:
        status[0].finished = 1


@njit(cache=True)
def deadline(feed):
    return NEVER


@njit(cache=True)
def _note_done(feed, scoreboard, now):
    """Tell the program of the calls whose sums are all there."""
    state, g = feed.state, feed.given
    begun = 1 if state.stage == BLOCKS else 0  # its values are being laid out
    for number in range(state.oldest, state.call + begun):
        call = feed.calls[number % memory_map.CALLS]
        if call.state != memory_map.SUBMITTED:
            continue
        _check_prelude(feed, scoreboard, number)
        if call.agreed == 1 and _left(g, number) == 0:
            call.done_ns = now
            call.state = memory_map.DONE
            state.done += 1
            state.news = 1
    while state.oldest < state.call:
        if _left(g, state.oldest) > 0:
            break
        state.oldest += 1
    if state.closed == 1 and state.oldest == state.submitted and state.end_ns == 0:
        state.end_ns = max(now, 1)


@njit(cache=True)
def _fragments(values, per_fragment):
    return (values + per_fragment - 1) // per_fragment


@njit(cache=True)
def _left(g, number):
    """Results of a call that are still to come, those of its prelude included."""
    place = 2 * (number % memory_map.CALLS)
    return g.left[place] + g.left[place + 1]


@njit(cache=True)
def _take_call(feed, scoreboard, now):
    state, g = feed.state, feed.given
    place = state.call % memory_map.CALLS
    call = feed.calls[place]
    per_fragment = scoreboard.state.values
    call.submitted_ns = now
    call.rare_blocks = 0
    g.left[2 * place] = _fragments(call.prelude_words, per_fragment)
    whole, rest = call.values // state.block_values, call.values % state.block_values
    g.left[2 * place + 1] = whole * _fragments(state.block_values, per_fragment)
    g.left[2 * place + 1] += _fragments(rest, per_fragment)
    state.stage = OPENING


@njit(cache=True)
def _lay_out_prelude(feed, scoreboard, call):
    state, g = feed.state, feed.given
    state.block -= 1
    block = state.block
    g.form[block] = given.WHOLE
    g.share[block] = 0
    g.source[block] = call.prelude
    g.target[block] = call.prelude
    g.counter[block] = 2 * (state.call % memory_map.CALLS)
    send_scoreboard.lay_out(scoreboard, block, 1, call.prelude_words)
    call.opening, call.in_round, call.agreed = block, state.latest, 0
    state.stage = WAITING


@njit(cache=True)
def _lay_out_blocks(feed, scoreboard, call):
    """The call's next block, or as many as the round has left."""
    state = feed.state
    begin = state.laid_out * state.block_values
    blocks = 1
    if state.joined == 1:
        blocks = min(_fragments(call.values - begin, state.block_values), state.block)
    state.block -= blocks
    for i in range(blocks):
        _describe_block(feed, call, state.block + i)
        state.laid_out += 1
    values = min(blocks * state.block_values, call.values - begin)
    send_scoreboard.lay_out(scoreboard, state.block, blocks, values)
    if begin + values == call.values:
        _end_layout(state)


@njit(cache=True)
def _end_layout(state):
    """All of the call is laid out."""
    state.call += 1
    state.stage = IDLE


@njit(cache=True)
def _describe_block(feed, call, block):
    """The call's next block is this one of the round: where its values are, and their scale."""
    state, g = feed.state, feed.given
    done = state.laid_out * state.block_values
    g.source[block] = call.source + done
    g.target[block] = call.target + done
    g.counter[block] = 2 * (state.call % memory_map.CALLS) + 1
    g.divisor[block] = np.float64(call.divisor)
    g.share[block] = call.share
    g.share_at[block] = call.share_at + done
    g.from_one[block] = call.from_one
    if call.form == memory_map.INTEGERS:
        g.form[block] = given.WHOLE
    elif call.form == memory_map.UNSCALED:
        g.form[block] = given.UNSCALED if call.wide == 0 else given.WIDE
    elif call.form == memory_map.FIXED_SCALE:
        g.form[block] = given.FIXED
        g.scale[block] = g.fixed[0]
    else:
        exponent = prelude.exponent_of(feed.level[state.laid_out])
        is_rare = feed.rare[state.laid_out] == 1
        g.form[block] = given.RARE if is_rare else given.SCALED
        g.scale[block] = prelude.steps(state.workers, exponent, is_rare)
        if g.rounded[0] >= 0 and not is_rare and call.wide == 0:
            g.form[block] = given.ROUNDED
            g.scale[block] = block_float.short_scale_of(exponent, g.rounded[1])


@njit(cache=True)
def _check_prelude(feed, scoreboard, number):
    """Compare what all ranks say of a call, as soon as that is known."""
    state, g = feed.state, feed.given
    call = feed.calls[number % memory_map.CALLS]
    if call.agreed == 1:
        return
    if call.in_round == state.latest:  # else its round is over, with all results
        first = scoreboard.first[call.opening]
        words = prelude.WORDS_PER_RANK * state.workers
        for fragment in range(first, first + _fragments(words, scoreboard.state.values)):
            if not send_scoreboard.has_result(scoreboard, fragment):
                return
    if prelude.ranks_agree(g.words[call.prelude :], state.workers):
        call.agreed = 1
    elif state.failed == 0:
        state.disputed = number
        state.failed = DIFFERENT
        state.news = 1


def failure(feed: Feed, words: np.ndarray, title: str) -> str:
    """Cause of a feed's failure. `words`: its arena; `title`: the job's title."""
    state = feed.state
    if state.failed == TOO_MANY:
        return f"{title} has used up the packets' 32-bit fragment numbers"
    call = feed.calls[int(state.disputed) % memory_map.CALLS]
    count = prelude.WORDS_PER_RANK
    start = int(call.prelude)
    given_by = words[start : start + count * int(state.workers)].reshape(-1, count)
    said: dict[str, list[str]] = {}
    for rank, (values, whole, detail) in enumerate(given_by.tolist()):
        said.setdefault(prelude.described((values, whole, detail)), []).append(str(rank))
    parts = [
        f"rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks)}: {what}"
        for what, ranks in said.items()
    ]
    return (
        f"the ranks of {title} do not agree on collective {int(state.disputed)}"
        f" ({'; '.join(parts)}); all must call the same collectives in the same order, with arrays"
        " of the same size and type"
    )
