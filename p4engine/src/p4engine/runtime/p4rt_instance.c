/* Making and freeing instances; what they say: log messages and failed assertions. */
#include "p4gen.h"
#include "p4rt_entry.h"
#include "pages.h"

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
        t->fixed = array(t->desc->key_words, sizeof *t->fixed);
        good = t->fixed != NULL;
        uint32_t at = 0;
        for (uint32_t k = 0; k < t->desc->key_count; k++) {
            const p4_key_desc *key = &t->desc->keys[k];
            if (key->kind == P4_LPM) {
                t->lpm_word = at;
                t->lpm_words = key->words;
                t->lpm_width = key->width;
            }
            if (key->kind == P4_RANGE && !t->range_words) {
                t->range_word = at;
                t->range_words = key->words;
            }
            for (uint32_t w = 0; good && w < key->words; w++)
                t->fixed[at + w] = key->kind == P4_RANGE ? 0 : ~(uint64_t)0;
            at += key->words;
        }
        t->param_words = p4_longest_params(t->desc->actions, t->desc->action_count);
        t->default_entry = p4_entry_new(0, t->param_words, t->desc);
        good = good && t->default_entry != NULL;
        if (good) t->default_entry->handle = -1;
        if (good && t->desc->action_count)
            good = p4_entry_modify(t, t->default_entry, t->desc->default_action, t->desc->default_params) == P4_OK;
    }
    for (uint32_t i = 0; good && i < program->profile_count; i++) I->profiles[i].desc = &program->profiles[i];
    for (uint32_t i = 0; good && i < program->record_count; i++) {
        uint64_t size = (uint64_t)program->records[i].stride * program->records[i].count;
        size = (size + 127) / 64 * 64;
        I->records[i] = pages_alloc_clear(size);
        good = I->records[i] != NULL;
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
        free(t->fixed);
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
