"""Groups of processes, with a spawner that only remembers: switches, captures, and messages."""

from __future__ import annotations

import itertools
import json
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from p4engine.frontend.diagnostics import P4Error
from p4fabric.base.captured_ports import CapturedPort
from p4fabric.base.errors import RunError
from p4fabric.emulate import controlled
from p4fabric.emulate.controlled import Controlled

from testbed.emulate import captures as capturing
from testbed.emulate import switch_group
from testbed.emulate.captures import Captures
from testbed.emulate.host_group import HostGroup
from testbed.emulate.switch_group import SwitchGroup
from testbed.experiment import load_text
from testbed.hosts import progress_board as board
from testbed.protocols.status import COUNTER_NAMES
from testbed.schemes import set_up
from testbed.setup.host_specs import host_specs
from tests.support.fake_processes import Spawner


class Client:
    def __init__(self, log, name):
        self.close = lambda: log.append(("close", name))


@pytest.fixture
def switches(tmp_path):
    def made(repetition=0, stubborn=False):
        spawner = Spawner(stubborn)
        nodes = [SimpleNamespace(name=name, client=None) for name in ("s1", "s2")]
        network = SimpleNamespace(
            switches=nodes, check=lambda: None,
            holders={node.name: SimpleNamespace(pid=100 + n) for n, node in enumerate(nodes)},
        )  # fmt: skip
        backend = SimpleNamespace(
            by_thread=True, target="t",
            arguments=lambda node, seed: (node.name, seed),
            connect=lambda node, process, network, alive: Client(spawner.log, node.name),
        )  # fmt: skip
        group = SwitchGroup(network, backend, spawner, tmp_path, 3, repetition)
        group.wait_ready()
        return group, spawner

    return made


def test_switches_are_started_with_seeds_and_logs_of_their_own(switches, tmp_path):
    group, spawner = switches()
    assert [each.arguments for each in spawner.spawned] == [("s1", 3000), ("s2", 3001)]
    assert [each.log for each in spawner.spawned] == [tmp_path / "s1.log", tmp_path / "s2.log"]
    assert [each.namespace for each in spawner.spawned] == [100, 101]
    assert set(group.clients) == {"s1", "s2"} == group.by_thread
    _, spawner = switches(repetition=2)
    assert [each.log.name for each in spawner.spawned] == ["s1-r2.log", "s2-r2.log"]


def test_a_paused_switch_has_no_client(switches):
    group, spawner = switches()
    client = group.clients["s1"]
    group.pause("s1")
    assert set(group.clients) == {"s2"} and spawner.log[-1] == ("SIGSTOP", "s1-r0")
    group.resume("s1")
    assert group.clients["s1"] is client and spawner.log[-1] == ("SIGCONT", "s1-r0")


def test_a_switch_is_killed_and_started_again(switches):
    group, spawner = switches()
    group.pause("s2")
    del spawner.log[:]
    group.restart("s2")
    assert spawner.log == [
        ("SIGKILL", "s2-r0"), ("close", "s2"), ("spawn", "s2-r0"), ("started", "s2-r0")
    ]  # fmt: skip
    assert spawner.spawned[-1].arguments == ("s2", 3001) and set(group.clients) == {"s1", "s2"}
    group.kill("s1")
    assert set(group.processes) == set(group.clients) == {"s2"} and group.nodes[0].client is None
    group.check()
    group.processes["s2"].code = 1
    with pytest.raises(RunError, match="the process of switch s2 ended"):
        group.check()


def test_switches_are_asked_to_end_and_then_made_to(switches):
    for stubborn in (False, True):
        group, spawner = switches(stubborn=stubborn)
        group.processes["s2"].code = 0
        del spawner.log[:]
        group.stop()
        kill = [("SIGKILL", "s1-r0")] if stubborn else []
        assert spawner.log == [("close", "s1"), ("close", "s2"), ("SIGTERM", "s1-r0"), *kill]
        assert group.clients == {} and all(node.client is None for node in group.nodes)


def test_a_switch_that_does_not_answer_is_named_with_its_end(switches, monkeypatch):
    group, spawner = switches()

    def refuse(*_):
        raise RunError("no answer")

    monkeypatch.setattr(group.backend, "connect", refuse)
    with pytest.raises(RunError, match="no answer"):
        group.wait_ready()
    spawner.spawned[0].code = 1
    with pytest.raises(RunError, match="the process of switch s1 ended"):
        group.wait_ready()


def test_calls_of_a_switch_that_fail_are_told_with_its_end(switches):
    group, spawner = switches()
    with group.asked("s2", "cannot be read") as client:
        assert client is group.clients["s2"]
    process = group.processes["s2"]
    process.last_words = "its last words"

    def fail():
        with group.asked("s2", "cannot be read"):
            raise P4Error(["no answer"])

    hours = itertools.count(0, 3600)
    clock = SimpleNamespace(monotonic=lambda: next(hours), sleep=lambda _: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(switch_group, "time", clock)
        with pytest.raises(RunError, match="^switch s2 cannot be read: no answer") as caught:
            fail()
    assert "its last words" in str(vars(caught.value))
    codes = iter([None, None, 1])  # its end is told only after some time
    spawner.pump = lambda: setattr(process, "code", next(codes))
    with pytest.raises(RunError, match="the process of switch s2 ended"):
        fail()


def test_what_a_host_says_is_noted(tmp_path):
    text = """
        topology: {kind: star, hosts: 3}
        system: ps
        jobs: [{model: resnet18, workers: 2, iterations: 1, scale: 0.001}]
    """
    specs, spawner = host_specs(set_up(load_text(text))), Spawner()
    group = HostGroup(specs, spawner, dict(h1=11, h2=12, h3=13), tmp_path, 0)
    host, channel = group.hosts[0], spawner.spawned[0].channel
    assert host.receive() and not host.ready and not host.joined
    host.row[board.STILL_NS], host.row[board.COUNTERS] = 5, 7
    assert host.totals["still_ns"] == 5 and host.totals[COUNTER_NAMES[0]] == 7
    wish = {"key": "a", "rank": 0, "size": 2, "ranks": None}
    said = [
        *({"ready": True}, {"joined": True}, {"wanted": wish}, {"withdrawn": "a"}, {"made": 3}),
        *({"left": 3, "calls": 9}, {"disagree": "barrier"}, {"done": {"still_ns": 6}}),
    ]
    for message in said:
        channel.send(json.dumps(message).encode())
    assert host.receive() and host.ready and host.joined
    assert (host.wanted, host.withdrawn) == ([wish], ["a"])
    assert (host.made, host.left) == ({3}, {3: 9})
    assert (host.disagreed, host.totals) == ("barrier", {"still_ns": 6})
    assert not host.counted
    channel.send(b'{"counted": {"results": 4}}')
    assert host.receive() and host.counted and host.totals == {"still_ns": 6, "results": 4}
    channel.send(b'{"failed": "no memory"}')
    with pytest.raises(RunError, match="no memory"):
        host.receive()
    channel.close()
    assert not host.receive()
    group.close()
    for each in spawner.spawned[1:]:
        each.channel.close()


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("repetition, suffix", [(0, ""), (2, "-r2")])
def test_hosts_are_started_told_and_ended(tmp_path, watched, repetition, suffix):
    text = """
        topology: {kind: star, hosts: 3}
        system: ps
        jobs: [{model: resnet18, workers: 2, iterations: 1, scale: 0.001}]
    """
    specs, spawner = host_specs(set_up(load_text(text))), Spawner()
    names = {"h1": 11, "h2": 12, "h3": 13}
    group = HostGroup(specs, spawner, names, tmp_path, repetition, watched=watched)
    assert [each.log.name for each in spawner.spawned] == [f"h{n}{suffix}.log" for n in (1, 2, 3)]
    assert [each.namespace for each in spawner.spawned] == [11, 12, 13]
    assert [each.arguments["row"] for each in spawner.spawned] == [0, 1, 2]
    own = [each.arguments["times"] is not None for each in spawner.spawned]
    assert own == [watched, watched, False]
    assert [(each.job, each.worker) for each in group.times()] == [(0, 0), (0, 1)] * watched
    with pytest.raises(RunError, match="no start of the host processes"):
        group.wait_ready()
    for each in spawner.spawned:
        each.channel.send(b'{"ready": true}')
    group.wait_ready()
    group.start(77)
    assert [each.channel.recv(100) for each in spawner.spawned] == [b'{"start_ns": 77}'] * 3
    group.hosts[0].row[board.ITERATION], group.hosts[1].row[board.ITERATION] = 3, 2
    group.hosts[0].row[board.BYTES_SENT], group.hosts[1].row[board.BYTES_SENT] = 10, 20
    assert tuple(group.work(0))[:2] == (2, 30) and group.jobs() == [0]
    spawner.spawned[1].code = 1
    with pytest.raises(RunError, match="the process of host h2 .* ended"):
        group.wait_ready()
    shared = [file for file in (group._board, group._times_file) if file is not None]
    assert len(shared) == 1 + watched
    del spawner.log[:]
    group.close()
    assert spawner.log == [("SIGKILL", f"h1-r{repetition}"), ("SIGKILL", f"h3-r{repetition}")]
    assert [file for file in shared if Path(f"/proc/self/fd/{file}").is_symlink()] == []
    for each in spawner.spawned:
        each.channel.close()


@pytest.fixture
def session(tmp_path):
    ends = SimpleNamespace(name="s1-eth2"), SimpleNamespace(name="h1-eth1")
    link = SimpleNamespace(intf1=ends[0], intf2=ends[1])
    for end in ends:
        end.link = link
    network = {"s1": SimpleNamespace(nameToIntf={"s1-eth2": ends[0]})}
    spawner = Spawner()

    class Network(dict):
        holders = {"s1": SimpleNamespace(pid=5), "h1": SimpleNamespace(pid=6)}

    noted = []
    return SimpleNamespace(
        nodes=spawner, network=Network(network), logs=tmp_path, noted=noted,
        note_processes=lambda: noted.append(len(spawner.spawned)),
    )  # fmt: skip


def test_a_capture_listens_at_both_ends_until_it_is_over(session, tmp_path, capsys):
    folder = tmp_path / "pcap"
    captures = Captures([CapturedPort("s1", 2, "h1")], session, folder, Path("program.so"))

    def written(processes):
        (folder / "s1-2.pcapng").touch()

    session.nodes.wait_started = written
    with captures:
        (process,) = session.nodes.spawned
        assert process.arguments == {
            "switch": 5, "peer": 6, "interface": "s1-eth2", "peer_interface": "h1-eth1",
            "path": str(folder / "s1-2.pcapng"), "title": "port 2 of s1, to h1",
            "library": "program.so",
        }  # fmt: skip
        assert session.noted == [1] and process.log == tmp_path / "capture-s1-2.log"
        process.said = "3 of 9 packets were missed"
        session.nodes.signal = lambda each, number: setattr(each, "code", 0)
    assert capsys.readouterr().err == "warning: capture s1:2: 3 of 9 packets were missed\n"


def test_a_capture_that_breaks_off_is_an_error(session, tmp_path, monkeypatch):
    wanted = [CapturedPort("s1", 2, "h1")]
    session.nodes.wait_started = lambda processes: (tmp_path / "a" / "s1-2.pcapng").touch()
    with (
        pytest.raises(RunError, match="the capture of s1:2 broke off"),
        Captures(wanted, session, tmp_path / "a", None),
    ):
        pass
    session.nodes.wait_started = lambda processes: None
    monkeypatch.setattr(capturing, "START_S", 0.05)
    with (
        pytest.raises(RunError, match="cannot capture s1:2"),
        Captures(wanted, session, tmp_path / "b", None),
    ):
        pass
    with Captures([], session, tmp_path / "c", None):
        assert not (tmp_path / "c").exists()


def test_a_process_that_reads_no_messages_does_not_hold_up_the_runner(monkeypatch):
    """It is stopped, and its socket is full."""
    monkeypatch.setattr(controlled, "SEND_TIMEOUT_S", 1)
    talk = Controlled()
    talk.control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    talk.control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    with talk.control, other:
        for _ in range(3):
            talk.send(words="x" * 1800)
        other.setblocking(False)
        assert len(other.recv(4096)) == len(other.recv(4096)) > 1800


def test_messages_come_in_order_until_the_process_has_gone():
    talk = Controlled()
    talk.control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with talk.control:
        assert talk.fileno() == talk.control.fileno() and talk.heard() == ([], True)
        other.send(b'{"a": 1}')
        other.send(b'{"b": 2}')
        assert talk.heard() == ([{"a": 1}, {"b": 2}], True)
        talk.send(start=True)
        assert other.recv(100) == b'{"start": true}'
        other.send(b'{"done": 3}')
        other.close()
        talk.send(stop=True)  # which nobody reads
        assert talk.heard() == ([{"done": 3}], False)
