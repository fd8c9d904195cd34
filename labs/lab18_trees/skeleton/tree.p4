/* Lab 18: a switch of a reduction tree. It adds up what its children send, and sends the sum to its
 * parent; the root rounds the sum and sends it down.
 *
 * This is a root that adds up integers. Parts marked TODO are yours. Names of tables, actions and
 * parameters have to stay, because the control plane uses them.
 */
#include <core.p4>
#include <v1model.p4>

#ifndef SLOTS
#define SLOTS 8
#endif

const bit<8> FREE    = 0;
const bit<8> FILLING = 1;
const bit<8> SENT    = 2;                // the sum is complete and on its way up
const bit<8> DONE    = 3;                // the set holds the result

struct metadata_t {
    bit<32> everyone;                    // the bitmap of all children
    bit<16> group;                       // of all children
    bit<9>  parent;                      // port; 0: this is the root
    bit<32> bit_there;                   // of this switch at its parent
    bit<48> mac;                         // of this switch
    bit<32> ip;
    bit<32> set;                         // the packet's set: 2 * slot + set
    bit<32> bitmap;
    bit<32> number;
    bit<8>  state;
}

#include "packet.p4"
#include "bf16.p4"

control TreeIngress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
    register<bit<32>>(2 * SLOTS) set_bitmap;
    register<bit<32>>(2 * SLOTS) set_number;
    register<bit<8>>(2 * SLOTS)  set_state;
#define VALUE_REGISTER(n) register<bit<32>>(2 * SLOTS) value_##n;
    EACH_VALUE(VALUE_REGISTER)

    action drop() {
        mark_to_drop(standard);
    }

    action root(bit<32> everyone, bit<16> group, bit<48> mac, bit<32> ip) {
        meta.everyone = everyone;
        meta.group = group;
        meta.mac = mac;
        meta.ip = ip;
    }
    action inner(bit<32> everyone, bit<16> group, bit<48> mac, bit<32> ip, bit<9> parent,
                 bit<32> bit_there) {
        root(everyone, group, mac, ip);
        meta.parent = parent;
        meta.bit_there = bit_there;
    }
    table job {
        key = { hdr.agg.job: exact; }
        actions = { root; inner; drop; }
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

    action store_values() {
#define STORE_VALUE(n) value_##n.write(meta.set, hdr.values.v##n);
        EACH_VALUE(STORE_VALUE)
    }

    action add_values() {
        bit<32> old;
#define ADD_VALUE(n)                             \
        value_##n.read(old, meta.set);           \
        hdr.values.v##n = hdr.values.v##n + old;
        EACH_VALUE(ADD_VALUE)
    }

    action take_values() {
#define TAKE_VALUE(n) value_##n.read(hdr.values.v##n, meta.set);
        EACH_VALUE(TAKE_VALUE)
    }

    action from_here() {
        hdr.ethernet.source = meta.mac;
        hdr.ip.source = meta.ip;
    }

    action make_result() {
        hdr.agg.kind = RESULT;
        hdr.agg.flags = 0;
        hdr.agg.bitmap = meta.everyone;
        from_here();
    }

    /* TODO (task 2): an action that makes a sum for the parent. */

    /* TODO (task 4): actions that make a reminder of a packet with values, and give a reminder values
     * again. */

    /* TODO (task 1): macros like those above, for use in `apply`:
     * TO_FIXED(n) makes units of the bf16 in hdr.values.v##n,
     * TO_BF16(n) rounds the units in hdr.values.v##n to a bf16. NORMALISE of bf16.p4 helps. */

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
                if (meta.state == DONE) {
                    take_values();
                    make_result();
                    standard.egress_spec = standard.ingress_port;
                } else {
                    /* TODO (task 1): the values of a host are bf16. */
                    /* TODO (task 3): what if the sum has been sent to the parent already? */
                    if ((meta.bitmap & hdr.agg.bitmap) == 0) {
                        if (meta.bitmap != 0) {
                            add_values();
                        }
                        meta.bitmap = meta.bitmap | hdr.agg.bitmap;
                        store_values();
                    }
                    if (meta.bitmap == meta.everyone) {
                        /* TODO (task 2): only a root has the result here. */
                        meta.state = DONE;
                        make_result();
                        standard.mcast_grp = meta.group;
                    } else {
                        drop();
                    }
                    write_set();
                }
            /* TODO (task 3): a result. */
            /* TODO (task 4): a reminder. */
            } else {
                drop();
            }
        } else {
            drop();
        }
    }
}

control TreeEgress(inout headers_t hdr, inout metadata_t meta,
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

V1Switch(AggParser(), NoVerify(), TreeIngress(), TreeEgress(), IpChecksum(), AggDeparser()) main;
