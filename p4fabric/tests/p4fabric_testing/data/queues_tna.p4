/* For Tofino's architecture: the table of l3.p4, and registers of what egress sees of its queue. */
#include <core.p4>
#include <tna.p4>

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> ethertype;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  tos;
    bit<16> length;
    bit<16> identification;
    bit<3>  flags;
    bit<13> offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> source;
    bit<32> destination;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
}

struct metadata_t { }

parser MyIngressParser(packet_in packet, out headers_t hdr, out metadata_t meta,
                       out ingress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        packet.advance(PORT_METADATA_SIZE);
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            0x0800: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  in ingress_intrinsic_metadata_t intrinsic,
                  in ingress_intrinsic_metadata_from_parser_t parsed,
                  inout ingress_intrinsic_metadata_for_deparser_t deparsed,
                  inout ingress_intrinsic_metadata_for_tm_t manager) {
    action drop() {
        deparsed.drop_ctl = 1;
    }
    action forward(bit<9> port, bit<48> mac) {
        manager.ucast_egress_port = port;
        hdr.ethernet.source = hdr.ethernet.destination;
        hdr.ethernet.destination = mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table route {
        key = { hdr.ipv4.destination: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 1024;
    }
    apply {
        if (hdr.ipv4.isValid()) {
            route.apply();
        } else {
            drop();
        }
    }
}

control MyIngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta) {
    Checksum() sum;
    apply {
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.checksum = sum.update({
                hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length,
                hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.ttl,
                hdr.ipv4.protocol, hdr.ipv4.source, hdr.ipv4.destination });
        }
        packet.emit(hdr);
    }
}

struct egress_headers_t { ethernet_t ethernet; }

parser MyEgressParser(packet_in packet, out egress_headers_t hdr, out metadata_t meta,
                      out egress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        transition accept;
    }
}

control MyEgress(inout egress_headers_t hdr, inout metadata_t meta,
                 in egress_intrinsic_metadata_t intrinsic,
                 in egress_intrinsic_metadata_from_parser_t parsed,
                 inout egress_intrinsic_metadata_for_deparser_t deparsed,
                 inout egress_intrinsic_metadata_for_output_port_t output) {
    Register<bit<32>, bit<9>>(512) deepest;
    Register<bit<32>, bit<9>>(512) longest;
    RegisterAction<bit<32>, bit<9>, bit<32>>(deepest) see_depth = {
        void apply(inout bit<32> value) { value = max(value, (bit<32>)intrinsic.enq_qdepth); }
    };
    RegisterAction<bit<32>, bit<9>, bit<32>>(longest) see_wait = {
        void apply(inout bit<32> value) { value = max(value, (bit<32>)intrinsic.deq_timedelta); }
    };
    apply {
        see_depth.execute(intrinsic.egress_port);
        see_wait.execute(intrinsic.egress_port);
    }
}

control MyEgressDeparser(packet_out packet, inout egress_headers_t hdr, in metadata_t meta,
                         in egress_intrinsic_metadata_for_deparser_t deparsed) {
    apply { packet.emit(hdr); }
}

Pipeline(MyIngressParser(), MyIngress(), MyIngressDeparser(),
         MyEgressParser(), MyEgress(), MyEgressDeparser()) pipe;
Switch(pipe) main;
