/* Fields in packet bytes: big-endian loads and stores, of whole bytes and of any bits. The number in a name is
 * bits. */
#ifndef P4BYTES_H
#define P4BYTES_H

#include <stdbool.h>
#include <string.h>

#include "p4num.h"

static inline uint8_t p4_load8(const uint8_t *p) { return p[0]; }
static inline uint16_t p4_load16(const uint8_t *p) {
    uint16_t v;
    memcpy(&v, p, 2);
    return __builtin_bswap16(v);
}
static inline uint32_t p4_load32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return __builtin_bswap32(v);
}
static inline uint64_t p4_load64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return __builtin_bswap64(v);
}
static inline uint32_t p4_load24(const uint8_t *p) { return (uint32_t)p4_load16(p) << 8 | p[2]; }
static inline uint64_t p4_load40(const uint8_t *p) { return (uint64_t)p4_load32(p) << 8 | p[4]; }
static inline uint64_t p4_load48(const uint8_t *p) { return (uint64_t)p4_load32(p) << 16 | p4_load16(p + 4); }
static inline uint64_t p4_load56(const uint8_t *p) { return (uint64_t)p4_load32(p) << 24 | p4_load24(p + 4); }
static inline void p4_store8(uint8_t *p, uint32_t v) { p[0] = (uint8_t)v; }
static inline void p4_store16(uint8_t *p, uint32_t v) {
    uint16_t x = __builtin_bswap16((uint16_t)v);
    memcpy(p, &x, 2);
}
static inline void p4_store32(uint8_t *p, uint32_t v) {
    v = __builtin_bswap32(v);
    memcpy(p, &v, 4);
}
static inline void p4_store64(uint8_t *p, uint64_t v) {
    v = __builtin_bswap64(v);
    memcpy(p, &v, 8);
}
static inline void p4_store24(uint8_t *p, uint32_t v) {
    p4_store16(p, v >> 8);
    p[2] = (uint8_t)v;
}
static inline void p4_store40(uint8_t *p, uint64_t v) {
    p4_store32(p, (uint32_t)(v >> 8));
    p[4] = (uint8_t)v;
}
static inline void p4_store48(uint8_t *p, uint64_t v) {
    p4_store32(p, (uint32_t)(v >> 16));
    p4_store16(p + 4, (uint32_t)v);
}
static inline void p4_store56(uint8_t *p, uint64_t v) {
    p4_store32(p, (uint32_t)(v >> 24));
    p4_store24(p + 4, (uint32_t)v);
}
/* Any width up to 128 at any bit offset. */
static inline p4_u128 p4_load_wide(const uint8_t *p, uint64_t offset, uint32_t width) {
    p4_u128 v = 0;
    uint64_t at = offset;
    while (width) {
        uint32_t here = 8 - at % 8, take = here < width ? here : width;
        v = v << take | ((p[at / 8] >> (here - take)) & ((1u << take) - 1));
        at += take;
        width -= take;
    }
    return v;
}
static inline void p4_put_bits(uint8_t *p, uint64_t offset, uint32_t width, p4_u128 v) {
    while (width) {
        uint32_t here = 8 - offset % 8, take = here < width ? here : width;
        uint32_t ones = ((1u << take) - 1) << (here - take);
        uint32_t bits = (uint32_t)(v >> (width - take)) << (here - take);
        /* what follows in the byte is not written yet: clear it */
        uint32_t keep = 0xffu << here & 0xffu;
        p[offset / 8] = (uint8_t)((p[offset / 8] & keep) | (bits & ones));
        offset += take;
        width -= take;
    }
}
static inline void p4_put_bytes(uint8_t *p, uint64_t *at, const uint8_t *data, uint32_t bits) {
    for (uint32_t i = 0; i < bits / 8; i++, *at += 8) p4_put_bits(p, *at, 8, data[i]);
    uint32_t rest = bits % 8;
    if (!rest) return;
    p4_put_bits(p, *at, rest, data[bits / 8] >> (8 - rest));
    *at += rest;
}
static inline void p4_take_bits(uint8_t *to, const uint8_t *p, uint64_t at, uint32_t bits) {
    for (uint32_t i = 0; i < bits; i += 8) {
        uint32_t take = bits - i < 8 ? bits - i : 8;
        to[i / 8] = (uint8_t)(p4_load_wide(p, at + i, take) << (8 - take));
    }
}
static inline bool p4_varbit_equal(uint32_t a, const uint8_t *x, uint32_t b, const uint8_t *y) {
    return a == b && memcmp(x, y, (a + 7) / 8) == 0;
}

#endif
