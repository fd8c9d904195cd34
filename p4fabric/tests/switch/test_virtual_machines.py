"""The results of a network in virtual time are the same bytes on every machine: digests of what
they were where these tests were written are kept here."""

from __future__ import annotations

import hashlib
import json

import pytest
from p4fabric_testing import L3_TNA
from p4fabric_testing.virtual_networks import MARKING, run_text, star

MIXED = """
virtual: {duration: 30 us, seed: 7}
flows:
  - {name: a, from: [h1, h3], to: h2, rate: 45 Gbit/s, size: {64 B: 1, 900 B: 1},
     gaps: exponential, on: 2 us, off: 1 us, periods: exponential}
  - {name: t, kind: tcp, from: h2, to: h1}
  - {name: b, from: h3, to: h1, packet_rate: 3e6, packet_burst: 5, ecn: ect1}
readings: [{register: "deepest[0..3]", of: s1, every: 10 us}]
"""
LOSSY = (
    "bandwidth: 40 Gbit/s, delay: 1 us, jitter: 200 ns, loss: 1 %, duplicate: 2 %, reorder: 3 %,"
    " queue: 200 packets"
)
EARLY = """
control MyEgress(inout egress_headers_t hdr, inout metadata_t meta,
                 in egress_intrinsic_metadata_t intrinsic,
                 in egress_intrinsic_metadata_from_parser_t parsed,
                 inout egress_intrinsic_metadata_for_deparser_t deparsed) {
    Wred<bit<19>, bit<9>>(512, 1, 0) early;
    Lpf<bit<32>, bit<9>>(512) rate;
    Meter<bit<9>>(512, MeterType_t.BYTES) meter;
    Register<bit<32>, bit<9>>(512) rates;
    Counter<bit<64>, bit<8>>(4, CounterType_t.PACKETS) colours;
    RegisterAction<bit<32>, bit<9>, bit<32>>(rates) keep = {
        void apply(inout bit<32> value) {
            value = rate_now;
        }
    };
    apply {
        rate_now = rate.execute((bit<32>)intrinsic.pkt_length, intrinsic.egress_port);
        keep.execute(intrinsic.egress_port);
        colours.count(meter.execute(intrinsic.egress_port));
        if (early.execute(intrinsic.deq_qdepth, intrinsic.egress_port) == 1) {
            deparsed.drop_ctl = 1;
        }
    }
}
""".replace("    Wred", "    bit<32> rate_now;\n    Wred", 1)
SETTINGS = [
    "register_write early.min 2 3",
    "register_write early.max 2 20",
    "register_write early.probability 2 300000",
    "register_write early.time_constant_ns 2 1000",
    "register_write rate.rate 2 1",
    "register_write rate.gain_ns 2 3000",
    "meter_array_set_rates meter 3000:3000 6000:6000",
]
FILTERED = """
virtual: {duration: 30 us}
flows:
  - {name: a, from: [h1, h3], to: h2, rate: 60 Gbit/s, size: {64 B: 1, 900 B: 1}, gaps: exponential}
readings:
  - {register: "early.value[2]", of: s1, every: 10 us}
  - {register: "rates[2]", of: s1, every: 10 us}
  - {counter: "colours[0..3]", of: s1, every: 10 us}
"""


def mixed(folder):
    """Generators of all kinds, answers, and links that lose, delay, double and reorder."""
    return star(MARKING, 3, MIXED, links=LOSSY, host={2: "answer: {delay: 300 ns}"})


def filtered(folder):
    """A program for Tofino, with random early detection, a filter of the rate and meters."""
    text = L3_TNA.read_text()
    begin, end = text.index("control MyEgress("), text.index("control MyEgressDeparser")
    (folder / "early.p4").write_text(text[:begin] + EARLY + text[end:])
    return star(
        str(folder / "early.p4"),
        3,
        FILTERED,
        switch=f"commands: {json.dumps(SETTINGS)}",
        params=", mac: '08:00:00:00:00:%02d'",
    )


@pytest.mark.parametrize(
    ("network", "digest"),
    [
        (mixed, "2ce721f4c3b7d75232f97189d2011261dfdca64c60cfdafb9cbebe3dce50d948"),
        (filtered, "c1a10479d82755fcb40d06693a5fdf53f88589b8aab57cc19ab8bef3d6de6e74"),
    ],
)
def test_the_results_are_those_of_every_other_machine(tmp_path, network, digest):
    _, found = run_text(tmp_path, network(tmp_path))
    assert all(found[table] for table in ("flows", "ports", "drops", "queues", "readings"))
    for row in found["throughput"]:
        assert row.pop("sending_bps") is None  # a column that came later, of connections
    text = json.dumps(found, sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest() == digest
