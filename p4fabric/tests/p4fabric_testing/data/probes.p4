/* Probes that go from port to port as they say, and take the counts of each port with them. */
#include "headers.p4"

const bit<16> TYPE_PROBE = 0x9A01;

header hop_t {
    bit<8> more;      /* hops behind this one */
    bit<8> port;      /* by which the probe leaves the switch */
}

header base_t { bit<8> reports; }

header report_t {
    bit<8>  port;
    bit<48> octets;   /* that have left by the port, other than probes */
    bit<48> time;     /* of the count */
}

struct headers_t {
    ethernet_t  ethernet;
    base_t      base;
    report_t[8] reports;
    hop_t       hop;
    ipv4_t      ipv4;
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    bit<8> left = 0;
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            TYPE_PROBE: probe;
            default: network;
        }
    }
    state probe {
        packet.extract(hdr.base);
        left = hdr.base.reports;
        transition select(left) {
            0: hop;
            default: report;
        }
    }
    state report {
        packet.extract(hdr.reports.next);
        left = left - 1;
        transition select(left) {
            0: hop;
            default: report;
        }
    }
    state hop {
        packet.extract(hdr.hop);
        transition accept;
    }
    state network {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

CHECKSUMS

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    ROUTE
    apply {
        if (hdr.hop.isValid()) {
            standard.egress_spec = (bit<9>)hdr.hop.port;
        } else {
            route.apply();
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<48>>(512) octets;
    apply {
        bit<48> count;
        octets.read(count, (bit<32>)standard.egress_port);
        if (!hdr.hop.isValid()) {
            octets.write((bit<32>)standard.egress_port, count + (bit<48>)standard.packet_length);
        } else {
            hdr.base.reports = hdr.base.reports + 1;
            hdr.reports.push_front(1);
            hdr.reports[0].setValid();
            hdr.reports[0].port = (bit<8>)standard.egress_port;
            hdr.reports[0].octets = count;
            hdr.reports[0].time = standard.egress_global_timestamp;
            if (hdr.hop.more > 0) {
                hdr.hop.setInvalid();   /* the next one is in the payload */
            }
        }
    }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
