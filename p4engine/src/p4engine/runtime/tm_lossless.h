/* Links that lose nothing to full queues: the far end of a link is stopped before the buffer behind it is full.
 *
 * tm_buffer.c: who has how much of a switch's buffer, by the input and the class of packets. tm_pfc.c: pause frames
 * (IEEE 802.1Qbb). tm_credits.c: credits instead of them. tm_held.c: what the program keeps. tm_control.c: the frames. tm_nic.c: the far end, where that is
 * a host's network card. tm_gate.c: what may be sent.
 * A switch without lossless links has none of this (tm->lossless is NULL).
 *
 * A *gate* is at the sending end of a link and says which class may send. Frames of MAC control from the other end
 * close and open it. Such frames are real: they take their time on the link, before all packets that wait. */
#ifndef TM_LOSSLESS_H
#define TM_LOSSLESS_H

#include "tm_state.h"

#define CONTROL_BYTES 60 /* of a frame of MAC control, without its checksum */
#define HELD_BITS 10
#define MOST_PAUSES (1u << 20) /* that are noted one by one */

typedef struct gate {
    uint64_t until[TM_CLASSES];          /* pause frames: closed before this time */
    uint64_t since[TM_CLASSES];          /* closed since then; TM_NEVER: open */
    uint64_t limit[TM_CLASSES];          /* credits: so many bytes may be sent in all, */
    uint64_t sent[TM_CLASSES];           /* and so many have been */
    uint64_t closed_ns[TM_CLASSES], longest_ns[TM_CLASSES], frames[TM_CLASSES];
} gate;

/* What a frame of MAC control says. */
typedef struct control {
    uint64_t time; /* when it is there */
    uint32_t opcode, classes;
    uint32_t values[TM_CLASSES]; /* quanta of a pause, or blocks of credits */
} control;

/* Packets of one class from one port, in the buffer. */
typedef struct input {
    uint64_t bytes, headroom;   /* in reserve and shared memory; in the headroom */
    uint64_t freed, granted;    /* credits: bytes that have left the buffer; limit as last told */
    uint64_t again_ns;          /* when a pause, or credits, are sent again; TM_NEVER: not */
    uint64_t since, note;       /* of the pause of the far end */
    uint64_t paused_ns, frames; /* sent */
    uint64_t peak, peak_headroom, drops;
    uint64_t held;              /* of these bytes, of packets that the program keeps */
    uint16_t cause; /* the output for which the packet was that has led to the pause */
    uint8_t pausing;
} input;

/* A host's network card at the far end of a port's link. What it decides for a time t is worked out when the switch's
 * time is t + lag: by then all packets that the host has sent by t are known, and all that the switch has told it. */
typedef struct nic {
    frame *inbox, *inbox_last; /* sent by the host at frame.time, which may not have come */
    frame *first[TM_CLASSES + 1], *last[TM_CLASSES + 1]; /* wait for the link; behind the classes: MAC control */
    uint64_t waiting[TM_CLASSES + 1], bytes[TM_CLASSES + 1];
    gate gate;
    control *told; /* what comes from the switch, a ring */
    uint32_t head, count, capacity;
} nic;

typedef struct lossless_port {
    gate out;
    input in[TM_CLASSES];
    uint64_t headroom;                /* of each class */
    uint64_t queued[TM_CLASSES];      /* bytes that wait for this port */
    uint8_t full[TM_CLASSES];         /* and are too many: all inputs are paused */
    uint64_t unknown, unknown_classes; /* frames of MAC control that mean nothing here, and their classes */
    nic *nic;                         /* NULL: the far end is a switch */
    event_list control;               /* the next event of all this */
} lossless_port;

/* Bytes of an arrival in the buffer, until the last of its packets has left. */
typedef struct charge {
    struct charge *next;
    uint32_t bytes, packets;
    uint16_t port;
    uint8_t class;
    uint64_t key; /* of what the program keeps */
} charge;

struct lossless {
    tm_buffer set;
    uint64_t pool, used; /* of shared memory: without reserves and headroom */
    uint64_t peak;       /* of all bytes in the buffer */
    uint64_t all;
    uint32_t only;       /* the class of all packets, where ports have one queue */
    uint32_t full[TM_CLASSES]; /* outputs */
    charge *free_charges;
    charge *held[1 << HELD_BITS]; /* by a hash of the key */
    tm_pause *pauses;
    uint64_t pause_count, pause_capacity, pauses_missed;
};

static inline int is_lossless(const struct lossless *l, uint32_t class) {
    return class < TM_CLASSES && (l->set.classes >> class & 1);
}

/* What an input uses of shared memory, and what it may use. */
static inline uint64_t shared_of(const struct lossless *l, const input *in) {
    return in->bytes > l->set.reserve ? in->bytes - l->set.reserve : 0;
}

static inline uint64_t threshold_of(const struct lossless *l) {
    uint64_t left = l->pool > l->used ? l->pool - l->used : 0;
    if (l->set.by_output) return TM_NEVER;
    return l->set.xoff ? l->set.xoff : left >> l->set.shift;
}

/* Each of these files calls only those behind it: tm_held.c, tm_buffer.c, then these. */

/* ---- tm_buffer.c ---- */

charge *tm_charge_arrival(tm_switch *tm); /* the bytes of the packet that has arrived; NULL: no room */
void tm_let_go(tm_switch *tm, charge *c); /* a packet less that they are for */
void tm_input_changed(tm_switch *tm, uint32_t number, uint32_t class, uint32_t cause);
void tm_arrival_over(tm_switch *tm); /* tm_arrival_end, of a packet of which the program keeps no part in the buffer */

/* ---- tm_pfc.c and tm_credits.c: what an input holds has become more or less ---- */

#define PFC_OPCODE 0x0101
#define CREDITS_OPCODE 0x0102 /* of no standard: InfiniBand has packets of its own for that */
#define NO_CAUSE 0xffff
#define QUANTUM_BITS 512
#define BLOCK_BYTES 64
#define CONTROL_HEAD 18 /* addresses, ethertype, opcode, classes */

static inline uint64_t quanta_ns(uint32_t quanta, uint64_t rate_bps) {
    return (uint64_t)((unsigned __int128)quanta * QUANTUM_BITS * 1000000000ull / rate_bps);
}

static inline uint32_t control_value_bytes(uint32_t opcode) { return opcode == PFC_OPCODE ? 2 : 4; }

/* They tell the far end, if that changes anything. `cause`: an output. */
void tm_pfc_changed(tm_switch *tm, uint32_t number, uint32_t class, uint32_t cause);
void tm_credits_changed(tm_switch *tm, uint32_t number, uint32_t class);
void tm_pfc_again(tm_switch *tm, uint32_t number); /* pauses that would end too early */
void tm_credits_again(tm_switch *tm, uint32_t number);
void tm_credits_link(tm_switch *tm, uint32_t number, int up); /* a link begins, fails, or works again */

/* ---- tm_control.c ---- */

void tm_control_send(tm_switch *tm, uint32_t number, const control *c);

/* ---- tm_nic.c ---- */

void tm_nic_hear(tm_switch *tm, port *p, const control *c);
void tm_nic_run(tm_switch *tm, port *p);
void tm_nic_down(tm_switch *tm, port *p); /* what waits there is lost */
void tm_control_schedule(tm_switch *tm, port *p); /* the next event of a port's lossless link */

/* ---- tm_gate.c ---- */

int tm_control_parse(const uint8_t *data, uint32_t length, control *c); /* 0: another frame */
void tm_gate_told(tm_switch *tm, lossless_port *own, gate *g, const control *c, uint64_t rate_bps, uint64_t time);
/* The first moment from `at` on at which a class may be sent; TM_NEVER: the far end must allow it first. */
uint64_t tm_gate_opens(const tm_switch *tm, gate *g, uint32_t class, uint64_t at);
void tm_gate_reset(gate *g, uint64_t time);

#endif
