/* The values of all aggregators, and how they move between an aggregator and a packet.
 *
 * Included inside an ingress control, which has `hdr` and `meta`; aggregator `meta.slot` is meant.
 */

#if ADDER == ADDER_FLOAT32_EXACT
#include "exact_memory.p4"
#elif ADDER == ADDER_FPISA
#include "fpisa_memory.p4"
#elif defined(PACKED)
#include "packed_memory.p4"
#else
    /* One array per position of a value in the packet. */
#define VALUE_REGISTER(n) register<bit<32>>(AGGREGATORS) value_##n;
    EACH_VALUE(VALUE_REGISTER)

    /* The switch adds 64 numbers in one pass; so does a P4 target. */
    action store_values() {
#define STORE_VALUE(n) value_##n.write(meta.slot, hdr.values.v##n);
        EACH_VALUE(STORE_VALUE)
    }

#if ADDER == ADDER_INT32
    /* The sign of (old ^ sum) & (packet ^ sum) is set when an addition overflows. */
    action sum_values() {
        bit<32> old;
        bit<32> sum;
        bit<32> overflow = 0;
#define SUM_VALUE(n)                                                  \
        value_##n.read(old, meta.slot);                               \
        sum = old + hdr.values.v##n;                                  \
        overflow = overflow | ((old ^ sum) & (hdr.values.v##n ^ sum)); \
        value_##n.write(meta.slot, sum);                              \
        hdr.values.v##n = sum;
        EACH_VALUE(SUM_VALUE)
        meta.overflow = overflow;
    }
#else
#ifdef INTEGERS
#define ELSE_ADD_INTEGERS(n) sum = IS_INTEGERS ? old + hdr.values.v##n : sum;
#else
#define ELSE_ADD_INTEGERS(n)
#endif
    action sum_values() {
        bit<32> old;
        bit<32> sum;
#define SUM_VALUE(n)                         \
        value_##n.read(old, meta.slot);      \
        sum = ADD(old, hdr.values.v##n);     \
        ELSE_ADD_INTEGERS(n)                 \
        value_##n.write(meta.slot, sum);     \
        hdr.values.v##n = sum;
        EACH_VALUE(SUM_VALUE)
    }
#endif

    action trade_values() {
        bit<32> old;
#define TRADE_VALUE(n)                                \
        value_##n.read(old, meta.slot);               \
        value_##n.write(meta.slot, hdr.values.v##n);  \
        hdr.values.v##n = old;
        EACH_VALUE(TRADE_VALUE)
    }

    action take_values() {
        hdr.values.setValid();
#define TAKE_VALUE(n) value_##n.read(hdr.values.v##n, meta.slot);
        EACH_VALUE(TAKE_VALUE)
    }
#endif
