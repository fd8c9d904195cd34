/* Lab 8: a switch that forwards packets, and marks those that have found a long queue. */
#include <core.p4>
#include <v1model.p4>

struct metadata_t { }

#include "packet.p4"

const bit<2> ECN_MARK = 3;               // "congestion experienced" in the IPv4 header

control CongestionIngress(inout headers_t hdr, inout metadata_t meta,
                          inout standard_metadata_t standard) {
    action drop() {
        mark_to_drop(standard);
    }
    action forward(bit<9> port) {
        standard.egress_spec = port;
    }
    table route {
        key = { hdr.ip.destination: exact; }
        actions = { forward; drop; }
        default_action = drop();
        size = 256;
    }

    apply {
        if (hdr.ip.isValid()) {
            route.apply();
        } else {
            drop();
        }
    }
}

control CongestionEgress(inout headers_t hdr, inout metadata_t meta,
                         inout standard_metadata_t standard) {
    bit<19> threshold = 0;

    /* Control plane: the queue length from which packets are marked at a port; 0: never. */
    action set_threshold(bit<19> packets) {
        threshold = packets;
    }
    table congestion {
        key = { standard.egress_port: exact; }
        actions = { set_threshold; }
        default_action = set_threshold(0);
        size = 512;
    }

    apply {
        congestion.apply();
        if (threshold != 0 && standard.enq_qdepth >= threshold) {
            hdr.ip.ecn = ECN_MARK;
            if (hdr.agg.isValid()) {
                hdr.agg.flags = hdr.agg.flags | ECN;
            }
        }
    }
}

V1Switch(AggParser(), NoVerify(), CongestionIngress(), CongestionEgress(), IpChecksum(),
         AggDeparser()) main;
