/* Results that a switch sends itself (option results_from: switch).
 *
 * A sum that is complete at the switch of the job's parameter server (PS) has the values of all workers. It
 * leaves as the result: one copy for each worker, as a result from the PS would be, and one for the PS, which
 * keeps it for workers that lose theirs. The PS alone says what is to be done about a sum that has left int32,
 * and remembers alone whose values a sum for one worker are; such sums go to the PS first.
 *
 * Included inside an ingress control, which has `hdr`, `meta` and `standard`. The program defines
 * RESULT_EXTRA, what a result says of the next fragment at its place. Without the compile-time parameter
 * DELIVERY both macros are empty, and every sum goes to its PS.
 */
#ifdef DELIVERY

    action deliver(bit<16> group) {
        meta.delivered = 1;
        hdr.ina.kind = KIND_RESULT;
        hdr.ina.extra = RESULT_EXTRA;
        hdr.ethernet.source = meta.mac;
        standard.mcast_grp = group;
    }
    table delivery {                     // the jobs whose PS is at this switch
        key = { hdr.ina.job: exact; }
        actions = { deliver; NoAction; }
        default_action = NoAction();
        size = JOBS;
    }

#define WITH_DELIVERY                                                            \
    if (meta.event == COMPLETE &&                                                \
        (hdr.ina.flags & (FLAG_OVERFLOW | FLAG_ROUND | FOR_SOME)) == 0) {        \
        delivery.apply();                                                        \
    }
#define IS_DELIVERED (meta.delivered == 1)

#else
#define WITH_DELIVERY
#define IS_DELIVERED false
#endif
