/* Lab 3: a pool of slots that add up fragments of 64 values, in UDP packets.
 *
 * Parts marked TODO are yours. Names of tables, actions and parameters have to stay, because the
 * control plane uses them.
 */
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
    /* TODO (task 1): the pool. For each slot how many gradients are in, and for each of the 64
     * values a register array with one element per slot. EACH_VALUE writes the latter for you. */
    register<bit<8>>(SLOTS) slot_count;

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

    /* TODO (tasks 1 and 2): actions that store and add the values, and one that makes the result. */

    apply {
        if (hdr.values.isValid() && hdr.agg.kind == GRADIENT && job.apply().hit) {
            /* TODO (tasks 1 and 2): the gradient goes into its slot. */
            drop();
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
        /* TODO (task 3): address this copy, and set the UDP checksum. */
        receiver.apply();
    }
}

control PoolChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        /* TODO (task 3): the checksum of the IPv4 header; see update_checksum in v1model.p4. */
    }
}

V1Switch(AggParser(), NoVerify(), PoolIngress(), PoolEgress(), PoolChecksum(), AggDeparser()) main;
