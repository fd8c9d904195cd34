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
 *   gradient, aggregator empty                CLAIM: the packet's content goes in; drop (DUPLICATE if
 *                                             its sum has left, with DELIVERY)
 *   gradient, same owner, new workers         ADD; when all have come COMPLETE: the sum leaves
 *   gradient, same owner, known workers       DUPLICATE: drop; RE_EMIT when complete and held
 *   gradient, same owner, some known          OVERLAP: unchanged to the PS
 *   gradient, other owner, higher priority    SWAP (SWAP_HELD if the old sum has left already)
 *   gradient, other owner, else               COLLISION: unchanged to its PS; the aggregator's
 *                                             priority is halved (DOWNGRADE)
 *   gradient, other owner, long untouched     GHOST: as if the aggregator were empty
 *             or of a job that has ended
 *   resend                                    FLUSH: takes a matching sum to the PS, else passes
 *   reminder from the PS                      PULL: the sum leaves as a partial, or NOTHING_HELD
 *   result from the PS                        RELEASE if the owner matches; multicast
 *
 * The control EsaEvent is this table: it names the event. The control Pool reads the aggregator's record,
 * asks for the event, moves the values and writes the record. What all systems with a pool share is in
 * pool.p4 (registers and the actions on them) and pool_ingress.p4 (from a packet's arrival to its job, and
 * from there to a port).
 *
 * Compile-time parameters: AGGREGATORS (pool size), VALUES, VALUE_BITS
 * (values.p4), BITMAP_WIDTH, ZEROS (zeros.p4), DELIVERY (delivery.p4).
 */
#include "ina.p4"
#include "pool_types.p4"
#include "parser.p4"
#include "egress.p4"

/* Whether an arriving fragment may evict another one's sum. A program that only differs in this
 * rule defines this macro and includes this file. */
#ifndef MAY_EVICT
#define MAY_EVICT (hdr.ina.priority > slot.priority)
#endif

/* ---- Which event is a packet, on the aggregator's record as it finds it (`slot`)? ---- */
control EsaEvent(inout headers_t hdr, inout metadata_t meta, in aggregator_t slot,
                 inout standard_metadata_t standard) {
    action flip_coin() {
        random(meta.preempts, 0, 1);
    }

    apply {
        if (hdr.ina.kind == KIND_GRADIENT && hdr.values.isValid()) {
            meta.heading = TO_SERVER;
            meta.known = slot.bitmap & hdr.workers.bitmap;
            meta.merged = slot.bitmap | hdr.workers.bitmap;
            /* Nobody completes the sum of an ended job, or of a late copy of a fragment that is over. */
            meta.aged = meta.gone;
            if (meta.max_age != 0 &&
                standard.ingress_global_timestamp - slot.touched > meta.max_age) {
                meta.aged = 1;
            }

            if ((hdr.ina.flags & (FLAG_PARTIAL | FLAG_COLLISION)) != 0) {
                meta.event = PASS;       // the rest never comes here: it would hold an aggregator
            } else if (meta.inside == 0 || IS_OF_STRANGERS) {
                meta.event = OUTSIDE;
            } else if ((hdr.ina.flags & FLAG_RESEND) != 0) {
                /* It must not claim: the other workers' values may be at the PS already, and the sum
                 * would never be complete. What is held here would be left behind. */
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
            } else if (slot.state == EMPTY && !HAS_LEFT) {
                meta.event = CLAIM;
            } else if (meta.mine == 1 || HAS_LEFT) {
                /* A packet that comes twice, or shares a worker with the sum, must not be added. */
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
                } else if (meta.preemption == ALWAYS || MAY_EVICT) {
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
            if (meta.mine == 1) {        // else another fragment would lose its sum
                meta.event = PULL;
            }
        } else if (hdr.ina.kind == KIND_RESULT) {
            meta.event = RESULT_PASSES;
            if (meta.mine == 1) {        // a late result: another fragment may own the aggregator
                meta.event = RELEASE;
            }
        }

        meta.acts = 1;                   // on the aggregator; these leave it as it is:
        if (meta.event == NOTHING || meta.event == DUPLICATE || meta.event == OVERLAP ||
            meta.event == COLLISION || meta.event == NOTHING_HELD ||
            meta.event == RESULT_PASSES || meta.event == PASS || meta.event == OUTSIDE) {
            meta.acts = 0;
        }
    }
}

#ifdef TWO_PASSES
#include "two_passes.p4"                 // asks EsaEvent in one pass, and acts in the next
#else
#define EVENT EsaEvent
#endif

control Pool(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
#include "pool.p4"
    EVENT() event;

    apply {
        /* ---- 1. What does the packet find? ---- */
        meta.inside = 1;
        if (meta.offset >= meta.slots) {
            meta.inside = 0;
            meta.slot = meta.slot - meta.offset;
        }
        if (hdr.ina.fragment > meta.last) {          // the job does not have it: nobody else will come
            meta.inside = 0;
        }
        read_slot();
        next = slot;
        meta.bitmap = slot.bitmap;
        meta.spent = standard.ingress_global_timestamp - slot.since;
        meta.mine = 0;
        /* The number of an empty aggregator's owner means nothing: 0 is job 0's fragment 0. */
        if (meta.inside == 1 && slot.state != EMPTY && slot.job == hdr.ina.job &&
            slot.fragment == hdr.ina.fragment) {
            meta.mine = 1;
        }

        /* ---- 2. Which event is it? ---- */
        event.apply(hdr, meta, slot, standard);

        /* ---- 3. What happens to the aggregator and the packet? ---- */
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
            COUNT_UNHELD
        } else if (meta.event == DUPLICATE) {
            meta.heading = NOWHERE;
        } else if (meta.event == RE_EMIT) {
            meta.move = TAKE;
            take_content(slot.flags);
        } else if (meta.event == SWAP) {
            vacate(EVICTED);
            occupy();
            meta.move = TRADE;           // the old values leave, not the packet's
            take_content((slot.flags & ~FOR_SOME) | FLAG_PARTIAL);
#ifdef TOKENS
            hdr.workers.wanted = 0;      // the newcomer's
#endif
        } else if (meta.event == SWAP_HELD || meta.event == GHOST) {
            vacate(DISCARDED);           // a held sum has left: not once more
            occupy();
        } else if (meta.event == DOWNGRADE) {
            next.priority = slot.priority >> 1;      // a dead job's aggregator gives way at last
            hdr.ina.flags = hdr.ina.flags | FLAG_COLLISION;
        } else if (meta.event == COLLISION || meta.event == OUTSIDE) {
            hdr.ina.flags = hdr.ina.flags | FLAG_COLLISION;
        } else if (meta.event == FLUSH) {
            vacate(PULLED);
            meta.move = TAKE;
            take_content(slot.flags | FLAG_RESEND);
            if (slot.state == FILLING) {
                meta.flags = meta.flags | FLAG_REMINDED;     // nothing was lost
            }
        } else if (meta.event == FLUSH_ADD) {
            vacate(PULLED);
            join();
            take_content(next.flags | (hdr.ina.flags & (FLAG_RESEND | FLAG_REMINDED)));
        } else if (meta.event == PULL) {
            vacate(PULLED);
            meta.move = TAKE;
            take_content((slot.flags & ~FOR_SOME) | FLAG_PARTIAL | FLAG_REMINDED);
        } else if (meta.event == NOTHING_HELD) {
            hdr.ina.kind = KIND_REMINDER_EMPTY;
            hdr.ip.source = meta.ip;
        } else if (meta.event == RELEASE) {
            vacate(DISCARDED);
        }

        /* ---- 4. Do it. ---- */
        if (meta.acts == 1) {
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
        }
        if (meta.vacated == 1 && slot.state == FILLING) {
            count_ending();
        } else if (meta.vacated == 1) {
            count_release();
        }
    }
}

#define RESULT_EXTRA 0                   // no result before it is named (testbed/protocols/pool_server.py)

#ifndef GRID                             // which has an ingress of its own around the pool
#include "pool_ingress.p4"

V1Switch(InaParser(), NoVerify(), PoolIngress(), InaEgress(), IpChecksum(), InaDeparser()) main;
#endif
