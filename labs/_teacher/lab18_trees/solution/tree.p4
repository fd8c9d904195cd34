/* Lab 18: a switch of a reduction tree. It adds up what its children send, and sends the sum to its
 * parent; the root rounds the sum and sends it down.
 *
 * Values of hosts and results are bf16. Sums on their way up are integers, in units that follow from
 * the field `priority`, so they do not depend on the order of arrival, nor on the tree.
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

    action make_partial(bit<8> flags) {
        hdr.agg.kind = GRADIENT;
        hdr.agg.flags = flags;
        hdr.agg.bitmap = meta.bit_there;
        standard.egress_spec = meta.parent;
        from_here();
    }

    action make_reminder() {
        hdr.agg.kind = REMINDER;
        hdr.values.setInvalid();
        hdr.ip.length = hdr.ip.length - 4 * VALUES;
        hdr.udp.length = hdr.udp.length - 4 * VALUES;
        standard.mcast_grp = meta.group;
        from_here();
    }

    action add_room() {
        hdr.values.setValid();
        hdr.ip.length = hdr.ip.length + 4 * VALUES;
        hdr.udp.length = hdr.udp.length + 4 * VALUES;
    }

#define TO_FIXED(n) {                                               \
        bit<32> code = hdr.values.v##n;                             \
        bit<32> size = 0x80 | (code & 0x7f);                        \
        bit<8> exponent = code[14:7];                               \
        if (exponent < hdr.agg.priority) {                          \
            size = size >> (hdr.agg.priority - exponent);           \
        } else {                                                    \
            size = size << (exponent - hdr.agg.priority);           \
        }                                                           \
        if (code[15:15] == 1) { size = -size; }                     \
        hdr.values.v##n = size;                                     \
    }

#define TO_BF16(n) {                                                \
        bit<32> size = hdr.values.v##n;                             \
        bit<32> sign = size & 0x80000000;                           \
        if (sign != 0) { size = -size; }                            \
        if (size != 0) {                                            \
            bit<32> zeros;                                          \
            NORMALISE(size, zeros)                                  \
            bit<32> rest = size & 0xffffff;                         \
            size = size >> 24;                                      \
            if (rest > 0x800000 || (rest == 0x800000 && size[0:0] == 1)) {  \
                size = size + 1;                                    \
            }                                                       \
            bit<32> exponent = (bit<32>) hdr.agg.priority + 24 - zeros; \
            size = (((exponent - 1) << 7) + size) | (sign >> 16);   \
        }                                                           \
        hdr.values.v##n = size;                                     \
    }

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
                } else if (meta.state == SENT) {
                    take_values();
                    make_partial(PARTIAL | RESEND);
                } else {
                    if ((meta.bitmap & hdr.agg.bitmap) == 0) {
                        if ((hdr.agg.flags & PARTIAL) == 0) {
                            EACH_VALUE(TO_FIXED)
                        }
                        if (meta.bitmap != 0) {
                            add_values();
                        }
                        meta.bitmap = meta.bitmap | hdr.agg.bitmap;
                        if (meta.bitmap == meta.everyone && meta.parent == 0) {
                            EACH_VALUE(TO_BF16)
                        }
                        store_values();
                    }
                    if (meta.bitmap == meta.everyone && meta.parent == 0) {
                        meta.state = DONE;
                        make_result();
                        standard.mcast_grp = meta.group;
                    } else if (meta.bitmap == meta.everyone) {
                        meta.state = SENT;
                        make_partial(PARTIAL);
                    } else if ((hdr.agg.flags & (PARTIAL | RESEND)) == (PARTIAL | RESEND)) {
                        make_reminder();
                    } else {
                        drop();
                    }
                    write_set();
                }
            } else if (hdr.agg.kind == RESULT && hdr.values.isValid() &&
                       hdr.agg.number == meta.number &&
                       ((meta.state == SENT && standard.ingress_port == meta.parent) ||
                        (meta.state == FILLING && meta.parent == 0))) {
                store_values();
                meta.state = DONE;
                write_set();
                make_result();
                standard.mcast_grp = meta.group;
            } else if (hdr.agg.kind == REMINDER && standard.ingress_port == meta.parent &&
                       hdr.agg.number == meta.number && meta.state >= SENT) {
                add_room();
                take_values();
                if (meta.state == SENT) {
                    make_partial(PARTIAL);
                } else {
                    make_result();
                    standard.egress_spec = meta.parent;
                }
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
