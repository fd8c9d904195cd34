/* The metadata and the requests of TNA, and of T2NA (t2na/architecture.h).
 *
 * Life of a packet (P = program functions, the rest is passes.h):
 *
 *   arrival         P ingress: the parser reads 8 bytes of intrinsic metadata, 8 bytes of port metadata (or of resubmit
 *                     data), and the packet; then the control
 *                   P deparse_headers: the ingress deparser, which also says what to mirror and to resubmit
 *   traffic manager drop_ctl, resubmission (once), multicast groups a and b, copy to CPU, unicast, mirror copies
 *   after dequeue   P egress: the parser reads the intrinsic metadata and what ingress has deparsed; then the control
 *                   P deparse: the egress deparser and the payload
 *                   mirror copies of that, the recirculation ports, the link
 *
 * Between the gresses a packet is bytes: `data` has the `head` bytes that ingress has deparsed, `payload` those behind
 * them. Nothing of the program's state survives, so only struct p4_packet is kept in queues. */
#ifndef ARCHITECTURE_H
#define ARCHITECTURE_H

#include <stddef.h>
#include <stdint.h>

#ifndef TOFINO
#define TOFINO 1 /* the generation */
#endif

#define P4_LOOPS 1 /* whether ports can be in loopback mode */
#define P4_CPU_PORT (TOFINO == 2 ? 0 : 192) /* at first */
/* Whether a packet goes to the port for deflection where its queue is full; that it does, or (0) asks to again. */
#define P4_DEFLECTS(packet) (packet)->std.deflect
#define P4_DEFLECT(packet, on) ((packet)->std.deflect = !(on), (packet)->std.deflected = (on))
#define P4_UNIT_NS(tm) 1 /* of timestamps */
#define P4_STATE(program) sizeof(p4_packet) /* bytes of a packet's state that stay between ingress and egress */
#define TNA_NO_PORT 511                     /* ucast_egress_port that the program has not set */
#define TNA_LONGEST_MIRROR 64 /* bytes of a mirror header */
#define TNA_PIECES 2

/* Bytes that a parser comes to when those before are used up. */
typedef struct p4_piece {
    const uint8_t *data;
    uint32_t length;
} p4_piece;

typedef struct p4_std {
    uint32_t ingress_port;
    uint32_t egress_port;   /* ucast_egress_port; from the queue on the port that it is at */
    uint32_t enq_timestamp;
    uint32_t enq_qdepth;    /* packets */
    uint32_t deq_timedelta;
    uint32_t deq_qdepth;    /* packets */
    uint32_t parser_error;  /* bits of parser_err */
    uint16_t priority;      /* qid */
    uint16_t qid;           /* of the queue that it came from */
    uint16_t mcast_grp_a, mcast_grp_b;
    uint16_t rid;           /* of ingress, for pruning */
    uint16_t exclusion;     /* level2_exclusion_id */
    uint16_t node_exclusion; /* level1_exclusion_id */
    uint16_t egress_rid;
    uint8_t rid_first;
    uint8_t drop_ctl;
    uint8_t bypass_egress;
    uint8_t copy_to_cpu;
    uint8_t mirror_leaving; /* mirror_io_select (T2NA) */
    uint8_t deflect;        /* deflect_on_drop */
    uint8_t deflected;      /* deflection_flag */
    uint8_t resubmit_flag;
    uint8_t rejected;       /* the parser did not accept, and the program does not look at parser_err */
    uint64_t ingress_time, egress_time; /* 48 bits, ns */
    uint64_t word;          /* port metadata, or resubmit data */
    uint32_t head;          /* bytes at `data` between the gresses */
    uint32_t piece, pieces; /* of `next`: the one that the parser comes to next, and how many there are */
    p4_piece next[TNA_PIECES];
    void *tm;               /* the switch, which gives memory to join pieces */
    void *joined;           /* that memory: a frame */
} p4_std;

typedef struct p4_requests {
    uint8_t mirror;     /* 1: a copy for a mirror session is wanted */
    uint8_t resubmit;   /* 1: resubmission is wanted */
    uint8_t failed;     /* 1: what the hardware cannot do; the packet is dropped */
    uint8_t mirror_length; /* bytes of the mirror header */
    uint32_t mirror_session;
    uint32_t truncate;  /* 0: no */
    int32_t growth;     /* bytes that setValid and setInvalid added; nobody reads them here */
    uint64_t resubmit_data;
    uint8_t mirror_header[TNA_LONGEST_MIRROR];
} p4_requests;

#endif
