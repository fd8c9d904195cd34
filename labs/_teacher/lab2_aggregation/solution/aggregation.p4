/* Lab 2: a switch that adds up the gradients of a few workers. */
#include <core.p4>
#include <v1model.p4>

const bit<16> ETHERTYPE_SUM = 0x88B5;
const bit<8>  GRADIENT = 1;              // worker to switch
const bit<8>  RESULT   = 2;              // switch to all workers
const bit<16> WORKERS_GROUP = 1;         // the multicast group of all workers

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> ethertype;
}

header sum_t {
    bit<8>  kind;
    bit<8>  worker;                      // the sender; 255 in a result
    bit<16> round;                       // counts the sums; comes back in the result
    bit<32> v0;                          // int32, two's complement
    bit<32> v1;
    bit<32> v2;
    bit<32> v3;
}

struct headers_t {
    ethernet_t ethernet;
    sum_t      sum;
}

struct metadata_t {
    bit<8>  workers;                     // number of workers in a complete sum
    bit<48> mac;                         // of this switch
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_SUM: parse_sum;
            default: accept;
        }
    }

    state parse_sum {
        packet.extract(hdr.sum);
        transition accept;
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard) {
    /* The slot. */
    register<bit<8>>(1)  count;          // gradients in the slot
    register<bit<32>>(1) sum0;
    register<bit<32>>(1) sum1;
    register<bit<32>>(1) sum2;
    register<bit<32>>(1) sum3;

    action drop() {
        mark_to_drop(standard);
    }

    /* The control plane says how many workers there are, and which address the switch has. */
    action set_job(bit<8> workers, bit<48> mac) {
        meta.workers = workers;
        meta.mac = mac;
    }
    table job {
        actions = { set_job; }
        default_action = set_job(0, 0);
        size = 1;
    }

    /* The slot's content is overwritten, not cleared beforehand: one write per packet. */
    action store() {
        sum0.write(0, hdr.sum.v0);
        sum1.write(0, hdr.sum.v1);
        sum2.write(0, hdr.sum.v2);
        sum3.write(0, hdr.sum.v3);
    }

    action add() {
        bit<32> old;
        sum0.read(old, 0);
        hdr.sum.v0 = hdr.sum.v0 + old;
        sum1.read(old, 0);
        hdr.sum.v1 = hdr.sum.v1 + old;
        sum2.read(old, 0);
        hdr.sum.v2 = hdr.sum.v2 + old;
        sum3.read(old, 0);
        hdr.sum.v3 = hdr.sum.v3 + old;
        store();
    }

    action send_to_all() {
        hdr.sum.kind = RESULT;
        hdr.sum.worker = 255;
        hdr.ethernet.source = meta.mac;
        hdr.ethernet.destination = 0xffffffffffff;
        standard.mcast_grp = WORKERS_GROUP;
    }

    apply {
        job.apply();
        if (hdr.sum.isValid() && hdr.sum.kind == GRADIENT) {
            bit<8> n;
            count.read(n, 0);
            if (n == 0) {
                store();
            } else {
                add();
            }
            n = n + 1;
            if (n == meta.workers) {
                n = 0;
                send_to_all();
            } else {
                drop();
            }
            count.write(0, n);
        } else {
            drop();
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control MyUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.sum);
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparser()) main;
