/* Lab 10: workers agree on exponents. The switch keeps the largest that any worker has proposed.
 *
 * This program does what the hand-out says. It stays as it is; your tests are for others like it.
 */
#include <core.p4>
#include <v1model.p4>

const bit<16> ETHERTYPE_AGREE = 0x88B6;
const bit<8>  PROPOSAL = 1;              // worker to switch
const bit<8>  AGREED   = 2;              // switch to workers
const bit<16> WORKERS_GROUP = 1;         // the multicast group of all workers

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> ethertype;
}

header agree_t {
    bit<8>  kind;
    bit<8>  worker;                      // the sender, from 0 on; 255 in an agreement
    bit<16> round;
    bit<8>  e0;                          // int8, two's complement
    bit<8>  e1;
}

struct headers_t {
    ethernet_t ethernet;
    agree_t    agree;
}

struct metadata_t {
    bit<8>  workers;                     // how many there are
    bit<48> mac;                         // of this switch
    bit<16> round;                       // that the switch is at
    bit<32> seen;                        // bit n: worker n has proposed in this round
    bit<32> mine;                        // the bit of the packet's worker
    bit<32> everyone;
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_AGREE: parse_agree;
            default: accept;
        }
    }

    state parse_agree {
        packet.extract(hdr.agree);
        transition accept;
    }
}

control Nothing(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard) {
    register<bit<16>>(1) current;
    register<bit<32>>(1) proposed;
    register<bit<8>>(1)  largest0;
    register<bit<8>>(1)  largest1;

    action drop() {
        mark_to_drop(standard);
    }

    action set_job(bit<8> workers, bit<48> mac) {
        meta.workers = workers;
        meta.mac = mac;
    }
    table job {
        actions = { set_job; }
        default_action = set_job(0, 0);
        size = 1;
    }

    action agreement() {
        hdr.agree.kind = AGREED;
        hdr.agree.worker = 255;
        hdr.ethernet.source = meta.mac;
        hdr.ethernet.destination = 0xffffffffffff;
    }

    apply {
        job.apply();
        if (hdr.agree.isValid() && hdr.agree.kind == PROPOSAL &&
            hdr.agree.worker < meta.workers) {
            bit<8> top0;
            bit<8> top1;
            current.read(meta.round, 0);
            proposed.read(meta.seen, 0);
            largest0.read(top0, 0);
            largest1.read(top1, 0);
            meta.mine = (bit<32>) 1 << hdr.agree.worker;
            meta.everyone = ((bit<32>) 1 << meta.workers) - 1;

            if (hdr.agree.round == meta.round + 1 && meta.seen == meta.everyone) {
                meta.round = meta.round + 1;
                meta.seen = 0;
            }
            if (hdr.agree.round != meta.round) {
                drop();
            } else if (meta.seen == meta.everyone) {
                hdr.agree.e0 = top0;
                hdr.agree.e1 = top1;
                agreement();
                standard.egress_spec = standard.ingress_port;
            } else if (meta.seen & meta.mine != 0) {
                drop();
            } else {
                if (meta.seen == 0 || (int<8>) hdr.agree.e0 > (int<8>) top0) {
                    top0 = hdr.agree.e0;
                }
                if (meta.seen == 0 || (int<8>) hdr.agree.e1 > (int<8>) top1) {
                    top1 = hdr.agree.e1;
                }
                meta.seen = meta.seen | meta.mine;
                if (meta.seen == meta.everyone) {
                    hdr.agree.e0 = top0;
                    hdr.agree.e1 = top1;
                    agreement();
                    standard.mcast_grp = WORKERS_GROUP;
                } else {
                    drop();
                }
                current.write(0, meta.round);
                proposed.write(0, meta.seen);
                largest0.write(0, top0);
                largest1.write(0, top1);
            }
        } else {
            drop();
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.agree);
    }
}

V1Switch(MyParser(), Nothing(), MyIngress(), MyEgress(), Nothing(), MyDeparser()) main;
