/* What every system does with a packet that leaves: mark congestion, address a multicast copy, and
 * leave out the values that its receivers do not need.
 *
 * Included by a program after its `metadata_t`, as parser.p4 is.
 */
#ifndef EGRESS_P4
#define EGRESS_P4

control InaEgress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard) {
    bit<19> threshold = 0;

    /* A queue that a packet found at least this long marks it; 0: never. */
    action set_threshold(bit<19> packets) {
        threshold = packets;
    }
    table congestion {
        key = { standard.egress_port: exact; }
        actions = { set_threshold; }
        default_action = set_threshold(0);
        size = 512;
    }

    /* Each copy of a result is addressed to its own worker (or to the next switch). */
    action address(mac_t mac, ipv4_t ip) {
        hdr.ethernet.destination = mac;
        hdr.ip.destination = ip;
    }
    table receiver {
        key = { standard.egress_port: exact; standard.egress_rid: exact; }
        actions = { address; NoAction; }
        default_action = NoAction();
        size = 65536;
    }

#ifdef ZEROS
    /* The workers that a copy of a result is for, those behind its port: of the 256 among which is
     * the worker that the packet names, and whether there are others. */
    bit<1>   known = 0;
    bit<256> behind = 0;
    bit<1>   others = 0;

    action set_behind(bit<256> workers, bit<1> more) {
        known = 1;
        behind = workers;
        others = more;
    }
    table members {
        key = { hdr.ina.job: exact; standard.egress_port: exact; standard.egress_rid: exact;
                hdr.ina.exponent: exact; }
        actions = { set_behind; NoAction; }
        default_action = NoAction();
        size = 65536;
    }

    action omit_values() {
        hdr.values.setInvalid();
#if VALUE_BITS == 16
        hdr.short_values.setInvalid();
#endif
        hdr.ina.kind = hdr.ina.kind | WITHOUT_VALUES;
        hdr.ina.flags = hdr.ina.flags & ~FLAG_SHORT;
        hdr.ip.length = IP_BYTES + UDP_BYTES + INA_BYTES;
        hdr.udp.length = UDP_BYTES + INA_BYTES;
    }
#endif

    apply {
        if (hdr.ina.isValid()) {
            hdr.udp.checksum = 0;        // the values are the switch's, not the sender's
            if (standard.egress_rid != 0) {
                receiver.apply();
#ifdef ZEROS
                /* A copy that is for no worker that needs the values goes without them. */
                if (hdr.ina.kind == KIND_RESULT &&
                    (hdr.ina.flags & (FLAG_FOR_ONE | FLAG_FROM_ONE)) != 0) {
                    members.apply();
                    bit<256> needed = behind & ((bit<256>) 1 << hdr.ina.next_exponent);
                    if ((hdr.ina.flags & FLAG_FROM_ONE) != 0) {
                        needed = (behind ^ needed) | (bit<256>) others;
                    }
                    if (known == 1 && needed == 0) {
                        omit_values();
                    }
                }
#endif
            }
            congestion.apply();
            if (threshold != 0 && standard.enq_qdepth >= threshold) {
                hdr.ip.ecn = 3;
                hdr.ina.flags = hdr.ina.flags | FLAG_ECN;
            }
        }
    }
}

#endif
