/* Arithmetic of P4's numbers in C: 128 bits, signed values of odd widths, saturation; mixing for hashes. */
#ifndef P4NUM_H
#define P4NUM_H

#include <stdint.h>

typedef unsigned __int128 p4_u128;
#define P4_U128(high, low) (((p4_u128)(high) << 64) | (p4_u128)(low))
#define P4_SATURATE64(x) ((x) >> 64 ? ~(uint64_t)0 : (uint64_t)(x))

/* The value of int<w>, kept as w unsigned bits, as a signed C integer. */
#define P4_SX32(x, w) ((w) == 0 ? 0 : (int32_t)((uint32_t)(x) << ((32 - (w)) & 31)) >> ((32 - (w)) & 31))
#define P4_SX64(x, w) ((w) == 0 ? 0 : (int64_t)((uint64_t)(x) << ((64 - (w)) & 63)) >> ((64 - (w)) & 63))
#define P4_SX128(x, w) \
    ((w) == 0 ? (__int128)0 : (__int128)((p4_u128)(x) << ((128 - (w)) & 127)) >> ((128 - (w)) & 127))

static inline uint32_t p4_uadd_sat32(uint32_t a, uint32_t b, uint32_t max) {
    uint32_t s = a + b;
    return s < a || s > max ? max : s;
}
static inline uint64_t p4_uadd_sat64(uint64_t a, uint64_t b, uint64_t max) {
    uint64_t s = a + b;
    return s < a || s > max ? max : s;
}
static inline p4_u128 p4_uadd_sat128(p4_u128 a, p4_u128 b, p4_u128 max) {
    p4_u128 s = a + b;
    return s < a || s > max ? max : s;
}
/* int<32> without a wider type, so that it can be vectorised. */
static inline uint32_t p4_sadd_sat_32(uint32_t a, uint32_t b) {
    uint32_t s = a + b, limit = (a >> 31) + 0x7fffffffu;
    return ((~(a ^ b) & (a ^ s)) >> 31) ? limit : s;
}
static inline uint32_t p4_ssub_sat_32(uint32_t a, uint32_t b) {
    uint32_t s = a - b, limit = (a >> 31) + 0x7fffffffu;
    return (((a ^ b) & (a ^ s)) >> 31) ? limit : s;
}
static inline uint32_t p4_clamp32(int64_t s, int w) {
    int64_t high = ((int64_t)1 << (w - 1)) - 1, low = -high - 1;
    return (uint32_t)(s > high ? high : s < low ? low : s);
}
static inline uint32_t p4_sadd_sat32(int32_t a, int32_t b, int w) { return p4_clamp32((int64_t)a + b, w); }
static inline uint32_t p4_ssub_sat32(int32_t a, int32_t b, int w) { return p4_clamp32((int64_t)a - b, w); }
static inline uint64_t p4_clamp64(__int128 s, int w) {
    __int128 high = ((__int128)1 << (w - 1)) - 1, low = -high - 1;
    return (uint64_t)(s > high ? high : s < low ? low : s);
}
static inline uint64_t p4_sadd_sat64(int64_t a, int64_t b, int w) { return p4_clamp64((__int128)a + b, w); }
static inline uint64_t p4_ssub_sat64(int64_t a, int64_t b, int w) { return p4_clamp64((__int128)a - b, w); }
static inline p4_u128 p4_high128(int w) { return (((p4_u128)1 << (w - 1)) - 1); }
static inline p4_u128 p4_sadd_sat128(__int128 a, __int128 b, int w) {
    __int128 high = (__int128)p4_high128(w), low = -high - 1, s;
    if (__builtin_add_overflow(a, b, &s)) return (p4_u128)(a < 0 ? low : high);
    return (p4_u128)(s > high ? high : s < low ? low : s);
}
static inline p4_u128 p4_ssub_sat128(__int128 a, __int128 b, int w) {
    __int128 high = (__int128)p4_high128(w), low = -high - 1, s;
    if (__builtin_sub_overflow(a, b, &s)) return (p4_u128)(a < 0 ? low : high);
    return (p4_u128)(s > high ? high : s < low ? low : s);
}

/* A number in which every bit depends on all bits of `a` and `b`. */
static inline uint64_t p4_mix(uint64_t a, uint64_t b) {
    p4_u128 m = (p4_u128)(a ^ 0x9e3779b97f4a7c15ull) * (b ^ 0xd6e8feb86659fd93ull);
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

#endif
