/* What generated code for TNA uses beyond p4gen.h. */
#ifndef TNA_H
#define TNA_H

#include "p4gen.h"

/* For a parser at `*p` with fewer than `size` bytes before `*end`: moves on to the next piece of the packet, or joins
 * the pieces where what is read lies in two. Returns 0 if there are not that many bytes. */
int tna_next(p4_packet *packet, const uint8_t **p, const uint8_t **end, uint64_t size);
/* Copies all that is left into one piece. Returns 0 if there are not `size` bytes, or no memory. */
int tna_join(p4_packet *packet, const uint8_t **p, const uint8_t **end, uint64_t size);

/* The same, for a parser whose `p` and `end` can stay in registers. */
static inline __attribute__((always_inline)) int tna_more(p4_packet *packet, const uint8_t **p, const uint8_t **end,
                                                          uint64_t size) {
    const uint8_t *at = *p, *to = *end;
    int good = tna_next(packet, &at, &to, size);
    *p = at;
    *end = to;
    return good;
}

/* All that is left becomes one piece. */
static inline void tna_rest(p4_packet *packet, const uint8_t **p, const uint8_t **end) {
    uint64_t total = (uint64_t)(*end - *p);
    for (uint32_t i = packet->std.piece; i < packet->std.pieces; i++) total += packet->std.next[i].length;
    tna_more(packet, p, end, total);
}

/* What the parser has not read is the payload. It may lie in two pieces, the second one the next of `next`; what is left of
 * the header in front of the packet, which is on the parser's stack, is joined with the rest. */
static inline void tna_payload(p4_packet *packet, const uint8_t *p, const uint8_t *end, const uint8_t *prefix,
                               uint32_t size) {
    if (size && p >= prefix && p < prefix + size) { /* copied even if it is all that is left */
        const uint8_t *at = p, *to = end;
        if (!tna_join(packet, &at, &to, 0)) to = at;
        p = at;
        end = to;
    } else if (p == end && packet->std.piece < packet->std.pieces)
        tna_more(packet, &p, &end, 0);
    packet->payload = p;
    packet->payload_length = (uint32_t)(end - p);
}

/* The payload of most packets is short: it is copied in place, in pieces of which the last one may overlap. */
static inline void tna_copy(uint8_t *to, const uint8_t *from, uint32_t n) {
    if (n < 32 || n > 512) {
        memcpy(to, from, n);
        return;
    }
    for (uint32_t i = 0; i + 32 < n; i += 32) memcpy(to + i, from + i, 32);
    memcpy(to + n - 32, from + n - 32, 32);
}

static inline uint32_t tna_append_payload(p4_packet *packet, uint8_t *out, uint32_t length, uint32_t capacity) {
    if (length == P4_OVERFLOW) return length;
    const p4_piece *next = &packet->std.next[packet->std.piece];
    uint32_t tail = packet->std.piece < packet->std.pieces ? next->length : 0;
    uint64_t total = (uint64_t)length + packet->payload_length + tail;
    if (total > capacity) return total < P4_OVERFLOW ? (uint32_t)total : P4_OVERFLOW;
    if (packet->payload_length) tna_copy(out + length, packet->payload, packet->payload_length);
    if (tail) memcpy(out + length + packet->payload_length, next->data, tail);
    return (uint32_t)total;
}

/* A cyclic redundancy check of `width` bits (8 to 64) over `n` bytes, by the usual parameters. */
uint64_t tna_crc(uint32_t width, uint64_t polynomial, int reversed, uint64_t initial, uint64_t final,
                 const uint8_t *data, uint64_t n);
uint64_t tna_xor(uint32_t bytes, const uint8_t *data, uint64_t n);      /* of words of so many bytes */
uint64_t tna_identity(uint32_t width, const uint8_t *data, uint64_t n); /* the last bits of the data */

/* A math unit's value for x, by its table of 16 bytes (math_units.py). */
uint32_t tna_math(const uint8_t *table, int invert, int shift, int scale, uint32_t x);

/* Filters (filters.py). A sample moves `value`, which is in units of 2^-32, by the time since `time_ns`: towards the
 * sample, with the time constant `gain` or, downwards, `decay`; or with `rate` to the sum of samples that decays with `gain`.
 * Returns the new value. */
uint64_t tna_filter(uint64_t *value, uint64_t *time_ns, uint64_t now_ns, uint32_t sample, uint64_t gain, uint64_t decay,
                    int rate);
/* Whether to drop at a queue that is `value` long (in units of 2^-32): never up to `min`, always above `max` (unless that
 * is 0), and in between with a probability that rises up to so many millionths. */
int tna_early_drop(p4_instance *I, uint64_t value, uint32_t min, uint32_t max, uint32_t probability);

/* Sums of 16-bit words in ones' complement, not complemented. */
uint32_t tna_sum(uint32_t sum, const uint8_t *data, uint64_t n);
static inline uint16_t tna_fold(uint32_t sum) {
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

#endif
