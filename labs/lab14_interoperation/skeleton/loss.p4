/* Lab 4: aggregation that survives lost and duplicated packets (SwitchML's idea).
 *
 * A slot has two sets. A fragment goes to the set that the top bit of `slot` names; a worker uses the
 * two sets of a slot in turn, and sends its next fragment when it has the result of the last one.
 *
 * This works while no packet is lost or duplicated. Parts marked TODO are yours. Names of tables,
 * actions and parameters have to stay, because the control plane uses them.
 */
#include <core.p4>
#include <v1model.p4>

#ifndef SLOTS
#define SLOTS 8
#endif

struct metadata_t {
    bit<32> complete;                    // the bitmap of all workers
    bit<8>  workers;                     // how many they are
    bit<16> group;
    bit<48> mac;                         // of this switch
    bit<32> ip;
    bit<32> own;                         // the packet's set: 2 * slot + set
    bit<8>  count;                       // gradients that are in it
    /* TODO: what else does the program need to know about this set, and about the other one? */
}

#include "packet.p4"

control LossIngress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
    /* TODO (task 1): which workers are in the sum? A count does not say it. */
    register<bit<8>>(2 * SLOTS) set_count;
#define VALUE_REGISTER(n) register<bit<32>>(2 * SLOTS) value_##n;
    EACH_VALUE(VALUE_REGISTER)

    action drop() {
        mark_to_drop(standard);
    }

    action aggregate(bit<32> complete, bit<8> workers, bit<16> group, bit<48> mac, bit<32> ip) {
        meta.complete = complete;
        meta.workers = workers;
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
        set_count.read(meta.count, meta.own);
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

    /* TODO (task 2): an action that takes the set's values into the packet. */

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
            /* TODO (tasks 1 to 4): is this worker in the sum already? Has it lost the result? Is
             * this a late copy of an older fragment? */
            if (meta.count == 0) {
                store_values();
            } else {
                add_values();
            }
            meta.count = meta.count + 1;
            if (meta.count == meta.workers) {
                meta.count = 0;
                make_result();
                standard.mcast_grp = meta.group;
            } else {
                drop();
            }
            set_count.write(meta.own, meta.count);
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
