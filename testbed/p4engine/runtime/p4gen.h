/* What generated code uses beyond the ABI: the instance's inside, loads and stores of packet bytes, arithmetic
 * of odd widths, table look-up. Everything here is inline, so that the C compiler sees it together with the
 * program; what is not on a packet's path is in p4rt.c. */
#ifndef P4GEN_H
#define P4GEN_H

#include <stdbool.h>
#include <stdio.h>

#include "p4rt.h"

#define P4_IN(index, size) ((index) < (size))
#define P4_OVERFLOW 0xffffffffu

typedef unsigned __int128 p4_u128;
#define P4_U128(high, low) (((p4_u128)(high) << 64) | (p4_u128)(low))
#define P4_SATURATE64(x) ((x) >> 64 ? ~(uint64_t)0 : (uint64_t)(x))

/* The value of int<w>, kept as w unsigned bits, as a signed C integer. */
#define P4_SX32(x, w) ((w) == 0 ? 0 : (int32_t)((uint32_t)(x) << ((32 - (w)) & 31)) >> ((32 - (w)) & 31))
#define P4_SX64(x, w) ((w) == 0 ? 0 : (int64_t)((uint64_t)(x) << ((64 - (w)) & 63)) >> ((64 - (w)) & 63))
#define P4_SX128(x, w) \
    ((w) == 0 ? (__int128)0 : (__int128)((p4_u128)(x) << ((128 - (w)) & 127)) >> ((128 - (w)) & 127))

/* ---- saturating arithmetic ---- */
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

/* ---- packet bytes, big-endian; the number in the name is bits ---- */
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
}
static inline bool p4_varbit_equal(uint32_t a, const uint8_t *x, uint32_t b, const uint8_t *y) {
    return a == b && memcmp(x, y, (a + 7) / 8) == 0;
}

/* ---- integers above 128 bits: N limbs of 64 bits, lowest first ---- */
#define P4_BIG(N)                                                                                          \
    typedef struct p4_big##N { uint64_t w[N]; } p4_big##N;                                                 \
    static inline p4_big##N p4_big##N##_of(const uint64_t *w, int n) {                                     \
        p4_big##N r;                                                                                       \
        for (int i = 0; i < N; i++) r.w[i] = i < n ? w[i] : 0;                                             \
        return r;                                                                                          \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_from(p4_u128 v) {                                                  \
        uint64_t w[2] = {(uint64_t)v, (uint64_t)(v >> 64)};                                                \
        return p4_big##N##_of(w, 2);                                                                       \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_from_signed(__int128 v) {                                          \
        p4_big##N r = p4_big##N##_from((p4_u128)v);                                                        \
        for (int i = 2; i < N; i++) r.w[i] = v < 0 ? ~(uint64_t)0 : 0;                                     \
        return r;                                                                                          \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_of_signed(const uint64_t *w, int n, int width) {                   \
        p4_big##N r = p4_big##N##_of(w, n);                                                                \
        if (w[(width - 1) / 64] >> ((width - 1) % 64) & 1)                                                 \
            for (int i = (width - 1) / 64; i < N; i++)                                                     \
                r.w[i] |= i == (width - 1) / 64 ? ~(uint64_t)0 << ((width - 1) % 64) : ~(uint64_t)0;       \
        return r;                                                                                          \
    }                                                                                                      \
    static inline p4_u128 p4_big##N##_low(p4_big##N a) { return P4_U128(a.w[1], a.w[0]); }                 \
    static inline uint64_t p4_big##N##_small(p4_big##N a) {                                                \
        for (int i = 1; i < N; i++)                                                                        \
            if (a.w[i]) return ~(uint64_t)0;                                                               \
        return a.w[0];                                                                                     \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_mask(p4_big##N a, int width) {                                     \
        for (int i = 0; i < N; i++) {                                                                      \
            int left = width - 64 * i;                                                                     \
            if (left <= 0) a.w[i] = 0;                                                                     \
            else if (left < 64) a.w[i] &= ((uint64_t)1 << left) - 1;                                       \
        }                                                                                                  \
        return a;                                                                                          \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_add(p4_big##N a, p4_big##N b) {                                    \
        p4_u128 c = 0;                                                                                     \
        for (int i = 0; i < N; i++) {                                                                      \
            c += (p4_u128)a.w[i] + b.w[i];                                                                 \
            a.w[i] = (uint64_t)c;                                                                          \
            c >>= 64;                                                                                      \
        }                                                                                                  \
        return a;                                                                                          \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_not(p4_big##N a) {                                                 \
        for (int i = 0; i < N; i++) a.w[i] = ~a.w[i];                                                      \
        return a;                                                                                          \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_neg(p4_big##N a) {                                                 \
        return p4_big##N##_add(p4_big##N##_not(a), p4_big##N##_from(1));                                   \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_sub(p4_big##N a, p4_big##N b) {                                    \
        return p4_big##N##_add(a, p4_big##N##_neg(b));                                                     \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_and(p4_big##N a, p4_big##N b) {                                    \
        for (int i = 0; i < N; i++) a.w[i] &= b.w[i];                                                      \
        return a;                                                                                          \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_or(p4_big##N a, p4_big##N b) {                                     \
        for (int i = 0; i < N; i++) a.w[i] |= b.w[i];                                                      \
        return a;                                                                                          \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_xor(p4_big##N a, p4_big##N b) {                                    \
        for (int i = 0; i < N; i++) a.w[i] ^= b.w[i];                                                      \
        return a;                                                                                          \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_mul(p4_big##N a, p4_big##N b) {                                    \
        p4_big##N r = {{0}};                                                                               \
        for (int i = 0; i < N; i++) {                                                                      \
            p4_u128 c = 0;                                                                                 \
            for (int j = 0; i + j < N; j++) {                                                              \
                c += (p4_u128)a.w[i] * b.w[j] + r.w[i + j];                                                \
                r.w[i + j] = (uint64_t)c;                                                                  \
                c >>= 64;                                                                                  \
            }                                                                                              \
        }                                                                                                  \
        return r;                                                                                          \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_shl(p4_big##N a, uint32_t n) {                                     \
        p4_big##N r = {{0}};                                                                               \
        uint32_t q = n / 64, s = n % 64;                                                                   \
        for (uint32_t i = q; i < N; i++)                                                                   \
            r.w[i] = a.w[i - q] << s | (s && i > q ? a.w[i - q - 1] >> (64 - s) : 0);                      \
        return r;                                                                                          \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_shr(p4_big##N a, uint32_t n) {                                     \
        p4_big##N r = {{0}};                                                                               \
        uint32_t q = n / 64, s = n % 64;                                                                   \
        for (uint32_t i = 0; i + q < N; i++)                                                               \
            r.w[i] = a.w[i + q] >> s | (s && i + q + 1 < N ? a.w[i + q + 1] << (64 - s) : 0);              \
        return r;                                                                                          \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_sar(p4_big##N a, uint32_t n, int width) {                          \
        bool negative = a.w[(width - 1) / 64] >> ((width - 1) % 64) & 1;                                   \
        p4_big##N r = p4_big##N##_shr(a, n);                                                               \
        if (negative) {                                                                                    \
            uint32_t kept = n >= (uint32_t)width ? 0 : (uint32_t)width - n;                                \
            p4_big##N ones = p4_big##N##_shl(p4_big##N##_not((p4_big##N){{0}}), kept);                     \
            r = p4_big##N##_or(r, ones);                                                                   \
        }                                                                                                  \
        return r;                                                                                          \
    }                                                                                                      \
    static inline int p4_big##N##_cmp(p4_big##N a, p4_big##N b) {                                          \
        for (int i = N - 1; i >= 0; i--)                                                                   \
            if (a.w[i] != b.w[i]) return a.w[i] < b.w[i] ? -1 : 1;                                         \
        return 0;                                                                                          \
    }                                                                                                      \
    static inline int p4_big##N##_negative(p4_big##N a, int width) {                                       \
        return a.w[(width - 1) / 64] >> ((width - 1) % 64) & 1;                                            \
    }                                                                                                      \
    static inline int p4_big##N##_scmp(p4_big##N a, p4_big##N b, int width) {                              \
        int x = p4_big##N##_negative(a, width), y = p4_big##N##_negative(b, width);                        \
        return x != y ? (x ? -1 : 1) : p4_big##N##_cmp(a, b);                                              \
    }                                                                                                      \
    static inline void p4_big##N##_divide(p4_big##N a, p4_big##N b, p4_big##N *q, p4_big##N *r) {          \
        *q = (p4_big##N){{0}};                                                                             \
        *r = (p4_big##N){{0}};                                                                             \
        if (p4_big##N##_cmp(b, *q) == 0) return;                                                           \
        for (int i = 64 * N - 1; i >= 0; i--) {                                                            \
            uint64_t out = r->w[N - 1] >> 63;                                                              \
            *r = p4_big##N##_shl(*r, 1);                                                                   \
            r->w[0] |= a.w[i / 64] >> (i % 64) & 1;                                                        \
            if (out || p4_big##N##_cmp(*r, b) >= 0) {                                                      \
                *r = p4_big##N##_sub(*r, b);                                                               \
                q->w[i / 64] |= (uint64_t)1 << (i % 64);                                                   \
            }                                                                                              \
        }                                                                                                  \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_div(p4_big##N a, p4_big##N b) {                                    \
        p4_big##N q, r;                                                                                    \
        p4_big##N##_divide(a, b, &q, &r);                                                                  \
        return q;                                                                                          \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_mod(p4_big##N a, p4_big##N b) {                                    \
        p4_big##N q, r;                                                                                    \
        p4_big##N##_divide(a, b, &q, &r);                                                                  \
        return r;                                                                                          \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_ones(int width) {                                                  \
        return p4_big##N##_mask(p4_big##N##_not((p4_big##N){{0}}), width);                                 \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_uadd_sat(p4_big##N a, p4_big##N b, int width) {                    \
        p4_big##N s = p4_big##N##_mask(p4_big##N##_add(a, b), width);                                      \
        return p4_big##N##_cmp(s, a) < 0 ? p4_big##N##_ones(width) : s;                                    \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_usub_sat(p4_big##N a, p4_big##N b, int width) {                    \
        (void)width;                                                                                       \
        return p4_big##N##_cmp(a, b) < 0 ? (p4_big##N){{0}} : p4_big##N##_sub(a, b);                       \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_limit(int negative, int width) {                                   \
        p4_big##N high = p4_big##N##_ones(width - 1);                                                      \
        return negative ? p4_big##N##_mask(p4_big##N##_not(high), width) : high;                           \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_sadd_sat(p4_big##N a, p4_big##N b, int width) {                    \
        p4_big##N s = p4_big##N##_mask(p4_big##N##_add(a, b), width);                                      \
        int x = p4_big##N##_negative(a, width), y = p4_big##N##_negative(b, width);                        \
        return x == y && p4_big##N##_negative(s, width) != x ? p4_big##N##_limit(x, width) : s;            \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_ssub_sat(p4_big##N a, p4_big##N b, int width) {                    \
        p4_big##N s = p4_big##N##_mask(p4_big##N##_sub(a, b), width);                                      \
        int x = p4_big##N##_negative(a, width), y = p4_big##N##_negative(b, width);                        \
        return x != y && p4_big##N##_negative(s, width) != x ? p4_big##N##_limit(x, width) : s;            \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_insert(p4_big##N a, p4_big##N part, int high, int low) {           \
        p4_big##N ones = p4_big##N##_shl(p4_big##N##_ones(high - low + 1), (uint32_t)low);                 \
        a = p4_big##N##_and(a, p4_big##N##_not(ones));                                                     \
        return p4_big##N##_or(a, p4_big##N##_shl(part, (uint32_t)low));                                    \
    }                                                                                                      \
    static inline p4_big##N p4_big##N##_load(const uint8_t *p, uint64_t offset, int width) {               \
        p4_big##N r = {{0}};                                                                               \
        for (int i = 0; 64 * i < width; i++) {                                                             \
            int take = width - 64 * i < 64 ? width - 64 * i : 64;                                          \
            r.w[i] = (uint64_t)p4_load_wide(p, offset + (uint64_t)(width - 64 * i - take), (uint32_t)take);\
        }                                                                                                  \
        return r;                                                                                          \
    }                                                                                                      \
    static inline void p4_big##N##_store(uint8_t *p, uint64_t offset, int width, p4_big##N v) {            \
        for (int i = (width - 1) / 64; i >= 0; i--) {                                                      \
            int take = width - 64 * i < 64 ? width - 64 * i : 64;                                          \
            p4_put_bits(p, offset, (uint32_t)take, v.w[i]);                                                \
            offset += (uint64_t)take;                                                                      \
        }                                                                                                  \
    }

/* ---- instance ---- */
typedef struct p4_meter_state {
    p4_rates rates;
    double tokens[2];
    uint64_t last_ns;
} p4_meter_state;

/* An entry of a table, a default action, or a member of an action profile. */
typedef struct p4_entry {
    int32_t priority;
    uint32_t prefix;  /* length of the lpm key's prefix */
    int64_t handle;
    uint64_t hash;
    uint64_t order;   /* among equal priorities the older entry wins */
    p4_count count;
    p4_meter_state meter;
    /* What a lookup touches stands together, at best in one cache line. */
    uint64_t *mask;   /* key_words words behind `key`: mask of ternary, upper end of range */
    uint64_t *params; /* behind `mask` */
    uint32_t action;
    uint32_t target;  /* 0: action and params; 1: member `number`; 2: group `number` */
    uint32_t number;
    uint64_t key[];
} p4_entry;

typedef struct p4_slot { uint64_t hash; p4_entry *entry; } p4_slot;
typedef struct p4_hash_table { p4_slot *slots; uint64_t mask; uint64_t count; } p4_hash_table;
typedef struct p4_prefix_group {
    uint32_t length;
    uint64_t *mask; /* words of the lpm key */
    p4_hash_table hash;
} p4_prefix_group;

/* The entries of a table with priorities that have one mask: a lookup is one probe per mask. */
typedef struct p4_mask_group {
    uint64_t *mask;
    int32_t best; /* no entry here has a lower priority number */
    p4_hash_table hash;
} p4_mask_group;

typedef struct p4_table {
    const p4_table_desc *desc;
    uint64_t count, added;
    uint32_t param_words; /* of the longest action */
    p4_entry *default_entry;
    p4_hash_table hash;        /* P4_HASH; with ranges: to find an entry, not a match */
    p4_prefix_group *prefixes; /* P4_PREFIX, longest first */
    uint32_t prefix_count, lpm_word, lpm_words, lpm_width;
    p4_mask_group *groups;     /* P4_PRIORITY without ranges, by `best` */
    uint32_t group_count;
    p4_entry **ordered;        /* P4_PRIORITY with ranges, first match wins */
    p4_entry **by_handle;
    uint32_t *generation;
    uint32_t *free_list;       /* indices of by_handle to use again */
    uint64_t handles, room, free_count;
    uint8_t has_range;
} p4_table;

typedef struct p4_group { uint32_t *members; uint32_t count; uint8_t used; } p4_group;
typedef struct p4_profile {
    const p4_profile_desc *desc;
    p4_entry **members;
    p4_group *groups;
    uint32_t member_room, group_room;
} p4_profile;

typedef struct p4_counter { p4_count *values; uint64_t count; } p4_counter;
typedef struct p4_meter { p4_meter_state *states; uint64_t count; uint8_t bytes; } p4_meter;
typedef struct p4_value_set { const p4_value_set_desc *desc; uint64_t *members; uint32_t count, words; } p4_value_set;

struct p4_instance {
    const p4_program *program;
    p4_config config;
    uint64_t random;
    p4_table *tables;
    p4_profile *profiles;
    uint8_t **records;
    p4_counter *counters;
    p4_meter *meters;
    p4_value_set *value_sets;
};

static inline uint64_t p4_mix(uint64_t a, uint64_t b) {
    p4_u128 m = (p4_u128)(a ^ 0x9e3779b97f4a7c15ull) * (b ^ 0xd6e8feb86659fd93ull);
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}
static inline uint64_t p4_hash_key(const uint64_t *key, uint32_t words) {
    uint64_t h = 0x2545f4914f6cdd1dull;
    for (uint32_t i = 0; i < words; i++) h = p4_mix(h, key[i]);
    return h;
}
static inline p4_entry *p4_hash_find(const p4_hash_table *t, const uint64_t *key, uint32_t words) {
    if (!t->count) return NULL;
    uint64_t h = p4_hash_key(key, words);
    for (uint64_t i = h & t->mask;; i = (i + 1) & t->mask) {
        p4_entry *e = t->slots[i].entry;
        if (!e) return NULL;
        if (t->slots[i].hash == h) {
            uint64_t differs = 0;
            for (uint32_t k = 0; k < words; k++) differs |= e->key[k] ^ key[k];
            if (!differs) return e;
        }
    }
}
static inline p4_entry *p4_find_exact(const p4_table *t, const uint64_t *key, uint32_t words) {
    return p4_hash_find(&t->hash, key, words);
}
static inline p4_entry *p4_find_prefix(const p4_table *t, uint64_t *key) {
    for (uint32_t g = 0; g < t->prefix_count; g++) {
        /* Masks only get shorter, so the key can be masked in place. */
        for (uint32_t w = 0; w < t->lpm_words; w++) key[t->lpm_word + w] &= t->prefixes[g].mask[w];
        p4_entry *e = p4_hash_find(&t->prefixes[g].hash, key, t->desc->key_words);
        if (e) return e;
    }
    return NULL;
}
P4_EXPORT p4_entry *p4_find_range(const p4_table *t, const uint64_t *key);
static inline int p4_before(const p4_entry *e, const p4_entry *other) {
    if (!other || e->priority != other->priority) return !other || e->priority < other->priority;
    return e->order < other->order;
}
static inline p4_entry *p4_find_priority(const p4_table *t, const uint64_t *key) {
    if (t->has_range) return p4_find_range(t, key);
    uint32_t words = t->desc->key_words;
    p4_entry *found = NULL;
    uint64_t masked[words];
    for (uint32_t g = 0; g < t->group_count; g++) {
        const p4_mask_group *group = &t->groups[g];
        if (found && group->best > found->priority) break;
        for (uint32_t w = 0; w < words; w++) masked[w] = key[w] & group->mask[w];
        uint64_t h = p4_hash_key(masked, words);
        const p4_hash_table *hash = &group->hash;
        for (uint64_t i = h & hash->mask; hash->slots[i].entry; i = (i + 1) & hash->mask) {
            p4_entry *e = hash->slots[i].entry;
            if (hash->slots[i].hash != h) continue;
            uint64_t differs = 0;
            for (uint32_t w = 0; w < words; w++) differs |= e->key[w] ^ masked[w];
            if (!differs && p4_before(e, found)) found = e;
        }
    }
    return found;
}
static inline void p4_count_one(p4_count *c, uint32_t bytes) {
    c->packets++;
    c->bytes += bytes;
}
static inline void p4_counter_add(const p4_counter *c, uint64_t index, uint32_t bytes) {
    if (index < c->count) p4_count_one(&c->values[index], bytes);
}
static inline void p4_direct_count(p4_table *t, const p4_entry *e, uint32_t bytes) {
    (void)t;
    p4_count_one(&((p4_entry *)e)->count, bytes);
}
static inline uint64_t p4_random(p4_instance *I, uint64_t low, uint64_t high) {
    uint64_t z = (I->random += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    if (high <= low) return low;
    uint64_t span = high - low + 1;
    return span ? low + (uint64_t)(((p4_u128)z * span) >> 64) : z;
}
static inline uint32_t p4_append_payload(p4_packet *packet, uint8_t *out, uint32_t length, uint32_t capacity) {
    if (length == P4_OVERFLOW) return length;
    uint64_t total = (uint64_t)length + packet->payload_length;
    uint32_t limit = packet->req.truncate;
    if (limit && total > limit) total = limit;
    if (total > capacity) return P4_OVERFLOW;
    if (total > length) memcpy(out + length, packet->payload, (size_t)(total - length));
    return (uint32_t)total;
}

/* In p4rt.c. */
uint32_t p4_meter_run(const p4_meter *m, uint64_t index, uint32_t bytes, uint64_t now_ns);
uint32_t p4_direct_meter_run(p4_table *t, const p4_entry *e, uint32_t bytes, uint64_t now_ns);
const p4_entry *p4_resolve(p4_instance *I, p4_table *t, const p4_entry *e, uint8_t *hit, uint64_t hash);
uint64_t p4_hash(int algorithm, const uint8_t *data, uint64_t length);
uint64_t p4_hash_two(int algorithm, const uint8_t *data, uint64_t length, const uint8_t *more, uint64_t size);
bool p4_value_set_match(const p4_value_set *set, const uint64_t *value);
void p4_failed(p4_instance *I, p4_packet *packet, const char *text);
void p4_log(p4_instance *I, const p4_packet *packet, const char *format, const uint64_t *words,
            const uint8_t *widths, uint32_t count);
int64_t p4_table_add_initial(p4_instance *I, uint32_t table, const uint64_t *match, int32_t priority,
                             uint32_t action, const uint64_t *params);

#endif
