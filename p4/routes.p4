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
        /* The checksum follows, as RFC 1624 has it: with IPv4 options it is not computed anew. */
        bit<32> sum = (bit<32>) ~hdr.ip.checksum + 0xfeff;
        hdr.ip.checksum = ~(sum[15:0] + sum[31:16]);
    }
    table route {
        key = { hdr.ip.destination: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 65536;
    }
