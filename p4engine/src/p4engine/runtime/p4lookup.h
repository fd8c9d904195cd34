/* Looking up a table: exact keys in one hash table, prefixes in one per length, everything else in one per mask.
 * Inline, so that the C compiler sees a table's key width. */
#ifndef P4LOOKUP_H
#define P4LOOKUP_H

#include "p4num.h"
#include "p4state.h"

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
/* The best of `found` and what the tree has for the key: p4rt_range.c. */
p4_entry *p4_ranges_find(const p4_table *t, p4_entry *root, const uint64_t *key, p4_entry *found);
static inline p4_entry *p4_find_priority(const p4_table *t, const uint64_t *key) {
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
            for (uint32_t w = 0; w < words; w++) differs |= (e->key[w] & group->mask[w]) ^ masked[w];
            if (differs) continue;
            if (t->range_words)
                found = p4_ranges_find(t, e, key, found);
            else if (p4_before(e, found))
                found = e;
        }
    }
    return found;
}

#endif
