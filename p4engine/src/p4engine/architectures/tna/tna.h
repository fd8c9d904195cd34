/* What generated code for TNA uses beyond p4gen.h. */
#ifndef TNA_H
#define TNA_H

#include "p4gen.h"

/* For a parser at `*p` with fewer than `size` bytes before `*end`: moves on to the next piece of the packet, or joins
 * the pieces where what is read lies in two. Returns 0 if there are not that many bytes. */
int tna_more(p4_packet *packet, const uint8_t **p, const uint8_t **end, uint64_t size);
void tna_rest(p4_packet *packet, const uint8_t **p, const uint8_t **end); /* makes all that is left one piece */

/* A cyclic redundancy check of `width` bits (8 to 64) over `n` bytes, by the usual parameters. */
uint64_t tna_crc(uint32_t width, uint64_t polynomial, int reversed, uint64_t initial, uint64_t final,
                 const uint8_t *data, uint64_t n);
uint64_t tna_xor(uint32_t bytes, const uint8_t *data, uint64_t n);      /* of words of so many bytes */
uint64_t tna_identity(uint32_t width, const uint8_t *data, uint64_t n); /* the last bits of the data */

/* Sums of 16-bit words in ones' complement, not complemented. */
uint32_t tna_sum(uint32_t sum, const uint8_t *data, uint64_t n);
static inline uint16_t tna_fold(uint32_t sum) {
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

#endif
