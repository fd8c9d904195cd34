/* The hash algorithms of v1model, over two pieces so that a payload need not be copied. */
#include "p4gen.h"

static uint8_t byte_at(const uint8_t *a, uint64_t n, const uint8_t *b, uint64_t i) { return i < n ? a[i] : b[i - n]; }

static uint64_t sum16(const uint8_t *a, uint64_t n, const uint8_t *b, uint64_t m) {
    uint64_t sum = 0, i = 0, total = n + m;
    if (!(n & 1)) { /* the usual case, in whole words */
        for (; i + 1 < n; i += 2) sum += p4_load16(a + i);
        for (; i + 1 < total; i += 2) sum += p4_load16(b + (i - n));
    }
    for (; i < total; i += 2)
        sum += (uint64_t)byte_at(a, n, b, i) << 8 | (i + 1 < total ? byte_at(a, n, b, i + 1) : 0);
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

uint64_t p4_hash_two(int algorithm, const uint8_t *a, uint64_t n, const uint8_t *b, uint64_t m) {
    uint64_t total = n + m;
    switch (algorithm) {
    case 1: { /* crc16: polynomial 0x8005, reflected */
        uint32_t crc = 0;
        for (uint64_t i = 0; i < total; i++) {
            crc ^= byte_at(a, n, b, i);
            for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xa001u : 0);
        }
        return crc;
    }
    case 3: { /* identity: the first eight bytes as a number */
        uint64_t v = 0;
        for (uint64_t i = 0; i < total && i < 8; i++) v = v << 8 | byte_at(a, n, b, i);
        return v;
    }
    case 4:
        return ~sum16(a, n, b, m) & 0xffff;
    case 5: {
        uint64_t x = 0;
        for (uint64_t i = 0; i < total; i++) x ^= (uint64_t)byte_at(a, n, b, i) << (i & 1 ? 0 : 8);
        return x;
    }
    default: { /* crc32: polynomial 0x04c11db7, reflected */
        uint32_t crc = ~0u;
        for (uint64_t i = 0; i < total; i++) {
            crc ^= byte_at(a, n, b, i);
            for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        }
        return (uint32_t)~crc;
    }
    }
}

uint64_t p4_hash(int algorithm, const uint8_t *data, uint64_t length) {
    return p4_hash_two(algorithm, data, length, data, 0);
}
