/* The border between a compiled P4 program and the code that moves its packets.
 *
 * A program compiled by p4engine is one shared object: the generated pipeline, this runtime and the
 * traffic manager. It exports `p4_program_get()`, whose structure says how large a packet's state is and
 * which functions process it. There are no globals and there is no clock: all state hangs off a
 * `p4_instance`, a packet brings its time, random numbers come from the instance's seed. So many switches
 * live in one process, and the same calls give the same packets.
 *
 * Life of a packet: the traffic manager hands it to the architecture (tm_arrive in the passes.h of its folder in
 * `architectures/`, which says what comes after what), this calls the program's functions, and gives the packet back
 * for an egress queue; behind that the architecture has it again (tm_egress).
 *
 * A packet's state is one block of `packet_size` bytes that starts with struct p4_packet and contains no
 * pointer into itself: memcpy duplicates it. `data` must stay readable until deparse. */
#ifndef P4RT_H
#define P4RT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define P4_ABI_VERSION 3
#define P4_DROP_PORT 511
#define P4_EXPORT __attribute__((visibility("default")))

/* p4_std, the metadata that the architecture gives a packet, and p4_requests, what a program asks of the traffic
 * manager. Of p4_std all architectures have: priority (the egress queue that the packet goes to), enq_timestamp and
 * enq_qdepth (set there); of p4_requests: failed, truncate. */
#include "architecture.h"

typedef struct p4_packet {
    p4_std std;
    p4_requests req;
    uint64_t now_ns;        /* time of this pass, for meters */
    const uint8_t *data;    /* the packet's bytes at the start of its ingress */
    const uint8_t *payload; /* set by parse: the bytes behind the extracted headers; points into data */
    uint32_t length;        /* of data */
    uint32_t payload_length;
    uint64_t mark;          /* of the traffic manager, for those who watch it (tm_watch_set) */
    /* the program's metadata and headers follow */
} p4_packet;

typedef struct p4_instance p4_instance;

typedef struct p4_config {
    uint64_t seed;
    void *user; /* handed to the hooks */
    /* Hooks may be NULL. They must not call back into the instance. */
    void (*log)(void *user, const p4_packet *packet, const char *text); /* log_msg, failed assert */
    void (*digest)(void *user, const p4_packet *packet, uint32_t receiver, uint32_t digest,
                   const uint64_t *fields, uint32_t words);
    void (*trace)(void *user, const p4_packet *packet, const char *text); /* only in trace builds */
} p4_config;

/* ---- static description of a program, filled by the generated code ---- */

enum p4_match_kind { P4_EXACT, P4_LPM, P4_TERNARY, P4_RANGE, P4_OPTIONAL, P4_SELECTOR };

typedef struct p4_key_desc {
    uint8_t kind;
    uint16_t width; /* bits */
    uint16_t words; /* 64-bit words of a value: (width + 63) / 64 */
} p4_key_desc;

typedef struct p4_action_desc {
    uint16_t param_words;
    const uint16_t *widths; /* bits of each parameter, in order */
    uint16_t params;
} p4_action_desc;

enum { P4_COUNT_PACKETS = 0, P4_COUNT_BYTES = 1, P4_COUNT_BOTH = 2 };

typedef struct p4_table_desc {
    const p4_key_desc *keys; /* selector keys are not part of the match */
    uint16_t key_count;
    uint16_t key_words;      /* of the values of all matching keys */
    const p4_action_desc *actions;
    uint16_t action_count;
    uint32_t size;           /* 0: unbounded */
    int32_t profile;         /* number of the action profile, or -1 */
    uint8_t strategy;        /* enum p4_strategy */
    uint8_t direct_counter;  /* 1: yes */
    uint8_t direct_meter;    /* 0 no, 1 packets, 2 bytes */
    uint8_t const_default, const_entries;
    uint16_t default_action;
    const uint64_t *default_params;
    uint8_t ages;            /* 1: entries remember when they were hit */
    uint8_t direct_register; /* 1: entries have a number of 64 bits of their own, which begins with `initial` */
    uint64_t initial;
} p4_table_desc;

enum p4_strategy { P4_KEYLESS, P4_HASH, P4_PREFIX, P4_PRIORITY };

typedef struct p4_profile_desc {
    uint8_t selector; /* 1: groups allowed */
    uint32_t size;
    const p4_action_desc *actions;
    uint16_t action_count;
} p4_profile_desc;

/* Registers with the same number of elements share an array of records, one record per index. */
typedef struct p4_record_desc {
    uint32_t stride; /* bytes, a multiple of 64 when above 32 */
    uint32_t count;
} p4_record_desc;

typedef struct p4_register_desc {
    uint16_t record;
    uint32_t offset;   /* in the record */
    uint32_t bytes;    /* of the container: 1, 2, 4, 8, 16 or a multiple of 8 */
    uint32_t width;    /* bits */
    uint32_t count;
} p4_register_desc;

typedef struct p4_counter_desc { uint32_t count; uint8_t type; } p4_counter_desc;
typedef struct p4_meter_desc { uint32_t count; uint8_t bytes; } p4_meter_desc;

typedef struct p4_value_set_desc {
    uint32_t size;
    const p4_key_desc *keys;
    uint16_t key_count;
} p4_value_set_desc;

typedef struct p4_program {
    uint32_t abi;
    uint32_t packet_size; /* bytes of a packet's state, a multiple of 64 */
    const char *name;
    const p4_table_desc *tables;
    const p4_profile_desc *profiles;
    const p4_record_desc *records;
    const p4_register_desc *registers;
    const p4_counter_desc *counters;
    const p4_meter_desc *meters;
    const p4_value_set_desc *value_sets;
    uint32_t table_count, profile_count, record_count, register_count, counter_count, meter_count,
        value_set_count, field_list_limit;
    void (*init)(p4_instance *);                    /* called by p4_create: entries of the program text */
    void (*start)(p4_instance *, p4_packet *);      /* headers invalid, user metadata and req zero */
    void (*parse)(p4_instance *, p4_packet *);      /* parser and verify_checksum; sets payload */
    void (*ingress)(p4_instance *, p4_packet *);    /* parse, then the ingress control */
    void (*egress)(p4_instance *, p4_packet *);
    uint32_t (*deparse)(p4_instance *, p4_packet *, uint8_t *out, uint32_t capacity);
        /* returns the length, or 0xffffffff if it exceeds capacity; `out` must not overlap `data` */
    uint32_t (*deparse_headers)(p4_instance *, p4_packet *, uint8_t *out, uint32_t capacity);
        /* the same without the payload and without truncation */
    void (*reset_metadata)(p4_instance *, p4_packet *); /* user metadata and req zero; headers stay */
    void (*copy_fields)(p4_instance *, p4_packet *to, const p4_packet *from, int32_t list);
} p4_program;

P4_EXPORT const p4_program *p4_program_get(void);

/* ---- instances ---- */
P4_EXPORT p4_instance *p4_create(const p4_config *config); /* NULL: out of memory */
P4_EXPORT void p4_destroy(p4_instance *);
P4_EXPORT void p4_set_hooks(p4_instance *, const p4_config *); /* all but the seed */
static inline void p4_packet_copy(const p4_program *p, p4_packet *to, const p4_packet *from) {
    (void)p;
    memcpy(to, from, P4_STATE(p));
}

/* ---- control plane ----
 * Numbers of objects are those of info. Values travel as little-endian 64-bit words: a value of w bits takes
 * (w + 63) / 64 words, lowest first. A match is, key after key (selector keys left out): the value's words, then
 * for lpm one word with the prefix length, for ternary the mask's words, for range the words of the upper
 * end, for optional one word (0: any). Priority: the lower number wins, as in BMv2's interface. */
enum p4_status {
    P4_OK = 0,
    P4_NO_SUCH_OBJECT = -1,
    P4_NO_SUCH_ENTRY = -2,
    P4_DUPLICATE = -3,
    P4_FULL = -4,
    P4_BAD_ACTION = -5,
    P4_BAD_INDEX = -6,
    P4_BAD_VALUE = -7,
    P4_CONSTANT = -8,  /* const entries or const default_action */
    P4_NO_MEMORY = -9,
    P4_WRONG_KIND = -10, /* e.g. a member for a table without action profile */
    P4_IN_USE = -11
};

P4_EXPORT int64_t p4_table_add(p4_instance *, uint32_t table, const uint64_t *match, int32_t priority,
                               uint32_t action, const uint64_t *params); /* handle >= 0 or a status */
P4_EXPORT int64_t p4_table_add_indirect(p4_instance *, uint32_t table, const uint64_t *match,
                                        int32_t priority, int group, uint32_t member_or_group);
P4_EXPORT int p4_table_modify(p4_instance *, uint32_t table, int64_t handle, uint32_t action,
                              const uint64_t *params);
P4_EXPORT int p4_table_modify_indirect(p4_instance *, uint32_t table, int64_t handle, int group,
                                       uint32_t member_or_group);
P4_EXPORT int p4_table_delete(p4_instance *, uint32_t table, int64_t handle);
P4_EXPORT int p4_table_clear(p4_instance *, uint32_t table); /* entries, not the default action */
P4_EXPORT int p4_table_set_default(p4_instance *, uint32_t table, uint32_t action, const uint64_t *params);
P4_EXPORT int p4_table_set_default_indirect(p4_instance *, uint32_t table, int group, uint32_t number);
P4_EXPORT int p4_table_reset_default(p4_instance *, uint32_t table);
P4_EXPORT int64_t p4_table_count(p4_instance *, uint32_t table);
P4_EXPORT int64_t p4_table_next(p4_instance *, uint32_t table, int64_t handle); /* start with -1; -2: end */
/* target: 0 action, 1 member, 2 group. Buffers may be NULL. handle -1 reads the default (match untouched). */
P4_EXPORT int p4_table_get(p4_instance *, uint32_t table, int64_t handle, uint64_t *match, int32_t *priority,
                           uint32_t *target, uint32_t *action_or_number, uint64_t *params);
P4_EXPORT int64_t p4_table_find(p4_instance *, uint32_t table, const uint64_t *match, int32_t priority);

/* Idle timeouts of tables with `ages`; times are those of packets. A new entry ages from p4_age_start on: the
 * instance has no clock of its own. Not for the default entry. */
P4_EXPORT int p4_age_start(p4_instance *, uint32_t table, int64_t handle, uint64_t now_ns);
P4_EXPORT int p4_age_set(p4_instance *, uint32_t table, int64_t handle, uint64_t ttl_ns); /* 0: never idle */
P4_EXPORT int p4_age_get(p4_instance *, uint32_t table, int64_t handle, uint64_t *ttl_ns, uint64_t *hit_ns);
/* The entries that no packet has hit for their `ttl_ns`: at most `capacity` handles, of entries behind the handle
 * `after` (-1: all); returns how many. Their time starts again. *next_ns is lowered to the earliest time at which
 * an entry that was looked at can be idle. */
P4_EXPORT int64_t p4_table_idle(p4_instance *, uint32_t table, uint64_t now_ns, int64_t after, int64_t *handles,
                                uint64_t capacity, uint64_t *next_ns);

P4_EXPORT int64_t p4_profile_add_member(p4_instance *, uint32_t profile, uint32_t action,
                                        const uint64_t *params);
P4_EXPORT int p4_profile_modify_member(p4_instance *, uint32_t profile, uint32_t member, uint32_t action,
                                       const uint64_t *params);
P4_EXPORT int p4_profile_delete_member(p4_instance *, uint32_t profile, uint32_t member);
P4_EXPORT int64_t p4_profile_add_group(p4_instance *, uint32_t profile);
P4_EXPORT int p4_profile_delete_group(p4_instance *, uint32_t profile, uint32_t group);
P4_EXPORT int p4_profile_group_add(p4_instance *, uint32_t profile, uint32_t group, uint32_t member);
P4_EXPORT int p4_profile_group_remove(p4_instance *, uint32_t profile, uint32_t group, uint32_t member);
/* The first number behind `after` (-1: of all) that a member or group has; -1: there is none. */
P4_EXPORT int64_t p4_profile_next_member(p4_instance *, uint32_t profile, int64_t after);
P4_EXPORT int64_t p4_profile_next_group(p4_instance *, uint32_t profile, int64_t after);
P4_EXPORT int p4_profile_get_member(p4_instance *, uint32_t profile, uint32_t member, uint32_t *action,
                                    uint64_t *params);
/* Writes at most `capacity` members; returns how many the group has. */
P4_EXPORT int64_t p4_profile_get_group(p4_instance *, uint32_t profile, uint32_t group, uint32_t *members,
                                       uint32_t capacity);

P4_EXPORT int p4_register_read(p4_instance *, uint32_t reg, uint64_t start, uint64_t count, uint64_t *words);
P4_EXPORT int p4_register_write(p4_instance *, uint32_t reg, uint64_t start, uint64_t count,
                                const uint64_t *words);
P4_EXPORT int p4_register_fill(p4_instance *, uint32_t reg, uint64_t start, uint64_t count,
                               const uint64_t *value);

typedef struct p4_count { uint64_t packets, bytes; } p4_count;
P4_EXPORT int p4_counter_read(p4_instance *, uint32_t counter, uint64_t start, uint64_t count, p4_count *);
P4_EXPORT int p4_counter_write(p4_instance *, uint32_t counter, uint64_t index, const p4_count *);
P4_EXPORT int p4_counter_reset(p4_instance *, uint32_t counter);
P4_EXPORT int p4_direct_counter_read(p4_instance *, uint32_t table, int64_t handle, p4_count *);
P4_EXPORT int p4_direct_counter_write(p4_instance *, uint32_t table, int64_t handle, const p4_count *);
P4_EXPORT int p4_direct_counter_reset(p4_instance *, uint32_t table);

/* Two-rate three-colour meter as on BMv2 (RFC 2698): rates in units (packets or bytes) per microsecond, bursts in
 * units; [0] committed, [1] peak. Or a single-rate one (RFC 2697): burst[1] is the excess burst, rate[1] unused. A
 * meter that was never set, or is set with P4_NO_RATES, says green (0). */
enum { P4_NO_RATES = 0, P4_TWO_RATES = 1, P4_SINGLE_RATE = 2 };
typedef struct p4_rates { double rate[2]; double burst[2]; uint32_t set; } p4_rates;
#define P4_COLOURS 3 /* green, yellow, red */
P4_EXPORT int p4_meter_set(p4_instance *, uint32_t meter, uint64_t index, const p4_rates *);
P4_EXPORT int p4_meter_set_all(p4_instance *, uint32_t meter, const p4_rates *);
P4_EXPORT int p4_meter_get(p4_instance *, uint32_t meter, uint64_t index, p4_rates *);
P4_EXPORT int p4_direct_meter_set(p4_instance *, uint32_t table, int64_t handle, const p4_rates *);
P4_EXPORT int p4_direct_meter_get(p4_instance *, uint32_t table, int64_t handle, p4_rates *);
/* How many packets and bytes have got each colour: P4_COLOURS counts. */
P4_EXPORT int p4_meter_counts_get(p4_instance *, uint32_t meter, uint64_t index, p4_count *);
P4_EXPORT int p4_meter_counts_set(p4_instance *, uint32_t meter, uint64_t index, const p4_count *);
P4_EXPORT int p4_direct_meter_counts_get(p4_instance *, uint32_t table, int64_t handle, p4_count *);
P4_EXPORT int p4_direct_meter_counts_set(p4_instance *, uint32_t table, int64_t handle, const p4_count *);

/* Value sets of parsers: members are matches in the coding of a ternary table (value, mask per field). */
P4_EXPORT int p4_value_set_add(p4_instance *, uint32_t set, const uint64_t *match);
P4_EXPORT int p4_value_set_clear(p4_instance *, uint32_t set);
P4_EXPORT int p4_value_set_get(p4_instance *, uint32_t set, uint32_t index, uint64_t *match);

#endif
