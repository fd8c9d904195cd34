"""The values that a worker sends, and how it checks a sum: generated, recorded, or floats.

Every system's worker uses it. A wrong value is noted in the status with its place, and with what
was found and expected there.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from testbed.protocols import counters as n
from testbed.protocols import floats as fl
from testbed.protocols import send_scoreboard as bk
from testbed.protocols import status as st
from testbed.protocols import values as val
from testbed.protocols import wire
from testbed.protocols import worker as wk


@njit(cache=True)
def write_values(w, b, row, base, fragment):
    """This worker's values of a fragment of the current iteration; zeros fill the packet up."""
    c, s = w.c, w.s
    count = bk.values_in(b, fragment)
    if w.recorded.shape[0] > 0:
        i = b.s[bk.ITERATION] % w.recorded.shape[0]
        start = fragment * b.s[bk.VALUES]
        val.write_recorded(row, base, w.recorded[i, start : start + count])
    else:
        whole = b.s[bk.ITERATION] * b.s[bk.FRAGMENTS] + fragment
        key = val.fragment_key(c[wk.SEED], c[wk.JOB], whole)
        val.write_generated(row, base, count, key, s[wk.FACTOR], c[wk.SHIFT])
    val.write_zeros(row, base + count, base + b.s[bk.VALUES])


@njit(cache=True)
def check_values(w, b, row, base, fragment):
    """True if the packet holds the sum over all workers; else the place is noted in the status."""
    c, s, status = w.c, w.s, w.status
    count = bk.values_in(b, fragment)
    whole = b.s[bk.ITERATION] * b.s[bk.FRAGMENTS] + fragment
    key = val.fragment_key(c[wk.SEED], c[wk.JOB], whole)
    i = 0
    start = fragment * b.s[bk.VALUES]
    if w.recorded.shape[0] > 0:
        i = b.s[bk.ITERATION] % w.recorded.shape[0]
        wrong = val.wrong_recorded(row, base, w.sums[i, start : start + count])
    else:
        wrong = val.wrong_generated(row, base, count, key, s[wk.FACTOR_SUM], c[wk.SHIFT])
    if wrong < 0:
        wrong = val.first_nonzero(row, base + count, base + b.s[bk.VALUES])
        if wrong >= 0:
            wrong += count
    if wrong < 0:
        w.counters[n.VALUES_CHECKED] += count
        return True
    status[st.FAILED] = 1
    status[st.ITERATION] = b.s[bk.ITERATION]
    status[st.FRAGMENT] = fragment
    status[st.POSITION] = wrong
    status[st.FOUND] = np.int64(np.int32(wire.swap(row[base + wrong])))
    if wrong >= count:
        status[st.EXPECTED] = 0
    elif w.recorded.shape[0] > 0:
        status[st.EXPECTED] = np.int64(w.sums[i, start + wrong])
    else:
        status[st.EXPECTED] = np.int64(
            np.int32(val.position_hash(key, wrong, c[wk.SHIFT]) * np.int32(s[wk.FACTOR_SUM]))
        )
    return False


@njit(cache=True)
def check_floats(w, b, row, base, fragment):
    """The same for a result in floating-point numbers, which may differ within a bound."""
    status, f, iteration = w.status, w.floats, b.s[bk.ITERATION]
    if f.sums.shape[0] == 0:
        wrong = 0
    else:
        wrong = fl.first_wrong(f, row, base, iteration, fragment, b.s[bk.VALUES])
    if wrong < 0:
        w.counters[n.VALUES_CHECKED] += bk.values_in(b, fragment)
        return True
    status[st.FAILED] = 1
    status[st.ITERATION] = iteration
    status[st.FRAGMENT] = fragment
    status[st.POSITION] = wrong
    status[st.FOUND] = np.int64(np.int32(wire.swap(row[base + wrong])))
    if f.sums.shape[0] > 0:
        status[st.EXPECTED] = fl.expected_bits(f, iteration, fragment * b.s[bk.VALUES] + wrong)
    return False
