/* Lab 16: a switch for sharded training. Sums go to the owner of their shard, and everybody else gets
 * a receipt; what an owner sends goes to the hosts in the bitmap; requests go to the owner.
 *
 * Slots, sets, bitmaps and late copies are those of lab 4.
 */
#include <core.p4>
#include <v1model.p4>

#ifndef SLOTS
#define SLOTS 8
#endif

const bit<8> FILLING  = 0;
const bit<8> COMPLETE = 1;

struct metadata_t {
    bit<32> everyone;                    // the bitmap of all workers
    bit<16> group;
    bit<48> mac;                         // of this switch
    bit<32> ip;
    bit<9>  owner;                       // port of the fragment's owner
    bit<32> worker;                      // bit of the worker at the egress port
    bit<32> own;                         // the packet's set: 2 * slot + set
    bit<32> other;                       // the slot's other set
    bit<32> bitmap;                      // of the packet's set
    bit<8>  state;
    bit<32> number;                      // of the fragment that it holds
}

#include "packet.p4"

control ShardIngress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard) {
    register<bit<32>>(2 * SLOTS) set_bitmap;
    register<bit<32>>(2 * SLOTS) set_number;
    register<bit<8>>(2 * SLOTS)  set_state;
#define VALUE_REGISTER(n) register<bit<32>>(2 * SLOTS) value_##n;
    EACH_VALUE(VALUE_REGISTER)

    action drop() {
        mark_to_drop(standard);
    }

    action member(bit<32> everyone, bit<16> group, bit<48> mac, bit<32> ip) {
        meta.everyone = everyone;
        meta.group = group;
        meta.mac = mac;
        meta.ip = ip;
    }
    table job {
        key = { hdr.agg.job: exact; }
        actions = { member; drop; }
        default_action = drop();
        size = 256;
    }

    action owned(bit<9> port) {
        meta.owner = port;
    }
    table shard {
        key = { hdr.agg.job: exact; hdr.agg.number: range; }
        actions = { owned; drop; }
        default_action = drop();
        size = 1024;
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

    action join() {
        bit<32> others;
        meta.bitmap = meta.bitmap | hdr.agg.bitmap;
        set_bitmap.read(others, meta.other);
        set_bitmap.write(meta.other, others & ~hdr.agg.bitmap);
    }

    action make_result() {
        hdr.agg.kind = RESULT;
        hdr.agg.bitmap = meta.everyone;
        hdr.ethernet.source = meta.mac;
        hdr.ip.source = meta.ip;
    }

    apply {
        if (hdr.agg.isValid() && job.apply().hit && shard.apply().hit) {
            if (hdr.agg.kind == GRADIENT && hdr.values.isValid() &&
                (hdr.agg.slot & 0x7fff) < SLOTS) {
                find_set();
                bit<1> known = 0;
                if ((meta.bitmap & hdr.agg.bitmap) != 0 && hdr.agg.number == meta.number) {
                    known = 1;
                }
                if (known == 1 && meta.state == COMPLETE) {
                    take_values();
                    make_result();
                    standard.egress_spec = standard.ingress_port;
                } else if (known == 1) {
                    drop();
                } else if (hdr.agg.number < meta.number ||
                           (hdr.agg.number == meta.number && meta.state == COMPLETE)) {
                    drop();
                } else {
                    if (hdr.agg.number > meta.number || meta.bitmap == 0) {
                        meta.bitmap = 0;
                        meta.number = hdr.agg.number;
                        store_values();
                    } else {
                        add_values();
                    }
                    join();
                    if (meta.bitmap == meta.everyone) {
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
            } else if (hdr.agg.kind == DATA && hdr.values.isValid() &&
                       standard.ingress_port == meta.owner) {
                standard.mcast_grp = meta.group;
            } else if (hdr.agg.kind == REMINDER) {
                standard.egress_spec = meta.owner;
            } else {
                drop();
            }
        } else {
            drop();
        }
    }
}

control ShardEgress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
    action address(bit<48> mac, bit<32> ip, bit<32> worker) {
        hdr.ethernet.destination = mac;
        hdr.ip.destination = ip;
        meta.worker = worker;
    }
    table receiver {
        key = { standard.egress_port: exact; }
        actions = { address; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    action make_receipt() {
        hdr.agg.kind = RECEIPT;
        hdr.values.setInvalid();
        hdr.ip.length = hdr.ip.length - 4 * VALUES;
        hdr.udp.length = hdr.udp.length - 4 * VALUES;
    }

    apply {
        receiver.apply();
        hdr.udp.checksum = 0;
        if (hdr.agg.kind == RESULT && standard.egress_port != meta.owner) {
            make_receipt();
        } else if (hdr.agg.kind == DATA && (hdr.agg.bitmap & meta.worker) == 0) {
            mark_to_drop(standard);
        }
    }
}

V1Switch(AggParser(), NoVerify(), ShardIngress(), ShardEgress(), IpChecksum(), AggDeparser()) main;
