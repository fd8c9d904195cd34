/* The smallest program: it is compiled for the sake of the runtime around it. */
#include <core.p4>
#include <v1model.p4>

struct headers_t { }
struct metadata_t { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t standard) {
    state start {
        transition accept;
    }
}

control Nothing(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Pass(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control D(packet_out packet, in headers_t hdr) {
    apply { }
}

V1Switch(P(), Nothing(), Pass(), Pass(), Nothing(), D()) main;
