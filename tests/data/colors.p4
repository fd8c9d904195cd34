/* Counts packets by the colour that a meter gives them, and sends each back to where it came from. */
#include <core.p4>
#include <v1model.p4>

struct metadata_t {
    bit<32> color;
}
struct headers_t { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t standard) {
    state start {
        transition accept;
    }
}

control Nothing(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Counting(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    counter(4, CounterType.packets_and_bytes) colors;
    meter(2, MeterType.bytes) limit;

    apply {
        limit.execute_meter(1, meta.color);
        colors.count(meta.color);
        standard.egress_spec = standard.ingress_port;
    }
}

control Leaving(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control Sending(packet_out packet, in headers_t hdr) {
    apply { }
}

V1Switch(P(), Nothing(), Counting(), Leaving(), Nothing(), Sending()) main;
