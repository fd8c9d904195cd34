/* value_memory.p4 with the adder FLOAT32_EXACT: sums are wide, and rounded into the packet.
 *
 * Included inside an ingress control, which has `hdr` and `meta`; aggregator `meta.slot` is meant.
 */
#define VALUE_REGISTER(n)                    \
    register<exact_t>(AGGREGATORS) value_##n; \
    register<bit<8>>(AGGREGATORS) special_##n;
    EACH_VALUE(VALUE_REGISTER)

    action store_values() {
#define STORE_VALUE(n)                                                 \
        value_##n.write(meta.slot, exact_of_any(hdr.values.v##n, IS_INTEGERS));      \
        special_##n.write(meta.slot, (bit<8>) special_of_any(hdr.values.v##n, IS_INTEGERS));
        EACH_VALUE(STORE_VALUE)
    }

    action sum_values() {
        exact_t sum;
        bit<8> special;
#define SUM_VALUE(n)                                             \
        value_##n.read(sum, meta.slot);                          \
        special_##n.read(special, meta.slot);                    \
        sum = sum + exact_of_any(hdr.values.v##n, IS_INTEGERS);  \
        special = special | (bit<8>) special_of_any(hdr.values.v##n, IS_INTEGERS); \
        value_##n.write(meta.slot, sum);                         \
        special_##n.write(meta.slot, special);                   \
        hdr.values.v##n = round_exact(sum, (bit<32>) special);
        EACH_VALUE(SUM_VALUE)
    }

    action take_values() {
        exact_t sum;
        bit<8> special;
        hdr.values.setValid();
#define TAKE_VALUE(n)                                            \
        value_##n.read(sum, meta.slot);                          \
        special_##n.read(special, meta.slot);                    \
        hdr.values.v##n = round_exact(sum, (bit<32>) special);
        EACH_VALUE(TAKE_VALUE)
    }
