/* A packet with a DSCP goes round so many times before it leaves, and each packet leaves a copy at the port of session
 * 1. The program counts rounds. */
#include "headers.p4"

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
    counter(2, CounterType.packets_and_bytes) passes;
    apply {
        if (standard.instance_type == 4) {   /* recirculated */
            passes.count(1);
        } else {
            passes.count(0);
            meta.round = 0;
            clone(CloneType.I2E, 1);
        }
        route.apply();
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.instance_type != 1 && meta.round < (bit<8>)hdr.ipv4.dscp) {
            meta.round = meta.round + 1;
            recirculate_preserving_field_list(1);
        }
    }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
