/* ESA in two passes, when an event is decided: does this packet need a second pass?
 *
 * Included inside an apply block. What changes the aggregator or takes its values goes round once
 * more, as it came in, with what has been decided in its metadata.
 */
            if (meta.decided == 0 &&
                (meta.event == CLAIM || meta.event == ADD || meta.event == COMPLETE ||
                 meta.event == SWAP || meta.event == SWAP_HELD || meta.event == DOWNGRADE ||
                 meta.event == GHOST || meta.event == FLUSH || meta.event == FLUSH_ADD ||
                 meta.event == PULL || meta.event == RELEASE || meta.event == RE_EMIT)) {
                meta.decided = 1;
                meta.decision = meta.event;
#ifdef RECIRCULATION_PORT
                meta.again = 1;
                standard.egress_spec = RECIRCULATION_PORT;
#else
                resubmit_preserving_field_list(TWO_PASSES);
#endif
                return;
            }
