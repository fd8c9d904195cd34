"""`ina --pcap` in virtual time: every packet of a port is in its file, with exact times."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from p4fabric.base.config.pcapng import INBOUND, OUTBOUND, packets

from testbed.cli import main as commands
from testbed.results import find, read
from tests.support.paths import ROOT

STAR = """
name: captured
runtime: virtual
topology: {kind: star, hosts: 3}
links: {bandwidth: 1 Gbit/s, delay: 1 us}
system: {name: esa, window: 16}
memory: {aggregators: 32}
jobs:
  - {model: alexnet, workers: 2, iterations: 1, scale: 0.0002, compute_scale: 0}
"""
RACKS = STAR.replace("{kind: star, hosts: 3}", "{kind: two_level, tors: 2, hosts: 2, servers: 1}")
FRAME_NS = 326 * 8  # at 1 Gbit/s
SWITCH_NS = 400  # switch_latency, by default


def captured(tmp_path, text: str, *ports: str):
    tmp_path.mkdir(exist_ok=True)
    path = tmp_path / "captured.yaml"
    path.write_text(text)
    words = [word for port in ports for word in ("--pcap", port)]
    assert commands.main([str(path), "--results", str(tmp_path), "--no-report", *words]) == 0
    return read(find(tmp_path)[-1])


def test_captures_hold_what_passed_their_ports(tmp_path):
    found = captured(tmp_path, STAR, "s1:1", "s1:h3")
    links = found.links.set_index(["port", "direction"])
    for port in (1, 3):
        seen = list(packets(found.folder / "captures" / f"s1-{port}.pcapng"))
        assert [each.time_ns for each in seen] == sorted(each.time_ns for each in seen)
        for direction, name in ((INBOUND, "ingress"), (OUTBOUND, "egress")):
            frames = [each.frame for each in seen if each.direction == direction]
            assert len(frames) == links.loc[(port, name), "packets"] > 100
            assert sum(map(len, frames)) == links.loc[(port, name), "bytes"]


def test_times_are_those_of_the_simulated_clock_to_the_nanosecond(tmp_path):
    found = captured(tmp_path, STAR, "s1:1", "s1:2", "s1:3")
    first = found.tensors.first_sent_ns.min()
    seen = list(packets(found.folder / "captures" / "s1-1.pcapng"))
    assert seen[0].time_ns == first and seen[0].direction == INBOUND
    to_ps = list(packets(found.folder / "captures" / "s1-3.pcapng"))
    # On the way in a frame takes its time and 1 us, and so on the way out.
    latest = max(
        next(packets(found.folder / "captures" / f"s1-{port}.pcapng")).time_ns for port in (1, 2)
    )
    assert to_ps[0].time_ns == latest + 2 * (FRAME_NS + 1000) + SWITCH_NS


def test_links_between_switches_are_seen_at_both_ends(tmp_path):
    found = captured(tmp_path, RACKS, "s1:s3", "s3:s1")
    links = found.links.set_index(["node", "neighbour", "direction"])
    (up,) = (found.folder / "captures").glob("s1-*.pcapng")
    (down,) = (found.folder / "captures").glob("s3-*.pcapng")
    out = [each.frame for each in packets(up) if each.direction == OUTBOUND]
    came = [each.frame for each in packets(down) if each.direction == INBOUND]
    assert len(out) == links.loc[("s1", "s3", "egress"), "packets"] > 100
    assert out == came


def test_each_repetition_has_an_interface(tmp_path):
    found = captured(tmp_path, STAR + "repetitions: 2\n", "s1:h3")
    seen = list(packets(found.folder / "captures" / "s1-3.pcapng"))
    assert {each.interface for each in seen} == {0, 1}
    counted = found.links[found.links.port == 3].groupby("repetition").packets.sum()
    for number, count in counted.items():
        assert sum(each.interface == number for each in seen) == count


def test_a_port_that_is_not_there_is_named(tmp_path, capsys):
    path = tmp_path / "captured.yaml"
    path.write_text(STAR)
    assert commands.main([str(path), "--results", str(tmp_path), "--pcap", "s1:h9"]) == 2
    assert "switch s1 has no port 'h9'; its ports are 1 (to h1)" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("tshark") is None, reason="no tshark; ./test --all installs it")
def test_wireshark_decodes_it(tmp_path):
    found = captured(tmp_path, STAR, "s1:h3")
    command = ["tshark", "-X", f"lua_script:{ROOT / 'tools' / 'wireshark' / 'ina.lua'}"]
    file = found.folder / "captures" / "s1-3.pcapng"
    fields = ("frame.time_epoch", "ina.kind", "ina.job", "ina.fragment", "ip.checksum.status")
    words = [word for field in fields for word in ("-e", field)]
    options = ["-o", "ip.check_checksum:TRUE", "-T", "fields", *words]
    done = subprocess.run([*command, "-r", str(file), *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    seen = list(packets(file))
    assert len(rows) == len(seen)
    for (time, kind, job, fragment, checksum), each in zip(rows, seen, strict=True):
        seconds, _, part = time.partition(".")
        assert int(seconds) * 10**9 + int(part.ljust(9, "0")) == each.time_ns
        header = each.frame[42:]
        assert (int(kind), int(job)) == (header[0] & 15, int.from_bytes(header[4:6], "big"))
        assert int(fragment) == int.from_bytes(header[8:12], "big") and checksum == "1"
