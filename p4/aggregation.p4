/* The words in which every program that aggregates speaks of its memory and its packets.
 *
 * Compile-time parameters: AGGREGATORS, how many sums the switch can hold, and JOBS, how many jobs
 * there can be, numbered from 0.
 */
#ifndef AGGREGATION_P4
#define AGGREGATION_P4

#include "adder.p4"

#ifndef AGGREGATORS
#define AGGREGATORS 1024
#endif

#ifndef JOBS
#define JOBS 256
#endif

/* State of an aggregator. */
const bit<8> EMPTY   = 0;
const bit<8> FILLING = 1;                // holds an incomplete sum
const bit<8> HELD    = 2;                // complete; the sum has left and waits for its result

/* Not all workers need the result's values. A partial does not say it: the rest of its header is not its own. */
const bit<16> FOR_SOME = FLAG_FOR_ONE | FLAG_FROM_ONE;
const bit<16> KEPT_FLAGS =               // what a sum inherits
    FLAG_ECN | FLAG_OVERFLOW | FLAG_ROUND | FOR_SOME | FLAG_INTEGERS;

/* What a switch must not aggregate carries one of these. A resend takes a sum along instead. */
const bit<16> NOT_AGGREGATED = FLAG_PARTIAL | FLAG_COLLISION | FLAG_RESEND | FLAG_FLOAT;

/* Whether a gradient is a sum of nobody, or of workers that the job does not have below this switch.
 * No sum that it is in could ever become complete. */
#define IS_OF_STRANGERS \
    (hdr.workers.bitmap == 0 || (hdr.workers.bitmap & ~meta.complete) != 0)

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

#endif
