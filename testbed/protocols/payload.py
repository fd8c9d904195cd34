"""The values that a worker sends, and how it checks a sum: generated, recorded, or floats; or those
that a program gives, whose sums it hands back.

Every system's worker uses it. A wrong value is noted in the status with its place, and with what
was found and expected there.
"""

from __future__ import annotations

import numpy as np
from p4fabric.simulate.jit import njit

from testbed.collective import memory_map
from testbed.number_formats import BLOCKS, FLOAT32, FPISA, INT32
from testbed.protocols import (
    floats,
    given,
    send_scoreboard,
    values,
    wire,
    worker_state,
)
from testbed.protocols.formats import by_number, kept_sums, recorded_floats


@njit(cache=True)
def _place(scoreboard, fragment):
    """(block, value of it) at which a fragment of a program's round begins. The tensors of a round
    are blocks of one size; a tensor of the scoreboard may be several (send_scoreboard.lay_out)."""
    state = scoreboard.state
    span = state.fragments // state.tensors
    block = fragment // span
    return block, (fragment - block * span) * state.values


@njit(cache=True)
def meant_for(worker, scoreboard, fragment):
    """`given.meant_for` of a fragment; 0 where all values are of all workers."""
    if worker.given.share.size == 0:
        return 0, 0
    count = send_scoreboard.values_in(scoreboard, fragment)
    if worker.given.source.size > 0:
        block, offset = _place(scoreboard, fragment)
    else:
        block = scoreboard.tensor[fragment]
        offset = (fragment - scoreboard.first[block]) * scoreboard.state.values
    return given.meant_for(worker.given, block, offset, count)


@njit(cache=True)
def is_rooted(worker, scoreboard, fragment):
    """True if the values that `meant_for` names one worker for are all of a call."""
    block = scoreboard.tensor[fragment]
    if worker.given.source.size > 0:
        block, _ = _place(scoreboard, fragment)
    return worker.given.share[block] == memory_map.WHOLE


@njit(cache=True)
def _gives(worker, scoreboard, fragment, flag, meant, number):
    """True if worker `number` has values of a fragment, of which `meant_for` says `flag` and
    `meant`. Otherwise its values are 0."""
    if flag == wire.FROM_ONE:
        return meant == number
    if flag == 0 or meant != number:
        return True
    block = scoreboard.tensor[fragment]
    if worker.given.source.size > 0:
        block, _ = _place(scoreboard, fragment)
    return worker.given.from_one[block] != given.OTHERS


@njit(cache=True)
def name_meant(worker, scoreboard, row, fragment):
    """Let a fragment's gradient, whose header is written, say which worker its values are for, or
    from. True if this worker has none, so that this packet needs none.

    All workers say the same. Where packets without values are not known, none does."""
    if worker.config.omit_zeros == 0:
        return False
    flag, meant = meant_for(worker, scoreboard, fragment)
    if flag == 0:
        return False
    wire.set_word(row, 0, wire.word(row, 0) | flag)
    wire.set_meant(row, meant)
    return not _gives(worker, scoreboard, fragment, flag, meant, worker.config.number)


@njit(cache=True)
def write_values(worker, scoreboard, row, base, fragment):
    """This worker's values of a fragment of the current iteration; zeros fill the packet up. True
    if the packet is seeded: it has what `values.write_seed` writes in place of the values."""
    config, state = worker.config, worker.state
    count = send_scoreboard.values_in(scoreboard, fragment)
    if worker.given.source.size > 0:
        block, offset = _place(scoreboard, fragment)
        given.write(worker.given, row, base, block, offset, count)
    elif worker.singles.own.shape[0] > 0:
        start = fragment * scoreboard.state.values
        recorded_floats.write(worker.singles, row, base, scoreboard.state.iteration, start, count)
    elif worker.recorded.shape[0] > 0:
        i = scoreboard.state.iteration % worker.recorded.shape[0]
        start = fragment * scoreboard.state.values
        values.write_recorded(row, base, worker.recorded[i, start : start + count])
    else:
        whole = scoreboard.state.iteration * scoreboard.state.fragments + fragment
        key = values.fragment_key(config.seed, config.job, whole)
        flag, meant = meant_for(worker, scoreboard, fragment)
        own = _gives(worker, scoreboard, fragment, flag, meant, config.number)
        factor = state.factor if own else 0
        if config.seeded == 1 and config.adder == INT32:
            values.write_seed(row, base, count, key, factor, config.shift)
            return True
        if config.adder == INT32:
            values.write_generated(row, base, count, key, factor, config.shift)
        else:
            by_number.write_generated(config.numbers, row, base, count, key, factor)
    values.write_zeros(row, base + count, base + scoreboard.state.values)
    if worker.given.source.size > 0 and worker.given.form[block] == given.UNSCALED:
        by_number.round_numbers(config.numbers, row, base, scoreboard.state.values)
    return False


@njit(cache=True)
def flags_of(worker, scoreboard, fragment):
    """The flags that say how a fragment's values are added: ROUND, INTEGERS."""
    flags = 0
    if _is_rounded(worker, scoreboard, fragment):
        flags |= wire.ROUND
    if _has_integers(worker, scoreboard, fragment):
        flags |= wire.INTEGERS
    return flags


@njit(cache=True)
def _has_integers(worker, scoreboard, fragment):
    """True if a fragment's values are a program's int32, and sums those of floats."""
    if worker.config.adder == INT32 or worker.given.source.size == 0:
        return False
    block, _ = _place(scoreboard, fragment)
    return worker.given.form[block] == given.WHOLE


@njit(cache=True)
def _is_rounded(worker, scoreboard, fragment):
    """True if a fragment's values are short, and their sum is to be rounded to as many bits."""
    if worker.given.source.size > 0:
        block, _ = _place(scoreboard, fragment)
        form = worker.given.form[block]
        if form != given.UNSCALED:
            return form == given.ROUNDED
    if worker.config.rounds == wire.SHORT_FLOATS:
        return worker.config.adder == FLOAT32
    if worker.config.rounds == wire.SHORT_BLOCKS:
        return True
    if worker.recorded.shape[0] > 0:
        return worker.config.rounds > 0
    if worker.config.rounds != wire.SHORT_BYTES:
        return False
    flag, _ = meant_for(worker, scoreboard, fragment)
    return flag != wire.FROM_ONE


@njit(cache=True)
def goes_as_floats(worker, scoreboard, fragment):
    """True if a fragment travels as floating-point numbers: one of its values does not fit, or
    another worker's does not."""
    status = scoreboard.status[fragment]
    if worker.given.source.size == 0:
        return floats.wanted(worker.floats, scoreboard.state.iteration, fragment, status)
    block, offset = _place(scoreboard, fragment)
    if worker.given.form[block] != given.FIXED:
        return False
    count = send_scoreboard.values_in(scoreboard, fragment)
    wanted = status & send_scoreboard.FLOAT != 0
    return wanted or not given.fits(worker.given, block, offset, count)


@njit(cache=True)
def write_floats(worker, scoreboard, row, base, fragment):
    """The same values as `write_values`, as floating-point numbers."""
    per_fragment = scoreboard.state.values
    if worker.given.source.size == 0:
        iteration = scoreboard.state.iteration
        floats.write_own(worker.floats, row, base, iteration, fragment, per_fragment)
        return
    block, offset = _place(scoreboard, fragment)
    count = send_scoreboard.values_in(scoreboard, fragment)
    given.write_floats(worker.given, row, base, block, offset, count)
    values.write_zeros(row, base + count, base + per_fragment)


@njit(cache=True)
def _needs(worker, scoreboard, fragment):
    """True if this worker's program needs the sum of a fragment."""
    flag, meant = meant_for(worker, scoreboard, fragment)
    if flag == wire.FOR_ONE:
        return meant == worker.config.number
    return flag == 0 or meant != worker.config.number


@njit(cache=True)
def _bound(config, flags):
    """The greatest error of a sum in a format of floats, of a result with these flags."""
    if config.adder == FPISA and flags & wire.OVERFLOW:
        return by_number.WRONG_BOUND
    return by_number.bound(config.adder, config.numbers, config.workers)


@njit(cache=True)
def check_values(worker, scoreboard, row, base, fragment, flags):
    """True if the row holds the sum over all workers, from word `base` on; else the place is noted
    in the status. A sum of what a program has given is handed back to it. flags: of the result."""
    config, state, status = worker.config, worker.state, worker.status
    count = send_scoreboard.values_in(scoreboard, fragment)
    factor_sum, factor_size = state.factor_sum, state.factor_size
    rounded_bits = config.rounded_bits
    if worker.given.share.size > 0:
        flag, meant = meant_for(worker, scoreboard, fragment)
        if flag != 0 and (flag == wire.FOR_ONE) != (meant == config.number):
            if worker.given.source.size > 0:
                block, _ = _place(scoreboard, fragment)
                given.leave(worker.given, block)
            return True
        if flag == wire.FROM_ONE:
            factor_sum = worker_state.factor_of(config, scoreboard.state.iteration, meant)
            factor_size = abs(factor_sum)
            rounded_bits = 0
        elif flag != 0 and not _gives(worker, scoreboard, fragment, flag, meant, meant):
            factor = worker_state.factor_of(config, scoreboard.state.iteration, meant)
            factor_sum -= factor
            factor_size -= abs(factor)
    if worker.given.source.size > 0:
        block, offset = _place(scoreboard, fragment)
        given.take(worker.given, row, base, block, offset, count)
        worker.counters[0].values_checked += count
        return True
    kept_sums.keep(
        worker.kept_sums,
        scoreboard.state.iteration,
        fragment,
        row,
        base,
        count,
        scoreboard.state.values,
    )
    whole = scoreboard.state.iteration * scoreboard.state.fragments + fragment
    key = values.fragment_key(config.seed, config.job, whole)
    i = 0
    start = fragment * scoreboard.state.values
    if worker.singles.own.shape[0] > 0:
        bound = _bound(config, flags)
        wrong = recorded_floats.first_wrong(
            worker.singles, row, base, scoreboard.state.iteration, start, count, bound
        )
    elif worker.recorded.shape[0] > 0:
        i = scoreboard.state.iteration % worker.recorded.shape[0]
        wrong = values.wrong_recorded(row, base, worker.sums[i, start : start + count])
    elif rounded_bits > 0:
        wrong = values.wrong_rounded(row, base, count, key, factor_sum, config.shift, rounded_bits)
    elif config.adder == INT32:
        wrong = values.wrong_generated(row, base, count, key, factor_sum, config.shift)
    elif config.numbers == BLOCKS:
        wrong = by_number.wrong_blocks(row, base, count, key, factor_sum)
    else:
        bound = _bound(config, flags)
        wrong = by_number.wrong_generated(
            config.numbers, row, base, count, key, factor_sum, factor_size, bound
        )
    if wrong < 0:
        wrong = values.first_nonzero(row, base + count, base + scoreboard.state.values)
        if wrong >= 0:
            wrong += count
    if wrong < 0:
        worker.counters[0].values_checked += count
        return True
    status[0].failed = 1
    status[0].iteration = scoreboard.state.iteration
    status[0].fragment = fragment
    status[0].position = wrong
    status[0].found = np.int64(np.int32(wire.swap(row[base + wrong])))
    if wrong >= count:
        status[0].expected = 0
    elif worker.singles.own.shape[0] > 0:
        status[0].expected = recorded_floats.expected(
            worker.singles, scoreboard.state.iteration, start + wrong
        )
    elif worker.recorded.shape[0] > 0:
        status[0].expected = np.int64(worker.sums[i, start + wrong])
    elif config.adder != INT32:
        status[0].expected = by_number.expected_generated(
            config.numbers, key, wrong, factor_sum, count
        )
    elif rounded_bits > 0:
        status[0].expected = values.rounded(key, wrong, factor_sum, config.shift, rounded_bits)
    else:
        status[0].expected = np.int64(
            np.int32(values.position_hash(key, wrong, config.shift) * np.int32(factor_sum))
        )
    return False


@njit(cache=True)
def check_floats(worker, scoreboard, row, base, fragment):
    """The same for a result in floating-point numbers, which may differ within a bound."""
    status, recorded, iteration = worker.status, worker.floats, scoreboard.state.iteration
    if worker.given.source.size > 0:
        block, offset = _place(scoreboard, fragment)
        count = send_scoreboard.values_in(scoreboard, fragment)
        if not _needs(worker, scoreboard, fragment):
            given.leave(worker.given, block)
            return True
        given.take_floats(worker.given, row, base, block, offset, count)
        worker.counters[0].values_checked += count
        return True
    if recorded.sums.shape[0] == 0:
        wrong = 0
    else:
        wrong = floats.first_wrong(
            recorded, row, base, iteration, fragment, scoreboard.state.values
        )
    if wrong < 0:
        worker.counters[0].values_checked += send_scoreboard.values_in(scoreboard, fragment)
        return True
    status[0].failed = 1
    status[0].iteration = iteration
    status[0].fragment = fragment
    status[0].position = wrong
    status[0].found = np.int64(np.int32(wire.swap(row[base + wrong])))
    if recorded.sums.shape[0] > 0:
        status[0].expected = floats.expected_bits(
            recorded, iteration, fragment * scoreboard.state.values + wrong
        )
    return False
