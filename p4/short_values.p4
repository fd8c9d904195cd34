/* Values of 16 or 8 bits: on the wire, where they fit; never in a sum.
 *
 * With VALUE_BITS 16 (or 8) a packet whose values all fit an int16 (int8) carries them as such, flagged
 * SHORT; any other carries int32. On arrival values are widened, and an aggregator adds up int32 as ever
 * (with PACKED those of int8.p4). What leaves is shortened again if it fits. So nothing is lost,
 * whichever way a packet or a sum takes.
 *
 * The sum of W workers' short numbers needs more bits. Once it has all workers it is divided by
 * 2^bits, bits = ceil(log2 W), and rounded, a half to the even number; then it fits. Which fragments are to be rounded
 * is what the flag ROUND says; their workers set it, and a sum inherits it. Whoever has the sum of
 * all workers first, a switch or the parameter server, rounds it and takes the flag away. The result
 * depends on the workers' numbers alone.
 *
 * With an adder of floats (adder.p4) short values are bfloat16, the upper halves of float32. A sum is
 * a float32 and leaves as such, unless it fits; with the flag ROUND the sum of all workers is rounded
 * to bfloat16. With MX8 they are m of mx8.p4, and the scales of blocks are behind them.
 *
 * Included inside an ingress control, which has `hdr` and `meta`. Without VALUE_BITS 16 all macros
 * are empty, and short values are not aggregated.
 */
#if VALUE_BITS < 32

    bit<32>  too_wide = 0;               // 0: every value fits
    bitmap_t everyone = 0;               // the job's workers
    bit<32>  below_half = 0;
    bit<32>  odd = 0;                    // picks the bit that says whether a half is rounded up
    bit<8>   rounded_bits = 0;

    action widen() {
        hdr.values.setValid();
#if ADDER == ADDER_INT32
#define WIDEN_VALUE(n) \
        hdr.values.v##n = (bit<32>) (int<32>) (int<VALUE_BITS>) hdr.short_values.v##n;
        EACH_VALUE(WIDEN_VALUE)
#elif defined(MX8)
        bit<32> scale;
#define WIDEN_VALUE(n) hdr.values.v##n = mx8_number(hdr.short_values.v##n, scale);
#define WIDEN_BLOCK(a, b)                             \
        scale = (bit<32>) hdr.short_values.scale_##a; \
        EACH_IN_BLOCK(WIDEN_VALUE, a, b)
        EACH_BLOCK(WIDEN_BLOCK)
#else
#define WIDEN_VALUE(n) hdr.values.v##n = hdr.short_values.v##n ++ 16w0;
        EACH_VALUE(WIDEN_VALUE)
#endif
        hdr.short_values.setInvalid();
        hdr.ina.flags = hdr.ina.flags & ~FLAG_SHORT;
        hdr.ip.length = IP_BYTES + UDP_BYTES + INA_BYTES + VALUES_BYTES;
        hdr.udp.length = UDP_BYTES + INA_BYTES + VALUES_BYTES;
    }

    action measure_values() {
#if ADDER == ADDER_INT32
#define MEASURE_VALUE(n) \
        too_wide = too_wide | ((hdr.values.v##n + (32w1 << VALUE_BITS - 1)) >> VALUE_BITS);
        EACH_VALUE(MEASURE_VALUE)
#elif defined(MX8)
        bit<32> scale;
#define GROW_SCALE(n) scale = mx8_larger(scale, hdr.values.v##n);
#define MEASURE_VALUE(n) too_wide = too_wide | mx8_rest(hdr.values.v##n, scale);
#define MEASURE_BLOCK(a, b)             \
        scale = 0;                      \
        EACH_IN_BLOCK(GROW_SCALE, a, b) \
        EACH_IN_BLOCK(MEASURE_VALUE, a, b)
        EACH_BLOCK(MEASURE_BLOCK)
#else
#define MEASURE_VALUE(n) too_wide = too_wide | (hdr.values.v##n & 0xffff);
        EACH_VALUE(MEASURE_VALUE)
#endif
    }

    action shorten() {
        hdr.short_values.setValid();
#if ADDER == ADDER_INT32
#define SHORTEN_VALUE(n) hdr.short_values.v##n = hdr.values.v##n[VALUE_BITS - 1:0];
        EACH_VALUE(SHORTEN_VALUE)
#elif defined(MX8)
        bit<32> scale;
#define SHORTEN_VALUE(n) hdr.short_values.v##n = mx8_steps(hdr.values.v##n, scale);
#define SHORTEN_BLOCK(a, b)                          \
        scale = 0;                                   \
        EACH_IN_BLOCK(GROW_SCALE, a, b)              \
        hdr.short_values.scale_##a = (bit<8>) scale; \
        EACH_IN_BLOCK(SHORTEN_VALUE, a, b)
        EACH_BLOCK(SHORTEN_BLOCK)
#else
#define SHORTEN_VALUE(n) hdr.short_values.v##n = hdr.values.v##n[31:16];
        EACH_VALUE(SHORTEN_VALUE)
#endif
        hdr.values.setInvalid();
        hdr.ina.flags = hdr.ina.flags | FLAG_SHORT;
        hdr.ip.length = IP_BYTES + UDP_BYTES + INA_BYTES + SHORT_VALUES_BYTES;
        hdr.udp.length = UDP_BYTES + INA_BYTES + SHORT_VALUES_BYTES;
    }

    /* How sums of a job are rounded. */
    action set_rounding(bitmap_t workers, bit<8> bits, bit<32> added, bit<32> mask) {
        everyone = workers;
        rounded_bits = bits;
        below_half = added;
        odd = mask;
    }
    table rounding {
        key = { hdr.ina.job: exact; }
        actions = { set_rounding; NoAction; }
        default_action = NoAction();
        size = JOBS;
    }

    action round_off() {
#if ADDER == ADDER_INT32
#define ROUND_VALUE(n)                                                                  \
        hdr.values.v##n = hdr.values.v##n + below_half +                               \
                          ((hdr.values.v##n >> rounded_bits) & odd);                   \
        hdr.values.v##n = (bit<32>) ((int<32>) hdr.values.v##n >> rounded_bits);
        EACH_VALUE(ROUND_VALUE)
#elif defined(MX8)
        bit<32> scale;
        bit<32> more;
#define GROW_AGAIN(n) more = more | mx8_rounds_up(hdr.values.v##n, scale);
#define ROUND_VALUE(n) hdr.values.v##n = mx8_rounded(hdr.values.v##n, scale);
#define ROUND_BLOCK(a, b)               \
        scale = 0;                      \
        more = 0;                       \
        EACH_IN_BLOCK(GROW_SCALE, a, b) \
        EACH_IN_BLOCK(GROW_AGAIN, a, b) \
        scale = scale + more;           \
        EACH_IN_BLOCK(ROUND_VALUE, a, b)
        EACH_BLOCK(ROUND_BLOCK)
#else
#define ROUND_VALUE(n) hdr.values.v##n = round_to_bfloat16(hdr.values.v##n);
        EACH_VALUE(ROUND_VALUE)
#endif
        hdr.ina.flags = hdr.ina.flags & ~FLAG_ROUND;
    }

/* The length says that nothing follows the short values. */
#define WITH_WIDE_VALUES                                                             \
    if (hdr.short_values.isValid() &&                                                \
        hdr.ip.length == IP_BYTES + UDP_BYTES + INA_BYTES + SHORT_VALUES_BYTES) {    \
        widen();                                                                     \
    }

#define WITH_ROUNDED_SUM                                                             \
    if (hdr.values.isValid() && meta.heading != NOWHERE &&                           \
        (hdr.ina.flags & FLAG_ROUND) != 0) {                                         \
        rounding.apply();                                                            \
        /* A sum of some workers would be rounded again when the others are in. */   \
        if (everyone != 0 && hdr.workers.bitmap == everyone) {                       \
            round_off();                                                             \
        }                                                                            \
    }

#define WITH_SHORT_VALUES                                                            \
    if (hdr.values.isValid() && meta.heading != NOWHERE &&                           \
        (hdr.ina.flags & (FLAG_FLOAT | FLAG_INTEGERS)) == 0) {                                         \
        measure_values();                                                            \
        if (too_wide == 0) {                                                         \
            shorten();                                                               \
        }                                                                            \
    }

#else
#define WITH_WIDE_VALUES
#define WITH_ROUNDED_SUM
#define WITH_SHORT_VALUES
#endif
