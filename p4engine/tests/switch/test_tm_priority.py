"""Several egress queues of a port: which packet is next, limits, rates and counts of each."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from p4engine.control.commands import Commands
from p4engine.switch.traffic_manager import SwitchError
from p4engine_testing.programs import switch, words
from test_tm_pipeline import seen

SECOND = 10**9


def queues(manager, port: int) -> list[dict]:
    return [row for row in manager.queue_stats() if row["port"] == port]


def counters(manager, port: int) -> dict:
    return next(
        row for row in manager.port_stats() if (row["port"], row["direction"]) == (port, "egress")
    )


def numbers(out: list[tuple[int, int, bytes]]) -> list[int]:
    """The last byte of each packet, in order of leaving."""
    return [data[-1] for _, _, data in out]


def test_the_highest_priority_is_served_first(make, packet):
    tm = make(ports=[1, 2], priority_queues=4)
    tm.port_shape(2, "egress", rate_bps=512_000_000)  # 64 bytes: 1000 ns
    for priority in (0, 1, 0, 3, 2, 1, 3):
        tm.receive(1, packet("Q", 2, priority), 0)
    out = tm.run()
    assert [data[2] for _, _, data in out] == [0, 3, 3, 2, 1, 1, 0]
    assert [data[1] for _, _, data in out] == [0, 3, 3, 2, 1, 1, 0]  # qid
    assert [time_ns for time_ns, _, _ in out] == [1000 * n for n in range(1, 8)]


def test_a_queue_is_first_in_first_out(make, packet):
    tm = make(ports=[1, 2], priority_queues=2)
    tm.port_shape(2, "egress", rate_bps=512_000_000)
    for n in range(20):
        tm.receive(1, packet("Q", 2, n % 2)[:-1] + bytes([n]), 0)
    assert numbers(tm.run()) == [0, *range(1, 20, 2), *range(2, 20, 2)]


def test_a_packet_on_the_wire_is_not_interrupted_and_a_low_queue_can_starve(make, packet):
    tm = make(ports=[1, 2], priority_queues=2)
    tm.port_shape(2, "egress", rate_bps=512_000_000)
    tm.receive(1, packet("Q", 2, 0), 0)
    tm.receive(1, packet("Q", 2, 0), 0)
    for n in range(50):  # one comes while the one before is on the wire
        tm.receive(1, packet("Q", 2, 1), 1000 * n + 500)
    assert [data[2] for _, _, data in tm.run()] == [0] + [1] * 50 + [0]


def test_priorities_without_a_queue(make, packet):
    tm = make(ports=[1, 2], priority_queues=2)
    for priority in (0, 1, 2, 255):
        tm.receive(1, packet("Q", 2, priority), 0)
    assert [data[2] for _, _, data in tm.run()] == [0, 1]
    assert counters(tm, 2)["queue_drops"] == 2
    assert [row["queue_drops"] for row in queues(tm, 2)] == [0, 0]


def test_with_one_queue_the_priority_means_nothing(make, packet):
    tm = make(ports=[1, 2])
    tm.port_shape(2, "egress", rate_bps=512_000_000)
    for priority in (0, 7, 3, 255):
        tm.receive(1, packet("Q", 2, priority), 0)
    out = tm.run()
    assert [(data[1], data[2]) for _, _, data in out] == [(0, 0), (0, 7), (0, 3), (0, 255)]


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


def test_the_limit_in_bytes_is_each_queues(make, packet):
    tm = make(ports=[1, 2], priority_queues=2)
    tm.port_shape(2, "egress", rate_bps=8_000_000, queue_packets=None, queue_bytes=300)
    for size in (64, 100, 200, 100):  # on the wire; 100; 300; full
        tm.receive(1, packet("Q", 2, 0, size=size), 0)
    tm.receive(1, packet("Q", 2, 1, size=250), 0)
    assert [len(data) for _, _, data in tm.run()] == [64, 250, 100, 200]


def test_packets_and_bytes_of_each_queue(make, packet):
    tm = make(ports=[1, 2, 3], priority_queues=3)
    tm.port_shape(2, "egress", rate_bps=512_000_000)
    for priority, size in ((0, 64), (2, 100), (2, 50), (0, 70)):
        tm.receive(1, packet("Q", 2, priority, size=size), 0)
    tm.receive(1, packet("Q", 3, 1, size=33), 0)
    tm.receive(1, packet("d", 2), 0)  # egress drops it: the link carries nothing
    tm.run()
    rows = queues(tm, 2)
    assert [(row["packets"], row["bytes"]) for row in rows] == [(2, 134), (0, 0), (2, 150)]
    assert [row["max_queue"] for row in rows] == [2, 0, 2]
    assert (counters(tm, 2)["packets"], counters(tm, 2)["bytes"]) == (4, 284)
    assert [(row["packets"], row["bytes"]) for row in queues(tm, 3)] == [(0, 0), (1, 33), (0, 0)]
    tm.stats_reset()
    assert {row["packets"] + row["max_queue"] for row in tm.queue_stats()} == {0}


def test_one_queue_is_a_row_of_the_links_counts(make, packet):
    tm = make(ports=[1, 2])
    tm.port_shape(2, "egress", rate_bps=512_000_000, queue_packets=1)
    for _ in range(4):
        tm.receive(1, packet("U", 2), 0)
    [row] = queues(tm, 2)
    assert (row["priority"], row["queue"], row["queue_drops"], row["packets"]) == (0, 1, 2, 1)


def test_queueing_metadata_is_of_the_packets_queue(make, packet):
    tm = make(ports=[1, 2], priority_queues=2)
    tm.port_shape(2, "egress", rate_bps=512_000_000)
    tm.receive(1, packet("Q", 2, 0), 0)
    for priority in (0, 0, 1, 1, 1):
        tm.receive(1, packet("Q", 2, priority, size=24, meta=True), 0)
    got = [(data[2], seen(data)) for _, _, data in tm.run()[1:]]
    assert [priority for priority, _ in got] == [1, 1, 1, 0, 0]
    assert [meta["enq_qdepth"] for _, meta in got] == [0, 1, 2, 0, 1]
    assert [meta["deq_qdepth"] for _, meta in got] == [2, 1, 0, 1, 0]
    assert [meta["deq_timedelta"] for _, meta in got] == [1, 2, 3, 4, 5]  # microseconds


def test_the_rate_in_packets_limits_each_queue_on_its_own(make, packet):
    tm = make(ports=[1, 2], priority_queues=2)
    tm.queue_rate(3, 2)
    tm.queue_rate(7, 2, 1)
    for priority in (0, 1):
        for _ in range(20):
            tm.receive(1, packet("Q", 2, priority), 0)
    out = tm.run()
    for priority, rate in ((0, 3), (1, 7)):
        times = [time_ns for time_ns, _, data in out if data[2] == priority]
        assert times == [int(Fraction(n * SECOND, rate)) for n in range(20)]
    assert [row["rate_pps"] for row in queues(tm, 2)] == [3, 7]
    assert tm.port_shape_get(2, "egress")["rate_pps"] == 3


def test_a_limited_high_queue_leaves_the_link_to_the_low_one(make, packet):
    tm = make(ports=[1, 2], priority_queues=2)
    tm.port_shape(2, "egress", rate_bps=512_000_000)
    tm.queue_rate(250_000, 2, 1)  # one in 4000 ns
    for _ in range(9):
        tm.receive(1, packet("Q", 2, 0), 0)
    for _ in range(3):
        tm.receive(1, packet("Q", 2, 1), 0)
    out = tm.run()
    assert [data[2] for _, _, data in out] == [0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0]
    assert [time_ns for time_ns, _, _ in out] == [1000 * n for n in range(1, 13)]


def test_a_rate_that_is_lifted_holds_nothing_back(make, packet):
    tm = make(ports=[1, 2], priority_queues=2)
    tm.queue_rate(1)
    for _ in range(3):
        tm.receive(1, packet("Q", 2, 1), 0)
    assert [time_ns for time_ns, _, _ in tm.advance(1000)] == [0]
    tm.queue_rate(0)
    assert [time_ns for time_ns, _, _ in tm.run()] == [1000, 1000]


def test_against_a_model(make, packet):
    """Random arrivals: the link always takes the first packet of the highest queue."""
    rng = random.Random(5)
    for _ in range(20):
        tm = make(ports=[1, 2], priority_queues=3)
        tm.port_shape(2, "egress", rate_bps=512_000_000, queue_packets=3)
        arrivals, time_ns = [], 0
        for n in range(120):
            time_ns += rng.choice([0, 0, 300, 700, 1500, 2500]) + 1
            arrivals.append((time_ns, rng.randrange(3), n))
            tm.receive(1, packet("Q", 2, arrivals[-1][1])[:-1] + bytes([n]), time_ns)
        waiting, free, left = {0: [], 1: [], 2: []}, 0, []

        def serve(until: int, waiting=waiting, left=left):
            nonlocal free
            while any(waiting.values()) and free <= until:
                highest = max(p for p in waiting if waiting[p])
                left.append((free + 1000, waiting[highest].pop(0)))
                free += 1000

        for at, priority, n in arrivals:
            serve(at)
            if free <= at and not any(waiting.values()):
                left.append((at + 1000, n))
                free = at + 1000
            elif len(waiting[priority]) < 3:
                waiting[priority].append(n)
        serve(10**12)
        assert [(time_ns, data[-1]) for time_ns, _, data in tm.run()] == left


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
