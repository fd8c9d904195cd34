/* Making a switch: its ports, links, groups and sessions, and what it has counted. See tm.h. */
#include <stdlib.h>

#include "tm_state.h"

tm_switch *tm_create(const p4_program *program, p4_instance *instance, uint64_t seed, uint64_t epoch_ns,
                     uint64_t unit_ns) {
    if (!program || program->abi != P4_ABI_VERSION || !unit_ns) return NULL;
    tm_switch *tm = calloc(1, sizeof *tm);
    if (!tm) return NULL;
    tm->program = program;
    tm->instance = instance;
    tm->calls = &tm_architecture;
    tm->seed = seed;
    tm->epoch_ns = tm->now = epoch_ns;
    tm->instant = TM_INSTANT;
    tm->unit_ns = unit_ns;
    tm->queue_count = 1;
    tm->deflection = -1;
    tm->cpu_port = P4_CPU_PORT;
    tm->packet_room = program->packet_size;
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

/* Frees the frames that have memory of their own; all others, and queued packets, lie in slabs. */
static uint64_t free_event_list(tm_switch *tm, event_list *l) {
    uint64_t count = 0;
    for (; l->first; count++) {
        frame *f = l->first;
        l->first = f->next;
        tm_frame_free(tm, f);
    }
    return count;
}

static void free_queued(tm_switch *tm, queued_packet *q) {
    for (; q; q = q->next) tm_frame_free(tm, q->bytes);
}

void tm_destroy(tm_switch *tm) {
    if (!tm) return;
    if (tm->lossless) tm_lossless_free(tm);
    for (uint32_t i = 0; i < TM_PORTS; i++) {
        port *p = tm->ports[i];
        if (!p) continue;
        free_event_list(tm, &p->arrivals);
        free_event_list(tm, &p->departures);
        free_queued(tm, p->first);
        tm_queues_free(tm, p);
        free(p->ingress_queue.times);
        free(p->ingress_queue.lengths);
        free(p);
    }
    free_queued(tm, tm->pending);
    while (tm->slabs) {
        slab *s = tm->slabs;
        tm->slabs = s->next;
        free(s);
    }
    if (tm->groups)
        for (uint32_t i = 0; i < GROUPS; i++) free(tm->groups[i]);
    free(tm->groups);
    free(tm->sessions);
    free(tm->scratch);
    free(tm->spare);
    free(tm->heap);
    free(tm->notes);
    free(tm->filled);
    free(tm->outputs);
    free(tm->bytes);
    free(tm);
}

int tm_program_set(tm_switch *tm, const p4_program *program, p4_instance *instance) {
    if (!program || program->abi != P4_ABI_VERSION) return TM_BAD_VALUE;
    if (program->packet_size > tm->packet_room) {
        p4_packet *scratch = aligned_alloc(64, program->packet_size);
        p4_packet *spare = aligned_alloc(64, program->packet_size);
        if (!scratch || !spare) {
            free(scratch);
            free(spare);
            return TM_NO_MEMORY;
        }
        free(tm->scratch);
        free(tm->spare);
        tm->scratch = scratch;
        tm->spare = spare;
    }
    if (program != tm->program) {
        for (uint32_t i = 0; i < TM_PORTS; i++) {
            port *p = tm->ports[i];
            if (p) p->link[TM_EGRESS].counters.queue_drops += tm_queues_empty(tm, p, TM_QUEUE_FULL);
        }
        memset(tm->scratch, 0, program->packet_size);
        memset(tm->spare, 0, program->packet_size);
    }
    if (program->packet_size > tm->packet_room) {
        tm->free_packets = NULL; /* too small; they lie in slabs, which are freed with the switch */
        tm->packet_room = program->packet_size;
    }
    tm->program = program;
    tm->instance = instance;
    return TM_OK;
}

int tm_port_add(tm_switch *tm, uint32_t number) {
    if (number >= TM_PORTS) return TM_BAD_VALUE;
    if (tm->ports[number]) return TM_EXISTS;
    if (tm->lossless) return TM_BAD_VALUE;
    port *p = calloc(1, sizeof *p);
    event_list **heap = realloc(tm->heap, (size_t)(tm->heap_capacity + 4) * sizeof *heap);
    if (heap) tm->heap = heap;
    if (!p || !heap || !tm_queues_new(tm, p)) {
        free(p);
        return TM_NO_MEMORY;
    }
    tm->heap_capacity += 4; /* its lists, and that of a lossless link */
    tm_link_init(&p->link[TM_INGRESS], tm->seed, number, TM_INGRESS);
    tm_link_init(&p->link[TM_EGRESS], tm->seed, number, TM_EGRESS);
    event_list *lists[] = {&p->arrivals, &p->departures, &p->dequeues};
    const uint8_t kinds[] = {ARRIVALS, DEPARTURES, DEQUEUES};
    for (int i = 0; i < 3; i++) {
        lists[i]->place = -1;
        lists[i]->port = (uint16_t)number;
        lists[i]->kind = kinds[i];
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
    port *p = tm->ports[number];
    if (direction == TM_EGRESS) return tm_egress_shape(tm, p, shape, 1, 1);
    return tm_link_shape(&p->link[direction], shape);
}

int tm_port_shape_get(const tm_switch *tm, uint32_t number, uint32_t direction, tm_shape *shape) {
    if (!tm_port_exists(tm, number)) return TM_NO_SUCH_PORT;
    if (direction > TM_EGRESS) return TM_BAD_VALUE;
    const port *p = tm->ports[number];
    *shape = direction == TM_EGRESS ? tm_egress_shape_get(p) : p->link[direction].shape;
    return TM_OK;
}

int tm_port_counters(const tm_switch *tm, uint32_t number, uint32_t direction, tm_counters *counters) {
    if (!tm_port_exists(tm, number)) return TM_NO_SUCH_PORT;
    if (direction > TM_EGRESS) return TM_BAD_VALUE;
    *counters = tm->ports[number]->link[direction].counters;
    return TM_OK;
}

/* Drops what is on its way; returns how much it was. */
static uint64_t empty_link(tm_switch *tm, event_list *l) {
    uint32_t direction = l->kind == ARRIVALS ? TM_INGRESS : TM_EGRESS;
    if (l->first) tm_event_remove(tm, l);
    for (frame *f = l->first; f; f = f->next)
        tm_tell(tm, TM_DOWN, l->port, direction, tm->now, f->data, f->head ? f->head : f->length, f->mark);
    uint64_t count = free_event_list(tm, l);
    l->last = NULL;
    return count;
}

int tm_port_up_set(tm_switch *tm, uint32_t number, int up) {
    if (!tm_port_exists(tm, number)) return TM_NO_SUCH_PORT;
    port *p = tm->ports[number];
    tm_link *in = &p->link[TM_INGRESS], *out = &p->link[TM_EGRESS];
    if (in->down == !up) return TM_OK;
    if (!up) {
        in->counters.down_drops += empty_link(tm, &p->arrivals);
        out->counters.down_drops += tm_queues_empty(tm, p, TM_DOWN) + empty_link(tm, &p->departures);
        p->ingress_queue.count = 0;
        p->ingress_queue.bytes = 0;
        if (p->lossless) tm_lossless_down(tm, p);
    }
    tm_link_up(in, up, tm->now);
    tm_link_up(out, up, tm->now);
    if (up && p->lossless) tm_lossless_up(tm, p);
    return TM_OK;
}

int tm_port_loop_set(tm_switch *tm, uint32_t number, int loops) {
    if (number >= TM_PORTS) return TM_NO_SUCH_PORT;
    if (!P4_LOOPS) return TM_BAD_VALUE;
    tm->loops[number] = loops != 0;
    return TM_OK;
}

int tm_deflection_set(tm_switch *tm, int32_t number) {
    if (number < -1 || number >= TM_PORTS) return TM_NO_SUCH_PORT;
    if (!P4_LOOPS) return TM_BAD_VALUE;
    tm->deflection = number;
    return TM_OK;
}

int tm_cpu_port_set(tm_switch *tm, uint32_t number) {
    if (number >= TM_PORTS) return TM_NO_SUCH_PORT;
    tm->cpu_port = number;
    return TM_OK;
}

int64_t tm_port_queue(tm_switch *tm, uint32_t number, uint32_t direction) {
    if (!tm_port_exists(tm, number)) return TM_NO_SUCH_PORT;
    if (direction > TM_EGRESS) return TM_BAD_VALUE;
    port *p = tm->ports[number];
    if (direction == TM_EGRESS) return (int64_t)p->waiting;
    if (p->lossless && tm_has_nic(p)) return tm_nic_waiting(p);
    tm_start_queue_expire(&p->ingress_queue, tm->now);
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

int tm_mirror_set(tm_switch *tm, uint32_t session, int32_t number, int32_t group, uint32_t length) {
    if (session >= SESSIONS || number >= TM_PORTS || group >= GROUPS || group == 0) return TM_BAD_VALUE;
    tm->sessions[session].port = number < 0 ? -1 : number;
    tm->sessions[session].group = group < 0 ? -1 : group;
    tm->sessions[session].length = length;
    return TM_OK;
}

void tm_set_early(tm_switch *tm, int early) {
    tm->early = early;
}

void tm_set_sink(tm_switch *tm, const tm_sink *sink) {
    tm->sink = sink ? *sink : (tm_sink){.context = tm, .room = tm_builtin_room, .emit = tm_builtin_emit};
}

uint64_t tm_outputs(const tm_switch *tm, const tm_output **outputs, const uint8_t **bytes) {
    *outputs = tm->outputs;
    *bytes = tm->bytes;
    return tm->output_count;
}

void tm_outputs_clear(tm_switch *tm) {
    tm->output_count = tm->byte_count = 0;
}

void tm_watch_set(tm_switch *tm, tm_told told) {
    tm->told = told;
}

void tm_stats_get(const tm_switch *tm, tm_stats *stats) {
    *stats = tm->stats;
}

void tm_stats_reset(tm_switch *tm) {
    memset(&tm->stats, 0, sizeof tm->stats);
    tm->note_count = tm->notes_missed = 0;
    for (uint32_t i = 0; i < TM_PORTS; i++) {
        if (!tm->ports[i]) continue;
        memset(&tm->ports[i]->link[TM_INGRESS].counters, 0, sizeof(tm_counters));
        memset(&tm->ports[i]->link[TM_EGRESS].counters, 0, sizeof(tm_counters));
        if (tm->lossless) tm_lossless_reset(tm, tm->ports[i]);
        for (uint32_t k = 0; tm->ports[i]->queues && k < tm->queue_count; k++) {
            tm_queue *seen = &tm->ports[i]->queues[k].seen;
            seen->packets = seen->bytes = seen->queue_drops = seen->max_queue = 0;
        }
    }
}
