"""The trees of system `tree` for a reader: who has which, and what each switch holds."""

from __future__ import annotations

from collections.abc import Iterator

from p4fabric.base.text_table import Column, Row, Table, printed
from rich.console import RenderableType

from testbed.setup.job_setups import JobSetup, Setup
from testbed.setup.late_trees import late_jobs
from testbed.systems.system import fallback_words

JOBS = 32  # of which `facts` speaks

_TREES = (
    Column("job", "job", words=True),
    Column("tree", "tree", words=True),
    Column("root", "root", words=True),
    Column("slots", "slots"),
    Column("switches", "workers below each switch", words=True),
)
_SWITCHES = (
    Column("switch", "switch", words=True),
    Column("job", "job", words=True),
    Column("tree", "tree", words=True),
    Column("first", "first slot"),
    Column("slots", "slots"),
    Column("next", "sums go to", words=True),
)


def facts(setup: Setup) -> list[str]:
    """A line for each job of a system with a manager of trees."""
    if not setup.platform.system.managed or len(setup.jobs) > JOBS:
        return []
    late = late_jobs(setup)
    return [_fact(job, job.number in late) for job in setup.jobs.values()]


def refusals(setup: Setup) -> list[str]:
    """Of these, those of jobs that got no tree, however many there are; and of groups of ranks."""
    every, late = (*setup.jobs.values(), *setup.groups.values()), late_jobs(setup)
    found = (_fact(job, _owner(job) in late) for job in every if job.refused)
    return list(dict.fromkeys(found))


def _owner(job: JobSetup) -> int:
    return job.number if job.ranks is None else job.ranks.job


def _fact(job: JobSetup, late: bool) -> str:
    """late: True: the manager is asked again when the job starts."""
    if job.refused:
        return fallback_words(job.name, job.platform.system.name, _refusal(job, late))
    trees = job.group.trees
    slots = " and ".join(dict.fromkeys(str(tree.slots) for tree in trees))
    number = "1 tree" if len(trees) == 1 else f"{len(trees)} trees"
    roots = f"root{'s' if len(trees) > 1 else ''} {job.group.tree_roots}"
    more = "; more if others have ended when it starts" if late else ""
    return f"job {job.name}: {number} of {slots} slots, {roots}{more}"


def _refusal(job: JobSetup, late: bool) -> str:
    return f"{job.refused}, unless that has changed when it starts" if late else job.refused


def tables(setup: Setup) -> Iterator[RenderableType]:
    """The trees of all communicators, and the slots of all switches."""
    trees, memory, late = [], [], late_jobs(setup)
    for job in (*setup.jobs.values(), *setup.groups.values()):
        if job.refused:
            trees.append(Row((job.name, "none", _refusal(job, _owner(job) in late), None, "")))
        for place, tree in enumerate(job.group.trees):
            below = tree.shape.below
            listed = ", ".join(f"{name} {len(below[name])}" for name in tree.shape.switches)
            name = job.name if place == 0 else ""
            trees.append(Row((name, str(tree.number), tree.shape.target, tree.slots, listed)))
            for switch, base in tree.bases.items():
                onward = tree.shape.parent.get(switch, (0, "its workers"))[1]
                row = (switch, job.name, str(tree.number), base, tree.slots, onward)
                memory.append(row)
    order = {name: place for place, name in enumerate(setup.platform.topology.switches)}
    rows = [Row(row) for row in sorted(memory, key=lambda row: (order[row[0]], row[3]))]
    yield printed(Table("trees", "Trees", _TREES, trees))
    if rows:
        yield printed(Table("switches", "Memory", _SWITCHES, rows))


def as_json(setup: Setup) -> dict[str, object]:
    """The same as JSON values."""
    late = late_jobs(setup)
    return {
        "format": "ina-trees/1",
        "jobs": [
            {
                "job": job.name,
                "number": job.number,
                "refused": job.refused or None,
                "asked_again": _owner(job) in late,
                "fallback": job.platform.system.name if job.refused else None,
                "trees": [
                    {
                        "tree": tree.number,
                        "root": tree.shape.target,
                        "slots": tree.slots,
                        "switches": [
                            {
                                "switch": switch,
                                "first_slot": base,
                                "workers": list(tree.shape.below[switch]),
                                "next": tree.shape.parent.get(switch, (0, None))[1],
                            }
                            for switch, base in tree.bases.items()
                        ],
                    }
                    for tree in job.group.trees
                ],
            }
            for job in (*setup.jobs.values(), *setup.groups.values())
        ],
    }
