/* Lab 19: aggregation of bf16 numbers, in the order of arrival or exact.
 *
 * This adds in the order of arrival, with the adder of adder.p4. Parts marked TODO are yours. Names of
 * tables, actions and parameters have to stay, because the control plane uses them.
 */
#include <core.p4>
#include <v1model.p4>

#ifndef SLOTS
#define SLOTS 8
#endif

const bit<8> FREE    = 0;
const bit<8> FILLING = 1;
const bit<8> SPILLED = 2;                // the server adds
const bit<8> DONE    = 3;                // the set holds the result

struct metadata_t {
    bit<32> everyone;                    // the bitmap of all workers
    bit<16> group;
    bit<48> mac;                         // of this switch
    bit<32> ip;
    bit<1>  exact;
    bit<9>  server;                      // port of an exact job's server
    bit<32> set;                         // the packet's set: 2 * slot + set
    bit<32> bitmap;
    bit<32> number;
    bit<8>  state;
}

#include "packet.p4"
#include "adder.p4"

control FloatIngress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard) {
    register<bit<32>>(2 * SLOTS) set_bitmap;
    register<bit<32>>(2 * SLOTS) set_number;
    register<bit<8>>(2 * SLOTS)  set_state;
#define VALUE_REGISTER(n) register<bit<32>>(2 * SLOTS) value_##n;
    EACH_VALUE(VALUE_REGISTER)

    Adder() adder;
#define NEW_SUM(n) bit<32> sum_##n;      /* with the packet's values */
    EACH_VALUE(NEW_SUM)

    action drop() {
        mark_to_drop(standard);
    }

    action in_order(bit<32> everyone, bit<16> group, bit<48> mac, bit<32> ip) {
        meta.everyone = everyone;
        meta.group = group;
        meta.mac = mac;
        meta.ip = ip;
    }
    action exact(bit<32> everyone, bit<16> group, bit<48> mac, bit<32> ip, bit<9> server) {
        in_order(everyone, group, mac, ip);
        meta.exact = 1;
        meta.server = server;
    }
    table job {
        key = { hdr.agg.job: exact; }
        actions = { in_order; exact; drop; }
        default_action = drop();
        size = 256;
    }

    action find_set() {
        meta.set = (bit<32>) (hdr.agg.slot & 0x7fff) << 1 | (bit<32>) (hdr.agg.slot >> 15);
        set_bitmap.read(meta.bitmap, meta.set);
        set_number.read(meta.number, meta.set);
        set_state.read(meta.state, meta.set);
    }

    action write_set() {
        set_bitmap.write(meta.set, meta.bitmap);
        set_number.write(meta.set, meta.number);
        set_state.write(meta.set, meta.state);
    }

    action read_sums() {
#define READ_SUM(n) value_##n.read(sum_##n, meta.set);
        EACH_VALUE(READ_SUM)
    }

    action store_sums() {
#define STORE_SUM(n) value_##n.write(meta.set, sum_##n);
        EACH_VALUE(STORE_SUM)
    }

    action take_values() {
#define TAKE_VALUE(n) value_##n.read(hdr.values.v##n, meta.set);
        EACH_VALUE(TAKE_VALUE)
    }

    action make_result() {
        hdr.agg.kind = RESULT;
        hdr.agg.flags = 0;
        hdr.agg.bitmap = meta.everyone;
        hdr.ethernet.source = meta.mac;
        hdr.ip.source = meta.ip;
    }

#define FIRST(n) sum_##n = hdr.values.v##n;
#define ADD(n) adder.apply(sum_##n, hdr.values.v##n);

    /* TODO (task 2): a macro that adds the bf16 number in hdr.values.v##n, as units, to sum_##n, and says
     * whether the number and the sum fit; and one that rounds the units in sum_##n to a bf16. */

    apply {
        if (hdr.agg.isValid() && (hdr.agg.slot & 0x7fff) < SLOTS && job.apply().hit) {
            find_set();
            if (hdr.agg.kind == GRADIENT && hdr.values.isValid() &&
                (meta.state == FREE || hdr.agg.number >= meta.number)) {
                if (meta.state == FREE || hdr.agg.number > meta.number) {
                    meta.state = FILLING;
                    meta.number = hdr.agg.number;
                    meta.bitmap = 0;
                }
                if (meta.state == FILLING) {
                    /* TODO (task 4): a copy. */
                    /* TODO (task 2): exact jobs. */
                    read_sums();
                    if (meta.bitmap == 0) {
                        EACH_VALUE(FIRST)
                    } else {
                        EACH_VALUE(ADD)
                    }
                    meta.bitmap = meta.bitmap | hdr.agg.bitmap;
                    store_sums();
                    /* TODO (task 3): what if it does not fit? */
                    if (meta.bitmap == meta.everyone) {
                        meta.state = DONE;
                        take_values();
                        make_result();
                        standard.mcast_grp = meta.group;
                    } else {
                        drop();
                    }
                    write_set();
                } else {
                    drop();              // TODO (tasks 3 and 4)
                }
            /* TODO (task 3): a result. */
            } else {
                drop();
            }
        } else {
            drop();
        }
    }
}

control FloatEgress(inout headers_t hdr, inout metadata_t meta,
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

V1Switch(AggParser(), NoVerify(), FloatIngress(), FloatEgress(), IpChecksum(), AggDeparser()) main;
