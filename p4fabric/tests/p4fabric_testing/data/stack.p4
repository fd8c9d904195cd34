/* Each switch puts a record on top of a stack between Ethernet and IPv4: who it is, how many packets waited at its
 * port, and how long this one had to wait. */
#include "headers.p4"

const bit<16> TYPE_STACK = 0x9A00;

header base_t {
    bit<8>  records;
    bit<16> ethertype;
}

header record_t {
    bit<16> place;
    bit<24> queue;
    bit<32> waited;
}

struct headers_t {
    ethernet_t  ethernet;
    base_t      base;
    record_t[8] stack;
    ipv4_t      ipv4;
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    bit<8> left = 0;
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            TYPE_STACK: base;
            default: network;
        }
    }
    state base {
        packet.extract(hdr.base);
        left = hdr.base.records;
        transition select(left) {
            0: network;
            default: record;
        }
    }
    state record {
        packet.extract(hdr.stack.next);
        left = left - 1;
        transition select(left) {
            0: network;
            default: record;
        }
    }
    state network {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

CHECKSUMS

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    ROUTE
    apply { route.apply(); }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action record_as(bit<16> number) {
        hdr.base.records = hdr.base.records + 1;
        hdr.stack.push_front(1);
        hdr.stack[0].setValid();
        hdr.stack[0].place = number;
        hdr.stack[0].queue = (bit<24>)standard.enq_qdepth;
        hdr.stack[0].waited = standard.deq_timedelta;
    }
    table own_number {
        actions = { record_as; }
        default_action = record_as(0);
    }
    apply {
        if (!hdr.base.isValid()) {
            hdr.base.setValid();
            hdr.base.records = 0;
            hdr.base.ethertype = hdr.ethernet.ethertype;
            hdr.ethernet.ethertype = TYPE_STACK;
        }
        own_number.apply();
    }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
