/* Where packets go: a job's along its tree, everything else by its address.
 *
 * Included inside an ingress control, which has `hdr`, `meta` (mac: this switch's; job and heading:
 * whose packet it is, and which way it goes) and `standard`.
 */
#include "routes.p4"

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
#ifdef PATHS
    /* The way to the server that a sum's fragment has, or that its packet happens to take. */
    action to_server_over(bit<32> group, bit<16> count, bit<2> choice_by, ipv4_t ip) {
        over = group;
        paths = count;
        by = choice_by;
        hdr.ip.destination = ip;
    }
    /* The way back that the fragment has: one of several multicast groups. */
    action to_workers_over(bit<16> group, bit<16> count, bit<16> apart) {
        to_workers(group);
        paths = count;
        by = BY_FRAGMENT;
        groups = apart;
    }
#define JOB_ROUTES to_server; to_workers; to_server_over; to_workers_over; drop;
#else
#define JOB_ROUTES to_server; to_workers; drop;
#endif
    table job_route {
#ifdef GRID
        key = { meta.job: exact; meta.heading: exact; meta.tag: exact; }
        size = 65536;
#elif defined(TREES)
        key = { meta.job: exact; meta.heading: exact; hdr.ina.node: exact; }
        size = 65536;
#else
        key = { meta.job: exact; meta.heading: exact; }
        size = 2 * JOBS;
#endif
        actions = { JOB_ROUTES }
        default_action = drop();
    }
