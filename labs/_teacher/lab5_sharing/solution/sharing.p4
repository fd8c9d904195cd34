/* Lab 5: jobs that share a pool of slots, with a parameter server (PS) to fall back on (ATP's idea).
 *
 * A slot belongs to the fragment that came first, until the result of that fragment has passed. A
 * fragment that finds its slot taken goes to its own job's PS, which adds up there.
 */
#include <core.p4>
#include <v1model.p4>

#ifndef SLOTS
#define SLOTS 8
#endif

const bit<8> EMPTY   = 0;
const bit<8> FILLING = 1;
const bit<8> HELD    = 2;                // complete and sent, waits for its result

struct metadata_t {
    bit<32> complete;                    // the bitmap of all workers of the packet's job
    bit<16> base;                        // the job's part of the pool
    bit<16> size;
    bit<9>  server;                      // the port of the job's PS
    bit<16> group;                       // the multicast group of the job's workers
    bit<32> slot;
    bit<8>  state;                       // what the slot holds
    bit<8>  job;
    bit<32> number;
    bit<32> bitmap;
    bit<32> known;
    bit<32> merged;
}

#include "packet.p4"

control SharingIngress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard) {
    register<bit<8>>(SLOTS)  slot_state;
    register<bit<8>>(SLOTS)  slot_job;
    register<bit<32>>(SLOTS) slot_number;
    register<bit<32>>(SLOTS) slot_bitmap;
#define VALUE_REGISTER(n) register<bit<32>>(SLOTS) value_##n;
    EACH_VALUE(VALUE_REGISTER)

    action drop() {
        mark_to_drop(standard);
    }

    action aggregate(bit<32> complete, bit<16> base, bit<16> size, bit<9> server,
                     bit<16> group) {
        meta.complete = complete;
        meta.base = base;
        meta.size = size;
        meta.server = server;
        meta.group = group;
    }
    table job {
        key = { hdr.agg.job: exact; }
        actions = { aggregate; drop; }
        default_action = drop();
        size = 256;
    }

    action read_slot() {
        slot_state.read(meta.state, meta.slot);
        slot_job.read(meta.job, meta.slot);
        slot_number.read(meta.number, meta.slot);
        slot_bitmap.read(meta.bitmap, meta.slot);
    }

    action write_slot() {
        slot_state.write(meta.slot, meta.state);
        slot_job.write(meta.slot, meta.job);
        slot_number.write(meta.slot, meta.number);
        slot_bitmap.write(meta.slot, meta.bitmap);
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

    action to_server() {
        standard.egress_spec = meta.server;
    }

    apply {
        if (hdr.values.isValid() && hdr.agg.kind != DATA && job.apply().hit) {
            bit<1> inside = 0;
            bit<1> mine = 0;
            if (hdr.agg.slot < meta.size) {
                inside = 1;
                meta.slot = (bit<32>) (meta.base + hdr.agg.slot);
                read_slot();
                if (meta.state != EMPTY && meta.job == hdr.agg.job &&
                    meta.number == hdr.agg.number) {
                    mine = 1;
                }
            }
            meta.known = meta.bitmap & hdr.agg.bitmap;
            meta.merged = meta.bitmap | hdr.agg.bitmap;

            if (hdr.agg.kind == RESULT) {
                standard.mcast_grp = meta.group;
                if (mine == 1) {
                    meta.state = EMPTY;
                    write_slot();
                }
            } else if ((hdr.agg.flags & RESEND) != 0) {
                if (mine == 1) {         // takes the sum along
                    if (meta.known == 0) {
                        add_values();
                    } else {
                        take_values();
                    }
                    hdr.agg.bitmap = meta.merged;
                    meta.state = EMPTY;
                    write_slot();
                }
                to_server();
            } else if (inside == 0) {
                hdr.agg.flags = hdr.agg.flags | COLLISION;
                to_server();
            } else if (meta.state == EMPTY) {
                meta.state = FILLING;
                meta.job = hdr.agg.job;
                meta.number = hdr.agg.number;
                meta.bitmap = hdr.agg.bitmap;
                store_values();
                write_slot();
                drop();
            } else if (mine == 0) {
                hdr.agg.flags = hdr.agg.flags | COLLISION;
                to_server();
            } else if (meta.known != 0) {
                if (meta.state == HELD) {
                    take_values();
                    hdr.agg.bitmap = meta.bitmap;
                    to_server();
                } else {
                    drop();
                }
            } else {
                add_values();
                meta.bitmap = meta.merged;
                if (meta.merged == meta.complete) {
                    meta.state = HELD;
                    hdr.agg.bitmap = meta.merged;
                    to_server();
                } else {
                    drop();
                }
                write_slot();
            }
        } else {
            drop();
        }
    }
}

control SharingEgress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard) {
    apply { }
}

V1Switch(AggParser(), NoVerify(), SharingIngress(), SharingEgress(), IpChecksum(),
         AggDeparser()) main;
