/* A host's network card at the far end of a lossless link: packets wait there as long as the switch wants it.
 *
 * It is part of the switch because the switch models both directions of a host's link. A host may be asked for what it
 * sends some time ahead of the switch, or behind it, as long as no packet can have arrived (tm_receive_ahead). So what
 * the card does at a time t is decided when the switch's time is t + lag, where the lag is the link's shortest delay: by
 * then all that the host has sent by t is there, and all that the switch has told it by t is known. */
#include <stdlib.h>

#include "tm_lossless.h"

int tm_has_nic(const port *p) { return p->lossless->nic != NULL; }

int64_t tm_nic_waiting(const port *p) {
    int64_t count = 0;
    for (int c = 0; c <= TM_CLASSES; c++) count += (int64_t)p->lossless->nic->waiting[c];
    return count;
}

static uint64_t lag_of(const port *p) {
    const tm_shape *shape = &p->link[TM_INGRESS].shape;
    return shape->delay_ns - shape->jitter_ns;
}

static uint32_t class_in(const tm_switch *tm, const frame *f) {
    if (f->length >= 14 && f->data[12] == 0x88 && f->data[13] == 0x08) return TM_CLASSES;
    return tm_class_of(tm, f->data, f->length);
}

/* ---- what it decides ---- */

enum { NOTHING, HEARS, SENDS, TAKES };

/* The next decision: its time, what it is, and of which class. Of what happens at one time, what the switch has told
 * comes first, then a packet leaves, then one comes. */
static uint64_t next(const tm_switch *tm, const port *p, int *what, uint32_t *class) {
    nic *n = p->lossless->nic;
    uint64_t best = TM_NEVER, busy = p->link[TM_INGRESS].busy_until;
    *what = NOTHING;
    for (uint32_t c = TM_CLASSES + 1; c-- > 0;) {
        if (!n->first[c]) continue;
        uint64_t at = n->first[c]->time > busy ? n->first[c]->time : busy;
        if (c < TM_CLASSES && is_lossless(tm->lossless, c))
            at = tm_gate_opens(tm, &n->gate, c, at);
        if (at >= best) continue;
        best = at;
        *what = SENDS;
        *class = c;
    }
    if (n->count && n->told[n->head].time <= best) {
        best = n->told[n->head].time;
        *what = HEARS;
    }
    if (n->inbox && n->inbox->time < best) {
        best = n->inbox->time;
        *what = TAKES;
    }
    return best;
}

static uint64_t nic_next(const tm_switch *tm, const port *p) {
    int what;
    uint32_t class;
    uint64_t at = next(tm, p, &what, &class);
    return what == NOTHING ? TM_NEVER : at + lag_of(p);
}

void tm_control_schedule(tm_switch *tm, port *p) {
    lossless_port *own = p->lossless;
    uint64_t next = own->nic ? nic_next(tm, p) : TM_NEVER;
    for (uint32_t class = 0; class < TM_CLASSES; class++)
        if (own->in[class].again_ns < next) next = own->in[class].again_ns;
    if (next == TM_NEVER) {
        if (own->control.place >= 0) tm_event_remove(tm, &own->control);
        return;
    }
    if (next < tm->now) next = tm->now;
    if (own->control.place < 0 || own->control.time != next) tm_event_set(tm, &own->control, next, 0);
}

/* ---- what the switch gives it ---- */

void tm_nic_hear(tm_switch *tm, port *p, const control *c) {
    nic *n = p->lossless->nic;
    if (n->count == n->capacity) {
        uint32_t capacity = n->capacity ? 2 * n->capacity : 16;
        control *larger = malloc(capacity * sizeof *larger);
        if (!larger) {
            tm->stats.no_memory++;
            return;
        }
        for (uint32_t i = 0; i < n->count; i++) larger[i] = n->told[(n->head + i) & (n->capacity - 1)];
        free(n->told);
        n->told = larger;
        n->capacity = capacity;
        n->head = 0;
    }
    n->told[(n->head + n->count++) & (n->capacity - 1)] = *c;
    tm_control_schedule(tm, p);
}

/* ---- what it does, and what the host gives it ---- */

static void send(tm_switch *tm, port *p, frame *f, uint32_t class, uint64_t at) {
    tm_link *link = &p->link[TM_INGRESS];
    uint32_t number = p->dequeues.port;
    if (class < TM_CLASSES) p->lossless->nic->gate.sent[class] += f->length;
    uint64_t arrivals[2];
    int copies;
    tm_link_send(link, f->length, at, arrivals, &copies);
    if (copies != 1)
        tm_tell(tm, copies ? TM_DUPLICATED : TM_LOST, number, TM_INGRESS, at, f->data, f->length, f->mark);
    for (int i = 0; i < copies; i++) {
        frame *copy = f;
        if (i + 1 < copies) {
            copy = tm_frame_new(tm, f->length);
            if (!copy) break;
            memcpy(copy->data, f->data, f->length);
            copy->mark = f->mark;
        } else {
            f = NULL;
        }
        tm_list_push(tm, &p->arrivals, copy, arrivals[i], at);
    }
    tm_frame_free(tm, f);
}

static void send_first(tm_switch *tm, port *p, uint32_t class, uint64_t at) {
    nic *n = p->lossless->nic;
    frame *f = n->first[class];
    n->first[class] = f->next;
    f->next = NULL;
    n->waiting[class]--;
    n->bytes[class] -= f->length;
    send(tm, p, f, class, at);
}

/* 1: nothing can keep a packet of time `at` from leaving then, as is known already. What the switch tells from now on
 * is in the card after the delay of its link. */
static int leaves_at_once(const tm_switch *tm, const port *p, uint32_t class, uint64_t at) {
    nic *n = p->lossless->nic;
    const tm_shape *out = &p->link[TM_EGRESS].shape;
    if (n->inbox || p->link[TM_INGRESS].busy_until > at || at + out->jitter_ns >= tm->now + out->delay_ns) return 0;
    if ((n->count && n->told[n->head].time <= at) || tm_nic_waiting(p)) return 0;
    return class < TM_CLASSES && (!is_lossless(tm->lossless, class) || tm_gate_opens(tm, &n->gate, class, at) == at);
}

void tm_nic_send(tm_switch *tm, port *p, const uint8_t *data, uint32_t length, uint64_t sent_ns) {
    nic *n = p->lossless->nic;
    frame *f = tm_frame_new(tm, length);
    if (!f) return;
    memcpy(f->data, data, length);
    f->time = f->mark = sent_ns;
    uint32_t class = class_in(tm, f);
    if (leaves_at_once(tm, p, class, sent_ns)) {
        send(tm, p, f, class, sent_ns);
        return;
    }
    if (n->inbox)
        n->inbox_last->next = f;
    else
        n->inbox = f;
    n->inbox_last = f;
    tm_control_schedule(tm, p);
}

/* The host's packet is in the card: it waits, or is dropped where its class may lose packets and too many wait. */
static void take_in(tm_switch *tm, port *p) {
    nic *n = p->lossless->nic;
    tm_link *link = &p->link[TM_INGRESS];
    frame *f = n->inbox;
    n->inbox = f->next;
    f->next = NULL;
    uint32_t class = class_in(tm, f);
    int waits = link->busy_until > f->time || n->first[class];
    if (waits && class < TM_CLASSES && !is_lossless(tm->lossless, class) &&
        (n->waiting[class] >= link->shape.queue_packets || n->bytes[class] + f->length > link->shape.queue_bytes)) {
        link->counters.queue_drops++;
        tm_tell(tm, TM_QUEUE_FULL, p->dequeues.port, TM_INGRESS, f->time, f->data, f->length, f->mark);
        tm_frame_free(tm, f);
        return;
    }
    if (n->first[class])
        n->last[class]->next = f;
    else
        n->first[class] = f;
    n->last[class] = f;
    n->bytes[class] += f->length;
    n->waiting[class]++;
    if (waits && (uint64_t)tm_nic_waiting(p) > link->counters.max_queue) link->counters.max_queue = (uint64_t)tm_nic_waiting(p);
}

void tm_nic_run(tm_switch *tm, port *p) {
    nic *n = p->lossless->nic;
    uint64_t lag = lag_of(p), at;
    int what;
    uint32_t class = 0;
    while ((at = next(tm, p, &what, &class)) != TM_NEVER && at + lag <= tm->now) {
        if (what == HEARS) {
            uint64_t rate_bps = p->link[TM_INGRESS].shape.rate_bps;
            tm_gate_told(tm, p->lossless, &n->gate, &n->told[n->head], rate_bps, at);
            n->head = (n->head + 1) & (n->capacity - 1);
            n->count--;
        } else if (what == SENDS) {
            send_first(tm, p, class, at);
        } else {
            take_in(tm, p);
        }
    }
}

void tm_nic_down(tm_switch *tm, port *p) {
    nic *n = p->lossless->nic;
    frame **lists[TM_CLASSES + 2] = {&n->inbox};
    for (int c = 0; c <= TM_CLASSES; c++) lists[c + 1] = &n->first[c];
    for (int i = 0; i < TM_CLASSES + 2; i++)
        while (*lists[i]) {
            frame *f = *lists[i];
            *lists[i] = f->next;
            p->link[TM_INGRESS].counters.down_drops++;
            tm_tell(tm, TM_DOWN, p->dequeues.port, TM_INGRESS, tm->now, f->data, f->length, f->mark);
            tm_frame_free(tm, f);
        }
    memset(n->waiting, 0, sizeof n->waiting);
    memset(n->bytes, 0, sizeof n->bytes);
    n->count = 0;
    tm_gate_reset(&n->gate, tm->now);
}
