/* Lab 17: a switch for a mixture of experts. A token goes to its experts, and their answers come back
 * as one packet, with the sum of their values.
 */
#include <core.p4>
#include <v1model.p4>

#ifndef SLOTS
#define SLOTS 32
#endif

struct metadata_t {
    bit<16> group;
    bit<48> mac;                         // of this switch
    bit<32> ip;
    bit<9>  home;                        // port of the token's worker
    bit<32> worker;                      // bit of the worker at the egress port
    bit<32> slot;
    bit<32> number;                      // of the token in the slot
    bit<32> wanted;                      // its experts; 0: the slot was never used
    bit<32> seen;                        // experts that have answered
}

#include "packet.p4"

control ExpertIngress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard) {
    register<bit<32>>(SLOTS) slot_number;
    register<bit<32>>(SLOTS) slot_wanted;
    register<bit<32>>(SLOTS) slot_seen;
#define VALUE_REGISTER(n) register<bit<32>>(SLOTS) value_##n;
    EACH_VALUE(VALUE_REGISTER)

    action drop() {
        mark_to_drop(standard);
    }

    action member(bit<16> group, bit<48> mac, bit<32> ip) {
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

    action lives_at(bit<9> port) {
        meta.home = port;
    }
    table home {
        key = { hdr.agg.job: exact; hdr.agg.worker: exact; }
        actions = { lives_at; drop; }
        default_action = drop();
        size = 1024;
    }

    action find_slot() {
        meta.slot = (bit<32>) hdr.agg.slot;
        slot_number.read(meta.number, meta.slot);
        slot_wanted.read(meta.wanted, meta.slot);
        slot_seen.read(meta.seen, meta.slot);
    }

    action claim() {
        slot_number.write(meta.slot, hdr.agg.number);
        slot_wanted.write(meta.slot, hdr.agg.bitmap);
        slot_seen.write(meta.slot, 0);
#define CLEAR_VALUE(n) value_##n.write(meta.slot, 0);
        EACH_VALUE(CLEAR_VALUE)
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

    action add_room() {
        hdr.values.setValid();
        hdr.ip.length = hdr.ip.length + 4 * VALUES;
        hdr.udp.length = hdr.udp.length + 4 * VALUES;
    }

    action make_result() {
        hdr.agg.kind = RESULT;
        hdr.agg.bitmap = meta.wanted;
        hdr.ethernet.source = meta.mac;
        hdr.ip.source = meta.ip;
        standard.egress_spec = meta.home;
    }

    apply {
        if (hdr.agg.isValid() && job.apply().hit && home.apply().hit) {
            if (hdr.agg.slot < SLOTS) {
                find_slot();
            }
            if (hdr.agg.kind == DATA && hdr.values.isValid() &&
                standard.ingress_port == meta.home) {
                if (hdr.agg.slot >= SLOTS) {
                    standard.mcast_grp = meta.group;
                } else if (meta.wanted == 0 || hdr.agg.number > meta.number) {
                    claim();
                    standard.mcast_grp = meta.group;
                } else if (hdr.agg.number < meta.number) {
                    drop();
                } else if (meta.seen == meta.wanted) {
                    take_values();
                    make_result();
                } else {
                    hdr.agg.bitmap = meta.wanted & ~meta.seen;
                    standard.mcast_grp = meta.group;
                }
            } else if ((hdr.agg.kind == GRADIENT && hdr.values.isValid()) ||
                       hdr.agg.kind == NOTHING) {
                if (hdr.agg.slot >= SLOTS) {
                    standard.egress_spec = meta.home;
                } else if (hdr.agg.number == meta.number &&
                           (hdr.agg.bitmap & meta.wanted & ~meta.seen) != 0) {
                    if (hdr.agg.kind == GRADIENT) {
                        add_values();
                    } else {
                        add_room();
                        take_values();
                    }
                    meta.seen = meta.seen | hdr.agg.bitmap;
                    slot_seen.write(meta.slot, meta.seen);
                    if (meta.seen == meta.wanted) {
                        make_result();
                    } else {
                        drop();
                    }
                } else {
                    drop();
                }
            } else {
                drop();
            }
        } else {
            drop();
        }
    }
}

control ExpertEgress(inout headers_t hdr, inout metadata_t meta,
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

    apply {
        receiver.apply();
        hdr.udp.checksum = 0;
        if (hdr.agg.kind == DATA && (hdr.agg.bitmap & meta.worker) == 0) {
            mark_to_drop(standard);
        }
    }
}

V1Switch(AggParser(), NoVerify(), ExpertIngress(), ExpertEgress(), IpChecksum(), AggDeparser()) main;
