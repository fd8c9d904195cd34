/* Packets without values: what is 0 in all places needs none.
 *
 * A gradient or a result whose values are all 0 travels as a header and a bitmap, in a kind of its own
 * (KIND_GRADIENT_ZEROS and so on). What the program decides of a packet is the same either way. So it
 * begins with WITH_ZEROS, which gives such a packet its zeros and the kind that has values, and ends
 * with WITHOUT_ZEROS, which takes them from whatever leaves as zeros: a packet that has come without
 * values and goes on as it is, or a sum of nothing else. A sum of other values that happens to be 0 is
 * one of them, too, so an aggregator needs no memory of what has been added to it.
 *
 * Included inside an ingress control, which has `hdr` and `meta`. Without the compile-time
 * parameter ZEROS both macros are empty, and kinds without values are not aggregated.
 */
#ifdef ZEROS

    bit<32> some_bit = 0;                // 0: every value is 0

    action add_zeros() {
        hdr.values.setValid();
#define CLEAR_VALUE(n) hdr.values.v##n = 0;
        EACH_VALUE(CLEAR_VALUE)
        hdr.ina.kind = hdr.ina.kind & ~WITHOUT_VALUES;
        hdr.ina.flags = hdr.ina.flags & ~FLAG_SHORT;
        hdr.ip.length = IP_BYTES + UDP_BYTES + INA_BYTES + VALUES_BYTES;
        hdr.udp.length = UDP_BYTES + INA_BYTES + VALUES_BYTES;
    }

    action look_at_values() {
#define LOOK_AT_VALUE(n) some_bit = some_bit | hdr.values.v##n;
        EACH_VALUE(LOOK_AT_VALUE)
    }

    action omit_zeros() {
        hdr.values.setInvalid();
        hdr.ina.kind = hdr.ina.kind | WITHOUT_VALUES;
        hdr.ip.length = IP_BYTES + UDP_BYTES + INA_BYTES;
        hdr.udp.length = UDP_BYTES + INA_BYTES;
    }

/* The length says that nothing follows the bitmap, so that the zeros have their place there. */
#define WITH_ZEROS                                                               \
    if (hdr.workers.isValid() && hdr.ina.version == INA_VERSION &&               \
        hdr.ina.kind >= KIND_GRADIENT_ZEROS &&                                   \
        hdr.ina.kind <= KIND_RESULT_ONE_ZEROS &&                                 \
        hdr.ip.length == IP_BYTES + UDP_BYTES + INA_BYTES) {                     \
        add_zeros();                                                             \
    }

#define WITHOUT_ZEROS                                                            \
    if (hdr.values.isValid() && meta.heading != NOWHERE) {                       \
        look_at_values();                                                        \
        if (some_bit == 0) {                                                     \
            omit_zeros();                                                        \
        }                                                                        \
    }

#else
#define WITH_ZEROS
#define WITHOUT_ZEROS
#endif
