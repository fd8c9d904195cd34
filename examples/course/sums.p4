// A course's assignment, solved: four workers send eight numbers each, and the switch sends their sums back.
//
// A message is carried by Ethernet alone (level 1) or by UDP (level 2). Level 3 adds losses: a worker sends
// again what has no answer. A slot has two chunks, of which the workers use one while the other may still be
// asked for: that of chunk c is c mod 512, and c + 256 mod 512 is the other one.

#include <core.p4>
#include <v1model.p4>

const bit<16> CARRIER = 0x88b5;  // level 1: the message is behind the Ethernet header
const bit<16> IPV4 = 0x0800;
const bit<16> ARP = 0x0806;
const bit<8> UDP = 17;
const bit<16> PORT = 4242;
const bit<8> NUMBERS = 1;
const bit<8> SUMS = 2;
const bit<8> WORKERS = 4;
const bit<4> ALL = 0xf;
const bit<32> CHUNKS = 512;

header ethernet_t {
    bit<48> to;
    bit<48> from;
    bit<16> type;
}

header arp_t {
    bit<16> hardware;
    bit<16> protocol;
    bit<16> lengths;
    bit<16> operation;
    bit<48> sender_mac;
    bit<32> sender_ip;
    bit<48> target_mac;
    bit<32> target_ip;
}

header ipv4_t {
    bit<8> version;
    bit<8> service;
    bit<16> length;
    bit<32> fragment;
    bit<8> hops;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> from;
    bit<32> to;
}

header udp_t {
    bit<16> from;
    bit<16> to;
    bit<16> length;
    bit<16> checksum;
}

header message_t {
    bit<8> code;
    bit<8> worker;
    bit<16> chunk;
    bit<256> numbers;  // eight of 32 bits, each below 2^30: no sum carries into the next
}

struct headers_t {
    ethernet_t ethernet;
    arp_t arp;
    ipv4_t ipv4;
    udp_t udp;
    message_t message;
}

struct metadata_t {}

bit<4> bit_of(in bit<8> worker) {
    return (bit<4>)1 << worker;
}

// Marks a worker in a chunk's set; returns the set as it was.
bit<4> mark(register<bit<4>> seen, in bit<32> chunk, in bit<4> own) {
    bit<4> before;
    seen.read(before, chunk);
    seen.write(chunk, before | own);
    return before;
}

void unmark(register<bit<4>> seen, in bit<32> chunk, in bit<4> own) {
    bit<4> before;
    seen.read(before, chunk);
    seen.write(chunk, before & ~own);
}

// The whole register at once: eight additions are one, since none of them carries. The first worker's
// numbers replace what is there.
bit<256> add(register<bit<256>> sums, in bit<32> chunk, in bit<256> numbers, in bool first) {
    bit<256> sum;
    sums.read(sum, chunk);
    sum = first ? numbers : sum + numbers;
    sums.write(chunk, sum);
    return sum;
}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            CARRIER: message;
            ARP: arp;
            IPV4: ipv4;
            default: accept;
        }
    }
    state arp {
        packet.extract(hdr.arp);
        transition accept;
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version, hdr.ipv4.protocol) {
            (0x45, UDP): udp;
            default: accept;
        }
    }
    state udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.to) {
            PORT: message;
            default: accept;
        }
    }
    state message {
        packet.extract(hdr.message);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(
            hdr.ipv4.isValid(),
            {
                hdr.ipv4.version, hdr.ipv4.service, hdr.ipv4.length, hdr.ipv4.fragment, hdr.ipv4.hops,
                hdr.ipv4.protocol, hdr.ipv4.from, hdr.ipv4.to
            },
            hdr.ipv4.checksum,
            HashAlgorithm.csum16
        );
    }
}

control Aggregate(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<256>>(CHUNKS) sums;
    register<bit<4>>(CHUNKS) seen;

    // The switch is whoever a worker asks for: the request becomes the answer.
    action reflect() {
        bit<32> asked = hdr.arp.target_ip;
        hdr.arp.operation = 2;
        hdr.arp.target_mac = hdr.arp.sender_mac;
        hdr.arp.target_ip = hdr.arp.sender_ip;
        hdr.arp.sender_mac = 0x020000000064;
        hdr.arp.sender_ip = asked;
        hdr.ethernet.to = hdr.ethernet.from;
        hdr.ethernet.from = 0x020000000064;
        standard.egress_spec = standard.ingress_port;
    }

    action to_all() {
        hdr.message.code = SUMS;
        standard.mcast_grp = 1;
    }

    action to_this_one() {
        hdr.message.code = SUMS;
        standard.egress_spec = standard.ingress_port;
    }

    action drop() {
        mark_to_drop(standard);
    }

    apply {
        if (hdr.arp.isValid() && hdr.arp.operation == 1) {
            reflect();
        } else if (!hdr.message.isValid() || standard.checksum_error == 1
            || hdr.message.code != NUMBERS || hdr.message.worker >= WORKERS) {
            drop();
        } else {
            bit<32> chunk = (bit<32>)hdr.message.chunk & (CHUNKS - 1);
            bit<32> other = chunk ^ 256;
            bit<4> own = bit_of(hdr.message.worker);
            bit<4> before;
            bit<256> sum;
            @atomic {
                before = mark(seen, chunk, own);
                if (before & own == 0) {
                    sum = add(sums, chunk, hdr.message.numbers, before == 0);
                    unmark(seen, other, own);  // it has the results of the other one
                } else {
                    sums.read(sum, chunk);
                }
            }
            bit<4> after = before | own;
            hdr.message.numbers = sum;
            if (after != ALL) {
                drop();
            } else if (before != after) {
                to_all();
            } else {
                to_this_one();
            }
        }
    }
}

control Address(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    action address(bit<48> mac, bit<32> ip, bit<8> worker) {
        hdr.ethernet.from = 0x020000000064;
        hdr.ethernet.to = mac;
        hdr.ipv4.from = hdr.ipv4.to;
        hdr.ipv4.to = ip;
        hdr.udp.from = hdr.udp.to;
        hdr.udp.checksum = 0;
        hdr.message.worker = worker;
    }

    // Results are copies of one worker's packet.
    table worker {
        key = { standard.egress_port: exact; }
        actions = { address; NoAction; }
        default_action = NoAction();
    }

    apply {
        if (hdr.message.isValid()) {
            worker.apply();
        }
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(
            hdr.ipv4.isValid(),
            {
                hdr.ipv4.version, hdr.ipv4.service, hdr.ipv4.length, hdr.ipv4.fragment, hdr.ipv4.hops,
                hdr.ipv4.protocol, hdr.ipv4.from, hdr.ipv4.to
            },
            hdr.ipv4.checksum,
            HashAlgorithm.csum16
        );
    }
}

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(Parse(), Verify(), Aggregate(), Address(), Update(), Deparse()) main;
