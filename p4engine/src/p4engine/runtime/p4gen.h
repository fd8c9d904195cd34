/* What generated code uses beyond the ABI. Everything on a packet's path is inline here and in the headers that
 * this one includes, so that the C compiler sees it together with the program; the rest is in p4rt_*.c. */
#ifndef P4GEN_H
#define P4GEN_H

#include <stdbool.h>
#include <stdio.h>

#include "p4big.h"
#include "p4lookup.h"

#define P4_IN(index, size) ((index) < (size))
/* Packets of a flow often use one record of registers after the other, with packets of other flows in between, so long
 * that the processor does not see the sequence. */
#define P4_PREFETCH_BEHIND(records, index, size) \
    if ((uint64_t)(index) + 1 < (size)) p4_prefetch(&(records)[(uint64_t)(index) + 1], sizeof *(records))
static inline void p4_prefetch(const void *memory, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch((const uint8_t *)memory + i);
}
#define P4_OVERFLOW 0xffffffffu

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
/* The number of an entry of a table with a direct register. */
static inline uint64_t *p4_direct_number(const p4_table *t, const p4_entry *e) {
    size_t before = (t->desc->ages ? sizeof(p4_age) : 0) + (t->desc->direct_meter ? sizeof(p4_meter_state) : 0);
    return (uint64_t *)((uint8_t *)(e->params + t->param_words) + before);
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

/* In p4rt_*.c. */
uint32_t p4_meter_run(const p4_meter *m, uint64_t index, uint32_t bytes, uint64_t now_ns);
uint32_t p4_direct_meter_run(p4_table *t, const p4_entry *e, uint32_t bytes, uint64_t now_ns);
const p4_entry *p4_resolve(p4_instance *I, p4_table *t, const p4_entry *e, uint8_t *hit, uint64_t hash);
/* Members of groups that are there: the cell of member i of group g, `group` * g + i, is not 0. Those beyond the cells are. */
typedef struct p4_alive {
    const uint8_t *cells;
    uint64_t stride, count;
    uint32_t group; /* cells */
    int fair;       /* 1: all choose among those that are there; 0: only who has chosen one that is not */
} p4_alive;
const p4_entry *p4_resolve_alive(p4_instance *I, const p4_alive *alive, p4_table *t, const p4_entry *e, uint8_t *hit,
                                 uint64_t hash);
bool p4_value_set_match(const p4_value_set *set, const uint64_t *value);
void p4_failed(p4_instance *I, p4_packet *packet, const char *text);
void p4_log(p4_instance *I, const p4_packet *packet, const char *format, const uint64_t *words,
            const uint8_t *widths, uint32_t count);
int64_t p4_table_add_initial(p4_instance *I, uint32_t table, const uint64_t *match, int32_t priority,
                             uint32_t action, const uint64_t *params);

#endif
