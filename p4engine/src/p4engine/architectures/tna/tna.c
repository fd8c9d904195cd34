/* The pieces of a packet that a parser reads, and arithmetic of TNA's externs. */
#include "tna.h"

#include "tm_state.h"

int tna_next(p4_packet *packet, const uint8_t **p, const uint8_t **end, uint64_t size) {
    p4_std *std = &packet->std;
    while (*p == *end && std->piece < std->pieces) {
        *p = std->next[std->piece].data;
        *end = *p + std->next[std->piece++].length;
    }
    return (uint64_t)(*end - *p) >= size || tna_join(packet, p, end, size);
}

int tna_join(p4_packet *packet, const uint8_t **p, const uint8_t **end, uint64_t size) {
    p4_std *std = &packet->std;
    uint64_t left = (uint64_t)(*end - *p), total = left;
    for (uint32_t i = std->piece; i < std->pieces; i++) total += std->next[i].length;
    if (total < size || total > UINT32_MAX) return 0;
    frame *f = tm_frame_new(std->tm, (uint32_t)total);
    if (!f) return 0;
    memcpy(f->data, *p, left);
    for (uint32_t i = std->piece; i < std->pieces; i++) {
        if (std->next[i].length) memcpy(f->data + left, std->next[i].data, std->next[i].length);
        left += std->next[i].length;
    }
    f->next = std->joined;
    std->joined = f;
    std->pieces = std->piece = 0;
    *p = f->data;
    *end = f->data + total;
    return 1;
}

static uint64_t ones(uint32_t width) { return width < 64 ? (1ull << width) - 1 : ~0ull; }

static uint64_t mirrored(uint64_t value, uint32_t width) {
    uint64_t made = 0;
    for (uint32_t i = 0; i < width; i++) made |= (value >> i & 1) << (width - 1 - i);
    return made;
}

uint64_t tna_crc(uint32_t width, uint64_t polynomial, int reversed, uint64_t initial, uint64_t final,
                 const uint8_t *data, uint64_t n) {
    uint64_t crc = initial & ones(width);
    if (reversed) {
        polynomial = mirrored(polynomial, width);
        crc = mirrored(crc, width);
        for (uint64_t i = 0; i < n; i++) {
            crc ^= data[i];
            for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
        }
    } else {
        uint64_t top = 1ull << (width - 1);
        for (uint64_t i = 0; i < n; i++) {
            crc ^= (uint64_t)data[i] << (width - 8);
            for (int k = 0; k < 8; k++) crc = (crc << 1 ^ (crc & top ? polynomial : 0)) & ones(width);
        }
    }
    return (crc ^ final) & ones(width);
}

uint64_t tna_xor(uint32_t bytes, const uint8_t *data, uint64_t n) {
    uint64_t made = 0;
    for (uint64_t i = 0; i < n; i++) made ^= (uint64_t)data[i] << (8 * (bytes - 1 - i % bytes));
    return made;
}

uint64_t tna_identity(uint32_t width, const uint8_t *data, uint64_t n) {
    uint64_t made = 0;
    for (uint64_t i = n > 8 ? n - 8 : 0; i < n; i++) made = made << 8 | data[i];
    return made & ones(width);
}

uint32_t tna_sum(uint32_t sum, const uint8_t *data, uint64_t n) {
    uint64_t total = sum;
    for (uint64_t i = 0; i < n; i++) total += (uint64_t)data[i] << (i & 1 ? 0 : 8);
    while (total >> 16) total = (total & 0xffff) + (total >> 16);
    return (uint32_t)total;
}

uint32_t tna_math(const uint8_t *table, int invert, int shift, int scale, uint32_t x) {
    int exponent = x ? 31 - __builtin_clz(x) : 0;
    if (shift < 0) exponent += exponent & 1;
    int by = shift < 0 ? exponent / 2 : exponent << shift;
    by = (invert ? -by : by) + scale;
    uint32_t found = table[((uint64_t)x << 3 >> exponent) & 15];
    if (by <= -32 || by >= 32) return 0;
    return by < 0 ? found >> -by : found << by;
}

/* e^(-time / constant) in units of 2^-63. Integers only, so that it is the same on every machine: a series for a
 * 64th of the exponent, and six squares. */
static uint64_t decayed(uint64_t time, uint64_t constant) {
    const uint64_t one = 1ull << 63;
    if (!time) return one;
    if (time / 45 >= constant) return 0; /* also without a time constant */
    uint64_t y = (uint64_t)(((p4_u128)time << 57) / constant), term = one, sum = one;
    for (uint64_t k = 1; term; k++) {
        term = (uint64_t)((p4_u128)term * y >> 63) / k;
        sum = k & 1 ? sum - term : sum + term;
    }
    for (int i = 0; i < 6; i++) sum = (uint64_t)((p4_u128)sum * sum >> 63);
    return sum;
}

uint64_t tna_filter(uint64_t *value, uint64_t *time_ns, uint64_t now_ns, uint32_t sample, uint64_t gain, uint64_t decay,
                    int rate) {
    uint64_t x = (uint64_t)sample << 32, past = now_ns > *time_ns ? now_ns - *time_ns : 0;
    uint64_t kept = decayed(past, rate || x > *value ? gain : decay);
    *time_ns = now_ns;
    if (rate) {
        uint64_t sum = (uint64_t)((p4_u128)*value * kept >> 63);
        *value = sum > UINT64_MAX - x ? UINT64_MAX : sum + x;
    } else if (x > *value) {
        *value = x - (uint64_t)((p4_u128)(x - *value) * kept >> 63);
    } else {
        *value = x + (uint64_t)((p4_u128)(*value - x) * kept >> 63);
    }
    return *value;
}

int tna_early_drop(p4_instance *I, uint64_t value, uint32_t min, uint32_t max, uint32_t probability) {
    uint64_t least = (uint64_t)min << 32, most = (uint64_t)max << 32;
    if (!max || value <= least) return 0;
    if (value > most) return 1;
    uint64_t part = (uint64_t)((p4_u128)(value - least) * probability / (most - least));
    return p4_random(I, 0, 999999) < part;
}
