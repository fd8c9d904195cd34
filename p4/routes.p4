/* Plain forwarding by IPv4 destination.
 *
 * Included inside an ingress control, which has `hdr`, `meta` (mac: this switch's) and `standard`.
 */

    action drop() {
        mark_to_drop(standard);
    }
    action forward(bit<9> port, mac_t mac) {
        standard.egress_spec = port;
        hdr.ethernet.source = meta.mac;
        hdr.ethernet.destination = mac;
        hdr.ip.ttl = hdr.ip.ttl - 1;
    }
    table route {
        key = { hdr.ip.destination: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 65536;
    }
