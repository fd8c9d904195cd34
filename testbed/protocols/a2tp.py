"""A2TP's hosts: ATP's, whose workers have two windows.

The link window L is the number of fragments in flight. The aggregator window A, at most L, is the
number of those that use aggregators; the others bypass them. Both are in fragments and change once
per window, after as many results as L, by the shares of results with a congestion mark (alpha) and
of those whose aggregator was contended (beta):

    alpha = 7/8 alpha + 1/8 (marked / L)        L: x (1 - alpha / 2) with marks, else + 1
    beta  = 7/8 beta  + 1/8 (contended / A)     A: x (1 - (beta - 0.1)^gamma / 1.9) if there was
    gamma = 63/64 gamma + 1/64 u                contention and beta > 0.1, else + 1

This is published (EuroSys 2023, and its code). u says how much the job straggles, 1 being not at
all. Ours: the shortest round trip so far over the mean one of the window. Where one worker is slow,
the others see long round trips, for they wait for it. A small gamma makes the job give back
aggregators faster.

All workers must agree which fragments bypass, or their sums would stay incomplete. Ours: a worker
writes the share A / L into its gradients, and a sum has the smallest of its workers. The server
takes the smallest share of the last window, and lets that share of the window positions use
aggregators. With the result of a position it says whether the position's next fragment has an index
or bypasses, as ATP announces indices. So what holds for a fragment is the same on every worker
(positions.py).

All numbers are integers. Shares and the exponent are in 1/65536.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit
from p4fabric.simulate.records import new_record, record

from testbed.protocols import atp, pool_worker, positions, wire, worker_state
from testbed.protocols import server_store as store
from testbed.protocols.floats import WorkerFloats
from testbed.protocols.host_spec import HostSpec
from testbed.protocols.positions import Positions

BYPASS = 0xFFFFFFFF  # an index, p4/a2tp.p4
ONE = 1 << 16
SPARED = ONE // 10  # of beta, which costs nothing
BITS = 16

# Windows.own
OWN = record(
    "aggregators",  # A, in 1/256 fragments
    "alpha",
    "beta",
    "gamma",
    "results",  # of this window, as are those that follow
    "marked",
    "contended",
    "round_trips",  # that were measured
    "round_trips_ns",  # their sum
    "shortest_ns",  # of all windows
)


# 2^-(2^-k), k = 1 .. 16, in 1/2^30.
ROOTS = np.array(
    [
        *(759250125, 902905651, 984625594, 1028218693, 1050733751, 1062175491, 1067942999),
        *(1070838486, 1072289173, 1073015252, 1073378477, 1073560135, 1073650976, 1073696399),
        *(1073719111, 1073730468),
    ],
    np.int64,
)


@njit(cache=True)
def power(base, exponent):
    """base^exponent, 0 <= base <= 1, exponent >= 0; all in 1/65536."""
    if base <= 0:
        return np.int64(0)
    # -log2 of the base, digit by digit, in 1/65536.
    down, rest = np.int64(0), np.int64(base)
    while rest < ONE:
        rest <<= 1
        down += ONE
    for bit in range(1, BITS + 1):
        rest = rest * rest >> BITS
        if rest >= 2 * ONE:
            rest >>= 1
            down -= ONE >> bit
    down = down * exponent >> BITS
    found = np.int64(1) << 30
    for bit in range(1, BITS + 1):
        if down & (ONE >> bit):
            found = found * ROOTS[bit - 1] >> 30
    whole = down >> BITS
    return found >> 30 - BITS + whole if whole < BITS + 1 else np.int64(0)


class Windows(NamedTuple):
    """The fields of atp.WorkerWindow, and the aggregator window."""

    state: np.record
    positions: Positions
    gap_place: np.ndarray
    own: np.record  # OWN


class WorkerRules(Windows, atp.OfPositions):
    """ATP's, with two windows."""

    @staticmethod
    @njit(cache=True)
    def adapt(worker, flags, whole_step, once, sent_ns, now):
        own, state, unit = worker.rules.own, worker.state, worker_state.UNIT
        own.results += 1
        if flags & wire.ECN:
            own.marked += 1
            worker.counters[0].marked_results += 1
        if flags & wire.CONTENDED:
            own.contended += 1
        if once and flags & wire.RESEND == 0:
            spent_ns = now - sent_ns
            own.round_trips += 1
            own.round_trips_ns += spent_ns
            if own.shortest_ns == 0 or spent_ns < own.shortest_ns:
                own.shortest_ns = spent_ns
        if own.results < state.credit // unit:
            return
        most = worker.config.window * unit
        own.alpha += (own.marked * ONE // own.results - own.alpha) >> 3
        in_use = max(own.aggregators // unit, 1)
        own.beta += (min(own.contended * ONE // in_use, ONE) - own.beta) >> 3
        if own.round_trips > 0:
            share = own.shortest_ns * own.round_trips * ONE // max(own.round_trips_ns, 1)
            own.gamma += (share - own.gamma) >> 6
        if own.marked > 0:
            state.credit = max(state.credit - (state.credit * own.alpha >> BITS + 1), unit)
        else:
            state.credit = min(state.credit + unit * worker.config.window_step // 256, most)
        if own.contended > 0 and own.beta > SPARED:
            part = power(own.beta - SPARED, own.gamma) * 10 // 19
            own.aggregators -= own.aggregators * part >> BITS
        else:
            own.aggregators += unit
        own.aggregators = min(max(own.aggregators, unit), state.credit)
        own.results, own.marked, own.contended = 0, 0, 0
        own.round_trips, own.round_trips_ns = 0, 0
        # In `extra` of its gradients: the share of fragments in flight that use aggregators.
        worker.stripes.tag[0] = own.aggregators * ONE // state.credit


class Agreement(NamedTuple):
    """The fields of atp.Indices, and the windows that workers want."""

    drawn: np.ndarray
    positions: Positions  # with the index BYPASS for positions without aggregators
    taken: np.ndarray
    real: np.ndarray  # int64[N], the index that a position has when it does not bypass
    share: np.ndarray  # int64[3]: of fragments that use aggregators, the smallest that a worker
    #                    wants since it was set, and how many results have been sent since


class ServerRules(Agreement, atp.ServerOfPositions):
    """ATP's, where positions beyond the aggregator window have no index."""

    @staticmethod
    @njit(cache=True)
    def arrived(server, row):
        wanted = wire.extra(row)
        if wanted > 0:
            server.rules.share[1] = min(server.rules.share[1], wanted)

    @staticmethod
    @njit(cache=True)
    def completed(server, row, slot):
        """Say whether a position's next fragment uses an aggregator, and which."""
        config, rules = server.config, server.rules
        places, share = rules.positions, rules.share
        share[2] += 1
        if share[2] >= places.index.size:
            share[0], share[1], share[2] = share[1], ONE, 0
        collided = server.flags[slot] & wire.COLLISION != 0
        if collided:
            wire.set_word(row, 0, wire.word(row, 0) | wire.CONTENDED)
        position = positions.position_of(
            places, server.iteration[slot], server.row[slot] % config.fragments
        )
        index = places.index[position]
        if positions.announced(places, position) != index:
            return  # it has one already, from the next iteration on
        if collided and rules.taken.size > 0:
            rules.real[position] = atp.draw_other(server, rules.real[position])
        uses = (position + 1) * share[0] >> BITS > position * share[0] >> BITS
        following = rules.real[position] if uses else BYPASS
        if following != index:
            positions.announce(places, position, following)
            wire.set_extra(row, following)


def new_worker(
    spec: HostSpec,
    gradients: pool_worker.Gradients | None = None,
    floats: WorkerFloats | None = None,
) -> pool_worker.Worker:
    """A worker machine; see atp.new_worker."""
    own = new_record(OWN, aggregators=spec.options.window * worker_state.UNIT, gamma=ONE)
    worker = atp.new_worker(spec, gradients, floats, WorkerRules, own=own)
    share = np.array([ONE], np.int64)
    return worker._replace(stripes=worker.stripes._replace(tag=share))


def new_server(spec: HostSpec) -> store.Server:
    """A parameter server machine."""
    drawn, places, taken = atp.new_indices(spec)
    share = np.array([ONE, ONE, 0], np.int64)
    return atp.new_server(spec, ServerRules(drawn, places, taken, places.index.copy(), share))
