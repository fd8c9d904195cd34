"""Small programs for TNA and T2NA: a frame to put fragments into, and the cases of data/tna.txt and
data/t2na.txt."""

from __future__ import annotations

from p4engine_testing.cases import Case, read

FRAME = """
%(first)s
#include <core.p4>
#include <%(architecture)s.p4>
header h_t { bit<8> op; bit<8> a; bit<16> b; bit<32> c; }
%(top)s
struct headers_t { %(headers)s h_t h; }
struct metadata_t { %(metadata)s }
parser MyIngressParser(packet_in packet, out headers_t hdr, out metadata_t meta,
        out ingress_intrinsic_metadata_t ig_intr) {
    %(parser_locals)s
    state start {
        packet.extract(ig_intr);
        packet.advance(PORT_METADATA_SIZE);
        transition parse;
    }
    %(parser)s
}
control MyIngress(inout headers_t hdr, inout metadata_t meta,
        in ingress_intrinsic_metadata_t ig_intr,
        in ingress_intrinsic_metadata_from_parser_t ig_prsr,
        inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr,
        inout ingress_intrinsic_metadata_for_tm_t ig_tm) {
    %(locals)s
    apply { ig_tm.ucast_egress_port = 1; %(apply)s }
}
control MyIngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
        in ingress_intrinsic_metadata_for_deparser_t ig_dprsr) {
    %(deparser_locals)s
    apply { %(deparser)s }
}
%(egress_top)s
struct egress_headers_t { %(egress_headers)s h_t h; }
struct egress_metadata_t { %(egress_metadata)s }
parser MyEgressParser(packet_in packet, out egress_headers_t hdr, out egress_metadata_t meta,
        out egress_intrinsic_metadata_t eg_intr) {
    %(egress_parser_locals)s
    state start { packet.extract(eg_intr); transition parse; }
    %(egress_parser)s
}
control MyEgress(inout egress_headers_t hdr, inout egress_metadata_t meta,
        in egress_intrinsic_metadata_t eg_intr,
        in egress_intrinsic_metadata_from_parser_t eg_prsr,
        inout egress_intrinsic_metadata_for_deparser_t eg_dprsr,
        inout egress_intrinsic_metadata_for_output_port_t eg_oport) {
    %(egress_locals)s
    apply { %(egress)s }
}
control MyEgressDeparser(packet_out packet, inout egress_headers_t hdr, in egress_metadata_t meta,
        in egress_intrinsic_metadata_for_deparser_t eg_dprsr) {
    %(egress_deparser_locals)s
    apply { %(egress_deparser)s }
}
Pipeline(MyIngressParser(), MyIngress(), MyIngressDeparser(),
         MyEgressParser(), MyEgress(), MyEgressDeparser()) pipe;
%(main)s
"""
DEFAULTS = {
    "first": "",
    "architecture": "tna",
    "top": "",
    "headers": "",
    "metadata": "",
    "parser_locals": "",
    "parser": "state parse { packet.extract(hdr.h); transition accept; }",
    "locals": "",
    "apply": "",
    "deparser_locals": "",
    "deparser": "packet.emit(hdr);",
    "egress_top": "",
    "egress_headers": "",
    "egress_metadata": "",
    "egress_parser_locals": "",
    "egress_parser": "state parse { packet.extract(hdr.h); transition accept; }",
    "egress_locals": "",
    "egress": "",
    "egress_deparser_locals": "",
    "egress_deparser": "packet.emit(hdr);",
    "main": "Switch(pipe) main;",
}


def source(**parts: str) -> str:
    """A whole program from its parts; see DEFAULTS."""
    unknown = set(parts) - set(DEFAULTS)
    assert not unknown, unknown
    return FRAME % (DEFAULTS | parts)


def cases() -> list[Case]:
    """The cases of data/tna.txt and data/t2na.txt."""
    return read("tna.txt", "t2na.txt")
