/* GRID's step where a packet arrives: is this gradient for us, and may we add it?
 *
 * Included inside an apply block, after the job has been looked up.
 */
            meta.tag = 0;
            if (hdr.ina.kind == KIND_GRADIENT) {
                meta.heading = TO_SERVER;
                meta.tag = hdr.ina.extra[15:0];
                if (hdr.ina.node != meta.node) {
                    meta.aggregated = 0;
                } else {
                    fan_in.apply();
                }
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
