/* An Ethernet switch whose controller learns where the stations are.
 *
 * A frame goes to the port of its destination, or to all ports but its own. The first frame of a
 * station that the controller has not told us about is copied to the controller, too. */
#include <core.p4>
#include <v1model.p4>

typedef bit<9> port_t;
typedef bit<48> mac_t;

const port_t CPU_PORT = 510;
const bit<16> EVERYBODY = 1;        /* multicast group of all ports */
const bit<32> TO_CONTROLLER = 100;  /* clone session */

@controller_header("packet_in")
header packet_in_t {
    port_t ingress_port;
    bit<7> _pad;
}

header ethernet_t {
    mac_t destination;
    mac_t source;
    bit<16> type;
}

struct headers_t {
    packet_in_t packet_in;
    ethernet_t ethernet;
}

struct metadata_t {
    @field_list(1)
    port_t came_from;
}

parser LearningParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control LearningVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }

control LearningIngress(inout headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard) {
    register<bit<32>>(1) unknown_frames;

    action to_port(port_t port) { standard.egress_spec = port; }
    action flood() { standard.mcast_grp = EVERYBODY; }
    table destinations {
        key = { hdr.ethernet.destination: exact; }
        actions = { to_port; flood; }
        default_action = flood();
        size = 1024;
    }

    action tell_controller() {
        clone_preserving_field_list(CloneType.I2E, TO_CONTROLLER, 1);
    }
    table sources {
        key = { hdr.ethernet.source: exact; standard.ingress_port: exact; }
        actions = { NoAction; tell_controller; }
        default_action = tell_controller();
        size = 1024;
    }

    apply {
        meta.came_from = standard.ingress_port;
        if (!sources.apply().hit) {
            bit<32> count;
            unknown_frames.read(count, 0);
            unknown_frames.write(0, count + 1);
        }
        destinations.apply();
    }
}

control LearningEgress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard) {
    apply {
        if (standard.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = meta.came_from;
            hdr.packet_in._pad = 0;
        } else if (standard.egress_port == standard.ingress_port) {
            mark_to_drop(standard);  /* a flooded frame does not go back */
        }
    }
}

control LearningCompute(inout headers_t hdr, inout metadata_t meta) { apply { } }

control LearningDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(LearningParser(), LearningVerify(), LearningIngress(), LearningEgress(),
         LearningCompute(), LearningDeparser()) main;
