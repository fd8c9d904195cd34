"""UDP packets in trains: a run that uses them is exact, and captures and counters see packets."""

from __future__ import annotations

import pytest
from p4fabric_testing.matrix import first_of
from scapy.all import IP, UDP, Ether
from scapy.utils import RawPcapNgReader

from tests.support.runs import succeeded

FAST = """
name: fast
offload: {offload}
topology: {{kind: star, hosts: 6}}
system: {{name: {system}}}
memory: {{aggregators: 256}}
values_per_packet: {values}
jobs:
  - {{model: alexnet, workers: 2, iterations: 2, scale: {scale}, compute_scale: 0}}
  - {{model: alexnet, workers: 2, iterations: 2, scale: {scale}, compute_scale: 0}}
"""
HEADERS = 14 + 20 + 8


@pytest.mark.parametrize("offload", ["on", pytest.param("off", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "system, values",
    first_of([("esa", 64), ("esa", 2048), ("switchml", 64), ("switchml", 2048)], 2),
)
def test_captures_and_counters_see_packets(tmp_path, system, values, offload):
    """Every captured packet is one, with all checksums right, whatever the kernel has moved."""
    scale = 0.0005 * values / 64
    text = FAST.format(offload=offload, system=system, values=values, scale=scale)
    if system == "switchml":
        text = text.replace("hosts: 6", "hosts: 4")
    captures = ("--pcap", "s1:h1", "--pcap", "s1:h3")
    results = succeeded(text, tmp_path / "results", *captures)
    assert results.environment["offload"] == ("trains" if offload == "on" else "off")
    assert results.jobs.exact.all()
    links = results.links.groupby("port")[["packets", "bytes"]].sum()
    fragment = HEADERS + 4 * (6 + 1 + values)
    for port, file in zip((1, 3), sorted((results.folder / "captures").iterdir()), strict=True):
        with RawPcapNgReader(str(file)) as packets:
            frames = [data for data, _ in packets]
        assert len(frames) == links.loc[port, "packets"] > 300
        assert sum(map(len, frames)) == links.loc[port, "bytes"]
        assert max(map(len, frames)) == fragment
        for frame in frames[:: len(frames) // 30]:
            found = Ether(frame)
            checksums = found[IP].chksum, found[UDP].chksum
            del found[IP].chksum, found[UDP].chksum
            again = Ether(bytes(found))
            assert checksums[0] == again[IP].chksum
            assert checksums[1] in (0, again[UDP].chksum)
