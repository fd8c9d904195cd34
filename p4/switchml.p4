/* SwitchML: a pool of slots, each with a shadow copy, that workers clock by themselves.
 *
 * A job owns a fixed part of the pool. A worker streams its gradient in chunks; chunk k goes to slot
 * k % slots, and successive chunks of a slot alternate between the slot's two *sets*. A worker sends
 * its next chunk of a slot when it has the result of the last one, so nobody is more than one chunk
 * ahead, and a set can be used again as soon as every worker has been seen in the other one. Until
 * then it is the *shadow copy*: a worker that has lost the result sends its chunk again and is
 * served from it. There is no parameter server; the switch multicasts the results.
 *
 *   arriving gradient packet                  what the switch does
 *   ----------------------------------------  --------------------------------------------------
 *   first of its chunk                        CLAIM: its content overwrites the set's; drop
 *   same chunk, new worker                    ADD; the last one COMPLETEs: multicast of the result
 *   same chunk, known worker                  DUPLICATE: drop; RE_EMIT if the set is complete: the
 *                                             stored result to this worker
 *   same chunk, some workers known            OVERLAP: drop
 *   older chunk, or its worker has moved on   STALE: drop
 *   slot beyond the job's part of the pool,   OUTSIDE: drop
 *             chunk that cannot be the next, or
 *             workers that are not the job's here
 *
 * CLAIM, ADD and COMPLETE put the packet's workers into the bitmap of its set and take them out of
 * the other set's. When that empties a complete set, the set is free: released.
 *
 * With several switches each below the root adds up its own workers. On COMPLETE it sends the
 * subtotal up, on RE_EMIT once more (flagged resend). To the root a subtotal is a packet like any
 * other, so a known one is answered with the stored result, to the worker that has asked.
 *
 * Numbers are block floating point. A packet's values are scaled by a power of two that all workers
 * have agreed on one window earlier: each packet also has `next_exponent`, what its sender needs for
 * the values one window ahead, and the switch returns the largest.
 *
 * An *aggregator* is one set of a slot, so the pool has AGGREGATORS / SETS slots.
 *
 * With SETS = 1 there is no shadow copy: a set is free as soon as it is complete (released), and
 * nothing can be served again (no RE_EMIT). Workers can use twice the slots in the same memory, on
 * paths that lose nothing. What is sent twice does no harm: DUPLICATE until the chunk is complete,
 * STALE from then on.
 *
 * With TREES a job has several trees (tree.p4). A packet's `node` names one, and the slot's place is that
 * in the tree's part of the memory.
 *
 * Compile-time parameters: AGGREGATORS, SETS (2 or 1), TREES, VALUES, VALUE_BITS
 * (values.p4), BITMAP_WIDTH, ZEROS (zeros.p4).
 */
#include "ina.p4"
#include "aggregation.p4"
#define HOLDS_NOTHING                    // the owner of tokens frees a set, by its next chunk there
#include "tokens.p4"

#ifndef SETS
#define SETS 2
#endif

#define SLOTS (AGGREGATORS / SETS)

const bit<32> SECOND_SET = (SETS - 1) << 31;   // in a packet's index; with one set, a slot's bit

const bit<8> RELEASED = 3;               // free; what it has held last is still known

/* Events, counted per job in register `events`. */
const bit<5> NOTHING       = 0;
const bit<5> CLAIM         = 1;
const bit<5> ADD           = 2;
const bit<5> COMPLETE      = 3;
const bit<5> DUPLICATE     = 4;
const bit<5> RE_EMIT       = 5;
const bit<5> OVERLAP       = 6;
const bit<5> STALE         = 7;
const bit<5> OUTSIDE       = 8;
const bit<5> RESULT_PASSES = 9;

/* How a filling ended, counted per job in `endings` and `filling_time`. */
const bit<2> COMPLETED = 0;
const bit<2> DISCARDED = 3;              // overwritten by a newer chunk

struct set_t {
    bit<8>   state;
    bitmap_t bitmap;                     // of workers that are in the sum and have not moved on
    bit<48>  since;                      // time of the claim; when held, of the completion
}

struct metadata_t {
    /* this switch */
    mac_t    mac;
    ipv4_t   ip;
    /* the packet's job, at this switch */
    bit<16>  claimed;                    // the job that a packet says it is of
    bit<1>   refused;                    // that job may not send through this port
    bit<16>  job;
    bit<1>   aggregated;
    bit<1>   root;                       // nothing above: a complete sum is the result
    bitmap_t complete;                   // the workers that complete a sum here
    bit<32>  last;                       // the job has no chunk behind this one
    bit<32>  step;                       // from a chunk to the next one in the same set
    bit<32>  offset;                     // of the slot in the job's part of the pool
    bit<32>  slots;                      // the size of that part
    bit<32>  pair;                       // the slot
    bit<32>  slot;                       // the aggregator: SETS x slot + set
    bit<1>   second;                     // the packet's set
    /* what the packet meets */
    bit<32>  chunk;                      // that the set holds, or has held last
    bit<8>   exponent;                   // largest next_exponent so far
    bit<16>  flags;                      // of the sum
    bitmap_t known;                      // the packet's workers that are in the sum already
    bitmap_t merged;
    bit<1>   first;                      // the packet's content overwrites the set's
    bit<1>   late;                       // the packet's chunk is over
    /* what follows from it */
    bit<5>   event;
    bit<3>   move;
    bit<1>   joins;
    bit<1>   leaves;                     // the packet leaves with the set's content
    bit<1>   ends;                       // a filling ends
    bit<2>   ending;
    bit<48>  spent;                      // how long it has been filling
    bit<2>   releases;                   // sets that become free
    bit<48>  held;                       // how long they had been held
    bit<32>  overflow;
    /* where the packet goes */
    bit<2>   heading;
    bit<1>   to_asker;                   // to the worker that has sent it, not along the tree
}

#include "parser.p4"
#include "egress.p4"

control SwitchmlIngress(inout headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard) {
    set_t first;                         // the two sets of the slot
    set_t second;
    set_t own;                           // the same, as the packet sees them
    set_t other;

    /* ---- The pool. A packet touches both sets of a slot, so each has arrays of its own. ---- */
    register<bit<8>>(SLOTS)        first_state;
    register<bitmap_t>(SLOTS)      first_bitmap;
    register<bit<48>>(SLOTS)       first_since;
    register<bit<32>>(AGGREGATORS) slot_chunk;
    register<bit<8>>(AGGREGATORS)  slot_exponent;
    register<bit<16>>(AGGREGATORS) slot_flags;
#ifdef TREES
    register<bit<16>>(SLOTS)       slot_job;    // whose the slot is, for the control plane
#endif
#include "value_memory.p4"
#include "zeros.p4"
#include "short_values.p4"

#if SETS == 2
    register<bit<8>>(SLOTS)        second_state;
    register<bitmap_t>(SLOTS)      second_bitmap;
    register<bit<48>>(SLOTS)       second_since;

    action read_second() {
        second_state.read(second.state, meta.pair);
        second_bitmap.read(second.bitmap, meta.pair);
        second_since.read(second.since, meta.pair);
    }

    action write_second() {
        second_state.write(meta.pair, second.state);
        second_bitmap.write(meta.pair, second.bitmap);
        second_since.write(meta.pair, second.since);
    }
#else
    action read_second() {               // there is none: no packet names it, it stays empty
        second.state = EMPTY;
        second.bitmap = 0;
        second.since = 0;
    }

    action write_second() {}
#endif

    /* ---- Statistics: per job, and event or ending ---- */
    register<bit<64>>(JOBS * 32) events;
    register<bit<64>>(JOBS * 4)  endings;
    register<bit<64>>(JOBS * 4)  filling_time;
    register<bit<64>>(JOBS)      releases;
    register<bit<64>>(JOBS)      held_time;

    action read_slot() {
        first_state.read(first.state, meta.pair);
        first_bitmap.read(first.bitmap, meta.pair);
        first_since.read(first.since, meta.pair);
        read_second();
        slot_chunk.read(meta.chunk, meta.slot);
        slot_exponent.read(meta.exponent, meta.slot);
        slot_flags.read(meta.flags, meta.slot);
    }

    action write_slot() {
        first_state.write(meta.pair, first.state);
        first_bitmap.write(meta.pair, first.bitmap);
        first_since.write(meta.pair, first.since);
        write_second();
        slot_chunk.write(meta.slot, meta.chunk);
        slot_exponent.write(meta.slot, meta.exponent);
        slot_flags.write(meta.slot, meta.flags);
#ifdef TREES
        slot_job.write(meta.pair, meta.job);
#endif
    }

    /* The packet's content overwrites the set's. */
    action overwrite() {
        own.state = FILLING;
        own.since = standard.ingress_global_timestamp;
        meta.chunk = hdr.ina.fragment;
        meta.exponent = hdr.ina.next_exponent;
        meta.flags = hdr.ina.flags & (KEPT_FLAGS | FLAG_RESEND);
        meta.move = STORE;
    }

    /* The packet's values are added. */
    action add() {
        meta.flags = meta.flags | (hdr.ina.flags & (KEPT_FLAGS | FLAG_RESEND));
        meta.move = SUM;
    }

    /* The packet's workers are in this set now, and have moved on from the other. */
    action join() {
        meta.joins = 1;
        own.bitmap = meta.merged;
        other.bitmap = other.bitmap & ~hdr.workers.bitmap;
    }

    action end_filling(bit<2> ending) {
        meta.ends = 1;
        meta.ending = ending;
        meta.spent = standard.ingress_global_timestamp - own.since;
    }

    action release(bit<48> since) {
        meta.releases = meta.releases + 1;
        meta.held = meta.held + (standard.ingress_global_timestamp - since);
    }

    action write_content_header() {
        hdr.ina.flags = meta.flags;
        hdr.ina.next_exponent = meta.exponent;
        hdr.workers.bitmap = meta.complete;
        hdr.ip.source = meta.ip;
    }

    /* ---- Statistics ---- */
    action count_event() {
        bit<64> n;
        events.read(n, (bit<32>) (meta.job ++ meta.event));
        events.write((bit<32>) (meta.job ++ meta.event), n + 1);
    }

    action count_ending() {
        bit<64> n;
        endings.read(n, (bit<32>) (meta.job ++ meta.ending));
        endings.write((bit<32>) (meta.job ++ meta.ending), n + 1);
        filling_time.read(n, (bit<32>) (meta.job ++ meta.ending));
        filling_time.write((bit<32>) (meta.job ++ meta.ending), n + (bit<64>) meta.spent);
    }

    action count_releases() {
        bit<64> n;
        releases.read(n, (bit<32>) meta.job);
        releases.write((bit<32>) meta.job, n + (bit<64>) meta.releases);
        held_time.read(n, (bit<32>) meta.job);
        held_time.write((bit<32>) meta.job, n + (bit<64>) meta.held);
    }

    /* ---- Tables that the control plane fills ---- */

    /* This switch. */
    action set_node(mac_t mac, ipv4_t ip) {
        meta.mac = mac;
        meta.ip = ip;
    }
    table node {
        actions = { set_node; }
        default_action = set_node(0, 0);
        size = 1;
    }

    /* A job that this switch aggregates: which workers make a sum complete here, whether that is the
     * result, its part of the pool, its last chunk, and how far apart two chunks of a set are. With
     * two sets the top bit of a packet's index names one. */
    action aggregate(bitmap_t complete, bit<1> root, bit<32> base, bit<32> slots, bit<32> last,
                     bit<32> step) {
        meta.aggregated = 1;
        meta.complete = complete;
        meta.last = last;
        meta.step = step;
        meta.root = root;
        meta.slots = slots;
        meta.second = (hdr.ina.index & SECOND_SET)[31:31];
        meta.offset = hdr.ina.index & ~SECOND_SET;
        meta.pair = base + (hdr.ina.index & ~SECOND_SET);
    }
    action do_not_aggregate() {
        meta.aggregated = 0;
    }
    table job {
#ifdef TREES
        key = { hdr.ina.job: exact; hdr.ina.node: exact; }
        size = 65536;
#else
        key = { hdr.ina.job: exact; }
        size = JOBS;
#endif
        actions = { aggregate; do_not_aggregate; }
        default_action = do_not_aggregate();
    }

#include "admission.p4"
#include "forwarding.p4"

    /* At the root: where a worker is that is served again. */
    action to_worker(bit<9> port, mac_t mac, ipv4_t ip) {
        standard.egress_spec = port;
        hdr.ethernet.source = meta.mac;
        hdr.ethernet.destination = mac;
        hdr.ip.destination = ip;
    }
    table worker_route {
        key = { hdr.ina.job: exact; hdr.ina.sender: exact; }
        actions = { to_worker; drop; }
        default_action = drop();
        size = 65536;
    }

    apply {
        meta.event = NOTHING;
        meta.heading = BY_ADDRESS;
        meta.to_asker = 0;
        meta.move = KEEP;
        meta.joins = 0;
        meta.leaves = 0;
        meta.ends = 0;
        meta.releases = 0;
        meta.held = 0;
        meta.overflow = 0;
        meta.aggregated = 0;
        node.apply();
        if (IS_CLAIM) {                  // may its job send through this port?
            admission.apply();
        }

        if (meta.refused == 1) {
            meta.heading = NOWHERE;
        } else if (hdr.ina.isValid() && hdr.ina.version == INA_VERSION) {
            WITH_ZEROS
            WITH_WIDE_VALUES
            meta.job = hdr.ina.job;
            job.apply();
            WITH_WANTED
        }

        if (meta.aggregated == 1 && hdr.ina.kind == KIND_RESULT) {
            meta.event = RESULT_PASSES;
            meta.heading = TO_WORKERS;
            count_event();
        } else if (meta.aggregated == 1 && hdr.ina.kind == KIND_GRADIENT &&
                   hdr.values.isValid()) {
            /* ---- 1. What does the packet meet? ---- */
            meta.heading = NOWHERE;
            bit<1> inside = 1;
            if (meta.offset >= meta.slots) {
                inside = 0;
                meta.pair = meta.pair - meta.offset;
            }
            if (IS_OF_STRANGERS || hdr.ina.fragment > meta.last) {   // no sum of the job's
                inside = 0;
            }
            meta.slot = (meta.pair << (SETS - 1)) | (bit<32>) meta.second;
            read_slot();
            if (meta.second == 0) {
                own = first;
                other = second;
            } else {
                own = second;
                other = first;
            }
            meta.known = own.bitmap & hdr.workers.bitmap;
            meta.merged = own.bitmap | hdr.workers.bitmap;
            meta.first = 0;
            meta.late = 0;
            if (own.state == EMPTY || own.state == RELEASED ||
                (own.state == HELD && meta.known == 0)) {
                meta.first = 1;
            }
            /* SwitchML relies on paths that keep the order: this would be all if a packet could not
             * be late. A late one would start a chunk that is over, and spoil the next. So every set
             * remembers its chunk. */
            if (own.state != EMPTY) {
                if (hdr.ina.fragment > meta.chunk) {
                    meta.first = 1;
                    if (hdr.ina.fragment - meta.chunk > meta.step) {
                        inside = 0;      // no worker can be so far ahead; all due ones would be stale
                    }
                } else if (hdr.ina.fragment < meta.chunk || meta.first == 1) {
                    meta.late = 1;
                }
            }
            if (meta.first == 1) {
                meta.known = 0;
                meta.merged = hdr.workers.bitmap;
            }

            /* ---- 2. Which event is it? ---- */
            if (inside == 0) {
                meta.event = OUTSIDE;
            } else if (meta.late == 1) {
                meta.event = STALE;
            } else if (meta.known != 0 && meta.known != hdr.workers.bitmap) {
                meta.event = OVERLAP;
            } else if (meta.known != 0 && own.state == HELD) {
                meta.event = RE_EMIT;    // its result was lost, here or (a subtotal) above
            } else if (meta.known != 0) {
                meta.event = DUPLICATE;  // it must not be added twice
            } else if ((meta.merged & meta.complete) == meta.complete) {
                meta.event = COMPLETE;
            } else if (meta.first == 1) {
                meta.event = CLAIM;
            } else {
                meta.event = ADD;
            }

            /* ---- 3. What becomes of the slot and of the packet? ---- */
            if (meta.event == CLAIM || meta.event == ADD || meta.event == COMPLETE) {
                if (meta.first == 1 && own.state == FILLING) {
                    end_filling(DISCARDED);
                } else if (meta.first == 1 && own.state == HELD) {
                    release(own.since);
                }
                if (meta.first == 1) {
                    overwrite();
                } else {
                    add();
                    if ((int<8>) hdr.ina.next_exponent > (int<8>) meta.exponent) {
                        meta.exponent = hdr.ina.next_exponent;
                    }
                }
                join();
                if (other.state == HELD && other.bitmap == 0) {
                    release(other.since);
                    other.state = RELEASED;
                }
            }
            if (meta.event == COMPLETE) {
                if (meta.first == 0) {
                    end_filling(COMPLETED);
                }
                own.state = HELD;
                own.since = standard.ingress_global_timestamp;
                if (SETS == 1) {
                    release(own.since);
                    own.state = RELEASED;            // not EMPTY: a late copy would start it anew
                }
                meta.leaves = 1;
                meta.heading = TO_SERVER;
                if (meta.root == 1) {
                    meta.heading = TO_WORKERS;
                    hdr.ina.kind = KIND_RESULT;
                }
            } else if (meta.event == RE_EMIT) {
                meta.move = TAKE;
                meta.leaves = 1;
                meta.heading = TO_SERVER;
                meta.flags = meta.flags | FLAG_RESEND;
                if (meta.root == 1) {
                    meta.to_asker = 1;
                    hdr.ina.kind = KIND_RESULT_ONE;
                }
            }

            /* ---- 4. Do it. ---- */
            if (meta.move == STORE) {
                store_values();
            } else if (meta.move == SUM) {
                sum_values();
            } else if (meta.move == TAKE) {
                take_values();
            }
            if (meta.overflow[31:31] == 1) {
                meta.flags = meta.flags | FLAG_OVERFLOW;
            }
            if (meta.leaves == 1) {
                write_content_header();
            }
            if (meta.joins == 1) {
                if (meta.second == 0) {
                    first = own;
                    second = other;
                } else {
                    second = own;
                    first = other;
                }
                write_slot();
            }
            count_event();
            if (meta.ends == 1) {
                count_ending();
            }
            if (meta.releases != 0) {
                count_releases();
            }
        }

        /* ---- 5. Send it. ---- */
        WITH_ROUNDED_SUM
        WITHOUT_ZEROS
        WITH_SHORT_VALUES
        if (meta.to_asker == 1) {
            worker_route.apply();
        } else if (meta.heading == BY_ADDRESS && hdr.ip.isValid()) {
            route.apply();
        } else if (meta.heading == TO_SERVER || meta.heading == TO_WORKERS) {
            job_route.apply();
        } else {
            drop();
        }
        TAKE_PATH
    }
}

V1Switch(InaParser(), NoVerify(), SwitchmlIngress(), InaEgress(), IpChecksum(), InaDeparser()) main;
