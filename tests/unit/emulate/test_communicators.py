"""Groups of a program's ranks: who gets a communicator, and what switches and hosts are told."""

from __future__ import annotations

import contextlib

import pytest

from testbed.dataplane.install_tables import job_calls
from testbed.emulate.communicators import Communicators
from testbed.experiment import load_text
from testbed.schemes import set_up
from testbed.setup.host_specs import host_specs
from tests.support.fake_processes import Host

TEXT = """
topology: {kind: two_level, tors: 2, hosts: 3, servers: 1}
system: %s
memory: {aggregators: 64}
jobs:
  - {name: p, workers: 4, command: "true", groups: 2,
     placement: {workers: [h1, h2, h4, h5], ps: h7}}
%s"""


class Switch:
    """A switch's control client, which notes what is written."""

    def __init__(self) -> None:
        self.entries: dict[int, tuple] = {}
        self.written: list[tuple] = []
        self.slots = {"slot_state": [0, 1], "slot_job": [1, 7]}  # two aggregators
        self.handles = 0

    def batch(self, calls: list[tuple]) -> list[int]:
        handles = []
        for call in calls:
            if call[0].endswith("_delete"):
                self.entries = {
                    handle: entry
                    for handle, entry in self.entries.items()
                    if not (call[1] in (entry[1],) and call[-1] in (handle, entry[1]))
                }
            elif call[0] == "register_read":
                handles.append(self.slots[call[1]])
                continue
            else:
                assert call not in self.entries.values(), "as a switch refuses it"
                self.handles += 1
                self.entries[self.handles] = call
            handles.append(self.handles)
        return handles

    def register_write(self, *words: object) -> None:
        self.written.append(words)

    def groups(self) -> set[int]:
        """Numbers of the multicast groups that it has."""
        return {call[1] for call in self.entries.values() if call[0] == "multicast_create"}


class Run:
    """Four workers and a server, and the three switches between them."""

    def __init__(self, text: str = TEXT % ("esa", "")) -> None:
        self.setup = set_up(load_text(text))
        self.hosts = [Host(spec) for spec in host_specs(self.setup)]
        self.workers, self.servers = self.hosts[:4], self.hosts[4:]
        self.switches = {name: Switch() for name in self.setup.platform.topology.switches}
        self.asked: list[str] = []
        self.groups = Communicators(self.setup, self, [*self.switches], self._client)
        self.now_ns = 0

    def of_job(self, job: int, role: str) -> list[Host]:
        return [host for host in self.hosts if host.spec.role == role]

    def _client(self, switch: str):
        self.asked.append(switch)
        return contextlib.nullcontext(self.switches[switch])

    def tick(self, later_ns: int = 1000) -> None:
        self.now_ns += later_ns
        self.groups.tick(self.now_ns)

    def want(self, key: str, ranks: list[int], told: bool = True) -> None:
        """These ranks ask for a group, the last one first."""
        for place, rank in reversed([*enumerate(ranks)]):
            self.wants(rank, key, place, len(ranks), ranks if told else None)

    def wants(self, rank: int, key: str, place: int, size: int, ranks: list[int] | None) -> None:
        wish = {"key": key, "rank": place, "size": size, "ranks": ranks}
        self.workers[rank].wanted.append(wish)

    def leave(self, rank: int, number: int, calls: int) -> None:
        self.workers[rank].left[number] = calls


@pytest.mark.parametrize("told", [True, False])
def test_a_group_gets_machines_and_entries_and_is_then_let_in(told):
    run = Run()
    run.want("key", [3, 0], told)
    run.tick()
    assert sorted(run.asked) == sorted(run.switches)
    made = [host.heard_of("made", "refused", "opened") for host in run.hosts]
    assert [len(each) for each in made] == [1, 0, 0, 1, 1], "its members and the server"
    assert all(message["ranks"] == [3, 0] for each in made for message in each)
    specs = [made[place][0]["made"] for place in (3, 0, 4)]
    assert [spec["host"] for spec in specs] == ["h5", "h1", "h7"]
    assert [spec["number"] for spec in specs] == [0, 1, 0]
    assert {(spec["job"]["number"], spec["job"]["name"]) for spec in specs} == {
        (1, "p, ranks 3, 0")
    }
    added = {name: {*map(str, each.entries.values())} for name, each in run.switches.items()}
    for name, entries in added.items():  # those of the job are there already
        job = job_calls(run.setup.platform, name, run.setup.jobs[0])
        assert entries.isdisjoint(map(str, job))
    assert any(added.values())
    for place in (3, 0, 4):
        run.tick()
        assert not any(host.told for host in run.hosts), "not before all have a machine"
        run.hosts[place].made.add(1)
    run.tick()
    opened = [host.heard_of("opened") for host in run.hosts]
    assert opened == [[{"opened": 1, "key": "key"}], [], [], [{"opened": 1, "key": "key"}], []]
    run.tick()
    assert not any(host.told for host in run.hosts)


def test_nothing_happens_before_all_ranks_of_a_group_have_asked():
    run = Run()
    run.wants(1, "key", 0, 2, [1, 2])
    run.wants(3, "other", 0, 2, [3, 0])
    run.tick()
    assert not run.asked
    run.workers[1].withdrawn += ["unknown", "key"]  # it waits no longer
    run.wants(2, "key", 1, 2, [1, 2])
    run.tick()
    assert not run.asked
    run.wants(1, "key", 0, 2, [1, 2])
    run.workers[2].withdrawn.append("other")  # is no member
    run.wants(0, "other", 1, 2, [3, 0])
    run.tick()
    assert [len(host.heard_of("made")) for host in run.workers] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "second",
    [
        (2, "key", 1, 3, [1, 2]),  # another size,
        (2, "key", 1, 2, [2, 1]),  # another order,
        (2, "key", 0, 2, [1, 2]),  # another's place,
        (2, "key", 1, 2, None),
        (3, "key", 1, 2, [1, 2]),  # is no member,
    ],
)
def test_ranks_that_disagree_are_told_so(second):
    run = Run()
    run.wants(1, "key", 0, 2, [1, 2])
    run.wants(*second)
    run.tick()
    assert not run.asked
    refused = {"refused": "the ranks disagree about group key", "key": "key"}
    told = [host.heard_of("refused", "made") for host in run.workers]
    # Both are told, whichever asked first; one that asks later is told, too.
    assert told == [[refused] if rank in (1, second[0]) else [] for rank in range(4)]
    run.wants(0, "key", 1, 2, [1, 0])
    run.tick()
    assert run.workers[0].heard_of("refused", "made") == [refused]


def test_ranks_that_the_job_has_not_are_no_group():
    run = Run()
    run.wants(0, "one", 0, 2, [0, 4])
    run.wants(1, "two", 0, 5, None)
    run.tick()
    for rank, key in (0, "one"), (1, "two"):
        (said,) = run.workers[rank].told
        assert said["refused"] == f"the ranks disagree about group {key}"


def test_a_job_makes_as_many_groups_as_its_key_allows():
    run = Run()
    for key in "abc":
        run.want(key, [1, 0])
        run.tick()
    numbers = [each["made"]["job"]["number"] for each in run.servers[0].heard_of("made")]
    assert numbers == [1, 2]
    why = "job p has made all 2 groups that its key `groups` allows"
    for host in run.workers[:2]:
        assert host.told[-1] == {"refused": why, "key": "c"}


@pytest.mark.parametrize("left_at", [None, "s1", "s3"])
def test_a_number_is_used_again_when_nothing_of_its_group_is_left(left_at):
    """No machine at a host, no packet on its way, no sum in a switch."""
    run = Run()
    for number, key in enumerate("ab", 1):
        run.want(key, [1, 0])
        run.tick()
        for host in run.hosts:
            host.made.add(number)
    run.tick()
    for rank in (0, 1):
        run.leave(rank, 1, calls=3)
    run.tick()
    entries = [len(switch.entries) for switch in run.switches.values()]
    for host in run.hosts:
        host.told.clear()
    run.want("c", [1, 0])
    for _ in range(3):
        run.tick(5 * 10**9)
    assert not any(host.told for host in run.hosts), "hosts have its machines"
    for host in run.hosts:
        host.made.discard(1)
    run.tick()
    run.tick(10**9)
    assert not any(host.told for host in run.hosts), "packets are on their way"
    if left_at:
        run.switches[left_at].slots["slot_job"][1] = 1
    run.tick(10**9)
    told = run.workers[0].heard_of("made", "refused", "opened")
    if left_at:
        why = "job p has made all 2 groups that its key `groups` allows"
        assert told == [{"refused": why, "key": "c"}]
        run.switches[left_at].slots["slot_job"][1] = 7  # another group has taken it
        run.want("d", [1, 0])
        run.tick()
        told = run.workers[0].heard_of("made")
    assert [each["made"]["job"]["number"] for each in told] == [1], "not opened"
    assert all(switch.written[-1] == ("job_gone", 1, 0) for switch in run.switches.values())
    assert [len(switch.entries) for switch in run.switches.values()] >= entries


def test_a_host_has_machines_for_so_many_groups(monkeypatch):
    monkeypatch.setattr("testbed.emulate.communicators.MACHINES", 2)
    run = Run()
    run.want("a", [1, 0])
    run.want("b", [2, 0])
    run.tick()
    said = run.workers[2].told[-1]
    assert said == {
        "refused": "h1 (worker 0 of job p) is in 2 groups already; destroy some",
        "key": "b",
    }
    run.want("c", [2, 3])
    run.tick()
    assert "made" in run.workers[3].told[-1]


def test_all_learn_what_a_rank_has_called_that_leaves_and_the_last_ends_the_group():
    run = Run()
    run.want("key", [3, 0])
    run.tick()
    entries = {name: dict(switch.entries) for name, switch in run.switches.items()}
    for host in run.hosts:
        host.made.add(1)
        host.told.clear()
    run.leave(0, 1, calls=7)
    run.tick()
    assert run.workers[3].heard_of("left", "dropped") == [{"left": [1, 7], "group": 1}]
    assert not any(switch.written for switch in run.switches.values())
    run.leave(3, 1, calls=8)
    run.tick()
    told = [host.heard_of("left", "dropped") for host in run.hosts]
    assert told == [[{"dropped": 1}] if place in (0, 3, 4) else [] for place in range(5)]
    for name, switch in run.switches.items():
        assert switch.written == [("job_gone", 1, 1)]
        assert not entries[name] or len(switch.entries) < len(entries[name])
    run.want("again", [0, 3])
    run.tick()
    assert "made" in run.workers[0].told[-1], "nobody is in the first group any more"


def test_a_switch_that_starts_again_gets_the_entries_of_the_groups():
    run = Run()
    run.want("key", [3, 0])
    run.tick()
    before = {name: sorted(map(str, each.entries.values())) for name, each in run.switches.items()}
    for name in run.switches:
        run.groups.configure(name, again := Switch())
        assert sorted(map(str, again.entries.values())) == before[name]
    assert any(before.values())


@pytest.mark.parametrize(
    "system, more, why",
    [
        ("{name: switchml, sets: 1}", "", "no switch's queue may overflow, which is checked"),
        (
            "esa",
            "faults: [{at: 1 s, fault: link_down, between: [h1, s1]}]\n",
            "links fail in this run, after which groups would have no paths",
        ),
    ],
)
def test_runs_without_communicators_for_groups_say_why(system, more, why):
    ps = ", ps: h7" if system == "esa" else ""
    run = Run(TEXT.replace(", groups: 2", "").replace(", ps: h7", ps) % (system, more))
    run.want("key", [1, 0])
    run.tick()
    for host in run.workers[:2]:
        (said,) = host.told
        assert said["refused"].startswith(why) and said["key"] == "key"
    assert not run.asked


def test_declared_groups_are_there_before_their_ranks_ask():
    run = Run(TEXT.replace("groups: 2", "groups: 8, parallel: {tp: 2, dp: 2}") % ("esa", ""))
    run.tick()
    made = {}
    for host in run.hosts:
        for said in host.heard_of("made"):
            made.setdefault(said["made"]["job"]["number"], []).append(host)
    workers = run.workers
    groups = ["h1", "h2"], ["h4", "h5"], ["h1", "h4"], ["h2", "h5"]
    expected = [[*group, "h7"] for group in groups]
    found = [[host.spec.host for host in made[number]] for number in sorted(made)]
    assert found == expected
    assert all(switch.entries for switch in run.switches.values())
    for number, hosts in made.items():
        for host in hosts:
            host.made.add(number)
    run.asked.clear()
    run.tick()
    assert not any(host.heard_of("opened") for host in run.hosts)
    run.want("dp", [1, 3])
    run.tick()
    own = next(number for number, hosts in made.items() if hosts[0] is workers[1])
    for host in run.hosts:
        opened = [{"opened": own, "key": "dp"}] if host in (workers[1], workers[3]) else []
        assert host.heard_of("opened", "made") == opened
    assert run.asked == []  # no switch
    run.want("turned", [3, 1])  # a group in another order is another one
    run.tick()
    assert len(workers[1].heard_of("made")) == 1 and run.asked


def test_of_several_parameter_servers_each_group_has_the_nearest():
    text = TEXT.replace("groups: 2", "groups: 4") % ("esa", "")
    text = text.replace(
        "two_level, tors: 2, hosts: 3, servers: 1", "rails, servers: 2, ranks: 2, server_ps: 1"
    ).replace("[h1, h2, h4, h5], ps: h7", "[h1, h2, h3, h4], ps: [h5, h6, h8]")
    run = Run(text)
    for ranks, server in ([2, 3], "h8"), ([1, 3], "h6"), ([0, 1], "h5"), ([0, 1, 2, 3], "h5"):
        run.want(str(ranks), ranks)
        run.tick()
        made = {host.spec.host: host.heard_of("made") for host in run.servers}
        assert [name for name, messages in made.items() if messages] == [server], ranks
        spec = made[server][0]["made"]
        assert (spec["host"], spec["role"], spec["number"]) == (server, "ps", 0)
