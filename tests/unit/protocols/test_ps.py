"""The plain parameter server: results go to each worker in turn, at the pace of its link."""

from __future__ import annotations

import numpy as np

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


def test_what_is_served_again_beside_results_keeps_its_length():
    server = new(zeros="header_only")
    server.step(1, *[server.gradient(4, w, numbers=[0, 0, 0, 0]) for w in EVERYBODY])
    came = [server.gradient(5, w) for w in EVERYBODY]
    came.append(server.gradient(4, 0, flags=wire.RESEND))
    again, *results = server.step(2, *came)
    assert (again.kind, again.length) == (wire.RESULT_ONE_ZEROS, FULL - 16)
    assert {packet.length for packet in results} == {FULL}


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
