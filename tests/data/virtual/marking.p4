/* A congestion mark for packets that had to wait behind THRESHOLD others, if their hosts understand marks. */
#include "headers.p4"

#ifndef THRESHOLD
#define THRESHOLD 20
#endif

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

CHECKSUMS

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    ROUTE
    apply {
        standard.priority = (bit<3>)(hdr.ipv4.dscp >> 3);
        route.apply();
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<32>>(512) deepest;
    apply {
        bit<32> most;
        bit<32> depth = (bit<32>)standard.enq_qdepth;
        deepest.read(most, (bit<32>)standard.egress_port);
        if (depth > most) {
            deepest.write((bit<32>)standard.egress_port, depth);
        }
        if (hdr.ipv4.ecn != 0 && depth >= THRESHOLD) {
            hdr.ipv4.ecn = 3;
        }
    }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
