/* Lab 1: a switch that forwards IPv4 packets along the most specific route.
 *
 * Parts marked TODO are yours. Names of tables, actions and parameters have to stay, because the
 * control plane uses them.
 */
#include <core.p4>
#include <v1model.p4>

const bit<16> ETHERTYPE_IPV4 = 0x0800;

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> ethertype;
}

header ip_t {
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
    ip_t       ip;
}

struct metadata_t {
    bit<48> mac;                         // of this switch
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
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
        transition accept;
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard) {
    action drop() {
        mark_to_drop(standard);
    }

    /* Control plane: this switch's address. */
    action set_node(bit<48> mac) {
        meta.mac = mac;
    }
    table node {
        actions = { set_node; }
        default_action = set_node(0);
        size = 1;
    }

    action forward(bit<9> port, bit<48> mac) {
        /* TODO (task 2): send the packet out of `port`, with new addresses and a smaller TTL. */
    }
    table route {
        key = { hdr.ip.destination: lpm; }       // the most specific route
        actions = { forward; drop; }
        default_action = drop();
        size = 1024;
    }

    apply {
        node.apply();
        /* TODO (task 2): which packets are forwarded, and where to? */
        route.apply();
        drop();
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control MyUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply {
        /* TODO (task 3): the checksum of the IPv4 header; see update_checksum in v1model.p4. */
    }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ip);
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparser()) main;
