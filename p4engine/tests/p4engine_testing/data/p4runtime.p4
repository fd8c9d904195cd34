/* One of everything that a P4Runtime controller can reach, for tests. */
#include <core.p4>
#include <v1model.p4>

typedef bit<9> port_t;
const port_t CPU_PORT = 510;

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> _pad;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> _pad;
}

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> type;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
}

struct metadata_t {
    bit<2> color;
    bit<1> known;
}

struct learned_t {
    bit<48> station;
    port_t port;
    bool fresh;
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard) {
    value_set<bit<16>>(4) special;
    state start {
        transition select(standard.ingress_port) {
            CPU_PORT: from_controller;
            default: ethernet;
        }
    }
    state from_controller {
        packet.extract(hdr.packet_out);
        transition ethernet;
    }
    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            special: mark;
            default: accept;
        }
    }
    state mark {
        meta.known = 1;
        transition accept;
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<32>>(8) words;
    register<int<16>>(8) numbers;
    register<bool>(4) flags;
    counter(4, CounterType.packets_and_bytes) ports;
    meter(4, MeterType.packets) speed;
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_meter<bit<2>>(MeterType.packets) pace;
    action_selector(HashAlgorithm.crc16, 32w64, 32w16) paths;
    action_profile(8) targets;

    action drop() { mark_to_drop(standard); }
    action send(port_t port) { standard.egress_spec = port; }
    action multicast(bit<16> group) { standard.mcast_grp = group; }
    action to_controller() { standard.egress_spec = CPU_PORT; }
    action mirror(bit<32> session) { clone(CloneType.I2E, session); }
    action learn() {
        digest<learned_t>(1, { hdr.ethernet.source, standard.ingress_port, true });
    }

    table stations {
        key = { hdr.ethernet.destination: exact; }
        actions = { send; multicast; to_controller; drop; }
        default_action = drop();
        counters = hits;
        meters = pace;
        size = 16;
    }
    table prefixes {
        key = { hdr.ethernet.destination: lpm; standard.ingress_port: exact; }
        actions = { send; NoAction; }
    }
    table rules {
        key = {
            hdr.ethernet.source: ternary;
            hdr.ethernet.type: range;
            meta.known: optional;
        }
        actions = { drop; mirror; learn; @tableonly send; @defaultonly NoAction; }
        default_action = NoAction();
    }
    table fixed {
        key = { hdr.ethernet.type: ternary; }
        actions = { send; NoAction; }
        const entries = {
            0x0900: send(1);
            0x0a00 &&& 0xff00: send(2);
        }
        const default_action = NoAction();
    }
    table spread {
        key = { hdr.ethernet.type: exact; hdr.ethernet.source: selector; }
        actions = { send; drop; }
        implementation = paths;
    }
    table flows {
        key = { hdr.ethernet.source: ternary; }
        actions = { send; NoAction; }
        support_timeout = true;
    }
    table sources {
        key = { hdr.ethernet.source: exact; }
        actions = { send; drop; }
        implementation = targets;
        support_timeout = true;
    }
    table chosen {
        key = { hdr.ethernet.type: exact; }
        actions = { send; drop; }
        implementation = targets;
    }
    apply {
        if (hdr.packet_out.isValid()) {
            standard.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            stations.apply();
            prefixes.apply();
            fixed.apply();
            spread.apply();
            flows.apply();
            sources.apply();
            chosen.apply();
            rules.apply();
            speed.execute_meter((bit<32>) standard.ingress_port, meta.color);
            ports.count((bit<32>) standard.ingress_port);
            words.write(0, (bit<32>) hdr.ethernet.type);
            numbers.write(0, -2);
            flags.write(1, true);
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = standard.ingress_port;
        }
    }
}

control MyCompute(inout headers_t hdr, inout metadata_t meta) { apply { } }

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
