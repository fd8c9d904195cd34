/* Lab 12: ESA, where each fragment has two places in the pool.
 *
 * A fragment goes to the slot that its packets name, or to the one half a pool behind it. It claims
 * the one that is empty, or else competes for the one whose owner is less urgent.
 */
#include <core.p4>
#include <v1model.p4>

#ifndef SLOTS
#define SLOTS 8
#endif

const bit<8> EMPTY   = 0;
const bit<8> FILLING = 1;

struct metadata_t {
    bit<32> complete;                    // the bitmap of all workers of the packet's job
    bit<16> size;                        // of the pool
    bit<16> group;                       // the multicast group of the job's workers
    bit<1>  preemption;                  // policy, by the control plane
    bit<32> slot;
    bit<8>  state;                       // what the slot holds
    bit<8>  job;
    bit<32> number;
    bit<32> bitmap;
    bit<8>  priority;
    bit<32> known;
    bit<32> merged;
}

#include "packet.p4"

control SchedulerIngress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard) {
    register<bit<8>>(SLOTS)  slot_state;
    register<bit<8>>(SLOTS)  slot_job;
    register<bit<32>>(SLOTS) slot_number;
    register<bit<32>>(SLOTS) slot_bitmap;
    register<bit<8>>(SLOTS)  slot_priority;
#define VALUE_REGISTER(n) register<bit<32>>(SLOTS) value_##n;
    EACH_VALUE(VALUE_REGISTER)

    action drop() {
        mark_to_drop(standard);
    }

    action aggregate(bit<32> complete, bit<16> size, bit<16> group, bit<1> preemption) {
        meta.complete = complete;
        meta.size = size;
        meta.group = group;
        meta.preemption = preemption;
    }
    table job {
        key = { hdr.agg.job: exact; }
        actions = { aggregate; drop; }
        default_action = drop();
        size = 256;
    }

    /* The way to each job's PS. Applied last, with the job of the packet that leaves. */
    action to_port(bit<9> port) {
        standard.egress_spec = port;
    }
    table server {
        key = { hdr.agg.job: exact; }
        actions = { to_port; drop; }
        default_action = drop();
        size = 256;
    }

    action read_slot() {
        slot_state.read(meta.state, meta.slot);
        slot_job.read(meta.job, meta.slot);
        slot_number.read(meta.number, meta.slot);
        slot_bitmap.read(meta.bitmap, meta.slot);
        slot_priority.read(meta.priority, meta.slot);
    }

    action write_slot() {
        slot_state.write(meta.slot, meta.state);
        slot_job.write(meta.slot, meta.job);
        slot_number.write(meta.slot, meta.number);
        slot_bitmap.write(meta.slot, meta.bitmap);
        slot_priority.write(meta.slot, meta.priority);
    }

    action store_values() {
#define STORE_VALUE(n) value_##n.write(meta.slot, hdr.values.v##n);
        EACH_VALUE(STORE_VALUE)
    }

    action add_values() {
        bit<32> old;
#define ADD_VALUE(n)                             \
        value_##n.read(old, meta.slot);          \
        hdr.values.v##n = hdr.values.v##n + old; \
        value_##n.write(meta.slot, hdr.values.v##n);
        EACH_VALUE(ADD_VALUE)
    }

    action take_values() {
#define TAKE_VALUE(n) value_##n.read(hdr.values.v##n, meta.slot);
        EACH_VALUE(TAKE_VALUE)
    }

    /* The packet's values and the slot's change places. */
    action trade_values() {
        bit<32> old;
#define TRADE_VALUE(n)                               \
        value_##n.read(old, meta.slot);              \
        value_##n.write(meta.slot, hdr.values.v##n); \
        hdr.values.v##n = old;
        EACH_VALUE(TRADE_VALUE)
    }

    /* The packet gets the content of the slot ... */
    action become_content() {
        hdr.agg.kind = GRADIENT;
        hdr.agg.job = meta.job;
        hdr.agg.number = meta.number;
        hdr.agg.bitmap = meta.bitmap;
        hdr.agg.priority = meta.priority;
    }

    /* ... and the slot gets the packet, as the first of its sum. */
    action occupy() {
        meta.state = FILLING;
        meta.job = hdr.agg.job;
        meta.number = hdr.agg.number;
        meta.bitmap = hdr.agg.bitmap;
        meta.priority = hdr.agg.priority;
    }

    /* A reminder has no values, but its answer has. */
    action add_value_header() {
        hdr.values.setValid();
        hdr.ip.length = hdr.ip.length + 4 * VALUES;
        hdr.udp.length = hdr.udp.length + 4 * VALUES;
        hdr.udp.checksum = 0;
    }

    apply {
        bit<1> leaves = 0;               // towards a PS
        if (hdr.agg.isValid() && job.apply().hit) {
            bit<1> inside = 0;
            bit<1> mine = 0;
            if (hdr.agg.slot < meta.size) {
                inside = 1;
                bit<16> other = hdr.agg.slot + (meta.size >> 1);
                if (other >= meta.size) {
                    other = other - meta.size;
                }
                meta.slot = (bit<32>) hdr.agg.slot;
                read_slot();
                if (meta.state != EMPTY && meta.job == hdr.agg.job &&
                    meta.number == hdr.agg.number) {
                    mine = 1;
                } else {
                    bit<8> state_first = meta.state;
                    bit<8> priority_first = meta.priority;
                    meta.slot = (bit<32>) other;
                    read_slot();
                    if (meta.state != EMPTY && meta.job == hdr.agg.job &&
                        meta.number == hdr.agg.number) {
                        mine = 1;
                    } else if (state_first == EMPTY ||
                               (meta.state != EMPTY && priority_first <= meta.priority)) {
                        meta.slot = (bit<32>) hdr.agg.slot;
                        read_slot();
                    }
                }
            }
            meta.known = meta.bitmap & hdr.agg.bitmap;
            meta.merged = meta.bitmap | hdr.agg.bitmap;

            if (hdr.agg.kind == RESULT && hdr.values.isValid()) {
                standard.mcast_grp = meta.group;
                if (mine == 1) {
                    meta.state = EMPTY;
                    write_slot();
                }
            } else if (hdr.agg.kind == REMINDER) {
                leaves = 1;
                if (mine == 1) {
                    add_value_header();
                    take_values();
                    become_content();
                    hdr.agg.flags = hdr.agg.flags | PARTIAL;
                    meta.state = EMPTY;
                    write_slot();
                } else {
                    hdr.agg.kind = NOTHING;
                }
            } else if (hdr.agg.kind != GRADIENT || !hdr.values.isValid()) {
                drop();
            } else if (inside == 0) {
                hdr.agg.flags = hdr.agg.flags | COLLISION;
                leaves = 1;
            } else if (meta.state == EMPTY) {
                occupy();
                store_values();
                write_slot();
                drop();
            } else if (mine == 1 && meta.known != 0) {
                drop();
            } else if (mine == 1) {
                add_values();
                meta.bitmap = meta.merged;
                if (meta.merged == meta.complete) {
                    meta.state = EMPTY;  // the PS keeps the sum from now on
                    become_content();
                    leaves = 1;
                } else {
                    drop();
                }
                write_slot();
            } else if (meta.preemption == 1 && hdr.agg.priority > meta.priority) {
                bit<8>  job_in = hdr.agg.job;
                bit<32> number_in = hdr.agg.number;
                bit<32> bitmap_in = hdr.agg.bitmap;
                bit<8>  priority_in = hdr.agg.priority;
                trade_values();
                become_content();
                hdr.agg.flags = hdr.agg.flags | PARTIAL;
                meta.job = job_in;
                meta.number = number_in;
                meta.bitmap = bitmap_in;
                meta.priority = priority_in;
                write_slot();
                leaves = 1;
            } else {
                hdr.agg.flags = hdr.agg.flags | COLLISION;
                leaves = 1;
                if (meta.preemption == 1) {
                    meta.priority = meta.priority >> 1;
                    write_slot();
                }
            }
        } else {
            drop();
        }
        if (leaves == 1) {
            server.apply();
        }
    }
}

control SchedulerEgress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard) {
    apply { }
}

V1Switch(AggParser(), NoVerify(), SchedulerIngress(), SchedulerEgress(), IpChecksum(),
         AggDeparser()) main;
