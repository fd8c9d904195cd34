/* Action profiles and selectors: members, groups, and what an entry that points to one runs. */
#include "p4gen.h"
#include "p4rt_entry.h"

#include <stdlib.h>

static p4_profile *profile_of(p4_instance *I, uint32_t number) {
    return number < I->program->profile_count ? &I->profiles[number] : NULL;
}

static int is_alive(const p4_alive *alive, uint32_t group, uint32_t i) {
    uint64_t cell = (uint64_t)group * alive->group + i;
    return cell >= alive->count || alive->cells[cell * alive->stride];
}

/* The number of the member that the hash chooses from a group that is not empty; UINT32_MAX: none is there. */
static uint32_t choose(const p4_group *g, uint32_t group, uint64_t hash, const p4_alive *alive) {
    uint32_t first = hash % g->count, there = 0;
    if (!alive || (!alive->fair && is_alive(alive, group, first))) return g->members[first];
    for (uint32_t i = 0; i < g->count; i++) there += is_alive(alive, group, i);
    if (!there) return UINT32_MAX;
    uint32_t left = (alive->fair ? hash : hash / g->count) % there, i = 0;
    while (!is_alive(alive, group, i) || left--) i++;
    return g->members[i];
}

static const p4_entry *resolve(p4_instance *I, p4_table *t, const p4_entry *e, uint8_t *hit, uint64_t hash,
                               const p4_alive *alive) {
    p4_profile *p = &I->profiles[t->desc->profile];
    for (int attempt = 0; attempt < 2; attempt++) {
        uint32_t number = e->number;
        if (e->target == 0) return e;
        if (e->target == 2) {
            p4_group *g = number < p->group_room ? &p->groups[number] : NULL;
            number = g && g->count ? choose(g, number, hash, alive) : UINT32_MAX;
        }
        if (number < p->member_room && p->members[number]) return p->members[number];
        *hit = 0; /* an empty group: as if nothing had matched */
        e = t->default_entry;
    }
    return e;
}

const p4_entry *p4_resolve(p4_instance *I, p4_table *t, const p4_entry *e, uint8_t *hit, uint64_t hash) {
    return resolve(I, t, e, hit, hash, NULL);
}

const p4_entry *p4_resolve_alive(p4_instance *I, const p4_alive *alive, p4_table *t, const p4_entry *e, uint8_t *hit,
                                 uint64_t hash) {
    return resolve(I, t, e, hit, hash, alive);
}

int64_t p4_profile_add_member(p4_instance *I, uint32_t profile, uint32_t action, const uint64_t *params) {
    p4_profile *p = profile_of(I, profile);
    if (!p) return P4_NO_SUCH_OBJECT;
    if (action >= p->desc->action_count) return P4_BAD_ACTION;
    if (!p4_params_fit(&p->desc->actions[action], params)) return P4_BAD_VALUE;
    uint32_t i = p->first_member;
    while (i < p->member_room && p->members[i]) i++;
    if (i == p->member_room) {
        uint32_t room = p->member_room ? 2 * p->member_room : 16;
        p4_entry **grown = realloc(p->members, room * sizeof *grown);
        if (!grown) return P4_NO_MEMORY;
        memset(grown + p->member_room, 0, (room - p->member_room) * sizeof *grown);
        p->members = grown;
        p->member_room = room;
    }
    p4_entry *e = p4_entry_new(0, p4_longest_params(p->desc->actions, p->desc->action_count), NULL);
    if (!e) return P4_NO_MEMORY;
    p4_entry_set(e, &p->desc->actions[action], action, params);
    p->members[i] = e;
    p->first_member = i + 1;
    return i;
}

int p4_profile_modify_member(p4_instance *I, uint32_t profile, uint32_t member, uint32_t action,
                             const uint64_t *params) {
    p4_profile *p = profile_of(I, profile);
    if (!p) return P4_NO_SUCH_OBJECT;
    if (member >= p->member_room || !p->members[member]) return P4_NO_SUCH_ENTRY;
    if (action >= p->desc->action_count) return P4_BAD_ACTION;
    if (!p4_params_fit(&p->desc->actions[action], params)) return P4_BAD_VALUE;
    p4_entry_set(p->members[member], &p->desc->actions[action], action, params);
    return P4_OK;
}

/* Does an entry or a default entry point to the member (kind 1) or group (kind 2)? */
static int pointed_to(p4_instance *I, uint32_t profile, uint8_t kind, uint32_t number) {
    for (uint32_t t = 0; t < I->program->table_count; t++) {
        p4_table *table = &I->tables[t];
        if (table->desc->profile != (int32_t)profile) continue;
        const p4_entry *miss = table->default_entry;
        if (miss->target == kind && miss->number == number) return 1;
        for (uint64_t i = 0; i < table->handles; i++) {
            const p4_entry *e = table->by_handle[i];
            if (e && e->target == kind && e->number == number) return 1;
        }
    }
    return 0;
}

int p4_profile_delete_member(p4_instance *I, uint32_t profile, uint32_t member) {
    p4_profile *p = profile_of(I, profile);
    if (!p) return P4_NO_SUCH_OBJECT;
    if (member >= p->member_room || !p->members[member]) return P4_NO_SUCH_ENTRY;
    for (uint32_t g = 0; g < p->group_room; g++)
        for (uint32_t m = 0; m < p->groups[g].count; m++)
            if (p->groups[g].members[m] == member) return P4_IN_USE;
    if (pointed_to(I, profile, 1, member)) return P4_IN_USE;
    free(p->members[member]);
    p->members[member] = NULL;
    if (member < p->first_member) p->first_member = member;
    return P4_OK;
}

int64_t p4_profile_add_group(p4_instance *I, uint32_t profile) {
    p4_profile *p = profile_of(I, profile);
    if (!p) return P4_NO_SUCH_OBJECT;
    if (!p->desc->selector) return P4_WRONG_KIND;
    uint32_t i = p->first_group;
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
    p->first_group = i + 1;
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
    if (pointed_to(I, profile, 2, group)) return P4_IN_USE;
    free(g->members);
    *g = (p4_group){0};
    if (group < p->first_group) p->first_group = group;
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

int64_t p4_profile_next_member(p4_instance *I, uint32_t profile, int64_t after) {
    p4_profile *p = profile_of(I, profile);
    if (!p) return P4_NO_SUCH_OBJECT;
    for (uint64_t i = after < 0 ? 0 : (uint64_t)after + 1; i < p->member_room; i++)
        if (p->members[i]) return (int64_t)i;
    return -1;
}

int64_t p4_profile_next_group(p4_instance *I, uint32_t profile, int64_t after) {
    p4_profile *p = profile_of(I, profile);
    if (!p) return P4_NO_SUCH_OBJECT;
    for (uint64_t i = after < 0 ? 0 : (uint64_t)after + 1; i < p->group_room; i++)
        if (p->groups[i].used) return (int64_t)i;
    return -1;
}

int p4_profile_get_member(p4_instance *I, uint32_t profile, uint32_t member, uint32_t *action, uint64_t *params) {
    p4_profile *p = profile_of(I, profile);
    if (!p) return P4_NO_SUCH_OBJECT;
    if (member >= p->member_room || !p->members[member]) return P4_NO_SUCH_ENTRY;
    const p4_entry *e = p->members[member];
    *action = e->action;
    memcpy(params, e->params, p->desc->actions[e->action].param_words * sizeof *params);
    return P4_OK;
}

int64_t p4_profile_get_group(p4_instance *I, uint32_t profile, uint32_t group, uint32_t *members,
                             uint32_t capacity) {
    p4_profile *p = profile_of(I, profile);
    if (!p) return P4_NO_SUCH_OBJECT;
    const p4_group *g = group_of(p, group);
    if (!g) return P4_NO_SUCH_ENTRY;
    for (uint32_t i = 0; i < g->count && i < capacity; i++) members[i] = g->members[i];
    return g->count;
}
