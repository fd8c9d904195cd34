/* Traffic manager: what is around a compiled pipeline to make it a switch.
 *
 * (packet, port, time) in; (packets, ports, times) out. No globals and no clock: the caller says what time
 * it is, so the same code serves a switch process (real clock) and virtual time, and equal calls give
 * equal packets. What happens after ingress and egress is the architecture's (its passes.h).
 *
 * Every port is the end of a link and models both of its directions:
 *
 *   ingress link:  queue -> serialise -> (loss, duplicate, reorder) -> delay, jitter -> ingress pipeline
 *   egress link:   queue -> egress pipeline -> serialise -> (loss, ...) -> delay, jitter -> out
 *
 * A port may have several egress queues (tm_queues_set): `priority` of the standard metadata selects one, and the
 * highest that may send is served first. Each has its own limits and its own rate in packets/s, as on BMv2; the
 * rate in bits/s, delays and losses are those of the link, which the queues share.
 *
 * A direction without shaping costs nothing: a packet between two such ports goes through ingress,
 * egress and deparser in one call, without queue and without a copy of its state.
 *
 * Time is modelled, not measured: an event has the time that the model gives it even when the caller
 * calls late, so a switch process that was held up catches up without distorting rates. All arithmetic
 * on times and decisions is integer arithmetic.
 *
 * Randomness: one stream per (seed, port, direction, purpose), a splitmix64 sequence, one number for each
 * packet that reaches the decision. Switching on jitter therefore does not change which packets are lost. */
#ifndef TM_H
#define TM_H

#include "p4rt.h"

#define TM_PORTS 511           /* ports are numbered 0..510; 511 drops */
#define TM_NEVER UINT64_MAX
#define TM_UNLIMITED UINT64_MAX
#define TM_CERTAIN (1ull << 63) /* probability 1 */
#define TM_PASSES 4096         /* pipeline passes that one arrival or event may cause */
#define TM_INSTANT 65536       /* that the events of one moment may cause */
#define TM_QUEUES 256          /* egress queues of a port, at most */
#define TM_ALL_QUEUES UINT32_MAX
#define TM_CLASSES 8           /* of packets, for lossless links */

typedef struct tm_switch tm_switch;

enum tm_direction { TM_INGRESS = 0, TM_EGRESS = 1 };

enum tm_status {
    TM_OK = 0,
    TM_NO_SUCH_PORT = -1,
    TM_BAD_VALUE = -2,
    TM_NO_MEMORY = -3,
    TM_EXISTS = -4,
    TM_NO_SUCH_GROUP = -5,
    TM_NO_SUCH_QUEUE = -6
};

/* One direction of a port's link. All zero, with unlimited queues, is "not shaped". */
typedef struct tm_shape {
    uint64_t rate_bps;      /* 0: unlimited. Bytes count from the Ethernet header to the end of the payload */
    uint64_t rate_pps;      /* 0: unlimited. BMv2's queue rate; both limits hold if both are set */
    uint64_t queue_packets; /* waiting packets, without the one on the wire */
    uint64_t queue_bytes;
    uint64_t delay_ns;
    uint64_t jitter_ns;  /* uniform in delay -jitter..+jitter, never reorders; at most delay_ns */
    uint64_t loss;       /* probabilities times 2^63 */
    uint64_t duplicate;
    uint64_t reorder;    /* such a packet takes reorder_ns longer; later ones overtake it */
    uint64_t reorder_ns;
} tm_shape;

/* What a link has carried. While it stays up, offered packets are packets + queue_drops; of the carried ones
 * packets - losses + duplicates arrive at the far end. */
typedef struct tm_counters {
    uint64_t packets, bytes;
    uint64_t queue_drops;
    uint64_t losses, duplicates, reordered;
    uint64_t max_queue; /* packets */
    uint64_t busy_ns;   /* time spent serialising */
    uint64_t down_drops; /* the link was down: sent meanwhile, or waiting or on their way when it went down */
    uint64_t tie_drops;  /* of queue_drops: of packets that arrived just when another one got the last place */
} tm_counters;

/* Which packets are of interest in notes, and what they are of: fields in their bytes, big-endian, at offsets from the
 * Ethernet header on. A packet is of interest if its 16 bits at mark_at are `mark`; it then is of a flow (16 bits) and
 * of a unit of it (32 bits), and has been sent before if its 32 bits at again_at, masked, are `again`. Its kind (low 4
 * bits of a byte) and 64 more bits are only noted. */
typedef struct tm_subject {
    uint32_t mark_at, mark;
    uint32_t kind_at, flow_at, unit_at, more_at;
    uint32_t again_at, again_mask, again;
} tm_subject;

/* What becomes of a packet outside of the pipelines. */
enum tm_fate {
    TM_QUEUE_FULL = 0,  /* dropped by a full queue */
    TM_LOST = 1,        /* by the link's loss */
    TM_DOWN = 2,        /* as the link was down, or went down while the packet waited or was on its way */
    TM_AGAIN = 3,       /* has come in on a port for which tm_note_again is on, and has been sent before; only noted */
    TM_EMITTED = 4,     /* given to the sink; this and the next one are only told */
    TM_DUPLICATED = 5   /* the link makes two of it */
};
typedef void (*tm_told)(uint32_t fate, uint32_t port, uint32_t direction, uint64_t mark, uint64_t time_ns);

/* What has become of a packet of interest. `packet`: kind, fate, direction, port, flow and unit, 4 + 2 + 1 + 9 + 16 +
 * 32 bits. */
typedef struct tm_note {
    uint64_t time_ns, packet, more;
} tm_note;

/* An egress queue: what the link has carried of its packets, what it has dropped, and its settings. A packet whose
 * priority names no queue is dropped, and counts as the link's `queue_drops` only. */
typedef struct tm_queue {
    uint64_t packets, bytes;
    uint64_t queue_drops;
    uint64_t max_queue;
    uint64_t queue;         /* packets that wait now */
    uint64_t queue_packets; /* the most that may wait */
    uint64_t rate_pps;      /* 0: unlimited */
} tm_queue;

/* The buffer of a switch with lossless links. Each input, which is a class of packets from a port, has a reserve and a
 * headroom of its own; all others bytes are shared. An input that uses more shared bytes than a threshold stops the far
 * end of its link, and what still comes from there goes into the headroom. A class is the priority of a packet: the
 * three high bits of IPv4's ToS, which programs find in `priority` of the standard metadata, and may change; or, where
 * ports have one queue, the lowest of `classes`. Packets of other classes are dropped by full queues as ever. */
enum tm_flow_control { TM_PFC = 1, TM_CREDITS = 2 };
typedef struct tm_buffer {
    uint64_t kind;    /* pause frames of IEEE 802.1Qbb, or credits */
    uint64_t bytes;   /* in all */
    uint64_t reserve; /* of each input */
    uint64_t xoff;    /* the threshold in bytes; 0: what is left of shared memory, shifted right by `shift` */
    uint64_t shift;
    uint64_t resume;  /* an input goes on when it uses so many bytes less than the threshold */
    uint64_t classes; /* lossless ones, a bit each */
    uint64_t by_output; /* 1: an output with more bytes than the threshold stops all ports */
    uint64_t longest; /* frame, in bytes */
    uint64_t held_at, held_mask; /* what the program keeps stays in the buffer until a packet has left with the same 8
                                    bytes there, of which the mask says which bits count; mask 0: it does not */
    uint64_t repeat_ns; /* credits are told again after so long, to a far end that was not there; 0: never */
} tm_buffer;

/* Of one input, and of the same class at the port's egress link. */
typedef struct tm_flow {
    uint64_t paused_ns, longest_ns, paused; /* how long, the longest time, and whether now, the far end stops us */
    uint64_t frames_received;
    uint64_t pausing_ns, pausing, frames_sent; /* the same of us and the far end */
    uint64_t bytes, peak, peak_headroom;       /* in the buffer */
    uint64_t headroom;                         /* its size */
    uint64_t drops;                            /* since the headroom was full */
    uint64_t waiting;                          /* packets of this class in the port's queue */
    uint64_t host_paused_ns, host_paused, host_waiting; /* of the host at the far end */
    uint64_t unknown, unknown_classes; /* of the port: frames of MAC control that mean nothing, and their classes */
    uint64_t buffer_peak;              /* of the switch */
    uint64_t held;                     /* bytes of packets that the program keeps */
    uint64_t full;                     /* 1: so many bytes wait for the port that all inputs are paused */
} tm_flow;

/* A pause of the far end of a port's link. cause: the output with a queue of packets from there that led to it. */
typedef struct tm_pause {
    uint64_t from_ns, until_ns; /* TM_NEVER: it has not ended */
    uint32_t port;
    uint16_t class, cause;
} tm_pause;

typedef struct tm_stats {
    uint64_t received;      /* packets that entered the ingress pipeline from a port */
    uint64_t sent;          /* packets given to the sink */
    uint64_t ingress_drops; /* by the program */
    uint64_t egress_drops;  /* by the program */
    uint64_t no_port;       /* left for a port that does not exist */
    uint64_t no_group;      /* multicast to a group that does not exist */
    uint64_t copies;        /* made by multicast */
    uint64_t clones, resubmits, recirculations;
    uint64_t failed;        /* assert or assume did not hold */
    uint64_t loop_drops;    /* more than TM_PASSES passes */
    uint64_t no_memory;
} tm_stats;

/* Where packets go. room() gives space for at least `bytes`; the packet is written there and emit() takes
 * the first `length` bytes of the last room as one packet. room() may be called again without emit(). */
typedef struct tm_sink {
    void *context;
    uint8_t *(*room)(void *context, uint32_t bytes);
    void (*emit)(void *context, uint32_t port, uint64_t time_ns, uint32_t length);
} tm_sink;

/* A packet in the built-in sink. */
typedef struct tm_output {
    uint64_t time_ns;
    uint64_t offset; /* in the bytes of tm_outputs */
    uint32_t length;
    uint32_t port;
} tm_output;

typedef struct tm_member {
    uint16_t port, rid;
} tm_member;

/* epoch_ns: the time at which P4 timestamps are 0. unit_ns: length of a P4 timestamp's unit. */
P4_EXPORT tm_switch *tm_create(const p4_program *program, p4_instance *instance, uint64_t seed,
                               uint64_t epoch_ns, uint64_t unit_ns);
P4_EXPORT void tm_destroy(tm_switch *); /* not the instance */
/* Has another instance, perhaps of another program, process all packets from now on; ports, links, groups and
 * sessions stay. Packets that wait in egress queues have been through the old program's ingress: if the program is
 * another one, they are dropped as by a full queue. Packets on links stay. The old instance is the caller's. */
P4_EXPORT int tm_program_set(tm_switch *, const p4_program *program, p4_instance *instance);

/* The number of egress queues of every port, 1 until then; only before the first port. With one queue, `priority`
 * means nothing. */
P4_EXPORT int tm_queues_set(tm_switch *, uint32_t count);

P4_EXPORT int tm_port_add(tm_switch *, uint32_t port);
P4_EXPORT int tm_port_exists(const tm_switch *, uint32_t port);
/* The limits and the rate in packets/s of the egress direction are those of each queue of the port. */
P4_EXPORT int tm_port_shape(tm_switch *, uint32_t port, uint32_t direction, const tm_shape *);
P4_EXPORT int tm_port_shape_get(const tm_switch *, uint32_t port, uint32_t direction, tm_shape *);
P4_EXPORT int tm_port_counters(const tm_switch *, uint32_t port, uint32_t direction, tm_counters *);
/* Both directions of a port's link go down (0) or come up. Packets that wait for the link or are on their way are
 * lost when it goes down, and all that are sent before it is up again; pipelines go on. Shaping stays. */
P4_EXPORT int tm_port_up_set(tm_switch *, uint32_t port, int up);
/* A port in loopback mode: what leaves it comes back into ingress, whether it has a link or not. TM_BAD_VALUE: the
 * architecture has none. */
P4_EXPORT int tm_port_loop_set(tm_switch *, uint32_t port, int loops);
/* The port for packets that want to be deflected where their queue is full; -1: none. TM_BAD_VALUE: the architecture has
 * no such packets. */
P4_EXPORT int tm_deflection_set(tm_switch *, int32_t port);
P4_EXPORT int tm_cpu_port_set(tm_switch *, uint32_t port); /* for copies to the CPU, if programs can ask for such */
P4_EXPORT int64_t tm_port_queue(tm_switch *, uint32_t port, uint32_t direction); /* packets waiting now */
/* Of one egress queue, or of all queues of the port (TM_ALL_QUEUES). */
P4_EXPORT int tm_queue_depth(tm_switch *, uint32_t port, uint32_t priority, uint64_t packets);
P4_EXPORT int tm_queue_rate(tm_switch *, uint32_t port, uint32_t priority, uint64_t rate_pps);
P4_EXPORT int tm_queue_get(const tm_switch *, uint32_t port, uint32_t priority, tm_queue *);

/* Makes all links lossless, once, before the first packet and after the last port. Each must have a rate. */
P4_EXPORT int tm_buffer_set(tm_switch *, const tm_buffer *);
/* The headroom of each input of a port; `host`: the far end is a host, whose network card the ingress link models. */
P4_EXPORT int tm_headroom_set(tm_switch *, uint32_t port, uint64_t bytes, int host);
P4_EXPORT int tm_flow_get(const tm_switch *, uint32_t port, uint32_t class, tm_flow *);
P4_EXPORT uint64_t tm_pauses(const tm_switch *, const tm_pause **, uint64_t *missed);
/* The first packet that waits in the egress queue of a class as it came in (host: in the host's); its length, 0: none. */
P4_EXPORT uint32_t tm_waiting_get(const tm_switch *, uint32_t port, uint32_t class, int host, const uint8_t **data);
/* 1: packets of a class that wait for an output came in by that port; so a pause of it waits for the output. */
P4_EXPORT int tm_holds(const tm_switch *, uint32_t port, uint32_t class, uint32_t output);
/* 1: what the program keeps of an input waits for a packet that waits at a port of another switch (host: in the network
 * card of the host at the far end). */
P4_EXPORT int tm_held_lacks(const tm_switch *, uint32_t port, uint32_t class, const tm_switch *other, uint32_t output,
                            int host);

/* Notes of what was lost, of at most so many packets, from now on; 0: none. Counters of links count all that is lost. */
P4_EXPORT int tm_notes_set(tm_switch *, const tm_subject *, uint64_t most);
P4_EXPORT int tm_note_again(tm_switch *, uint32_t port, int on); /* also of what comes in there and was sent before */
/* The notes in the order of their making; returns their number. *missed: those for which there was no room. */
P4_EXPORT uint64_t tm_notes(const tm_switch *, const tm_note **, uint64_t *missed);

P4_EXPORT int tm_group_set(tm_switch *, uint32_t group, const tm_member *, uint32_t count);
P4_EXPORT int tm_group_delete(tm_switch *, uint32_t group);
P4_EXPORT int64_t tm_group_get(const tm_switch *, uint32_t group, tm_member *, uint32_t capacity);
/* port or group may be -1: not used. Both -1 removes the session. length: clones carry at most so many bytes of the
 * packet; 0: all. */
P4_EXPORT int tm_mirror_set(tm_switch *, uint32_t session, int32_t port, int32_t group, uint32_t length);

/* Times never run backwards: a time before the last one counts as the last one. tm_receive handles all
 * events up to its time first. `data` need not outlive the call. */
P4_EXPORT int tm_receive(tm_switch *, uint32_t port, const uint8_t *data, uint32_t length, uint64_t now_ns);
/* A packet that the far end of a port's link has sent at `sent_ns`, which may be later than the last time, and earlier,
 * as long as the packet cannot have arrived yet: the link's delay without its jitter must reach beyond the last time.
 * Packets of a port are in the order of their times. So the far ends of many links can be asked one after the other
 * for what they send in a while. */
P4_EXPORT int tm_receive_ahead(tm_switch *, uint32_t port, const uint8_t *data, uint32_t length, uint64_t sent_ns);
/* The same of a packet whose last bytes follow from few: only `head` bytes are there, and TM_SEED behind them, from which
 * `fill` writes the others when the packet arrives. Until then it takes little memory. */
#define TM_SEED 16
typedef void (*tm_fill)(uint8_t *to, const uint8_t *seed, uint64_t bytes);
P4_EXPORT int tm_receive_seeded(tm_switch *, uint32_t port, const uint8_t *data, uint32_t head, uint32_t length,
                               uint64_t sent_ns, tm_fill fill);
P4_EXPORT void tm_advance(tm_switch *, uint64_t now_ns);
P4_EXPORT uint64_t tm_next_event(const tm_switch *); /* TM_NEVER: none */
P4_EXPORT uint64_t tm_now(const tm_switch *);
P4_EXPORT uint64_t tm_timestamp(const tm_switch *, uint64_t now_ns); /* P4 time, 48 bits */

/* early: hand a packet to the sink when its time of leaving is known instead of when it has come. The
 * times that a port emits are then still in order unless it reorders. Saves virtual time an event. */
P4_EXPORT void tm_set_early(tm_switch *, int early);

P4_EXPORT void tm_set_sink(tm_switch *, const tm_sink *); /* NULL: the built-in one */
P4_EXPORT uint64_t tm_outputs(const tm_switch *, const tm_output **, const uint8_t **bytes); /* count */
P4_EXPORT void tm_outputs_clear(tm_switch *);

/* Have a function told of every fate, at once; NULL: nobody. It must not call back. `mark` is p4_packet.mark, which all
 * copies of a packet have: on its ingress link the time at which it was sent, later what the pipelines have set. */
P4_EXPORT void tm_watch_set(tm_switch *, tm_told);

P4_EXPORT void tm_stats_get(const tm_switch *, tm_stats *);
P4_EXPORT void tm_stats_reset(tm_switch *); /* the port counters too */

#endif
