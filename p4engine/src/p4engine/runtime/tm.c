/* See tm.h for what this is. A packet comes in here: arrivals and events. The architecture (its passes.h) takes it
 * through the program's ingress and to a port's queue; tm_out.h has the way from there to the outside. */
#include <stdlib.h>

#include "passes.h"
#include "tm_lossless.h"

const tm_calls tm_architecture = {tm_egress, tm_copy_bytes, tm_tell_packet};

/* ---- events ---- */

/* Passes that other passes have caused. */
static void run_pending(tm_switch *tm) {
    while (tm->pending) {
        queued_packet *q = tm->pending;
        tm->pending = q->next;
        tm_pass(tm, q);
        tm_packet_free(tm, q);
    }
}

/* What the far end of a lossless link has to say; 0: a packet. */
static int control_arrived(tm_switch *tm, uint32_t number, const uint8_t *data, uint32_t length) {
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

static void control_event(tm_switch *tm, port *p) {
    if (p->lossless->nic) tm_nic_run(tm, p);
    if (tm->lossless->set.kind == TM_PFC)
        tm_pfc_again(tm, p->lossless->control.port);
    else
        tm_credits_again(tm, p->lossless->control.port);
    tm_control_schedule(tm, p);
}

/* A packet, or what a lossless link has to say, is there. */
static inline void arrive(tm_switch *tm, uint32_t number, const uint8_t *data, uint32_t length, uint64_t mark) {
    if (tm->lossless) {
        if (control_arrived(tm, number, data, length)) return;
        tm->in_port = number;
        tm->in_class = tm_class_of(tm, data, length);
        tm->in_length = length;
        tm->in_fresh = 1;
        tm_held_begin(tm, data, length);
        tm->priority = tm->queue_count > 1 ? tm->in_class : 0;
    }
    tm_arrive(tm, number, data, length, mark);
}

/* All bytes of a packet of which only the head is there; NULL: out of memory, counted. */
static const uint8_t *filled(tm_switch *tm, const uint8_t *data, uint32_t head, uint32_t length, tm_fill fill) {
    if (length > tm->filled_room) {
        free(tm->filled);
        tm->filled = malloc(length);
        tm->filled_room = tm->filled ? length : 0;
    }
    if (!tm->filled) {
        tm->stats.no_memory++;
        return NULL;
    }
    memcpy(tm->filled, data, head);
    fill(tm->filled + head, data + head, length - head);
    return tm->filled;
}

static void set_time(tm_switch *tm, uint64_t now_ns) {
    if (now_ns <= tm->now) return;
    tm->now = now_ns;
    tm->instant = TM_INSTANT;
}

static void run_event(tm_switch *tm) {
    event_list *l = tm->heap[0];
    port *p = tm->ports[l->port];
    set_time(tm, l->time);
    /* Packets that go round through a queue come back as events of the same moment, without end. */
    int64_t allowed = tm->instant < TM_PASSES ? tm->instant : TM_PASSES;
    tm->passes = allowed;
    if (l->kind == DEQUEUES) {
        tm_dequeue(tm, p);
    } else if (l->kind == CONTROLS) {
        control_event(tm, p);
    } else {
        frame *f = tm_list_pop(tm, l);
        if (l->kind == ARRIVALS) {
            const uint8_t *data = f->head ? filled(tm, f->data, f->head, f->length, f->fill) : f->data;
            if (data) arrive(tm, l->port, data, f->length, f->mark);
        } else
            tm_emit_frame(tm, l->port, f->time, f);
        if (l->kind == DEPARTURES && f->mark == CONTROL_MARK) tm->stats.sent--;
        tm_frame_free(tm, f);
    }
    run_pending(tm);
    if (tm->lossless) tm_arrival_end(tm);
    tm->instant -= allowed - (tm->passes > 0 ? tm->passes : 0);
}

/* ---- arrivals ---- */

/* A packet from the far end of a shaped link, sent at `sent_ns`; `head` as in a frame. */
static inline void enter_link(tm_switch *tm, uint32_t number, port *p, const uint8_t *data, uint32_t head,
                              uint32_t length, uint64_t sent_ns, tm_fill fill) {
    uint32_t there = head ? head : length;
    tm_link *link = &p->link[TM_INGRESS];
    start_queue *queue = &p->ingress_queue;
    if (p->again) tm_note_add(tm, number, TM_INGRESS, TM_AGAIN, data, there, sent_ns);
    if (link->down) {
        link->counters.down_drops++;
        tm_tell(tm, TM_DOWN, number, TM_INGRESS, sent_ns, data, there, sent_ns);
        return;
    }
    if (p->lossless && tm_has_nic(p)) {
        if (head) data = filled(tm, data, head, length, fill);
        if (data) tm_nic_send(tm, p, data, length, sent_ns);
        return;
    }
    tm_start_queue_expire(queue, sent_ns);
    if (link->limited && link->busy_until > sent_ns &&
        (queue->count >= link->shape.queue_packets ||
         queue->bytes + length > link->shape.queue_bytes)) {
        link->counters.queue_drops++;
        tm_tell(tm, TM_QUEUE_FULL, number, TM_INGRESS, sent_ns, data, there, sent_ns);
        return;
    }
    uint64_t arrivals[2];
    int copies;
    uint64_t start = tm_link_send(link, length, sent_ns, arrivals, &copies);
    if (copies != 1)
        tm_tell(tm, copies ? TM_DUPLICATED : TM_LOST, number, TM_INGRESS, sent_ns, data, there, sent_ns);
    if (start > sent_ns) {
        if (!tm_start_queue_push(queue, start, length)) tm->stats.no_memory++;
        if (queue->count > link->counters.max_queue) link->counters.max_queue = queue->count;
    }
    for (int i = 0; i < copies; i++) {
        if (arrivals[i] <= tm->now && !p->arrivals.first) {
            const uint8_t *whole = head ? filled(tm, data, head, length, fill) : data;
            if (whole) arrive(tm, number, whole, length, sent_ns);
            run_pending(tm);
            if (tm->lossless) tm_arrival_end(tm);
            continue;
        }
        frame *f = tm_frame_new(tm, head ? head + TM_SEED : length);
        if (!f) return;
        memcpy(f->data, data, f->length);
        f->length = length;
        f->head = head;
        f->fill = fill;
        f->mark = sent_ns;
        tm_list_push(tm, &p->arrivals, f, arrivals[i], sent_ns);
    }
}

/* ---- interface: packets and time ---- */

int tm_receive(tm_switch *tm, uint32_t number, const uint8_t *data, uint32_t length, uint64_t now_ns) {
    if (number >= TM_PORTS || !tm->ports[number]) return TM_NO_SUCH_PORT;
    if (tm->heap_count && tm->heap[0]->time <= now_ns) tm_advance(tm, now_ns);
    set_time(tm, now_ns);
    port *p = tm->ports[number];
    tm_link *link = &p->link[TM_INGRESS];
    tm->passes = TM_PASSES;
    if (link->timed || link->lossy || p->arrivals.first) {
        enter_link(tm, number, p, data, 0, length, tm->now, NULL);
        return TM_OK;
    }
    if (p->again) tm_note_add(tm, number, TM_INGRESS, TM_AGAIN, data, length, tm->now);
    link->counters.packets++;
    link->counters.bytes += length;
    arrive(tm, number, data, length, tm->now);
    if (tm->pending) run_pending(tm);
    if (tm->lossless) tm_arrival_end(tm);
    return TM_OK;
}

static int receive_ahead(tm_switch *tm, uint32_t number, const uint8_t *data, uint32_t head, uint32_t length,
                         uint64_t sent_ns, tm_fill fill) {
    if (number >= TM_PORTS || !tm->ports[number]) return TM_NO_SUCH_PORT;
    port *p = tm->ports[number];
    const tm_shape *shape = &p->link[TM_INGRESS].shape;
    if (sent_ns + shape->delay_ns - shape->jitter_ns <= tm->now) return TM_BAD_VALUE;
    enter_link(tm, number, p, data, head, length, sent_ns, fill);
    return TM_OK;
}

int tm_receive_ahead(tm_switch *tm, uint32_t number, const uint8_t *data, uint32_t length, uint64_t sent_ns) {
    return receive_ahead(tm, number, data, 0, length, sent_ns, NULL);
}

int tm_receive_seeded(tm_switch *tm, uint32_t number, const uint8_t *data, uint32_t head, uint32_t length,
                     uint64_t sent_ns, tm_fill fill) {
    return receive_ahead(tm, number, data, head, length, sent_ns, fill);
}

void tm_advance(tm_switch *tm, uint64_t now_ns) {
    while (tm->heap_count && tm->heap[0]->time <= now_ns) run_event(tm);
    set_time(tm, now_ns);
    tm_prefetch_next(tm);
}

uint64_t tm_next_event(const tm_switch *tm) {
    return tm->heap_count ? tm->heap[0]->time : TM_NEVER;
}

uint64_t tm_now(const tm_switch *tm) {
    return tm->now;
}

uint64_t tm_timestamp(const tm_switch *tm, uint64_t now_ns) {
    return tm_p4_time(tm, now_ns);
}
