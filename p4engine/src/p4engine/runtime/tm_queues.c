/* Egress queues. A port has one, or several, of which the highest that may send is served first.
 *
 * One of several may send when its rate lets it and the port's link is free. So a rate in packets/s limits each queue
 * on its own, as on BMv2, and the link's rate in bits/s is what the queues share. The port's one event stands for the
 * first moment at which any queue may send. */
#include <stdlib.h>

#include "tm_state.h"

#define NS_PER_S 1000000000ull

int tm_queues_new(tm_switch *tm, port *p) {
    if (tm->queue_count == 1) return 1;
    p->queues = calloc(tm->queue_count, sizeof *p->queues);
    if (!p->queues) return 0;
    for (uint32_t i = 0; i < tm->queue_count; i++) p->queues[i].seen.queue_packets = TM_UNLIMITED;
    return 1;
}

static queued_packet *take_first(priority_queue *q) {
    queued_packet *first = q->first;
    q->first = first->next;
    q->seen.queue--;
    q->waiting_bytes -= first->packet.length;
    return first;
}

static void drop(tm_switch *tm, port *p, queued_packet *q, uint32_t fate) {
    if (p->lossless) tm_forget(tm, p, q);
    tm->calls->tell_packet(tm, p->dequeues.port, fate, &q->packet);
    tm_packet_free(tm, q);
}

uint64_t tm_queues_empty(tm_switch *tm, port *p, uint32_t fate) {
    uint64_t waiting = p->waiting;
    if (!waiting) return 0;
    for (uint32_t i = 0; p->queues && i < tm->queue_count; i++) {
        priority_queue *q = &p->queues[i];
        q->seen.queue_drops += q->seen.queue;
        while (q->first) drop(tm, p, take_first(q), fate);
    }
    while (p->first) {
        queued_packet *q = p->first;
        p->first = q->next;
        drop(tm, p, q, fate);
    }
    p->waiting = p->waiting_bytes = 0;
    if (p->dequeues.place >= 0) tm_event_remove(tm, &p->dequeues);
    return waiting;
}

void tm_queues_free(tm_switch *tm, port *p) {
    for (uint32_t i = 0; p->queues && i < tm->queue_count; i++)
        for (queued_packet *q = p->queues[i].first; q; q = q->next) tm_frame_free(tm, q->bytes);
    free(p->queues);
}

/* A copy of a packet, with its bytes, that can wait in a queue; NULL: out of memory, counted. */
static queued_packet *packet_keep(tm_switch *tm, const p4_packet *packet) {
    queued_packet *q = tm_packet_new(tm);
    if (!q) return NULL;
    p4_packet_copy(tm->program, &q->packet, packet);
    if (tm->calls->copy_bytes(tm, q)) return q;
    tm_packet_free(tm, q);
    return NULL;
}

/* ---- several queues ---- */

static uint64_t free_at(const port *p) {
    return p->link[TM_EGRESS].limited ? p->link[TM_EGRESS].busy_until : 0;
}

/* The first moment from now on at which a packet may leave a queue. */
static inline uint64_t may_leave(const tm_switch *tm, const port *p, const priority_queue *q, const p4_packet *packet) {
    uint64_t at = q->next_ns > tm->now ? q->next_ns : tm->now;
    return p->lossless ? tm_gate_open(tm, p, packet, at) : at;
}

/* Sets the port's event to the first moment at which a waiting packet may leave. */
static void schedule(tm_switch *tm, port *p) {
    if (!p->waiting) {
        if (p->dequeues.place >= 0) tm_event_remove(tm, &p->dequeues);
        return;
    }
    uint64_t first = TM_NEVER;
    for (uint32_t i = 0; i < tm->queue_count; i++) {
        const priority_queue *q = &p->queues[i];
        if (!q->first) continue;
        uint64_t at = may_leave(tm, p, q, &q->first->packet);
        if (at < first) first = at;
    }
    if (first == TM_NEVER) {
        if (p->dequeues.place >= 0) tm_event_remove(tm, &p->dequeues);
        return;
    }
    uint64_t least = free_at(p) > tm->now ? free_at(p) : tm->now;
    if (first < least) first = least;
    if (p->dequeues.place < 0 || p->dequeues.time != first) tm_event_set(tm, &p->dequeues, first, tm->now);
}

/* The highest queue whose rate lets a packet leave now; NULL: none. */
static priority_queue *ready(const tm_switch *tm, const port *p) {
    for (uint32_t i = tm->queue_count; i-- > 0;)
        if (p->queues[i].first && may_leave(tm, p, &p->queues[i], &p->queues[i].first->packet) <= tm->now)
            return &p->queues[i];
    return NULL;
}

/* A packet leaves the queue now. */
static void leave(tm_switch *tm, uint32_t number, port *p, priority_queue *q, p4_packet *packet) {
    if (q->seen.rate_pps) {
        uint64_t time = NS_PER_S + (q->next_ns < tm->now ? 0 : q->remainder);
        q->next_ns = tm->now + time / q->seen.rate_pps;
        q->remainder = time % q->seen.rate_pps;
    }
    tm_counters *link = &p->link[TM_EGRESS].counters;
    uint64_t packets = link->packets, bytes = link->bytes;
    tm->calls->egress(tm, number, p, packet, (uint32_t)(q - p->queues), q->seen.queue);
    q->seen.packets += link->packets - packets;
    q->seen.bytes += link->bytes - bytes;
}

/* A packet begins to wait, if the buffer of lossless links has room; 0: it is dropped. */
static int admitted(tm_switch *tm, uint32_t number, queued_packet *q) {
    if (tm_admit(tm, number, q)) return 1;
    tm->ports[number]->link[TM_EGRESS].counters.queue_drops++;
    tm->calls->tell_packet(tm, number, TM_QUEUE_FULL, &q->packet);
    tm_packet_free(tm, q);
    return 0;
}

/* A packet for which a queue has no room goes to the port for deflection instead, once; 0: it does not. */
static int deflected(tm_switch *tm, uint32_t number, p4_packet *packet, int keep) {
    if (!P4_DEFLECTS(packet) || tm->deflection < 0 || (uint32_t)tm->deflection == number) return 0;
    P4_DEFLECT(packet, 1);
    tm_to_port(tm, (uint32_t)tm->deflection, packet, keep);
    if (keep) P4_DEFLECT(packet, 0);
    return 1;
}

static void to_priority(tm_switch *tm, uint32_t number, port *p, p4_packet *packet, int keep) {
    tm_link *link = &p->link[TM_EGRESS];
    if (packet->std.priority >= tm->queue_count) {
        tm->calls->tell_packet(tm, number, TM_QUEUE_FULL, packet);
        link->counters.queue_drops++;
        return;
    }
    priority_queue *q = &p->queues[packet->std.priority];
    packet->std.enq_qdepth = (uint32_t)q->seen.queue;
    /* Where a packet waits that may leave in this moment, its turn is first. */
    if (!q->first && may_leave(tm, p, q, packet) <= tm->now && free_at(p) <= tm->now && !(p->waiting && ready(tm, p))) {
        if (keep) {
            p4_packet_copy(tm->program, tm->spare, packet);
            packet = tm->spare;
        }
        leave(tm, number, p, q, packet);
        schedule(tm, p);
        return;
    }
    if (!(p->lossless && tm_kept_back(tm, packet)) &&
        (q->seen.queue >= q->seen.queue_packets ||
         q->waiting_bytes + packet->length > link->shape.queue_bytes)) {
        if (deflected(tm, number, packet, keep)) return;
        tm->calls->tell_packet(tm, number, TM_QUEUE_FULL, packet);
        link->counters.queue_drops++;
        link->counters.tie_drops += p->entered_ns == tm->now;
        q->seen.queue_drops++;
        return;
    }
    queued_packet *kept = packet_keep(tm, packet);
    if (!kept) return;
    if (p->lossless && !admitted(tm, number, kept)) {
        q->seen.queue_drops++;
        return;
    }
    if (q->first)
        q->last->next = kept;
    else
        q->first = kept;
    q->last = kept;
    q->waiting_bytes += packet->length;
    p->entered_ns = tm->now;
    if (++q->seen.queue > q->seen.max_queue) q->seen.max_queue = q->seen.queue;
    if (++p->waiting > link->counters.max_queue) link->counters.max_queue = p->waiting;
    schedule(tm, p);
}

static void dequeue_priority(tm_switch *tm, port *p) {
    priority_queue *q = ready(tm, p);
    if (q) {
        queued_packet *first = take_first(q);
        p->waiting--;
        if (p->lossless) tm_release(tm, p, first);
        leave(tm, p->dequeues.port, p, q, &first->packet);
        tm_packet_free(tm, first);
    }
    /* The event is a new one even at the same time: others of this moment have their turn before. */
    if (p->dequeues.place >= 0) tm_event_remove(tm, &p->dequeues);
    schedule(tm, p);
}

/* ---- one queue, or several ---- */

/* Sets the event of a port with one queue, in which packets wait. */
static void schedule_first(tm_switch *tm, port *p) {
    uint64_t at = free_at(p) > tm->now ? free_at(p) : tm->now;
    if (p->lossless) at = tm_gate_open(tm, p, &p->first->packet, at);
    if (at != TM_NEVER)
        tm_event_set(tm, &p->dequeues, at, tm->now);
    else if (p->dequeues.place >= 0)
        tm_event_remove(tm, &p->dequeues);
}

void tm_schedule(tm_switch *tm, port *p) {
    if (p->queues)
        schedule(tm, p);
    else if (p->waiting)
        schedule_first(tm, p);
}

/* Into the egress queue, or through it where nothing waits. With `keep` the caller still needs the packet.
 * A port that does not exist has an egress pipeline too (programs recirculate through such), but no link. */
void tm_to_port(tm_switch *tm, uint32_t number, p4_packet *packet, int keep) {
    port *p = number < TM_PORTS ? tm->ports[number] : NULL;
    packet->std.enq_timestamp = (uint32_t)tm_p4_time(tm, tm->now);
    if (p && p->queues) {
        to_priority(tm, number, p, packet, keep);
        return;
    }
    packet->std.enq_qdepth = p ? (uint32_t)p->waiting : 0;
    tm_link *link = p ? &p->link[TM_EGRESS] : NULL;
    if (!p || (!p->waiting && (!link->limited || link->busy_until <= tm->now) &&
               !(p->lossless && tm_gate_open(tm, p, packet, tm->now) > tm->now))) {
        if (keep) {
            p4_packet_copy(tm->program, tm->spare, packet);
            packet = tm->spare;
        }
        tm->calls->egress(tm, number, p, packet, 0, 0);
        return;
    }
    if (!(p->lossless && tm_kept_back(tm, packet)) &&
        (p->waiting >= link->shape.queue_packets ||
         p->waiting_bytes + packet->length > link->shape.queue_bytes)) {
        if (deflected(tm, number, packet, keep)) return;
        tm->calls->tell_packet(tm, number, TM_QUEUE_FULL, packet);
        link->counters.queue_drops++;
        link->counters.tie_drops += p->entered_ns == tm->now;
        return;
    }
    queued_packet *q = packet_keep(tm, packet);
    if (!q || (p->lossless && !admitted(tm, number, q))) return;
    if (p->waiting++)
        p->last->next = q;
    else {
        p->first = q;
        schedule_first(tm, p);
    }
    p->last = q;
    p->waiting_bytes += packet->length;
    p->entered_ns = tm->now;
    if (p->waiting > link->counters.max_queue) link->counters.max_queue = p->waiting;
}

void tm_dequeue(tm_switch *tm, port *p) {
    if (p->queues) {
        dequeue_priority(tm, p);
        return;
    }
    queued_packet *q = p->first;
    p->first = q->next;
    p->waiting--;
    p->waiting_bytes -= q->packet.length;
    if (p->lossless) tm_release(tm, p, q);
    tm->calls->egress(tm, p->dequeues.port, p, &q->packet, 0, p->waiting);
    tm_packet_free(tm, q);
    if (p->waiting)
        schedule_first(tm, p);
    else
        tm_event_remove(tm, &p->dequeues);
}

/* ---- settings ---- */

int tm_queues_set(tm_switch *tm, uint32_t count) {
    if (!count || count > TM_QUEUES) return TM_BAD_VALUE;
    for (uint32_t i = 0; i < TM_PORTS; i++)
        if (tm->ports[i]) return TM_BAD_VALUE;
    tm->queue_count = count;
    return TM_OK;
}

static int find(const tm_switch *tm, uint32_t number, uint32_t priority) {
    if (number >= TM_PORTS || !tm->ports[number]) return TM_NO_SUCH_PORT;
    if (priority != TM_ALL_QUEUES && priority >= tm->queue_count) return TM_NO_SUCH_QUEUE;
    return TM_OK;
}

static void set_rate(priority_queue *q, uint64_t rate_pps) {
    if (q->seen.rate_pps == rate_pps) return;
    q->seen.rate_pps = rate_pps;
    q->remainder = 0; /* it was a fraction of the old rate */
    if (!rate_pps) q->next_ns = 0;
}

int tm_egress_shape(tm_switch *tm, port *p, const tm_shape *shape, int depth, int rate) {
    tm_shape own = *shape;
    int status = tm_link_shape(&p->link[TM_EGRESS], &own);
    if (status != TM_OK || !p->queues) return status;
    own.rate_pps = 0; /* it limits each queue, not the link */
    tm_link_shape(&p->link[TM_EGRESS], &own);
    p->rate_pps = shape->rate_pps;
    for (uint32_t i = 0; i < tm->queue_count; i++) {
        if (depth) p->queues[i].seen.queue_packets = shape->queue_packets;
        if (rate) set_rate(&p->queues[i], shape->rate_pps);
    }
    schedule(tm, p);
    return TM_OK;
}

tm_shape tm_egress_shape_get(const port *p) {
    tm_shape shape = p->link[TM_EGRESS].shape;
    if (p->queues) shape.rate_pps = p->rate_pps;
    return shape;
}

int tm_queue_depth(tm_switch *tm, uint32_t number, uint32_t priority, uint64_t packets) {
    int status = find(tm, number, priority);
    if (status != TM_OK) return status;
    port *p = tm->ports[number];
    if (p->queues && priority != TM_ALL_QUEUES) {
        p->queues[priority].seen.queue_packets = packets;
        return TM_OK;
    }
    tm_shape shape = tm_egress_shape_get(p);
    shape.queue_packets = packets;
    return tm_egress_shape(tm, p, &shape, 1, 0);
}

int tm_queue_rate(tm_switch *tm, uint32_t number, uint32_t priority, uint64_t rate_pps) {
    int status = find(tm, number, priority);
    if (status != TM_OK) return status;
    port *p = tm->ports[number];
    if (p->queues && priority != TM_ALL_QUEUES) {
        if (rate_pps > NS_PER_S) return TM_BAD_VALUE;
        set_rate(&p->queues[priority], rate_pps);
        schedule(tm, p);
        return TM_OK;
    }
    tm_shape shape = tm_egress_shape_get(p);
    shape.rate_pps = rate_pps;
    return tm_egress_shape(tm, p, &shape, 0, 1);
}

int tm_queue_get(const tm_switch *tm, uint32_t number, uint32_t priority, tm_queue *queue) {
    int status = find(tm, number, priority);
    if (status != TM_OK) return status;
    if (priority == TM_ALL_QUEUES) return TM_BAD_VALUE;
    const port *p = tm->ports[number];
    if (p->queues) {
        *queue = p->queues[priority].seen;
        return TM_OK;
    }
    const tm_link *link = &p->link[TM_EGRESS];
    *queue = (tm_queue){
        .packets = link->counters.packets,
        .bytes = link->counters.bytes,
        .queue_drops = link->counters.queue_drops,
        .max_queue = link->counters.max_queue,
        .queue = p->waiting,
        .queue_packets = link->shape.queue_packets,
        .rate_pps = link->shape.rate_pps,
    };
    return TM_OK;
}
