"""ESA's priorities: how urgent a fragment is, from 1 to 255.

Published is the idea, favour fragments that help overall job efficiency, with communication-
intensive jobs as the named example. The formula is ours:

    score = (communication time / computation time) * 1 / remaining work * 1 / (1 + layer index)

mapped to 1..255 on a logarithmic scale. All inputs are the job's, so all its workers compute the
same number without talking. Times are per iteration: communication as the gradient's bytes over the
link's rate, computation from the trace; remaining work is (communication + computation) times the
iterations that are left, the current one included. A cluster that does not know how long a job will
run can take the service that it has attained in place of the remaining work: the same time for the
iterations so far, the current one included.

Logarithms are integer arithmetic, in 1/256 of an octave, so that every machine gets the same
priorities.
"""

from __future__ import annotations

from p4fabric.simulate.jit import njit
from p4fabric.simulate.mixing import mix2

OCTAVE = 256  # fixed-point unit of a logarithm
LOWEST = 1
HIGHEST = 255
MIDDLE = 128

ESA = 0
COMMUNICATION = 1
REMAINING = 2
LAYER = 3
CONSTANT = 4
RANDOM = 5
ATTAINED = 6
ESA_ATTAINED = 7
POLICIES = {
    "esa": ESA,
    "communication": COMMUNICATION,
    "remaining": REMAINING,
    "layer": LAYER,
    "constant": CONSTANT,
    "random": RANDOM,
    "attained": ATTAINED,
    "esa_attained": ESA_ATTAINED,
}


@njit(cache=True)
def log2(x):
    """log2 of an integer of at least 1, in 1/256; error below 1/256 (bit by bit, by squaring)."""
    whole = 0
    while x >> (whole + 1) > 0:
        whole += 1
    mantissa = (x << (30 - whole)) if whole <= 30 else (x >> (whole - 30))  # 2^30 <= m < 2^31
    result = whole * OCTAVE
    bit = OCTAVE >> 1
    while bit > 0:
        mantissa = (mantissa * mantissa) >> 30
        if mantissa >= 1 << 31:
            mantissa >>= 1
            result += bit
        bit >>= 1
    return result


@njit(cache=True)
def clamp(value):
    return max(LOWEST, min(HIGHEST, value))


@njit(cache=True)
def priority_of(policy, communication_ns, computation_ns, iterations_left, layer, iterations_done):
    """Priority of a layer's fragments; layers count from 0 at the front, times are at least 1.
    `iterations_left` counts the current iteration, `iterations_done` does not."""
    intensity = log2(communication_ns) - log2(computation_ns)
    iterations = iterations_left
    if policy in (ATTAINED, ESA_ATTAINED):
        iterations = iterations_done + 1
    work = log2((communication_ns + computation_ns) * iterations)
    depth = log2(1 + layer)
    if policy == COMMUNICATION:
        return clamp(MIDDLE + 12 * intensity // OCTAVE)
    if policy in (REMAINING, ATTAINED):
        return clamp(HIGHEST + 6 * (16 * OCTAVE - work) // OCTAVE)
    if policy == LAYER:
        return clamp(HIGHEST - 24 * depth // OCTAVE)
    if policy == CONSTANT:
        return MIDDLE
    # Work of 2^16 ns at equal communication and computation in the front layer is 255;
    # an octave of the score is 5 steps.
    return clamp(HIGHEST + 5 * (16 * OCTAVE + intensity - work - depth) // OCTAVE)


@njit(cache=True)
def random_priority(seed, job, fragment):
    """The `random` policy: drawn per fragment, equal on all workers."""
    return LOWEST + mix2(mix2(seed, job + 0x7E57), fragment) % (HIGHEST - LOWEST + 1)
