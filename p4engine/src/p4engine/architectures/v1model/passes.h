/* What happens to a packet in v1model, as BMv2's simple_switch has it: ingress, what it asks for (clones, multicast,
 * resubmission), egress, and what that asks for. */
#ifndef PASSES_H
#define PASSES_H

#include "tm_out.h"

enum { FOR_INGRESS, FOR_SESSION }; /* the kinds of passes that wait */

/* ---- bytes ---- */

/* Behind the parser a packet's state has its headers, and only the payload is left to keep. Lossless links look into
 * the bytes of packets that wait. */
static int tm_copy_bytes(tm_switch *tm, queued_packet *q) {
    p4_packet *packet = &q->packet;
    if (tm->lossless) {
        frame *f = tm_frame_new(tm, packet->length);
        if (!f) return 0;
        memcpy(f->data, packet->data, packet->length);
        packet->payload = f->data + (packet->payload - packet->data);
        packet->data = f->data;
        q->bytes = f;
        return 1;
    }
    packet->data = NULL;
    if (!packet->payload_length) return 1;
    frame *f = tm_frame_new(tm, packet->payload_length);
    if (!f) return 0;
    memcpy(f->data, packet->payload, packet->payload_length);
    packet->payload = f->data;
    q->bytes = f;
    return 1;
}

static uint32_t tm_bytes(tm_switch *tm, p4_packet *packet, uint8_t *out, uint32_t capacity) {
    return tm->program->deparse(tm->instance, packet, out, capacity);
}

/* ---- packets that begin another pass: resubmitted and recirculated ones, clones of egress ---- */

/* Starts a packet over, with the same state block or another one; only a field list survives. */
static void start_again(tm_switch *tm, p4_packet *to, const p4_packet *from, int32_t fields, uint32_t instance_type,
                        const uint8_t *data, uint32_t length) {
    memset(to, 0, sizeof *to);
    to->mark = from->mark;
    to->std.packet_length = length;
    to->std.priority = (uint16_t)tm->priority;
    to->std.ingress_global_timestamp = tm_p4_time(tm, tm->now);
    to->now_ns = tm->now;
    to->data = data;
    to->length = length;
    tm->program->start(tm->instance, to);
    tm->program->copy_fields(tm->instance, to, from, fields);
    to->std.instance_type = instance_type;
}

/* Shorten a clone, whose headers and payload have `bytes`, to what its session allows. Headers stay whole in its
 * state; those that are too long are cut when it leaves. */
static void shorten(const tm_switch *tm, uint32_t session, p4_packet *clone, uint32_t bytes) {
    uint32_t limit = tm->sessions[session].length, headers = bytes - clone->payload_length;
    if (!limit || bytes <= limit) return;
    clone->payload_length = limit > headers ? limit - headers : 0;
    if (limit < headers) clone->req.truncate = limit;
    clone->req.growth = (int32_t)limit - (int32_t)clone->length; /* packet_length is the shorter one */
}

/* The clone is the packet as it leaves egress; it starts egress again. */
static void clone_from_egress(tm_switch *tm, const p4_packet *packet) {
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
    clone->std.priority = (uint16_t)tm->priority;
    tm->program->reset_metadata(tm->instance, clone);
    tm->program->copy_fields(tm->instance, clone, packet, packet->req.clone_fields);
    clone->std.instance_type = P4_EGRESS_CLONE;
    clone->req.growth = packet->req.growth; /* its packet_length is that of the packet that leaves */
    shorten(tm, session, clone, packet->length + (uint32_t)packet->req.growth);
    q->kind = FOR_SESSION;
    q->session = session;
    tm->stats.clones++;
    tm_push_pending(tm, q);
}

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
    clone->mark = packet->mark;
    clone->data = packet->data;
    clone->length = packet->length;
    program->start(tm->instance, clone);
    program->parse(tm->instance, clone);
    memset(&clone->std, 0, sizeof clone->std);
    clone->std.priority = (uint16_t)tm->priority;
    program->reset_metadata(tm->instance, clone);
    program->copy_fields(tm->instance, clone, packet, packet->req.clone_fields);
    clone->std.instance_type = P4_INGRESS_CLONE;
    shorten(tm, session, clone, clone->length);
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
        start_again(tm, &q->packet, packet, packet->req.resubmit_fields, P4_RESUBMIT, packet->data,
                    packet->length);
        p4_packet_copy(program, packet, &q->packet);
        tm_packet_free(tm, q);
        tm->stats.resubmits++;
    }
    if (packet->std.mcast_grp) {
        packet->req.truncate = 0; /* nor does this pass to copies */
        packet->std.instance_type = P4_REPLICATION;
        multicast(tm, packet->std.mcast_grp, packet, 0);
    } else if (packet->std.egress_spec == P4_DROP_PORT) {
        tm->stats.ingress_drops++;
    } else {
        packet->std.instance_type = P4_NORMAL;
        tm_to_port(tm, packet->std.egress_spec, packet, 0);
    }
}

static void tm_arrive(tm_switch *tm, uint32_t number, const uint8_t *data, uint32_t length, uint64_t mark) {
    p4_packet *packet = tm->scratch;
    memset(&packet->std, 0, sizeof packet->std);
    packet->std.ingress_port = number;
    packet->std.packet_length = length;
    packet->std.priority = (uint16_t)tm->priority;
    packet->std.ingress_global_timestamp = tm_p4_time(tm, tm->now);
    packet->now_ns = tm->now;
    packet->mark = mark;
    packet->data = data;
    packet->length = length;
    tm->program->start(tm->instance, packet);
    tm->stats.received++;
    ingress(tm, packet);
}

static void tm_pass(tm_switch *tm, queued_packet *q) {
    if (q->kind == FOR_INGRESS)
        ingress(tm, &q->packet);
    else if (tm_session_exists(tm, q->session))
        send_to_session(tm, q->session, &q->packet);
}

/* ---- the egress pipeline ---- */

static void tm_egress(tm_switch *tm, uint32_t number, port *p, p4_packet *packet, uint32_t qid, uint64_t depth) {
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
        clone_from_egress(tm, packet);
        packet->req.clone = 0;
    }
    if (std->egress_spec == P4_DROP_PORT) {
        tm->stats.egress_drops++;
        return;
    }
    if (packet->req.recirculate) {
        packet->req.truncate = 0; /* the whole packet goes round */
        queued_packet *q = tm_packet_new(tm);
        if (!q) return;
        uint8_t *bytes;
        uint32_t length = tm_deparse(tm, packet, &q->bytes, &bytes);
        if (!bytes) {
            q->bytes = NULL;
            tm_packet_free(tm, q);
            return;
        }
        start_again(tm, &q->packet, packet, packet->req.recirculate_fields, P4_RECIRC, bytes, length);
        q->kind = FOR_INGRESS;
        tm->stats.recirculations++;
        tm_push_pending(tm, q);
        return;
    }
    if (!p) {
        tm->stats.no_port++;
        return;
    }
    tm_transmit(tm, number, p, packet);
}

#endif
