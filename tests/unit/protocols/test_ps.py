"""The plain parameter server, packet by packet: results go to each worker in turn."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.protocols import ps, wire
from tests.support.one_host import FULL, OneServer, Packet

US, MS = 1000, 1_000_000
FIRST = 1  # the workers' destinations begin here
EVERYBODY = (0, 1, 2)


def new(**options) -> OneServer:
    return OneServer("ps", **{"timeout": "2 ms", **options})


def complete(server: OneServer, fragment: int, now: int, iteration: int = 0) -> list[Packet]:
    parts = [server.gradient(fragment, worker, iteration=iteration) for worker in EVERYBODY]
    return server.step(now, *parts)


def who(sent: list[Packet]) -> list[tuple[int, int]]:
    """(worker, fragment) of results."""
    assert {packet.kind for packet in sent} <= {wire.RESULT}
    return [(packet.destination - FIRST, packet.fragment) for packet in sent]


def test_each_worker_gets_the_sum():
    server = new()
    sent = complete(server, 4, 1)
    assert who(sent) == [(0, 4), (1, 4), (2, 4)]
    for packet in sent:
        assert packet.values == server.sum_of(EVERYBODY, 4)
    assert server.counters["results"] == 1


def test_a_result_names_the_one_that_all_workers_got_before_it():
    server = new()
    assert {packet.extra for packet in complete(server, 4, 1)} == {0}
    assert {packet.extra for packet in complete(server, 7, 2)} == {1 + 4}
    assert {packet.extra for packet in complete(server, 0, 3)} == {1 + 7}
    (again,) = server.step(4, server.gradient(4, 1, flags=wire.RESEND))
    assert (again.kind, again.destination) == (wire.RESULT_ONE, FIRST + 1)
    assert {packet.extra for packet in complete(server, 1, 5)} == {1 + 0}


def test_results_are_paced_and_go_round_in_order():
    """A packet of 86 bytes takes 688 us at 1 Mbit/s; what is late by up to 10 ms is made up for."""
    server = new(keys="links: {bandwidth: 1 Mbit/s}")
    late = 10 * MS // 688_000 + 1  # so many go at once
    now = 100 * MS
    parts = [server.gradient(f, w) for f in range(9) for w in EVERYBODY]
    seen = who(server.step(now, *parts))
    assert len(seen) == late
    paced_ns = now - 10 * MS + late * 688_000
    while len(seen) < 27:
        assert server.deadline == paced_ns
        now, paced_ns = server.deadline, paced_ns + 688_000
        assert server.step(now - 1) == []
        seen += who(server.step(now))
    assert seen == [(worker, fragment) for fragment in range(9) for worker in EVERYBODY]
    assert server.step(now + 100 * MS) == [] and server.deadline > 10**18


def test_what_is_served_again_takes_its_time_on_the_link():
    server = new(keys="links: {bandwidth: 1 Mbit/s}")
    now = 100 * MS
    sent = complete(server, 0, now)
    assert len(sent) == 3
    again = [server.gradient(0, worker, flags=wire.RESEND) for worker in EVERYBODY]
    assert len(server.step(now, *again)) == 3
    parts = [server.gradient(f, w) for f in range(1, 9) for w in EVERYBODY]
    assert len(server.step(now, *parts)) == 15 - 6


def test_results_and_what_is_served_again_may_come_of_one_batch():
    server = new()
    complete(server, 4, 1)
    came = [server.gradient(5, worker) for worker in EVERYBODY]
    came.insert(1, server.gradient(4, 2, flags=wire.RESEND))
    came.append(server.gradient(4, 0, flags=wire.RESEND))
    first, second, *results = server.step(2, *came)
    for again, worker in ((first, 2), (second, 0)):
        assert (again.kind, again.fragment) == (wire.RESULT_ONE, 4)
        assert (again.destination, again.length) == (FIRST + worker, FULL)
        assert again.values == server.sum_of(EVERYBODY, 4)
    assert who(results) == [(0, 5), (1, 5), (2, 5)]


def test_what_is_served_again_beside_results_keeps_its_length():
    server = new(zeros="header_only")
    server.step(1, *[server.gradient(4, w, numbers=[0, 0, 0, 0]) for w in EVERYBODY])
    came = [server.gradient(5, w) for w in EVERYBODY]
    came.append(server.gradient(4, 0, flags=wire.RESEND))
    again, *results = server.step(2, *came)
    assert (again.kind, again.length) == (wire.RESULT_ONE_ZEROS, FULL - 16)
    assert {packet.length for packet in results} == {FULL}


def test_a_batch_that_is_full_goes_on_at_once():
    server = new(room=8)
    sent = server.step(1, *[server.gradient(f, worker) for f in (4, 5) for worker in EVERYBODY])
    assert who(sent) == [(worker, fragment) for fragment in (4, 5) for worker in EVERYBODY]
    server = new(room=4)
    server.step(1, *[server.gradient(f, worker) for f in (4, 5) for worker in (0, 1)])
    sent = server.step(2, *[server.gradient(f, 2) for f in (4, 5)])
    assert who(sent) == [(0, 4), (1, 4), (2, 4), (0, 5)] and server.deadline == 0
    assert who(server.step(2)) == [(1, 5), (2, 5)] and server.deadline > 10**18


def test_a_result_whose_row_is_used_again_is_passed_over():
    """All workers have got it by asking, since they have gone on."""
    server = new(keys="links: {bandwidth: 1 kbit/s}")
    now = 10_000 * MS
    assert len(complete(server, 0, now)) == 1
    complete(server, 1, now)
    for iteration in (1, 2):
        server.step(now, server.gradient(0, 0, iteration=iteration))
    sent = []
    for _ in range(20):
        if server.deadline > 10**18:
            break
        now = server.deadline
        sent += server.step(now)
    results = who([packet for packet in sent if packet.kind == wire.RESULT])
    assert results == [(0, 1), (1, 1), (2, 1)]


def test_lost_gradients_are_asked_for_without_reminders():
    server = new(keys="timers: {min_reminder_delay: 1 ms}")
    server.step(1000, server.gradient(0, 0), server.gradient(0, 2))
    seen = []
    for _ in range(4):
        seen += server.step(server.deadline)
    assert {(packet.kind, packet.destination) for packet in seen} == {(wire.ASK, FIRST + 1)}
    assert "reminders" not in server.counters


@pytest.mark.parametrize("number", [0, 1])
def test_several_servers_have_fragments_of_their_own(number):
    server = new(number=number, servers=2)
    assert server.spec.peers == new(servers=2).spec.peers
    sent = complete(server, number, 1)
    assert who(sent) == [(worker, number) for worker in EVERYBODY]


def test_a_fragment_has_one_server_in_all_iterations():
    packets = np.zeros((7, 8), np.uint32)
    wholes = [0, 1, 2, 9, 10, 11, 25]  # of iterations of 10 fragments
    for row, whole in zip(packets, wholes, strict=True):
        wire.write_header(row, wire.GRADIENT, 1, 0, 0, 0, whole, 0, 0)
    destinations = np.full(7, 9, np.int64)
    ps.shard(packets, destinations, 6, 10, 3)
    assert destinations.tolist() == [0, 1, 2, 0, 0, 1, 9]
    ps.shard(packets, destinations, 7, 10, 1)
    assert destinations.tolist() == [0] * 7
