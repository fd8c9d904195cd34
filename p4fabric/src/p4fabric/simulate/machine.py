"""One host's whole machine, in the form that every runtime steps: packets and time in, packets and
the next deadline out.

A runtime knows two things of a machine: `step`, and its `status`, a record that begins with the
fields of `records.STATUS`. `Batch` arrays are all that they exchange: rows of packets in network
byte order, their payload lengths in bytes and, for packets to send, their destinations as places in
the host's list of addresses. Of packets for background traffic that have arrived, a destination of
1 stands for a congestion mark (CE).

A module that has a type of machines enters its step into `STEPS`, where numba finds it by the type
when it compiles what calls it. So nothing here knows what machines there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba.extending import overload

from p4fabric.simulate.jit import CALLEE

Machine: TypeAlias = Any  # a named tuple whose type is in `STEPS`


SEEDED = 1 << 32
SEED_BYTES = 16


class Batch(NamedTuple):
    """Rows of packets. In virtual time a packet to send may be *seeded*: of its payload only the
    first N bytes are in its row, and SEED_BYTES behind them, of which World.fill makes the others
    when the packet arrives at its switch. Its length has N times SEEDED added."""

    packets: np.ndarray  # uint32[rows, words], network byte order
    lengths: np.ndarray  # int64[rows], bytes
    destinations: np.ndarray  # int64[rows]


def new_batch(rows: int, words: int) -> Batch:
    """Room for `rows` packets of so many 32-bit words."""
    return Batch(
        np.zeros((rows, words), np.uint32), np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    )


# How a machine is stepped, by its type.
STEPS: dict[type, Callable] = {}


def step(machine: Machine, now: int, arrived: Batch, count: int, out: Batch) -> tuple[int, int]:
    """Take `count` packets of `arrived` at `now` (ns since the run's start), fill `out`.

    Returns (packets filled, next deadline in ns)."""
    return STEPS[type(machine)](machine, now, arrived, count, out)


@overload(step, jit_options=CALLEE)
def _compiled_step(machine, now, arrived, count, out):
    chosen = STEPS[machine.instance_class]

    def call(machine, now, arrived, count, out):
        return chosen(machine, now, arrived, count, out)

    return call
