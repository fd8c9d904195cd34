"""Processor time per packet of one program, written for v1model and for TNA, by turns.

    .venv/bin/python -m bench architectures [--rounds N] [--values N] [--payload N]

The program adds a packet's values to registers, looks the destination up in a table and sends the
sums to a port. The form for TNA does the same in ingress, by a register action for each value, and
has an egress that parses Ethernet and the program's header once more. Nothing of the kernel is
measured. What counts is the median of the ratios within rounds (see pipeline.py).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from p4engine.switch.library import Switch

from bench.pipeline import Driven, by_turns, driver, quartiles
from p4engine import compile_program

PACKETS = 1024
COMMON = """
header ethernet_t { bit<48> destination; bit<48> source; bit<16> kind; }
header head_t { bit<16> kind; bit<16> slot; bit<32> more; }
header values_t { %(fields)s }
struct headers_t { ethernet_t ethernet; head_t head; values_t values; }
struct metadata_t { bit<8> unused; }
"""
V1MODEL = """
#include <v1model.p4>
%(common)s
parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.head);
        transition select(hdr.head.kind) { 1: values; default: accept; }
    }
    state values { packet.extract(hdr.values); transition accept; }
}
control MyVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    %(registers)s
    action send(bit<9> port) { standard.egress_spec = port; }
    action drop() { mark_to_drop(standard); }
    table stations {
        key = { hdr.ethernet.destination: exact; }
        actions = { send; drop; }
        default_action = drop;
        size = 1024;
    }
    apply { stations.apply(); if (hdr.values.isValid()) { %(sums)s } }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}
control MyUpdate(inout headers_t hdr, inout metadata_t meta) { apply { } }
control MyDeparser(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparser()) main;
"""
TNA = """
#include <tna.p4>
%(common)s
struct egress_headers_t { ethernet_t ethernet; head_t head; }
parser MyIngressParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                       out ingress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        packet.advance(PORT_METADATA_SIZE);
        packet.extract(hdr.ethernet);
        packet.extract(hdr.head);
        transition select(hdr.head.kind) { 1: values; default: accept; }
    }
    state values { packet.extract(hdr.values); transition accept; }
}
control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  in ingress_intrinsic_metadata_t intrinsic,
                  in ingress_intrinsic_metadata_from_parser_t parsed,
                  inout ingress_intrinsic_metadata_for_deparser_t deparsed,
                  inout ingress_intrinsic_metadata_for_tm_t manager) {
    %(registers)s
    action send(PortId_t port) { manager.ucast_egress_port = port; }
    action drop() { deparsed.drop_ctl = 1; }
    table stations {
        key = { hdr.ethernet.destination: exact; }
        actions = { send; drop; }
        default_action = drop;
        size = 1024;
    }
    apply { stations.apply(); if (hdr.values.isValid()) { %(sums)s } }
}
control MyIngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta) {
    apply { packet.emit(hdr); }
}
parser MyEgressParser(packet_in packet, out egress_headers_t hdr, out metadata_t meta,
                      out egress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        packet.extract(hdr.ethernet);
        packet.extract(hdr.head);
        transition accept;
    }
}
control MyEgress(inout egress_headers_t hdr, inout metadata_t meta,
                 in egress_intrinsic_metadata_t intrinsic) { apply { } }
control MyEgressDeparser(packet_out packet, inout egress_headers_t hdr, in metadata_t meta) {
    apply { packet.emit(hdr); }
}
Pipeline(MyIngressParser(), MyIngress(), MyIngressDeparser(),
         MyEgressParser(), MyEgress(), MyEgressDeparser()) pipe;
Switch(pipe) main;
"""


def sources(values: int) -> dict[str, str]:
    """The program's two forms, for so many values."""
    numbers = range(values)
    common = COMMON % {"fields": " ".join(f"bit<32> v{i};" for i in numbers)}
    index = "(bit<32>)hdr.head.slot"
    steps = (
        f"bit<32> x{{i}}; r{{i}}.read(x{{i}}, {index});",
        "x{i} = x{i} + hdr.values.v{i};",
        f"r{{i}}.write({index}, x{{i}});",
        "hdr.values.v{i} = x{i};",
    )
    action = (
        "Register<bit<32>, bit<16>>(4096) r{i}; RegisterAction<bit<32>, bit<16>, bit<32>>(r{i})"
        " a{i} = {{ void apply(inout bit<32> value, out bit<32> result) {{ value = value +"
        " hdr.values.v{i}; result = value; }} }};"
    )
    return {
        "v1model": V1MODEL
        % {
            "common": common,
            "registers": " ".join(f"register<bit<32>>(4096) r{i};" for i in numbers),
            "sums": " ".join(step.format(i=i) for step in steps for i in numbers),
        },
        "tna": TNA
        % {
            "common": common,
            "registers": " ".join(action.format(i=i) for i in numbers),
            "sums": " ".join(f"hdr.values.v{i} = a{i}.execute(hdr.head.slot);" for i in numbers),
        },
    }


class Case(Driven):
    """One form of the program, and packets for it."""

    fragments = PACKETS

    def __init__(self, path: Path, values: int, payload: int, drive: Any) -> None:
        super().__init__(drive)
        self.switch = Switch(compile_program(path), ports=range(4))
        self.switch.table_add("stations", "send", ["02:00:00:00:00:01"], [2])
        head = bytes.fromhex("020000000001 020000000002 0800 0001")
        frames = [
            head + slot.to_bytes(2, "big") + bytes(4) + bytes([0, 0, 0, 1]) * values
            for slot in range(PACKETS)
        ]
        data = b"".join(frame + bytes(payload) for frame in frames)
        self.frames = np.frombuffer(data, np.uint8).reshape(PACKETS, -1).copy()
        self.ports = np.zeros(PACKETS, np.uint32)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=40, help=f"times {PACKETS} packets in each")
    parser.add_argument("--values", type=int, default=64)
    parser.add_argument("--payload", type=int, default=0, help="bytes behind the values")
    options = parser.parse_args()
    if options.values < 16:
        parser.error("--values needs at least 16: the driver counts in the last of them")
    with tempfile.TemporaryDirectory() as folder:
        cases, drive = [], driver()
        for name, text in sources(options.values).items():
            path = Path(folder) / f"{name}.p4"
            path.write_text(text)
            cases.append(Case(path, options.values, options.payload, drive))
    times = by_turns(cases, options.rounds, options.repeats)
    sent = [case.switch.stats()["sent"] for case in cases]
    if set(sent) != {(options.rounds + 1) * options.repeats * PACKETS}:
        raise SystemExit(f"not all packets have left: {sent}")
    low, middle, high = quartiles(times)
    print(
        f"ns per packet, medians: v1model {statistics.median(times[0]):.1f}, tna"
        f" {statistics.median(times[1]):.1f}, ratio {middle:.2f} ({low:.2f} to {high:.2f})"
    )
    return 0
