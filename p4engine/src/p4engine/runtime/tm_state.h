/* The traffic manager's insides, shared by its files. Each calls only those behind it in this list: tm_setup.c (makes
 * and frees a switch), tm.c (arrivals and events), with it passes.h of the architecture (tm_arrive and tm_pass: ingress;
 * tm_egress; and what these ask for) and tm_out.h (the way to the outside), tm_queues.c (egress queues), tm_link.c,
 * tm_notes.c, tm_store.c (the memory of packets, and their events); what is in tm_lossless.h calls, and is called by,
 * the queues and tm.c. The queues know of the architecture only what a
 * switch has in `calls`. Nothing outside of these files includes this. */
#ifndef TM_STATE_H
#define TM_STATE_H

#include "tm_link.h"

#define GROUPS 65536
#define SESSIONS 32768
#define FRAME_SIZES 8
#define CONTROL_MARK UINT64_MAX /* of frames of MAC control that leave; they are no packets that are sent */

/* Bytes that belong to the switch: packets on a link, and the bytes of packets in a queue. */
typedef struct frame {
    struct frame *next;
    uint64_t time, since; /* of its event, and when that was certain */
    uint64_t mark;        /* of its packet */
    uint32_t length;
    uint32_t size; /* class */
    uint32_t head; /* 0: all bytes are there; else so many, and what the others follow from */
    tm_fill fill;
    uint8_t data[] __attribute__((aligned(64)));
} frame;

/* A packet with its state: waiting for egress, or for a pass that another packet's pass has caused. */
typedef struct queued_packet {
    struct queued_packet *next;
    frame *bytes; /* its own: what packet.data or, where that is NULL, packet.payload points into; NULL: none */
    struct charge *charge; /* its bytes in the buffer of lossless links */
    uint32_t session;
    uint8_t kind; /* of the pass, as the architecture numbers them */
    p4_packet packet __attribute__((aligned(64)));
} queued_packet;

/* Packets in order of time, of which the first one is an event in the heap. DEQUEUES stands for an egress queue: its
 * time is that at which the queue's first packet begins to leave. Of events with the same time, packets that leave
 * come first (the one that was certain earlier, then that of the smaller port), so that there is room for those that
 * arrive; then arrivals, in an order drawn from the switch's seed; then what leaves since this moment alone. So the
 * order does not depend on who called when. CONTROLS stands for what lossless links do by themselves, which is first of
 * all. */
enum { ARRIVALS, DEPARTURES, DEQUEUES, CONTROLS };
#define ARRIVED (1ull << 62)
#define CERTAIN_LATE (1ull << 63)
typedef struct event_list {
    uint64_t time, order; /* of the first packet; order: since when, port, kind; an arrival's: see order_of */
    int32_t place;        /* in the heap, -1: empty */
    uint16_t port;
    uint8_t kind;
    frame *first, *last;
} event_list;

/* When the packets that wait in front of an ingress link will start; its bytes are in flight already. */
typedef struct start_queue {
    uint64_t *times;
    uint32_t *lengths;
    uint32_t capacity, head, count; /* capacity: a power of two */
    uint64_t bytes;
} start_queue;

/* One of several egress queues of a port. */
typedef struct priority_queue {
    queued_packet *first, *last;
    uint64_t waiting_bytes;
    uint64_t next_ns, remainder; /* its rate lets nothing leave before; the remainder in 1/rate ns */
    tm_queue seen;               /* `queue` are the waiting packets */
} priority_queue;

typedef struct port {
    tm_link link[2];
    event_list arrivals;   /* of the ingress link */
    event_list departures; /* of the egress link */
    event_list dequeues;   /* the next one of the egress queue */
    start_queue ingress_queue;
    queued_packet *first, *last; /* egress queue, if there is one */
    uint64_t waiting, waiting_bytes; /* `waiting`: of all queues */
    uint8_t again;          /* 1: notes of what comes in and was sent before */
    uint64_t entered_ns;             /* when a packet last got a place in a queue */
    priority_queue *queues; /* by priority, NULL: one queue */
    uint64_t rate_pps;      /* of all queues, as set last */
    struct lossless_port *lossless;
} port;

/* A piece of memory that frames and queued packets are parts of. They are used again, so it is never given
 * back while there is a switch. */
typedef struct slab {
    struct slab *next;
    uint64_t size, used; /* bytes, this head included */
} slab;

typedef struct group {
    uint32_t count;
    tm_member members[];
} group;

/* What queues have the architecture do. */
typedef struct {
    /* The egress pipeline for a packet that has left queue `qid`, in which `depth` packets are left. No port: NULL. */
    void (*egress)(tm_switch *tm, uint32_t number, port *p, p4_packet *packet, uint32_t qid, uint64_t depth);
    /* Gives a packet its own copy of the bytes that are still needed; 0: out of memory. */
    int (*copy_bytes)(tm_switch *tm, queued_packet *q);
    /* tm_tell of a packet that was to leave through a port; of one that still needs its state, too. */
    void (*tell_packet)(tm_switch *tm, uint32_t port, uint32_t fate, p4_packet *packet);
} tm_calls;

struct tm_switch {
    const p4_program *program;
    p4_instance *instance;
    const tm_calls *calls;
    p4_packet *scratch; /* the packet in ingress */
    p4_packet *spare;   /* the copy in egress while the original is still needed */
    uint32_t packet_room; /* bytes for a packet's state, here and in queued packets */
    uint64_t seed, epoch_ns, unit_ns, now;
    int64_t passes; /* left for this arrival or event */
    int64_t instant; /* left for the events of this moment */
    int early;
    tm_sink sink;
    tm_told told; /* NULL: nobody watches */
    tm_stats stats;
    uint32_t queue_count; /* of each port */
    port *ports[TM_PORTS];
    event_list **heap;
    int32_t heap_count, heap_capacity;
    queued_packet *pending, *pending_last;
    frame *free_frames[FRAME_SIZES];
    queued_packet *free_packets;
    slab *slabs; /* the one in use first */
    group **groups;
    struct { int32_t port, group; uint32_t length; } *sessions;
    int32_t deflection;      /* the port for packets for which a queue has no room, -1: none */
    uint32_t cpu_port;       /* for copies to the CPU, where the architecture has such */
    uint8_t loops[TM_PORTS]; /* 1: the port is in loopback mode */
    struct lossless *lossless; /* NULL: links lose packets */
    struct charge *charge;     /* of the packet that has arrived, or has left its queue, and of all that it causes */
    uint32_t in_port, in_class, in_length; /* and where it came in, */
    uint32_t in_fresh;                     /* 1: just now */
    uint32_t in_keyed;                     /* 1: in_key is what is kept together, see tm_held.c */
    uint64_t in_key, in_drops;             /* and the program's drops before */
    uint32_t priority;                     /* its class, as programs see it */
    tm_subject subject;
    tm_note *notes;
    uint64_t notes_most, note_count, note_capacity, notes_missed;
    uint8_t *filled; /* the packet that arrives, if its frame has only its head */
    uint32_t filled_room;
    tm_output *outputs; /* the built-in sink */
    uint8_t *bytes;
    uint64_t output_count, output_capacity, byte_count, byte_capacity;
};

/* One more pass for this arrival or event; 0, and counted: there have been too many. */
static inline int tm_pass_allowed(tm_switch *tm) {
    if (--tm->passes >= 0) return 1;
    tm->stats.loop_drops++;
    return 0;
}

/* The time as programs see it, 48 bits. */
static inline uint64_t tm_p4_time(const tm_switch *tm, uint64_t now_ns) {
    uint64_t since = now_ns > tm->epoch_ns ? now_ns - tm->epoch_ns : 0;
    uint64_t unit_ns = P4_UNIT_NS(tm);
    return (unit_ns == 1 ? since : since / unit_ns) & 0xffffffffffffull;
}

/* ---- tm_store.c ---- */

frame *tm_frame_new(tm_switch *tm, uint32_t length); /* NULL: out of memory, counted */
void tm_frame_free(tm_switch *tm, frame *f);
static inline uint32_t tm_frame_kept(const frame *f) { return f->head ? f->head + TM_SEED : f->length; }
queued_packet *tm_packet_new(tm_switch *tm);
void tm_packet_free(tm_switch *tm, queued_packet *q);
void tm_push_pending(tm_switch *tm, queued_packet *q); /* a pass for the end of this arrival or event */
int tm_session_exists(const tm_switch *tm, uint32_t session);
uint8_t *tm_builtin_room(void *context, uint32_t bytes);
void tm_builtin_emit(void *context, uint32_t port, uint64_t time_ns, uint32_t length);
/* The first packet of a list is another one now. `since`: when its time was certain. */
void tm_event_set(tm_switch *tm, event_list *l, uint64_t time, uint64_t since);
void tm_event_remove(tm_switch *tm, event_list *l);
void tm_list_push(tm_switch *tm, event_list *l, frame *f, uint64_t time, uint64_t since); /* in the order of times */
frame *tm_list_pop(tm_switch *tm, event_list *l); /* the first packet; the list is not empty */
void tm_prefetch_next(const tm_switch *tm); /* what the next event will read first */
void tm_start_queue_expire(start_queue *q, uint64_t now); /* forgets the packets that have started */
int tm_start_queue_push(start_queue *q, uint64_t time, uint32_t length); /* 0: out of memory */

void *tm_slab_alloc(tm_switch *tm, uint64_t bytes); /* NULL: out of memory, counted */

/* ---- lossless links; only where tm->lossless or port.lossless are there ---- */

void tm_lossless_free(tm_switch *tm);
void tm_lossless_reset(tm_switch *tm, port *p);         /* counters */
void tm_lossless_down(tm_switch *tm, port *p);          /* the link is down; nothing waits any more */
void tm_lossless_up(tm_switch *tm, port *p);            /* it works again; the far end knows of no pause */
int tm_admit(tm_switch *tm, uint32_t number, queued_packet *q); /* a packet begins to wait; 0: no room */
int tm_kept_back(const tm_switch *tm, const p4_packet *packet); /* a full buffer, not a full queue, drops it */
void tm_release(tm_switch *tm, port *p, queued_packet *q); /* it waits no more, and is what passes are of from now on */
void tm_forget(tm_switch *tm, port *p, queued_packet *q);  /* it waits no more, and is dropped */
void tm_arrival_end(tm_switch *tm); /* all that follows from an arrival or an event has happened */
void tm_held_begin(tm_switch *tm, const uint8_t *data, uint32_t length);
uint32_t tm_class_of(const tm_switch *tm, const uint8_t *data, uint32_t length);
/* The first moment from `at` on at which a packet may leave; TM_NEVER: the far end must allow it first. */
uint64_t tm_gate_open(const tm_switch *tm, const port *p, const p4_packet *packet, uint64_t at);
void tm_gate_sent(tm_switch *tm, port *p, const p4_packet *packet, uint32_t length);
void tm_nic_send(tm_switch *tm, port *p, const uint8_t *data, uint32_t length, uint64_t sent_ns);
int tm_has_nic(const port *p);
int64_t tm_nic_waiting(const port *p);

/* ---- tm_notes.c ---- */

/* Notes what has become of a packet with these bytes, if notes are wanted and it is of interest. */
void tm_note_add(tm_switch *tm, uint32_t port, uint32_t direction, uint32_t fate, const uint8_t *data, uint32_t length,
                 uint64_t time_ns);

/* Says what has become of a packet: to the one who watches, and in the notes. */
static inline void tm_tell(tm_switch *tm, uint32_t fate, uint32_t port, uint32_t direction, uint64_t time_ns,
                           const uint8_t *data, uint32_t length, uint64_t mark) {
    if (tm->told) tm->told(fate, port, direction, mark, time_ns);
    if (fate < TM_AGAIN) tm_note_add(tm, port, direction, fate, data, length, time_ns);
}

/* ---- tm.c ---- */

extern const tm_calls tm_architecture; /* the functions of the passes.h that it includes */

/* ---- tm_queues.c ---- */

int tm_queues_new(tm_switch *tm, port *p); /* the queues of a port; 0: out of memory */
void tm_queues_free(tm_switch *tm, port *p);
/* Drops what waits, with this fate, and returns how much it was. Several queues count it themselves, one leaves that to
 * the caller. */
uint64_t tm_queues_empty(tm_switch *tm, port *p, uint32_t fate);
/* Into the egress queue of a port, or through it where nothing waits. With `keep` the caller still needs the
 * packet. */
void tm_to_port(tm_switch *tm, uint32_t number, p4_packet *packet, int keep);
void tm_dequeue(tm_switch *tm, port *p); /* the first packet of the egress queue leaves it */
void tm_schedule(tm_switch *tm, port *p); /* a gate has moved: when the next packet leaves */
/* Shapes the egress link, and with `depth` and `rate` sets the limit and the rate of all queues. */
int tm_egress_shape(tm_switch *tm, port *p, const tm_shape *shape, int depth, int rate);
tm_shape tm_egress_shape_get(const port *p);

#endif
