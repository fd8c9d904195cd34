/* Frames of MAC control between the ends of lossless links, and the gates that they move. */
#include "tm_lossless.h"

#define HEAD_BYTES 18 /* addresses, ethertype, opcode, classes */

static const uint8_t group_address[6] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x01};

/* ---- frames ---- */

static uint32_t number_at(const uint8_t *at, uint32_t bytes) {
    uint32_t value = 0;
    while (bytes--) value = value << 8 | *at++;
    return value;
}

static void write_at(uint8_t *at, uint32_t value, uint32_t bytes) {
    while (bytes--) {
        at[bytes] = (uint8_t)value;
        value >>= 8;
    }
}

static uint32_t value_bytes(uint32_t opcode) { return opcode == PFC_OPCODE ? 2 : 4; }

int tm_control_parse(const uint8_t *data, uint32_t length, control *c) {
    if (length < HEAD_BYTES || number_at(data + 12, 2) != 0x8808) return 0;
    *c = (control){.opcode = number_at(data + 14, 2), .classes = number_at(data + 16, 2)};
    uint32_t bytes = value_bytes(c->opcode);
    for (uint32_t i = 0; i < TM_CLASSES && HEAD_BYTES + (i + 1) * bytes <= length; i++)
        c->values[i] = number_at(data + HEAD_BYTES + i * bytes, bytes);
    return 1;
}

/* It leaves before all packets that wait, when the one on the wire has. */
void tm_control_send(tm_switch *tm, uint32_t number, const control *c) {
    port *p = tm->ports[number];
    uint8_t bytes[CONTROL_BYTES] = {0};
    memcpy(bytes, group_address, 6);
    bytes[6] = 0x02; /* an address that is given out locally */
    write_at(bytes + 10, number, 2);
    write_at(bytes + 12, 0x8808, 2);
    write_at(bytes + 14, c->opcode, 2);
    write_at(bytes + 16, c->classes, 2);
    uint32_t each = value_bytes(c->opcode);
    for (uint32_t i = 0; i < TM_CLASSES; i++) write_at(bytes + HEAD_BYTES + i * each, c->values[i], each);
    uint64_t arrivals[2];
    int copies;
    tm_link *link = &p->link[TM_EGRESS];
    tm_counters counted = link->counters; /* of packets; these frames count by themselves */
    tm_link_send(link, CONTROL_BYTES, tm->now, arrivals, &copies);
    counted.busy_ns = link->counters.busy_ns;
    link->counters = counted;
    for (int i = 0; i < copies; i++) {
        control there = *c;
        there.time = arrivals[i];
        if (p->lossless->nic) tm_nic_hear(tm, p, &there);
        frame *f = tm_frame_new(tm, CONTROL_BYTES);
        if (!f) return;
        memcpy(f->data, bytes, CONTROL_BYTES);
        f->mark = CONTROL_MARK;
        if (tm->early) {
            uint8_t *room = tm->sink.room(tm->sink.context, CONTROL_BYTES);
            if (room) {
                memcpy(room, bytes, CONTROL_BYTES);
                tm->sink.emit(tm->sink.context, number, arrivals[i], CONTROL_BYTES);
            } else {
                tm->stats.no_memory++;
            }
            tm_frame_free(tm, f);
        } else {
            tm_list_push(tm, &p->departures, f, arrivals[i], tm->now);
        }
    }
}

int tm_control_arrived(tm_switch *tm, uint32_t number, const uint8_t *data, uint32_t length) {
    control c;
    if (!tm_control_parse(data, length, &c)) return 0;
    port *p = tm->ports[number];
    if (!p->lossless->nic) {
        p->link[TM_INGRESS].counters.packets--;
        p->link[TM_INGRESS].counters.bytes -= length;
    }
    tm_gate_told(tm, p->lossless, &p->lossless->out, &c, p->link[TM_EGRESS].shape.rate_bps, tm->now);
    tm_schedule(tm, p);
    return 1;
}

/* ---- gates ---- */

void tm_gate_end(gate *g, uint32_t class, uint64_t time) {
    if (g->since[class] == TM_NEVER || time == TM_NEVER) return;
    uint64_t lasted = time > g->since[class] ? time - g->since[class] : 0;
    g->closed_ns[class] += lasted;
    if (lasted > g->longest_ns[class]) g->longest_ns[class] = lasted;
    g->since[class] = TM_NEVER;
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
            tm_pfc_told(g, i, c->values[i], rate_bps, time);
        else
            tm_credits_told(g, i, c->values[i], time);
    }
}

uint64_t tm_gate_open(const tm_switch *tm, const port *p, const p4_packet *packet, uint64_t at) {
    uint32_t class = p->queues ? packet->std.priority : tm->lossless->only;
    if (!is_lossless(tm->lossless, class)) return at;
    gate *g = &p->lossless->out;
    return tm->lossless->set.kind == TM_PFC ? tm_pfc_open(g, class, at) : tm_credits_open(tm, g, class, at);
}

void tm_gate_sent(tm_switch *tm, port *p, const p4_packet *packet, uint32_t length) {
    uint32_t class = p->queues ? packet->std.priority : tm->lossless->only;
    if (class < TM_CLASSES) p->lossless->out.sent[class] += length;
}

/* ---- events ---- */

void tm_control_schedule(tm_switch *tm, port *p) {
    lossless_port *own = p->lossless;
    uint64_t next = own->nic ? tm_nic_next(tm, p) : TM_NEVER;
    for (uint32_t class = 0; class < TM_CLASSES; class++)
        if (own->in[class].pausing && own->in[class].again_ns < next) next = own->in[class].again_ns;
    if (next == TM_NEVER) {
        if (own->control.place >= 0) tm_event_remove(tm, &own->control);
        return;
    }
    if (next < tm->now) next = tm->now;
    if (own->control.place < 0 || own->control.time != next) tm_event_set(tm, &own->control, next, 0);
}

void tm_control_event(tm_switch *tm, port *p) {
    if (p->lossless->nic) tm_nic_run(tm, p);
    tm_pfc_again(tm, p->lossless->control.port);
    tm_control_schedule(tm, p);
}
