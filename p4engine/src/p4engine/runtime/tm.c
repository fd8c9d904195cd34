/* See tm.h for what this is. The parts, in order: the way of a packet through the pipelines (ingress, after
 * ingress, to a port, egress, out), events, arrivals. */
#include "tm_state.h"

/* ---- the way through the pipelines ---- */

static int pass_allowed(tm_switch *tm) {
    if (--tm->passes >= 0) return 1;
    tm->stats.loop_drops++;
    return 0;
}

static uint64_t timestamp(const tm_switch *tm, uint64_t now_ns) {
    uint64_t since = now_ns > tm->epoch_ns ? now_ns - tm->epoch_ns : 0;
    return (tm->unit_ns == 1 ? since : since / tm->unit_ns) & 0xffffffffffffull;
}

/* Starts a packet over, with the same state block or another one; only a field list survives. */
static void prepare_again(tm_switch *tm, p4_packet *to, const p4_packet *from, int32_t fields,
                          uint32_t instance_type, const uint8_t *data, uint32_t length) {
    memset(to, 0, sizeof *to);
    to->std.packet_length = length;
    to->std.ingress_global_timestamp = timestamp(tm, tm->now);
    to->now_ns = tm->now;
    to->data = data;
    to->length = length;
    tm->program->start(tm->instance, to);
    tm->program->copy_fields(tm->instance, to, from, fields);
    to->std.instance_type = instance_type;
}

static void ingress(tm_switch *tm, p4_packet *packet) {
    const p4_program *program = tm->program;
    for (;;) {
        if (!pass_allowed(tm)) return;
        program->ingress(tm->instance, packet);
        if (packet->req.failed) {
            tm->stats.failed++;
            return;
        }
        if (packet->req.clone) {
            tm_clone_to_egress(tm, packet);
            packet->req.clone = 0;
        }
        if (!packet->req.resubmit) break;
        held *h = tm_held_new(tm);
        if (!h) return;
        prepare_again(tm, &h->packet, packet, packet->req.resubmit_fields, P4_RESUBMIT, packet->data,
                      packet->length);
        p4_packet_copy(program, packet, &h->packet);
        tm_held_free(tm, h);
        tm->stats.resubmits++;
    }
    if (packet->std.mcast_grp) {
        packet->std.instance_type = P4_REPLICATION;
        tm_multicast(tm, packet->std.mcast_grp, packet, 0);
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
    packet->std.ingress_global_timestamp = timestamp(tm, tm->now);
    packet->now_ns = tm->now;
    packet->data = data;
    packet->length = length;
    tm->program->start(tm->instance, packet);
    tm->stats.received++;
    ingress(tm, packet);
}

/* Deparses into the sink's room (`to` NULL) or a frame. Returns the length, 0 with *bytes NULL on failure. */
static uint32_t deparse(tm_switch *tm, p4_packet *packet, frame **to, uint8_t **bytes) {
    uint32_t capacity = packet->length + 256;
    for (int attempt = 0; attempt < 2; attempt++) {
        if (to) {
            *to = tm_frame_new(tm, capacity);
            *bytes = *to ? (*to)->data : NULL;
        } else {
            *bytes = tm->sink.room(tm->sink.context, capacity);
            if (!*bytes) tm->stats.no_memory++;
        }
        if (!*bytes) return 0;
        uint32_t length = tm->program->deparse(tm->instance, packet, *bytes, capacity);
        if (length <= capacity) {
            if (to) (*to)->length = length;
            return length;
        }
        if (to) tm_frame_free(tm, *to);
        capacity = length;
    }
    *bytes = NULL;
    return 0;
}

static void emit(tm_switch *tm, uint32_t number, uint64_t time, uint32_t length) {
    tm->stats.sent++;
    tm->sink.emit(tm->sink.context, number, time, length);
}

static void emit_copy(tm_switch *tm, uint32_t number, uint64_t time, const frame *f) {
    uint8_t *room = tm->sink.room(tm->sink.context, f->length);
    if (!room) {
        tm->stats.no_memory++;
        return;
    }
    memcpy(room, f->data, f->length);
    emit(tm, number, time, f->length);
}

/* The packet goes onto the egress link of its port. */
static void transmit(tm_switch *tm, uint32_t number, port *p, p4_packet *packet) {
    tm_link *link = &p->link[TM_EGRESS];
    uint8_t *bytes;
    if (!link->timed && !link->lossy && !p->departures.first) {
        uint32_t length = deparse(tm, packet, NULL, &bytes);
        if (!bytes) return;
        link->counters.packets++;
        link->counters.bytes += length;
        emit(tm, number, tm->now, length);
        return;
    }
    frame *f;
    uint64_t arrivals[2];
    int copies;
    uint32_t length = deparse(tm, packet, &f, &bytes);
    if (!bytes) return;
    tm_link_send(link, length, tm->now, arrivals, &copies);
    for (int i = 0; i < copies; i++) {
        if (tm->early || (arrivals[i] <= tm->now && !p->departures.first)) {
            emit_copy(tm, number, arrivals[i], f);
        } else if (i + 1 < copies) {
            frame *copy = tm_frame_new(tm, length);
            if (!copy) break;
            memcpy(copy->data, f->data, length);
            tm_line_push(tm, &p->departures, copy, arrivals[i]);
        } else {
            tm_line_push(tm, &p->departures, f, arrivals[i]);
            f = NULL;
        }
    }
    tm_frame_free(tm, f);
}

static void egress(tm_switch *tm, uint32_t number, port *p, p4_packet *packet) {
    if (!pass_allowed(tm)) return;
    p4_std *std = &packet->std;
    uint64_t now = timestamp(tm, tm->now);
    std->egress_port = number;
    std->egress_spec = 0;
    std->egress_global_timestamp = now;
    std->deq_timedelta = (uint32_t)now - std->enq_timestamp;
    std->deq_qdepth = p ? (uint32_t)p->waiting : 0;
    std->packet_length = packet->length + (uint32_t)packet->req.growth;
    packet->now_ns = tm->now;
    tm->program->egress(tm->instance, packet);
    if (packet->req.failed) {
        tm->stats.failed++;
        return;
    }
    if (packet->req.clone) {
        tm_clone_from_egress(tm, packet);
        packet->req.clone = 0;
    }
    if (std->egress_spec == P4_DROP_PORT) {
        tm->stats.egress_drops++;
        return;
    }
    if (packet->req.recirculate) {
        held *h = tm_held_new(tm);
        if (!h) return;
        uint8_t *bytes;
        uint32_t length = deparse(tm, packet, &h->bytes, &bytes);
        if (!bytes) {
            h->bytes = NULL;
            tm_held_free(tm, h);
            return;
        }
        prepare_again(tm, &h->packet, packet, packet->req.recirculate_fields, P4_RECIRC, bytes, length);
        h->kind = FOR_INGRESS;
        tm->stats.recirculations++;
        tm_push_pending(tm, h);
        return;
    }
    if (!p) {
        tm->stats.no_port++;
        return;
    }
    transmit(tm, number, p, packet);
}

/* Into the egress queue, or through it where nothing waits. With `keep` the caller still needs the packet.
 * A port that does not exist has an egress pipeline too (programs recirculate through such), but no link. */
void tm_to_port(tm_switch *tm, uint32_t number, p4_packet *packet, int keep) {
    port *p = number < TM_PORTS ? tm->ports[number] : NULL;
    packet->std.enq_timestamp = (uint32_t)timestamp(tm, tm->now);
    packet->std.enq_qdepth = p ? (uint32_t)p->waiting : 0;
    tm_link *link = p ? &p->link[TM_EGRESS] : NULL;
    if (!p || (!p->waiting && (!link->limited || link->busy_until <= tm->now))) {
        if (keep) {
            p4_packet_copy(tm->program, tm->spare, packet);
            packet = tm->spare;
        }
        egress(tm, number, p, packet);
        return;
    }
    if (p->waiting >= link->shape.queue_packets ||
        p->waiting_bytes + packet->length > link->shape.queue_bytes) {
        link->counters.queue_drops++;
        return;
    }
    held *h = tm_held_new(tm);
    if (!h) return;
    p4_packet_copy(tm->program, &h->packet, packet);
    if (!tm_own_bytes(tm, h)) {
        tm_held_free(tm, h);
        return;
    }
    if (p->waiting++)
        p->last->next = h;
    else {
        p->first = h;
        tm_event_set(tm, &p->turns, link->busy_until, tm->order++);
    }
    p->last = h;
    p->waiting_bytes += packet->length;
    if (p->waiting > link->counters.max_queue) link->counters.max_queue = p->waiting;
}

static void take_turn(tm_switch *tm, port *p) {
    held *h = p->first;
    p->first = h->next;
    p->waiting--;
    p->waiting_bytes -= h->packet.length;
    egress(tm, p->turns.port, p, &h->packet);
    tm_held_free(tm, h);
    if (p->waiting) {
        uint64_t free_at = p->link[TM_EGRESS].limited ? p->link[TM_EGRESS].busy_until : tm->now;
        tm_event_set(tm, &p->turns, free_at > tm->now ? free_at : tm->now, tm->order++);
    } else {
        tm_event_remove(tm, &p->turns);
    }
}

/* Passes that other passes have caused: recirculated packets and clones of egress. */
static void settle(tm_switch *tm) {
    while (tm->pending) {
        held *h = tm->pending;
        tm->pending = h->next;
        if (h->kind == FOR_INGRESS)
            ingress(tm, &h->packet);
        else if (tm_session_exists(tm, h->session))
            tm_to_session(tm, h->session, &h->packet);
        tm_held_free(tm, h);
    }
}

static void move_on(tm_switch *tm, uint64_t now_ns) {
    if (now_ns <= tm->now) return;
    tm->now = now_ns;
    tm->instant = TM_INSTANT;
}

static void run_event(tm_switch *tm) {
    line *l = tm->heap[0];
    port *p = tm->ports[l->port];
    move_on(tm, l->time);
    /* Packets that go round through a queue come back as events of the same moment, without end. */
    int64_t allowed = tm->instant < TM_PASSES ? tm->instant : TM_PASSES;
    tm->passes = allowed;
    if (l->kind == TURNS) {
        take_turn(tm, p);
    } else {
        frame *f = tm_line_pop(tm, l);
        if (l->kind == ARRIVALS)
            arrive(tm, l->port, f->data, f->length);
        else
            emit_copy(tm, l->port, f->time, f);
        tm_frame_free(tm, f);
    }
    settle(tm);
    tm->instant -= allowed - (tm->passes > 0 ? tm->passes : 0);
}

/* ---- arrivals ---- */

/* A packet from the far end of a shaped link. */
static void come_in(tm_switch *tm, uint32_t number, port *p, const uint8_t *data, uint32_t length) {
    tm_link *link = &p->link[TM_INGRESS];
    starts *queue = &p->ingress_queue;
    tm_starts_expire(queue, tm->now);
    if (link->limited && link->busy_until > tm->now &&
        (queue->count >= link->shape.queue_packets ||
         queue->bytes + length > link->shape.queue_bytes)) {
        link->counters.queue_drops++;
        return;
    }
    uint64_t arrivals[2];
    int copies;
    uint64_t start = tm_link_send(link, length, tm->now, arrivals, &copies);
    if (start > tm->now) {
        if (!tm_starts_push(queue, start, length)) tm->stats.no_memory++;
        if (queue->count > link->counters.max_queue) link->counters.max_queue = queue->count;
    }
    for (int i = 0; i < copies; i++) {
        if (arrivals[i] <= tm->now && !p->arrivals.first) {
            arrive(tm, number, data, length);
            settle(tm);
            continue;
        }
        frame *f = tm_frame_new(tm, length);
        if (!f) return;
        memcpy(f->data, data, length);
        tm_line_push(tm, &p->arrivals, f, arrivals[i]);
    }
}

/* ---- interface: packets and time ---- */

int tm_receive(tm_switch *tm, uint32_t number, const uint8_t *data, uint32_t length, uint64_t now_ns) {
    if (number >= TM_PORTS || !tm->ports[number]) return TM_NO_SUCH_PORT;
    if (tm->heap_count && tm->heap[0]->time <= now_ns) tm_advance(tm, now_ns);
    move_on(tm, now_ns);
    port *p = tm->ports[number];
    tm_link *link = &p->link[TM_INGRESS];
    tm->passes = TM_PASSES;
    if (link->timed || link->lossy || p->arrivals.first) {
        come_in(tm, number, p, data, length);
        return TM_OK;
    }
    link->counters.packets++;
    link->counters.bytes += length;
    arrive(tm, number, data, length);
    if (tm->pending) settle(tm);
    return TM_OK;
}

void tm_advance(tm_switch *tm, uint64_t now_ns) {
    while (tm->heap_count && tm->heap[0]->time <= now_ns) run_event(tm);
    move_on(tm, now_ns);
    tm_prefetch_next(tm);
}

uint64_t tm_next_event(const tm_switch *tm) {
    return tm->heap_count ? tm->heap[0]->time : TM_NEVER;
}

uint64_t tm_now(const tm_switch *tm) {
    return tm->now;
}

uint64_t tm_timestamp(const tm_switch *tm, uint64_t now_ns) {
    return timestamp(tm, now_ns);
}
