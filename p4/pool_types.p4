/* The pool of aggregators: its record, and the words in which a program speaks of it.
 *
 * esa.p4 and atp.p4 differ in who gets an aggregator and when it is free again. What an aggregator
 * is, what is counted, and where packets go is the same: this file has the types and constants,
 * pool.p4 the registers, actions and tables (with value_memory.p4 and forwarding.p4, which every
 * aggregating system has).
 */
#ifndef POOL_TYPES_P4
#define POOL_TYPES_P4

#include "aggregation.p4"

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
const bit<5> OUTSIDE       = 19;         // index or fragment outside the job's, or strange workers
const bit<5> OVER_RATE     = 20;         // beyond the switch's aggregation capacity (grid.p4)

/* How an occupation ended, counted per job of the owner in `endings` and `filling_time`. */
const bit<2> COMPLETED = 0;
const bit<2> EVICTED   = 1;              // left as a partial by a swap
const bit<2> PULLED    = 2;              // left as a partial by a reminder or a resend
const bit<2> DISCARDED = 3;              // ghost, or its result came before it was complete

/* Preemption modes, set by the control plane. */
const bit<2> BY_PRIORITY = 0;
const bit<2> ALWAYS      = 1;
const bit<2> COIN_FLIP   = 2;

/* Whether a gradient's workers are in the aggregator's sum of its fragment, or in the last one that has left it.
 * Where the switch sends results itself, no result from the PS frees what a late copy of such a gradient has
 * claimed. */
#ifdef DELIVERY
#define HAS_LEFT                                                                   \
    (slot.bitmap != 0 && slot.job == hdr.ina.job && slot.fragment == hdr.ina.fragment && \
     meta.known == hdr.workers.bitmap)
#else
#define HAS_LEFT false
#endif

/* The meter's colour of what is within the rate and the burst. */
const bit<2> GREEN = 0;

/* An aggregator's record, without the values. */
struct aggregator_t {
    bit<8>   state;
    bit<8>   priority;
    bit<16>  flags;                      // KEPT_FLAGS of what is in the sum
    bit<16>  job;
    bit<32>  fragment;
    bit<32>  index;
    bitmap_t bitmap;
    bit<48>  since;                      // time of the claim; when held, of the completion
    bit<48>  touched;                    // time of the last packet that used it
#ifdef GRID
    bit<16>  tag;                        // with which the sum goes on
#endif
}

struct metadata_t {
    /* this switch and its policies */
    bit<16>  node;
    mac_t    mac;
    ipv4_t   ip;
    bit<1>   hold;                       // release on the result instead of on completion
#ifdef TOKENS
    bit<1>   unheld;                     // so it would be, but for tokens (tokens.p4)
#endif
    bit<1>   downgrading;
    bit<2>   preemption;
    bit<48>  max_age;                    // 0: aggregators do not age
    /* the packet's job, at this switch */
    bit<16>  claimed;                    // the job that a packet says it is of
    bit<1>   refused;                    // that job may not send through this port
    bit<1>   aggregated;
    bitmap_t complete;                   // the workers that complete a sum here
    bit<32>  last;                       // the job has no fragment behind this one
    bit<32>  offset;                     // in the job's part of the pool
    bit<32>  slots;                      // the size of that part
    bit<32>  slot;                       // in the pool
    /* what the packet meets */
    bit<1>   inside;                     // index and fragment are the job's
    bit<1>   mine;                       // the aggregator belongs to the packet's fragment
    bit<1>   gone;                       // its job has ended
    bit<1>   aged;                       // nobody will ever complete it
    bit<1>   preempts;
    bitmap_t known;                      // the packet's workers that are in the sum already
    bitmap_t merged;
    /* what follows from it */
    bit<5>   event;
    bit<1>   acts;                       // it changes the aggregator or takes its values
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
#ifdef DELIVERY
    bit<1>   delivered;                  // as the result, to all of its job
#endif
#ifdef GRID
    bit<16>  tag;                        // of the packet's way
    bit<16>  adds;                       // who adds the complete sum to others; this switch: nobody
    bit<1>   signals;                    // collisions are dropped, and the sender is told
    bit<2>   color;                      // the meter's verdict
#endif
#ifdef TWO_PASSES
    /* what a second pass knows of the first (two_passes.p4) */
    @field_list(TWO_PASSES) bit<1>  decided;
    @field_list(TWO_PASSES) bit<5>  decision;    // the event
    @field_list(TWO_PASSES) bit<16> version;     // of the record that it was decided on
    bit<1>   again;                      // the packet goes round, not out
#endif
}

#endif
