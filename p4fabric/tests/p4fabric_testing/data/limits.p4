/* A meter for each port by which packets come in: what exceeds its rates is dropped. */
#include "headers.p4"

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

CHECKSUMS

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    ROUTE
    meter(512, MeterType.bytes) limits;
    apply {
        bit<2> color;
        limits.execute_meter((bit<32>)standard.ingress_port, color);
        if (color == 2) {
            drop();
        } else {
            route.apply();
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
