/* Lab 4: aggregation that survives lost and duplicated packets (SwitchML's idea).
 *
 * A slot has two sets. A fragment goes to the set that the top bit of `slot` names; a worker uses the
 * two sets of a slot in turn, and sends its next fragment when it has the result of the last one.
 */
#include <core.p4>
#include <v1model.p4>

#ifndef SLOTS
#define SLOTS 8
#endif

const bit<8> FILLING  = 0;
const bit<8> COMPLETE = 1;

struct metadata_t {
    bit<32> complete;                    // the bitmap of all workers
    bit<8>  workers;                     // how many they are
    bit<16> group;
    bit<48> mac;                         // of this switch
    bit<32> ip;
    bit<32> own;                         // the packet's set: 2 * slot + set
    bit<32> other;                       // the slot's other set
    bit<32> bitmap;                      // of the packet's set
    bit<8>  state;
    bit<32> number;                      // of the fragment that it holds
}

#include "packet.p4"

control LossIngress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
    register<bit<32>>(2 * SLOTS) set_bitmap;
    register<bit<32>>(2 * SLOTS) set_number;
    register<bit<8>>(2 * SLOTS)  set_state;
#define VALUE_REGISTER(n) register<bit<32>>(2 * SLOTS) value_##n;
    EACH_VALUE(VALUE_REGISTER)

    action drop() {
        mark_to_drop(standard);
    }

    action aggregate(bit<32> complete, bit<8> workers, bit<16> group, bit<48> mac, bit<32> ip) {
        meta.workers = workers;
        meta.complete = complete;
        meta.group = group;
        meta.mac = mac;
        meta.ip = ip;
    }
    table job {
        key = { hdr.agg.job: exact; }
        actions = { aggregate; drop; }
        default_action = drop();
        size = 256;
    }

    action find_set() {
        bit<32> pair = (bit<32>) (hdr.agg.slot & 0x7fff) << 1;
        bit<32> second = (bit<32>) (hdr.agg.slot >> 15);
        meta.own = pair | second;
        meta.other = pair | (second ^ 1);
        set_bitmap.read(meta.bitmap, meta.own);
        set_number.read(meta.number, meta.own);
        set_state.read(meta.state, meta.own);
    }

    action store_values() {
#define STORE_VALUE(n) value_##n.write(meta.own, hdr.values.v##n);
        EACH_VALUE(STORE_VALUE)
    }

    action add_values() {
        bit<32> old;
#define ADD_VALUE(n)                             \
        value_##n.read(old, meta.own);           \
        hdr.values.v##n = hdr.values.v##n + old; \
        value_##n.write(meta.own, hdr.values.v##n);
        EACH_VALUE(ADD_VALUE)
    }

    action take_values() {
#define TAKE_VALUE(n) value_##n.read(hdr.values.v##n, meta.own);
        EACH_VALUE(TAKE_VALUE)
    }

    /* The worker is in this set now, so it has the other set's result, and is done with it. */
    action join() {
        bit<32> others;
        meta.bitmap = meta.bitmap | hdr.agg.bitmap;
        set_bitmap.read(others, meta.other);
        set_bitmap.write(meta.other, others & ~hdr.agg.bitmap);
    }

    action make_result() {
        hdr.agg.kind = RESULT;
        hdr.agg.bitmap = meta.complete;
        hdr.ethernet.source = meta.mac;
        hdr.ip.source = meta.ip;
    }

    apply {
        if (hdr.values.isValid() && hdr.agg.kind == GRADIENT &&
            (hdr.agg.slot & 0x7fff) < SLOTS && job.apply().hit) {
            find_set();
            bit<1> known = 0;
            if ((meta.bitmap & hdr.agg.bitmap) != 0 && hdr.agg.number == meta.number) {
                known = 1;
            }
            if (known == 1 && meta.state == COMPLETE) {
                /* A retransmission: its sender has not got the result. */
                take_values();
                make_result();
                standard.egress_spec = standard.ingress_port;
            } else if (known == 1) {
                drop();                  // in the sum already
            } else if (hdr.agg.number < meta.number ||
                       (hdr.agg.number == meta.number && meta.state == COMPLETE)) {
                drop();                  // a late copy: its sender has moved on
            } else {
                if (hdr.agg.number > meta.number || meta.bitmap == 0) {
                    meta.bitmap = 0;
                    meta.number = hdr.agg.number;
                    store_values();
                } else {
                    add_values();
                }
                join();
                if (meta.bitmap == meta.complete) {
                    meta.state = COMPLETE;
                    make_result();
                    standard.mcast_grp = meta.group;
                } else {
                    meta.state = FILLING;
                    drop();
                }
                set_bitmap.write(meta.own, meta.bitmap);
                set_number.write(meta.own, meta.number);
                set_state.write(meta.own, meta.state);
            }
        } else {
            drop();
        }
    }
}

control LossEgress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard) {
    action address(bit<48> mac, bit<32> ip) {
        hdr.ethernet.destination = mac;
        hdr.ip.destination = ip;
    }
    table receiver {
        key = { standard.egress_port: exact; }
        actions = { address; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    apply {
        receiver.apply();
        hdr.udp.checksum = 0;
    }
}

V1Switch(AggParser(), NoVerify(), LossIngress(), LossEgress(), IpChecksum(), AggDeparser()) main;
