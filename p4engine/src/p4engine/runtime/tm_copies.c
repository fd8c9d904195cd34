/* Packets that a packet causes: the members of multicast groups, and clones to mirror sessions. See tm.h. */
#include "tm_state.h"

void tm_multicast(tm_switch *tm, uint32_t number, p4_packet *packet, int keep) {
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
void tm_to_session(tm_switch *tm, uint32_t session, p4_packet *packet) {
    int32_t port = tm->sessions[session].port, group = tm->sessions[session].group;
    if (group >= 0) tm_multicast(tm, (uint32_t)group, packet, port >= 0);
    if (port >= 0) tm_to_port(tm, (uint32_t)port, packet, 0);
}

int tm_session_exists(const tm_switch *tm, uint32_t session) {
    return session < SESSIONS && (tm->sessions[session].port >= 0 || tm->sessions[session].group >= 0);
}

/* The clone is the packet as it was when ingress began, parsed again; of its metadata only the field list
 * survives. */
void tm_clone_to_egress(tm_switch *tm, const p4_packet *packet) {
    const p4_program *program = tm->program;
    uint32_t session = packet->req.clone_session;
    if (!tm_session_exists(tm, session)) return;
    held *h = tm_held_new(tm);
    if (!h) return;
    p4_packet *clone = &h->packet;
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
    tm->stats.clones++;
    tm_to_session(tm, session, clone);
    tm_held_free(tm, h);
}

/* The clone is the packet as it leaves egress; it starts egress again. */
void tm_clone_from_egress(tm_switch *tm, const p4_packet *packet) {
    uint32_t session = packet->req.clone_session;
    if (!tm_session_exists(tm, session)) return;
    held *h = tm_held_new(tm);
    if (!h) return;
    p4_packet *clone = &h->packet;
    p4_packet_copy(tm->program, clone, packet);
    if (!tm_own_bytes(tm, h)) {
        tm_held_free(tm, h);
        return;
    }
    memset(&clone->std, 0, sizeof clone->std);
    tm->program->reset_metadata(tm->instance, clone);
    tm->program->copy_fields(tm->instance, clone, packet, packet->req.clone_fields);
    clone->std.instance_type = P4_EGRESS_CLONE;
    h->kind = FOR_SESSION;
    h->session = session;
    tm->stats.clones++;
    tm_push_pending(tm, h);
}
