/* value_memory.p4 with PACKED: a word of a register has the sums of two positions (int8.p4).
 *
 * Included inside an ingress control, which has `hdr` and `meta`; aggregator `meta.slot` is meant.
 */
#define VALUE_REGISTER(n, m) register<bit<32>>(AGGREGATORS) value_##n;
    EACH_PAIR(VALUE_REGISTER)

#define UNPACK_WORD(n, m)                                         \
        hdr.values.v##m = second_int8(word);                      \
        hdr.values.v##n = first_int8(word, hdr.values.v##m);

    action store_values() {
#define STORE_VALUE(n, m) \
        value_##n.write(meta.slot, pack_int8(hdr.values.v##n, hdr.values.v##m));
        EACH_PAIR(STORE_VALUE)
    }

    action sum_values() {
        bit<32> word;
#define SUM_VALUE(n, m)                                             \
        value_##n.read(word, meta.slot);                            \
        word = word + pack_int8(hdr.values.v##n, hdr.values.v##m);  \
        value_##n.write(meta.slot, word);                           \
        UNPACK_WORD(n, m)
        EACH_PAIR(SUM_VALUE)
    }

    action trade_values() {
        bit<32> word;
#define TRADE_VALUE(n, m)                                                         \
        value_##n.read(word, meta.slot);                                          \
        value_##n.write(meta.slot, pack_int8(hdr.values.v##n, hdr.values.v##m));  \
        UNPACK_WORD(n, m)
        EACH_PAIR(TRADE_VALUE)
    }

    action take_values() {
        bit<32> word;
        hdr.values.setValid();
#define TAKE_VALUE(n, m)                      \
        value_##n.read(word, meta.slot);      \
        UNPACK_WORD(n, m)
        EACH_PAIR(TAKE_VALUE)
    }
