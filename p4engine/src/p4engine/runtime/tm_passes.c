/* Packets that begin another pass through a pipeline: resubmitted and recirculated ones, clones of egress. */
#include "tm_state.h"

void tm_start_again(tm_switch *tm, p4_packet *to, const p4_packet *from, int32_t fields, uint32_t instance_type,
                    const uint8_t *data, uint32_t length) {
    memset(to, 0, sizeof *to);
    to->std.packet_length = length;
    to->std.ingress_global_timestamp = tm_p4_time(tm, tm->now);
    to->now_ns = tm->now;
    to->data = data;
    to->length = length;
    tm->program->start(tm->instance, to);
    tm->program->copy_fields(tm->instance, to, from, fields);
    to->std.instance_type = instance_type;
}

void tm_push_pending(tm_switch *tm, queued_packet *q) {
    q->next = NULL;
    if (tm->pending)
        tm->pending_last->next = q;
    else
        tm->pending = q;
    tm->pending_last = q;
}

int tm_session_exists(const tm_switch *tm, uint32_t session) {
    return session < SESSIONS && (tm->sessions[session].port >= 0 || tm->sessions[session].group >= 0);
}

void tm_shorten(const tm_switch *tm, uint32_t session, p4_packet *clone, uint32_t bytes) {
    uint32_t limit = tm->sessions[session].length, headers = bytes - clone->payload_length;
    if (!limit || bytes <= limit) return;
    clone->payload_length = limit > headers ? limit - headers : 0;
    if (limit < headers) clone->req.truncate = limit;
    clone->req.growth = (int32_t)limit - (int32_t)clone->length; /* packet_length is the shorter one */
}

/* The clone is the packet as it leaves egress; it starts egress again. */
void tm_clone_from_egress(tm_switch *tm, const p4_packet *packet) {
    uint32_t session = packet->req.clone_session;
    if (!tm_session_exists(tm, session)) return;
    queued_packet *q = tm_packet_new(tm);
    if (!q) return;
    p4_packet *clone = &q->packet;
    p4_packet_copy(tm->program, clone, packet);
    if (!tm_copy_bytes(tm, q)) {
        tm_packet_free(tm, q);
        return;
    }
    memset(&clone->std, 0, sizeof clone->std);
    tm->program->reset_metadata(tm->instance, clone);
    tm->program->copy_fields(tm->instance, clone, packet, packet->req.clone_fields);
    clone->std.instance_type = P4_EGRESS_CLONE;
    tm_shorten(tm, session, clone, packet->length + (uint32_t)packet->req.growth);
    q->kind = FOR_SESSION;
    q->session = session;
    tm->stats.clones++;
    tm_push_pending(tm, q);
}
