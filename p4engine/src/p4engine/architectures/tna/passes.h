/* What happens to a packet in TNA and T2NA: ingress, what its deparser asks for, the traffic manager's copies, egress. */
#ifndef PASSES_H
#define PASSES_H

#include "tm_out.h"

#define HEAD_ROOM 8192 /* bytes that an ingress deparser can write; no chip has so many in its headers */

enum { FOR_INGRESS, FOR_EGRESS }; /* the kinds of passes that wait */

/* ---- bytes ---- */

static uint64_t time_ns(const tm_switch *tm) {
    return (tm->now > tm->epoch_ns ? tm->now - tm->epoch_ns : 0) & 0xffffffffffffull;
}

static void free_joined(tm_switch *tm, frame *f) {
    while (f) {
        frame *next = f->next;
        tm_frame_free(tm, f);
        f = next;
    }
}

static uint32_t copy_pieces(const p4_packet *packet, uint8_t *out) {
    if (packet->std.head) memcpy(out, packet->data, packet->std.head);
    if (packet->payload_length) memcpy(out + packet->std.head, packet->payload, packet->payload_length);
    return packet->std.head + packet->payload_length;
}

static int tm_copy_bytes(tm_switch *tm, queued_packet *q) {
    p4_packet *packet = &q->packet;
    frame *f = tm_frame_new(tm, packet->std.head + packet->payload_length);
    if (!f) return 0;
    packet->std.head = copy_pieces(packet, f->data);
    packet->data = f->data;
    packet->payload = NULL;
    packet->payload_length = 0;
    packet->std.joined = NULL;
    q->bytes = f;
    return 1;
}

/* A copy of a packet, which is in two pieces, goes to the mirror session that the program has named. */
static void mirror(tm_switch *tm, const p4_packet *packet, p4_piece first, p4_piece second) {
    uint32_t session = packet->req.mirror_session, header = packet->req.mirror_length;
    if (!tm_session_exists(tm, session)) return;
    uint32_t total = header + first.length + second.length, limit = tm->sessions[session].length;
    queued_packet *q = tm_packet_new(tm);
    if (!q) return;
    q->bytes = tm_frame_new(tm, total);
    if (!q->bytes) {
        tm_packet_free(tm, q);
        return;
    }
    uint8_t *out = q->bytes->data;
    memcpy(out, packet->req.mirror_header, header);
    if (first.length) memcpy(out + header, first.data, first.length);
    if (second.length) memcpy(out + header + first.length, second.data, second.length);
    if (limit && total > limit) total = limit;
    memset(&q->packet, 0, sizeof q->packet);
    q->packet.std.ingress_port = packet->std.ingress_port;
    q->packet.std.tm = tm;
    q->packet.now_ns = tm->now;
    q->packet.mark = packet->mark;
    q->packet.data = out;
    q->packet.length = q->packet.std.head = total;
    q->kind = FOR_EGRESS;
    q->session = session;
    tm->stats.clones++;
    tm_push_pending(tm, q);
}

/* Whether the program wants a copy; the first Tofino mirrors what has come to ingress and what leaves egress. */
static int mirrors(const p4_packet *packet) { return packet->req.mirror && !(packet->std.drop_ctl & 4); }
static int mirrors_leaving(const p4_packet *packet, int egress) {
    return TOFINO == 2 ? packet->std.mirror_leaving : egress;
}

static uint32_t tm_bytes(tm_switch *tm, p4_packet *packet, uint8_t *out, uint32_t capacity) {
    if (packet->std.bypass_egress) {
        uint32_t length = packet->std.head + packet->payload_length;
        return length > capacity ? length : copy_pieces(packet, out);
    }
    packet->req.mirror = 0;
    uint32_t length = tm->program->deparse(tm->instance, packet, out, capacity);
    if (length <= capacity && mirrors(packet)) {
        if (mirrors_leaving(packet, 1))
            mirror(tm, packet, (p4_piece){out, length}, (p4_piece){0});
        else
            mirror(tm, packet, packet->std.next[0], packet->std.next[1]); /* as egress() has put them there */
    }
    return length;
}

/* ---- from ingress to the queues ---- */

/* Returns the number of copies. */
static uint32_t multicast(tm_switch *tm, uint32_t number, p4_packet *packet) {
    const group *g = tm->groups[number & (GROUPS - 1)];
    if (!g) {
        tm->stats.no_group++;
        return 0;
    }
    int prunes = packet->std.rid || packet->std.exclusion;
    uint32_t made = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        const tm_member *m = &g->members[i];
        if (prunes && m->rid == packet->std.rid && m->port == packet->std.exclusion) continue;
        if (packet->std.node_exclusion && m->rid == packet->std.node_exclusion) continue;
        packet->std.egress_rid = m->rid;
        packet->std.rid_first = !made++;
        tm->stats.copies++;
        tm_to_port(tm, m->port, packet, 1);
    }
    packet->std.egress_rid = 0;
    packet->std.rid_first = 0;
    return made;
}

/* The packet, deparsed, to wherever ingress wants it. */
static void leave(tm_switch *tm, p4_packet *packet) {
    const p4_std *std = &packet->std;
    int stays = std->drop_ctl & 1, unicast = !stays && std->egress_port != TNA_NO_PORT;
    uint32_t port = std->egress_port, copies = 0;
    if (!stays && std->mcast_grp_a) copies += multicast(tm, std->mcast_grp_a, packet);
    if (!stays && std->mcast_grp_b) copies += multicast(tm, std->mcast_grp_b, packet);
    if (std->copy_to_cpu && !(std->drop_ctl & 2)) {
        copies++;
        tm_to_port(tm, tm->cpu_port, packet, unicast);
    }
    if (unicast)
        tm_to_port(tm, port, packet, 0);
    else if (!copies)
        tm->stats.ingress_drops++;
}

static void begin(tm_switch *tm, p4_packet *packet, uint32_t port, const uint8_t *data, uint32_t length) {
    memset(&packet->std, 0, sizeof packet->std);
    memset(&packet->req, 0, offsetof(p4_requests, mirror_header));
    packet->payload = NULL;
    packet->payload_length = 0;
    packet->std.ingress_port = port;
    packet->std.priority = (uint16_t)tm->priority;
    packet->std.ingress_time = time_ns(tm);
    packet->std.tm = tm;
    packet->now_ns = tm->now;
    packet->data = data;
    packet->length = length;
}

static void ingress(tm_switch *tm, p4_packet *packet) {
    const p4_program *program = tm->program;
    for (;;) {
        if (!tm_pass_allowed(tm)) return;
        program->ingress(tm->instance, packet);
        frame *joined = packet->std.joined;
        packet->std.joined = NULL;
        uint8_t head[HEAD_ROOM];
        uint32_t length = 0;
        int good = !packet->req.failed && !packet->std.rejected;
        if (good) length = program->deparse_headers(tm->instance, packet, head, sizeof head);
        if (good && length > sizeof head) {
            packet->req.failed = 1;
            good = 0;
        }
        if (packet->req.failed) good = 0;
        tm->stats.failed += packet->req.failed;
        tm->stats.ingress_drops += packet->std.rejected && !packet->req.failed;
        if (good && mirrors(packet)) {
            if (mirrors_leaving(packet, 0))
                mirror(tm, packet, (p4_piece){head, length}, (p4_piece){packet->payload, packet->payload_length});
            else
                mirror(tm, packet, (p4_piece){packet->data, packet->length}, (p4_piece){0});
        }
        int again = good && packet->req.resubmit && !packet->std.resubmit_flag && !(packet->std.drop_ctl & 1);
        if (again) {
            uint64_t data = packet->req.resubmit_data;
            begin(tm, packet, packet->std.ingress_port, packet->data, packet->length);
            packet->std.resubmit_flag = 1;
            packet->std.word = data;
            tm->stats.resubmits++;
        } else if (good) {
            packet->data = head;
            packet->std.head = length;
            packet->length = length + packet->payload_length;
            leave(tm, packet);
        }
        free_joined(tm, joined);
        if (!again) return;
    }
}

static void tm_arrive(tm_switch *tm, uint32_t number, const uint8_t *data, uint32_t length, uint64_t mark) {
    tm->scratch->mark = mark;
    begin(tm, tm->scratch, number, data, length);
    tm->stats.received++;
    ingress(tm, tm->scratch);
}

static void tm_pass(tm_switch *tm, queued_packet *q) {
    if (q->kind == FOR_INGRESS) {
        ingress(tm, &q->packet);
        return;
    }
    if (!tm_session_exists(tm, q->session)) return;
    int32_t port = tm->sessions[q->session].port, group = tm->sessions[q->session].group;
    if (group >= 0) multicast(tm, (uint32_t)group, &q->packet);
    if (port >= 0) tm_to_port(tm, (uint32_t)port, &q->packet, 0);
}

/* ---- from a queue to the outside ---- */

/* Ports 68 to 71 of each pipe have no cable, of the second Tofino port 6. What leaves there comes back into ingress. */
static int recirculates(uint32_t number) {
    uint32_t port = number & 127;
    return TOFINO == 2 ? port == 6 : port >= 68 && port <= 71;
}

static void recirculate(tm_switch *tm, uint32_t number, p4_packet *packet) {
    queued_packet *q = tm_packet_new(tm);
    if (!q) return;
    uint8_t *bytes;
    uint32_t length = tm_deparse(tm, packet, &q->bytes, &bytes);
    if (!bytes) {
        q->bytes = NULL;
        tm_packet_free(tm, q);
        return;
    }
    begin(tm, &q->packet, number, bytes, length);
    q->packet.mark = packet->mark;
    q->kind = FOR_INGRESS;
    tm->stats.recirculations++;
    tm_push_pending(tm, q);
}

/* The program's egress; returns 0 for a packet that ends there. */
static int egress(tm_switch *tm, p4_packet *packet) {
    p4_std *std = &packet->std;
    memset(&packet->req, 0, offsetof(p4_requests, mirror_header));
    std->next[0] = (p4_piece){packet->data, std->head};
    std->next[1] = (p4_piece){packet->payload, packet->payload_length};
    std->pieces = 2;
    std->piece = 0;
    std->parser_error = 0;
    tm->program->egress(tm->instance, packet);
    if (packet->req.failed) {
        tm->stats.failed++;
        return 0;
    }
    if (!std->rejected && !(std->drop_ctl & 1)) return 1;
    tm->stats.egress_drops++;
    if (!std->rejected) { /* it can still be mirrored */
        frame *f;
        uint8_t *bytes;
        tm_deparse(tm, packet, &f, &bytes);
        if (bytes) tm_frame_free(tm, f);
    }
    return 0;
}

static void tm_egress(tm_switch *tm, uint32_t number, port *p, p4_packet *packet, uint32_t qid, uint64_t depth) {
    if (!tm_pass_allowed(tm)) return;
    p4_std *std = &packet->std;
    std->egress_port = number;
    std->egress_time = time_ns(tm);
    std->deq_timedelta = (uint32_t)std->egress_time - std->enq_timestamp;
    std->deq_qdepth = (uint32_t)depth;
    std->qid = (uint16_t)qid;
    packet->now_ns = tm->now;
    if (std->bypass_egress || egress(tm, packet)) {
        if (number < TM_PORTS && tm->loops[number])
            recirculate(tm, number, packet);
        else if (p)
            tm_transmit(tm, number, p, packet);
        else if (recirculates(number))
            recirculate(tm, number, packet);
        else
            tm->stats.no_port++;
    }
    free_joined(tm, std->joined);
    std->joined = NULL;
}

#endif
