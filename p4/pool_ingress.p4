/* A switch around a pool: whose packet is it, what does the pool do with it, where does it go?
 *
 * Included by a program that has defined the control Pool. Words in capitals are steps of the formats
 * in zeros.p4, short_values.p4 and delivery.p4, which are empty unless the switch is compiled for them.
 */
#define HOLDS_NOTHING meta.unheld = meta.hold; meta.hold = 0;
#include "tokens.p4"

control PoolIngress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
#include "pool_tables.p4"
#include "delivery.p4"
    Pool() pool;

    apply {
        meta.event = NOTHING;
        meta.heading = BY_ADDRESS;
        meta.leaves = 0;
        meta.vacated = 0;
        meta.move = KEEP;
        meta.overflow = 0;
        meta.aggregated = 0;
#ifdef TOKENS
        meta.unheld = 0;
#endif
#ifdef DELIVERY
        meta.delivered = 0;
#endif
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
            meta.event_job = hdr.ina.job;
            if (hdr.ina.kind == KIND_RESULT) {
                meta.heading = TO_WORKERS;
            }
            job.apply();
            WITH_WANTED
        }

        if (meta.aggregated == 1) {
            pool.apply(hdr, meta, standard);
            count_event();
        }

        WITH_ROUNDED_SUM
        WITH_DELIVERY
        WITHOUT_ZEROS
        WITH_SHORT_VALUES
        if (IS_DELIVERED) {
            ;                            // its group is set
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
