/* Plain L3 forwarding: the switch of systems that aggregate at the hosts (parameter server, ring).
 *
 * A packet goes towards its IPv4 destination along the most specific route, with new MAC addresses,
 * a smaller TTL and a new IPv4 checksum; without a route, or at the end of its TTL, it is dropped.
 * On its way out it gets a congestion mark where the queue that it found was long (egress.p4).
 *
 * Compile-time parameters: VALUES, BITMAP_WIDTH. A forwarder has no use for the values; the parser
 * takes them apart as it does for every system, so that a comparison of systems has equal parsers.
 */
#include "ina.p4"

struct metadata_t {
    mac_t   mac;                         // this switch's
    bit<16> claimed;                     // the job that a packet says it is of
    bit<1>  refused;                     // that job may not send through this port
}

#include "parser.p4"
#include "egress.p4"

control ForwardIngress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard) {
#include "routes.p4"
#include "admission.p4"

    action set_node(mac_t mac) {
        meta.mac = mac;
    }
    table node {
        actions = { set_node; }
        default_action = set_node(0);
        size = 1;
    }

    apply {
        node.apply();
        if (IS_CLAIM) {                  // may its job send through this port?
            admission.apply();
        }
        if (meta.refused == 0 && hdr.ip.isValid() && hdr.ip.ttl > 1) {
            route.apply();
        } else {
            drop();
        }
        TAKE_PATH
    }
}

V1Switch(InaParser(), NoVerify(), ForwardIngress(), InaEgress(), IpChecksum(), InaDeparser()) main;
