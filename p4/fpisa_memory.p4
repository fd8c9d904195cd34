/* value_memory.p4 with the adder FPISA: two registers for each position, and a count of wrong sums.
 *
 * Included inside an ingress control, which has `hdr` and `meta`; aggregator `meta.slot` is meant.
 */
#define VALUE_REGISTER(n)                        \
    register<bit<8>>(AGGREGATORS) exponent_##n;  \
    register<bit<32>>(AGGREGATORS) value_##n;
    EACH_VALUE(VALUE_REGISTER)

    register<bit<64>>(JOBS) overwritten;     // by job: values whose sum an addition has made wrong

    action store_values() {
#define STORE_VALUE(n)                                                   \
        exponent_##n.write(meta.slot, (bit<8>) fpisa_exponent_of_any(hdr.values.v##n, IS_INTEGERS)); \
        value_##n.write(meta.slot, fpisa_mantissa_of_any(hdr.values.v##n, IS_INTEGERS));
        EACH_VALUE(STORE_VALUE)
    }

    /* A sum that is wrong in one value has the flag of an overflow. */
    action sum_values() {
        bit<8> stored;
        bit<32> exponent;
        bit<32> mantissa;
        bit<32> wrong;
        bit<32> count = 0;
        bit<64> counted;
#define SUM_VALUE(n)                                                \
        exponent_##n.read(stored, meta.slot);                       \
        exponent = (bit<32>) stored;                                \
        value_##n.read(mantissa, meta.slot);                        \
        wrong = add_fpisa(exponent, mantissa, hdr.values.v##n);     \
        count = count + wrong;                                      \
        exponent_##n.write(meta.slot, (bit<8>) exponent);           \
        value_##n.write(meta.slot, mantissa);                       \
        hdr.values.v##n = read_fpisa(exponent, mantissa);
        EACH_VALUE(SUM_VALUE)
        meta.overflow = count == 0 ? 32w0 : FPISA_SIGN;
        overwritten.read(counted, (bit<32>) hdr.ina.job);
        overwritten.write((bit<32>) hdr.ina.job, counted + (bit<64>) count);
    }

    action trade_values() {
        bit<8> stored;
        bit<32> mantissa;
#define TRADE_VALUE(n)                                                   \
        exponent_##n.read(stored, meta.slot);                            \
        value_##n.read(mantissa, meta.slot);                             \
        exponent_##n.write(meta.slot, (bit<8>) fpisa_exponent_of_any(hdr.values.v##n, IS_INTEGERS)); \
        value_##n.write(meta.slot, fpisa_mantissa_of_any(hdr.values.v##n, IS_INTEGERS));    \
        hdr.values.v##n = read_fpisa((bit<32>) stored, mantissa);
        EACH_VALUE(TRADE_VALUE)
    }

    action take_values() {
        bit<8> stored;
        bit<32> mantissa;
        hdr.values.setValid();
#define TAKE_VALUE(n)                                                    \
        exponent_##n.read(stored, meta.slot);                            \
        value_##n.read(mantissa, meta.slot);                             \
        hdr.values.v##n = read_fpisa((bit<32>) stored, mantissa);
        EACH_VALUE(TAKE_VALUE)
    }
