"""Several egress queues of a port: which packet is next, limits, rates and counts of each."""

from __future__ import annotations

import pytest
from p4engine.control.commands import Commands
from p4engine.switch.traffic_manager import SwitchError
from p4engine_testing.programs import switch, words

SECOND = 10**9


def queues(manager, port: int) -> list[dict]:
    return [row for row in manager.queue_stats() if row["port"] == port]


def counters(manager, port: int) -> dict:
    return next(
        row for row in manager.port_stats() if (row["port"], row["direction"]) == (port, "egress")
    )


def test_every_queue_has_a_limit_of_its_own(make, packet):
    tm = make(ports=[1, 2], priority_queues=3)
    tm.port_shape(2, "egress", rate_bps=512_000_000, queue_packets=4)
    tm.queue_depth(1, 2, 1)
    tm.receive(1, packet("Q", 2, 0), 0)  # on the wire
    for priority in (0, 1, 2):
        for _ in range(6):
            tm.receive(1, packet("Q", 2, priority), 0)
    rows = queues(tm, 2)
    assert [row["queue"] for row in rows] == [4, 1, 4]
    assert [row["queue_drops"] for row in rows] == [2, 5, 2]
    assert [row["queue_packets"] for row in rows] == [4, 1, 4]
    assert (counters(tm, 2)["queue"], counters(tm, 2)["queue_drops"]) == (9, 9)
    assert len(tm.run()) == 10
    tm.queue_depth(7, 2)
    assert [row["queue_packets"] for row in queues(tm, 2)] == [7, 7, 7]
    assert tm.port_shape_get(2, "egress")["queue_packets"] == 7
    tm.queue_rate(3, 2)
    tm.queue_rate(7, 2, 1)
    assert [row["rate_pps"] for row in queues(tm, 2)] == [3, 7, 3]
    assert tm.port_shape_get(2, "egress")["rate_pps"] == 3
    tm.stats_reset()
    assert {row["packets"] + row["max_queue"] for row in tm.queue_stats()} == {0}


def test_another_rate_begins_without_fractions_of_a_nanosecond(make, packet):
    """Those of the rate before are not added to later ones."""
    tm = make(ports=[1, 2], priority_queues=2)
    tm.queue_rate(900_000_007, 2)
    tm.receive(1, packet("Q", 2, 1), 0)
    tm.queue_rate(10**7, 2, 1)
    for _ in range(3):
        tm.receive(1, packet("Q", 2, 1), 0)
    assert [time_ns for time_ns, _, _ in tm.run()] == [0, 1, 101, 201]


def test_a_rate_that_is_lifted_holds_nothing_back(make, packet):
    tm = make(ports=[1, 2], priority_queues=2)
    tm.queue_rate(1)
    for _ in range(3):
        tm.receive(1, packet("Q", 2, 1), 0)
    assert [time_ns for time_ns, _, _ in tm.advance(1000)] == [0]
    tm.queue_rate(0)
    assert [time_ns for time_ns, _, _ in tm.run()] == [1000, 1000]


def test_copies_of_a_multicast_keep_the_priority_and_clones_begin_at_0(tmp_path):
    s = switch(
        tmp_path,
        apply="standard.priority = (bit<3>) hdr.h.a; if (hdr.h.b == 1) standard.mcast_grp = 1;"
        " else clone(CloneType.I2E, 5);",
        options={"ports": [0, 1, 2], "priority_queues": 8},
    )
    s.multicast_group(1, [(1, 0), (2, 0)])
    s.mirror_session(5, port=2)
    s.receive(0, words(6, 1, 0), 0)
    s.receive(0, words(3, 0, 0), 0)
    s.run()
    used = {
        (row["port"], row["priority"]): row["packets"] for row in s.queue_stats() if row["packets"]
    }
    assert used == {(1, 6): 1, (2, 6): 1, (1, 3): 1, (2, 0): 1}


def test_qid_of_a_programs_own_v1model(tmp_path):
    from p4engine.frontend.preprocessor.preprocess import BUILTIN_INCLUDE

    own = (BUILTIN_INCLUDE / "v1model" / "v1model.p4").read_text()
    field = '@alias("queueing_metadata.qid") bit<8> qid;\n    bit<1>  checksum_error;'
    assert own.count("bit<1>  checksum_error;") == 1
    (tmp_path / "my_v1model.p4").write_text(own.replace("bit<1>  checksum_error;", field))
    s = switch(
        tmp_path,
        top='#include "my_v1model.p4"',
        apply="standard.priority = (bit<3>) hdr.h.a; standard.qid = 9;",
        egress="hdr.h.b = (bit<32>) standard.qid;",
        include="core.p4",
        options={"priority_queues": 8},
    )
    s.receive(0, words(5, 0, 0), 0)
    assert [data for _, _, data in s.run()] == [words(5, 5, 0)]


def test_settings_that_cannot_be(make):
    with pytest.raises(SwitchError, match="priority_queues is 1 to 256, not 0"):
        make(ports=[1], priority_queues=0)
    with pytest.raises(SwitchError, match="257"):
        make(ports=[1], priority_queues=257)
    tm = make(ports=[1, 2], priority_queues=3)
    with pytest.raises(SwitchError, match="there is no queue 3: the priorities are 0 to 2"):
        tm.queue_rate(5, 1, 3)
    with pytest.raises(SwitchError, match="no such port"):
        tm.queue_depth(5, 7, 1)
    with pytest.raises(SwitchError, match="out of range"):
        tm.queue_rate(10**12, 1, 1)
    with pytest.raises(SwitchError, match="there is no queue 1: the priorities are 0 "):
        make(ports=[1]).queue_depth(5, 1, 1)


def test_the_commands_of_bmv2(tmp_path):
    s = switch(tmp_path, options={"ports": [1, 2], "priority_queues": 2})
    commands = Commands(s)
    for line in ("set_queue_depth 9", "set_queue_depth 8 2", "set_queue_depth 7 2 1"):
        commands.run(line)
    for line in ("set_queue_rate 100", "set_queue_rate 0 2", "set_queue_rate 50 2 0"):
        commands.run(line)
    assert [row["queue_packets"] for row in s.queue_stats()] == [9, 9, 8, 7]
    assert [row["rate_pps"] for row in s.queue_stats()] == [100, 100, 50, 0]


def test_another_program_empties_the_queues(tmp_path):
    s = switch(
        tmp_path,
        apply="standard.priority = (bit<3>) hdr.h.a;",
        options={"ports": [1], "priority_queues": 2},
    )
    other = switch(tmp_path, apply="hdr.h.c = 1;")
    s.queue_rate(1)
    for priority in (0, 0, 1, 1, 1):
        s.receive(1, words(priority, 0, 0), 0)
    s.install(other.compiled)
    assert [row["queue_drops"] for row in s.queue_stats()] == [1, 2]
    assert (s.port_stats()[1]["queue_drops"], s.port_stats()[1]["queue"]) == (3, 0)
    assert len(s.run()) == 2
    s.receive(1, words(0, 0, 0), 5 * SECOND)
    assert s.run() == [(5 * SECOND, 1, words(0, 0, 1))]
