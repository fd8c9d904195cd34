/* Lab 19: aggregation of bf16 numbers, in the order of arrival or exact.
 *
 * A set of an exact job holds whole numbers of units, which follow from the field `priority`. What
 * does not fit goes to a server, and so does all that comes for this set from then on.
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
    bit<1>  fits;
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
    Rounder() rounder;
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

    action store_values() {
#define STORE_VALUE(n) value_##n.write(meta.set, hdr.values.v##n);
        EACH_VALUE(STORE_VALUE)
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

/* A shift by 32 bits and more leaves nothing, so it is never taken for a whole number of units, unless
 * the number is 0. */
#define ADD_UNITS(n) {                                              \
        bit<32> code = hdr.values.v##n;                             \
        bit<8> exponent = code[14:7];                               \
        bit<32> size = code & 0x7f;                                 \
        int<64> units = 0;                                          \
        if (exponent == 0) { exponent = 1; } else { size = size | 0x80; }   \
        if (exponent < hdr.agg.priority) {                          \
            bit<8> right = hdr.agg.priority - exponent;             \
            units = (int<64>) (bit<64>) (size >> right);            \
            if ((size >> right) << right != size) { meta.fits = 0; }        \
        } else {                                                    \
            bit<8> left = exponent - hdr.agg.priority;              \
            units = (int<64>) ((bit<64>) size << left);             \
            if (left > 24) { meta.fits = 0; }                       \
        }                                                           \
        if (code[15:15] == 1) { units = -units; }                   \
        if (exponent == 255 || units != (int<64>) (int<32>) units) { meta.fits = 0; }       \
        units = units + (int<64>) (int<32>) sum_##n;                \
        if (units != (int<64>) (int<32>) units) { meta.fits = 0; }  \
        sum_##n = (bit<32>) (int<32>) units;                        \
    }

#define ROUND(n) {                                                  \
        bit<32> sign = 0;                                           \
        bit<32> size = sum_##n;                                     \
        if (size[31:31] == 1) {                                     \
            size = -size;                                           \
            sign = SIGN;                                            \
        }                                                           \
        rounder.apply(sign, size, (int<32>) (bit<32>) hdr.agg.priority, sum_##n);   \
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
                if (meta.state == FILLING && (meta.bitmap & hdr.agg.bitmap) == 0) {
                    meta.fits = 1;
                    read_sums();
                    if (meta.exact == 1) {
                        if (meta.bitmap == 0) {
#define CLEAR(n) sum_##n = 0;
                            EACH_VALUE(CLEAR)
                        }
                        EACH_VALUE(ADD_UNITS)
                    } else if (meta.bitmap == 0) {
                        EACH_VALUE(FIRST)
                    } else {
                        EACH_VALUE(ADD)
                    }
                    if (meta.fits == 0) {
                        meta.state = SPILLED;
                    } else {
                        meta.bitmap = meta.bitmap | hdr.agg.bitmap;
                        if (meta.bitmap == meta.everyone) {
                            meta.state = DONE;
                            if (meta.exact == 1) {
                                EACH_VALUE(ROUND)
                            }
                            standard.mcast_grp = meta.group;
                        } else {
                            drop();
                        }
                        store_sums();
                    }
                } else if (meta.state == FILLING) {
                    drop();              // in the sum already
                } else {
                    standard.egress_spec = standard.ingress_port;
                }
                if (meta.state == DONE) {
                    take_values();
                    make_result();
                } else if (meta.state == SPILLED) {
                    hdr.agg.flags = hdr.agg.flags | OVERFLOW;
                    standard.egress_spec = meta.server;
                }
                write_set();
            } else if (hdr.agg.kind == RESULT && hdr.values.isValid() && meta.state == SPILLED &&
                       hdr.agg.number == meta.number && standard.ingress_port == meta.server) {
                store_values();
                meta.state = DONE;
                write_set();
                make_result();
                standard.mcast_grp = meta.group;
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
