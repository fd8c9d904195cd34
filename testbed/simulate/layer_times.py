"""The time of jobs of which some layers were simulated: that of the others is added.

A repetition is simulated with several sizes, which differ by the same number of layers (a step;
traffic/layer_sample.py). Sizes know nothing of each other, so threads simulate them side by side.
What the steps add has to agree within the sample's tolerance, all of them, and must not grow or
fall from each step to the next; then those that are left out add their mean. Differences of whole
runs, and not times of layers, are what is added, so overlap, bubbles of a pipeline and other jobs
are in them.

Parts of messages are treated likewise: the sizes of layers are simulated with a quarter and a half
of the part of all long calls, and of computation, that the largest size has, and what further bytes
add has to agree.

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
from dataclasses import replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from p4fabric.base.errors import RunError
from p4fabric.base.units import share, time

from testbed.experiment.sampled_layers import is_sampled, source_of
from testbed.results.schema import JobRow
from testbed.traffic.rank_graph import COMPUTE, RECV, SEND, Node, transfers
from testbed.traffic.rank_layout import smaller
from testbed.traffic.rank_schedule import schedule
from testbed.traffic.rank_source import TransformerSource, stretched

if TYPE_CHECKING:
    from testbed.experiment.schema_jobs import Job
    from testbed.setup import Setup
    from testbed.simulate.simulation import Simulation

Steps = Mapping[str, np.ndarray]  # columns of table steps
Takes = Callable[[Node, str], int]  # time in ns of a call, or of what else a node means
Kind = tuple[str, str]  # of calls: collective, kind of group
TREND = 0.25  # of the tolerance: what steps may add up to that grow or fall throughout
HEARD = "heard"  # that all of a send has arrived, beside kinds of calls
REMEDY = "Take a larger sample.least, a larger sample.tolerance, or all layers"
REMEDY_OF_PARTS = "Take a larger sample.messages, a larger sample.tolerance, or 100 %"


class Ran(NamedTuple):
    """Tables of a size that was simulated: rows of jobs, columns of steps."""

    jobs: list[JobRow]
    steps: Steps


class Sizes:
    """The smaller sizes of a repetition, which further threads simulate while its own one
    simulates the largest; it takes part in them afterwards. Use as a context manager."""

    def __init__(
        self,
        setups: Sequence[Setup],
        ran: Callable[[Setup, Callable[[Simulation], None]], Ran],
        threads: int,
    ) -> None:
        """setups: the smallest first. ran: simulates one and calls a function now and then.
        threads: with that of the largest size."""
        self._ran, self._stopped = ran, threading.Event()
        self._tables: list[Ran] = [Ran([], {}) for _ in setups]
        self._left = [*enumerate(setups)]
        others = min(threads - 1, len(setups))
        self._pool = ThreadPoolExecutor(max(1, others))
        self._others = [self._pool.submit(self._simulate) for _ in range(others)]

    def __enter__(self) -> Sizes:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopped.set()
        self._pool.shutdown()

    def tables(self) -> list[Ran]:
        """Tables jobs and steps of each size. Raises RunError."""
        self._simulate()
        for each in self._others:
            each.result()
        return self._tables

    def _simulate(self) -> None:
        """Simulate sizes that nobody has begun, the largest of them first."""
        while not self._stopped.is_set():
            try:
                number, setup = self._left.pop()
            except IndexError:
                return
            self._tables[number] = self._ran(setup, self._tick)

    def _tick(self, _: Simulation) -> None:
        if self._stopped.is_set():
            raise RunError("another size has ended the run")


def add(setup: Setup, before: Sequence[Ran], last: Ran) -> None:
    """Add the times of layers to the jobs of a repetition with the largest size. before: tables of
    the smaller sizes; last: of the largest. Raises RunError if it cannot be told."""
    sizes = [*before, last]
    for sized in zip(*(each.jobs for each in sizes), strict=True):
        job = setup.listed[sized[-1]["job"]]
        if is_sampled(job) and sized[-1]["end_ns"] is not None:
            _add(job, sized, [each.steps for each in sizes])
    same_company(last.jobs)


def _add(job: Job, sized: Sequence[JobRow], steps: Sequence[Steps]) -> None:
    transformer = source_of(job).transformer
    sample, row, parts = transformer.sample, sized[-1], transformer.parts
    whole: list[list[int]] = []  # JCT and computation with all layers, by part of messages
    for begin in range(0, len(sized), sample.count):
        spent = [_spent_ns(each) for each in sized[begin : begin + sample.count]]
        agree(job, [b - a for (a, _), (b, _) in pairwise(spent)])
        ends = zip(spent[0], spent[-1], strict=True)
        whole.append(
            [last + (last - first) * sample.steps // (len(spent) - 1) for first, last in ends]
        )
    same_path(job, steps[-1], row["job"])
    found = whole[-1]
    if len(parts) > 1:
        agree_on_parts(job, [jct_ns for jct_ns, _ in whole])
        same_path_of_parts(job, steps[sample.count - 1], steps[-1], row["job"])
        pairs = zip(whole[0], whole[-1], strict=True)
        found = [round(_line(parts, first_ns, last_ns)) for first_ns, last_ns in pairs]
        row["messages_simulated"] = parts[-1]
    row["layers"], row["layers_simulated"] = transformer.shape.layers, transformer.simulated
    row["layers_ns"] = found[0] - _spent_ns(row)[0]
    row["jct_ns"], row["compute_ns"] = found


def _spent_ns(row: JobRow) -> tuple[int, int]:
    """JCT and computation of a job that has ended."""
    jct_ns, compute_ns = row["jct_ns"], row["compute_ns"]
    assert jct_ns is not None and compute_ns is not None, "its job has ended"
    return jct_ns, compute_ns


def _line(parts: Sequence[float], first_ns: float, last_ns: float) -> float:
    """Time of whole messages on the line through those of the smallest and the largest part."""
    return last_ns + (last_ns - first_ns) * (1 - parts[-1]) / (parts[-1] - parts[0])


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


def agree_on_parts(job: Job, times_ns: Sequence[int]) -> None:
    """Raises RunError if what further bytes of messages take, by which parts differ, differs by
    more than the sample's tolerance. times_ns: of all layers, by part."""
    transformer = source_of(job).transformer
    parts = transformer.parts
    steps = [
        (b - a) / (more - part)
        for (a, b), (part, more) in zip(pairwise(times_ns), pairwise(parts), strict=True)
    ]
    low, high = min(steps), max(steps)
    if low >= 0 and high - low <= transformer.tolerance * high:
        return
    said = (
        f"{share(part)} to {share(more)} of them, as of all, {time(each)}"
        for each, (part, more) in zip(steps, pairwise(parts), strict=True)
    )
    raise RunError(
        f"job {job.name}: what more of the messages takes differs by more than"
        f" {share(transformer.tolerance)}: {', '.join(said)}; so the time of whole messages is not"
        f" known. {REMEDY_OF_PARTS}"
    )


# -- the graph of the whole


def same_path(job: Job, steps: Steps, number: int) -> None:
    """Raises RunError if the graph says that later layers take another time than those that were
    simulated."""
    source = source_of(job)
    sample = source.transformer.sample
    takes = nearest(call_times(source, steps, number))
    part = source.transformer.part
    least, most, whole = (
        total_ns(job, size, part, takes) for size in (sample.sizes[0], sample.sizes[-1], 0)
    )
    line = most + sample.steps * (most - least) // (sample.count - 1)
    if abs(whole - line) > source.transformer.tolerance * whole:
        raise RunError(
            f"job {job.name}: by its graph, with the times that calls took, all"
            f" {source.transformer.shape.layers} layers take {time(whole)} and not {time(line)}, as"
            f" {sample.added(1)} and later ones would have it: what decides changes with the number"
            f" of layers. {REMEDY}"
        )


def same_path_of_parts(job: Job, first: Steps, last: Steps, number: int) -> None:
    """The same of messages, of which calls in the smallest and in the largest part took such
    times."""
    source = source_of(job)
    transformer = source.transformer
    parts = transformer.parts
    found = [
        nearest(call_times(source.of_size(transformer.simulated, part), steps, number))
        for part, steps in ((parts[0], first), (parts[-1], last))
    ]

    def takes(node: Node, kind: str) -> int:
        """Of whole messages."""
        if transformer.whole(node.bytes):
            return found[1](node, kind)
        sized = (replace(node, bytes=round(node.bytes * part)) for part in (parts[0], parts[-1]))
        times = (each(node, kind) for each, node in zip(found, sized, strict=True))
        return max(0, round(_line(parts, *times)))

    small, large, whole = (
        total_ns(job, 0, part, each)
        for part, each in ((parts[0], found[0]), (parts[-1], found[1]), (1.0, takes))
    )
    line = round(_line(parts, small, large))
    if abs(whole - line) > transformer.tolerance * whole:
        raise RunError(
            f"job {job.name}: by its graph, with the times that calls took, whole messages take"
            f" {time(whole)} and not {time(line)}, as parts of them would have it: what decides"
            f" changes with their size. {REMEDY_OF_PARTS}"
        )


def total_ns(job: Job, layers: int, part: float, takes: Takes) -> int:
    """Time of the job with so many layers and such a part of its messages by its graph."""
    program = smaller(source_of(job).of_size(layers, part).load())
    program = stretched(program, job.compute_scale or 0)
    found = schedule(program, lambda _, node: takes(node, node.kind))
    # Nothing waits for a sender to hear that all has arrived, but for the job's end.
    heard = (
        found.begin_ns[rank][place] + takes(node, HEARD)
        for rank, nodes in enumerate(program.ranks)
        for place, node in enumerate(nodes)
        if node.kind == SEND
    )
    return max(found.total_ns, *heard, 0)


def nearest(known: Mapping[Kind, Mapping[int, int]]) -> Takes:
    """The times of calls of the nearest number of bytes."""

    def takes(node: Node, kind: str) -> int:
        sizes = known[kind, node.group.partition(".")[0]]
        return sizes[min(sizes, key=lambda size: abs(size - node.bytes))]

    return takes


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


def same_company(rows: Sequence[JobRow]) -> None:
    """Raises RunError if jobs meet each other in the sample and not as a whole, or the reverse."""
    known = [
        _Ended(row["name"], row["start_ns"], end_ns, layers_ns)
        for row in rows
        if (layers_ns := row["layers_ns"]) is not None and (end_ns := row["end_ns"]) is not None
    ]
    for a, b in combinations(known, 2):
        for text in _apart(a, b):
            raise RunError(
                f"jobs {a.name} and {b.name}: {text}, so the times of their layers do not"
                " tell what all layers take. Let the jobs begin together, or take all layers"
            )


class _Ended(NamedTuple):
    """Times of a job that has ended, as table jobs has them."""

    name: str
    start_ns: int
    end_ns: int
    layers_ns: int


def _apart(a: _Ended, b: _Ended) -> Iterator[str]:
    for one, other in ((a, b), (b, a)):
        if one.end_ns <= other.start_ns < one.end_ns + one.layers_ns:
            yield f"{other.name} begins when the simulated layers of {one.name} are over"
    order = a.end_ns - b.end_ns
    if order * (order + a.layers_ns - b.layers_ns) < 0:
        yield "the one that ends first with the simulated layers ends last with all"
