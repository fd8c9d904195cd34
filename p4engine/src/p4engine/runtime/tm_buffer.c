/* The buffer of a switch with lossless links: which input has how much of it. See tm.h and tm_lossless.h.
 *
 * The rules are those of the buffer in HPCC's simulator: reserve first, then shared memory up to the threshold, then
 * headroom; and back in the opposite order. A packet takes part from when it begins to wait in an egress queue until
 * the last of its copies has left; one that goes straight through, or that the program keeps, takes nothing. */
#include <stdlib.h>

#include "tm_lossless.h"

static int has_port(const tm_switch *tm, uint32_t number) { return number < TM_PORTS && tm->ports[number]; }

/* ---- setting it up ---- */

int tm_buffer_set(tm_switch *tm, const tm_buffer *set) {
    if (tm->lossless) return TM_EXISTS;
    uint64_t least = tm->queue_count == 1 ? 1 : TM_CLASSES;
    if (set->kind < TM_PFC || set->kind > TM_CREDITS || !set->classes || set->classes >> TM_CLASSES ||
        set->shift > 63 || tm->queue_count < least || tm->queue_count > TM_CLASSES)
        return TM_BAD_VALUE;
    for (uint32_t i = 0; i < TM_PORTS; i++)
        if (tm->ports[i] && !tm->ports[i]->link[TM_EGRESS].shape.rate_bps) return TM_BAD_VALUE;
    struct lossless *l = calloc(1, sizeof *l);
    if (!l) return TM_NO_MEMORY;
    l->set = *set;
    while (!(set->classes >> l->only & 1)) l->only++;
    tm->lossless = l;
    for (uint32_t i = 0; i < TM_PORTS; i++) {
        if (!tm->ports[i]) continue;
        lossless_port *own = calloc(1, sizeof *own);
        if (!own) {
            tm_lossless_free(tm);
            return TM_NO_MEMORY;
        }
        tm->ports[i]->lossless = own;
        own->control.place = -1;
        own->control.port = (uint16_t)i;
        own->control.kind = CONTROLS;
        for (int c = 0; c < TM_CLASSES; c++) own->out.since[c] = own->in[c].again_ns = TM_NEVER;
    }
    return TM_OK;
}

static uint64_t class_count(const struct lossless *l) {
    uint64_t count = 0;
    for (uint32_t c = 0; c < TM_CLASSES; c++) count += is_lossless(l, c);
    return count;
}

int tm_headroom_set(tm_switch *tm, uint32_t number, uint64_t bytes, int host) {
    if (!has_port(tm, number)) return TM_NO_SUCH_PORT;
    struct lossless *l = tm->lossless;
    lossless_port *own = tm->ports[number]->lossless;
    if (!l || bytes >> 48 || (host && !tm->ports[number]->link[TM_INGRESS].shape.rate_bps)) return TM_BAD_VALUE;
    own->headroom = bytes;
    tm->ports[number]->link[TM_INGRESS].counters = (tm_counters){0}; /* what switches that began earlier have told */
    if (host && !own->nic) {
        own->nic = calloc(1, sizeof *own->nic);
        if (!own->nic) return TM_NO_MEMORY;
        for (int c = 0; c < TM_CLASSES; c++) own->nic->gate.since[c] = TM_NEVER;
    }
    uint64_t taken = 0;
    for (uint32_t i = 0; i < TM_PORTS; i++)
        if (tm->ports[i]) taken += class_count(l) * (tm->ports[i]->lossless->headroom + l->set.reserve);
    l->pool = l->set.bytes > taken ? l->set.bytes - taken : 0;
    if (l->set.kind == TM_CREDITS) tm_credits_link(tm, number, 1);
    return TM_OK;
}

void tm_lossless_free(tm_switch *tm) {
    for (uint32_t i = 0; i < TM_PORTS; i++) {
        lossless_port *own = tm->ports[i] ? tm->ports[i]->lossless : NULL;
        if (!own) continue;
        if (own->nic) {
            for (frame *f = own->nic->inbox; f;) {
                frame *next = f->next;
                tm_frame_free(tm, f);
                f = next;
            }
            for (int c = 0; c <= TM_CLASSES; c++)
                for (frame *f = own->nic->first[c]; f;) {
                    frame *next = f->next;
                    tm_frame_free(tm, f);
                    f = next;
                }
            free(own->nic->told);
            free(own->nic);
        }
        free(own);
        tm->ports[i]->lossless = NULL;
    }
    free(tm->lossless->pauses);
    free(tm->lossless);
    tm->lossless = NULL;
}

void tm_lossless_reset(tm_switch *tm, port *p) {
    lossless_port *own = p->lossless;
    gate *gates[] = {&own->out, own->nic ? &own->nic->gate : &own->out};
    for (uint32_t c = 0; c < TM_CLASSES; c++) {
        for (int i = 0; i < 2; i++) gates[i]->closed_ns[c] = gates[i]->longest_ns[c] = gates[i]->frames[c] = 0;
        input *in = &own->in[c];
        in->paused_ns = in->frames = in->drops = 0;
        in->peak = in->bytes + in->headroom;
        in->peak_headroom = in->headroom;
    }
    own->unknown = own->unknown_classes = 0;
    tm->lossless->peak = tm->lossless->all;
}

void tm_lossless_down(tm_switch *tm, port *p) {
    lossless_port *own = p->lossless;
    tm_gate_reset(&own->out, tm->now);
    if (tm->lossless->set.kind == TM_CREDITS) tm_credits_link(tm, p->dequeues.port, 0);
    for (uint32_t class = 0; class < TM_CLASSES; class++) own->in[class].again_ns = TM_NEVER;
    if (own->nic) tm_nic_down(tm, p);
    tm_control_schedule(tm, p);
}

void tm_lossless_up(tm_switch *tm, port *p) {
    if (tm->lossless->set.kind == TM_CREDITS) tm_credits_link(tm, p->dequeues.port, 1);
    for (uint32_t class = 0; class < TM_CLASSES; class++)
        if (p->lossless->in[class].pausing) p->lossless->in[class].again_ns = tm->now;
    tm_control_schedule(tm, p);
}

/* ---- who has how much ---- */

void tm_input_changed(tm_switch *tm, uint32_t number, uint32_t class, uint32_t cause) {
    if (tm->lossless->set.kind == TM_PFC)
        tm_pfc_changed(tm, number, class, cause);
    else
        tm_credits_changed(tm, number, class);
}

static int take(struct lossless *l, const lossless_port *own, input *in, uint64_t bytes) {
    uint64_t more = in->bytes + bytes > l->set.reserve ? in->bytes + bytes - l->set.reserve : 0;
    uint64_t new_shared = more < bytes ? more : bytes;
    int fits = !more || (more <= threshold_of(l) && l->used + new_shared <= l->pool);
    if (l->set.kind == TM_CREDITS) fits = in->bytes + bytes <= own->headroom;
    if (!fits && (l->set.kind == TM_CREDITS || in->headroom + bytes > own->headroom)) {
        in->drops++;
        return 0;
    }
    if (fits) {
        in->bytes += bytes;
        if (l->set.kind == TM_PFC) l->used += new_shared;
    } else {
        in->headroom += bytes;
    }
    if (in->headroom > in->peak_headroom) in->peak_headroom = in->headroom;
    if (in->bytes + in->headroom > in->peak) in->peak = in->bytes + in->headroom;
    l->all += bytes;
    if (l->all > l->peak) l->peak = l->all;
    return 1;
}

static void give_back(tm_switch *tm, const charge *c) {
    struct lossless *l = tm->lossless;
    input *in = &tm->ports[c->port]->lossless->in[c->class];
    uint64_t from_headroom = in->headroom < c->bytes ? in->headroom : c->bytes;
    uint64_t left = c->bytes - from_headroom, own_shared = shared_of(l, in);
    if (l->set.kind == TM_PFC) l->used -= own_shared < left ? own_shared : left;
    in->headroom -= from_headroom;
    in->bytes -= left;
    in->freed += c->bytes;
    l->all -= c->bytes;
    tm_input_changed(tm, c->port, c->class, NO_CAUSE);
}

void tm_let_go(tm_switch *tm, charge *c) {
    if (--c->packets) return;
    give_back(tm, c);
    c->next = tm->lossless->free_charges;
    tm->lossless->free_charges = c;
}

charge *tm_charge_arrival(tm_switch *tm) {
    struct lossless *l = tm->lossless;
    lossless_port *from = tm->ports[tm->in_port]->lossless;
    charge *c = l->free_charges;
    if (c)
        l->free_charges = c->next;
    else
        c = tm_slab_alloc(tm, sizeof *c);
    if (!c) return NULL;
    if (!take(l, from, &from->in[tm->in_class], tm->in_length)) {
        c->next = l->free_charges;
        l->free_charges = c;
        return NULL;
    }
    *c = (charge){.bytes = tm->in_length, .packets = 1, .port = (uint16_t)tm->in_port, .class = (uint8_t)tm->in_class};
    return c;
}

/* ---- packets that wait ---- */

int tm_kept_back(const tm_switch *tm, const p4_packet *packet) {
    uint32_t out = tm->queue_count == 1 ? tm->lossless->only : packet->std.priority;
    return is_lossless(tm->lossless, tm->in_class) && is_lossless(tm->lossless, out);
}

/* The bytes that wait for an output have become more or less. */
static void output_changed(tm_switch *tm, uint32_t number, uint32_t class) {
    struct lossless *l = tm->lossless;
    lossless_port *own = tm->ports[number]->lossless;
    if (!l->set.by_output) return;
    int full = own->full[class] ? own->queued[class] + l->set.resume > l->set.xoff : own->queued[class] >= l->set.xoff;
    if (full == own->full[class]) return;
    own->full[class] = (uint8_t)full;
    l->full[class] += full ? 1 : -1;
    if (l->full[class] != (uint32_t)full) return; /* another one is, too */
    for (uint32_t i = 0; i < TM_PORTS; i++)
        if (tm->ports[i]) tm_pfc_changed(tm, i, class, number);
}

int tm_admit(tm_switch *tm, uint32_t number, queued_packet *q) {
    if (!tm_kept_back(tm, &q->packet)) return 1;
    charge *c = tm->charge;
    if (!c) {
        c = tm_charge_arrival(tm);
        if (!c) return 0;
        tm->charge = c; /* one is for the arrival itself */
    }
    c->packets++;
    q->charge = c;
    tm->ports[number]->lossless->queued[c->class] += q->packet.length;
    output_changed(tm, number, c->class);
    tm_input_changed(tm, c->port, c->class, number);
    return 1;
}

static void leaves(tm_switch *tm, port *p, queued_packet *q) {
    p->lossless->queued[q->charge->class] -= q->packet.length;
    output_changed(tm, p->dequeues.port, q->charge->class);
}

void tm_release(tm_switch *tm, port *p, queued_packet *q) {
    tm->in_port = q->packet.std.ingress_port;
    tm->in_class = tm->queue_count == 1 ? tm->lossless->only : q->packet.std.priority;
    tm->in_length = q->packet.length;
    tm->priority = tm->queue_count > 1 ? tm->in_class : 0;
    if (tm->in_port >= TM_PORTS || !tm->ports[tm->in_port]) tm->in_port = p->dequeues.port;
    if (!q->charge) return;
    leaves(tm, p, q);
    tm->in_class = q->charge->class;
    tm->charge = q->charge;
    q->charge = NULL;
}

void tm_forget(tm_switch *tm, port *p, queued_packet *q) {
    if (!q->charge) return;
    leaves(tm, p, q);
    tm_let_go(tm, q->charge);
    q->charge = NULL;
}

void tm_arrival_over(tm_switch *tm) {
    charge *c = tm->charge;
    tm->charge = NULL;
    if (c) {
        tm_let_go(tm, c);
    } else if (tm->lossless->set.kind == TM_CREDITS && tm->in_fresh && is_lossless(tm->lossless, tm->in_class)) {
        tm->ports[tm->in_port]->lossless->in[tm->in_class].freed += tm->in_length; /* it has not had to wait */
        tm_credits_changed(tm, tm->in_port, tm->in_class);
    }
    tm->in_fresh = 0;
}

/* ---- what is seen of it ---- */

static int is_closed(const tm_switch *tm, const gate *g, uint32_t class) {
    return g->since[class] < tm->now && (tm->lossless->set.kind == TM_CREDITS || g->until[class] > tm->now);
}

/* How long a pause has lasted that has not been counted yet. */
static uint64_t open_pause(const tm_switch *tm, const gate *g, uint32_t class) {
    if (g->since[class] >= tm->now) return 0;
    return (is_closed(tm, g, class) ? tm->now : g->until[class]) - g->since[class];
}

int tm_flow_get(const tm_switch *tm, uint32_t number, uint32_t class, tm_flow *flow) {
    if (!has_port(tm, number)) return TM_NO_SUCH_PORT;
    if (!tm->lossless || class >= TM_CLASSES) return TM_BAD_VALUE;
    const port *p = tm->ports[number];
    const lossless_port *own = p->lossless;
    const input *in = &own->in[class];
    const gate *out = &own->out, *host = own->nic ? &own->nic->gate : NULL;
    *flow = (tm_flow){
        .paused_ns = out->closed_ns[class],
        .longest_ns = out->longest_ns[class],
        .paused = is_closed(tm, out, class),
        .frames_received = out->frames[class],
        .pausing_ns = in->paused_ns + (in->pausing ? tm->now - in->since : 0),
        .pausing = in->pausing,
        .frames_sent = in->frames,
        .bytes = in->bytes + in->headroom,
        .peak = in->peak,
        .peak_headroom = in->peak_headroom,
        .headroom = own->headroom,
        .drops = in->drops,
        .waiting = p->queues ? p->queues[class].seen.queue : class == tm->lossless->only ? p->waiting : 0,
        .unknown = own->unknown,
        .unknown_classes = own->unknown_classes,
        .buffer_peak = tm->lossless->peak,
        .held = in->held,
        .full = own->full[class],
    };
    uint64_t lasted = open_pause(tm, out, class);
    flow->paused_ns += lasted;
    if (lasted > flow->longest_ns) flow->longest_ns = lasted;
    if (host) {
        flow->host_paused = is_closed(tm, host, class);
        flow->host_paused_ns = host->closed_ns[class] + open_pause(tm, host, class);
        flow->host_waiting = own->nic->waiting[class];
    }
    return TM_OK;
}

uint64_t tm_pauses(const tm_switch *tm, const tm_pause **pauses, uint64_t *missed) {
    *pauses = tm->lossless ? tm->lossless->pauses : NULL;
    *missed = tm->lossless ? tm->lossless->pauses_missed : 0;
    return tm->lossless ? tm->lossless->pause_count : 0;
}

uint32_t tm_waiting_get(const tm_switch *tm, uint32_t number, uint32_t class, int host, const uint8_t **data) {
    if (!has_port(tm, number) || !tm->lossless || class >= TM_CLASSES) return 0;
    const port *p = tm->ports[number];
    if (host) {
        const frame *f = p->lossless->nic ? p->lossless->nic->first[class] : NULL;
        if (f) *data = f->data;
        return f ? f->length : 0;
    }
    const queued_packet *q = p->queues ? p->queues[class].first : p->first;
    if (q) *data = q->packet.data;
    return q ? q->packet.length : 0;
}

int tm_holds(const tm_switch *tm, uint32_t number, uint32_t class, uint32_t output) {
    if (!has_port(tm, number) || !has_port(tm, output) || !tm->lossless) return 0;
    const port *p = tm->ports[output];
    for (uint32_t i = 0; i < (p->queues ? tm->queue_count : 1); i++)
        for (const queued_packet *q = p->queues ? p->queues[i].first : p->first; q; q = q->next)
            if (q->charge && q->charge->port == number && q->charge->class == class) return 1;
    return 0;
}
