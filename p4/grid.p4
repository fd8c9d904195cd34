/* GRID: every fragment names the switch that aggregates it, and the way it takes.
 *
 * A planner has decided which switch (or the parameter server, PS) adds up which workers' fragments
 * and over which links they go, so that no link and no switch gets more than it can take. A fragment
 * carries both decisions: `node`, the number of the switch that aggregates it (NOBODY: it goes to
 * the PS as it is), and in `extra` a *tag*, a number of its job by which every switch on the way
 * knows the port. What leaves a switch for the same PS can so take different links.
 *
 *   arriving gradient packet                  what the switch does
 *   ----------------------------------------  --------------------------------------------------
 *   names another switch, or nobody           untouched to where its tag says
 *   names this switch                         its group says whose values make the sum complete,
 *                                             the tag with which the sum goes on, and the switch
 *                                             that adds the complete sum to others, if one does
 *     beyond the aggregation capacity         OVER_RATE: unchanged on the sum's way to the PS
 *     else                                    what the memory's own table says (esa.p4, atp.p4)
 *     and finds its aggregator taken          as there (unchanged to the PS); or, an option, it is
 *                                             dropped and its sender told, who slows down
 *
 * A switch has an aggregation capacity, in bytes of gradients per second. A meter watches it, which
 * lets its input run ahead by a burst and no further.
 *
 * Whose the memory is when two fragments want it is another question than who aggregates where. So
 * the pool is ESA's or ATP's, and the ingress around it is that of pool_ingress.p4 with GRID's steps
 * where a packet arrives and where it leaves. Plain memory is ATP's without its indices that move:
 * first come, first served.
 *
 * Compile-time parameters: MEMORY, and those of the memory's program.
 */
#define GRID

#define FIRST_COME 0                     // plain and ATP's
#define PREEMPTIVE 1                     // ESA's

#ifndef MEMORY
#define MEMORY FIRST_COME
#endif

#if MEMORY == PREEMPTIVE
#include "esa.p4"
#else
#include "atp.p4"
#endif

control GridIngress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
#include "pool_tables.p4"
    Pool() pool;

    /* How much this switch may aggregate; the control plane sets the rate and the burst. */
    meter(1, MeterType.bytes) capacity;

    /* Fragments that meet here: a tag that leads here belongs to one group of workers. `complete`
     * are these workers, `tag` is what their sum, or what is not added up, goes on with. A sum that
     * is complete here names `adds`: the switch that adds it to others, or this one. The job's other
     * workers meet elsewhere: a sum must not wait for them. */
    action gather(bitmap_t complete, bit<16> tag, bit<1> signals, bit<16> adds) {
        meta.complete = complete;
        meta.tag = tag;
        meta.signals = signals;
        meta.adds = adds;
    }
    action pass_by() {
        meta.aggregated = 0;
    }
    table fan_in {
        key = { meta.job: exact; meta.tag: exact; }
        actions = { gather; pass_by; }
        default_action = pass_by();
        size = 65536;
    }

    /* The packet goes back to its sender, without its values: it was not added and not sent on. */
    action signal_sender() {
        hdr.ina.kind = KIND_COLLIDED;
        hdr.ip.destination = hdr.ip.source;
        hdr.ip.source = meta.ip;
        hdr.ip.length = IP_BYTES + UDP_BYTES + INA_BYTES;
        hdr.udp.length = UDP_BYTES + INA_BYTES;
        hdr.values.setInvalid();
        meta.heading = BY_ADDRESS;
    }

    apply {
        meta.event = NOTHING;
        meta.heading = BY_ADDRESS;
        meta.leaves = 0;
        meta.vacated = 0;
        meta.move = KEEP;
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
            meta.event_job = hdr.ina.job;
            if (hdr.ina.kind == KIND_RESULT) {
                meta.heading = TO_WORKERS;
            }
            job.apply();

            /* ---- Is this gradient for us, and may we add it? ---- */
            meta.tag = 0;
            if (hdr.ina.kind == KIND_GRADIENT) {
                meta.heading = TO_SERVER;
                meta.tag = hdr.ina.extra[15:0];
                if (hdr.ina.node != meta.node) {
                    meta.aggregated = 0;
                } else {
                    fan_in.apply();
                }
                /* A retransmission is not metered: it would leave the rest of its sum behind. */
                if (meta.aggregated == 1 && (hdr.ina.flags & NOT_AGGREGATED) == 0) {
                    capacity.execute_meter(0, meta.color);
                    if (meta.color != GREEN) {
                        hdr.ina.flags = hdr.ina.flags | FLAG_OVER_RATE;
                        meta.aggregated = 0;
                        meta.event = OVER_RATE;
                        count_event();
                    }
                }
            }
        }

        if (meta.aggregated == 1) {
            pool.apply(hdr, meta, standard);
            count_event();
        }

        /* ---- What tag steers it, and who is told of a collision? ---- */
        if ((meta.event == COLLISION || meta.event == DOWNGRADE) && meta.signals == 1) {
            signal_sender();
        } else if (hdr.ina.isValid() && hdr.ina.kind == KIND_GRADIENT) {
            hdr.ina.extra = (bit<32>) meta.tag;
            if (meta.event == COMPLETE || meta.event == RE_EMIT) {
                hdr.ina.node = meta.adds;    // a part stays alone: its rest would miss it there
            }
        }

        WITH_ROUNDED_SUM
        WITHOUT_ZEROS
        WITH_SHORT_VALUES
        if (meta.heading == BY_ADDRESS && hdr.ip.isValid()) {
            route.apply();
        } else if (meta.heading == TO_SERVER || meta.heading == TO_WORKERS) {
            job_route.apply();
        } else {
            drop();
        }
        TAKE_PATH
    }
}

V1Switch(InaParser(), NoVerify(), GridIngress(), InaEgress(), IpChecksum(), InaDeparser()) main;
