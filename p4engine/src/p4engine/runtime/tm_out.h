/* From the egress pipeline to the outside: the deparser, the link. Included by the architecture's passes.h, which has
 * tm_bytes, what leaves for a packet; so the C compiler sees a packet's whole way together. */
#ifndef TM_OUT_H
#define TM_OUT_H

#include "tm_state.h"

/* Writes what leaves for a packet behind egress; a result above `capacity`: it does not fit. */
static uint32_t tm_bytes(tm_switch *tm, p4_packet *packet, uint8_t *out, uint32_t capacity);

/* Bytes of headers that a program adds to a packet. */
#define USUALLY_ADDED 256
#define MOST_ADDED (1u << 16)

/* ---- out ---- */

/* Writes the packet into the sink's room (`to` NULL) or a frame. Returns the length, 0 with *bytes NULL on failure. */
static uint32_t tm_deparse(tm_switch *tm, p4_packet *packet, frame **to, uint8_t **bytes) {
    uint32_t capacity = packet->length + USUALLY_ADDED;
    for (int attempt = 0; attempt < 2; attempt++) {
        if (to) {
            *to = tm_frame_new(tm, capacity);
            *bytes = *to ? (*to)->data : NULL;
        } else {
            *bytes = tm->sink.room(tm->sink.context, capacity);
            if (!*bytes) tm->stats.no_memory++;
        }
        if (!*bytes) return 0;
        uint32_t length = tm_bytes(tm, packet, *bytes, capacity);
        if (length <= capacity) {
            if (to) (*to)->length = length;
            return length;
        }
        if (to) tm_frame_free(tm, *to);
        capacity = packet->length + MOST_ADDED;
    }
    *bytes = NULL;
    return 0;
}

/* Says what has become of a packet that was to leave through a port; of one that still needs its state, too. */
static void tm_tell_packet(tm_switch *tm, uint32_t number, uint32_t fate, p4_packet *packet) {
    frame *f = NULL;
    uint8_t *bytes = (uint8_t *)packet->data;
    uint32_t length = packet->length;
    /* If its deparser may send copies, the packet is noted as it came. */
    if (tm->notes_most && !P4_LOOPS) length = tm_deparse(tm, packet, &f, &bytes);
    tm_tell(tm, fate, number, TM_EGRESS, tm->now, bytes, length, packet->mark);
    if (f && bytes) tm_frame_free(tm, f);
}

static void emit(tm_switch *tm, uint32_t number, uint64_t time, uint32_t length, uint64_t mark) {
    tm->stats.sent++;
    tm_tell(tm, TM_EMITTED, number, TM_EGRESS, time, NULL, 0, mark);
    tm->sink.emit(tm->sink.context, number, time, length);
}

static void tm_emit_frame(tm_switch *tm, uint32_t number, uint64_t time, const frame *f) {
    uint8_t *room = tm->sink.room(tm->sink.context, f->length);
    if (!room) {
        tm->stats.no_memory++;
        return;
    }
    memcpy(room, f->data, f->length);
    emit(tm, number, time, f->length, f->mark);
}

/* The packet goes onto the egress link of its port. */
static void tm_transmit(tm_switch *tm, uint32_t number, port *p, p4_packet *packet) {
    tm_link *link = &p->link[TM_EGRESS];
    uint8_t *bytes;
    frame *f;
    uint64_t arrivals[2] = {tm->now};
    int copies;
    if (!link->lossy && (tm->early || (!link->timed && !p->departures.first))) {
        uint32_t length = tm_deparse(tm, packet, NULL, &bytes);
        if (!bytes) return;
        if (link->timed) {
            tm_link_send(link, length, tm->now, arrivals, &copies);
        } else {
            link->counters.packets++;
            link->counters.bytes += length;
        }
        if (p->lossless) tm_gate_sent(tm, p, packet, length);
        emit(tm, number, arrivals[0], length, packet->mark);
        return;
    }
    if (link->down) {
        link->counters.down_drops++;
        tm_tell_packet(tm, number, TM_DOWN, packet);
        return;
    }
    uint32_t length = tm_deparse(tm, packet, &f, &bytes);
    if (!bytes) return;
    f->mark = packet->mark;
    if (p->lossless) tm_gate_sent(tm, p, packet, length);
    tm_link_send(link, length, tm->now, arrivals, &copies);
    if (copies != 1)
        tm_tell(tm, copies ? TM_DUPLICATED : TM_LOST, number, TM_EGRESS, tm->now, f->data, length, f->mark);
    for (int i = 0; i < copies; i++) {
        if (tm->early || (arrivals[i] <= tm->now && !p->departures.first)) {
            tm_emit_frame(tm, number, arrivals[i], f);
        } else if (i + 1 < copies) {
            frame *copy = tm_frame_new(tm, length);
            if (!copy) break;
            memcpy(copy->data, f->data, length);
            copy->mark = f->mark;
            tm_list_push(tm, &p->departures, copy, arrivals[i], tm->now);
        } else {
            tm_list_push(tm, &p->departures, f, arrivals[i], tm->now);
            f = NULL;
        }
    }
    tm_frame_free(tm, f);
}

#endif
