/* The traffic manager's insides, shared by its files: tm.c (the way of a packet), tm_copies.c (multicast and
 * clones), tm_store.c (where packets are kept, and their events), tm_setup.c. Nothing outside of them includes this. */
#ifndef TM_STATE_H
#define TM_STATE_H

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

/* A piece of memory out of which frames and held packets are cut. They are used again, so it is never given
 * back while there is a switch. */
typedef struct slab {
    struct slab *next;
    uint64_t size, used; /* bytes, this head included */
} slab;

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
    int64_t instant; /* left for the events of this moment */
    int early;
    tm_sink sink;
    tm_stats stats;
    port *ports[TM_PORTS];
    line **heap;
    int32_t heap_count, heap_capacity;
    held *pending, *pending_last;
    frame *free_frames[FRAME_SIZES];
    held *free_held;
    slab *slabs; /* the one in use first */
    group **groups;
    struct { int32_t port, group; } *sessions;
    tm_output *outputs; /* the built-in sink */
    uint8_t *bytes;
    uint64_t output_count, output_capacity, byte_count, byte_capacity;
};

frame *tm_frame_new(tm_switch *tm, uint32_t length); /* NULL: out of memory, counted */
void tm_frame_free(tm_switch *tm, frame *f);
held *tm_held_new(tm_switch *tm);
void tm_held_free(tm_switch *tm, held *h);
void tm_prefetch_next(const tm_switch *tm); /* what the next event will read first */
int tm_own_bytes(tm_switch *tm, held *h); /* a copy of what packet.data points to; 0: out of memory */
void tm_push_pending(tm_switch *tm, held *h); /* a pass for the end of this arrival or event */
uint8_t *tm_own_room(void *context, uint32_t bytes);
void tm_own_emit(void *context, uint32_t port, uint64_t time_ns, uint32_t length);
/* The first packet of a line is another one now. */
void tm_event_set(tm_switch *tm, line *l, uint64_t time, uint64_t order);
void tm_event_remove(tm_switch *tm, line *l);
void tm_line_push(tm_switch *tm, line *l, frame *f, uint64_t time); /* keeps the order of times */
frame *tm_line_pop(tm_switch *tm, line *l); /* the first packet; the line is not empty */
void tm_starts_expire(starts *s, uint64_t now); /* forgets the packets that have started */
int tm_starts_push(starts *s, uint64_t time, uint32_t length); /* 0: out of memory */

/* tm.c: into the egress queue of a port, or through it where nothing waits. With `keep` the caller still
 * needs the packet. */
void tm_to_port(tm_switch *tm, uint32_t number, p4_packet *packet, int keep);

void tm_multicast(tm_switch *tm, uint32_t number, p4_packet *packet, int keep);
void tm_to_session(tm_switch *tm, uint32_t session, p4_packet *packet);
int tm_session_exists(const tm_switch *tm, uint32_t session);
void tm_clone_to_egress(tm_switch *tm, const p4_packet *packet);
void tm_clone_from_egress(tm_switch *tm, const p4_packet *packet);

#endif
