/* Where the traffic manager keeps packets (pools of frames and of packet states, the built-in sink), and
 * the lists of packets in order of time whose first ones form the heap of events. */
#include "pages.h"
#include "tm_state.h"

/* ---- storage ---- */

#define MIN_SLAB_BYTES (64u << 10)
#define PREFETCHED_LINES 7 /* a frame's head and 384 bytes */

/* Close to each other: what a frame is too large by is memory that is never used. */
static const uint32_t frame_bytes[FRAME_SIZES] = {384, 768, 1536, 3072, 4608, 9216, 16384, 0};

/* Memory for a frame or a queued packet. At high rates a switch has thousands of them, and each is read long after
 * it was written. So they lie together, in slabs that grow to the size of a large page. */
void *tm_slab_alloc(tm_switch *tm, uint64_t bytes) {
    bytes = (bytes + 63) / 64 * 64;
    slab *s = tm->slabs;
    if (!s || s->used + bytes > s->size) {
        uint64_t size = bytes + 64;
#ifndef __SANITIZE_ADDRESS__ /* which sees what goes beyond a piece only where it is on its own */
        size = !s ? MIN_SLAB_BYTES : s->size < LARGE_PAGE / 8 ? 8 * s->size : LARGE_PAGE;
        while (size < bytes + 64) size *= 2;
#endif
        s = pages_alloc(size);
        if (!s) {
            tm->stats.no_memory++;
            return NULL;
        }
        *s = (slab){tm->slabs, size, 64};
        tm->slabs = s;
    }
    s->used += bytes;
    return (uint8_t *)s + s->used - bytes;
}

static inline void prefetch_frame(const frame *f, uint32_t length, int write) {
    const uint8_t *begin = (const uint8_t *)f;
    for (uint32_t i = 0; i < sizeof *f + length; i += 64)
        if (write)
            __builtin_prefetch(begin + i, 1);
        else
            __builtin_prefetch(begin + i);
}

frame *tm_frame_new(tm_switch *tm, uint32_t length) {
    uint32_t size = 0;
    while (size < FRAME_SIZES - 1 && frame_bytes[size] < length) size++;
    frame *f = tm->free_frames[size];
    if (f && size < FRAME_SIZES - 1) {
        tm->free_frames[size] = f->next;
        prefetch_frame(f->next, length, 1);
    } else {
        if (size < FRAME_SIZES - 1) {
            f = tm_slab_alloc(tm, sizeof *f + frame_bytes[size]);
        } else {
            f = aligned_alloc(64, sizeof *f + ((size_t)length + 63) / 64 * 64);
            if (!f) tm->stats.no_memory++;
        }
        if (!f) return NULL;
        f->size = size;
    }
    f->next = NULL;
    f->length = length;
    f->head = 0;
    return f;
}

void tm_frame_free(tm_switch *tm, frame *f) {
    if (!f) return;
    if (f->size == FRAME_SIZES - 1) { /* rare and large: not kept */
        free(f);
        return;
    }
    f->next = tm->free_frames[f->size];
    tm->free_frames[f->size] = f;
}

queued_packet *tm_packet_new(tm_switch *tm) {
    queued_packet *q = tm->free_packets;
    if (q) {
        tm->free_packets = q->next;
    } else {
        q = tm_slab_alloc(tm, offsetof(queued_packet, packet) + tm->packet_room);
        if (!q) return NULL;
    }
    q->next = NULL;
    q->bytes = NULL;
    q->charge = NULL;
    return q;
}

void tm_packet_free(tm_switch *tm, queued_packet *q) {
    tm_frame_free(tm, q->bytes);
    q->next = tm->free_packets;
    tm->free_packets = q;
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

uint8_t *tm_builtin_room(void *context, uint32_t bytes) {
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

void tm_builtin_emit(void *context, uint32_t port, uint64_t time_ns, uint32_t length) {
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

/* ---- lists of packets and their events ---- */

/* Of arrivals at the same time, a draw says which comes first, a new one for each time: no port is favoured. */
static uint64_t order_of(const tm_switch *tm, const event_list *l) {
    if (l->kind != ARRIVALS) return l->order;
    uint64_t drawn = tm_mix(tm->seed ^ tm_mix(l->time << 9 | l->port));
    return ARRIVED | drawn >> 13 << 11 | l->order;
}

static int earlier(const tm_switch *tm, const event_list *a, const event_list *b) {
    return a->time != b->time ? a->time < b->time : order_of(tm, a) < order_of(tm, b);
}

static void heap_put(tm_switch *tm, int32_t place, event_list *l) {
    tm->heap[place] = l;
    l->place = place;
}

static void heap_up(tm_switch *tm, event_list *l) {
    int32_t place = l->place;
    while (place > 0 && earlier(tm, l, tm->heap[(place - 1) / 2])) {
        heap_put(tm, place, tm->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    heap_put(tm, place, l);
}

static void heap_down(tm_switch *tm, event_list *l) {
    int32_t place = l->place;
    for (;;) {
        int32_t child = 2 * place + 1;
        if (child >= tm->heap_count) break;
        if (child + 1 < tm->heap_count && earlier(tm, tm->heap[child + 1], tm->heap[child])) child++;
        if (!earlier(tm, tm->heap[child], l)) break;
        heap_put(tm, place, tm->heap[child]);
        place = child;
    }
    heap_put(tm, place, l);
}

void tm_event_set(tm_switch *tm, event_list *l, uint64_t time, uint64_t since) {
    l->time = time;
    l->order = (uint64_t)l->port << 2 | l->kind;
    if (l->kind == DEPARTURES || l->kind == DEQUEUES) l->order |= since < time ? since << 11 : CERTAIN_LATE;
    if (l->place < 0) l->place = tm->heap_count++; /* capacity: for all lists of each port */
    heap_up(tm, l);
    heap_down(tm, l);
}

void tm_event_remove(tm_switch *tm, event_list *l) {
    event_list *moved = tm->heap[--tm->heap_count];
    int32_t place = l->place;
    l->place = -1;
    if (moved == l) return;
    heap_put(tm, place, moved);
    heap_up(tm, moved);
    heap_down(tm, moved);
}

void tm_list_push(tm_switch *tm, event_list *l, frame *f, uint64_t time, uint64_t since) {
    f->time = time;
    f->since = since;
    if (!l->first) {
        l->first = l->last = f;
    } else if (l->last->time <= time) {
        l->last->next = f;
        l->last = f;
        return;
    } else { /* overtakes: only after a packet that was reordered */
        frame **at = &l->first;
        while ((*at)->time <= time) at = &(*at)->next;
        f->next = *at;
        *at = f;
        if (l->first != f) return;
    }
    tm_event_set(tm, l, f->time, f->since);
}

frame *tm_list_pop(tm_switch *tm, event_list *l) {
    frame *f = l->first;
    l->first = f->next;
    if (l->first) {
        tm_event_set(tm, l, l->first->time, l->first->since);
        prefetch_frame(l->first, tm_frame_kept(l->first), 0);
        __builtin_prefetch(l->first->next);
    } else
        tm_event_remove(tm, l);
    return f;
}

/* What the next event handles was written long ago, in between many others, and is no longer in the caches. The
 * processor fetches it while the caller goes on. */
void tm_prefetch_next(const tm_switch *tm) {
    if (!tm->heap_count) return;
    const event_list *l = tm->heap[0];
    const uint8_t *next = l->kind == DEQUEUES ? (const uint8_t *)tm->ports[l->port]->first : (const uint8_t *)l->first;
    for (int i = 0; i < PREFETCHED_LINES; i++) __builtin_prefetch(next + 64 * i);
}

/* ---- the queue of an ingress link ---- */

void tm_start_queue_expire(start_queue *q, uint64_t now) {
    while (q->count && q->times[q->head] <= now) {
        q->bytes -= q->lengths[q->head];
        q->head = (q->head + 1) & (q->capacity - 1);
        q->count--;
    }
}

int tm_start_queue_push(start_queue *q, uint64_t time, uint32_t length) {
    if (q->count == q->capacity) {
        uint32_t capacity = q->capacity ? 2 * q->capacity : 64;
        uint64_t *times = malloc(capacity * sizeof *times);
        uint32_t *lengths = malloc(capacity * sizeof *lengths);
        if (!times || !lengths) {
            free(times);
            free(lengths);
            return 0;
        }
        for (uint32_t i = 0; i < q->count; i++) {
            uint32_t from = (q->head + i) & (q->capacity - 1);
            times[i] = q->times[from];
            lengths[i] = q->lengths[from];
        }
        free(q->times);
        free(q->lengths);
        q->times = times;
        q->lengths = lengths;
        q->capacity = capacity;
        q->head = 0;
    }
    uint32_t at = (q->head + q->count) & (q->capacity - 1);
    q->times[at] = time;
    q->lengths[at] = length;
    q->count++;
    q->bytes += length;
    return 1;
}
