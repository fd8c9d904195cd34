/* An instance's inside: tables with their entries, action profiles, registers, counters, meters. Generated code
 * looks into it, and the control plane (p4rt_*.c) changes it. */
#ifndef P4STATE_H
#define P4STATE_H

#include "p4rt.h"

typedef struct p4_meter_state {
    p4_rates rates;
    double tokens[2];
    uint64_t last_ns;
    p4_count counts[P4_COLOURS];
} p4_meter_state;

/* When packets have hit an entry of a table with idle timeouts. */
typedef struct p4_age {
    uint64_t hit_ns;     /* the last hit; before the first one, when the entry was added */
    uint64_t counted_ns; /* the entry is idle `ttl_ns` after this and after `hit_ns` */
    uint64_t ttl_ns;     /* 0: it is never idle */
} p4_age;

/* An entry of a table, a default action, or a member of an action profile. */
typedef struct p4_entry {
    struct p4_entry *left, *right; /* in a table with ranges: the tree of its slot, see p4rt_range.c */
    struct p4_entry *reach, *best; /* of this subtree: the one that ends last, the one that wins */
    int32_t priority;
    uint32_t prefix;  /* length of the lpm key's prefix */
    int64_t handle;
    uint64_t hash;
    uint64_t order;   /* among equal priorities the older entry wins */
    p4_count count;
    p4_age *age;           /* behind the words at the end; NULL in a table without idle timeouts */
    p4_meter_state *meter; /* behind these; NULL in a table without direct meter */
    /* What a lookup touches stands together, at best in one cache line. */
    uint64_t *mask;   /* key_words words behind `key`: mask of ternary, upper end of range */
    uint64_t *params; /* behind `mask` */
    uint32_t action;
    uint32_t target;  /* 0: action and params; 1: member `number`; 2: group `number` */
    uint32_t number;
    uint64_t key[];
} p4_entry;

/* Whether `e` wins over `other`, which may be NULL. The older one of equal priority wins. */
static inline int p4_before(const p4_entry *e, const p4_entry *other) {
    if (!other || e->priority != other->priority) return !other || e->priority < other->priority;
    return e->order < other->order;
}

typedef struct p4_slot { uint64_t hash; p4_entry *entry; } p4_slot;
typedef struct p4_hash_table { p4_slot *slots; uint64_t mask; uint64_t count; } p4_hash_table;
typedef struct p4_prefix_group {
    uint32_t length;
    uint64_t *mask; /* words of the lpm key */
    p4_hash_table hash;
} p4_prefix_group;

/* The entries of a table with priorities that have one mask: a lookup is one probe per mask. Ranges have no
 * mask (0 here); entries that differ only in them share a slot, as a tree. */
typedef struct p4_mask_group {
    uint64_t *mask;
    int32_t best; /* no entry here has a lower priority number */
    p4_hash_table hash;
} p4_mask_group;

typedef struct p4_table {
    const p4_table_desc *desc;
    uint64_t count, added;
    uint32_t param_words; /* of the longest action */
    p4_entry *default_entry;
    p4_hash_table hash;        /* P4_HASH */
    p4_prefix_group *prefixes; /* P4_PREFIX, longest first */
    uint32_t prefix_count, lpm_word, lpm_words, lpm_width;
    p4_mask_group *groups;     /* P4_PRIORITY, by `best` */
    uint32_t group_count;
    p4_entry **by_handle;
    uint32_t *generation;
    uint32_t *free_list;       /* indices of by_handle to use again */
    uint64_t handles, room, free_count;
    uint32_t range_word, range_words; /* of the first range key; 0 words: there is none */
    uint64_t *fixed;           /* all ones, but 0 in the words of range keys */
} p4_table;

typedef struct p4_group { uint32_t *members; uint32_t count; uint8_t used; } p4_group;
typedef struct p4_profile {
    const p4_profile_desc *desc;
    p4_entry **members;
    p4_group *groups;
    uint32_t member_room, group_room;
    uint32_t first_member, first_group; /* none below these is free */
} p4_profile;

typedef struct p4_counter { p4_count *values; uint64_t count; } p4_counter;
typedef struct p4_meter { p4_meter_state *states; uint64_t count; uint8_t bytes; } p4_meter;
typedef struct p4_value_set { const p4_value_set_desc *desc; uint64_t *members; uint32_t count, words; } p4_value_set;

struct p4_instance {
    const p4_program *program;
    p4_config config;
    uint64_t random;
    p4_table *tables;
    p4_profile *profiles;
    uint8_t **records;
    p4_counter *counters;
    p4_meter *meters;
    p4_value_set *value_sets;
};

#endif
