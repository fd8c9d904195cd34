"""A plan for a reader at a terminal, as rich renderables."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from p4fabric.base import units
from p4fabric.base.config.units import RATE, about
from p4fabric.base.text_table import Column, Row, Table, printed
from rich.console import RenderableType
from rich.text import Text

from testbed.routing.network import Network
from testbed.routing.plan import BeforeRepair, JobPlan, Plan


def rate_text(rate_bps: Fraction | int | None) -> str:
    """A rate with six significant digits in the unit that suits it."""
    return "unlimited" if rate_bps is None else about(rate_bps, RATE, digits=6)


_RATE = Column("rate_bps", "rate", rate_text, "bit/s")
_WORKERS = (
    Column("worker", "worker", words=True),
    Column("fragments", "fragments", words=True),
    Column("node", "aggregated at", words=True),
    Column("path", "path", words=True),
    Column("group", "group", lambda number: str(number) if number else ""),
    _RATE,
)
_GROUPS = (
    Column("group", "group", words=True),
    Column("workers", "workers", words=True),
    Column("path", "path of the aggregate", words=True),
    _RATE,
    Column("slots", "slots"),
)
_LOADS = (
    Column("what", "what", words=True),
    Column("load_bps", "load", rate_text, "bit/s"),
    Column("capacity_bps", "capacity", rate_text, "bit/s"),
    Column("share", "share", units.share, "share"),
)


def plan_tables(network: Network, plan: Plan) -> Iterator[RenderableType]:
    """The plan's headline, its jobs, and how full the network is."""
    text = Text()
    text.append(f"{plan.planner}", style="bold")
    if plan.seed is not None:
        text.append(f"  (seed {plan.seed})")
    text.append(f"\nsmallest rate: {rate_text(plan.rate_bps)} (results {plan.results})")
    text.append(f"\nLP bound:      {rate_text(plan.bound_bps)}")
    text.append(f"\nfull:          {', '.join(plan.bottlenecks) or 'nothing'}")
    for job in plan.jobs:
        if job.results_bps < job.rate_bps:
            room = f"have room for {rate_text(job.results.room_bps)}"
            what = room if job.results.links else "have no way back"
            text.append(f"\nresults:       those of job {job.name} {what}")
    if (made := plan.before_repair) is not None:
        text.append(f"\nbefore repair: {_before_repair(made)}")
    for note in plan.notes:
        text.append(f"\nnote:          {note}")
    if network.failed:
        text.append(f"\nfailed:        {', '.join(network.failed)}")
    yield text
    for job in plan.jobs:
        yield _workers(job)
        if job.groups:
            yield _groups(job)
    yield _loads(plan)


def _before_repair(made: BeforeRepair) -> str:
    """Rates that a published plan states, and the capacities that it exceeds."""
    over = [
        f"{what} has {rate_text(load)} for {rate_text(capacity)}"
        for what, (load, capacity) in made.exceeded.items()
        if not what.startswith("link ")
    ]
    links = [load / most for what, (load, most) in made.exceeded.items() if what[:5] == "link "]
    if links:
        over.append(f"{len(links)} links by up to {float(max(links)):.3g} times")
    found = f"{rate_text(made.rate_bps)}, which exceeds " + (", ".join(over) or "nothing")
    if made.method == "exact":
        return f"{found} (the integer program has no links)"
    drawn = f"{made.violating} of {made.roundings} roundings exceed a switch or a PS"
    return f"{found} (the model has no links); {drawn}, by up to {float(made.worst):.3g} times"


def _workers(job: JobPlan) -> RenderableType:
    rows = []
    for worker in job.workers:
        name = f"{worker.number} {worker.host}"
        for each in worker.assignments:
            whole = each.range.share == 1
            part = "all" if whole else f"{each.range.start} to {each.range.end}"
            node = each.node if each.group else f"PS {each.node}"
            rows.append(Row((name, part, node, " ".join(each.path), each.group, each.rate_bps)))
            name = ""
    title = f"Job {job.name}: PS {job.ps}, {rate_text(job.rate_bps)}"
    return printed(Table("workers", title, _WORKERS, rows))


def _groups(job: JobPlan) -> RenderableType:
    rows = [
        Row(
            (
                str(group.number),
                ", ".join(map(str, group.workers)),
                " ".join(group.path),
                group.rate_bps,
                group.slots,
            )
        )
        for group in job.groups
    ]
    return printed(Table("groups", "", _GROUPS, rows))


def _loads(plan: Plan) -> RenderableType:
    named = [
        *((f"link {a} -> {b}", load) for (a, b), load in plan.links.items() if load.load_bps),
        *((f"switch {name}", load) for name, load in plan.switches.items()),
        *((f"PS {name}", load) for name, load in plan.servers.items()),
    ]
    rows = []
    for name, load in named:
        capacity = "none" if load.capacity_bps == 0 else rate_text(load.capacity_bps)
        rows.append(Row((name, load.load_bps, capacity, load.share if load.capacity_bps else None)))
    return printed(Table("loads", "Loads", _LOADS, rows))
