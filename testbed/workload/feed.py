"""A program's calls, laid out as tensors: what takes the training loop's place where a program on
the host gives the arrays.

A job with a program has *rounds* in place of iterations. A round has T tensors of K fragments each,
as many for every host, so servers and switches need to know nothing of a program. A call takes the
next tensors of the round, from the last to the first, as backward would make them ready: one for
its prelude (testbed/collective/prelude.py), then one for each block of values. A tensor that is not
full uses fewer of its fragments' numbers, and sends no more packets than it has values for. When a
round's tensors are all used and have their results, the next round begins.

With front order, a call's blocks are *one* tensor to the scoreboard, as far as the round has room
for them. They are ready at the same time and equally urgent. As tensors of their own, each would
send its probes and wait to be shared. The probes that other workers have not yet sent then fill the
window, and what is left of it carries a fraction of the link's rate.

The ranks submit the same calls in the same order, and a call's tensors depend on its size alone. So
all workers give a fragment number the same place in the same call, without further messages.

A call's values wait for its prelude, and the next call's prelude for these values to be laid out.
Both orders are the same on all workers, so no worker fills its window with what another one may not
send yet.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from testbed.collective import layout, prelude
from testbed.protocols import given, send_scoreboard, short_values
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.jit import njit
from testbed.protocols.records import new_record, record

# What `advance` wants of the machine
NOTHING = 0
BEGIN = 1  # to begin round `state.latest`
OPEN = 2  # to open tensor `state.tensor` of the round

# Feed.state.stage
IDLE = 0  # no call is being laid out
OPENING = 1  # its prelude comes next
WAITING = 2  # for the prelude's sum
BLOCKS = 3  # its values come next

# Feed.state.failed
DIFFERENT = 1  # the ranks give different arrays
TOO_MANY = 2  # no fragment numbers are left

# Feed.state
STATE = record(
    "latest",  # round that has been begun last, -1: none
    "tensor",  # of it, that has been laid out last; T: none
    "submitted",  # calls that the host process knows of
    "closed",  # 1: there will be no more
    "call",  # that is being laid out, or is laid out next
    "stage",
    "block",  # of the call, that is laid out next
    "opening",  # the tensor of the call's prelude
    "oldest",  # all calls before it are done
    "done",  # calls
    "news",  # 1: the program is to be told something
    "failed",
    "end_ns",  # when the last call was done after the program has closed
    "rounds",  # that there are numbers for
    "workers",
    "block_values",  # of a full tensor
    "joined",  # 1: a call's blocks are one tensor
)


class Feed(NamedTuple):
    """T tensors per round."""

    state: np.ndarray  # STATE[1]
    calls: np.ndarray  # layout.CALL[CALLS]
    layer: np.ndarray  # int64[T], of the call whose part a tensor is
    level: np.ndarray  # int64[B], of the blocks of the call that is being laid out
    rare: np.ndarray  # uint8[B], 1: one of its values is not finite on some rank


def of_spec(spec: HostSpec, order: int) -> Feed:
    """The feed of a worker's specification, whose scoreboard has this order; its memory comes later
    (fed_worker.attach)."""
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
        calls=layout.shared(layout.new_memory(0)).calls,
        layer=np.zeros(len(tensors), np.int64),
        level=np.zeros(tensors[0].values, np.int64),
        rare=np.zeros(tensors[0].values, np.uint8),
    )


@njit(cache=True)
def advance(feed, g, scoreboard, now):
    """Lay out as much as there are calls and tensors for: BEGIN, OPEN or NOTHING. The caller does
    that and calls again."""
    state = feed.state[0]
    _note_done(feed, g, now)
    while state.failed == 0:
        if state.stage == IDLE:
            if state.call == state.submitted:
                return NOTHING
            _take_call(feed, g, scoreboard, now)
        call = feed.calls[state.call % layout.CALLS]
        if state.stage == WAITING:
            _check_prelude(feed, g, scoreboard, call)
            if state.failed or g.left[2 * (state.call % layout.CALLS)] > 0:
                return NOTHING
            if call.form == layout.FLOATS:
                _read_levels(feed, g, call)
            state.stage = BLOCKS
            state.block = 0
            continue
        if state.latest < 0 or state.tensor == 0:
            if state.latest >= 0 and scoreboard.state[0].unfinished > 0:
                return NOTHING
            if state.latest + 1 == state.rounds:
                state.failed = TOO_MANY
                state.news = 1
                return NOTHING
            state.latest += 1
            state.tensor = feed.layer.size
            return BEGIN
        if state.stage == OPENING:
            _lay_out_prelude(feed, g, scoreboard, call)
        else:
            _lay_out_blocks(feed, g, scoreboard, call)
        feed.layer[state.tensor] = call.layer
        return OPEN
    return NOTHING


@njit(cache=True)
def _note_done(feed, g, now):
    """Tell the program of the calls whose sums are all there."""
    state = feed.state[0]
    for number in range(state.oldest, state.call):
        call = feed.calls[number % layout.CALLS]
        if call.state == layout.SUBMITTED and g.left[2 * (number % layout.CALLS) + 1] == 0:
            call.done_ns = now
            call.state = layout.DONE
            state.done += 1
            state.news = 1
    while state.oldest < state.call:
        if g.left[2 * (state.oldest % layout.CALLS) + 1] > 0:
            break
        state.oldest += 1
    if state.closed == 1 and state.oldest == state.submitted and state.end_ns == 0:
        state.end_ns = max(now, 1)


@njit(cache=True)
def _fragments(values, per_fragment):
    return (values + per_fragment - 1) // per_fragment


@njit(cache=True)
def _take_call(feed, g, scoreboard, now):
    state = feed.state[0]
    place = state.call % layout.CALLS
    call = feed.calls[place]
    per_fragment = scoreboard.state[0].values
    call.submitted_ns = now
    call.rare_blocks = 0
    g.left[2 * place] = _fragments(call.prelude_words, per_fragment)
    whole, rest = call.values // state.block_values, call.values % state.block_values
    g.left[2 * place + 1] = whole * _fragments(state.block_values, per_fragment)
    g.left[2 * place + 1] += _fragments(rest, per_fragment)
    state.stage = OPENING


@njit(cache=True)
def _lay_out_prelude(feed, g, scoreboard, call):
    state = feed.state[0]
    state.tensor -= 1
    tensor = state.tensor
    g.form[tensor] = given.WHOLE
    g.source[tensor] = call.prelude
    g.target[tensor] = call.prelude
    g.row[tensor] = 2 * (state.call % layout.CALLS)
    send_scoreboard.lay_out(scoreboard, tensor, 1, call.prelude_words)
    state.opening = tensor
    state.stage = WAITING


@njit(cache=True)
def _lay_out_blocks(feed, g, scoreboard, call):
    """The call's next block, or as many as there are tensors for."""
    state = feed.state[0]
    begin = state.block * state.block_values
    blocks = 1
    if state.joined == 1:
        blocks = min(_fragments(call.values - begin, state.block_values), state.tensor)
    state.tensor -= blocks
    for i in range(blocks):
        _describe_block(feed, g, call, state.tensor + i)
        state.block += 1
    values = min(blocks * state.block_values, call.values - begin)
    send_scoreboard.lay_out(scoreboard, state.tensor, blocks, values)
    if begin + values == call.values:
        state.call += 1
        state.stage = IDLE


@njit(cache=True)
def _describe_block(feed, g, call, tensor):
    """The call's next block is this tensor of the round: where its values are, and their scale."""
    state = feed.state[0]
    done = state.block * state.block_values
    g.source[tensor] = call.source + done
    g.target[tensor] = call.target + done
    g.row[tensor] = 2 * (state.call % layout.CALLS) + 1
    g.divisor[tensor] = np.float64(call.divisor)
    if call.form == layout.INTEGERS:
        g.form[tensor] = given.WHOLE
    elif call.form == layout.FIXED:
        g.form[tensor] = given.FIXED
        g.scale[tensor] = g.fixed[0]
    else:
        bits = g.bits[0]
        exponent = 2 * feed.level[state.block] - prelude.LEVEL_BASE
        shift = 31 - bits - exponent
        g.form[tensor] = given.SCALED
        if feed.rare[state.block] == 1:
            shift -= 1 + 2 * bits
            g.form[tensor] = given.RARE
        g.scale[tensor] = math.ldexp(1.0, int(shift))
        if g.rounded[0] >= 0 and feed.rare[state.block] == 0:
            g.form[tensor] = given.ROUNDED
            g.scale[tensor] = short_values.scale_of(exponent)


@njit(cache=True)
def _check_prelude(feed, g, scoreboard, call):
    """Whether all ranks give the same, as soon as it is known."""
    state = feed.state[0]
    first = scoreboard.first[state.opening]
    words = prelude.WORDS_PER_RANK * state.workers
    for fragment in range(first, first + _fragments(words, scoreboard.state[0].values)):
        if scoreboard.status[fragment] & send_scoreboard.RECEIVED == 0:
            return
    for i in range(prelude.WORDS_PER_RANK, words):
        if g.words[call.prelude + i] != g.words[call.prelude + i % prelude.WORDS_PER_RANK]:
            state.failed = DIFFERENT
            state.news = 1
            return


@njit(cache=True)
def _read_levels(feed, g, call):
    """The largest level of each block over the ranks, from the sum of their preludes."""
    bits = g.bits[0]
    per_word = 31 // bits
    words = (prelude.LEVELS + per_word - 1) // per_word
    mask = (1 << bits) - 1
    start = call.prelude + prelude.WORDS_PER_RANK * feed.state[0].workers
    blocks = _fragments(call.values, feed.state[0].block_values)
    for block in range(blocks):
        feed.level[block] = 0
        for level in range(1, prelude.RARE):
            word = np.int64(g.words[start + level // per_word])
            if (word >> (bits * (level % per_word))) & mask:
                feed.level[block] = level
        word = np.int64(g.words[start + prelude.RARE // per_word])
        feed.rare[block] = 1 if (word >> (bits * (prelude.RARE % per_word))) & mask else 0
        call.rare_blocks += feed.rare[block]
        start += words


def failure(feed: Feed, words: np.ndarray, title: str) -> str:
    """Why a feed has failed. `words`: its arena; `title`: the job's title."""
    state = feed.state[0]
    if state.failed == TOO_MANY:
        return f"{title} has used up the packets' 32-bit fragment numbers"
    call = feed.calls[int(state.call) % layout.CALLS]
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
        f"the ranks of {title} do not agree on collective {int(state.call)}"
        f" ({'; '.join(parts)}); all must call the same collectives in the same order, with arrays"
        " of the same size and type"
    )
