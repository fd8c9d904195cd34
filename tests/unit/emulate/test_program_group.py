"""The programs of a run, watched: who waits for whom, with hosts and processes that are made up."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import ClassVar

import pytest
from p4fabric.base.errors import RunError
from p4fabric.emulate.spawner import Process

from testbed.emulate.program_group import ProgramGroup, command_line, missing_package
from testbed.experiment import load_text
from testbed.experiment.schema_jobs import RESERVED
from testbed.hosts import progress_board as board
from testbed.schemes import set_up
from testbed.setup.host_specs import host_specs
from tests.support.fake_processes import Host
from tests.support.paths import ROOT

TEXT = """
name: test
topology: {kind: star, hosts: 5}
system: ring
jobs: [{name: p, workers: 4, command: "true", collective_timeout: 10 s, backend: gloo}]
"""
SECOND = 10**9


class Run:
    """Four ranks of a job; stands for their hosts and for the spawner."""

    def __init__(
        self, logs: Path, text: str = TEXT, repetition: int = 0, communicators=None
    ) -> None:
        setup = set_up(load_text(text))
        self.hosts = [Host(spec) for spec in host_specs(setup)]
        self.environments: list[dict] = []
        self.processes: list[Process] = []
        names = {host.spec.host: 1 for host in self.hosts}
        self.killed: list[Process] = []
        self.waited_for: list[Process] = []
        self.group = ProgramGroup(
            setup.listed,
            self,
            self,
            names,
            logs,
            repetition,
            0,
            setup.platform.topology,
            communicators,
        )

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
        assert number == 9
        self.killed.append(process)

    def wait_ended(self, processes, timeout_s, what) -> None:
        self.waited_for += processes

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


def test_what_ranks_report_is_a_table_and_the_last_report_is_shown(watched, tmp_path):
    """Whatever else is in the file is left out: it is the program's."""
    assert watched.group.latest(0) == "0 of 4 ranks have joined"
    assert watched.group.latest(9) == ""
    lines = [
        '{"step": 3, "time_ns": 50, "values": {"loss": 0.125, "rate": "nan"}}',
        '{"step": -1, "time_ns": 60, "values": {"loss": 7}}',
        '{"step": 3.5, "time_ns": 60, "values": {"loss": 7}}',
        "[1]",
        '{"step": 4, "time_ns": -5, "values": {"loss": 1234.5}}',
    ]
    path = tmp_path / "p-rank0.jsonl"
    path.write_text("\n".join(lines) + "\n" + '{"step": 5, "ti')
    assert watched.group.latest(0) == "step 4, loss 1.23e+03"
    with path.open("a") as file:
        file.write("\nnothing\n")
    for joined, said in ("013", "3 of 4 ranks have joined"), ("0123", "all ranks have joined"):
        watched.at(1, joined=joined)
        assert watched.group.latest(0) == said
    (tmp_path / "p-rank2.jsonl").write_text(lines[0])
    named = ("worker", "number", "name", "step", "time_ns", "value")
    expected = [
        (0, 0, "loss", 3, 50, 0.125),
        (0, 0, "rate", 3, 50, None),
        (0, 1, "loss", 4, 0, 1234.5),
        (2, 0, "loss", 3, 50, 0.125),
        (2, 0, "rate", 3, 50, None),
    ]
    for rows in (watched.group.said(), watched.group.rows()):
        assert [tuple(row[name] for name in named) for row in rows] == expected
        assert {row["job"] for row in rows} == {0}
    assert not list(tmp_path.glob("*.jsonl"))


def test_what_ranks_have_called_is_a_table(watched, tmp_path):
    """Processes of a rank add up, if all of them know how long it took."""

    def line(calls, time_ns, route="gloo", **changed):
        row = {"communicator": "all", "collective": "barrier", "dtype": "", "route": route}
        return json.dumps(row | {"calls": calls, "bytes": 8 * calls, "time_ns": time_ns} | changed)

    one, other = (tmp_path / f"p-rank{rank}.collectives" for rank in (1, 3))
    one.write_text("\n".join([line(1, 5), "{", "[]", line(2, 6), line(3, 7, "pigeons"), ""]))
    other.write_text("\n".join([line(1, 5), line(2, None), line(4, 9)]))  # in mid-line
    assert watched.group.called() == [("p", "barrier", "gloo", 1, 6, 48)]
    with one.open("a") as file:
        file.write(line("x", 7) + "\n")
    with other.open("a") as file:
        file.write("\n" + line(5, 1, "system") + "\n")
    rows = watched.group.collectives()
    named = ("job", "worker", "route", "calls", "bytes", "time_ns")
    assert [tuple(row[name] for name in named) for row in rows] == [
        (0, 1, "gloo", 3, 24, 11),
        (0, 3, "gloo", 7, 56, None),
        (0, 3, "system", 5, 40, 1),
    ]
    assert not list(tmp_path.glob("*.collectives"))


def test_a_job_is_over_when_all_its_ranks_have_ended(watched):
    assert watched.group.is_over(5) and not watched.group.is_over(0)
    for process, host in zip(watched.processes, watched.hosts, strict=True):
        process.code, host.done = 0, {"calls": 0}
        assert not watched.group.is_over(0)
        watched.at(2)
    assert watched.group.is_over(0)
    assert [host.done["end_ns"] for host in watched.hosts] == 4 * [2 * SECOND]
    watched.hosts[1].done = None  # it was killed
    assert watched.group.is_over(0)
    assert all({"ended": True} in host.told for host in watched.hosts)


def test_a_rank_that_fails_ends_the_job_with_its_last_words(watched, tmp_path):
    watched.processes[1].code, watched.hosts[1].done = 3, {"calls": 0}
    (tmp_path / "p-rank1.log").write_text("ModuleNotFoundError: No module named 'rich2'\n")
    said = "rank 1 of job p ended with exit code 3.*has no module rich2"
    with pytest.raises(RunError, match=said) as caught:
        watched.at(1)
    assert str(tmp_path / "p-rank1.log") in str(vars(caught.value)) + str(caught.value)
    assert all("rank 1" in host.told[0]["abort"] for host in watched.hosts)


def test_ranks_that_disagree_end_the_job(watched):
    watched.hosts[2].disagreed = "ranks 0, 1: barrier; rank 2: allreduce"
    with pytest.raises(RunError, match="ranks 0, 1: barrier; rank 2: allreduce"):
        watched.at(1, "0123")


@pytest.mark.parametrize("joined", ["", "1"])
def test_a_program_that_must_use_the_switches_and_never_joins_is_told(tmp_path, joined):
    run = Run(tmp_path, TEXT.replace("gloo", "ina"))
    run.at(0)
    run.processes[1].code, run.hosts[1].done = 0, {"calls": 0}
    if joined:
        run.at(1, joined)
        return
    with pytest.raises(RunError, match="rank 1 of job p has ended and never joined the job"):
        run.at(1, joined)


def test_ranks_start_with_their_job_and_those_that_run_are_killed_at_the_end(tmp_path):
    run = Run(tmp_path, TEXT.replace("workers: 4", "workers: 4, start: 3 s"), repetition=2)
    run.at(2.9)
    assert not run.processes and run.group.ranks(0) == []
    run.at(3)
    run.at(4)
    assert [each.log.name for each in run.processes] == [f"p-rank{n}-r2.log" for n in range(4)]
    run.processes[2].code = 0
    run.group.close()
    assert run.killed == [run.processes[n] for n in (0, 1, 3)] == run.waited_for


@pytest.mark.parametrize("launch", ["ranks", "servers"])
def test_a_job_has_variables_of_its_own(tmp_path, monkeypatch, launch):
    """Each that the testbed sets is either refused in the file, or the file's counts."""
    monkeypatch.setenv("PYTHONPATH", "/callers")
    monkeypatch.setenv("LR", "1")
    text = TEXT.replace("gloo}", f"gloo, launch: {launch}}}")
    found = []
    for name in "", "LR", "PYTHONPATH", "HOME", "RES_OPTIONS", "OMP_NUM_THREADS":
        keys = f"gloo, env: {{{name}: /own}}" if name else "gloo"
        run = Run(tmp_path, text.replace("gloo", keys))
        run.at(0)
        for environment in run.environments:
            assert not name or "/own" in environment[name].split(os.pathsep)
        found.append(run.environments[0])
    own = {name for name, value in found[0].items() if os.environ.get(name) != value}
    free = {name for name in own if not re.fullmatch(RESERVED, name)}
    assert free <= {"PYTHONPATH", "RES_OPTIONS", "OMP_NUM_THREADS"}
    assert {"/own", str(ROOT)} <= {*found[2]["PYTHONPATH"].split(os.pathsep)}


def test_only_the_job_that_is_to_be_recorded_is_told_so(tmp_path, monkeypatch):
    """And what sudo says of its caller is nothing for programs."""
    monkeypatch.setenv("SUDO_COMMAND", "ina")
    for job, wanted in ("other", None), ("p", {"path": "/records/p.npz", "steps": 4}):
        said = {"job": job, "path": "/records/p.npz", "steps": 4}
        monkeypatch.setenv("INA_RECORD", json.dumps(said))
        run = Run(tmp_path)
        run.at(0)
        for environment in run.environments:
            found = environment.get("INA_RECORD")
            assert (found and json.loads(found)) == wanted
            assert "SUDO_COMMAND" not in environment
            assert environment["MASTER_ADDR"] == run.hosts[0].spec.address
            assert environment["WORLD_SIZE"] == environment["GROUP_WORLD_SIZE"] == "4"


def test_groups_of_ranks_are_looked_after(tmp_path):
    class Groups:
        ticks: ClassVar[list] = []

        def tick(self, now_ns):
            self.ticks.append(now_ns)

    run = Run(tmp_path, communicators=Groups())
    run.at(1)
    run.at(2)
    assert Groups.ticks == [SECOND, 2 * SECOND]


def test_a_python_file_is_run_by_this_python(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert command_line(["train.py", "-x"]) == [sys.executable, "-u", "train.py", "-x"]
    run = command_line(["torchrun", "a.py"])
    assert run[:2] == [sys.executable, "-c"] and run[3:] == ["torch.distributed.run", "a.py"]
    assert command_line(["train", "a.py"]) == ["train", "a.py"]


SERVERS = """
name: test
topology: {kind: star, hosts: 7, per_server: 2}
system: ring
jobs:
  - {name: q, workers: 2, command: "true", placement: {workers: [h6, h5]}}
  - name: p
    workers: 4
    command: "true"
    launch: LAUNCH
    placement: {workers: [h1, h7, h2, h3]}
"""


class Servers(Run):
    """Several jobs, that of p last; its ranks 0 and 2 are on one server."""

    def __init__(self, logs: Path, launch: str, text: str = SERVERS) -> None:
        super().__init__(logs, text.replace("LAUNCH", launch))
        self.group.tick(0)

    def of_job(self, job: int, role: str) -> list[Host]:
        return [host for host in self.hosts if host.spec.job.number == job]


def test_each_rank_is_told_its_place_among_the_servers(tmp_path):
    run = Servers(tmp_path, "ranks")
    names = "RANK LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK NODE_RANK GLOO_SOCKET_IFNAME"
    found = [[each[name] for name in names.split()] for each in run.environments[2:]]
    assert found == [
        ["0", "0", "2", "0", "0", "h1-eth0"],
        ["1", "0", "1", "1", "1", "h7-eth0"],
        ["2", "1", "2", "0", "0", "h2-eth0"],
        ["3", "0", "1", "2", "2", "h3-eth0"],
    ]
    for each in run.environments[2:]:
        assert (each["GROUP_WORLD_SIZE"], each["WORLD_SIZE"]) == ("3", "4")
        assert (each["ROLE_RANK"], each["ROLE_WORLD_SIZE"]) == (each["RANK"], "4")
    addresses = [each["P4FABRIC_ADDRESS"] for each in run.environments[2:]]
    assert addresses == ["10.0.0.1", "10.0.0.7", "10.0.0.2", "10.0.0.3"]
    # The library that binds to them is where other addresses are.
    assert ["LD_PRELOAD" in each for each in run.environments[2:]] == [True, False, True, True]


def test_a_library_of_the_caller_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("LD_PRELOAD", "/lib/other.so")
    first, second = Servers(tmp_path, "servers").environments[2:4]
    assert first["LD_PRELOAD"] == "/run/p4fabric/own_address.so /lib/other.so"
    assert second["LD_PRELOAD"] == "/lib/other.so"


@pytest.mark.parametrize("hosts, port", [("[h6, h5]", "29500"), ("[h4, h5]", "29501")])
def test_jobs_with_a_first_rank_on_one_server_have_ports_of_their_own(tmp_path, hosts, port):
    text = SERVERS.replace("[h6, h5]", hosts).replace("[h1, h7, h2, h3]", "[h3, h7, h2, h1]")
    ports = [each["MASTER_PORT"] for each in Servers(tmp_path, "ranks", text).environments]
    assert ports == ["29500"] * 2 + [port] * 4


def test_a_process_on_each_server_makes_its_ranks(tmp_path):
    run = Servers(tmp_path, "servers")
    environments = run.environments[2:]
    assert [process.log.name for process in run.processes[2:]] == [
        "p-n1.log",
        "p-n4.log",
        "p-n2.log",
    ]
    names = "PET_NNODES PET_NODE_RANK PET_NPROC_PER_NODE PET_MASTER_PORT GLOO_SOCKET_IFNAME"
    assert [[each[name] for name in names.split()] for each in environments] == [
        ["3", "0", "2", "29500", "h1-eth0"],
        ["3", "1", "1", "29500", "h7-eth0"],
        ["3", "2", "1", "29500", "h3-eth0"],
    ]
    own = [json.loads(each["INA_RANKS"]) for each in environments]
    assert [[each["INA_SOCKET"] for each in ranks] for ranks in own] == [
        ["ina-1-0", "ina-1-2"],
        ["ina-1-1"],
        ["ina-1-3"],
    ]
    assert [each["GLOO_SOCKET_IFNAME"] for each in own[0]] == ["h1-eth0", "h2-eth0"]
    for rank in own[0]:
        assert Path(rank["INA_MEASURES"]).exists() and Path(rank["INA_COLLECTIVES"]).exists()
    for each in environments:
        assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE", "INA_SOCKET"} & {*each}
    assert [rank.number for rank in run.group.ranks(1)] == [0, 1, 2, 3]
    # What becomes of the process becomes of its ranks.
    run.processes[2].code = 0
    run.group.tick(1)
    told = [host.spec.host for host in run.hosts if {"ended": True} in host.told]
    assert told == ["h1", "h2"]
    run.processes[3].code = 9
    with pytest.raises(RunError, match=r"the process on server n4 of job p \(rank 1\) ended"):
        run.group.tick(2)


def test_a_rank_that_leaves_and_whose_process_goes_on_is_reported_after_a_while(watched):
    watched.at(1, joined="0123")
    watched.hosts[2].left_job = 5
    left = {"left": [2, 5], "group": 0}
    for second in (2, 11):
        watched.at(second, joined="0123")
        assert not any(left in host.told for host in watched.hosts)
    for second in (13, 14):
        watched.at(second, joined="0123")
        assert [host.told.count(left) for host in watched.hosts] == [1, 1, 0, 1]
    watched.processes[0].code = 1
    said = "rank 2 of job p has left the job before its end, and rank 0 of job p ended with exit"
    with pytest.raises(RunError, match=said) as caught:
        watched.at(15, joined="0123")
    assert "p-rank2.log" in str(vars(caught.value))
