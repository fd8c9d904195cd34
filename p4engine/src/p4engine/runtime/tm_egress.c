/* From a port's egress queue to the outside: the egress pipeline, the deparser, the link. */
#include "tm_state.h"

/* ---- out ---- */

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

void tm_emit_frame(tm_switch *tm, uint32_t number, uint64_t time, const frame *f) {
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
    if (link->down) {
        link->counters.down_drops++;
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
            tm_emit_frame(tm, number, arrivals[i], f);
        } else if (i + 1 < copies) {
            frame *copy = tm_frame_new(tm, length);
            if (!copy) break;
            memcpy(copy->data, f->data, length);
            tm_list_push(tm, &p->departures, copy, arrivals[i], tm->now);
        } else {
            tm_list_push(tm, &p->departures, f, arrivals[i], tm->now);
            f = NULL;
        }
    }
    tm_frame_free(tm, f);
}

/* ---- the egress pipeline ---- */

void tm_egress(tm_switch *tm, uint32_t number, port *p, p4_packet *packet, uint32_t qid, uint64_t depth) {
    if (!tm_pass_allowed(tm)) return;
    p4_std *std = &packet->std;
    uint64_t now = tm_p4_time(tm, tm->now);
    std->egress_port = number;
    std->egress_spec = 0;
    std->egress_global_timestamp = now;
    std->deq_timedelta = (uint32_t)now - std->enq_timestamp;
    std->deq_qdepth = (uint32_t)depth;
    std->qid = (uint16_t)qid;
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
        queued_packet *q = tm_packet_new(tm);
        if (!q) return;
        uint8_t *bytes;
        uint32_t length = deparse(tm, packet, &q->bytes, &bytes);
        if (!bytes) {
            q->bytes = NULL;
            tm_packet_free(tm, q);
            return;
        }
        tm_start_again(tm, &q->packet, packet, packet->req.recirculate_fields, P4_RECIRC, bytes, length);
        q->kind = FOR_INGRESS;
        tm->stats.recirculations++;
        tm_push_pending(tm, q);
        return;
    }
    if (!p) {
        tm->stats.no_port++;
        return;
    }
    transmit(tm, number, p, packet);
}
