/* A pipeline written by hand, so that the traffic manager is tested without the compiler.
 *
 * The first byte of a packet says what is to happen, the next two are its arguments a and b:
 *
 *   U  unicast to port a                     M  multicast to group a
 *   D  drop in ingress                       d  drop in egress (port a)
 *   C  clone to session b, unicast to a      E  the same in egress
 *   R  resubmit b times, then unicast to a   X  recirculate b times, then port a
 *   L  recirculate for ever                  T  unicast to a, truncated to b bytes
 *   Q  unicast to a with priority b; egress writes the queue's number into byte 1
 *
 * Byte 3 counts passes through ingress that kept the one metadata field; a packet of 4 bytes or more leaves
 * with it set. If byte 4 is 'm', the metadata that egress saw is appended as 32-bit little-endian words. */
#include <stdlib.h>

#include "p4rt.h"

typedef struct state {
    p4_packet p;
    uint32_t kept; /* user metadata; the field list 0 names it */
    uint32_t header;
    uint8_t bytes[8];
    uint32_t words[10];
} state;

struct p4_instance {
    uint64_t seed;
};

static void start(p4_instance *i, p4_packet *p) {
    (void)i;
    state *s = (state *)p;
    memset(&p->req, 0, sizeof p->req);
    p->payload = NULL;
    p->payload_length = 0;
    s->kept = s->header = 0;
}

static void parse(p4_instance *i, p4_packet *p) {
    (void)i;
    state *s = (state *)p;
    memset(s->bytes, 0, 8);
    s->header = p->length < 8 ? p->length : 8;
    memcpy(s->bytes, p->data, s->header);
    p->payload = p->data + s->header;
    p->payload_length = p->length - s->header;
}

static void ingress(p4_instance *i, p4_packet *p) {
    state *s = (state *)p;
    parse(i, p);
    uint8_t op = s->bytes[0], a = s->bytes[1], b = s->bytes[2];
    p->std.egress_spec = a;
    s->bytes[3] = (uint8_t)++s->kept;
    if (op == 'D') p->std.egress_spec = P4_DROP_PORT;
    if (op == 'M') p->std.mcast_grp = a;
    if (op == 'C') {
        p->req.clone = 1;
        p->req.clone_session = b;
        p->req.clone_fields = b & 1 ? 0 : -1;
    }
    if (op == 'R' && s->kept <= b) {
        p->req.resubmit = 1;
        p->req.resubmit_fields = 0;
    }
    if (op == 'T') p->req.truncate = b;
    if (op == 'Q') p->std.priority = b;
}

static void egress(p4_instance *i, p4_packet *p) {
    (void)i;
    state *s = (state *)p;
    uint8_t op = s->bytes[0], b = s->bytes[2];
    uint32_t words[10] = {p->std.instance_type, p->std.ingress_port, p->std.egress_port,   p->std.egress_rid,
                          p->std.packet_length, p->std.enq_timestamp, p->std.enq_qdepth, p->std.deq_timedelta,
                          p->std.deq_qdepth,    s->kept};
    memcpy(s->words, words, sizeof words);
    if (op == 'd') p->std.egress_spec = P4_DROP_PORT;
    if (op == 'Q') s->bytes[1] = (uint8_t)p->std.qid;
    if (op == 'E' && p->std.instance_type != P4_EGRESS_CLONE) {
        p->req.clone = 1;
        p->req.clone_session = b;
        p->req.clone_fields = 0;
    }
    if ((op == 'X' && s->kept <= b) || op == 'L') {
        p->req.recirculate = 1;
        p->req.recirculate_fields = 0;
    }
}

static uint32_t deparse(p4_instance *i, p4_packet *p, uint8_t *out, uint32_t capacity) {
    (void)i;
    state *s = (state *)p;
    uint32_t meta = s->bytes[4] == 'm' && !p->req.recirculate ? sizeof s->words : 0;
    uint32_t length = s->header + p->payload_length + meta;
    if (length > capacity) return length;
    memcpy(out, s->bytes, s->header);
    memcpy(out + s->header, p->payload, p->payload_length);
    memcpy(out + s->header + p->payload_length, s->words, meta);
    return p->req.truncate && p->req.truncate < length ? p->req.truncate : length;
}

static void reset_metadata(p4_instance *i, p4_packet *p) {
    (void)i;
    memset(&p->req, 0, sizeof p->req);
    ((state *)p)->kept = 0;
}

static void copy_fields(p4_instance *i, p4_packet *to, const p4_packet *from, int32_t list) {
    (void)i;
    if (list == 0) ((state *)to)->kept = ((const state *)from)->kept;
}

static const p4_program program = {
    .abi = P4_ABI_VERSION,
    .packet_size = (sizeof(state) + 63) / 64 * 64,
    .name = "fake",
    .start = start,
    .parse = parse,
    .ingress = ingress,
    .egress = egress,
    .deparse = deparse,
    .reset_metadata = reset_metadata,
    .copy_fields = copy_fields,
};

const p4_program *p4_program_get(void) {
    return &program;
}

p4_instance *p4_create(const p4_config *config) {
    p4_instance *i = calloc(1, sizeof *i);
    if (i && config) i->seed = config->seed;
    return i;
}

void p4_destroy(p4_instance *i) {
    free(i);
}
