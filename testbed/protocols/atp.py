"""ATP's hosts: the pool systems' worker and server, with window positions and the float fallback.

They do what ESA's hosts do (see pool_worker and pool_server), and more: a worker takes a fragment's
index from its window position, uses the new index that the server gives a position after a
collision, sends a fragment again as soon as results of later fragments are here, and sends values
that do not fit fixed point as float32, which the server adds. ATP has no priorities, so all
fragments have the same priority.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit
from p4fabric.simulate.mixing import mix2
from p4fabric.simulate.records import new_record, record

from testbed.number_formats import FORMATS
from testbed.protocols import (
    esa,
    pool_worker,
    positions,
    priority,
    send_scoreboard,
    unproven_losses,
    wire,
    worker_state,
)
from testbed.protocols import server_store as store
from testbed.protocols.floats import WorkerFloats, new_server_floats
from testbed.protocols.host_spec import HostSpec, PoolSpec, WindowPositions
from testbed.protocols.positions import Positions, new_positions

REHASH_DRAWS = 8  # to find an index that no other window position of the job has

# WorkerRules.state; places are those of `Positions`
WINDOW = record(
    "gap",  # so many places behind the furthest result a fragment is sent again; 0: never
    "oldest",  # the first fragment without a result
    "furthest",  # the last one with a result
    "next_place",  # that is sent for the first time
    "seen",  # `furthest` when gaps were last looked for
)


class WorkerWindow(NamedTuple):
    state: np.record  # WINDOW
    positions: Positions
    gap_place: np.ndarray  # int64[G], the result of which place shows that this one got lost: of
    #                        place p in p modulo G; G: the window, or all fragments where more
    #                        places than the window are in use


class OfPositions(pool_worker.Rules):
    """Indices of window positions, and loss recovery by gaps in the results."""

    @staticmethod
    @njit(cache=True)
    def begin(worker):
        window = worker.rules.state
        window.oldest = 0
        window.furthest = -1
        window.next_place = 0
        window.seen = -1
        positions.begin(worker.rules.positions)

    @staticmethod
    @njit(cache=True)
    def index_for(worker, scoreboard, fragment):
        rules, window = worker.rules, worker.rules.state
        place = np.int64(rules.positions.place[fragment])
        shown_by = max(place, window.next_place - 1) + window.gap
        rules.gap_place[place % rules.gap_place.size] = shown_by
        return rules.positions.index[
            positions.position_of(rules.positions, scoreboard.state.iteration, fragment)
        ]

    @staticmethod
    @njit(cache=True)
    def sent(worker, fragment):
        worker.rules.state.next_place = worker.rules.positions.place[fragment] + 1

    @staticmethod
    @njit(cache=True)
    def heard(worker, scoreboard, now, row):
        pass  # it names the position's index, not the result before it

    @staticmethod
    @njit(cache=True)
    def taken(worker, scoreboard, fragment, row):
        """The position may have another index from now on, and the window moves on."""
        window, places = worker.rules.state, worker.rules.positions
        position = positions.position_of(places, scoreboard.state.iteration, fragment)
        positions.announce(places, position, wire.extra(row))
        window.furthest = max(window.furthest, places.place[fragment])
        while window.oldest < places.order.size and send_scoreboard.has_result(
            scoreboard, places.order[window.oldest]
        ):
            window.oldest += 1

    @staticmethod
    @njit(cache=True)
    def resend_early(worker, scoreboard, now, packets, lengths, filled):
        """Send again what has no result while results of fragments sent later are here: once per
        gap. That is a guess, too: results come by different ways.

        A fragment that was sent again counts as missing again when results are here of fragments
        that were sent for the first time after that."""
        rules, window = worker.rules, worker.rules.state
        if window.gap == 0 or window.furthest <= window.seen:
            return filled
        for place in range(window.oldest, window.furthest - window.gap + 1):
            fragment = rules.positions.order[place]
            if (
                not send_scoreboard.in_flight(scoreboard, fragment)
                or rules.gap_place[place % rules.gap_place.size] > window.furthest
            ):
                continue
            if filled == packets.shape[0] or not unproven_losses.take(worker, now):
                return filled
            send_scoreboard.mark_sent_again(
                scoreboard, fragment, now, worker_state.retry_ns(worker)
            )
            filled = pool_worker.send_again(
                worker, scoreboard, now, packets, lengths, filled, fragment, wire.RESEND
            )
            worker.counters[0].gap_resends += 1
        window.seen = window.furthest
        return filled


class WorkerRules(WorkerWindow, OfPositions):
    """A worker's rules with their state."""


class Indices(NamedTuple):
    drawn: np.ndarray  # int64[2], how many indices, and of what salt
    positions: Positions
    taken: np.ndarray  # int32[pool], window positions with this index; empty without re-hash


class ServerOfPositions(store.Rules):
    """Indices of window positions, of which one that collided gets another."""

    @staticmethod
    @njit(cache=True)
    def begin(server):
        positions.begin(server.rules.positions)

    @staticmethod
    @njit(cache=True)
    def index_for(server, iteration, fragment):
        places = server.rules.positions
        position = positions.position_of(places, iteration, fragment)
        return places.index[position], positions.announced(places, position)

    @staticmethod
    @njit(cache=True)
    def completed(server, row, slot):
        """Give a fragment's window position another index if the fragment collided. All workers
        learn it from the result and use it from then on (see positions.py)."""
        config, rules = server.config, server.rules
        if rules.taken.size == 0 or server.flags[slot] & wire.COLLISION == 0:
            return
        position = positions.position_of(
            rules.positions, server.iteration[slot], server.row[slot] % config.fragments
        )
        index = rules.positions.index[position]
        if positions.announced(rules.positions, position) != index:
            return  # it has one already, from the next iteration on
        index = draw_other(server, index)
        positions.announce(rules.positions, position, index)
        wire.set_extra(row, index)


class ServerRules(Indices, ServerOfPositions):
    """A server's rules with their state."""


@njit(cache=True)
def draw_other(server, index):
    """Another index for a window position that has this one."""
    rules = server.rules
    rules.taken[index] -= 1
    for _ in range(REHASH_DRAWS):
        rules.drawn[0] += 1
        index = mix2(mix2(rules.drawn[1], 0x2E4A5), rules.drawn[0]) % rules.taken.size
        if rules.taken[index] == 0:
            break
    rules.taken[index] += 1
    server.counters[0].rehashes += 1
    return index


def new_worker(
    spec: HostSpec,
    gradients: pool_worker.Gradients | None = None,
    floats: WorkerFloats | None = None,
    rules: Callable[..., Any] = WorkerRules,
    **more: Any,
) -> pool_worker.Worker:
    """A worker machine. For a trace with values: `gradients` in fixed point, as in
    pool_worker.new_worker, and the same as `floats`. rules: the class of the rules, with `more`
    fields."""
    places = new_positions_of(spec)
    ahead = places.index.size if spec.options.window_rule == "positions" else places.order.size
    own = rules(
        state=new_record(WINDOW, gap=positions_of(spec).gap),
        positions=places,
        gap_place=np.zeros(ahead, np.int64),
        **more,
    )
    policy = priority.POLICIES[spec.options_of(PoolSpec).priority]
    worker = pool_worker.new_worker(spec, own, gradients, policy=policy)
    return worker if floats is None else worker._replace(floats=floats)


def new_indices(spec: HostSpec) -> tuple[np.ndarray, Positions, np.ndarray]:
    """The fields of `Indices`."""
    places = new_positions_of(spec)
    count = spec.options_of(PoolSpec).aggregators if positions_of(spec).rehash else 0
    taken = np.bincount(places.index, minlength=count).astype(np.int32)[:count]
    return np.array([0, _salt_of(spec)], np.int64), places, taken


def new_server(spec: HostSpec, rules: tuple | None = None) -> store.Server:
    """A parameter server machine; `rules`: in place of ATP's."""
    job = spec.job
    rules = ServerRules(*new_indices(spec)) if rules is None else rules
    as_floats = 0
    # A program's int32 may leave int32; its float32 cannot (given.most_steps).
    if job.value_bits == 32 and not FORMATS[job.sum].is_float:
        as_floats = 1 if job.gradients is not None else 2 if job.fixed_scale else 0
    server = store.new_server(spec, rules, floats=as_floats)
    slots = server.row.size if as_floats else 0
    return server._replace(floats=new_server_floats(slots, job.values))


def positions_of(spec: HostSpec) -> WindowPositions:
    """The options of window positions, which the specification must have."""
    options = spec.options_of(PoolSpec).positions
    if options is None:
        raise ValueError(f"{spec.title}: system {spec.job.system} has no window positions")
    return options


def _salt_of(spec: HostSpec) -> int:
    return esa.salt_of(spec.job.seed, spec.job.number)


def new_positions_of(spec: HostSpec) -> Positions:
    options = spec.options_of(PoolSpec)
    return new_positions(
        spec.job.first_fragments,
        options.window,
        positions_of(spec).index,
        options.aggregators,
        _salt_of(spec),
        options.window_rule,
        options.whole_pool,
    )
