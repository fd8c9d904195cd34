/* The runtime off a packet's path: instances and their control plane; and the few functions that packets call
 * seldom or that are too large to inline. */
#include "p4gen.h"

#include <stdlib.h>

/* ---- small helpers ---- */

static uint32_t value_words(const p4_action_desc *a) { return a->param_words; }

/* Clear the bits of a value above its width; false if there were any. */
static int fits(const uint64_t *value, uint32_t width, uint32_t words) {
    uint32_t top = width % 64;
    return !(top && value[words - 1] >> top);
}

static int params_fit(const p4_action_desc *a, const uint64_t *params) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < a->params; i++) {
        uint32_t words = (a->widths[i] + 63u) / 64u;
        if (!fits(params + at, a->widths[i], words)) return 0;
        at += words;
    }
    return 1;
}

/* An entry with room for the longest action's data: one block, so that a hit touches little memory. */
static p4_entry *entry_new(uint32_t key_words, uint32_t param_words) {
    p4_entry *e = calloc(1, sizeof *e + (2 * (size_t)key_words + param_words) * sizeof(uint64_t));
    if (e) {
        e->mask = e->key + key_words;
        e->params = e->mask + key_words;
    }
    return e;
}

static int entry_set(p4_entry *e, const p4_action_desc *a, uint32_t action, const uint64_t *params) {
    uint32_t words = value_words(a);
    if (words) memcpy(e->params, params, words * sizeof *params);
    e->action = action;
    e->target = 0;
    return P4_OK;
}

static uint32_t longest(const p4_action_desc *actions, uint32_t count) {
    uint32_t words = 0;
    for (uint32_t i = 0; i < count; i++)
        if (value_words(&actions[i]) > words) words = value_words(&actions[i]);
    return words;
}

/* ---- hash tables ---- */

static void hash_put(p4_hash_table *t, uint64_t hash, p4_entry *e) {
    uint64_t i = hash & t->mask;
    while (t->slots[i].entry) i = (i + 1) & t->mask;
    t->slots[i] = (p4_slot){hash, e};
}

static int hash_insert(p4_hash_table *t, p4_entry *e) {
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

static void hash_remove(p4_hash_table *t, p4_entry *e) {
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

/* ---- tables ---- */

static p4_table *table_of(p4_instance *I, uint32_t number) {
    return number < I->program->table_count ? &I->tables[number] : NULL;
}

static p4_entry *entry_of(p4_table *t, int64_t handle) {
    if (handle == -1) return t->default_entry;
    uint64_t index = (uint64_t)handle & 0xffffffffu;
    if (handle < 0 || index >= t->handles) return NULL;
    p4_entry *e = t->by_handle[index];
    return e && e->handle == handle ? e : NULL;
}

/* The caller's match into key and mask words; P4_BAD_VALUE if a value is wider than its key. */
static int parse_match(const p4_table *t, const uint64_t *match, p4_entry *e) {
    uint32_t at = 0, out = 0;
    for (uint32_t k = 0; k < t->desc->key_count; k++) {
        const p4_key_desc *key = &t->desc->keys[k];
        uint32_t n = key->words;
        const uint64_t *value = match + at;
        if (!fits(value, key->width, n)) return P4_BAD_VALUE;
        at += n;
        for (uint32_t w = 0; w < n; w++) {
            e->key[out + w] = value[w];
            e->mask[out + w] = ~(uint64_t)0;
        }
        switch (key->kind) {
        case P4_LPM: {
            uint64_t length = match[at++];
            if (length > key->width) return P4_BAD_VALUE;
            e->prefix = (uint32_t)length;
            uint32_t low = key->width - (uint32_t)length; /* bits that do not matter */
            for (uint32_t w = 0; w < n; w++) {
                uint32_t here = low > 64 * w ? low - 64 * w : 0;
                e->mask[out + w] = here >= 64 ? 0 : ~(uint64_t)0 << here;
            }
            break;
        }
        case P4_TERNARY:
            if (!fits(match + at, key->width, n)) return P4_BAD_VALUE;
            for (uint32_t w = 0; w < n; w++) e->mask[out + w] = match[at + w];
            at += n;
            break;
        case P4_RANGE:
            if (!fits(match + at, key->width, n)) return P4_BAD_VALUE;
            for (uint32_t w = 0; w < n; w++) e->mask[out + w] = match[at + w];
            at += n;
            for (uint32_t w = n; w-- > 0;)
                if (e->key[out + w] != e->mask[out + w]) {
                    if (e->key[out + w] > e->mask[out + w]) return P4_BAD_VALUE;
                    break;
                }
            break;
        case P4_OPTIONAL: {
            uint64_t used = match[at++];
            for (uint32_t w = 0; w < n; w++) e->mask[out + w] = used ? ~(uint64_t)0 : 0;
            break;
        }
        default:
            break;
        }
        if (key->kind != P4_RANGE)
            for (uint32_t w = 0; w < n; w++) e->key[out + w] &= e->mask[out + w];
        out += n;
    }
    return P4_OK;
}

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
    for (uint32_t i = 0; i < t->group_count; i++)
        if (!memcmp(t->groups[i].mask, e->mask, words * sizeof *e->mask)) return &t->groups[i];
    if (!make) return NULL;
    p4_mask_group *grown = realloc(t->groups, (t->group_count + 1) * sizeof *grown);
    if (!grown) return NULL;
    t->groups = grown;
    uint64_t *mask = malloc(words * sizeof *mask);
    if (!mask) return NULL;
    memcpy(mask, e->mask, words * sizeof *mask);
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

static int group_insert(p4_table *t, p4_entry *e) {
    p4_mask_group *g = mask_group(t, e, 1);
    if (!g) return P4_NO_MEMORY;
    int status = hash_insert(&g->hash, e);
    if (status) {
        if (!g->hash.count) drop_group(t, g);
        return status;
    }
    if (e->priority >= g->best && g->hash.count > 1) return P4_OK;
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

/* An entry with the same words and priority in a hash table that is keyed by `words` words. */
static p4_entry *find_equal(const p4_hash_table *h, const p4_entry *e, uint32_t words) {
    if (!h->count) return NULL;
    uint64_t hash = p4_hash_key(e->key, words);
    for (uint64_t i = hash & h->mask; h->slots[i].entry; i = (i + 1) & h->mask) {
        p4_entry *o = h->slots[i].entry;
        if (h->slots[i].hash == hash && o->priority == e->priority &&
            !memcmp(o->key, e->key, words * sizeof *e->key))
            return o;
    }
    return NULL;
}

static p4_entry *find_same(p4_table *t, const p4_entry *e) {
    uint32_t words = t->desc->key_words;
    switch (t->desc->strategy) {
    case P4_HASH:
        return p4_hash_find(&t->hash, e->key, words);
    case P4_PREFIX: {
        p4_prefix_group *g = prefix_group(t, e, 0);
        return g ? p4_hash_find(&g->hash, e->key, words) : NULL;
    }
    case P4_PRIORITY: {
        if (t->has_range) return find_equal(&t->hash, e, 2 * words);
        p4_mask_group *g = mask_group(t, e, 0);
        return g ? find_equal(&g->hash, e, words) : NULL;
    }
    default:
        return NULL;
    }
}

static int link_entry(p4_table *t, p4_entry *e) {
    e->hash = p4_hash_key(e->key, t->desc->key_words);
    if (t->desc->strategy == P4_HASH) return hash_insert(&t->hash, e);
    if (t->desc->strategy == P4_PREFIX) {
        p4_prefix_group *g = prefix_group(t, e, 1);
        return g ? hash_insert(&g->hash, e) : P4_NO_MEMORY;
    }
    e->order = t->added++;
    if (!t->has_range) return group_insert(t, e);
    p4_entry **grown = realloc(t->ordered, (t->count + 1) * sizeof *grown);
    if (!grown) return P4_NO_MEMORY;
    t->ordered = grown;
    e->hash = p4_hash_key(e->key, 2 * t->desc->key_words);
    int status = hash_insert(&t->hash, e);
    if (status) return status;
    uint64_t low = 0, high = t->count; /* behind all of the same priority */
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (grown[middle]->priority <= e->priority) low = middle + 1;
        else high = middle;
    }
    memmove(grown + low + 1, grown + low, (t->count - low) * sizeof *grown);
    grown[low] = e;
    return P4_OK;
}

static void unlink_entry(p4_table *t, p4_entry *e) {
    if (t->desc->strategy == P4_HASH) {
        hash_remove(&t->hash, e);
    } else if (t->desc->strategy == P4_PREFIX) {
        p4_prefix_group *g = prefix_group(t, e, 0);
        hash_remove(&g->hash, e);
        if (!g->hash.count) {
            free(g->hash.slots);
            free(g->mask);
            uint64_t i = (uint64_t)(g - t->prefixes);
            memmove(g, g + 1, (t->prefix_count - i - 1) * sizeof *g);
            t->prefix_count--;
        }
    } else if (!t->has_range) {
        p4_mask_group *g = mask_group(t, e, 0);
        hash_remove(&g->hash, e);
        if (!g->hash.count) drop_group(t, g);
    } else {
        hash_remove(&t->hash, e);
        uint64_t i = 0;
        while (t->ordered[i] != e) i++;
        memmove(t->ordered + i, t->ordered + i + 1, (t->count - i - 1) * sizeof *t->ordered);
    }
}

static int give_handle(p4_table *t, p4_entry *e) {
    uint64_t index;
    if (t->free_count) {
        index = t->free_list[--t->free_count];
    } else {
        if (t->handles == t->room) {
            uint64_t room = t->room ? 2 * t->room : 16;
            p4_entry **grown = realloc(t->by_handle, room * sizeof *grown);
            if (grown) t->by_handle = grown;
            uint32_t *ages = realloc(t->generation, room * sizeof *ages);
            if (ages) t->generation = ages;
            uint32_t *list = realloc(t->free_list, room * sizeof *list);
            if (list) t->free_list = list;
            if (!grown || !ages || !list) return P4_NO_MEMORY;
            t->room = room;
        }
        index = t->handles++;
        t->generation[index] = 0;
    }
    t->by_handle[index] = e;
    e->handle = (int64_t)((uint64_t)(t->generation[index] & 0x7fffffffu) << 32 | index);
    return P4_OK;
}

static int64_t add(p4_table *t, const uint64_t *match, int32_t priority, p4_entry *e) {
    int status = t->desc->key_count ? parse_match(t, match, e) : P4_WRONG_KIND;
    e->priority = t->desc->strategy == P4_PRIORITY ? priority : 0;
    if (!status && find_same(t, e)) status = P4_DUPLICATE;
    if (!status && t->desc->size && t->count >= t->desc->size) status = P4_FULL;
    if (!status && t->handles >= 0xfffffffeu) status = P4_FULL;
    if (!status) status = link_entry(t, e);
    if (!status) {
        t->count++;
        status = give_handle(t, e);
        if (status) {
            t->count--;
            unlink_entry(t, e);
        }
    }
    if (status) {
        free(e);
        return status;
    }
    return e->handle;
}

int64_t p4_table_add_initial(p4_instance *I, uint32_t table, const uint64_t *match, int32_t priority,
                             uint32_t action, const uint64_t *params) {
    p4_table *t = table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    if (action >= t->desc->action_count) return P4_BAD_ACTION;
    if (!params_fit(&t->desc->actions[action], params)) return P4_BAD_VALUE;
    p4_entry *e = entry_new(t->desc->key_words, t->param_words);
    if (!e) return P4_NO_MEMORY;
    if (entry_set(e, &t->desc->actions[action], action, params)) {
        free(e);
        return P4_NO_MEMORY;
    }
    return add(t, match, priority, e);
}

int64_t p4_table_add(p4_instance *I, uint32_t table, const uint64_t *match, int32_t priority, uint32_t action,
                     const uint64_t *params) {
    p4_table *t = table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    if (t->desc->const_entries) return P4_CONSTANT;
    if (t->desc->profile >= 0) return P4_WRONG_KIND;
    return p4_table_add_initial(I, table, match, priority, action, params);
}

static int profile_has(p4_instance *I, const p4_table *t, int group, uint32_t number) {
    if (t->desc->profile < 0) return P4_WRONG_KIND;
    p4_profile *p = &I->profiles[t->desc->profile];
    if (group) return number < p->group_room && p->groups[number].used ? P4_OK : P4_NO_SUCH_ENTRY;
    return number < p->member_room && p->members[number] ? P4_OK : P4_NO_SUCH_ENTRY;
}

int64_t p4_table_add_indirect(p4_instance *I, uint32_t table, const uint64_t *match, int32_t priority, int group,
                              uint32_t number) {
    p4_table *t = table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    if (t->desc->const_entries) return P4_CONSTANT;
    int status = profile_has(I, t, group, number);
    if (status) return status;
    p4_entry *e = entry_new(t->desc->key_words, t->param_words);
    if (!e) return P4_NO_MEMORY;
    e->target = group ? 2 : 1;
    e->number = number;
    return add(t, match, priority, e);
}

static int modify(p4_table *t, p4_entry *e, uint32_t action, const uint64_t *params) {
    if (action >= t->desc->action_count) return P4_BAD_ACTION;
    if (!params_fit(&t->desc->actions[action], params)) return P4_BAD_VALUE;
    return entry_set(e, &t->desc->actions[action], action, params);
}

int p4_table_modify(p4_instance *I, uint32_t table, int64_t handle, uint32_t action, const uint64_t *params) {
    p4_table *t = table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    p4_entry *e = handle < 0 ? NULL : entry_of(t, handle);
    if (!e) return P4_NO_SUCH_ENTRY;
    if (t->desc->const_entries) return P4_CONSTANT;
    if (t->desc->profile >= 0) return P4_WRONG_KIND;
    return modify(t, e, action, params);
}

int p4_table_modify_indirect(p4_instance *I, uint32_t table, int64_t handle, int group, uint32_t number) {
    p4_table *t = table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    p4_entry *e = handle < 0 ? NULL : entry_of(t, handle);
    if (!e) return P4_NO_SUCH_ENTRY;
    int status = profile_has(I, t, group, number);
    if (status) return status;
    e->target = group ? 2 : 1;
    e->number = number;
    return P4_OK;
}

static void drop_entry(p4_table *t, p4_entry *e) {
    uint64_t index = (uint64_t)e->handle & 0xffffffffu;
    unlink_entry(t, e);
    t->count--;
    t->generation[index]++;
    t->by_handle[index] = NULL;
    t->free_list[t->free_count++] = (uint32_t)index;
    free(e);
}

int p4_table_delete(p4_instance *I, uint32_t table, int64_t handle) {
    p4_table *t = table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    p4_entry *e = handle < 0 ? NULL : entry_of(t, handle);
    if (!e) return P4_NO_SUCH_ENTRY;
    if (t->desc->const_entries) return P4_CONSTANT;
    drop_entry(t, e);
    return P4_OK;
}

int p4_table_clear(p4_instance *I, uint32_t table) {
    p4_table *t = table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    if (t->desc->const_entries) return P4_CONSTANT;
    for (uint64_t i = 0; i < t->handles; i++)
        if (t->by_handle[i]) drop_entry(t, t->by_handle[i]);
    return P4_OK;
}

int p4_table_set_default(p4_instance *I, uint32_t table, uint32_t action, const uint64_t *params) {
    p4_table *t = table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    if (t->desc->const_default) return P4_CONSTANT;
    return modify(t, t->default_entry, action, params);
}

int p4_table_set_default_indirect(p4_instance *I, uint32_t table, int group, uint32_t number) {
    p4_table *t = table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    if (t->desc->const_default) return P4_CONSTANT;
    int status = profile_has(I, t, group, number);
    if (status) return status;
    t->default_entry->target = group ? 2 : 1;
    t->default_entry->number = number;
    return P4_OK;
}

int p4_table_reset_default(p4_instance *I, uint32_t table) {
    p4_table *t = table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    if (!t->desc->action_count) return P4_OK;
    return modify(t, t->default_entry, t->desc->default_action, t->desc->default_params);
}

int64_t p4_table_count(p4_instance *I, uint32_t table) {
    p4_table *t = table_of(I, table);
    return t ? (int64_t)t->count : P4_NO_SUCH_OBJECT;
}

int64_t p4_table_next(p4_instance *I, uint32_t table, int64_t handle) {
    p4_table *t = table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    uint64_t i = handle < 0 ? 0 : ((uint64_t)handle & 0xffffffffu) + 1;
    for (; i < t->handles; i++)
        if (t->by_handle[i]) return t->by_handle[i]->handle;
    return -2;
}

int p4_table_get(p4_instance *I, uint32_t table, int64_t handle, uint64_t *match, int32_t *priority,
                 uint32_t *target, uint32_t *action_or_number, uint64_t *params) {
    p4_table *t = table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    p4_entry *e = entry_of(t, handle);
    if (!e) return P4_NO_SUCH_ENTRY;
    if (priority) *priority = e->priority;
    if (target) *target = e->target;
    if (action_or_number) *action_or_number = e->target ? e->number : e->action;
    if (params && !e->target && t->desc->action_count)
        memcpy(params, e->params, t->desc->actions[e->action].param_words * sizeof *params);
    if (match && handle != -1) {
        uint32_t in = 0;
        for (uint32_t k = 0; k < t->desc->key_count; k++) {
            const p4_key_desc *key = &t->desc->keys[k];
            for (uint32_t w = 0; w < key->words; w++) *match++ = e->key[in + w];
            if (key->kind == P4_LPM) *match++ = e->prefix;
            if (key->kind == P4_TERNARY || key->kind == P4_RANGE)
                for (uint32_t w = 0; w < key->words; w++) *match++ = e->mask[in + w];
            if (key->kind == P4_OPTIONAL) *match++ = e->mask[in] != 0;
            in += key->words;
        }
    }
    return P4_OK;
}

int64_t p4_table_find(p4_instance *I, uint32_t table, const uint64_t *match, int32_t priority) {
    p4_table *t = table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    if (!t->desc->key_count) return P4_NO_SUCH_ENTRY;
    p4_entry *e = entry_new(t->desc->key_words, t->param_words);
    if (!e) return P4_NO_MEMORY;
    int64_t result = parse_match(t, match, e);
    e->priority = t->desc->strategy == P4_PRIORITY ? priority : 0;
    if (!result) {
        p4_entry *same = find_same(t, e);
        result = same ? same->handle : P4_NO_SUCH_ENTRY;
    }
    free(e);
    return result;
}

/* A range over several words, lowest word first. */
static int in_range(const uint64_t *key, const uint64_t *low, const uint64_t *high, uint32_t words) {
    int above = 1, below = 1;
    for (uint32_t w = words; w-- > 0;)
        if (key[w] != low[w]) {
            above = key[w] > low[w];
            break;
        }
    for (uint32_t w = words; w-- > 0;)
        if (key[w] != high[w]) {
            below = key[w] < high[w];
            break;
        }
    return above && below;
}

p4_entry *p4_find_range(const p4_table *t, const uint64_t *key) {
    for (uint64_t i = 0; i < t->count; i++) {
        p4_entry *e = t->ordered[i];
        uint32_t at = 0, good = 1;
        for (uint32_t k = 0; k < t->desc->key_count && good; k++) {
            const p4_key_desc *d = &t->desc->keys[k];
            if (d->kind == P4_RANGE) {
                good = (uint32_t)in_range(key + at, e->key + at, e->mask + at, d->words);
            } else {
                for (uint32_t w = 0; w < d->words; w++)
                    if ((e->key[at + w] ^ key[at + w]) & e->mask[at + w]) good = 0;
            }
            at += d->words;
        }
        if (good) return e;
    }
    return NULL;
}

/* ---- action profiles ---- */

static p4_profile *profile_of(p4_instance *I, uint32_t number) {
    return number < I->program->profile_count ? &I->profiles[number] : NULL;
}

const p4_entry *p4_resolve(p4_instance *I, p4_table *t, const p4_entry *e, uint8_t *hit, uint64_t hash) {
    p4_profile *p = &I->profiles[t->desc->profile];
    for (int attempt = 0; attempt < 2; attempt++) {
        uint32_t number = e->number;
        if (e->target == 0) return e;
        if (e->target == 2) {
            p4_group *g = number < p->group_room ? &p->groups[number] : NULL;
            number = g && g->count ? g->members[hash % g->count] : UINT32_MAX;
        }
        if (number < p->member_room && p->members[number]) return p->members[number];
        *hit = 0; /* an empty group: as if nothing had matched */
        e = t->default_entry;
    }
    return e;
}

int64_t p4_profile_add_member(p4_instance *I, uint32_t profile, uint32_t action, const uint64_t *params) {
    p4_profile *p = profile_of(I, profile);
    if (!p) return P4_NO_SUCH_OBJECT;
    if (action >= p->desc->action_count) return P4_BAD_ACTION;
    if (!params_fit(&p->desc->actions[action], params)) return P4_BAD_VALUE;
    uint32_t i = 0;
    while (i < p->member_room && p->members[i]) i++;
    if (i == p->member_room) {
        uint32_t room = p->member_room ? 2 * p->member_room : 16;
        p4_entry **grown = realloc(p->members, room * sizeof *grown);
        if (!grown) return P4_NO_MEMORY;
        memset(grown + p->member_room, 0, (room - p->member_room) * sizeof *grown);
        p->members = grown;
        p->member_room = room;
    }
    p4_entry *e = entry_new(0, longest(p->desc->actions, p->desc->action_count));
    if (!e || entry_set(e, &p->desc->actions[action], action, params)) {
        free(e);
        return P4_NO_MEMORY;
    }
    p->members[i] = e;
    return i;
}

int p4_profile_modify_member(p4_instance *I, uint32_t profile, uint32_t member, uint32_t action,
                             const uint64_t *params) {
    p4_profile *p = profile_of(I, profile);
    if (!p) return P4_NO_SUCH_OBJECT;
    if (member >= p->member_room || !p->members[member]) return P4_NO_SUCH_ENTRY;
    if (action >= p->desc->action_count) return P4_BAD_ACTION;
    if (!params_fit(&p->desc->actions[action], params)) return P4_BAD_VALUE;
    return entry_set(p->members[member], &p->desc->actions[action], action, params);
}

int p4_profile_delete_member(p4_instance *I, uint32_t profile, uint32_t member) {
    p4_profile *p = profile_of(I, profile);
    if (!p) return P4_NO_SUCH_OBJECT;
    if (member >= p->member_room || !p->members[member]) return P4_NO_SUCH_ENTRY;
    for (uint32_t g = 0; g < p->group_room; g++)
        for (uint32_t m = 0; m < p->groups[g].count; m++)
            if (p->groups[g].members[m] == member) return P4_IN_USE;
    for (uint32_t t = 0; t < I->program->table_count; t++) {
        p4_table *table = &I->tables[t];
        if (table->desc->profile != (int32_t)profile) continue;
        for (uint64_t i = 0; i < table->handles; i++) {
            p4_entry *e = table->by_handle[i];
            if (e && e->target == 1 && e->number == member) return P4_IN_USE;
        }
    }
    free(p->members[member]);
    p->members[member] = NULL;
    return P4_OK;
}

int64_t p4_profile_add_group(p4_instance *I, uint32_t profile) {
    p4_profile *p = profile_of(I, profile);
    if (!p) return P4_NO_SUCH_OBJECT;
    if (!p->desc->selector) return P4_WRONG_KIND;
    uint32_t i = 0;
    while (i < p->group_room && p->groups[i].used) i++;
    if (i == p->group_room) {
        uint32_t room = p->group_room ? 2 * p->group_room : 16;
        p4_group *grown = realloc(p->groups, room * sizeof *grown);
        if (!grown) return P4_NO_MEMORY;
        memset(grown + p->group_room, 0, (room - p->group_room) * sizeof *grown);
        p->groups = grown;
        p->group_room = room;
    }
    p->groups[i].used = 1;
    return i;
}

static p4_group *group_of(p4_profile *p, uint32_t group) {
    return p && group < p->group_room && p->groups[group].used ? &p->groups[group] : NULL;
}

int p4_profile_delete_group(p4_instance *I, uint32_t profile, uint32_t group) {
    p4_profile *p = profile_of(I, profile);
    if (!p) return P4_NO_SUCH_OBJECT;
    p4_group *g = group_of(p, group);
    if (!g) return P4_NO_SUCH_ENTRY;
    for (uint32_t t = 0; t < I->program->table_count; t++) {
        p4_table *table = &I->tables[t];
        if (table->desc->profile != (int32_t)profile) continue;
        for (uint64_t i = 0; i < table->handles; i++) {
            p4_entry *e = table->by_handle[i];
            if (e && e->target == 2 && e->number == group) return P4_IN_USE;
        }
    }
    free(g->members);
    *g = (p4_group){0};
    return P4_OK;
}

int p4_profile_group_add(p4_instance *I, uint32_t profile, uint32_t group, uint32_t member) {
    p4_profile *p = profile_of(I, profile);
    if (!p) return P4_NO_SUCH_OBJECT;
    p4_group *g = group_of(p, group);
    if (!g || member >= p->member_room || !p->members[member]) return P4_NO_SUCH_ENTRY;
    for (uint32_t i = 0; i < g->count; i++)
        if (g->members[i] == member) return P4_DUPLICATE;
    uint32_t *grown = realloc(g->members, (g->count + 1) * sizeof *grown);
    if (!grown) return P4_NO_MEMORY;
    g->members = grown;
    uint32_t i = g->count++; /* in the order of their numbers, as BMv2 */
    while (i && grown[i - 1] > member) {
        grown[i] = grown[i - 1];
        i--;
    }
    grown[i] = member;
    return P4_OK;
}

int p4_profile_group_remove(p4_instance *I, uint32_t profile, uint32_t group, uint32_t member) {
    p4_profile *p = profile_of(I, profile);
    if (!p) return P4_NO_SUCH_OBJECT;
    p4_group *g = group_of(p, group);
    if (!g) return P4_NO_SUCH_ENTRY;
    for (uint32_t i = 0; i < g->count; i++)
        if (g->members[i] == member) {
            memmove(g->members + i, g->members + i + 1, (g->count - i - 1) * sizeof *g->members);
            g->count--;
            return P4_OK;
        }
    return P4_NO_SUCH_ENTRY;
}

/* ---- registers ---- */

static uint8_t *cell(p4_instance *I, const p4_register_desc *r, uint64_t index) {
    return I->records[r->record] + index * I->program->records[r->record].stride + r->offset;
}

static const p4_register_desc *register_of(p4_instance *I, uint32_t reg, uint64_t start, uint64_t count, int *status) {
    if (reg >= I->program->register_count) {
        *status = P4_NO_SUCH_OBJECT;
        return NULL;
    }
    const p4_register_desc *r = &I->program->registers[reg];
    *status = start <= r->count && count <= r->count - start ? P4_OK : P4_BAD_INDEX;
    return *status ? NULL : r;
}

int p4_register_read(p4_instance *I, uint32_t reg, uint64_t start, uint64_t count, uint64_t *out) {
    int status;
    const p4_register_desc *r = register_of(I, reg, start, count, &status);
    if (!r) return status;
    uint32_t words = (r->width + 63) / 64;
    if (!words) words = 1;
    for (uint64_t i = 0; i < count; i++, out += words) {
        memset(out, 0, words * sizeof *out);
        memcpy(out, cell(I, r, start + i), r->bytes < 8 * words ? r->bytes : 8 * words); /* little-endian host */
    }
    return P4_OK;
}

static void register_put(p4_instance *I, const p4_register_desc *r, uint64_t index, const uint64_t *value) {
    uint32_t words = (r->width + 63) / 64;
    memcpy(cell(I, r, index), value, r->bytes < 8 * words ? r->bytes : 8 * words);
}

int p4_register_write(p4_instance *I, uint32_t reg, uint64_t start, uint64_t count, const uint64_t *values) {
    int status;
    const p4_register_desc *r = register_of(I, reg, start, count, &status);
    if (!r) return status;
    uint32_t words = (r->width + 63) / 64;
    for (uint64_t i = 0; i < count; i++)
        if (!fits(values + i * words, r->width, words)) return P4_BAD_VALUE;
    for (uint64_t i = 0; i < count; i++) register_put(I, r, start + i, values + i * words);
    return P4_OK;
}

int p4_register_fill(p4_instance *I, uint32_t reg, uint64_t start, uint64_t count, const uint64_t *value) {
    int status;
    const p4_register_desc *r = register_of(I, reg, start, count, &status);
    if (!r) return status;
    if (!fits(value, r->width, (r->width + 63) / 64)) return P4_BAD_VALUE;
    for (uint64_t i = 0; i < count; i++) register_put(I, r, start + i, value);
    return P4_OK;
}

/* ---- counters ---- */

int p4_counter_read(p4_instance *I, uint32_t counter, uint64_t start, uint64_t count, p4_count *out) {
    if (counter >= I->program->counter_count) return P4_NO_SUCH_OBJECT;
    p4_counter *c = &I->counters[counter];
    if (start > c->count || count > c->count - start) return P4_BAD_INDEX;
    memcpy(out, c->values + start, count * sizeof *out);
    return P4_OK;
}

int p4_counter_write(p4_instance *I, uint32_t counter, uint64_t index, const p4_count *value) {
    if (counter >= I->program->counter_count) return P4_NO_SUCH_OBJECT;
    p4_counter *c = &I->counters[counter];
    if (index >= c->count) return P4_BAD_INDEX;
    c->values[index] = *value;
    return P4_OK;
}

int p4_counter_reset(p4_instance *I, uint32_t counter) {
    if (counter >= I->program->counter_count) return P4_NO_SUCH_OBJECT;
    memset(I->counters[counter].values, 0, I->counters[counter].count * sizeof(p4_count));
    return P4_OK;
}

static p4_entry *direct_entry(p4_instance *I, uint32_t table, int64_t handle, int meter, int *status) {
    p4_table *t = table_of(I, table);
    *status = P4_NO_SUCH_OBJECT;
    if (!t) return NULL;
    *status = P4_WRONG_KIND;
    if (!(meter ? t->desc->direct_meter : t->desc->direct_counter)) return NULL;
    p4_entry *e = entry_of(t, handle);
    *status = e ? P4_OK : P4_NO_SUCH_ENTRY;
    return e;
}

int p4_direct_counter_read(p4_instance *I, uint32_t table, int64_t handle, p4_count *out) {
    int status;
    p4_entry *e = direct_entry(I, table, handle, 0, &status);
    if (e) *out = e->count;
    return status;
}

int p4_direct_counter_write(p4_instance *I, uint32_t table, int64_t handle, const p4_count *value) {
    int status;
    p4_entry *e = direct_entry(I, table, handle, 0, &status);
    if (e) e->count = *value;
    return status;
}

int p4_direct_counter_reset(p4_instance *I, uint32_t table) {
    p4_table *t = table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    for (uint64_t i = 0; i < t->handles; i++)
        if (t->by_handle[i]) t->by_handle[i]->count = (p4_count){0, 0};
    t->default_entry->count = (p4_count){0, 0};
    return P4_OK;
}

/* ---- meters ---- */

static uint32_t meter_run(p4_meter_state *m, double size, uint64_t now_ns) {
    if (!m->rates.set) return 0;
    double elapsed_us = now_ns > m->last_ns ? (double)(now_ns - m->last_ns) / 1000.0 : 0.0;
    if (now_ns > m->last_ns) m->last_ns = now_ns;
    for (int i = 0; i < 2; i++) {
        m->tokens[i] += elapsed_us * m->rates.rate[i];
        if (m->tokens[i] > m->rates.burst[i]) m->tokens[i] = m->rates.burst[i];
    }
    if (m->tokens[1] < size) return 2;
    m->tokens[1] -= size;
    if (m->tokens[0] < size) return 1;
    m->tokens[0] -= size;
    return 0;
}

uint32_t p4_meter_run(const p4_meter *m, uint64_t index, uint32_t bytes, uint64_t now_ns) {
    return index < m->count ? meter_run(&m->states[index], m->bytes ? bytes : 1, now_ns) : 0;
}

uint32_t p4_direct_meter_run(p4_table *t, const p4_entry *e, uint32_t bytes, uint64_t now_ns) {
    return e ? meter_run(&((p4_entry *)e)->meter, t->desc->direct_meter == 2 ? bytes : 1, now_ns) : 0;
}

static void meter_put(p4_meter_state *m, const p4_rates *rates) {
    m->rates = *rates;
    m->rates.set = 1;
    m->tokens[0] = rates->burst[0];
    m->tokens[1] = rates->burst[1];
}

int p4_meter_set(p4_instance *I, uint32_t meter, uint64_t index, const p4_rates *rates) {
    if (meter >= I->program->meter_count) return P4_NO_SUCH_OBJECT;
    if (index >= I->meters[meter].count) return P4_BAD_INDEX;
    meter_put(&I->meters[meter].states[index], rates);
    return P4_OK;
}

int p4_meter_set_all(p4_instance *I, uint32_t meter, const p4_rates *rates) {
    if (meter >= I->program->meter_count) return P4_NO_SUCH_OBJECT;
    for (uint64_t i = 0; i < I->meters[meter].count; i++) meter_put(&I->meters[meter].states[i], rates);
    return P4_OK;
}

int p4_meter_get(p4_instance *I, uint32_t meter, uint64_t index, p4_rates *out) {
    if (meter >= I->program->meter_count) return P4_NO_SUCH_OBJECT;
    if (index >= I->meters[meter].count) return P4_BAD_INDEX;
    *out = I->meters[meter].states[index].rates;
    return P4_OK;
}

int p4_direct_meter_set(p4_instance *I, uint32_t table, int64_t handle, const p4_rates *rates) {
    int status;
    p4_entry *e = direct_entry(I, table, handle, 1, &status);
    if (e) meter_put(&e->meter, rates);
    return status;
}

int p4_direct_meter_get(p4_instance *I, uint32_t table, int64_t handle, p4_rates *out) {
    int status;
    p4_entry *e = direct_entry(I, table, handle, 1, &status);
    if (e) *out = e->meter.rates;
    return status;
}

/* ---- value sets ---- */

bool p4_value_set_match(const p4_value_set *set, const uint64_t *value) {
    for (uint32_t i = 0; i < set->count; i++) {
        const uint64_t *m = set->members + (uint64_t)i * 2 * set->words;
        uint64_t differs = 0;
        for (uint32_t w = 0; w < set->words; w++) differs |= (m[w] ^ value[w]) & m[set->words + w];
        if (!differs) return true;
    }
    return false;
}

int p4_value_set_add(p4_instance *I, uint32_t number, const uint64_t *match) {
    if (number >= I->program->value_set_count) return P4_NO_SUCH_OBJECT;
    p4_value_set *set = &I->value_sets[number];
    if (set->desc->size && set->count >= set->desc->size) return P4_FULL;
    uint64_t *grown = realloc(set->members, (uint64_t)(set->count + 1) * 2 * set->words * sizeof *grown);
    if (!grown) return P4_NO_MEMORY;
    set->members = grown;
    uint64_t *m = grown + (uint64_t)set->count * 2 * set->words;
    uint32_t at = 0, out = 0;
    for (uint32_t k = 0; k < set->desc->key_count; k++) {
        uint32_t n = set->desc->keys[k].words;
        memcpy(m + out, match + at, n * sizeof *m);
        memcpy(m + set->words + out, match + at + n, n * sizeof *m);
        at += 2 * n;
        out += n;
    }
    set->count++;
    return P4_OK;
}

int p4_value_set_clear(p4_instance *I, uint32_t number) {
    if (number >= I->program->value_set_count) return P4_NO_SUCH_OBJECT;
    I->value_sets[number].count = 0;
    return P4_OK;
}

/* ---- hashes, over two pieces so that a payload need not be copied ---- */

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

/* ---- messages ---- */

void p4_failed(p4_instance *I, p4_packet *packet, const char *text) {
    packet->req.failed = 1;
    if (I->config.log) I->config.log(I->config.user, packet, text);
}

void p4_log(p4_instance *I, const p4_packet *packet, const char *format, const uint64_t *words,
            const uint8_t *widths, uint32_t count) {
    if (!I->config.log) return;
    char text[1024];
    size_t at = 0;
    uint32_t used = 0;
    for (const char *f = format; *f && at + 40 < sizeof text; f++) {
        if (f[0] == '{' && f[1] == '}' && used < count) {
            int n = 0;
            if (widths[used] == 1) {
                n = snprintf(text + at, sizeof text - at, "%llu", (unsigned long long)words[0]);
            } else {
                n = snprintf(text + at, sizeof text - at, "0x");
                for (int w = widths[used] - 1; w >= 0 && at + (size_t)n + 20 < sizeof text; w--)
                    n += snprintf(text + at + n, sizeof text - at - (size_t)n, "%016llx",
                                  (unsigned long long)words[w]);
            }
            words += widths[used++];
            at += (size_t)n;
            f++;
        } else {
            text[at++] = *f;
        }
    }
    text[at] = 0;
    I->config.log(I->config.user, packet, text);
}

/* ---- instances ---- */

static void *array(uint64_t count, size_t size) { return calloc(count ? count : 1, size); }

p4_instance *p4_create(const p4_config *config) {
    const p4_program *program = p4_program_get();
    p4_instance *I = calloc(1, sizeof *I);
    if (!I) return NULL;
    I->program = program;
    if (config) I->config = *config;
    I->random = I->config.seed * 0x9e3779b97f4a7c15ull + 0x243f6a8885a308d3ull;
    I->tables = array(program->table_count, sizeof *I->tables);
    I->profiles = array(program->profile_count, sizeof *I->profiles);
    I->records = array(program->record_count, sizeof *I->records);
    I->counters = array(program->counter_count, sizeof *I->counters);
    I->meters = array(program->meter_count, sizeof *I->meters);
    I->value_sets = array(program->value_set_count, sizeof *I->value_sets);
    int good = I->tables && I->profiles && I->records && I->counters && I->meters && I->value_sets;
    for (uint32_t i = 0; good && i < program->table_count; i++) {
        p4_table *t = &I->tables[i];
        t->desc = &program->tables[i];
        uint32_t at = 0;
        for (uint32_t k = 0; k < t->desc->key_count; k++) {
            const p4_key_desc *key = &t->desc->keys[k];
            if (key->kind == P4_LPM) {
                t->lpm_word = at;
                t->lpm_words = key->words;
                t->lpm_width = key->width;
            }
            if (key->kind == P4_RANGE) t->has_range = 1;
            at += key->words;
        }
        t->param_words = longest(t->desc->actions, t->desc->action_count);
        t->default_entry = entry_new(0, t->param_words);
        good = t->default_entry != NULL;
        if (good) t->default_entry->handle = -1;
        if (good && t->desc->action_count)
            good = modify(t, t->default_entry, t->desc->default_action, t->desc->default_params) == P4_OK;
    }
    for (uint32_t i = 0; good && i < program->profile_count; i++) I->profiles[i].desc = &program->profiles[i];
    for (uint32_t i = 0; good && i < program->record_count; i++) {
        uint64_t size = (uint64_t)program->records[i].stride * program->records[i].count;
        size = (size + 127) / 64 * 64;
        I->records[i] = aligned_alloc(64, size);
        good = I->records[i] != NULL;
        if (good) memset(I->records[i], 0, size);
    }
    for (uint32_t i = 0; good && i < program->counter_count; i++) {
        I->counters[i] = (p4_counter){array(program->counters[i].count, sizeof(p4_count)), program->counters[i].count};
        good = I->counters[i].values != NULL;
    }
    for (uint32_t i = 0; good && i < program->meter_count; i++) {
        I->meters[i] = (p4_meter){array(program->meters[i].count, sizeof(p4_meter_state)), program->meters[i].count,
                                  program->meters[i].bytes};
        good = I->meters[i].states != NULL;
    }
    for (uint32_t i = 0; good && i < program->value_set_count; i++) {
        p4_value_set *set = &I->value_sets[i];
        set->desc = &program->value_sets[i];
        for (uint32_t k = 0; k < set->desc->key_count; k++) set->words += set->desc->keys[k].words;
    }
    if (!good) {
        p4_destroy(I);
        return NULL;
    }
    program->init(I);
    return I;
}

void p4_set_hooks(p4_instance *I, const p4_config *config) {
    uint64_t seed = I->config.seed;
    I->config = *config;
    I->config.seed = seed;
}

void p4_destroy(p4_instance *I) {
    if (!I) return;
    const p4_program *program = I->program;
    for (uint32_t i = 0; I->tables && i < program->table_count; i++) {
        p4_table *t = &I->tables[i];
        for (uint64_t k = 0; k < t->handles; k++) free(t->by_handle[k]);
        for (uint32_t k = 0; k < t->prefix_count; k++) {
            free(t->prefixes[k].hash.slots);
            free(t->prefixes[k].mask);
        }
        free(t->prefixes);
        free(t->hash.slots);
        for (uint32_t k = 0; k < t->group_count; k++) {
            free(t->groups[k].hash.slots);
            free(t->groups[k].mask);
        }
        free(t->groups);
        free(t->ordered);
        free(t->by_handle);
        free(t->generation);
        free(t->free_list);
        free(t->default_entry);
    }
    for (uint32_t i = 0; I->profiles && i < program->profile_count; i++) {
        p4_profile *p = &I->profiles[i];
        for (uint32_t k = 0; k < p->member_room; k++) free(p->members[k]);
        for (uint32_t k = 0; k < p->group_room; k++) free(p->groups[k].members);
        free(p->members);
        free(p->groups);
    }
    for (uint32_t i = 0; I->records && i < program->record_count; i++) free(I->records[i]);
    for (uint32_t i = 0; I->counters && i < program->counter_count; i++) free(I->counters[i].values);
    for (uint32_t i = 0; I->meters && i < program->meter_count; i++) free(I->meters[i].states);
    for (uint32_t i = 0; I->value_sets && i < program->value_set_count; i++) free(I->value_sets[i].members);
    free(I->tables);
    free(I->profiles);
    free(I->records);
    free(I->counters);
    free(I->meters);
    free(I->value_sets);
    free(I);
}
