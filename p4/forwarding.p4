/* Where packets go: a job's along its tree, everything else by its address.
 *
 * Included inside an ingress control, which has `hdr`, `meta` (mac: this switch's; job and heading:
 * whose packet it is, and which way it goes) and `standard`.
 */

    /* Where a job's packets go from here. */
    action to_server(bit<9> port, mac_t mac, ipv4_t ip) {
        standard.egress_spec = port;
        hdr.ethernet.source = meta.mac;
        hdr.ethernet.destination = mac;
        hdr.ip.destination = ip;
    }
    action to_workers(bit<16> group) {
        standard.mcast_grp = group;
        hdr.ethernet.source = meta.mac;
    }
    action drop() {
        mark_to_drop(standard);
    }
    table job_route {
        key = { meta.job: exact; meta.heading: exact; }
        actions = { to_server; to_workers; drop; }
        default_action = drop();
        size = 2 * JOBS;
    }

    /* Everything else goes by its address. */
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
        size = 1024;
    }
