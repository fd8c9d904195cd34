"""Pause frames on Mininet: switches send and obey them, so nothing is dropped or sent again; a host
that pauses without end is named. Nothing is sent or asked for again before 2 s, so a busy machine
is no loss."""

from __future__ import annotations

import contextlib
import struct

import pytest
from p4fabric.base.errors import RunError
from rich.console import Console
from scapy.utils import RawPcapNgReader

from testbed import results
from testbed.emulate.mininet_run import Repetition
from testbed.emulate.session import Session
from testbed.emulate.switch_backends import backend_of
from testbed.experiment import load_text
from testbed.run_parts.program import prepare
from testbed.schemes import set_up
from testbed.setup.host_specs import host_kinds
from tests.support.intruders import SENDER
from tests.support.runs import run

TEXT = """
name: pauses
timeout: 3 s
topology: {kind: leaf_spine, leaves: 2, spines: 1, hosts: 2}
links:
  bandwidth: 50 Mbit/s
  delay: 100 us
  queue: 10 packets
  ecn_threshold: none
  lossless: {control: pfc, threshold: 8 KiB, reserve: 0}
  each: [{between: [h3, s2], bandwidth: 10 Mbit/s}]
system: {name: ps, window: 128, timeout: 2 s}
values_per_packet: 256
timers: {min_reminder_delay: 2 s, max_reminder_delay: 2 s}
jobs:
  - {model: resnet18, workers: 2, iterations: 1, scale: 0.003, compute_scale: 0,
     placement: {workers: [h1, h2], ps: h3}}
"""
HEAD = bytes.fromhex("0180c2000001"), struct.pack("!HHH", 0x8808, 0x0101, 1 << 3)  # PFC of class 3


def test_switches_pause_hosts_and_each_other_and_nothing_is_lost(tmp_path):
    """The server's slow link fills its leaf's buffer. So that pauses the spine, the spine the other
    leaf, and this the workers."""
    path = tmp_path / "pauses.yaml"
    path.write_text(TEXT)
    done = run(path, tmp_path / "results", "--no-report", "--pcap", "s1:h1", "--pcap", "s3:s1")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "results").iterdir()
    read = results.read(folder)
    assert read.jobs.exact.all()
    assert read.jobs.retransmissions.sum() == read.links.queue_drops.sum() == 0
    assert read.buffers.drops.sum() == 0
    assert (read.buffers.headroom_peak_bytes <= read.buffers.headroom_bytes).all()
    assert {("s2", "s3"), ("s3", "s1"), ("s1", "h1")} <= {
        (row.switch, row.neighbour) for row in read.pauses.itertuples() if row.paused_ns
    }
    for capture in (folder / "captures").iterdir():
        with RawPcapNgReader(str(capture)) as packets:
            assert any((data[:6], data[12:18]) == HEAD for data, _ in packets), capture


BACKGROUND = "background:\n  - {kind: udp, from: h1, to: h3, rate: 20 Mbit/s, size: 1000 B}\n"


@pytest.mark.parametrize(
    ("lossless", "more"),
    [
        ("{control: cbfc, headroom: 300 KiB}", ""),
        ("{control: pfc, threshold: 8 KiB, reserve: 0, classes: gradients}", BACKGROUND),
    ],
    ids=["credits", "two classes"],
)
def test_no_gradient_is_lost_by_credits_or_beside_packets_of_a_lossy_class(
    tmp_path, lossless, more
):
    path = tmp_path / "pauses.yaml"
    path.write_text(TEXT.replace("{control: pfc, threshold: 8 KiB, reserve: 0}", lossless) + more)
    done = run(path, tmp_path / "results", "--no-report")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "results").iterdir()
    read = results.read(folder)
    assert read.jobs.exact.all() and read.jobs.retransmissions.sum() == 0
    assert read.buffers.drops.sum() == 0 and read.buffers.frames_received.sum() > 0
    assert (read.links.queue_drops.sum() > 0) == bool(more)


def test_a_host_that_pauses_without_end_is_named(tmp_path):
    setup = set_up(load_text(TEXT))
    backend = backend_of(setup.platform, prepare(setup))
    frame = HEAD[0] + bytes(6) + HEAD[1] + b"\xff" * 16 + bytes(26)
    (tmp_path / "frames.txt").write_text(f"{frame.hex()}\n")
    with contextlib.ExitStack() as stack:
        session = stack.enter_context(Session("pauses", tmp_path))
        session.start(host_kinds(setup))
        network = session.build(setup.platform.topology, **backend.network_options())
        repetition = stack.enter_context(Repetition(setup, backend, session))
        sender = network["h3"].popen(
            ["/usr/bin/python3", "-c", SENDER, str(tmp_path / "frames.txt")]
        )
        try:
            assert sender.stdout.readline() == b"ready\n"
            with pytest.raises(RunError, match="host h3 has paused s2-p1 for .* packets wait"):
                repetition.run(Console(quiet=True), None)
        finally:
            sender.kill()
            sender.wait()
