"""A plan for a reader at a terminal, as rich renderables."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from testbed.config.units import RATE, about
from testbed.routing.network import Network
from testbed.routing.plan import JobPlan, Load, Plan
from testbed.text_table import new_table


def rate_text(rate_bps: Fraction | int | None) -> str:
    """A rate with six significant digits in the unit that suits it."""
    return "unlimited" if rate_bps is None else about(rate_bps, RATE, digits=6)


def plan_tables(network: Network, plan: Plan) -> Iterator[RenderableType]:
    """The plan's headline, its jobs, and how full the network is."""
    text = Text()
    text.append(f"{plan.planner}", style="bold")
    if plan.seed is not None:
        text.append(f"  (seed {plan.seed})")
    text.append(f"\nsmallest rate: {rate_text(plan.rate_bps)}")
    text.append(f"\nLP bound:      {rate_text(plan.bound_bps)}")
    text.append(f"\nfull:          {', '.join(plan.bottlenecks) or 'nothing'}")
    for job in plan.jobs:
        if job.results_bps < job.rate_bps:
            room = f"have room for {rate_text(job.results.room_bps)}"
            what = room if job.results.links else "have no way back"
            text.append(f"\nresults:       those of job {job.name} {what}")
    if network.failed:
        text.append(f"\nfailed:        {', '.join(network.failed)}")
    yield text
    for job in plan.jobs:
        yield _workers(job)
        if job.groups:
            yield _groups(job)
    yield _loads(plan)


def _workers(job: JobPlan) -> Table:
    title = f"Job {job.name}: PS {job.ps}, {rate_text(job.rate_bps)}"
    columns = ("worker", "fragments", "aggregated at", "path", "group", "rate")
    table = new_table(title, *columns, left=4)
    for worker in job.workers:
        name = f"{worker.number} {worker.host}"
        for each in worker.assignments:
            whole = each.range.share == 1
            part = "all" if whole else f"{each.range.start} to {each.range.end}"
            node = each.node if each.group else f"PS {each.node}"
            group = str(each.group) if each.group else ""
            table.add_row(name, part, node, " ".join(each.path), group, rate_text(each.rate_bps))
            name = ""
    return table


def _groups(job: JobPlan) -> Table:
    table = new_table("", "group", "workers", "path of the aggregate", "rate", "slots", left=3)
    for group in job.groups:
        workers = ", ".join(map(str, group.workers))
        path = " ".join(group.path)
        table.add_row(str(group.number), workers, path, rate_text(group.rate_bps), str(group.slots))
    return table


def _loads(plan: Plan) -> Table:
    table = new_table("Loads", "what", "load", "capacity", "share")

    def row(name: str, load: Load) -> None:
        share = f"{100 * load.share:.1f} %" if load.capacity_bps else ""
        capacity = rate_text(load.capacity_bps) if load.capacity_bps != 0 else "none"
        table.add_row(name, rate_text(load.load_bps), capacity, share)

    for (a, b), load in plan.links.items():
        if load.load_bps:
            row(f"link {a} -> {b}", load)
    for name, load in plan.switches.items():
        row(f"switch {name}", load)
    for name, load in plan.servers.items():
        row(f"PS {name}", load)
    return table
