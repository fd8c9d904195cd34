/* Lab 17: a switch for a mixture of experts.
 *
 * Tokens go to all workers, and each answer to the token's worker. Parts marked TODO are yours. Names
 * of tables, actions and parameters have to stay, because the control plane uses them.
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
    /* TODO (task 2): what else does the program need to know about the token's slot? */
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

    /* TODO (tasks 2 to 4): actions that find and claim a slot, add up values, and make a result. */

    apply {
        if (hdr.agg.isValid() && job.apply().hit && home.apply().hit) {
            if (hdr.agg.kind == DATA && hdr.values.isValid()) {
                /* TODO (task 1): from whom? */
                /* TODO (task 2): the token gets its slot. TODO (task 4): or it has one. */
                standard.mcast_grp = meta.group;
            } else if ((hdr.agg.kind == GRADIENT && hdr.values.isValid()) ||
                       hdr.agg.kind == NOTHING) {
                /* TODO (tasks 2 and 3): the token's worker wants one packet. */
                standard.egress_spec = meta.home;
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
        /* TODO (task 1): not every host is an expert for this token. */
    }
}

V1Switch(AggParser(), NoVerify(), ExpertIngress(), ExpertEgress(), IpChecksum(), AggDeparser()) main;
