/* What a program addresses by number: registers, counters, meters; and the value sets of parsers. */
#include "p4gen.h"
#include "p4rt_entry.h"

#include <stdlib.h>

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
        if (!p4_fits(values + i * words, r->width, words)) return P4_BAD_VALUE;
    for (uint64_t i = 0; i < count; i++) register_put(I, r, start + i, values + i * words);
    return P4_OK;
}

int p4_register_fill(p4_instance *I, uint32_t reg, uint64_t start, uint64_t count, const uint64_t *value) {
    int status;
    const p4_register_desc *r = register_of(I, reg, start, count, &status);
    if (!r) return status;
    if (!p4_fits(value, r->width, (r->width + 63) / 64)) return P4_BAD_VALUE;
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
    p4_table *t = p4_table_of(I, table);
    *status = P4_NO_SUCH_OBJECT;
    if (!t) return NULL;
    *status = P4_WRONG_KIND;
    if (!(meter ? t->desc->direct_meter : t->desc->direct_counter)) return NULL;
    p4_entry *e = p4_entry_of(t, handle);
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
    p4_table *t = p4_table_of(I, table);
    if (!t) return P4_NO_SUCH_OBJECT;
    for (uint64_t i = 0; i < t->handles; i++)
        if (t->by_handle[i]) t->by_handle[i]->count = (p4_count){0, 0};
    t->default_entry->count = (p4_count){0, 0};
    return P4_OK;
}

/* ---- meters ---- */

/* What has come in since the last packet; a single-rate meter fills the excess bucket with what the first one has
 * no room for. */
static void meter_fill(p4_meter_state *m, uint64_t now_ns) {
    const p4_rates *r = &m->rates;
    double elapsed_us = now_ns > m->last_ns ? (double)(now_ns - m->last_ns) / 1000.0 : 0.0;
    if (now_ns > m->last_ns) m->last_ns = now_ns;
    m->tokens[0] += elapsed_us * r->rate[0];
    m->tokens[1] += elapsed_us * (r->set == P4_SINGLE_RATE ? 0.0 : r->rate[1]);
    if (m->tokens[0] > r->burst[0]) {
        if (r->set == P4_SINGLE_RATE) m->tokens[1] += m->tokens[0] - r->burst[0];
        m->tokens[0] = r->burst[0];
    }
    if (m->tokens[1] > r->burst[1]) m->tokens[1] = r->burst[1];
}

static uint32_t meter_colour(p4_meter_state *m, double size, uint64_t now_ns) {
    if (m->rates.set == P4_NO_RATES) return 0;
    meter_fill(m, now_ns);
    if (m->rates.set == P4_SINGLE_RATE) {
        for (uint32_t i = 0; i < 2; i++)
            if (m->tokens[i] >= size) {
                m->tokens[i] -= size;
                return i;
            }
        return 2;
    }
    if (m->tokens[1] < size) return 2;
    m->tokens[1] -= size;
    if (m->tokens[0] < size) return 1;
    m->tokens[0] -= size;
    return 0;
}

static uint32_t meter_run(p4_meter_state *m, int by_bytes, uint32_t bytes, uint64_t now_ns) {
    uint32_t colour = meter_colour(m, by_bytes ? bytes : 1, now_ns);
    p4_count_one(&m->counts[colour], bytes);
    return colour;
}

uint32_t p4_meter_run(const p4_meter *m, uint64_t index, uint32_t bytes, uint64_t now_ns) {
    return index < m->count ? meter_run(&m->states[index], m->bytes, bytes, now_ns) : 0;
}

uint32_t p4_direct_meter_run(p4_table *t, const p4_entry *e, uint32_t bytes, uint64_t now_ns) {
    return e ? meter_run(e->meter, t->desc->direct_meter == 2, bytes, now_ns) : 0;
}

static void meter_put(p4_meter_state *m, const p4_rates *rates) {
    m->rates = *rates;
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
    if (e) meter_put(e->meter, rates);
    return status;
}

int p4_direct_meter_get(p4_instance *I, uint32_t table, int64_t handle, p4_rates *out) {
    int status;
    p4_entry *e = direct_entry(I, table, handle, 1, &status);
    if (e) *out = e->meter->rates;
    return status;
}

static p4_count *meter_counts(p4_instance *I, uint32_t meter, uint64_t index, int *status) {
    *status = P4_NO_SUCH_OBJECT;
    if (meter >= I->program->meter_count) return NULL;
    *status = index < I->meters[meter].count ? P4_OK : P4_BAD_INDEX;
    return *status ? NULL : I->meters[meter].states[index].counts;
}

int p4_meter_counts_get(p4_instance *I, uint32_t meter, uint64_t index, p4_count *out) {
    int status;
    p4_count *counts = meter_counts(I, meter, index, &status);
    if (counts) memcpy(out, counts, P4_COLOURS * sizeof *out);
    return status;
}

int p4_meter_counts_set(p4_instance *I, uint32_t meter, uint64_t index, const p4_count *values) {
    int status;
    p4_count *counts = meter_counts(I, meter, index, &status);
    if (counts) memcpy(counts, values, P4_COLOURS * sizeof *counts);
    return status;
}

int p4_direct_meter_counts_get(p4_instance *I, uint32_t table, int64_t handle, p4_count *out) {
    int status;
    p4_entry *e = direct_entry(I, table, handle, 1, &status);
    if (e) memcpy(out, e->meter->counts, P4_COLOURS * sizeof *out);
    return status;
}

int p4_direct_meter_counts_set(p4_instance *I, uint32_t table, int64_t handle, const p4_count *values) {
    int status;
    p4_entry *e = direct_entry(I, table, handle, 1, &status);
    if (e) memcpy(e->meter->counts, values, P4_COLOURS * sizeof *values);
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

int p4_value_set_get(p4_instance *I, uint32_t number, uint32_t index, uint64_t *match) {
    if (number >= I->program->value_set_count) return P4_NO_SUCH_OBJECT;
    const p4_value_set *set = &I->value_sets[number];
    if (index >= set->count) return P4_NO_SUCH_ENTRY;
    const uint64_t *m = set->members + (uint64_t)index * 2 * set->words;
    uint32_t in = 0;
    for (uint32_t k = 0; k < set->desc->key_count; k++) {
        uint32_t n = set->desc->keys[k].words;
        for (uint32_t w = 0; w < n; w++) *match++ = m[in + w];
        for (uint32_t w = 0; w < n; w++) *match++ = m[set->words + in + w];
        in += n;
    }
    return P4_OK;
}
