"""Background flows on Mininet, with a spawner that only remembers and ends that the test plays."""

from __future__ import annotations

import json
import time

import pytest
from p4fabric.base.errors import RunError
from p4fabric.base.flow import Flow

from testbed.emulate import flow_group
from testbed.emulate.flow_group import FlowGroup
from testbed.experiment.schema_background import Background
from testbed.topos import star
from tests.support.fake_processes import Spawner


def flow(number, name, source, target, **keys):
    given = Background.model_validate({"from": source, "to": target, **keys})
    return Flow(number, number, name, given, source, target)


UDP = flow(0, "steady", "h1", "h2", kind="udp", rate="1 Mbit/s")
TCP = flow(1, "bursts", "h2", "h3", kind="tcp", start="5 ns", burst="100 B", every="1 us")


@pytest.fixture
def flows(tmp_path, monkeypatch):
    monkeypatch.setattr(flow_group, "DRAIN_S", 0)
    spawner = Spawner()
    namespaces = {"h1": 11, "h2": 12, "h3": 13}
    made = FlowGroup([UDP, TCP], star.Star(hosts=3), spawner, namespaces, tmp_path, 2)
    ends = {(e.arguments["flow"]["number"], e.arguments["end"]): e for e in spawner.spawned}
    yield made, ends, spawner
    made.close()
    for process in ends.values():
        process.channel.close()


def say(process, **message):
    process.channel.send(json.dumps(message).encode())


def test_each_flow_has_an_end_at_each_host(flows, tmp_path):
    _, ends, _ = flows
    assert {place: each.namespace for place, each in ends.items()} == {
        (0, "receiver"): 12, (0, "sender"): 11, (1, "receiver"): 13, (1, "sender"): 12
    }  # fmt: skip
    assert ends[0, "sender"].arguments["address"] == ends[0, "receiver"].arguments["address"]
    told = ends[0, "sender"].arguments["flow"], ends[1, "sender"].arguments["flow"]
    assert [each["rate_bps"] for each in told] == [10**6, None]
    assert [each["congestion_control"] for each in told] == [None, "reno"]
    assert ends[1, "receiver"].log == tmp_path / "flow-1-receiver-r2.log"


def test_what_both_ends_have_counted_is_a_row(flows, monkeypatch):
    group, ends, _ = flows
    with pytest.raises(RunError, match="no start of the background flows"):
        group.wait_ready()
    for each in ends.values():
        say(each, ready=True)
    group.wait_ready()
    group.start(1000)
    assert {each.channel.recv(100) for each in ends.values()} == {b'{"start_ns": 1000}'}
    say(ends[0, "sender"], done={"packets_sent": 7}, still_ns=0)
    say(ends[0, "receiver"], done={"packets_received": 8, "different": 5, "bytes": 500}, still_ns=4)
    say(ends[1, "sender"], done={"lost": 3, "bursts": [10, 21]}, still_ns=0)
    say(ends[1, "receiver"], done={"bytes": 200}, still_ns=0)
    monkeypatch.setattr(time, "monotonic_ns", lambda: 2000)
    group.stop()
    assert {each.channel.recv(100) for each in ends.values()} == {b'{"stop": true}'}
    named = ("packets_sent", "packets_received", "lost", "bursts", "burst_mean_ns", "burst_max_ns")
    udp, tcp = group.rows()
    assert [udp[name] for name in named] == [7, 8, 2, None, None, None]
    assert [tcp[name] for name in named] == [None, None, 3, 2, 15, 21]
    assert [(row["bytes"], row["ended_ns"]) for row in (udp, tcp)] == [(500, 1000), (200, 1000)]
    stood = dict(group.standstills())
    assert stood.pop("receiver of background flow steady (udp, h1 to h2)") == 4
    assert set(stood.values()) == {0} and len(stood) == 3


def test_a_flow_that_cannot_be_honoured_ends_the_run(flows):
    group, ends, _ = flows
    say(ends[0, "sender"], failed="it is too slow")
    with pytest.raises(RunError, match=r"flow steady \(udp, h1 to h2\): it is too slow"):
        group.wait_ready()


def test_an_end_that_dies_is_named(flows):
    group, ends, _ = flows
    ends[1, "receiver"].code = 1
    ends[1, "receiver"].said = "its last words"
    with pytest.raises(RunError, match="the receiver of background flow bursts .* ended"):
        group.wait_ready()


def test_what_still_runs_is_killed(flows):
    group, ends, spawner = flows
    ends[0, "sender"].code = 0
    group.close()
    killed = [name for what, name in spawner.log if what == "SIGKILL"]
    assert sorted(killed) == ["flow-0-receiver-r2", "flow-1-receiver-r2", "flow-1-sender-r2"]


def test_without_flows_nothing_is_done(tmp_path):
    group = FlowGroup([], star.Star(hosts=3), None, {}, tmp_path, 0)
    group.wait_ready()
    group.start(1)
    group.stop()
    group.close()
    assert group.rows() == group.standstills() == []
