"""A plan: where each fragment of each worker is aggregated, over which path, and how fast.

A planner makes a plan, and a control plane installs it. A worker's fragments are split into
*ranges*. All fragments of a range go over one path to one node: a switch that aggregates them, or
the parameter server (PS). Fragments of several workers that meet in a switch are a *group*. They
become one aggregate with one fan-in and one path to the PS. A switch may serve several groups of a
job, with different workers for different fragments, so each group has a number. Group 0 means no
aggregation.

A packet carries a *tag* (from 1 within the job) by which switches steer it. All packets of one tag
that pass a switch leave it for the same neighbour and join the same group. An aggregate leaves with
its group's tag. That is the tag of some of its inputs, unless their paths would conflict.

The JSON form is described in docs/plan.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from p4fabric.base.errors import UserError

from testbed.routing.planner_options import COUNTED, IGNORED

FORMAT = "ina-plan/1"


@dataclass(frozen=True)
class Range:
    """A part of a job's fragments, from `start` to before `end`, as shares from 0 to 1."""

    start: Fraction = Fraction(0)
    end: Fraction = Fraction(1)

    @property
    def share(self) -> Fraction:
        return self.end - self.start

    def fragments(self, count: int) -> range:
        """The fragments of `count` that belong to it, by their places from 0 in an order that all
        workers share. Ranges that cover 0 to 1 cover all fragments, each once."""
        return range(math.ceil(self.start * count), math.ceil(self.end * count))


@dataclass(frozen=True)
class Assignment:
    """A range of a worker's fragments: the group that they join (0: none), the node that
    aggregates them (the group's switch, or the PS), the path from the worker to that node, ends
    included, and the rate at which they are sent."""

    range: Range
    tag: int
    group: int
    node: str
    path: tuple[str, ...]
    rate_bps: Fraction


@dataclass(frozen=True)
class WorkerPlan:
    """The gradients of one worker. The assignments' ranges follow each other and cover 0 to 1."""

    number: int
    host: str
    rate_bps: Fraction
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True)
class Group:
    """Fragments that a switch aggregates for a job: `number` from 1 within the job, the workers
    whose gradients meet (numbers within the job, ascending), the path of the aggregate from the
    switch to the PS, and its rate, which is the largest input's.

    With a `parent`, the aggregate joins that group (its number) instead, and the path leads to that
    group's switch. Then the parent's workers are those of its groups and those who send to it
    themselves. A parent has no parent.

    `hold_ns`: how long an aggregator is in use, from the first to the last worker's fragment;
    `slots`: aggregators in use at a time at this rate, at least 1."""

    number: int
    node: str
    tag: int
    range: Range
    workers: tuple[int, ...]
    path: tuple[str, ...]
    rate_bps: Fraction
    hold_ns: int
    slots: int
    parent: int = 0  # 0: none, the aggregate goes to the PS

    @property
    def bitmap(self) -> int:
        """The fan-in: bit w for worker w."""
        return sum(1 << worker for worker in self.workers)


@dataclass(frozen=True)
class Results:
    """The way back of a job's results: the links (source, target) of a tree from the PS to the
    workers and all switches that aggregate for them, nearest first; () if there is no such tree.

    `room_bps`: what the tree's fullest link has left for the results, beside the gradients of all
    jobs and the results of the jobs before; None: unlimited. If that is less than the job's rate,
    the job does not reach its rate. In a plan that counts results it is not less."""

    links: tuple[tuple[str, str], ...] = ()
    room_bps: Fraction | None = None

    def behind(self, workers: Sequence[str]) -> dict[str, list[int]]:
        """The numbers of the workers that each node of the tree leads to."""
        found: dict[str, list[int]] = {}
        for number, worker in enumerate(workers):
            found.setdefault(worker, []).append(number)
        for source, target in reversed(self.links):
            found.setdefault(source, []).extend(found.get(target, []))
        return found


@dataclass(frozen=True)
class JobPlan:
    """One job's part of a plan. `rate_bps`: the slowest worker's rate."""

    name: str
    ps: str
    rate_bps: Fraction
    workers: tuple[WorkerPlan, ...]
    groups: tuple[Group, ...]
    results: Results = Results()

    @property
    def results_bps(self) -> Fraction:
        """The rate of its results: its own, or the rate for which they have room."""
        room = self.results.room_bps
        return self.rate_bps if room is None else min(self.rate_bps, room)


@dataclass(frozen=True)
class Load:
    """The use of a resource by a plan. `capacity_bps` None: unlimited."""

    load_bps: Fraction
    capacity_bps: int | None

    @property
    def full(self) -> bool:
        """True if nothing is left of it."""
        return bool(self.capacity_bps and self.load_bps >= self.capacity_bps)

    @property
    def share(self) -> float:
        """Load by capacity; 0 where that is unlimited."""
        return float(self.load_bps / self.capacity_bps) if self.capacity_bps else 0.0


@dataclass(frozen=True)
class LinkLoad(Load):
    """The load of one direction of a link: `load_bps` by gradients, `results_bps` by results."""

    results_bps: Fraction = Fraction(0)

    @property
    def full(self) -> bool:
        """True if nothing is left for the gradients that it carries."""
        return self.full_with_results and bool(self.load_bps)

    @property
    def full_with_results(self) -> bool:
        """True if nothing is left of it beside gradients and results."""
        return bool(self.capacity_bps and self.load_bps + self.results_bps >= self.capacity_bps)


@dataclass(frozen=True)
class SwitchLoad(Load):
    """The load of a switch: `load_bps` is the sum of the rates that come in to be aggregated."""

    slots: int = 0
    slots_available: int | None = None


@dataclass(frozen=True)
class BeforeRepair:
    """The statement of the published algorithm before its plan is repaired, with one node per
    worker.

    `rate_bps`: the rate that it gives the slowest worker. `method`: "rounding" or "exact".
    `exceeded`: {what, as `switch s1`, `PS h9` or `link s1 -> s3`: (load, capacity) in bit/s} at its
    rates, where the load is more. Links are not in the published model. `roundings`: how many were
    drawn; `violating`: in how many of them a switch or PS was above its capacity; `worst`: the
    largest ratio of load to capacity of a switch or PS in any of them."""

    rate_bps: Fraction
    method: str
    exceeded: Mapping[str, tuple[Fraction, int]]
    roundings: int
    violating: int
    worst: Fraction


@dataclass(frozen=True)
class Plan:
    """The result of a planner.

    `rate_bps`: the smallest rate of all workers. `bound_bps`: the upper bound that the
    planner's linear relaxation gives for it (None: unlimited). `results`: "counted" if all
    rates hold with results, "ignored" if results may lack room. `seed`: that of the best random
    rounding; None without rounding. `before_repair`: what `grid` had to repair. `links`:
    {(source, target): load} of every direction; `switches`: by name; `servers`: by the PS's
    host. `bottlenecks`: the full resources, as `link s1 -> s3`, `switch s1`, `PS h9`, in this
    order."""

    planner: str
    seed: int | None
    rate_bps: Fraction
    bound_bps: Fraction | None
    jobs: tuple[JobPlan, ...]
    links: Mapping[tuple[str, str], LinkLoad]
    switches: Mapping[str, SwitchLoad]
    servers: Mapping[str, Load]
    results: str = COUNTED
    before_repair: BeforeRepair | None = None

    @property
    def bottlenecks(self) -> tuple[str, ...]:
        return (
            *(
                f"link {a} -> {b}"
                for (a, b), load in self.links.items()
                if load.full or self.results == COUNTED and load.full_with_results
            ),
            *(f"switch {name}" for name, load in self.switches.items() if load.full),
            *(f"PS {name}" for name, load in self.servers.items() if load.full),
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on unusual jobs: hosts that several of them use."""
        uses: dict[str, list[str]] = {}
        for job in self.jobs:
            uses.setdefault(job.ps, []).append(f"parameter server of job {job.name}")
            for worker in job.workers:
                uses.setdefault(worker.host, []).append(f"worker of job {job.name}")
        return tuple(
            f"host {host} is {' and '.join(roles)}; they share its links and its ingress"
            for host, roles in uses.items()
            if len(roles) > 1
        )

    def job(self, name: str) -> JobPlan:
        """The job's part. Raises KeyError."""
        return next(job for job in self.jobs if job.name == name)

    def to_json(self) -> dict[str, object]:
        """The plan as JSON types; see docs/plan.md."""
        return {
            "format": FORMAT,
            "planner": self.planner,
            "seed": self.seed,
            "results": self.results,
            "lp_bound_bps": _number(self.bound_bps),
            "rate_bps": _number(self.rate_bps),
            "bottlenecks": list(self.bottlenecks),
            "notes": list(self.notes),
            "before_repair": _before_repair_json(self.before_repair),
            "jobs": [_job_json(job) for job in self.jobs],
            "links": [
                {
                    "source": a,
                    "target": b,
                    **_load_json(load),
                    "results_bps": _number(load.results_bps),
                }
                for (a, b), load in self.links.items()
            ],
            "switches": [
                {
                    "name": name,
                    **_load_json(load),
                    "slots": load.slots,
                    "slots_available": load.slots_available,
                }
                for name, load in self.switches.items()
            ],
            "servers": [{"name": name, **_load_json(load)} for name, load in self.servers.items()],
        }


def from_json(data: Any) -> Plan:
    """The plan that `to_json` has written. Rates are as exact as the numbers in it.

    Raises UserError if it is none."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise UserError(f"this is not a plan; a plan has the key `format` with {FORMAT}")
    try:
        return Plan(
            planner=str(data["planner"]),
            seed=data["seed"],
            rate_bps=_fraction(data["rate_bps"]),
            bound_bps=None if data["lp_bound_bps"] is None else _fraction(data["lp_bound_bps"]),
            jobs=tuple(_job(each) for each in data["jobs"]),
            links={
                (each["source"], each["target"]): LinkLoad(
                    *_load(each), _fraction(each["results_bps"])
                )
                for each in data["links"]
            },
            switches={
                each["name"]: SwitchLoad(*_load(each), each["slots"], each["slots_available"])
                for each in data["switches"]
            },
            servers={each["name"]: Load(*_load(each)) for each in data["servers"]},
            results=str(data.get("results", IGNORED)),
            before_repair=_before_repair(data.get("before_repair")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"this plan cannot be read: {type(error).__name__}: {error}") from None


def _number(value: Fraction | None) -> int | float | None:
    """A rate for JSON: whole where it is whole."""
    if value is None:
        return None
    return int(value) if value.denominator == 1 else float(value)


def _fraction(value: int | float | str) -> Fraction:
    return Fraction(value)


def _before_repair_json(made: BeforeRepair | None) -> dict[str, object] | None:
    if made is None:
        return None
    return {
        "rate_bps": _number(made.rate_bps),
        "method": made.method,
        "exceeded": [
            {"what": what, "load_bps": _number(load), "capacity_bps": capacity}
            for what, (load, capacity) in made.exceeded.items()
        ],
        "roundings": made.roundings,
        "violating": made.violating,
        "worst": _number(made.worst),
    }


def _before_repair(data: dict[str, Any] | None) -> BeforeRepair | None:
    if data is None:
        return None
    return BeforeRepair(
        rate_bps=_fraction(data["rate_bps"]),
        method=data["method"],
        exceeded={
            each["what"]: (_fraction(each["load_bps"]), int(each["capacity_bps"]))
            for each in data["exceeded"]
        },
        roundings=data["roundings"],
        violating=data["violating"],
        worst=_fraction(data["worst"]),
    )


def _load_json(load: Load) -> dict[str, object]:
    return {"load_bps": _number(load.load_bps), "capacity_bps": load.capacity_bps}


def _load(data: dict[str, Any]) -> tuple[Fraction, int | None]:
    return _fraction(data["load_bps"]), data["capacity_bps"]


def _range_json(each: Range) -> list[str]:
    return [str(each.start), str(each.end)]


def _range(data: list[str]) -> Range:
    start, end = data
    return Range(Fraction(start), Fraction(end))


def _job_json(job: JobPlan) -> dict[str, object]:
    return {
        "name": job.name,
        "ps": job.ps,
        "rate_bps": _number(job.rate_bps),
        "workers": [
            {
                "worker": worker.number,
                "host": worker.host,
                "rate_bps": _number(worker.rate_bps),
                "assignments": [
                    {
                        "range": _range_json(each.range),
                        "tag": each.tag,
                        "group": each.group,
                        "node": each.node,
                        "path": list(each.path),
                        "rate_bps": _number(each.rate_bps),
                    }
                    for each in worker.assignments
                ],
            }
            for worker in job.workers
        ],
        "groups": [
            {
                "group": group.number,
                "node": group.node,
                "tag": group.tag,
                "range": _range_json(group.range),
                "workers": list(group.workers),
                "bitmap": f"{group.bitmap:#x}",
                "path": list(group.path),
                "rate_bps": _number(group.rate_bps),
                "hold_ns": group.hold_ns,
                "slots": group.slots,
                **({"parent": group.parent} if group.parent else {}),
            }
            for group in job.groups
        ],
        "results": {
            "links": [list(ends) for ends in job.results.links],
            "room_bps": _number(job.results.room_bps),
        },
    }


def _job(data: dict[str, Any]) -> JobPlan:
    room = data["results"]["room_bps"]
    return JobPlan(
        name=data["name"],
        ps=data["ps"],
        rate_bps=_fraction(data["rate_bps"]),
        workers=tuple(
            WorkerPlan(
                number=worker["worker"],
                host=worker["host"],
                rate_bps=_fraction(worker["rate_bps"]),
                assignments=tuple(
                    Assignment(
                        range=_range(each["range"]),
                        tag=each["tag"],
                        group=each["group"],
                        node=each["node"],
                        path=tuple(each["path"]),
                        rate_bps=_fraction(each["rate_bps"]),
                    )
                    for each in worker["assignments"]
                ),
            )
            for worker in data["workers"]
        ),
        groups=tuple(
            Group(
                number=group["group"],
                node=group["node"],
                tag=group["tag"],
                range=_range(group["range"]),
                workers=tuple(group["workers"]),
                path=tuple(group["path"]),
                rate_bps=_fraction(group["rate_bps"]),
                hold_ns=group["hold_ns"],
                slots=group["slots"],
                parent=group.get("parent", 0),
            )
            for group in data["groups"]
        ),
        results=Results(
            links=tuple((a, b) for a, b in data["results"]["links"]),
            room_bps=None if room is None else _fraction(room),
        ),
    )
