/* GRID's tables: whose fragments meet here, and how fast the switch may add.
 *
 * Included inside an ingress control, which has `hdr`, `meta` and the pool's actions.
 */

    /* How much this switch may aggregate; the control plane sets the rate and the burst. */
    meter(1, MeterType.bytes) capacity;

    /* Fragments that meet here: a tag that leads here belongs to one group of workers. `complete`
     * are these workers, `tag` is what their sum, or what is not added up, goes on with. A sum that
     * is complete here names `adds`: the switch that adds it to others, or this one. */
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
