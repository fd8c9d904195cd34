/* The packet of labs 3 to 6, 8, 12, 14 and 16 to 19: Ethernet / IPv4 / UDP (port 18767) / agg / values.
 *
 * Include it after core.p4 and v1model.p4, and after your own `struct metadata_t`. It has the
 * headers, the parser, the deparser, and the checksum of the IPv4 header.
 */
#include "values.p4"

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8>  PROTOCOL_UDP = 17;
const bit<16> AGG_PORT = 18767;

/* What a packet is. */
const bit<8> GRADIENT = 1;               // a sum of the gradients of the workers in the bitmap
const bit<8> RESULT   = 2;               // the sum of all of them
const bit<8> REMINDER = 3;               // PS to switch: give me what you hold (lab 6)
const bit<8> NOTHING  = 4;               // the answer if that is nothing (lab 6)
const bit<8> RECEIPT  = 5;               // a sum is complete, and somebody else has it (lab 16)
const bit<8> DATA     = 6;               // values for the hosts in the bitmap (labs 16 and 17)

/* What has happened to it. */
const bit<8> PARTIAL   = 0x01;           // left its slot before all workers were in
const bit<8> COLLISION = 0x02;           // found its slot taken
const bit<8> RESEND    = 0x04;           // a retransmission
const bit<8> ECN       = 0x08;           // has met a long queue
const bit<8> OVERFLOW  = 0x10;           // does not fit into the switch's sum (lab 19)

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> ethertype;
}

header ip_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<6>  dscp;
    bit<2>  ecn;
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

header udp_t {
    bit<16> source;
    bit<16> destination;
    bit<16> length;
    bit<16> checksum;
}

header agg_t {
    bit<8>  kind;
    bit<8>  flags;
    bit<8>  job;
    bit<8>  priority;                    // the higher the more urgent (lab 6)
    bit<32> number;                      // of the fragment in its job; never repeats
    bit<16> slot;                        // where the fragment wants to be added up
    bit<16> worker;                      // who has sent it
    bit<32> bitmap;                      // bit n: worker n is in the sum
}

header values_t {
#define VALUE_FIELD(n) bit<32> v##n;
    EACH_VALUE(VALUE_FIELD)
}

struct headers_t {
    ethernet_t ethernet;
    ip_t       ip;
    udp_t      udp;
    agg_t      agg;
    values_t   values;
}

parser AggParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_IPV4: parse_ip;
            default: accept;
        }
    }

    state parse_ip {
        packet.extract(hdr.ip);
        transition select(hdr.ip.ihl, hdr.ip.protocol) {
            (5, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.destination) {
            AGG_PORT: parse_agg;
            default: accept;
        }
    }

    state parse_agg {
        packet.extract(hdr.agg);
        transition select(hdr.agg.kind) {
            GRADIENT: parse_values;
            RESULT: parse_values;
            DATA: parse_values;
            default: accept;
        }
    }

    state parse_values {
        packet.extract(hdr.values);
        transition accept;
    }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

#ifndef OWN_CHECKSUM
control IpChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ip.isValid(),
            { hdr.ip.version, hdr.ip.ihl, hdr.ip.dscp, hdr.ip.ecn, hdr.ip.length,
              hdr.ip.identification, hdr.ip.flags, hdr.ip.offset, hdr.ip.ttl,
              hdr.ip.protocol, hdr.ip.source, hdr.ip.destination },
            hdr.ip.checksum, HashAlgorithm.csum16);
    }
}
#endif

control AggDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ip);
        packet.emit(hdr.udp);
        packet.emit(hdr.agg);
        packet.emit(hdr.values);
    }
}
