/* An ordinary layer-2 and layer-3 switch, for tests: exact, LPM and ternary tables, a learning register,
 * counters, an ECMP hash, multicast and the IPv4 checksum. */
#include <core.p4>
#include <v1model.p4>

typedef bit<9> port_t;

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  tos;
    bit<16> length;
    bit<16> id;
    bit<3>  flags;
    bit<13> offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> source;
    bit<32> destination;
}

header ports_t {
    bit<16> source;
    bit<16> destination;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ip;
    ports_t    ports;
}

struct metadata_t {
    bit<16> next_hop;
    bit<8>  path;
}

parser RouterParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x0800: ip;
            default: accept;
        }
    }
    state ip {
        packet.extract(hdr.ip);
        transition select(hdr.ip.protocol, hdr.ip.offset) {
            (6, 0): ports;
            (17, 0): ports;
            default: accept;
        }
    }
    state ports {
        packet.extract(hdr.ports);
        transition accept;
    }
}

control RouterVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ip.isValid(),
            { hdr.ip.version, hdr.ip.ihl, hdr.ip.tos, hdr.ip.length, hdr.ip.id, hdr.ip.flags,
              hdr.ip.offset, hdr.ip.ttl, hdr.ip.protocol, hdr.ip.source, hdr.ip.destination },
            hdr.ip.checksum, HashAlgorithm.csum16);
    }
}

control RouterIngress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard) {
    register<bit<48>>(512) last_source;
    counter(512, CounterType.packets_and_bytes) received;
    direct_counter(CounterType.packets) denied;

    action drop() { mark_to_drop(standard); }
    action to_port(port_t port) { standard.egress_spec = port; }
    action flood() { standard.mcast_grp = 1; }
    table switching {
        key = { hdr.ethernet.destination: exact; }
        actions = { to_port; flood; }
        default_action = flood();
        size = 4096;
    }

    action to_next_hop(bit<16> number) { meta.next_hop = number; }
    action to_group(bit<16> first, bit<8> paths) {
        hash(meta.path, HashAlgorithm.crc32, 8w0,
             { hdr.ip.source, hdr.ip.destination, hdr.ip.protocol, hdr.ports.source,
               hdr.ports.destination }, paths);
        meta.next_hop = first + (bit<16>) meta.path;
    }
    table routing {
        key = { hdr.ip.destination: lpm; }
        actions = { to_next_hop; to_group; drop; }
        default_action = drop();
        size = 1024;
    }
    action rewrite(port_t port, bit<48> source, bit<48> destination) {
        standard.egress_spec = port;
        hdr.ethernet.source = source;
        hdr.ethernet.destination = destination;
        hdr.ip.ttl = hdr.ip.ttl - 1;
    }
    table next_hops {
        key = { meta.next_hop: exact; }
        actions = { rewrite; drop; }
        default_action = drop();
    }

    action deny() {
        denied.count();
        drop();
    }
    table filter {
        key = {
            hdr.ip.source: ternary;
            hdr.ip.protocol: ternary;
            hdr.ports.destination: range;
        }
        actions = { deny; NoAction; }
        default_action = NoAction();
        counters = denied;
    }

    apply {
        received.count((bit<32>) standard.ingress_port);
        last_source.write((bit<32>) standard.ingress_port, hdr.ethernet.source);
        if (!hdr.ip.isValid()) {
            switching.apply();
        } else if (standard.checksum_error == 1 || hdr.ip.ttl < 2) {
            drop();
        } else {
            switch (filter.apply().action_run) {
                NoAction: {
                    if (routing.apply().hit) {
                        next_hops.apply();
                    }
                }
            }
        }
    }
}

control RouterEgress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard) {
    apply {
        if (standard.egress_rid != 0 && standard.egress_port == standard.ingress_port) {
            mark_to_drop(standard);
        }
    }
}

control RouterUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ip.isValid(),
            { hdr.ip.version, hdr.ip.ihl, hdr.ip.tos, hdr.ip.length, hdr.ip.id, hdr.ip.flags,
              hdr.ip.offset, hdr.ip.ttl, hdr.ip.protocol, hdr.ip.source, hdr.ip.destination },
            hdr.ip.checksum, HashAlgorithm.csum16);
    }
}

control RouterDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(RouterParser(), RouterVerify(), RouterIngress(), RouterEgress(), RouterUpdate(),
         RouterDeparser()) main;
