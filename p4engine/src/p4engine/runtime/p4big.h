/* Integers above 128 bits: N limbs of 64 bits, lowest first. A program that has such names P4_BIG(N) once for
 * each number of limbs. */
#ifndef P4BIG_H
#define P4BIG_H

#include "p4bytes.h"

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

#endif
