"""Entries of jobs that come and go."""

from __future__ import annotations

from testbed.dataplane import JobTables
from testbed.experiment import load_text
from testbed.schemes import set_up

EXPERIMENT = """
admission: off
topology: {kind: two_level, tors: 2, hosts: 4, servers: 2}
system: esa
memory: {aggregators: 16}
jobs:
  - {model: resnet18, workers: 4, iterations: 1, scale: 0.001, placement: {workers: [h1, h2, h5, h6], ps: h9}}
  - {model: resnet18, workers: 4, iterations: 1, scale: 0.001, placement: {workers: [h3, h4, h7, h8], ps: h10}}
"""  # noqa: E501


class Switch:
    """Keeps entries as a switch does."""

    def __init__(self) -> None:
        self.entries: dict[int, tuple] = {}
        self.groups: dict[int, list] = {}
        self.handles = 0

    def batch(self, calls: list[tuple]) -> list[int | None]:
        return [getattr(self, name)(*arguments) for name, *arguments in calls]

    def table_add(self, table: str, action: str, match: list, parameters: list) -> int:
        key = table, tuple(match)
        assert key not in {entry[:2] for entry in self.entries.values()}, "there is one already"
        self.handles += 1
        self.entries[self.handles] = *key, action, tuple(parameters)
        return self.handles

    def table_delete(self, table: str, handle: int) -> None:
        assert self.entries.pop(handle)[0] == table

    def multicast_group(self, group: int, copies: list) -> None:
        self.groups[group] = copies

    def multicast_delete(self, group: int) -> None:
        del self.groups[group]

    def content(self) -> tuple[set, dict]:
        return set(self.entries.values()), dict(self.groups)


def test_an_entry_stays_as_long_as_a_job_needs_it() -> None:
    setup = set_up(load_text(EXPERIMENT))
    switch = Switch()
    tables = JobTables("s3", switch)
    alone = []
    for job in (0, 1):
        tables.add(setup.platform, setup.jobs[job])
        alone.append(switch.content())
        tables.remove(job, 0)
        assert switch.content() == (set(), {}) and tables.jobs == []
    tables.add(setup.platform, setup.jobs[0])
    tables.add(setup.platform, setup.jobs[1])
    assert tables.jobs == [0, 1]
    # Both send results to the racks' switches, over the same entries.
    assert alone[0][0] & alone[1][0]
    assert switch.content() == (alone[0][0] | alone[1][0], alone[0][1] | alone[1][1])
    tables.remove(0, 0)
    assert switch.content() == alone[1]
    tables.add(setup.platform, setup.jobs[0])
    tables.remove(1, 0)
    assert switch.content() == alone[0]


def test_a_switch_that_a_job_does_not_pass_has_no_entries() -> None:
    near = EXPERIMENT.replace("[h1, h2, h5, h6], ps: h9", "[h1, h2, h3], ps: h4").replace(
        "workers: 4", "workers: 3", 1
    )
    near = near.replace("[h3, h4, h7, h8], ps: h10", "[h5, h6, h7, h8], ps: h10")
    setup = set_up(load_text(near))
    switch = Switch()
    tables = JobTables("s2", switch)
    tables.add(setup.platform, setup.jobs[0])
    assert tables.jobs == [] and switch.content() == (set(), {})
    tables.add(setup.platform, setup.jobs[1])
    assert tables.jobs == [1]
    tables.remove(0, 0)
    assert tables.jobs == [1]


def test_a_job_is_admitted_for_a_while_after_its_end() -> None:
    """Its last packets are still on their way. Switch s1 has hosts of both jobs, and the link to
    the servers' switch at port 5."""
    setup = set_up(load_text(EXPERIMENT.replace("admission: off\n", "")))
    switch = Switch()
    tables = JobTables("s1", switch)

    def admitted() -> set[tuple[int, int]]:
        return {entry[1] for entry in switch.content()[0] if entry[0] == "admission"}

    job_0, job_1 = {(1, 0), (2, 0), (5, 0)}, {(3, 1), (4, 1), (5, 1)}
    tables.add(setup.platform, setup.jobs[0])
    tables.add(setup.platform, setup.jobs[1])
    assert admitted() == job_0 | job_1
    tables.remove(0, 10**9)
    assert admitted() == job_0 | job_1 and tables.jobs == [1]
    tables.remove(1, 3 * 10**9)
    assert admitted() == job_1
    switch.__init__()
    tables = JobTables("s1", switch)
    for job in (0, 1):
        tables.add(setup.platform, setup.jobs[job])
    tables.remove(0, 10**9)
    tables.remove(1, 2 * 10**9)  # packets of job 0 may still be there
    assert admitted() == job_0 | job_1
