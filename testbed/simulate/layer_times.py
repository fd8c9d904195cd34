"""The time of jobs of which some layers were simulated: that of the others is added.

A repetition is simulated with several sizes, which differ by the same number of layers (a step;
traffic/layer_sample.py). Sizes know nothing of each other, so threads simulate them side by side.
What the steps add has to agree within the sample's tolerance, all of them, and must not grow or
fall from each step to the next; then those that are left out add their mean. Differences of whole
runs, and not times of layers, are what is added, so overlap, bubbles of a pipeline and other jobs
are in them.

Two things could make later steps add something else, and are refused. First, a path through the
graph that is shorter in all sizes and longer in the whole (sums of gradients that are
hidden behind a few layers' backward pass, say): the graph of the whole, with the times that calls
took, shows it (traffic/rank_schedule.py). Second, jobs that meet each other differently: one that
begins after another's sample, or that ends before another one in the sample and after it as a
whole.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import numpy as np
from p4fabric.base.errors import RunError
from p4fabric.base.units import share, time

from testbed.experiment.sampled_layers import is_sampled, source_of
from testbed.results.schema import Row
from testbed.traffic.rank_graph import COMPUTE, RECV, SEND, Node, Program, transfers
from testbed.traffic.rank_layout import smaller
from testbed.traffic.rank_schedule import schedule
from testbed.traffic.rank_source import TransformerSource, stretched

if TYPE_CHECKING:
    from testbed.experiment.schema_jobs import Job
    from testbed.setup import Setup
    from testbed.simulate.simulation import Simulation

Steps = Mapping[str, np.ndarray]  # columns of table steps
Kind = tuple[str, str]  # of calls: collective, kind of group
TREND = 0.25  # of the tolerance: what steps may add up to that grow or fall throughout
HEARD = "heard"  # that all of a send has arrived, beside kinds of calls
REMEDY = "Take a larger sample.least, a larger sample.tolerance, or all layers"


class Sizes:
    """The smaller sizes of a repetition, which further threads simulate while its own one
    simulates the largest; it takes part in them afterwards. Use as a context manager."""

    def __init__(
        self,
        setups: Sequence[Setup],
        jobs_of: Callable[[Setup, Callable[[Simulation], None]], list[Row]],
        threads: int,
    ) -> None:
        """setups: the smallest first. jobs_of: simulates one and calls a function now and then;
        rows of table jobs. threads: with that of the largest size."""
        self._jobs_of, self._stopped = jobs_of, threading.Event()
        self._rows: list[list[Row]] = [[] for _ in setups]
        self._left = [*enumerate(setups)]
        others = min(threads - 1, len(setups))
        self._pool = ThreadPoolExecutor(max(1, others))
        self._others = [self._pool.submit(self._simulate) for _ in range(others)]

    def __enter__(self) -> Sizes:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopped.set()
        self._pool.shutdown()

    def rows(self) -> list[list[Row]]:
        """Rows of table jobs of each size. Raises RunError."""
        self._simulate()
        for each in self._others:
            each.result()
        return self._rows

    def _simulate(self) -> None:
        """Simulate sizes that nobody has begun, the largest of them first."""
        while not self._stopped.is_set():
            try:
                number, setup = self._left.pop()
            except IndexError:
                return
            self._rows[number] = self._jobs_of(setup, self._tick)

    def _tick(self, _: Simulation) -> None:
        if self._stopped.is_set():
            raise RunError("another size has ended the run")


def add(
    setup: Setup, before: Sequence[Sequence[Row]], rows: Sequence[Row], steps: Steps | None
) -> None:
    """Add the times of layers to the jobs of a repetition with the largest size. before: rows of
    table jobs of the smaller sizes; rows, steps: of tables jobs and steps of the largest. Raises
    RunError if it cannot be told."""
    for sized in zip(*before, rows, strict=True):
        job = setup.listed[sized[-1]["job"]]
        if is_sampled(job) and sized[-1]["end_ns"] is not None:
            assert steps is not None  # its model is a program of ranks
            _add(job, sized, steps)
    same_company(rows)


def _add(job: Job, sized: Sequence[Row], steps: Steps) -> None:
    transformer = source_of(job).transformer
    sample, row = transformer.sample, sized[-1]
    agree(job, [b["jct_ns"] - a["jct_ns"] for a, b in pairwise(sized)])
    each = len(sized) - 1
    added_ns = (row["jct_ns"] - sized[0]["jct_ns"]) * sample.steps // each
    compute_ns = (row["compute_ns"] - sized[0]["compute_ns"]) * sample.steps // each
    row |= {
        "layers": transformer.shape.layers,
        "layers_simulated": transformer.simulated,
        "layers_ns": added_ns,
        "jct_ns": row["jct_ns"] + added_ns,
        "compute_ns": row["compute_ns"] + compute_ns,
    }
    same_path(job, steps, row["job"])


def agree(job: Job, steps_ns: Sequence[int]) -> None:
    """Raises RunError if steps, in their order, differ by more than the sample's tolerance, or by
    TREND of it if each takes longer than the one before it, or each less long."""
    transformer = source_of(job).transformer
    low, high = min(steps_ns), max(steps_ns)
    trend = sorted(steps_ns) in ([*steps_ns], [*reversed(steps_ns)])
    allowed = transformer.tolerance * (TREND if trend and len(steps_ns) > 2 else 1)
    if low >= 0 and high - low <= allowed * high:
        return
    sample = transformer.sample
    how = "longer" if steps_ns[-1] > steps_ns[0] else "less"
    differ = f"which differ by more than {share(transformer.tolerance)}"
    if high - low <= transformer.tolerance * high:
        differ = (
            f"and each step takes {how} than the one before it, by more than {share(allowed)} in"
            " all"
        )
    raise RunError(
        f"job {job.name}: {sample.added(steps_ns.index(low) + 1)} took {time(low)},"
        f" {sample.added(steps_ns.index(high) + 1)} {time(high)}, {differ}; so the time of"
        f" {transformer.shape.layers} layers is not known. {REMEDY}"
    )


# -- the graph of the whole


def same_path(job: Job, steps: Steps, number: int) -> None:
    """Raises RunError if the graph says that later layers take another time than those that were
    simulated."""
    source = source_of(job)
    sample, tolerance = source.transformer.sample, source.transformer.tolerance
    known = call_times(source, steps, number)

    def total(layers: int) -> int:
        program = smaller(source.of_layers(layers).load())
        return total_ns(stretched(program, job.compute_scale or 0), known)

    least, most, whole = (total(each) for each in (sample.sizes[0], sample.sizes[-1], 0))
    line = most + sample.steps * (most - least) // (sample.count - 1)
    if abs(whole - line) > tolerance * whole:
        raise RunError(
            f"job {job.name}: by its graph, with the times that calls took, all"
            f" {source.transformer.shape.layers} layers take {time(whole)} and not {time(line)}, as"
            f" {sample.added(1)} and later ones would have it: what decides changes with the number"
            f" of layers. {REMEDY}"
        )


def total_ns(program: Program, known: Mapping[Kind, Mapping[int, int]]) -> int:
    """Time of a program whose calls take as long as those of the nearest number of bytes in
    `known`."""

    def takes(node: Node, kind: str) -> int:
        sizes = known[kind, node.group.partition(".")[0]]
        return sizes[min(sizes, key=lambda size: abs(size - node.bytes))]

    found = schedule(program, lambda _, node: takes(node, node.kind))
    # Nothing waits for a sender to hear that all has arrived, but for the job's end.
    heard = (
        found.begin_ns[rank][place] + takes(node, HEARD)
        for rank, nodes in enumerate(program.ranks)
        for place, node in enumerate(nodes)
        if node.kind == SEND
    )
    return max(found.total_ns, *heard, 0)


def call_times(source: TransformerSource, steps: Steps, number: int) -> dict[Kind, dict[int, int]]:
    """Mean time of calls by kind and bytes, once all their ranks are there and have done their
    group's call before; of sends until the receiver has all, and (HEARD) until the sender hears
    it."""
    program = source.load()
    own = np.asarray(steps["job"]) == number
    keys = ("iteration", "worker", "node", "start_ns", "end_ns")
    spans = {
        (iteration, worker, place): (begin_ns, end_ns)
        for iteration, worker, place, begin_ns, end_ns in zip(
            *(np.asarray(steps[key])[own].tolist() for key in keys), strict=True
        )
    }
    # By kind, bytes, whether a receiver came late, and call: times of its ranks.
    calls: defaultdict[tuple[Kind, int, bool, tuple[int, int, str]], list[int]] = defaultdict(list)
    sends = transfers(program)
    ended: dict[tuple[int, int, str], int] = {}  # the last call of a rank's group
    for iteration, worker, place in sorted(spans):
        begin_ns, end_ns = spans[iteration, worker, place]
        node = program.ranks[worker][place]
        kind, call = (node.kind, node.group.partition(".")[0]), (iteration, place, node.group)
        if node.kind == RECV:
            sender, sent = sends[worker, place]
            sent_ns, _ = spans[iteration, sender, sent]
            call = iteration, place, str(worker)
            calls[(SEND, ""), node.bytes, begin_ns > sent_ns, call] = [end_ns - sent_ns]
        elif node.kind == SEND:
            call = iteration, place, str(worker)
            calls[(HEARD, ""), node.bytes, False, call] = [end_ns - begin_ns]
        elif node.kind != COMPUTE:
            group = iteration, worker, node.group
            free_ns, ended[group] = max(begin_ns, ended.get(group, 0)), end_ns
            calls[kind, node.bytes, False, call].append(end_ns - free_ns)
    spent: defaultdict[Kind, defaultdict[int, dict[bool, list[int]]]]
    spent = defaultdict(lambda: defaultdict(lambda: {False: [], True: []}))
    for (kind, size, late, _), times in calls.items():
        spent[kind][size][late].append(min(times))
    # Where each receiver came after the sender, nobody knows more than the shortest time.
    return {
        kind: {
            size: sum(times[False]) // len(times[False]) if times[False] else min(times[True])
            for size, times in sizes.items()
        }
        for kind, sizes in spent.items()
    }


# -- several jobs


def same_company(rows: Sequence[Row]) -> None:
    """Raises RunError if jobs meet each other in the sample and not as a whole, or the reverse."""
    known = [row for row in rows if row["layers"] is not None]
    for a, b in combinations(known, 2):
        for text in _apart(a, b):
            raise RunError(
                f"jobs {a['name']} and {b['name']}: {text}, so the times of their layers do not"
                " tell what all layers take. Let the jobs begin together, or take all layers"
            )


def _apart(a: Row, b: Row) -> Iterator[str]:
    for one, other in ((a, b), (b, a)):
        begins = other["start_ns"]
        if one["end_ns"] <= begins < one["end_ns"] + one["layers_ns"]:
            yield f"{other['name']} begins when the simulated layers of {one['name']} are over"
    order = a["end_ns"] - b["end_ns"]
    if order * (order + a["layers_ns"] - b["layers_ns"]) < 0:
        yield "the one that ends first with the simulated layers ends last with all"
