"""A watch over a switch sees each pass, and changes nothing."""

from __future__ import annotations

from p4engine.backend.build import compile_program
from p4engine.switch.library import Switch
from p4engine.switch.pass_watch import Left, PassWatch
from p4engine_testing.programs import source

PROGRAM = source(
    headers="header h_t { bit<8> kind; bit<8> count; } struct headers_t { h_t h; }",
    locals="register<bit<32>>(4) seen;",
    apply="""
        bit<32> n;
        seen.read(n, 0);
        seen.write(0, n + 1);
        hdr.h.count = hdr.h.count + 1;
        if (hdr.h.kind == 0) { mark_to_drop(standard); }
        else if (hdr.h.kind == 1) { standard.mcast_grp = 1; }
        else { standard.egress_spec = 2; }
    """,
    egress="hdr.h.count = hdr.h.count + 16;",
)
PACKETS = [bytes([kind, 0]) + b"payload" for kind in (2, 1, 0, 2)]


def run(tmp_path, watched: bool):
    path = tmp_path / "watched.p4"
    path.write_text(PROGRAM)
    switch = Switch(compile_program(path), ports=[1, 2, 3])
    switch.multicast_group(1, [(2, 5), (3, 6)])
    switch.port_shape(2, "egress", rate_bps=8_000_000)  # a byte in a microsecond
    seen: list = []
    watch = None
    if watched:

        def before(port, frame, now_ns):
            return (port, frame, now_ns, switch.register_read("seen", 0, 1)[0])

        def after(found, left):
            seen.append((*found, left, switch.register_read("seen", 0, 1)[0]))

        watch = PassWatch(switch, before, after, lambda left, now: seen.append((left, now)))
    for number, packet in enumerate(PACKETS):
        switch.receive(1, packet, number)
    left = switch.run()
    if watch is not None:
        watch.stop()
    switch.receive(1, PACKETS[0], 10**9)
    left += switch.run()
    return left, switch.port_stats(), seen


def test_each_pass_is_seen_with_what_it_found_and_what_it_left(tmp_path):
    _, _, seen = run(tmp_path, True)
    passes = [each for each in seen if len(each) == 6]
    gone = [each for each in seen if len(each) == 2]
    assert [each[:4] for each in passes] == [
        (1, packet, number, number) for number, packet in enumerate(PACKETS)
    ]
    assert [each[5] for each in passes] == [1, 2, 3, 4]
    unicast, multicast, dropped, again = (each[4] for each in passes)
    assert unicast == Left(b"\x02\x01payload", 2) and multicast.group == 1
    assert multicast.frame == b"\x01\x01payload" and multicast.port is None
    assert dropped == Left(b"", None) and again == unicast
    # Behind the queue, in the order of leaving: a frame of nine bytes takes 9 us.
    assert gone == [
        (Left(b"\x02\x11payload", 2, 0, 0), 0),
        (Left(b"\x01\x11payload", 3, 0, 6), 1),
        (Left(b"\x01\x11payload", 2, 0, 5), 9000),
        (Left(b"\x02\x11payload", 2, 0, 0), 18000),
    ]


def test_a_watched_switch_does_the_same(tmp_path):
    watched, alone = run(tmp_path, True), run(tmp_path, False)
    assert watched[:2] == alone[:2] and len(alone[2]) == 0


def test_packets_that_are_not_chosen_are_not_reported(tmp_path):
    path = tmp_path / "watched.p4"
    path.write_text(PROGRAM)
    switch = Switch(compile_program(path), ports=[1, 2])
    found: list = []
    watch = PassWatch(
        switch,
        lambda port, frame, now: now if frame[0] == 2 else None,
        lambda now, left: found.append(now),
        lambda left, now: None,
    )
    for number, packet in enumerate(PACKETS):
        switch.receive(1, packet, number)
    watch.stop()
    assert found == [0, 3]
