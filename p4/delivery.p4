/* Results that a switch sends itself (option results_from: switch).
 *
 * A sum that is complete at the switch of the job's parameter server (PS), or comes there complete from another
 * switch, has the values of all workers. It leaves as the result: one copy for each worker, as a result from the
 * PS would be, and one for the PS, which keeps it for workers that lose theirs. Only the PS decides what happens
 * to a sum that has left int32, and only the PS remembers which worker a sum for one worker belongs to; such
 * sums go to the PS first.
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
        hdr.ip.source = meta.ip;
        standard.mcast_grp = group;
    }
    table delivery {                     // the jobs whose PS is at this switch
        key = { hdr.ina.job: exact; }
        actions = { deliver; NoAction; }
        default_action = NoAction();
        size = JOBS;
    }

#define IS_WHOLE                                                                   \
    (meta.event == COMPLETE ||                                                     \
     (meta.event == PASS && (hdr.ina.flags & NOT_AGGREGATED) == 0 &&               \
      (hdr.workers.bitmap & meta.complete) == meta.complete))

#define WITH_DELIVERY                                                              \
    if (meta.aggregated == 1 && IS_WHOLE &&                                        \
        (hdr.ina.flags & (FLAG_OVERFLOW | FLAG_ROUND | FOR_SOME)) == 0) {          \
        delivery.apply();                                                          \
    }
#define IS_DELIVERED (meta.delivered == 1)

#else
#define WITH_DELIVERY
#define IS_DELIVERED false
#endif
