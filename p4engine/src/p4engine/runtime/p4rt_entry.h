/* Entries and where they are kept, shared by the control plane's files. Nothing else includes this. */
#ifndef P4RT_ENTRY_H
#define P4RT_ENTRY_H

#include "p4lookup.h"

/* Whether a value of `words` words has no bit above its width. */
static inline int p4_fits(const uint64_t *value, uint32_t width, uint32_t words) {
    uint32_t top = width % 64;
    return !(top && value[words - 1] >> top);
}

int p4_params_fit(const p4_action_desc *a, const uint64_t *params);
uint32_t p4_longest_params(const p4_action_desc *actions, uint32_t count); /* words */

/* One block with room for the longest action's data, so that a hit touches little memory, and for what `table`
 * (NULL: none) keeps for each entry. NULL: no memory. */
p4_entry *p4_entry_new(uint32_t key_words, uint32_t param_words, const p4_table_desc *table);
void p4_entry_set(p4_entry *e, const p4_action_desc *a, uint32_t action, const uint64_t *params);

int p4_hash_insert(p4_hash_table *t, p4_entry *e); /* a status; e->hash is set */
void p4_hash_remove(p4_hash_table *t, p4_entry *e);

/* Entries with ranges that share a slot, as a tree; these return its new root. */
p4_entry *p4_ranges_insert(const p4_table *t, p4_entry *root, p4_entry *e);
p4_entry *p4_ranges_remove(const p4_table *t, p4_entry *root, p4_entry *e);
p4_entry *p4_ranges_same(const p4_table *t, p4_entry *root, const p4_entry *e); /* equal match and priority */

/* A table's entries. Handle -1 is the default action; NULL if there is no such thing. */
static inline p4_table *p4_table_of(p4_instance *I, uint32_t number) {
    return number < I->program->table_count ? &I->tables[number] : NULL;
}
p4_entry *p4_entry_of(p4_table *t, int64_t handle);
int p4_entry_modify(p4_table *t, p4_entry *e, uint32_t action, const uint64_t *params); /* a status */
int p4_table_link(p4_table *t, p4_entry *e); /* a status */
void p4_table_unlink(p4_table *t, p4_entry *e);
p4_entry *p4_table_same(p4_table *t, const p4_entry *e); /* equal match and priority, or NULL */

#endif
