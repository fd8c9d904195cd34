/* What every system does with a packet that leaves: mark congestion, address a multicast copy, and
 * leave out the values that its receivers do not need.
 *
 * Included by a program after its `metadata_t`, as parser.p4 is.
 */
#ifndef EGRESS_P4
#define EGRESS_P4

#ifdef DEPARTURES
#ifndef JOBS
#define JOBS 256
#endif

/* Whether a pool here has done something with the packet (pool_types.p4). */
#ifdef POOL_TYPES_P4
#define POOL_EVENT meta.event
#define IS_UNTOUCHED (meta.event == NOTHING || meta.event == PASS)
#define IS_INTERESTING true              // also partial sums, on their way
/* A packet may end before its bitmap. */
#define IS_SUM (hdr.workers.isValid() && (hdr.workers.bitmap & (hdr.workers.bitmap - 1)) != 0)
#else
#define POOL_EVENT 0
#define IS_UNTOUCHED true
#define IS_INTERESTING (TO_SWITCH == 0)  // nothing happens to a gradient on its way
#define IS_SUM false                     // where nobody adds, a gradient is one worker's
#endif

/* 1: the packet goes to the next switch, not to a host (addresses: p4fabric/base/topology.py). */
#define TO_SWITCH hdr.ethernet.destination[16:16]

/* The flags that say what has happened to a gradient before. */
const bit<16> TELLING_FLAGS = FLAG_RESEND | FLAG_REMINDED | FLAG_PARTIAL | FLAG_COLLISION |
                              FLAG_OVER_RATE | FLAG_FLOAT;

/* Causes of departures beside the pool's events, and with numbers that these do not have. */
const bit<5> EMPTY_ANSWER   = 15;        // to a reminder; also that of another switch
const bit<5> FROM_WORKER    = 24;        // one worker's gradient, as it was sent
const bit<5> SUM_OF_ANOTHER = 25;        // completed by another switch
const bit<5> EVICTED_BEFORE = 26;        // by another switch, as those that follow
const bit<5> PULLED_BEFORE  = 27;
const bit<5> COLLIDED       = 28;
const bit<5> OVER_CAPACITY  = 29;
const bit<5> RETRANSMISSION = 30;
const bit<5> FLOATS         = 31;
#endif

control InaEgress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard) {
    bit<19> threshold = 0;
    bit<19> all_from = 0;                // queue length from which all packets are marked
    bit<32> slope = 0;                   // up to there: probability per packet, in 2^-24

    /* Packets that were marked in front of each port. */
    counter(PORTS, CounterType.packets) marks;

    /* A queue that a packet found at least this long marks it; 0: never. */
    action set_threshold(bit<19> packets) {
        threshold = packets;
    }
    /* One between these lengths marks some of them: linearly, as random early detection has it. */
    action set_slope(bit<19> packets, bit<19> most, bit<32> per_packet) {
        threshold = packets;
        all_from = most;
        slope = per_packet;
    }
    table congestion {
        key = { standard.egress_port: exact; }
        actions = { set_threshold; set_slope; }
        default_action = set_threshold(0);
        size = 512;
    }

    /* Each copy of a result is addressed to its own worker (or to the next switch). */
    action address(mac_t mac, ipv4_t ip) {
        hdr.ethernet.destination = mac;
        hdr.ip.destination = ip;
    }
#ifdef DELIVERY
    bit<1> for_server = 0;               // the copy of a result that a switch sends itself

    action address_server(mac_t mac, ipv4_t ip) {
        for_server = 1;
        address(mac, ip);
    }
#endif
    table receiver {
        key = { standard.egress_port: exact; standard.egress_rid: exact; }
#ifdef DELIVERY
        actions = { address; address_server; NoAction; }
#else
        actions = { address; NoAction; }
#endif
        default_action = NoAction();
        size = 65536;
    }

#if defined(ZEROS) || defined(TOKENS)
    /* The workers that a copy of a result is for, those behind its port: of the 256 among which is
     * the worker that the packet names, and whether there are others. */
    bit<1>   known = 0;
    bit<256> behind = 0;
    bit<1>   others = 0;

#define IS_FOR_SOME                                                   \
    (hdr.ina.kind == KIND_RESULT && (hdr.ina.flags & (FLAG_FOR_ONE | FLAG_FROM_ONE)) != 0)
#ifdef TOKENS
#define NEEDS_MEMBERS ((hdr.ina.kind & ~WITHOUT_VALUES) == KIND_RESULT)
#else
#define NEEDS_MEMBERS IS_FOR_SOME
#endif

    action set_behind(bit<256> workers, bit<1> more) {
        known = 1;
        behind = workers;
        others = more;
    }
    table members {
        key = { hdr.ina.job: exact; standard.egress_port: exact; standard.egress_rid: exact;
                hdr.ina.exponent: exact; }
        actions = { set_behind; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
#endif

#ifdef ZEROS
    action omit_values() {
        hdr.values.setInvalid();
#if VALUE_BITS < 32
        hdr.short_values.setInvalid();
#endif
        hdr.ina.kind = hdr.ina.kind | WITHOUT_VALUES;
        hdr.ina.flags = hdr.ina.flags & ~FLAG_SHORT;
        hdr.ip.length = IP_BYTES + UDP_BYTES + INA_BYTES;
        hdr.udp.length = UDP_BYTES + INA_BYTES;
    }
#endif

#ifdef DEPARTURES
#include "departures.p4"
#endif

    apply {
        if (hdr.ina.isValid()) {
            hdr.udp.checksum = 0;        // the values are the switch's, not the sender's
            if (standard.egress_rid != 0) {
                receiver.apply();
#if defined(DELIVERY) && defined(DEPARTURES)
                if (for_server == 1 && IS_COUNTED) {
                    bit<5> cause = COMPLETE;
                    if (meta.event != COMPLETE) {
                        cause = SUM_OF_ANOTHER;
                    }
                    count_departure(cause);
                }
#endif
#if defined(ZEROS) || defined(TOKENS)
                if (NEEDS_MEMBERS) {
                    members.apply();
#ifdef TOKENS
                    /* A copy of tokens that is for none of those that get them is dropped. */
                    if (known == 1 && others == 0 &&
                        (behind & (bit<256>) hdr.workers.bitmap) == 0) {
                        mark_to_drop(standard);
                    }
#endif
#ifdef ZEROS
                    /* A copy that is for no worker that needs the values goes without them. */
                    bit<256> needed = behind & ((bit<256>) 1 << hdr.ina.next_exponent);
                    if ((hdr.ina.flags & FLAG_FROM_ONE) != 0) {
                        needed = (behind ^ needed) | (bit<256>) others;
                    }
                    if (known == 1 && needed == 0 && IS_FOR_SOME) {
                        omit_values();
                    }
#endif
                }
#endif
            }
#ifdef DEPARTURES
            else if (IS_INTERESTING && IS_COUNTED &&
                     ((hdr.ina.kind & ~WITHOUT_VALUES) == KIND_GRADIENT ||
                      hdr.ina.kind == KIND_REMINDER_EMPTY)) {
                bit<5> cause = POOL_EVENT;
                if (hdr.ina.kind == KIND_REMINDER_EMPTY) {
                    cause = EMPTY_ANSWER;
                } else if (IS_UNTOUCHED) {
                    if ((hdr.ina.flags & TELLING_FLAGS) == 0) {
                        cause = FROM_WORKER;
                        if (IS_SUM) {
                            cause = SUM_OF_ANOTHER;
                        }
                    } else if ((hdr.ina.flags & FLAG_RESEND) != 0) {
                        cause = RETRANSMISSION;
                    } else if ((hdr.ina.flags & FLAG_REMINDED) != 0) {
                        cause = PULLED_BEFORE;
                    } else if ((hdr.ina.flags & FLAG_PARTIAL) != 0) {
                        cause = EVICTED_BEFORE;
                    } else if ((hdr.ina.flags & FLAG_COLLISION) != 0) {
                        cause = COLLIDED;
                    } else if ((hdr.ina.flags & FLAG_OVER_RATE) != 0) {
                        cause = OVER_CAPACITY;
                    } else {
                        cause = FLOATS;
                    }
                }
                count_departure(cause);
            }
#endif
        }
        /* Packets of others say themselves whether they can be marked. */
        if (hdr.ina.isValid() || (hdr.ip.isValid() && hdr.ip.ecn != 0)) {
            congestion.apply();
            if (threshold != 0 && standard.enq_qdepth >= threshold) {
                bit<32> drawn = 0;
                bit<32> limit = 1;
                if (standard.enq_qdepth < all_from) {
                    random(drawn, 0, 0xFFFFFF);
                    limit = (bit<32>) (standard.enq_qdepth - threshold) * slope;
                }
                if (drawn < limit) {
                    marks.count((bit<32>) standard.egress_port);
                    hdr.ip.ecn = 3;
                    if (hdr.ina.isValid()) {
                        hdr.ina.flags = hdr.ina.flags | FLAG_ECN;
                    }
                }
            }
        }
    }
}

#endif
