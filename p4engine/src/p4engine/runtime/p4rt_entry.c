/* Where a table's entries are kept: entries themselves, hash tables of them, and the groups of equal prefix length
 * or mask that p4lookup.h goes through. */
#include "p4rt_entry.h"

#include <stdlib.h>

/* ---- entries ---- */

int p4_params_fit(const p4_action_desc *a, const uint64_t *params) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < a->params; i++) {
        uint32_t words = (a->widths[i] + 63u) / 64u;
        if (!p4_fits(params + at, a->widths[i], words)) return 0;
        at += words;
    }
    return 1;
}

p4_entry *p4_entry_new(uint32_t key_words, uint32_t param_words, const p4_table_desc *table) {
    size_t words = 2 * (size_t)key_words + param_words;
    size_t age = table && table->ages ? sizeof(p4_age) : 0;
    size_t meter = table && table->direct_meter ? sizeof(p4_meter_state) : 0;
    size_t number = table && table->direct_register ? sizeof(uint64_t) : 0;
    p4_entry *e = calloc(1, sizeof *e + words * sizeof(uint64_t) + age + meter + number);
    if (e) {
        e->mask = e->key + key_words;
        e->params = e->mask + key_words;
        if (age) e->age = (p4_age *)(e->key + words);
        if (meter) e->meter = (p4_meter_state *)((uint8_t *)(e->key + words) + age);
        if (number) *(uint64_t *)((uint8_t *)(e->key + words) + age + meter) = table->initial;
    }
    return e;
}

void p4_entry_set(p4_entry *e, const p4_action_desc *a, uint32_t action, const uint64_t *params) {
    uint32_t words = a->param_words;
    if (words) memcpy(e->params, params, words * sizeof *params);
    e->action = action;
    e->target = 0;
}

uint32_t p4_longest_params(const p4_action_desc *actions, uint32_t count) {
    uint32_t words = 0;
    for (uint32_t i = 0; i < count; i++)
        if (actions[i].param_words > words) words = actions[i].param_words;
    return words;
}

/* ---- hash tables ---- */

static void hash_put(p4_hash_table *t, uint64_t hash, p4_entry *e) {
    uint64_t i = hash & t->mask;
    while (t->slots[i].entry) i = (i + 1) & t->mask;
    t->slots[i] = (p4_slot){hash, e};
}

int p4_hash_insert(p4_hash_table *t, p4_entry *e) {
    if (!t->slots || 2 * (t->count + 1) > t->mask + 1) {
        uint64_t size = t->slots ? 2 * (t->mask + 1) : 16;
        p4_hash_table bigger = {calloc(size, sizeof(p4_slot)), size - 1, t->count};
        if (!bigger.slots) return P4_NO_MEMORY;
        if (t->slots)
            for (uint64_t i = 0; i <= t->mask; i++)
                if (t->slots[i].entry) hash_put(&bigger, t->slots[i].hash, t->slots[i].entry);
        free(t->slots);
        *t = bigger;
    }
    hash_put(t, e->hash, e);
    t->count++;
    return P4_OK;
}

void p4_hash_remove(p4_hash_table *t, p4_entry *e) {
    uint64_t i = e->hash & t->mask;
    while (t->slots[i].entry != e) i = (i + 1) & t->mask;
    /* Close the gap, so that no tombstones are needed. */
    for (uint64_t j = (i + 1) & t->mask; t->slots[j].entry; j = (j + 1) & t->mask) {
        uint64_t home = t->slots[j].hash & t->mask;
        if (((j - home) & t->mask) >= ((j - i) & t->mask)) {
            t->slots[i] = t->slots[j];
            i = j;
        }
    }
    t->slots[i].entry = NULL;
    t->count--;
}

/* ---- places in a table ---- */

static p4_prefix_group *prefix_group(p4_table *t, const p4_entry *e, int make) {
    uint32_t i = 0;
    while (i < t->prefix_count && t->prefixes[i].length > e->prefix) i++;
    if (i < t->prefix_count && t->prefixes[i].length == e->prefix) return &t->prefixes[i];
    if (!make) return NULL;
    p4_prefix_group *grown = realloc(t->prefixes, (t->prefix_count + 1) * sizeof *grown);
    if (!grown) return NULL;
    t->prefixes = grown;
    uint64_t *mask = calloc(t->lpm_words ? t->lpm_words : 1, sizeof *mask);
    if (!mask) return NULL;
    for (uint32_t w = 0; w < t->lpm_words; w++) mask[w] = e->mask[t->lpm_word + w];
    memmove(grown + i + 1, grown + i, (t->prefix_count - i) * sizeof *grown);
    grown[i] = (p4_prefix_group){e->prefix, mask, {NULL, 0, 0}};
    t->prefix_count++;
    return &grown[i];
}

/* The group of an entry's mask. A new one is put where its entry's priority belongs. */
static p4_mask_group *mask_group(p4_table *t, const p4_entry *e, int make) {
    uint32_t words = t->desc->key_words;
    for (uint32_t i = 0; i < t->group_count; i++) {
        uint64_t differs = 0;
        for (uint32_t w = 0; w < words; w++) differs |= t->groups[i].mask[w] ^ (e->mask[w] & t->fixed[w]);
        if (!differs) return &t->groups[i];
    }
    if (!make) return NULL;
    p4_mask_group *grown = realloc(t->groups, (t->group_count + 1) * sizeof *grown);
    if (!grown) return NULL;
    t->groups = grown;
    uint64_t *mask = malloc(words * sizeof *mask);
    if (!mask) return NULL;
    for (uint32_t w = 0; w < words; w++) mask[w] = e->mask[w] & t->fixed[w];
    uint32_t at = t->group_count++;
    grown[at] = (p4_mask_group){mask, INT32_MAX, {NULL, 0, 0}};
    return &grown[at];
}

static void drop_group(p4_table *t, p4_mask_group *g) {
    free(g->hash.slots);
    free(g->mask);
    uint64_t i = (uint64_t)(g - t->groups);
    memmove(g, g + 1, (t->group_count - i - 1) * sizeof *g);
    t->group_count--;
}

/* What an entry is found by in its group's hash table: its words without the ranges. */
static uint64_t fixed_hash(const p4_table *t, const p4_entry *e) {
    uint32_t words = t->desc->key_words;
    uint64_t fixed[words];
    for (uint32_t w = 0; w < words; w++) fixed[w] = e->key[w] & t->fixed[w];
    return p4_hash_key(fixed, words);
}

/* The slot of the tree that an entry with ranges belongs to, or NULL. */
static p4_slot *tree_of(const p4_table *t, const p4_hash_table *h, const p4_entry *e) {
    if (!h->count) return NULL;
    uint64_t hash = fixed_hash(t, e);
    for (uint64_t i = hash & h->mask; h->slots[i].entry; i = (i + 1) & h->mask) {
        if (h->slots[i].hash != hash) continue;
        uint64_t differs = 0;
        for (uint32_t w = 0; w < t->desc->key_words; w++)
            differs |= (h->slots[i].entry->key[w] ^ e->key[w]) & t->fixed[w];
        if (!differs) return &h->slots[i];
    }
    return NULL;
}

static int group_insert(p4_table *t, p4_entry *e) {
    p4_mask_group *g = mask_group(t, e, 1);
    if (!g) return P4_NO_MEMORY;
    int first = !g->hash.count, status = P4_OK;
    p4_slot *tree = t->range_words ? tree_of(t, &g->hash, e) : NULL;
    if (tree) {
        tree->entry = p4_ranges_insert(t, tree->entry, e);
    } else {
        if (t->range_words) p4_ranges_insert(t, NULL, e);
        status = p4_hash_insert(&g->hash, e);
    }
    if (status) {
        if (first) drop_group(t, g);
        return status;
    }
    if (e->priority >= g->best && !first) return P4_OK;
    p4_mask_group moved = *g;
    moved.best = e->priority;
    uint64_t i = (uint64_t)(g - t->groups);
    while (i && t->groups[i - 1].best > moved.best) {
        t->groups[i] = t->groups[i - 1];
        i--;
    }
    t->groups[i] = moved;
    return P4_OK;
}

static void group_remove(p4_table *t, p4_entry *e) {
    p4_mask_group *g = mask_group(t, e, 0);
    p4_slot *tree = t->range_words ? tree_of(t, &g->hash, e) : NULL;
    p4_entry *rest = tree ? p4_ranges_remove(t, tree->entry, e) : NULL;
    if (rest)
        tree->entry = rest;
    else
        p4_hash_remove(&g->hash, e);
    if (!g->hash.count) drop_group(t, g);
}

/* The entry with the same words and priority; of several priorities there may be one each. */
static p4_entry *group_same(const p4_table *t, const p4_hash_table *h, const p4_entry *e) {
    if (t->range_words) {
        const p4_slot *tree = tree_of(t, h, e);
        return tree ? p4_ranges_same(t, tree->entry, e) : NULL;
    }
    if (!h->count) return NULL;
    uint32_t words = t->desc->key_words;
    uint64_t hash = p4_hash_key(e->key, words);
    for (uint64_t i = hash & h->mask; h->slots[i].entry; i = (i + 1) & h->mask) {
        p4_entry *o = h->slots[i].entry;
        if (h->slots[i].hash == hash && o->priority == e->priority &&
            !memcmp(o->key, e->key, words * sizeof *e->key))
            return o;
    }
    return NULL;
}

p4_entry *p4_table_same(p4_table *t, const p4_entry *e) {
    uint32_t words = t->desc->key_words;
    switch (t->desc->strategy) {
    case P4_HASH:
        return p4_hash_find(&t->hash, e->key, words);
    case P4_PREFIX: {
        p4_prefix_group *g = prefix_group(t, e, 0);
        return g ? p4_hash_find(&g->hash, e->key, words) : NULL;
    }
    case P4_PRIORITY: {
        p4_mask_group *g = mask_group(t, e, 0);
        return g ? group_same(t, &g->hash, e) : NULL;
    }
    default:
        return NULL;
    }
}

int p4_table_link(p4_table *t, p4_entry *e) {
    if (t->desc->strategy == P4_PRIORITY) {
        e->hash = fixed_hash(t, e);
        e->order = t->added++;
        return group_insert(t, e);
    }
    e->hash = p4_hash_key(e->key, t->desc->key_words);
    if (t->desc->strategy == P4_HASH) return p4_hash_insert(&t->hash, e);
    p4_prefix_group *g = prefix_group(t, e, 1);
    return g ? p4_hash_insert(&g->hash, e) : P4_NO_MEMORY;
}

void p4_table_unlink(p4_table *t, p4_entry *e) {
    if (t->desc->strategy == P4_HASH) {
        p4_hash_remove(&t->hash, e);
    } else if (t->desc->strategy == P4_PREFIX) {
        p4_prefix_group *g = prefix_group(t, e, 0);
        p4_hash_remove(&g->hash, e);
        if (g->hash.count) return;
        free(g->hash.slots);
        free(g->mask);
        uint64_t i = (uint64_t)(g - t->prefixes);
        memmove(g, g + 1, (t->prefix_count - i - 1) * sizeof *g);
        t->prefix_count--;
    } else {
        group_remove(t, e);
    }
}
