/* The metadata and the requests of v1model.
 *
 * Life of a packet (BMv2 simple_switch; P = program functions, TM = traffic manager):
 *
 *   new packet     TM: zero `std`, set ingress_port, packet_length, ingress_global_timestamp, data, length,
 *                      now_ns
 *                  P start, P ingress
 *   after ingress  TM: req.clone     -> copy for egress: copy `data`, zero `std` except what BMv2 keeps,
 *                                       P start, P parse, P copy_fields(copy, packet, req.clone_fields),
 *                                       instance_type 1; then clear req.clone in the original
 *                      req.resubmit  -> P start, P copy_fields, instance_type 6, P ingress on the same bytes
 *                      else std.mcast_grp, else std.egress_spec (P4_DROP_PORT drops)
 *   after dequeue  TM: set egress_port, egress_rid, enq_*, deq_*, egress_global_timestamp, egress_spec = 0,
 *                      packet_length = length + req.growth
 *                  P egress
 *   after egress   TM: req.clone     -> p4_packet_copy, P reset_metadata, P copy_fields, instance_type 2
 *                      std.egress_spec == P4_DROP_PORT drops, else
 *                  P deparse (updates checksums, appends the payload, truncates)
 *                      req.recirculate -> bytes from deparse become `data`; P start, P copy_fields,
 *                                         instance_type 4, P ingress */
#ifndef ARCHITECTURE_H
#define ARCHITECTURE_H

#include <stdint.h>

#define P4_FURTHER_METADATA 4
#define P4_LOOPS 0 /* whether ports can be in loopback mode */
#define P4_CPU_PORT 0 /* nothing asks for copies */
#define P4_DEFLECTS(packet) 0 /* whether a packet goes to the port for deflection where its queue is full */
#define P4_DEFLECT(packet, on) /* it does, or (0) it does as it asks to again */
#define P4_UNIT_NS(tm) (tm)->unit_ns /* of timestamps */
#define P4_STATE(program) (program)->packet_size /* bytes of a packet's state that stay between ingress and egress */

enum p4_instance_type {
    P4_NORMAL = 0,
    P4_INGRESS_CLONE = 1,
    P4_EGRESS_CLONE = 2,
    P4_COALESCED = 3,
    P4_RECIRC = 4,
    P4_REPLICATION = 5,
    P4_RESUBMIT = 6
};

/* standard_metadata_t; names as in P4. Values are kept within their P4 widths by the generated code. */
typedef struct p4_std {
    uint32_t ingress_port;  /* 9 bits */
    uint32_t egress_spec;   /* 9 bits */
    uint32_t egress_port;   /* 9 bits */
    uint32_t instance_type;
    uint32_t packet_length; /* bytes */
    uint32_t enq_timestamp;
    uint32_t enq_qdepth;    /* 19 bits, packets */
    uint32_t deq_timedelta;
    uint32_t deq_qdepth;    /* 19 bits, packets */
    uint32_t mcast_grp;     /* 16 bits */
    uint32_t egress_rid;    /* 16 bits */
    uint32_t checksum_error; /* 1 bit */
    uint32_t parser_error;  /* number of the error, see info["errors"] */
    uint16_t priority;      /* 3 bits; of the egress queue that the packet goes to */
    uint16_t qid;           /* of the queue that it came from, for programs whose own v1model.p4 has the field */
    uint64_t ingress_global_timestamp; /* 48 bits, in the switch's timestamp unit */
    uint64_t egress_global_timestamp;  /* 48 bits */
    uint64_t further[P4_FURTHER_METADATA]; /* fields that a program's own v1model.p4 adds */
} p4_std;

/* What the pipeline asks of the traffic manager. The last call in the program wins, as on BMv2. */
typedef struct p4_requests {
    uint8_t clone;        /* 1: clone wanted (I2E if set by ingress, E2E if set by egress) */
    uint8_t resubmit;     /* 1: resubmit wanted */
    uint8_t recirculate;  /* 1: recirculate wanted */
    uint8_t failed;       /* 1: an assert or assume did not hold; BMv2 would end here. Drop the packet. */
    uint32_t clone_session;
    int32_t clone_fields;       /* number of the field list, -1 for none */
    int32_t resubmit_fields;    /* likewise */
    int32_t recirculate_fields; /* likewise */
    uint32_t truncate;    /* 0: no; else the length in bytes, applied by deparse; the smallest wins */
    int32_t growth;       /* bytes that setValid and setInvalid added to the packet */
} p4_requests;

/* The hash algorithms (hashes.c), by the numbers of hashes.py; over one piece of bytes or two. */
uint64_t p4_hash(int algorithm, const uint8_t *data, uint64_t length);
uint64_t p4_hash_two(int algorithm, const uint8_t *data, uint64_t length, const uint8_t *more, uint64_t size);

#endif
