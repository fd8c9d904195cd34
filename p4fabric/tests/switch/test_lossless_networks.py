"""Lossless links of network files: nobody loses, a cycle of pauses is named, and so is a host that
pauses without end."""

from __future__ import annotations

import pytest
from p4fabric.base.errors import RunError, UserError
from p4fabric.netfile.virtual_run import warn
from p4fabric_testing.virtual_networks import MARKING, built, flow, port, run_text, star

TEN = "bandwidth: 10 Gbit/s, delay: 1 us, queue: 20 packets"
INCAST = """
virtual: {duration: 400 us}
flows: [{name: f, from: [h1, h2, h3], to: h4, size: 1250 B, rate: 8 Gbit/s}]
"""
SMALL = "{threshold: 12 KiB, reserve: 0}"


def lossless(text: str, settings: str) -> str:
    return text.replace("  links:\n", f"  lossless: {settings}\n  links:\n")


@pytest.mark.parametrize("settings", ["none", SMALL, "{control: cbfc, headroom: 24 KiB}"])
def test_an_incast_loses_nothing_where_links_are_lossless(tmp_path, settings):
    text = lossless(star(MARKING, 4, INCAST, links=TEN), settings)
    run, found = run_text(tmp_path, text)
    drops = sum(row["queue_drops"] for row in found["ports"])
    if settings == "none":
        assert drops > 100 and not found["buffers"]
        return
    assert drops == 0 and run.drained
    assert all(flow(found, f"f-{host}-h4")["lost"] == 0 for host in ("h1", "h2", "h3"))
    rows = {row["neighbour"]: row for row in found["buffers"]}
    assert all(rows[host]["host_paused_ns"] > 100_000 for host in ("h1", "h2", "h3"))
    assert rows["h4"]["host_paused_ns"] == 0
    if settings == SMALL:
        assert {row["cause"] for row in found["pauses"]} == {"h4"}


@pytest.mark.parametrize("recovery", ["go_back_n", "selective_repeat"])
@pytest.mark.parametrize("settings", [SMALL, "{control: cbfc, headroom: 24 KiB}"])
def test_what_waits_behind_pauses_is_not_sent_again(tmp_path, recovery, settings):
    """The first packet of connection g waits in its host behind those of f, for longer than any
    timeout that follows from round trips of the empty network."""
    keys = f"kind: rc, size: 1250 B, recovery: {recovery}, window: unlimited"
    more = f"""
virtual: {{duration: 2 ms}}
flows:
  - {{name: f, from: [h1, h2, h3, h4], to: h5, {keys}}}
  - {{name: g, from: h1, to: h5, {keys}, start: 1 ms}}
"""
    _, found = run_text(tmp_path, lossless(star(MARKING, 5, more, links=TEN), settings))
    late = flow(found, "g")
    assert late["received"] > 0 and late["min_ns"] > 1_000_000
    assert {(row["lost"], row["duplicates"]) for row in found["flows"]} == {(0, 0)}


def test_a_headroom_that_cannot_hold_is_refused_with_the_bytes_needed(tmp_path):
    text = lossless(star(MARKING, 4, INCAST, links=TEN), "{headroom: 2 KiB}")
    with pytest.raises(UserError, match=r"s1, port 1: \d+ B can come after a pause, and the head"):
        built(tmp_path, text)


RING = """
runtime: virtual
network:
  program: %s
  lossless: {threshold: 4 KiB, reserve: 0, buffer: 64 KiB}
  hosts:
    h1: {ip: 10.0.0.1/24}
    h2: {ip: 10.0.0.2/24}
    h3: {ip: 10.0.0.3/24}
  switches:
%s
  links:
    - {between: [h1, s1-p1], bandwidth: 40 Gbit/s, delay: 200 ns}
    - {between: [h2, s2-p1], bandwidth: 40 Gbit/s, delay: 200 ns}
    - {between: [h3, s3-p1], bandwidth: 40 Gbit/s, delay: 200 ns}
    - {between: [s1-p2, s2-p3], bandwidth: 10 Gbit/s, delay: 200 ns}
    - {between: [s2-p2, s3-p3], bandwidth: 10 Gbit/s, delay: 200 ns}
    - {between: [s3-p2, s1-p3], bandwidth: 10 Gbit/s, delay: 200 ns}
virtual: {duration: 2 ms, longest_frame: 1300 B}
flows:
  - {name: a, from: h1, to: h3, size: 1250 B, rate: 20 Gbit/s, stop: 1 ms}
  - {name: b, from: h2, to: h1, size: 1250 B, rate: 20 Gbit/s, stop: 1 ms}
  - {name: c, from: h3, to: h2, size: 1250 B, rate: 20 Gbit/s, stop: 1 ms}
"""


def ring(clockwise: bool) -> str:
    """Three switches in a ring. Clockwise, all packets go round by two switches; else straight."""
    ways = []
    for own in (1, 2, 3):
        ways.append(f"    s{own}:\n      entries:")
        for to in (1, 2, 3):
            out = 1 if to == own else 2 if clockwise or to == own % 3 + 1 else 3
            ways.append(
                f"        - {{table: route, match: {{hdr.ipv4.destination: 10.0.0.{to}/32}},"
                f" action: forward, params: {{port: {out}}}}}"
            )
    return RING % (MARKING, "\n".join(ways))


def test_cyclic_routes_deadlock_and_the_cycle_is_named(tmp_path):
    with pytest.raises(RunError) as caught:
        run_text(tmp_path, ring(clockwise=True))
    text = str(caught.value)
    assert "deadlock: 3 ports wait for each other, and nothing moves" in text
    for port_, pauser in (("s1-p2", "s2"), ("s2-p2", "s3"), ("s3-p2", "s1")):
        assert f"{port_} was paused by {pauser}; " in text


def test_the_same_network_without_a_cycle_goes_on(tmp_path):
    run, found = run_text(tmp_path, ring(clockwise=False))
    assert run.drained and sum(row["lost"] for row in found["flows"]) == 0
    assert run.watch is not None and run.watch.cycle() == []


STORM = '''
import struct

class Storm:
    """A network card that never stops to pause a class."""

    def __init__(self, host):
        self.host = host

    def start(self, now_ns):
        self.timer(now_ns)

    def timer(self, now_ns):
        head = bytes.fromhex("0180c2000001") + bytes(6)
        frame = head + struct.pack("!HHH", 0x8808, 0x0101, 1 << CLASS) + bytes([255]) * 16
        self.host.send(frame.ljust(60, b"\\0"))
        self.host.set_timer(now_ns + 50_000)
'''


@pytest.mark.parametrize("priority", [3, 5])
def test_a_host_that_pauses_without_end_is_named(tmp_path, capsys, priority):
    (tmp_path / "storm.py").write_text(STORM.replace("CLASS", str(priority)))
    more = """
virtual: {duration: 1 ms, drain: 100 us}
flows: [{name: f, from: h1, to: h2, size: 1250 B, rate: 1 Gbit/s, stop: 500 us}]
"""
    text = star(MARKING, 2, more, links=TEN, host={2: "class: storm.py:Storm"})
    run, found = run_text(tmp_path, lossless(text, "pfc"))
    warn(run)
    said = capsys.readouterr().err
    if priority == 3:
        assert "host h2 has paused s1-p2 for " in said and not run.drained
        assert port(found, "s1", 2, "egress")["packets"] < 5
    else:
        assert "of classes that are not lossless here (5); they were ignored" in said
        assert flow(found, "f")["lost"] == 0
