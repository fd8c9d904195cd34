/* GRID's step where a packet leaves: what tag steers it, and who is told of a collision.
 *
 * Included inside an apply block, before the packet is routed.
 */
        if ((meta.event == COLLISION || meta.event == DOWNGRADE) && meta.signals == 1) {
            signal_sender();
        } else if (hdr.ina.isValid() && hdr.ina.kind == KIND_GRADIENT) {
            if (meta.leaves == 1) {
                meta.tag = slot.tag;
            }
            hdr.ina.extra = (bit<32>) meta.tag;
            if (meta.event == COMPLETE || meta.event == RE_EMIT) {
                hdr.ina.node = meta.adds;    // a part of a sum names a switch behind it, nobody adds it
            }
        }
