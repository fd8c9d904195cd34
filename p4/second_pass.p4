/* ESA in two passes, where an event is decided: has this packet been here before?
 *
 * Included inside an apply block, when the aggregator's record has been read. What has been decided
 * in the first pass holds if nobody has changed the record since. Else the packet decides anew,
 * and this is its first pass again.
 */
            bit<16> version;
            slot_version.read(version, meta.slot);
            if (meta.decided == 1 && version == meta.version) {
                slot_version.write(meta.slot, version + 1);
            } else {
                meta.decided = 0;
                meta.version = version;
            }
            if (meta.decided == 1) {
                meta.event = meta.decision;
                meta.merged = slot.bitmap | hdr.workers.bitmap;
                if (hdr.ina.kind != KIND_RESULT) {
                    meta.heading = TO_SERVER;
                }
            } else
