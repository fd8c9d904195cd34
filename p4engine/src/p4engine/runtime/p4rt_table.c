/* The control plane of tables, as p4rt.h declares it: matches as callers write them, handles, actions. */
#include "p4rt_entry.h"

#include <stdlib.h>

p4_entry *p4_entry_of(p4_table *t, int64_t handle) {
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
        if (!p4_fits(value, key->width, n)) return P4_BAD_VALUE;
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
            if (!p4_fits(match + at, key->width, n)) return P4_BAD_VALUE;
            for (uint32_t w = 0; w < n; w++) e->mask[out + w] = match[at + w];
            at += n;
            break;
        case P4_RANGE:
            if (!p4_fits(match + at, key->width, n)) return P4_BAD_VALUE;
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
    if (!status && p4_table_same(t, e)) status = P4_DUPLICATE;
    if (!status && t->desc->size && t->count >= t->desc->size) status = P4_FULL;
    if (!status && t->handles >= 0xfffffffeu) status = P4_FULL;
    if (!status) status = p4_table_link(t, e);
    if (!status) {
        t->count++;
        status = give_handle(t, e);
        if (status) {
            t->count--;
            p4_table_unlink(t, e);
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
    p4_table *t = p4_table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    if (action >= t->desc->action_count) return P4_BAD_ACTION;
    if (!p4_params_fit(&t->desc->actions[action], params)) return P4_BAD_VALUE;
    p4_entry *e = p4_entry_new(t->desc->key_words, t->param_words, t->desc);
    if (!e) return P4_NO_MEMORY;
    p4_entry_set(e, &t->desc->actions[action], action, params);
    return add(t, match, priority, e);
}

int64_t p4_table_add(p4_instance *I, uint32_t table, const uint64_t *match, int32_t priority, uint32_t action,
                     const uint64_t *params) {
    p4_table *t = p4_table_of(I, table);
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
    p4_table *t = p4_table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    if (t->desc->const_entries) return P4_CONSTANT;
    int status = profile_has(I, t, group, number);
    if (status) return status;
    p4_entry *e = p4_entry_new(t->desc->key_words, t->param_words, t->desc);
    if (!e) return P4_NO_MEMORY;
    e->target = group ? 2 : 1;
    e->number = number;
    return add(t, match, priority, e);
}

int p4_entry_modify(p4_table *t, p4_entry *e, uint32_t action, const uint64_t *params) {
    if (action >= t->desc->action_count) return P4_BAD_ACTION;
    if (!p4_params_fit(&t->desc->actions[action], params)) return P4_BAD_VALUE;
    p4_entry_set(e, &t->desc->actions[action], action, params);
    return P4_OK;
}

int p4_table_modify(p4_instance *I, uint32_t table, int64_t handle, uint32_t action, const uint64_t *params) {
    p4_table *t = p4_table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    p4_entry *e = handle < 0 ? NULL : p4_entry_of(t, handle);
    if (!e) return P4_NO_SUCH_ENTRY;
    if (t->desc->const_entries) return P4_CONSTANT;
    if (t->desc->profile >= 0) return P4_WRONG_KIND;
    return p4_entry_modify(t, e, action, params);
}

int p4_table_modify_indirect(p4_instance *I, uint32_t table, int64_t handle, int group, uint32_t number) {
    p4_table *t = p4_table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    p4_entry *e = handle < 0 ? NULL : p4_entry_of(t, handle);
    if (!e) return P4_NO_SUCH_ENTRY;
    int status = profile_has(I, t, group, number);
    if (status) return status;
    e->target = group ? 2 : 1;
    e->number = number;
    return P4_OK;
}

static void drop_entry(p4_table *t, p4_entry *e) {
    uint64_t index = (uint64_t)e->handle & 0xffffffffu;
    p4_table_unlink(t, e);
    t->count--;
    t->generation[index]++;
    t->by_handle[index] = NULL;
    t->free_list[t->free_count++] = (uint32_t)index;
    free(e);
}

int p4_table_delete(p4_instance *I, uint32_t table, int64_t handle) {
    p4_table *t = p4_table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    p4_entry *e = handle < 0 ? NULL : p4_entry_of(t, handle);
    if (!e) return P4_NO_SUCH_ENTRY;
    if (t->desc->const_entries) return P4_CONSTANT;
    drop_entry(t, e);
    return P4_OK;
}

int p4_table_clear(p4_instance *I, uint32_t table) {
    p4_table *t = p4_table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    if (t->desc->const_entries) return P4_CONSTANT;
    for (uint64_t i = 0; i < t->handles; i++)
        if (t->by_handle[i]) drop_entry(t, t->by_handle[i]);
    return P4_OK;
}

int p4_table_set_default(p4_instance *I, uint32_t table, uint32_t action, const uint64_t *params) {
    p4_table *t = p4_table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    if (t->desc->const_default) return P4_CONSTANT;
    return p4_entry_modify(t, t->default_entry, action, params);
}

int p4_table_set_default_indirect(p4_instance *I, uint32_t table, int group, uint32_t number) {
    p4_table *t = p4_table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    if (t->desc->const_default) return P4_CONSTANT;
    int status = profile_has(I, t, group, number);
    if (status) return status;
    t->default_entry->target = group ? 2 : 1;
    t->default_entry->number = number;
    return P4_OK;
}

int p4_table_reset_default(p4_instance *I, uint32_t table) {
    p4_table *t = p4_table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    if (!t->desc->action_count) return P4_OK;
    return p4_entry_modify(t, t->default_entry, t->desc->default_action, t->desc->default_params);
}

int64_t p4_table_count(p4_instance *I, uint32_t table) {
    p4_table *t = p4_table_of(I, table);
    return t ? (int64_t)t->count : P4_NO_SUCH_OBJECT;
}

int64_t p4_table_next(p4_instance *I, uint32_t table, int64_t handle) {
    p4_table *t = p4_table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    uint64_t i = handle < 0 ? 0 : ((uint64_t)handle & 0xffffffffu) + 1;
    for (; i < t->handles; i++)
        if (t->by_handle[i]) return t->by_handle[i]->handle;
    return -2;
}

int p4_table_get(p4_instance *I, uint32_t table, int64_t handle, uint64_t *match, int32_t *priority,
                 uint32_t *target, uint32_t *action_or_number, uint64_t *params) {
    p4_table *t = p4_table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    p4_entry *e = p4_entry_of(t, handle);
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
    p4_table *t = p4_table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    if (!t->desc->key_count) return P4_NO_SUCH_ENTRY;
    p4_entry *e = p4_entry_new(t->desc->key_words, t->param_words, NULL);
    if (!e) return P4_NO_MEMORY;
    int64_t result = parse_match(t, match, e);
    e->priority = t->desc->strategy == P4_PRIORITY ? priority : 0;
    if (!result) {
        p4_entry *same = p4_table_same(t, e);
        result = same ? same->handle : P4_NO_SUCH_ENTRY;
    }
    free(e);
    return result;
}

/* ---- idle timeouts ---- */

static p4_entry *aging_entry(p4_instance *I, uint32_t table, int64_t handle, int *status) {
    p4_table *t = p4_table_of(I, table);
    *status = P4_NO_SUCH_OBJECT;
    if (!t) return NULL;
    *status = P4_WRONG_KIND;
    if (!t->desc->ages || handle < 0) return NULL;
    p4_entry *e = p4_entry_of(t, handle);
    *status = e ? P4_OK : P4_NO_SUCH_ENTRY;
    return e;
}

int p4_age_start(p4_instance *I, uint32_t table, int64_t handle, uint64_t now_ns) {
    int status;
    p4_entry *e = aging_entry(I, table, handle, &status);
    if (e) e->age->hit_ns = e->age->counted_ns = now_ns;
    return status;
}

int p4_age_set(p4_instance *I, uint32_t table, int64_t handle, uint64_t ttl_ns) {
    int status;
    p4_entry *e = aging_entry(I, table, handle, &status);
    if (e) e->age->ttl_ns = ttl_ns;
    return status;
}

int p4_age_get(p4_instance *I, uint32_t table, int64_t handle, uint64_t *ttl_ns, uint64_t *hit_ns) {
    int status;
    p4_entry *e = aging_entry(I, table, handle, &status);
    if (e) {
        *ttl_ns = e->age->ttl_ns;
        *hit_ns = e->age->hit_ns;
    }
    return status;
}

int64_t p4_table_idle(p4_instance *I, uint32_t table, uint64_t now_ns, int64_t after, int64_t *handles,
                      uint64_t capacity, uint64_t *next_ns) {
    p4_table *t = p4_table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    if (!t->desc->ages) return P4_WRONG_KIND;
    uint64_t found = 0;
    for (uint64_t i = after < 0 ? 0 : ((uint64_t)after & 0xffffffffu) + 1; i < t->handles && found < capacity; i++) {
        p4_age *age = t->by_handle[i] ? t->by_handle[i]->age : NULL;
        if (!age || !age->ttl_ns) continue;
        uint64_t since = age->hit_ns > age->counted_ns ? age->hit_ns : age->counted_ns;
        if (now_ns >= since && now_ns - since >= age->ttl_ns) {
            handles[found++] = t->by_handle[i]->handle;
            age->counted_ns = since = now_ns;
        }
        if (since + age->ttl_ns < *next_ns) *next_ns = since + age->ttl_ns;
    }
    return (int64_t)found;
}
