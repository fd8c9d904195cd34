/* The pool of aggregators: registers, and the actions on them.
 *
 * Included inside the control Pool, which has `hdr`, `meta` and `standard` (see pool_types.p4).
 */

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
#ifdef GRID
    register<bit<16>>(AGGREGATORS)  slot_tag;
#endif
    register<bit<1>>(JOBS)          job_gone;    // 1: the job has ended; nobody waits for its sums
#include "value_memory.p4"

    /* ---- Statistics: per job, and ending ---- */
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
#ifdef GRID
        slot_tag.read(slot.tag, meta.slot);
#endif
        job_gone.read(meta.gone, (bit<32>) slot.job);
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
#ifdef GRID
        slot_tag.write(meta.slot, next.tag);
#endif
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
#ifdef GRID
        next.tag = meta.tag;
#endif
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
        meta.job = slot.job;             // an evicted sum goes to the server of its own job
#ifdef GRID
        meta.tag = slot.tag;             // the sum's way, not that of the packet that takes it along
#endif
    }

    /* ---- Statistics ---- */
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

#ifdef TOKENS
    /* A complete sum that is not held counts as one that is released at once. */
    action count_unheld() {
        bit<64> n;
        releases.read(n, (bit<32>) slot.job);
        releases.write((bit<32>) slot.job, n + (bit<64>) meta.unheld);
    }
#define COUNT_UNHELD count_unheld();
#else
#define COUNT_UNHELD
#endif
