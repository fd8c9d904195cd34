"""`ina --pcap`: every packet that the switch counted at a port is in the port's file."""

from __future__ import annotations

import pytest
from scapy.utils import RawPcapNgReader

from testbed.results import read
from tests.support.runs import run

SMALL = """
name: captured
topology: {kind: star, hosts: 3}
links: {bandwidth: 20 Mbit/s, delay: 1 ms}
system: {name: esa, window: 16}
memory: {aggregators: 32}
jobs:
  - {model: alexnet, workers: 2, iterations: 1, scale: 0.0002, compute_scale: 0}
"""


@pytest.mark.slow
def test_captures_hold_what_passed_their_ports(tmp_path):
    path = tmp_path / "captured.yaml"
    path.write_text(SMALL)
    ran = run(path, tmp_path / "results", "--pcap", "s1:1", "--pcap", "s1:h3")
    assert ran.returncode == 0, ran.stderr
    (folder,) = (tmp_path / "results").iterdir()
    captures = sorted((folder / "captures").iterdir())
    assert [each.name for each in captures] == ["s1-1.pcapng", "s1-3.pcapng"]
    links = read(folder).links.groupby("port")[["packets", "bytes"]].sum()
    for port, file in ((1, captures[0]), (3, captures[1])):
        with RawPcapNgReader(str(file)) as packets:
            frames = [data for data, _ in packets]
        assert len(frames) == links.loc[port, "packets"] > 300
        assert sum(map(len, frames)) == links.loc[port, "bytes"]
