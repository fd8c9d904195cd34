"""The programs of a run, watched: who waits for whom, with hosts and processes that are made up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from testbed.emulate.host_group import HostProcess
from testbed.emulate.program_group import ProgramGroup, missing_package
from testbed.errors import RunError
from testbed.experiment import load_text
from testbed.hosts import progress_board as board
from testbed.network.spawner import Process
from testbed.schemes import set_up
from testbed.setup.host_specs import host_specs

TEXT = """
name: test
topology: {kind: star, hosts: 5}
system: ring
jobs: [{name: p, workers: 4, command: "true", collective_timeout: 10 s, backend: gloo}]
"""
SECOND = 10**9


class Host(HostProcess):
    """A host process that is told things."""

    def __init__(self, spec) -> None:
        none = Process("", Path("/dev/null"))
        super().__init__(spec, none, None, np.zeros(board.COLUMNS, np.int64), Path("/dev/null"))
        self.told: list[dict] = []

    def send(self, **message: object) -> None:
        self.told.append(message)


class Run:
    """Four ranks of a job; stands for their hosts and for the spawner."""

    def __init__(self, logs: Path) -> None:
        setup = set_up(load_text(TEXT))
        self.hosts = [Host(spec) for spec in host_specs(setup)]
        self.environments: list[dict] = []
        self.processes: list[Process] = []
        names = {host.spec.host: 1 for host in self.hosts}
        self.group = ProgramGroup(setup.listed, self, self, names, logs, 0, 0)

    def of_job(self, job: int, role: str) -> list[Host]:
        return self.hosts

    def spawn(self, key, target, arguments, log, namespace) -> Process:
        self.environments.append(arguments["environment"])
        self.processes.append(Process(key, log))
        return self.processes[-1]

    def pump(self) -> None:
        """Ranks end when they are told why."""
        for process in self.processes:
            process.code = 1

    def signal(self, process: Process, number: int) -> None:
        pass

    def at(self, second: float, joined: str = "", waiting: str = "", results: int = 0) -> None:
        """Time passes: the ranks of `joined` have, those of `waiting` have open calls."""
        for rank, host in enumerate(self.hosts):
            host.joined = str(rank) in joined + waiting
            host.row[board.OPEN_CALLS] = int(str(rank) in waiting)
            host.row[board.FINISHED] = results
        self.group.tick(int(second * SECOND))


@pytest.fixture
def watched(tmp_path) -> Run:
    made = Run(tmp_path)
    made.at(0)
    return made


def test_a_rank_that_does_not_call_a_collective_is_named_on_all(watched):
    watched.at(1, "0123", waiting="013")
    watched.at(10.9, "0123", waiting="013")
    message = (
        "rank 2 of job p has not called the collective that they wait in: ranks 0, 1, 3 for 10 s"
    )
    with pytest.raises(RunError, match=message):
        watched.at(11.1, "0123", waiting="013")
    for host in watched.hosts:
        assert message in host.told[0]["abort"]


def test_a_rank_that_does_not_join_is_named(watched):
    watched.at(1, "023")
    watched.at(10.9, "023")
    with pytest.raises(RunError, match="rank 1 of job p has not joined the job.*ranks 0, 2, 3"):
        watched.at(11.1, "023")


def test_whatever_goes_on_begins_the_time_anew(watched):
    watched.at(1, waiting="3")
    watched.at(9, "012", waiting="3")
    watched.at(18, "0123", waiting="3", results=7)
    watched.at(27, "0123", waiting="3", results=7)
    with pytest.raises(RunError, match="rank 0 of job p .*: rank 3 for 10 s"):
        watched.at(29, "0123", waiting="3", results=7)


@pytest.mark.parametrize("waiting", ["", "0123"])
def test_ranks_that_all_compute_or_all_wait_have_no_such_limit(watched, waiting):
    """The network may be slow, or fail; that is watched elsewhere."""
    for second in (1, 20, 40):
        watched.at(second, "0123", waiting=waiting)


def test_programs_that_never_join_have_no_such_limit(watched):
    """They need not use the collective."""
    for second in (1, 20, 40):
        watched.at(second)


def test_ranks_are_told_what_the_experiment_says(watched):
    for rank, environment in enumerate(watched.environments):
        assert environment["RANK"] == str(rank)
        assert environment["INA_BACKEND"] == "gloo"
        assert environment["INA_COLLECTIVE_TIMEOUT_S"] == "10"


def test_a_missing_package_is_named_with_its_remedy():
    tail = "Traceback (most recent call last):\nModuleNotFoundError: No module named "
    assert missing_package(tail + "'torch'\n").endswith("-m pip install '.[torch]'")
    assert missing_package(tail + "'sklearn.datasets'\n").endswith("-m pip install '.[torch]'")
    assert missing_package(tail + "'requests'").endswith("-m pip install requests")
    assert missing_package("") == missing_package("ValueError: No module named 'x'\n") == ""


def test_the_others_are_told_how_many_collectives_a_rank_has_called_that_leaves(watched):
    watched.at(1, joined="0123")
    watched.hosts[0].done, watched.processes[0].code = {"calls": 7}, 0
    watched.hosts[3].done = {"calls": 7}  # its process still runs
    watched.at(2, joined="0123")
    left = {"left": [0, 7], "group": 0}
    assert [left in host.told for host in watched.hosts] == [False, True, True, False]
