/* See tm.h for what this is. A packet comes in here: arrivals and events, the ingress pipeline, and what leaves it:
 * to a port, to a multicast group, as a clone. tm_egress.c has the way from there to the outside. */
#include "tm_state.h"

/* ---- packets that a packet causes ---- */

static void multicast(tm_switch *tm, uint32_t number, p4_packet *packet, int keep) {
    const group *g = tm->groups[number & (GROUPS - 1)];
    if (!g) {
        tm->stats.no_group++;
        return;
    }
    packet->req.recirculate = 0; /* what a packet asked for does not pass to its copies */
    for (uint32_t i = 0; i < g->count; i++) {
        packet->std.egress_rid = g->members[i].rid;
        tm->stats.copies++;
        tm_to_port(tm, g->members[i].port, packet, keep || i + 1 < g->count);
    }
}

/* A clone leaves for where its mirror session says. */
static void send_to_session(tm_switch *tm, uint32_t session, p4_packet *packet) {
    int32_t port = tm->sessions[session].port, group = tm->sessions[session].group;
    if (group >= 0) multicast(tm, (uint32_t)group, packet, port >= 0);
    if (port >= 0) tm_to_port(tm, (uint32_t)port, packet, 0);
}

/* The clone is the packet as it was when ingress began, parsed again; of its metadata only the field list
 * survives. */
static void clone_to_egress(tm_switch *tm, const p4_packet *packet) {
    const p4_program *program = tm->program;
    uint32_t session = packet->req.clone_session;
    if (!tm_session_exists(tm, session)) return;
    queued_packet *q = tm_packet_new(tm);
    if (!q) return;
    p4_packet *clone = &q->packet;
    memset(clone, 0, sizeof *clone);
    clone->std.ingress_port = packet->std.ingress_port; /* the parser may look at it */
    clone->std.packet_length = packet->length;
    clone->now_ns = tm->now;
    clone->data = packet->data;
    clone->length = packet->length;
    program->start(tm->instance, clone);
    program->parse(tm->instance, clone);
    memset(&clone->std, 0, sizeof clone->std);
    program->reset_metadata(tm->instance, clone);
    program->copy_fields(tm->instance, clone, packet, packet->req.clone_fields);
    clone->std.instance_type = P4_INGRESS_CLONE;
    tm_shorten(tm, session, clone, clone->length);
    tm->stats.clones++;
    send_to_session(tm, session, clone);
    tm_packet_free(tm, q);
}

/* ---- the ingress pipeline ---- */

static void ingress(tm_switch *tm, p4_packet *packet) {
    const p4_program *program = tm->program;
    for (;;) {
        if (!tm_pass_allowed(tm)) return;
        program->ingress(tm->instance, packet);
        if (packet->req.failed) {
            tm->stats.failed++;
            return;
        }
        if (packet->req.clone) {
            clone_to_egress(tm, packet);
            packet->req.clone = 0;
        }
        if (!packet->req.resubmit) break;
        queued_packet *q = tm_packet_new(tm);
        if (!q) return;
        tm_start_again(tm, &q->packet, packet, packet->req.resubmit_fields, P4_RESUBMIT, packet->data,
                      packet->length);
        p4_packet_copy(program, packet, &q->packet);
        tm_packet_free(tm, q);
        tm->stats.resubmits++;
    }
    if (packet->std.mcast_grp) {
        packet->std.instance_type = P4_REPLICATION;
        multicast(tm, packet->std.mcast_grp, packet, 0);
    } else if (packet->std.egress_spec == P4_DROP_PORT) {
        tm->stats.ingress_drops++;
    } else {
        packet->std.instance_type = P4_NORMAL;
        tm_to_port(tm, packet->std.egress_spec, packet, 0);
    }
}

static void arrive(tm_switch *tm, uint32_t number, const uint8_t *data, uint32_t length) {
    p4_packet *packet = tm->scratch;
    memset(&packet->std, 0, sizeof packet->std);
    packet->std.ingress_port = number;
    packet->std.packet_length = length;
    packet->std.ingress_global_timestamp = tm_p4_time(tm, tm->now);
    packet->now_ns = tm->now;
    packet->data = data;
    packet->length = length;
    tm->program->start(tm->instance, packet);
    tm->stats.received++;
    ingress(tm, packet);
}

/* Passes that other passes have caused: recirculated packets and clones of egress. */
static void run_pending(tm_switch *tm) {
    while (tm->pending) {
        queued_packet *q = tm->pending;
        tm->pending = q->next;
        if (q->kind == FOR_INGRESS)
            ingress(tm, &q->packet);
        else if (tm_session_exists(tm, q->session))
            send_to_session(tm, q->session, &q->packet);
        tm_packet_free(tm, q);
    }
}

/* ---- events ---- */

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
    } else {
        frame *f = tm_list_pop(tm, l);
        if (l->kind == ARRIVALS)
            arrive(tm, l->port, f->data, f->length);
        else
            tm_emit_frame(tm, l->port, f->time, f);
        tm_frame_free(tm, f);
    }
    run_pending(tm);
    tm->instant -= allowed - (tm->passes > 0 ? tm->passes : 0);
}

/* ---- arrivals ---- */

/* A packet from the far end of a shaped link, sent at `sent_ns`. */
static void enter_link(tm_switch *tm, uint32_t number, port *p, const uint8_t *data, uint32_t length,
                       uint64_t sent_ns) {
    tm_link *link = &p->link[TM_INGRESS];
    start_queue *queue = &p->ingress_queue;
    if (link->down) {
        link->counters.down_drops++;
        return;
    }
    tm_start_queue_expire(queue, sent_ns);
    if (link->limited && link->busy_until > sent_ns &&
        (queue->count >= link->shape.queue_packets ||
         queue->bytes + length > link->shape.queue_bytes)) {
        link->counters.queue_drops++;
        return;
    }
    uint64_t arrivals[2];
    int copies;
    uint64_t start = tm_link_send(link, length, sent_ns, arrivals, &copies);
    if (start > sent_ns) {
        if (!tm_start_queue_push(queue, start, length)) tm->stats.no_memory++;
        if (queue->count > link->counters.max_queue) link->counters.max_queue = queue->count;
    }
    for (int i = 0; i < copies; i++) {
        if (arrivals[i] <= tm->now && !p->arrivals.first) {
            arrive(tm, number, data, length);
            run_pending(tm);
            continue;
        }
        frame *f = tm_frame_new(tm, length);
        if (!f) return;
        memcpy(f->data, data, length);
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
        enter_link(tm, number, p, data, length, tm->now);
        return TM_OK;
    }
    link->counters.packets++;
    link->counters.bytes += length;
    arrive(tm, number, data, length);
    if (tm->pending) run_pending(tm);
    return TM_OK;
}

int tm_receive_ahead(tm_switch *tm, uint32_t number, const uint8_t *data, uint32_t length, uint64_t sent_ns) {
    if (number >= TM_PORTS || !tm->ports[number]) return TM_NO_SUCH_PORT;
    port *p = tm->ports[number];
    const tm_shape *shape = &p->link[TM_INGRESS].shape;
    if (sent_ns + shape->delay_ns - shape->jitter_ns <= tm->now) return TM_BAD_VALUE;
    enter_link(tm, number, p, data, length, sent_ns);
    return TM_OK;
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
