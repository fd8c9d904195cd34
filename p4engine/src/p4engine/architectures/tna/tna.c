/* The pieces of a packet that a parser reads, and arithmetic of TNA's externs. */
#include "tna.h"

#include "tm_state.h"

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
