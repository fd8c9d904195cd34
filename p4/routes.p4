/* Plain forwarding by IPv4 destination.
 *
 * Included inside an ingress control, which has `hdr`, `meta` (mac: this switch's) and `standard`, and
 * ends with TAKE_PATH, which is empty without the compile-time parameter PATHS (paths.p4).
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
#ifdef PATHS
    PathChoice() choice;
    bit<32> over = 0;                    // a group of paths
    bit<2>  by = 0;
    bit<16> paths = 0;                   // in this group; 0: the packet has no choice
    bit<16> way = 0;                     // the chosen one
    bit<16> groups = 0;                  // how far multicast groups of ways are apart; 0: one port

    action spread(bit<32> group, bit<16> count) {
        over = group;
        paths = count;
        by = BY_PACKET;
    }
    table path {
        key = { over: exact; way: exact; }
        actions = { forward; drop; }
        default_action = drop();
        size = 65536;
    }
#define ROUTES forward; spread; drop;
#define TAKE_PATH                                                                  \
    if (paths != 0) {                                                              \
        choice.apply(hdr, standard, by, paths, way);                               \
        if (groups == 0) {                                                         \
            path.apply();                                                          \
        } else {                                                                   \
            standard.mcast_grp = standard.mcast_grp + way * groups;                \
        }                                                                          \
    }
#else
#define ROUTES forward; drop;
#define TAKE_PATH
#endif
    table route {
        key = { hdr.ip.destination: lpm; }
        actions = { ROUTES }
        default_action = drop();
        size = 65536;
    }
