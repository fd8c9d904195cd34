/* Is this packet from where its job may send?
 *
 * Included inside an apply block, before anything else looks at the packet's job.
 */
        meta.refused = 0;
        meta.claimed = NO_JOB;
        if (hdr.workers.isValid()) {
            meta.claimed = hdr.ina.job;
        }
#ifdef TWO_PASSES
        if (meta.decided == 0)           // what goes round has been admitted
#endif
        if (IS_CLAIM) {
            admission.apply();
        }
        if (meta.refused == 1) {
            count_refusal();
        }
