/* Lab 3: a pool of slots that add up fragments of 64 values, in UDP packets. */
#include <core.p4>
#include <v1model.p4>

#ifndef SLOTS
#define SLOTS 16
#endif

struct metadata_t {
    bit<8>  workers;                     // number of workers in a complete sum
    bit<16> group;                       // their multicast group
    bit<48> mac;                         // of this switch
    bit<32> ip;
}

#define OWN_CHECKSUM
#include "packet.p4"

control PoolIngress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
    /* The pool: for each slot how many gradients are in, and one register array per value. */
    register<bit<8>>(SLOTS) slot_count;
#define VALUE_REGISTER(n) register<bit<32>>(SLOTS) value_##n;
    EACH_VALUE(VALUE_REGISTER)

    action drop() {
        mark_to_drop(standard);
    }

    /* Control plane: a job's workers, and this switch's addresses. */
    action aggregate(bit<8> workers, bit<16> group, bit<48> mac, bit<32> ip) {
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

    action store_values() {
#define STORE_VALUE(n) value_##n.write((bit<32>) hdr.agg.slot, hdr.values.v##n);
        EACH_VALUE(STORE_VALUE)
    }

    action add_values() {
        bit<32> old;
#define ADD_VALUE(n)                                     \
        value_##n.read(old, (bit<32>) hdr.agg.slot);     \
        hdr.values.v##n = hdr.values.v##n + old;         \
        value_##n.write((bit<32>) hdr.agg.slot, hdr.values.v##n);
        EACH_VALUE(ADD_VALUE)
    }

    action make_result() {
        hdr.agg.kind = RESULT;
        hdr.ethernet.source = meta.mac;
        hdr.ip.source = meta.ip;
        standard.mcast_grp = meta.group;
    }

    apply {
        if (hdr.values.isValid() && hdr.agg.kind == GRADIENT && hdr.agg.slot < SLOTS &&
            job.apply().hit) {
            bit<8> n;
            slot_count.read(n, (bit<32>) hdr.agg.slot);
            if (n == 0) {
                store_values();
            } else {
                add_values();
            }
            n = n + 1;
            if (n == meta.workers) {
                n = 0;
                make_result();
            } else {
                drop();
            }
            slot_count.write((bit<32>) hdr.agg.slot, n);
        } else {
            drop();
        }
    }
}

control PoolEgress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard) {
    /* Control plane: the host at a port. */
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

control PoolChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ip.isValid(),
            { hdr.ip.version, hdr.ip.ihl, hdr.ip.dscp, hdr.ip.ecn, hdr.ip.length,
              hdr.ip.identification, hdr.ip.flags, hdr.ip.offset, hdr.ip.ttl,
              hdr.ip.protocol, hdr.ip.source, hdr.ip.destination },
            hdr.ip.checksum, HashAlgorithm.csum16);
    }
}

V1Switch(AggParser(), NoVerify(), PoolIngress(), PoolEgress(), PoolChecksum(), AggDeparser()) main;
