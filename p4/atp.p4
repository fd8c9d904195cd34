/* ATP: switch memory for in-network aggregation, first come, first served.
 *
 * A switch has a pool of aggregators, shared by all jobs. An aggregator holds one fragment's
 * running sum. The fragment that finds its aggregator empty takes it, and keeps it until its
 * result passes back from the job's parameter server (PS), also while the complete sum is on its
 * way there and back. A fragment that finds it taken goes on to its own PS, which then does the
 * adding. After a collision the PS gives the window position another index, so collisions become
 * rarer.
 *
 *   arriving packet                           what the switch does
 *   ----------------------------------------  --------------------------------------------------
 *   gradient, aggregator empty                CLAIM: the packet's content goes in; drop (DUPLICATE if
 *                                             its sum has left, with DELIVERY)
 *   gradient, same owner, new workers         ADD; when all have come COMPLETE: the sum leaves,
 *                                             the aggregator is held (or freed, by policy)
 *   gradient, same owner, known workers       DUPLICATE: drop; RE_EMIT when complete and held
 *   gradient, same owner, some known          OVERLAP: unchanged to the PS
 *   gradient, other owner                     COLLISION: unchanged to its PS
 *   gradient, other owner, long untouched     GHOST: as if the aggregator were empty
 *             or of a job that has ended
 *   resend                                    FLUSH: takes a matching sum to the PS, else passes
 *   gradient as floating-point numbers        PASS; what is held of its fragment is void
 *   reminder from the PS                      PULL: the sum leaves as a partial, or NOTHING_HELD
 *   result from the PS                        RELEASE if the owner matches; multicast
 *
 * The apply block of Pool is this table. It reads the aggregator's record, names the event, moves the
 * values and writes the record. What all systems with a pool share is in pool.p4 (registers and the
 * actions on them) and pool_ingress.p4 (from a packet's arrival to its job, and from there to a port).
 * The record's priority is not used.
 *
 * Compile-time parameters: AGGREGATORS (pool size), VALUES, VALUE_BITS
 * (values.p4), BITMAP_WIDTH, ZEROS (zeros.p4), DELIVERY (delivery.p4).
 */
#include "ina.p4"
#include "pool_types.p4"
#include "parser.p4"
#include "egress.p4"

control Pool(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
#include "pool.p4"
#ifdef A2TP
    register<bit<8>>(AGGREGATORS)  slot_contended;   // 1: another fragment has met the owner
    register<bit<32>>(AGGREGATORS) slot_share;       // smallest share that a worker of it wants
    bit<8>  contended;
    bit<32> share;
#endif

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

            if ((hdr.ina.flags & (FLAG_PARTIAL | FLAG_COLLISION | FLAG_FLOAT)) != 0) {
                meta.event = PASS;       // the rest never comes here, or integers cannot add it
#ifdef A2TP
            } else if (hdr.ina.index == BYPASS) {
                meta.event = PASS;       // its workers do without an aggregator
#endif
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
                meta.event = COLLISION;
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
            if (meta.hold == 1) {        // until the result is out
                next.state = HELD;
                next.since = standard.ingress_global_timestamp;
            }
            COUNT_UNHELD
        } else if (meta.event == DUPLICATE) {
            meta.heading = NOWHERE;
        } else if (meta.event == RE_EMIT) {
            meta.move = TAKE;
            take_content(slot.flags);
        } else if (meta.event == GHOST) {
            vacate(DISCARDED);
            occupy();
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
        } else if (meta.event == PASS && meta.mine == 1 &&
                   (hdr.ina.flags & FLAG_FLOAT) != 0) {
            vacate(DISCARDED);       // the PS adds this fragment, as floating-point numbers
        }

#ifdef A2TP
        slot_contended.read(contended, meta.slot);
        slot_share.read(share, meta.slot);
        if (meta.event == CLAIM || meta.event == GHOST) {
            contended = 0;
            share = hdr.ina.extra;
        } else if (meta.event == COLLISION) {
            contended = 1;
        } else if (meta.event == RELEASE && contended == 1) {
            hdr.ina.flags = hdr.ina.flags | FLAG_CONTENDED;
        } else if (meta.move == SUM && hdr.ina.extra < share) {
            share = hdr.ina.extra;
        }
        slot_contended.write(meta.slot, contended);
        slot_share.write(meta.slot, share);
        if (meta.leaves == 1) {
            hdr.ina.extra = share;
        }
#endif

        /* ---- 4. Do it. ---- */
        if (meta.move == STORE) {
            store_values();
        } else if (meta.move == SUM) {
            sum_values();
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
        if (meta.vacated == 1 && slot.state == FILLING) {
            count_ending();
        } else if (meta.vacated == 1) {
            count_release();
        }
    }
}

#define RESULT_EXTRA hdr.ina.index       // the window position keeps its index

#ifndef GRID                             // which has an ingress of its own around the pool
#include "pool_ingress.p4"

V1Switch(InaParser(), NoVerify(), PoolIngress(), InaEgress(), IpChecksum(), InaDeparser()) main;
#endif
