/* ESA: preemptive, priority-scheduled switch memory for in-network aggregation.
 *
 * A switch has a pool of aggregators, shared by all jobs. An aggregator holds one fragment's
 * running sum. When a fragment finds its aggregator taken by another fragment of lower priority,
 * it *swaps*: it takes the aggregator, and its packet carries the evicted sum to the evicted
 * job's parameter server (PS). Nothing is lost: a sum that left early is a *partial*, and the PS
 * adds what comes later.
 *
 *   arriving packet                           what the switch does
 *   ----------------------------------------  --------------------------------------------------
 *   gradient, aggregator empty                CLAIM: the packet's content goes in; drop
 *   gradient, same owner, new workers         ADD; when all have come COMPLETE: the sum leaves
 *   gradient, same owner, known workers       DUPLICATE: drop; RE_EMIT when complete and held
 *   gradient, same owner, some known          OVERLAP: unchanged to the PS
 *   gradient, other owner, higher priority    SWAP (SWAP_HELD if the old sum has left already)
 *   gradient, other owner, else               COLLISION: unchanged to its PS; the aggregator's
 *                                             priority is halved (DOWNGRADE)
 *   gradient, other owner, long untouched     GHOST: as if the aggregator were empty
 *   resend                                    FLUSH: takes a matching sum to the PS, else passes
 *   reminder from the PS                      PULL: the sum leaves as a partial, or NOTHING_HELD
 *   result from the PS                        RELEASE if the owner matches; multicast
 *
 * The apply block of EsaIngress is this table. It reads the aggregator's record, names the event,
 * moves the values, writes the record, counts, and routes by the job of whatever leaves.
 *
 * Compile-time parameters: AGGREGATORS (pool size), VALUES, BITMAP_WIDTH.
 */
#include "ina.p4"

#ifndef AGGREGATORS
#define AGGREGATORS 1024
#endif

#define JOBS 256                         // jobs that have statistics

/* State of an aggregator. */
const bit<8> EMPTY   = 0;
const bit<8> FILLING = 1;                // holds a sum that lacks workers
const bit<8> HELD    = 2;                // complete; the sum has left and waits for its result

/* Events, counted per job of the arriving packet in register `events`. */
const bit<5> NOTHING       = 0;
const bit<5> CLAIM         = 1;
const bit<5> ADD           = 2;
const bit<5> COMPLETE      = 3;
const bit<5> DUPLICATE     = 4;
const bit<5> RE_EMIT       = 5;
const bit<5> OVERLAP       = 6;
const bit<5> SWAP          = 7;
const bit<5> SWAP_HELD     = 8;
const bit<5> COLLISION     = 9;          // the aggregator's priority stays
const bit<5> DOWNGRADE     = 10;         // a collision that halves it
const bit<5> GHOST         = 11;
const bit<5> FLUSH         = 12;         // the sum leaves; it has the resender already
const bit<5> FLUSH_ADD     = 13;         // the sum leaves with the resender's values added
const bit<5> PULL          = 14;
const bit<5> NOTHING_HELD  = 15;
const bit<5> RELEASE       = 16;
const bit<5> RESULT_PASSES = 17;
const bit<5> PASS          = 18;         // not to be aggregated here
const bit<5> OUTSIDE       = 19;         // index outside the job's part of the pool

const bit<16> KEPT_FLAGS = FLAG_ECN | FLAG_OVERFLOW;   // what a sum inherits from its parts

/* How an occupation ended, counted per job of the owner in `endings` and `filling_time`. */
const bit<2> COMPLETED = 0;
const bit<2> EVICTED   = 1;              // left as a partial by a swap
const bit<2> PULLED    = 2;              // left as a partial by a reminder or a resend
const bit<2> DISCARDED = 3;              // ghost, or its result came before it was complete

/* What happens to the packet's and the aggregator's values. */
const bit<3> KEEP  = 0;
const bit<3> STORE = 1;                  // aggregator := packet
const bit<3> SUM   = 2;                  // aggregator, packet := aggregator + packet
const bit<3> TRADE = 3;                  // aggregator, packet := packet, aggregator
const bit<3> TAKE  = 4;                  // packet := aggregator

/* Where the packet goes. */
const bit<2> BY_ADDRESS = 0;             // to its IPv4 destination
const bit<2> TO_SERVER  = 1;             // up to the next aggregation point of its job, or its PS
const bit<2> TO_WORKERS = 2;             // down to all workers of its job
const bit<2> NOWHERE    = 3;

/* Preemption modes, set by the control plane. */
const bit<2> BY_PRIORITY = 0;
const bit<2> ALWAYS      = 1;
const bit<2> COIN_FLIP   = 2;

/* An aggregator's record, without the values. */
struct aggregator_t {
    bit<8>   state;
    bit<8>   priority;
    bit<16>  flags;                      // ECN and OVERFLOW of what is in the sum
    bit<16>  job;
    bit<32>  fragment;
    bit<32>  index;
    bitmap_t bitmap;
    bit<48>  since;                      // time of the claim; when held, of the completion
    bit<48>  touched;                    // time of the last packet that used it
}

struct metadata_t {
    /* this switch and its policies */
    bit<16>  node;
    mac_t    mac;
    ipv4_t   ip;
    bit<1>   hold;                       // release on the result instead of on completion
    bit<1>   downgrading;
    bit<2>   preemption;
    bit<48>  max_age;                    // 0: aggregators do not age
    /* the packet's job, at this switch */
    bit<1>   aggregated;
    bitmap_t complete;                   // the workers that complete a sum here
    bit<32>  offset;                     // in the job's part of the pool
    bit<32>  slots;                      // the size of that part
    bit<32>  slot;                       // in the pool
    /* what the packet meets */
    bit<1>   mine;                       // the aggregator belongs to the packet's fragment
    bit<1>   aged;
    bit<1>   preempts;
    bitmap_t known;                      // the packet's workers that are in the sum already
    bitmap_t merged;
    /* what follows from it */
    bit<5>   event;
    bit<16>  event_job;
    bit<3>   move;
    bit<1>   vacated;                    // an occupation ends, while filling or while held
    bit<2>   ending;
    bit<48>  spent;                      // how long it has been filling or held
    bit<32>  overflow;
    /* what leaves, and where to */
    bit<1>   leaves;                     // the packet leaves as the aggregator's content
    bit<16>  flags;
    bitmap_t bitmap;
    bit<16>  job;
    bit<2>   heading;
}

#include "parser.p4"
#include "egress.p4"

control EsaIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard) {
    aggregator_t slot;                   // the aggregator's record as the packet finds it
    aggregator_t next;                   // and as the packet leaves it

    /* ---- The pool: one record per aggregator ---- */
    register<bit<8>>(AGGREGATORS)   slot_state;
    register<bit<8>>(AGGREGATORS)   slot_priority;
    register<bit<16>>(AGGREGATORS)  slot_flags;
    register<bit<16>>(AGGREGATORS)  slot_job;
    register<bit<32>>(AGGREGATORS)  slot_fragment;
    register<bit<32>>(AGGREGATORS)  slot_index;
    register<bitmap_t>(AGGREGATORS) slot_bitmap;
    register<bit<48>>(AGGREGATORS)  slot_since;
    register<bit<48>>(AGGREGATORS)  slot_touched;
#define VALUE_REGISTER(n) register<bit<32>>(AGGREGATORS) value_##n;
    EACH_VALUE(VALUE_REGISTER)

    /* ---- Statistics: per job, and event or ending ---- */
    register<bit<64>>(JOBS * 32) events;
    register<bit<64>>(JOBS * 4)  endings;
    register<bit<64>>(JOBS * 4)  filling_time;
    register<bit<64>>(JOBS)      releases;
    register<bit<64>>(JOBS)      held_time;

    action read_slot() {
        slot_state.read(slot.state, meta.slot);
        slot_priority.read(slot.priority, meta.slot);
        slot_flags.read(slot.flags, meta.slot);
        slot_job.read(slot.job, meta.slot);
        slot_fragment.read(slot.fragment, meta.slot);
        slot_index.read(slot.index, meta.slot);
        slot_bitmap.read(slot.bitmap, meta.slot);
        slot_since.read(slot.since, meta.slot);
        slot_touched.read(slot.touched, meta.slot);
    }

    action write_slot() {
        slot_state.write(meta.slot, next.state);
        slot_priority.write(meta.slot, next.priority);
        slot_flags.write(meta.slot, next.flags);
        slot_job.write(meta.slot, next.job);
        slot_fragment.write(meta.slot, next.fragment);
        slot_index.write(meta.slot, next.index);
        slot_bitmap.write(meta.slot, next.bitmap);
        slot_since.write(meta.slot, next.since);
        slot_touched.write(meta.slot, next.touched);
    }

    /* The packet's fragment becomes the owner, with the packet's workers in the sum. */
    action occupy() {
        next.state = FILLING;
        next.priority = hdr.ina.priority;
        next.flags = hdr.ina.flags & KEPT_FLAGS;
        next.job = hdr.ina.job;
        next.fragment = hdr.ina.fragment;
        next.index = hdr.ina.index;
        next.bitmap = hdr.workers.bitmap;
        next.since = standard.ingress_global_timestamp;
        next.touched = standard.ingress_global_timestamp;
        meta.move = STORE;
        meta.heading = NOWHERE;
    }

    /* The packet's workers join the sum. */
    action join() {
        next.flags = slot.flags | (hdr.ina.flags & KEPT_FLAGS);
        next.bitmap = meta.merged;
        next.touched = standard.ingress_global_timestamp;
        meta.move = SUM;
        meta.bitmap = meta.merged;
    }

    /* The packet leaves with the aggregator's content, which is its owner's: to the owner's PS. */
    action take_content(bit<16> flags) {
        meta.leaves = 1;
        meta.heading = TO_SERVER;
        meta.flags = flags;
    }

    action vacate(bit<2> ending) {
        meta.vacated = 1;
        meta.ending = ending;
        next.state = EMPTY;
    }

    action write_content_header() {
        hdr.ina.kind = KIND_GRADIENT;
        hdr.ina.flags = meta.flags;
        hdr.ina.job = slot.job;
        hdr.ina.fragment = slot.fragment;
        hdr.ina.index = slot.index;
        hdr.workers.bitmap = meta.bitmap;
        hdr.ip.source = meta.ip;
        hdr.ip.length = IP_BYTES + UDP_BYTES + INA_BYTES + VALUES_BYTES;
        hdr.udp.length = UDP_BYTES + INA_BYTES + VALUES_BYTES;
        meta.job = slot.job;
    }

    /* ---- Moving values. The switch adds 64 numbers in one pass; so does a P4 target. ---- */
    action store_values() {
#define STORE_VALUE(n) value_##n.write(meta.slot, hdr.values.v##n);
        EACH_VALUE(STORE_VALUE)
    }

    /* The sign of (old ^ sum) & (packet ^ sum) is set when an addition overflows. */
    action sum_values() {
        bit<32> old;
        bit<32> sum;
        bit<32> overflow = 0;
#define SUM_VALUE(n)                                                  \
        value_##n.read(old, meta.slot);                               \
        sum = old + hdr.values.v##n;                                  \
        overflow = overflow | ((old ^ sum) & (hdr.values.v##n ^ sum)); \
        value_##n.write(meta.slot, sum);                              \
        hdr.values.v##n = sum;
        EACH_VALUE(SUM_VALUE)
        meta.overflow = overflow;
    }

    action trade_values() {
        bit<32> old;
#define TRADE_VALUE(n)                                \
        value_##n.read(old, meta.slot);               \
        value_##n.write(meta.slot, hdr.values.v##n);  \
        hdr.values.v##n = old;
        EACH_VALUE(TRADE_VALUE)
    }

    action take_values() {
        hdr.values.setValid();
#define TAKE_VALUE(n) value_##n.read(hdr.values.v##n, meta.slot);
        EACH_VALUE(TAKE_VALUE)
    }

    /* ---- Statistics ---- */
    action count_event() {
        bit<64> n;
        events.read(n, (bit<32>) (meta.event_job ++ meta.event));
        events.write((bit<32>) (meta.event_job ++ meta.event), n + 1);
    }

    action count_ending() {
        bit<64> n;
        endings.read(n, (bit<32>) (slot.job ++ meta.ending));
        endings.write((bit<32>) (slot.job ++ meta.ending), n + 1);
        filling_time.read(n, (bit<32>) (slot.job ++ meta.ending));
        filling_time.write((bit<32>) (slot.job ++ meta.ending), n + (bit<64>) meta.spent);
    }

    action count_release() {
        bit<64> n;
        releases.read(n, (bit<32>) slot.job);
        releases.write((bit<32>) slot.job, n + 1);
        held_time.read(n, (bit<32>) slot.job);
        held_time.write((bit<32>) slot.job, n + (bit<64>) meta.spent);
    }

    action flip_coin() {
        random(meta.preempts, 0, 1);
    }

    /* ---- Tables that the control plane fills ---- */

    /* This switch and its policies. */
    action set_node(bit<16> number, mac_t mac, ipv4_t ip, bit<1> hold, bit<1> downgrading,
                    bit<2> preemption, bit<48> max_age) {
        meta.node = number;
        meta.mac = mac;
        meta.ip = ip;
        meta.hold = hold;
        meta.downgrading = downgrading;
        meta.preemption = preemption;
        meta.max_age = max_age;
    }
    table node {
        actions = { set_node; }
        default_action = set_node(0, 0, 0, 0, 0, BY_PRIORITY, 0);
        size = 1;
    }

    /* A job that this switch aggregates: which workers make a sum complete here, and its part of
     * the pool. A packet's index maps to base + (index & mask), if that offset is below slots. */
    action aggregate(bitmap_t complete, bit<32> base, bit<32> mask, bit<32> slots) {
        meta.aggregated = 1;
        meta.complete = complete;
        meta.offset = hdr.ina.index & mask;
        meta.slots = slots;
        meta.slot = base + (hdr.ina.index & mask);
    }
    action do_not_aggregate() {
        meta.aggregated = 0;
    }
    table job {
        key = { hdr.ina.job: exact; }
        actions = { aggregate; do_not_aggregate; }
        default_action = do_not_aggregate();
        size = JOBS;
    }

    /* Where a job's packets go from here. */
    action to_server(bit<9> port, mac_t mac, ipv4_t ip) {
        standard.egress_spec = port;
        hdr.ethernet.source = meta.mac;
        hdr.ethernet.destination = mac;
        hdr.ip.destination = ip;
    }
    action to_workers(bit<16> group) {
        standard.mcast_grp = group;
        hdr.ethernet.source = meta.mac;
    }
    action drop() {
        mark_to_drop(standard);
    }
    table job_route {
        key = { meta.job: exact; meta.heading: exact; }
        actions = { to_server; to_workers; drop; }
        default_action = drop();
        size = 2 * JOBS;
    }

    /* Everything else goes by its address. */
    action forward(bit<9> port, mac_t mac) {
        standard.egress_spec = port;
        hdr.ethernet.source = meta.mac;
        hdr.ethernet.destination = mac;
        hdr.ip.ttl = hdr.ip.ttl - 1;
    }
    table route {
        key = { hdr.ip.destination: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 1024;
    }

    apply {
        meta.event = NOTHING;
        meta.heading = BY_ADDRESS;
        meta.leaves = 0;
        meta.vacated = 0;
        meta.move = KEEP;
        meta.overflow = 0;
        meta.aggregated = 0;
        node.apply();

        if (hdr.ina.isValid() && hdr.ina.version == INA_VERSION) {
            meta.job = hdr.ina.job;
            meta.event_job = hdr.ina.job;
            if (hdr.ina.kind == KIND_RESULT) {
                meta.heading = TO_WORKERS;
            }
            job.apply();
        }

        if (meta.aggregated == 1) {
            /* ---- 1. What does the packet meet? ---- */
            bit<1> inside = 1;
            if (meta.offset >= meta.slots) {
                inside = 0;
                meta.slot = meta.slot - meta.offset;
            }
            read_slot();
            next = slot;
            meta.bitmap = slot.bitmap;
            meta.spent = standard.ingress_global_timestamp - slot.since;
            meta.mine = 0;
            if (inside == 1 && slot.state != EMPTY && slot.job == hdr.ina.job &&
                slot.fragment == hdr.ina.fragment) {
                meta.mine = 1;
            }

            /* ---- 2. Which event is it? ---- */
            if (hdr.ina.kind == KIND_GRADIENT && hdr.values.isValid()) {
                meta.heading = TO_SERVER;
                meta.known = slot.bitmap & hdr.workers.bitmap;
                meta.merged = slot.bitmap | hdr.workers.bitmap;
                meta.aged = 0;
                if (meta.max_age != 0 &&
                    standard.ingress_global_timestamp - slot.touched > meta.max_age) {
                    meta.aged = 1;
                }

                if ((hdr.ina.flags & (FLAG_PARTIAL | FLAG_COLLISION)) != 0) {
                    meta.event = PASS;
                } else if (inside == 0) {
                    meta.event = OUTSIDE;
                } else if ((hdr.ina.flags & FLAG_RESEND) != 0) {
                    if (meta.mine == 0) {
                        meta.event = PASS;
                    } else if (meta.known == hdr.workers.bitmap) {
                        meta.event = FLUSH;
                    } else if (meta.known == 0) {
                        meta.event = FLUSH_ADD;
                    } else {
                        meta.event = OVERLAP;
                    }
                } else if ((hdr.workers.bitmap & meta.complete) == meta.complete) {
                    meta.event = PASS;   // nothing to wait for
                } else if (slot.state == EMPTY) {
                    meta.event = CLAIM;
                } else if (meta.mine == 1) {
                    if (meta.known == hdr.workers.bitmap && slot.state == HELD) {
                        meta.event = RE_EMIT;
                    } else if (meta.known == hdr.workers.bitmap) {
                        meta.event = DUPLICATE;
                    } else if (meta.known != 0 || slot.state == HELD) {
                        meta.event = OVERLAP;
                    } else if ((meta.merged & meta.complete) == meta.complete) {
                        meta.event = COMPLETE;
                    } else {
                        meta.event = ADD;
                    }
                } else if (meta.aged == 1) {
                    meta.event = GHOST;
                } else {
                    meta.preempts = 0;
                    if (meta.preemption == COIN_FLIP) {
                        flip_coin();
                    } else if (meta.preemption == ALWAYS || hdr.ina.priority > slot.priority) {
                        meta.preempts = 1;
                    }
                    if (meta.preempts == 1 && slot.state == HELD) {
                        meta.event = SWAP_HELD;
                    } else if (meta.preempts == 1) {
                        meta.event = SWAP;
                    } else if (meta.downgrading == 1) {
                        meta.event = DOWNGRADE;
                    } else {
                        meta.event = COLLISION;
                    }
                }
            } else if (hdr.ina.kind == KIND_REMINDER && hdr.ina.node == meta.node) {
                meta.heading = TO_SERVER;
                meta.event = NOTHING_HELD;
                if (meta.mine == 1) {
                    meta.event = PULL;
                }
            } else if (hdr.ina.kind == KIND_RESULT) {
                meta.event = RESULT_PASSES;
                if (meta.mine == 1) {
                    meta.event = RELEASE;
                }
            }

            /* ---- 3. What becomes of the aggregator and of the packet? ---- */
            if (meta.event == CLAIM) {
                occupy();
            } else if (meta.event == ADD) {
                join();
                meta.heading = NOWHERE;
            } else if (meta.event == COMPLETE) {
                vacate(COMPLETED);
                join();
                take_content(next.flags);
                if (meta.hold == 1) {
                    next.state = HELD;
                    next.since = standard.ingress_global_timestamp;
                }
            } else if (meta.event == DUPLICATE) {
                meta.heading = NOWHERE;
            } else if (meta.event == RE_EMIT) {
                meta.move = TAKE;
                take_content(slot.flags);
            } else if (meta.event == SWAP) {
                vacate(EVICTED);
                occupy();
                meta.move = TRADE;
                take_content(slot.flags | FLAG_PARTIAL);
            } else if (meta.event == SWAP_HELD || meta.event == GHOST) {
                vacate(DISCARDED);
                occupy();
            } else if (meta.event == DOWNGRADE) {
                next.priority = slot.priority >> 1;
                hdr.ina.flags = hdr.ina.flags | FLAG_COLLISION;
            } else if (meta.event == COLLISION || meta.event == OUTSIDE) {
                hdr.ina.flags = hdr.ina.flags | FLAG_COLLISION;
            } else if (meta.event == FLUSH) {
                vacate(PULLED);
                meta.move = TAKE;
                take_content(slot.flags | FLAG_RESEND);
            } else if (meta.event == FLUSH_ADD) {
                vacate(PULLED);
                join();
                take_content(next.flags | FLAG_RESEND);
            } else if (meta.event == PULL) {
                vacate(PULLED);
                meta.move = TAKE;
                take_content(slot.flags | FLAG_PARTIAL | FLAG_REMINDED);
            } else if (meta.event == NOTHING_HELD) {
                hdr.ina.kind = KIND_REMINDER_EMPTY;
                hdr.ip.source = meta.ip;
            } else if (meta.event == RELEASE) {
                vacate(DISCARDED);
            }

            /* ---- 4. Do it. ---- */
            if (meta.move == STORE) {
                store_values();
            } else if (meta.move == SUM) {
                sum_values();
            } else if (meta.move == TRADE) {
                trade_values();
            } else if (meta.move == TAKE) {
                take_values();
            }
            if (meta.overflow[31:31] == 1) {
                next.flags = next.flags | FLAG_OVERFLOW;
                meta.flags = meta.flags | FLAG_OVERFLOW;
            }
            if (meta.leaves == 1) {
                write_content_header();
            }
            write_slot();
            count_event();
            if (meta.vacated == 1 && slot.state == FILLING) {
                count_ending();
            } else if (meta.vacated == 1) {
                count_release();
            }
        }

        /* ---- 5. Send it. ---- */
        if (meta.heading == BY_ADDRESS && hdr.ip.isValid()) {
            route.apply();
        } else if (meta.heading == TO_SERVER || meta.heading == TO_WORKERS) {
            job_route.apply();
        } else {
            drop();
        }
    }
}

V1Switch(InaParser(), NoVerify(), EsaIngress(), InaEgress(), IpChecksum(), InaDeparser()) main;
