/* Gates at the sending ends of lossless links: what frames of MAC control say, and what may be sent then. */
#include "tm_lossless.h"

/* ---- frames ---- */

static uint32_t number_at(const uint8_t *at, uint32_t bytes) {
    uint32_t value = 0;
    while (bytes--) value = value << 8 | *at++;
    return value;
}

int tm_control_parse(const uint8_t *data, uint32_t length, control *c) {
    if (length < CONTROL_HEAD || number_at(data + 12, 2) != 0x8808) return 0;
    *c = (control){.opcode = number_at(data + 14, 2), .classes = number_at(data + 16, 2)};
    uint32_t bytes = control_value_bytes(c->opcode);
    for (uint32_t i = 0; i < TM_CLASSES && CONTROL_HEAD + (i + 1) * bytes <= length; i++)
        c->values[i] = number_at(data + CONTROL_HEAD + i * bytes, bytes);
    return 1;
}

uint32_t tm_class_of(const tm_switch *tm, const uint8_t *data, uint32_t length) {
    if (tm->queue_count == 1) return tm->lossless->only;
    if (length < 16 || data[12] != 0x08 || data[13] != 0x00) return 0;
    return data[15] >> 5;
}

/* ---- gates ---- */

/* It is open from then on. */
static void gate_end(gate *g, uint32_t class, uint64_t time) {
    if (g->since[class] == TM_NEVER || time == TM_NEVER) return;
    uint64_t lasted = time > g->since[class] ? time - g->since[class] : 0;
    g->closed_ns[class] += lasted;
    if (lasted > g->longest_ns[class]) g->longest_ns[class] = lasted;
    g->since[class] = TM_NEVER;
}

static void pfc_told(gate *g, uint32_t class, uint32_t quanta, uint64_t rate_bps, uint64_t time) {
    gate_end(g, class, g->until[class] < time ? g->until[class] : quanta ? TM_NEVER : time);
    g->until[class] = time + quanta_ns(quanta, rate_bps);
    if (quanta && g->since[class] == TM_NEVER) g->since[class] = time;
}

static uint64_t pfc_open(const gate *g, uint32_t class, uint64_t at) {
    return g->until[class] > at ? g->until[class] : at;
}

static void credits_told(gate *g, uint32_t class, uint32_t blocks, uint64_t time) {
    uint32_t more = blocks - (uint32_t)(g->limit[class] / BLOCK_BYTES); /* modulo 2^32 */
    if (more >> 31) return;
    g->limit[class] += (uint64_t)more * BLOCK_BYTES;
    gate_end(g, class, time);
}

static uint64_t credits_open(const tm_switch *tm, gate *g, uint32_t class, uint64_t at) {
    if (g->sent[class] + tm->lossless->set.longest <= g->limit[class]) return at;
    if (g->since[class] == TM_NEVER) g->since[class] = at;
    return TM_NEVER;
}

void tm_gate_told(tm_switch *tm, lossless_port *own, gate *g, const control *c, uint64_t rate_bps, uint64_t time) {
    const struct lossless *l = tm->lossless;
    uint32_t opcode = l->set.kind == TM_PFC ? PFC_OPCODE : CREDITS_OPCODE;
    uint32_t known = c->opcode == opcode ? (uint32_t)l->set.classes : 0;
    if (!(c->classes & known) || c->classes & ~known) {
        own->unknown++;
        own->unknown_classes |= c->classes & ~known & 0xffff;
    }
    for (uint32_t i = 0; i < TM_CLASSES; i++) {
        if (!(c->classes & known & 1u << i)) continue;
        g->frames[i]++;
        if (opcode == PFC_OPCODE)
            pfc_told(g, i, c->values[i], rate_bps, time);
        else
            credits_told(g, i, c->values[i], time);
    }
}

uint64_t tm_gate_opens(const tm_switch *tm, gate *g, uint32_t class, uint64_t at) {
    return tm->lossless->set.kind == TM_PFC ? pfc_open(g, class, at) : credits_open(tm, g, class, at);
}

uint64_t tm_gate_open(const tm_switch *tm, const port *p, const p4_packet *packet, uint64_t at) {
    uint32_t class = p->queues ? packet->std.priority : tm->lossless->only;
    if (!is_lossless(tm->lossless, class)) return at;
    return tm_gate_opens(tm, &p->lossless->out, class, at);
}

void tm_gate_sent(tm_switch *tm, port *p, const p4_packet *packet, uint32_t length) {
    uint32_t class = p->queues ? packet->std.priority : tm->lossless->only;
    if (class < TM_CLASSES) p->lossless->out.sent[class] += length;
}

void tm_gate_reset(gate *g, uint64_t time) {
    for (uint32_t class = 0; class < TM_CLASSES; class++) {
        gate_end(g, class, time);
        g->until[class] = 0;
    }
}
