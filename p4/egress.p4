/* What every system does with a packet that leaves: mark congestion, address a multicast copy.
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

    apply {
        if (hdr.ina.isValid()) {
            hdr.udp.checksum = 0;        // the values are the switch's, not the sender's
            if (standard.egress_rid != 0) {
                receiver.apply();
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
