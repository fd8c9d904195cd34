/* Buffer for what the program keeps: with tm_buffer.held_mask, the bytes of a packet that the program has added up and
 * dropped stay in the buffer of their input until the sum is complete. The traffic manager knows no sums: packets with
 * the same 8 bytes at held_at, as far as the mask goes, belong together, and one that leaves says that they are
 * complete.
 *
 * Switches that add up on arrival need no such buffer. One that has it can deadlock (docs/fabric.md): what it keeps
 * waits for packets that its own pauses hold back. */
#include "tm_lossless.h"

static int key_of(const struct lossless *l, const uint8_t *data, uint32_t length, uint64_t *key) {
    if (length < l->set.held_at + sizeof *key) return 0;
    *key = 0;
    for (uint32_t i = 0; i < sizeof *key; i++) *key = *key << 8 | data[l->set.held_at + i];
    *key &= l->set.held_mask;
    return 1;
}

static charge **chain_of(struct lossless *l, uint64_t key) {
    return &l->held[key * 0x9e3779b97f4a7c15ull >> (64 - HELD_BITS)];
}

void tm_held_begin(tm_switch *tm, const uint8_t *data, uint32_t length) {
    const struct lossless *l = tm->lossless;
    tm->in_keyed = l->set.held_mask && is_lossless(l, tm->in_class) && key_of(l, data, length, &tm->in_key);
    tm->in_drops = tm->stats.ingress_drops;
}

static void complete(tm_switch *tm, uint64_t key) {
    for (charge **at = chain_of(tm->lossless, key); *at;) {
        charge *c = *at;
        if (c->key != key) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        tm->ports[c->port]->lossless->in[c->class].held -= c->bytes;
        tm_let_go(tm, c);
    }
}

/* 1: the program keeps the packet that has arrived. */
static int keep(tm_switch *tm) {
    if (tm->stats.ingress_drops == tm->in_drops) {
        complete(tm, tm->in_key);
        return 0;
    }
    if (tm->charge) return 0; /* a copy waits */
    charge *c = tm_charge_arrival(tm), **chain = chain_of(tm->lossless, tm->in_key);
    if (!c) return 0;
    c->key = tm->in_key;
    c->next = *chain;
    *chain = c;
    tm->ports[c->port]->lossless->in[c->class].held += c->bytes;
    return 1;
}

void tm_arrival_end(tm_switch *tm) {
    if (!tm->in_fresh || !tm->in_keyed || !keep(tm)) {
        tm_arrival_over(tm);
        return;
    }
    tm->in_fresh = 0;
    tm_input_changed(tm, tm->in_port, tm->in_class, NO_CAUSE);
}

static int lacks(const tm_switch *tm, uint32_t number, uint32_t class, const uint8_t *data, uint32_t length) {
    uint64_t key;
    if (!key_of(tm->lossless, data, length, &key)) return 0;
    for (const charge *c = *chain_of(tm->lossless, key); c; c = c->next)
        if (c->key == key && c->port == number && c->class == class) return 1;
    return 0;
}

int tm_held_lacks(const tm_switch *tm, uint32_t number, uint32_t class, const tm_switch *other, uint32_t output,
                  int host) {
    if (!tm->lossless || !tm->lossless->set.held_mask || class >= TM_CLASSES) return 0;
    if (output >= TM_PORTS || !other->ports[output] || !other->lossless) return 0;
    const port *p = other->ports[output];
    if (host) {
        const frame *f = p->lossless->nic ? p->lossless->nic->first[class] : NULL;
        for (; f; f = f->next)
            if (lacks(tm, number, class, f->data, f->length)) return 1;
        return 0;
    }
    for (const queued_packet *q = p->queues ? p->queues[class].first : p->first; q; q = q->next)
        if (lacks(tm, number, class, q->packet.data, q->packet.length)) return 1;
    return 0;
}
