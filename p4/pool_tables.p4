/* The tables of a switch with a pool, the events that it counts, and the formats of packets.
 *
 * Included inside an ingress control, which has `hdr`, `meta` and `standard` (see pool_types.p4).
 */

#include "zeros.p4"
#include "short_values.p4"
#include "admission.p4"
#include "forwarding.p4"

    /* Statistics: per job and event. */
    register<bit<64>>(JOBS * 32) events;

    action count_event() {
        bit<64> n;
        events.read(n, (bit<32>) (meta.event_job ++ meta.event));
        events.write((bit<32>) (meta.event_job ++ meta.event), n + 1);
    }

    /* This switch and its policies. */
    action set_node(bit<16> number, mac_t mac, ipv4_t ip, bit<1> hold, bit<1> downgrading,
                    bit<2> preemption, bit<48> max_age) {
        meta.node = number;
        meta.mac = mac;
        meta.ip = ip;
        meta.hold = hold;
        meta.downgrading = downgrading;
        meta.preemption = preemption;
        meta.max_age = max_age;
    }
    table node {
        actions = { set_node; }
        default_action = set_node(0, 0, 0, 0, 0, BY_PRIORITY, 0);
        size = 1;
    }

    /* A job that this switch aggregates: which workers make a sum complete here, its part of the
     * pool, and the number of its last fragment. A packet's index maps to base + (index & mask), if
     * that offset is below slots. */
    action aggregate(bitmap_t complete, bit<32> base, bit<32> mask, bit<32> slots, bit<32> last) {
        meta.aggregated = 1;
        meta.complete = complete;
        meta.last = last;
        meta.offset = hdr.ina.index & mask;
        meta.slots = slots;
        meta.slot = base + (hdr.ina.index & mask);
    }
    action do_not_aggregate() {
        meta.aggregated = 0;
    }
    table job {
        key = { hdr.ina.job: exact; }
        actions = { aggregate; do_not_aggregate; }
        default_action = do_not_aggregate();
        size = JOBS;
    }
