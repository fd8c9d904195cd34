"""The stripes of a job's fragments: which path of a plan a fragment takes.

A plan gives shares of a worker's fragments to different aggregation nodes and paths. A *stripe* is
such a share. Its fragments are spread evenly over the gradient, so that a worker that sends in
order at a constant pace sends every node its share all the time. Fragment f of F has the *rank*
f x stride mod F, with a stride near F / golden ratio that has no factor in common with F. A stripe
has the ranks from the end of the stripe before it to its own end. All hosts of a job use the same
ranks, so all workers send the same fragments to a node.

Systems without a plan have one stripe, whose fragments name no node: every switch on the path
aggregates them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit

from testbed.protocols.host_spec import ServerStripes, WorkerStripes


class Stripes(NamedTuple):
    """Stripes of a host; S stripes, N switches that its server reminds."""

    of: np.ndarray  # int16[F], stripe of each fragment; int16[1] where there is only one stripe
    node: np.ndarray  # int64[S], what a fragment's header names
    tag: np.ndarray  # int64[S], by which switches steer it
    reached: np.ndarray  # uint8[S, N], 1: the switch may hold fragments of the stripe


def one_stripe(switches: int = 0) -> Stripes:
    """The same stripe for all fragments and switches."""
    nothing = np.zeros(1, np.int64)
    return Stripes(np.zeros(1, np.int16), nothing, nothing, np.ones((1, switches), np.uint8))


def of_worker(planned: WorkerStripes) -> Stripes:
    """A worker's stripes; the last one ends at F."""
    nothing = np.ones((len(planned.ends), 0), np.uint8)
    nodes, tags = np.array(planned.nodes, np.int64), np.array(planned.tags, np.int64)
    return Stripes(spread(planned.ends), nodes, tags, nothing)


def of_server(planned: ServerStripes) -> Stripes:
    """A server's stripes."""
    nothing = np.zeros(len(planned.ends), np.int64)
    return Stripes(spread(planned.ends), nothing, nothing, np.array(planned.reached, np.uint8))


def spread(ends: Sequence[int]) -> np.ndarray:
    """The stripe of each fragment, int16[F], or int16[1] if there is one stripe."""
    if len(ends) == 1:
        return np.zeros(1, np.int16)
    ranks = np.arange(ends[-1], dtype=np.int64) * stride(ends[-1]) % ends[-1]
    return np.searchsorted(np.asarray(ends), ranks, side="right").astype(np.int16)


def stride(fragments: int) -> int:
    """By how much the rank grows from one fragment to the next, modulo their number."""
    golden = max(1, fragments * 618_034 // 1_000_000)
    return next(step for step in range(golden, fragments + 2) if gcd(step, fragments) == 1)


@njit(cache=True)
def stripe_of(stripes, fragment):
    """The stripe of fragment `fragment`, 0 .. F - 1, of an iteration."""
    return np.int64(stripes.of[fragment]) if stripes.of.size > 1 else 0
