/* See tm.h for what this is. The parts, in order: storage, lines and their events, the way through the
 * pipelines (ingress, after ingress, to a port, egress, out), and the calls of the interface. */
#include "tm.h"

#include <stdlib.h>

#include "tm_link.h"

#define GROUPS 65536
#define SESSIONS 32768
#define FRAME_SIZES 4

/* Bytes that belong to the switch: packets on a link, and the bytes of packets in a queue. */
typedef struct frame {
    struct frame *next;
    uint64_t time, order;
    uint32_t length;
    uint32_t size; /* class */
    uint8_t data[] __attribute__((aligned(64)));
} frame;

enum { FOR_INGRESS, FOR_SESSION };

/* A packet with its state: waiting for egress, or for a pass that another packet's pass has caused. */
typedef struct held {
    struct held *next;
    frame *bytes; /* what packet.data points into, NULL if it belongs to someone else */
    uint32_t session;
    uint8_t kind;
    p4_packet packet __attribute__((aligned(64)));
} held;

/* Packets in order of time, of which the first one is an event in the heap. */
enum { ARRIVALS, DEPARTURES, TURNS };
typedef struct line {
    uint64_t time, order; /* of the first packet */
    int32_t place;        /* in the heap, -1: empty */
    uint16_t port;
    uint8_t kind;
    frame *first, *last;
} line;

/* When the packets that wait in front of an ingress link will start; its bytes are in flight already. */
typedef struct starts {
    uint64_t *times;
    uint32_t *lengths;
    uint32_t capacity, head, count; /* capacity: a power of two */
    uint64_t bytes;
} starts;

typedef struct port {
    tm_link link[2];
    line arrivals;   /* of the ingress link */
    line departures; /* of the egress link */
    line turns;      /* the next one of the egress queue */
    starts ingress_queue;
    held *first, *last; /* egress queue */
    uint64_t waiting, waiting_bytes;
} port;

typedef struct group {
    uint32_t count;
    tm_member members[];
} group;

struct tm_switch {
    const p4_program *program;
    p4_instance *instance;
    p4_packet *scratch; /* the packet in ingress */
    p4_packet *spare;   /* the copy in egress while the original is still needed */
    uint64_t seed, epoch_ns, unit_ns, now, order;
    int64_t passes; /* left for this arrival or event */
    int early;
    tm_sink sink;
    tm_stats stats;
    port *ports[TM_PORTS];
    line **heap;
    int32_t heap_count, heap_capacity;
    held *pending, *pending_last;
    frame *free_frames[FRAME_SIZES];
    held *free_held;
    group **groups;
    struct { int32_t port, group; } *sessions;
    tm_output *outputs; /* the built-in sink */
    uint8_t *bytes;
    uint64_t output_count, output_capacity, byte_count, byte_capacity;
};

/* ---- storage ---- */

static const uint32_t frame_bytes[FRAME_SIZES] = {512, 2048, 16384, 0};

static frame *frame_new(tm_switch *tm, uint32_t length) {
    uint32_t size = 0;
    while (size < FRAME_SIZES - 1 && frame_bytes[size] < length) size++;
    frame *f = tm->free_frames[size];
    if (f && size < FRAME_SIZES - 1) {
        tm->free_frames[size] = f->next;
    } else {
        size_t bytes = size < FRAME_SIZES - 1 ? frame_bytes[size] : ((size_t)length + 63) / 64 * 64;
        f = aligned_alloc(64, sizeof *f + bytes);
        if (!f) {
            tm->stats.no_memory++;
            return NULL;
        }
        f->size = size;
    }
    f->next = NULL;
    f->length = length;
    return f;
}

static void frame_free(tm_switch *tm, frame *f) {
    if (!f) return;
    if (f->size == FRAME_SIZES - 1) { /* rare and large: not kept */
        free(f);
        return;
    }
    f->next = tm->free_frames[f->size];
    tm->free_frames[f->size] = f;
}

static held *held_new(tm_switch *tm) {
    held *h = tm->free_held;
    if (h) {
        tm->free_held = h->next;
    } else {
        h = aligned_alloc(64, offsetof(held, packet) + tm->program->packet_size);
        if (!h) {
            tm->stats.no_memory++;
            return NULL;
        }
    }
    h->next = NULL;
    h->bytes = NULL;
    return h;
}

static void held_free(tm_switch *tm, held *h) {
    frame_free(tm, h->bytes);
    h->next = tm->free_held;
    tm->free_held = h;
}

/* Gives a packet its own copy of the bytes that it points to. */
static int own_bytes(tm_switch *tm, held *h) {
    p4_packet *packet = &h->packet;
    frame *f = frame_new(tm, packet->length);
    if (!f) return 0;
    memcpy(f->data, packet->data, packet->length);
    if (packet->payload) packet->payload = f->data + (packet->payload - packet->data);
    packet->data = f->data;
    h->bytes = f;
    return 1;
}

static void push_pending(tm_switch *tm, held *h) {
    h->next = NULL;
    if (tm->pending)
        tm->pending_last->next = h;
    else
        tm->pending = h;
    tm->pending_last = h;
}

static uint8_t *own_room(void *context, uint32_t bytes) {
    tm_switch *tm = context;
    uint64_t start = (tm->byte_count + 63) / 64 * 64;
    if (start + bytes > tm->byte_capacity) {
        uint64_t capacity = 2 * (start + bytes);
        uint8_t *larger = realloc(tm->bytes, capacity);
        if (!larger) return NULL;
        tm->bytes = larger;
        tm->byte_capacity = capacity;
    }
    tm->byte_count = start;
    return tm->bytes + start;
}

static void own_emit(void *context, uint32_t port, uint64_t time_ns, uint32_t length) {
    tm_switch *tm = context;
    if (tm->output_count == tm->output_capacity) {
        uint64_t capacity = tm->output_capacity ? 2 * tm->output_capacity : 64;
        tm_output *larger = realloc(tm->outputs, capacity * sizeof *larger);
        if (!larger) {
            tm->stats.no_memory++;
            return;
        }
        tm->outputs = larger;
        tm->output_capacity = capacity;
    }
    tm->outputs[tm->output_count++] =
        (tm_output){.time_ns = time_ns, .offset = tm->byte_count, .length = length, .port = port};
    tm->byte_count += length;
}

/* ---- lines and their events ---- */

static int earlier(const line *a, const line *b) {
    return a->time != b->time ? a->time < b->time : a->order < b->order;
}

static void heap_put(tm_switch *tm, int32_t place, line *l) {
    tm->heap[place] = l;
    l->place = place;
}

static void heap_up(tm_switch *tm, line *l) {
    int32_t place = l->place;
    while (place > 0 && earlier(l, tm->heap[(place - 1) / 2])) {
        heap_put(tm, place, tm->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    heap_put(tm, place, l);
}

static void heap_down(tm_switch *tm, line *l) {
    int32_t place = l->place;
    for (;;) {
        int32_t child = 2 * place + 1;
        if (child >= tm->heap_count) break;
        if (child + 1 < tm->heap_count && earlier(tm->heap[child + 1], tm->heap[child])) child++;
        if (!earlier(tm->heap[child], l)) break;
        heap_put(tm, place, tm->heap[child]);
        place = child;
    }
    heap_put(tm, place, l);
}

static void event_set(tm_switch *tm, line *l, uint64_t time, uint64_t order) {
    l->time = time;
    l->order = order;
    if (l->place < 0) l->place = tm->heap_count++; /* capacity: three lines per port */
    heap_up(tm, l);
    heap_down(tm, l);
}

static void event_remove(tm_switch *tm, line *l) {
    line *moved = tm->heap[--tm->heap_count];
    int32_t place = l->place;
    l->place = -1;
    if (moved == l) return;
    heap_put(tm, place, moved);
    heap_up(tm, moved);
    heap_down(tm, moved);
}

static void line_push(tm_switch *tm, line *l, frame *f, uint64_t time) {
    f->time = time;
    f->order = tm->order++;
    if (!l->first) {
        l->first = l->last = f;
    } else if (l->last->time <= time) {
        l->last->next = f;
        l->last = f;
        return;
    } else { /* overtakes: only after a packet that was held back */
        frame **at = &l->first;
        while ((*at)->time <= time) at = &(*at)->next;
        f->next = *at;
        *at = f;
        if (l->first != f) return;
    }
    event_set(tm, l, f->time, f->order);
}

static frame *line_pop(tm_switch *tm, line *l) {
    frame *f = l->first;
    l->first = f->next;
    if (l->first)
        event_set(tm, l, l->first->time, l->first->order);
    else
        event_remove(tm, l);
    return f;
}

/* ---- the way through the pipelines ---- */

static void to_port(tm_switch *tm, uint32_t number, p4_packet *packet, int keep);

static int pass_allowed(tm_switch *tm) {
    if (--tm->passes >= 0) return 1;
    tm->stats.loop_drops++;
    return 0;
}

static uint64_t timestamp(const tm_switch *tm, uint64_t now_ns) {
    uint64_t since = now_ns > tm->epoch_ns ? now_ns - tm->epoch_ns : 0;
    return (tm->unit_ns == 1 ? since : since / tm->unit_ns) & 0xffffffffffffull;
}

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
        to_port(tm, g->members[i].port, packet, keep || i + 1 < g->count);
    }
}

/* A clone leaves for where its mirror session says. */
static void to_session(tm_switch *tm, uint32_t session, p4_packet *packet) {
    int32_t port = tm->sessions[session].port, group = tm->sessions[session].group;
    if (group >= 0) multicast(tm, (uint32_t)group, packet, port >= 0);
    if (port >= 0) to_port(tm, (uint32_t)port, packet, 0);
}

static int session_exists(const tm_switch *tm, uint32_t session) {
    return session < SESSIONS && (tm->sessions[session].port >= 0 || tm->sessions[session].group >= 0);
}

/* The clone is the packet as it was when ingress began, parsed again; of its metadata only the field list
 * survives. */
static void clone_to_egress(tm_switch *tm, const p4_packet *packet) {
    const p4_program *program = tm->program;
    uint32_t session = packet->req.clone_session;
    if (!session_exists(tm, session)) return;
    held *h = held_new(tm);
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
    to_session(tm, session, clone);
    held_free(tm, h);
}

/* The clone is the packet as it leaves egress; it starts egress again. */
static void clone_from_egress(tm_switch *tm, const p4_packet *packet) {
    uint32_t session = packet->req.clone_session;
    if (!session_exists(tm, session)) return;
    held *h = held_new(tm);
    if (!h) return;
    p4_packet *clone = &h->packet;
    p4_packet_copy(tm->program, clone, packet);
    if (!own_bytes(tm, h)) {
        held_free(tm, h);
        return;
    }
    memset(&clone->std, 0, sizeof clone->std);
    tm->program->reset_metadata(tm->instance, clone);
    tm->program->copy_fields(tm->instance, clone, packet, packet->req.clone_fields);
    clone->std.instance_type = P4_EGRESS_CLONE;
    h->kind = FOR_SESSION;
    h->session = session;
    tm->stats.clones++;
    push_pending(tm, h);
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
            clone_to_egress(tm, packet);
            packet->req.clone = 0;
        }
        if (!packet->req.resubmit) break;
        held *h = held_new(tm);
        if (!h) return;
        prepare_again(tm, &h->packet, packet, packet->req.resubmit_fields, P4_RESUBMIT, packet->data,
                      packet->length);
        p4_packet_copy(program, packet, &h->packet);
        held_free(tm, h);
        tm->stats.resubmits++;
    }
    if (packet->std.mcast_grp) {
        packet->std.instance_type = P4_REPLICATION;
        multicast(tm, packet->std.mcast_grp, packet, 0);
    } else if (packet->std.egress_spec == P4_DROP_PORT) {
        tm->stats.ingress_drops++;
    } else {
        packet->std.instance_type = P4_NORMAL;
        to_port(tm, packet->std.egress_spec, packet, 0);
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
            *to = frame_new(tm, capacity);
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
        if (to) frame_free(tm, *to);
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
            frame *copy = frame_new(tm, length);
            if (!copy) break;
            memcpy(copy->data, f->data, length);
            line_push(tm, &p->departures, copy, arrivals[i]);
        } else {
            line_push(tm, &p->departures, f, arrivals[i]);
            f = NULL;
        }
    }
    frame_free(tm, f);
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
    std->packet_length = packet->length;
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
        held *h = held_new(tm);
        if (!h) return;
        uint8_t *bytes;
        uint32_t length = deparse(tm, packet, &h->bytes, &bytes);
        if (!bytes) {
            h->bytes = NULL;
            held_free(tm, h);
            return;
        }
        prepare_again(tm, &h->packet, packet, packet->req.recirculate_fields, P4_RECIRC, bytes, length);
        h->kind = FOR_INGRESS;
        tm->stats.recirculations++;
        push_pending(tm, h);
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
static void to_port(tm_switch *tm, uint32_t number, p4_packet *packet, int keep) {
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
    held *h = held_new(tm);
    if (!h) return;
    p4_packet_copy(tm->program, &h->packet, packet);
    if (!own_bytes(tm, h)) {
        held_free(tm, h);
        return;
    }
    if (p->waiting++)
        p->last->next = h;
    else {
        p->first = h;
        event_set(tm, &p->turns, link->busy_until, tm->order++);
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
    held_free(tm, h);
    if (p->waiting) {
        uint64_t free_at = p->link[TM_EGRESS].limited ? p->link[TM_EGRESS].busy_until : tm->now;
        event_set(tm, &p->turns, free_at > tm->now ? free_at : tm->now, tm->order++);
    } else {
        event_remove(tm, &p->turns);
    }
}

/* Passes that other passes have caused: recirculated packets and clones of egress. */
static void settle(tm_switch *tm) {
    while (tm->pending) {
        held *h = tm->pending;
        tm->pending = h->next;
        if (h->kind == FOR_INGRESS)
            ingress(tm, &h->packet);
        else if (session_exists(tm, h->session))
            to_session(tm, h->session, &h->packet);
        held_free(tm, h);
    }
}

static void run_event(tm_switch *tm) {
    line *l = tm->heap[0];
    port *p = tm->ports[l->port];
    if (l->time > tm->now) tm->now = l->time;
    tm->passes = TM_PASSES;
    if (l->kind == TURNS) {
        take_turn(tm, p);
    } else {
        frame *f = line_pop(tm, l);
        if (l->kind == ARRIVALS)
            arrive(tm, l->port, f->data, f->length);
        else
            emit_copy(tm, l->port, f->time, f);
        frame_free(tm, f);
    }
    settle(tm);
}

/* ---- ingress queue ---- */

static void starts_expire(starts *s, uint64_t now) {
    while (s->count && s->times[s->head] <= now) {
        s->bytes -= s->lengths[s->head];
        s->head = (s->head + 1) & (s->capacity - 1);
        s->count--;
    }
}

static int starts_push(starts *s, uint64_t time, uint32_t length) {
    if (s->count == s->capacity) {
        uint32_t capacity = s->capacity ? 2 * s->capacity : 64;
        uint64_t *times = malloc(capacity * sizeof *times);
        uint32_t *lengths = malloc(capacity * sizeof *lengths);
        if (!times || !lengths) {
            free(times);
            free(lengths);
            return 0;
        }
        for (uint32_t i = 0; i < s->count; i++) {
            uint32_t from = (s->head + i) & (s->capacity - 1);
            times[i] = s->times[from];
            lengths[i] = s->lengths[from];
        }
        free(s->times);
        free(s->lengths);
        s->times = times;
        s->lengths = lengths;
        s->capacity = capacity;
        s->head = 0;
    }
    uint32_t at = (s->head + s->count) & (s->capacity - 1);
    s->times[at] = time;
    s->lengths[at] = length;
    s->count++;
    s->bytes += length;
    return 1;
}

/* A packet from the far end of a shaped link. */
static void come_in(tm_switch *tm, uint32_t number, port *p, const uint8_t *data, uint32_t length) {
    tm_link *link = &p->link[TM_INGRESS];
    starts *queue = &p->ingress_queue;
    starts_expire(queue, tm->now);
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
        if (!starts_push(queue, start, length)) tm->stats.no_memory++;
        if (queue->count > link->counters.max_queue) link->counters.max_queue = queue->count;
    }
    for (int i = 0; i < copies; i++) {
        if (arrivals[i] <= tm->now && !p->arrivals.first) {
            arrive(tm, number, data, length);
            settle(tm);
            continue;
        }
        frame *f = frame_new(tm, length);
        if (!f) return;
        memcpy(f->data, data, length);
        line_push(tm, &p->arrivals, f, arrivals[i]);
    }
}

/* ---- interface ---- */

tm_switch *tm_create(const p4_program *program, p4_instance *instance, uint64_t seed, uint64_t epoch_ns,
                     uint64_t unit_ns) {
    if (!program || program->abi != P4_ABI_VERSION || !unit_ns) return NULL;
    tm_switch *tm = calloc(1, sizeof *tm);
    if (!tm) return NULL;
    tm->program = program;
    tm->instance = instance;
    tm->seed = seed;
    tm->epoch_ns = tm->now = epoch_ns;
    tm->unit_ns = unit_ns;
    tm->scratch = aligned_alloc(64, program->packet_size);
    tm->spare = aligned_alloc(64, program->packet_size);
    tm->groups = calloc(GROUPS, sizeof *tm->groups);
    tm->sessions = malloc(SESSIONS * sizeof *tm->sessions);
    if (!tm->scratch || !tm->spare || !tm->groups || !tm->sessions) {
        tm_destroy(tm);
        return NULL;
    }
    memset(tm->scratch, 0, program->packet_size);
    memset(tm->spare, 0, program->packet_size);
    memset(tm->sessions, 0xff, SESSIONS * sizeof *tm->sessions); /* -1: no port, no group */
    tm_set_sink(tm, NULL);
    return tm;
}

static void free_line(line *l) {
    while (l->first) {
        frame *f = l->first;
        l->first = f->next;
        free(f);
    }
}

static void free_helds(held *h) {
    while (h) {
        held *next = h->next;
        free(h->bytes);
        free(h);
        h = next;
    }
}

void tm_destroy(tm_switch *tm) {
    if (!tm) return;
    for (uint32_t i = 0; i < TM_PORTS; i++) {
        port *p = tm->ports[i];
        if (!p) continue;
        free_line(&p->arrivals);
        free_line(&p->departures);
        free_helds(p->first);
        free(p->ingress_queue.times);
        free(p->ingress_queue.lengths);
        free(p);
    }
    free_helds(tm->pending);
    while (tm->free_held) {
        held *h = tm->free_held;
        tm->free_held = h->next;
        free(h);
    }
    for (int size = 0; size < FRAME_SIZES; size++)
        while (tm->free_frames[size]) {
            frame *f = tm->free_frames[size];
            tm->free_frames[size] = f->next;
            free(f);
        }
    if (tm->groups)
        for (uint32_t i = 0; i < GROUPS; i++) free(tm->groups[i]);
    free(tm->groups);
    free(tm->sessions);
    free(tm->scratch);
    free(tm->spare);
    free(tm->heap);
    free(tm->outputs);
    free(tm->bytes);
    free(tm);
}

int tm_port_add(tm_switch *tm, uint32_t number) {
    if (number >= TM_PORTS) return TM_BAD_VALUE;
    if (tm->ports[number]) return TM_EXISTS;
    port *p = calloc(1, sizeof *p);
    line **heap = realloc(tm->heap, (size_t)(tm->heap_capacity + 3) * sizeof *heap);
    if (heap) tm->heap = heap;
    if (!p || !heap) {
        free(p);
        return TM_NO_MEMORY;
    }
    tm->heap_capacity += 3;
    tm_link_init(&p->link[TM_INGRESS], tm->seed, number, TM_INGRESS);
    tm_link_init(&p->link[TM_EGRESS], tm->seed, number, TM_EGRESS);
    line *lines[] = {&p->arrivals, &p->departures, &p->turns};
    const uint8_t kinds[] = {ARRIVALS, DEPARTURES, TURNS};
    for (int i = 0; i < 3; i++) {
        lines[i]->place = -1;
        lines[i]->port = (uint16_t)number;
        lines[i]->kind = kinds[i];
    }
    tm->ports[number] = p;
    return TM_OK;
}

int tm_port_exists(const tm_switch *tm, uint32_t number) {
    return number < TM_PORTS && tm->ports[number];
}

int tm_port_shape(tm_switch *tm, uint32_t number, uint32_t direction, const tm_shape *shape) {
    if (!tm_port_exists(tm, number)) return TM_NO_SUCH_PORT;
    if (direction > TM_EGRESS) return TM_BAD_VALUE;
    return tm_link_shape(&tm->ports[number]->link[direction], shape);
}

int tm_port_shape_get(const tm_switch *tm, uint32_t number, uint32_t direction, tm_shape *shape) {
    if (!tm_port_exists(tm, number)) return TM_NO_SUCH_PORT;
    if (direction > TM_EGRESS) return TM_BAD_VALUE;
    *shape = tm->ports[number]->link[direction].shape;
    return TM_OK;
}

int tm_port_counters(const tm_switch *tm, uint32_t number, uint32_t direction, tm_counters *counters) {
    if (!tm_port_exists(tm, number)) return TM_NO_SUCH_PORT;
    if (direction > TM_EGRESS) return TM_BAD_VALUE;
    *counters = tm->ports[number]->link[direction].counters;
    return TM_OK;
}

int64_t tm_port_queue(tm_switch *tm, uint32_t number, uint32_t direction) {
    if (!tm_port_exists(tm, number)) return TM_NO_SUCH_PORT;
    if (direction > TM_EGRESS) return TM_BAD_VALUE;
    port *p = tm->ports[number];
    if (direction == TM_EGRESS) return (int64_t)p->waiting;
    starts_expire(&p->ingress_queue, tm->now);
    return p->ingress_queue.count;
}

int tm_group_set(tm_switch *tm, uint32_t number, const tm_member *members, uint32_t count) {
    if (number == 0 || number >= GROUPS || count > TM_PASSES / 2) return TM_BAD_VALUE;
    for (uint32_t i = 0; i < count; i++)
        if (members[i].port >= TM_PORTS) return TM_BAD_VALUE;
    group *g = malloc(sizeof *g + count * sizeof *members);
    if (!g) return TM_NO_MEMORY;
    g->count = count;
    if (count) memcpy(g->members, members, count * sizeof *members);
    free(tm->groups[number]);
    tm->groups[number] = g;
    return TM_OK;
}

int tm_group_delete(tm_switch *tm, uint32_t number) {
    if (number >= GROUPS || !tm->groups[number]) return TM_NO_SUCH_GROUP;
    free(tm->groups[number]);
    tm->groups[number] = NULL;
    return TM_OK;
}

int64_t tm_group_get(const tm_switch *tm, uint32_t number, tm_member *members, uint32_t capacity) {
    if (number >= GROUPS || !tm->groups[number]) return TM_NO_SUCH_GROUP;
    const group *g = tm->groups[number];
    uint32_t count = g->count < capacity ? g->count : capacity;
    if (count) memcpy(members, g->members, count * sizeof *members);
    return g->count;
}

int tm_mirror_set(tm_switch *tm, uint32_t session, int32_t number, int32_t group) {
    if (session >= SESSIONS || number >= TM_PORTS || group >= GROUPS || group == 0) return TM_BAD_VALUE;
    tm->sessions[session].port = number < 0 ? -1 : number;
    tm->sessions[session].group = group < 0 ? -1 : group;
    return TM_OK;
}

int tm_receive(tm_switch *tm, uint32_t number, const uint8_t *data, uint32_t length, uint64_t now_ns) {
    if (number >= TM_PORTS || !tm->ports[number]) return TM_NO_SUCH_PORT;
    if (tm->heap_count && tm->heap[0]->time <= now_ns) tm_advance(tm, now_ns);
    if (now_ns > tm->now) tm->now = now_ns;
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
    if (now_ns > tm->now) tm->now = now_ns;
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

void tm_set_early(tm_switch *tm, int early) {
    tm->early = early;
}

void tm_set_sink(tm_switch *tm, const tm_sink *sink) {
    tm->sink = sink ? *sink : (tm_sink){.context = tm, .room = own_room, .emit = own_emit};
}

uint64_t tm_outputs(const tm_switch *tm, const tm_output **outputs, const uint8_t **bytes) {
    *outputs = tm->outputs;
    *bytes = tm->bytes;
    return tm->output_count;
}

void tm_outputs_clear(tm_switch *tm) {
    tm->output_count = tm->byte_count = 0;
}

void tm_stats_get(const tm_switch *tm, tm_stats *stats) {
    *stats = tm->stats;
}

void tm_stats_reset(tm_switch *tm) {
    memset(&tm->stats, 0, sizeof tm->stats);
    for (uint32_t i = 0; i < TM_PORTS; i++) {
        if (!tm->ports[i]) continue;
        memset(&tm->ports[i]->link[TM_INGRESS].counters, 0, sizeof(tm_counters));
        memset(&tm->ports[i]->link[TM_EGRESS].counters, 0, sizeof(tm_counters));
    }
}
