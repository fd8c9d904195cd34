/* ESA in two passes: an event is decided in the first, and acted on in the second.
 *
 * Included by esa.p4 before the control Pool, which asks for the event. esa_two_passes.p4 says why.
 */
control TwoPasses(inout headers_t hdr, inout metadata_t meta, in aggregator_t slot,
                  inout standard_metadata_t standard) {
    register<bit<16>>(AGGREGATORS) slot_version;     // how often the record has changed
    EsaEvent() event;

    apply {
        /* A decision holds if nobody has changed the record since. Else the packet decides anew, and
         * this is its first pass again. */
        bit<16> version;
        slot_version.read(version, meta.slot);
        if (meta.decided == 1 && version == meta.version) {
            slot_version.write(meta.slot, version + 1);
            meta.event = meta.decision;
            meta.merged = slot.bitmap | hdr.workers.bitmap;
            if (hdr.ina.kind != KIND_RESULT) {
                meta.heading = TO_SERVER;
            }
        } else {
            meta.decided = 0;
            event.apply(hdr, meta, slot, standard);
            if (meta.acts == 1) {        // once more, as it came in
                meta.decided = 1;
                meta.decision = meta.event;
                meta.version = version;
#ifdef RECIRCULATION_PORT
                meta.again = 1;
                standard.egress_spec = RECIRCULATION_PORT;
#else
                resubmit_preserving_field_list(TWO_PASSES);
#endif
                exit;
            }
        }
        meta.acts = meta.decided;
    }
}

#define EVENT TwoPasses

control RoundEgress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
    InaEgress() out_of_the_switch;

    apply {
        if (meta.again == 1) {
            recirculate_preserving_field_list(TWO_PASSES);
        } else {
            out_of_the_switch.apply(hdr, meta, standard);
        }
    }
}

#define InaEgress RoundEgress            // from here on
