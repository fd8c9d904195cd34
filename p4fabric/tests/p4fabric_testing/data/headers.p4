/* Headers and the parser of the programs in this folder: Ethernet, IPv4, and a route by its destination. */
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> ethertype;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<6>  dscp;
    bit<2>  ecn;
    bit<16> length;
    bit<16> identification;
    bit<3>  flags;
    bit<13> offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> source;
    bit<32> destination;
}

struct metadata_t {
    @field_list(1)
    bit<8> round;
}

/* Checksums: a program with a struct `headers_t` that has a member `ipv4`. */
#define CHECKSUMS \
control MyVerify(inout headers_t hdr, inout metadata_t meta) { apply { } } \
control MyCompute(inout headers_t hdr, inout metadata_t meta) { \
    apply { \
        update_checksum(hdr.ipv4.isValid(), \
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.length, \
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.ttl, \
              hdr.ipv4.protocol, hdr.ipv4.source, hdr.ipv4.destination }, \
            hdr.ipv4.checksum, HashAlgorithm.csum16); \
    } \
}

/* The table `route` of an ingress control. */
#define ROUTE \
    action drop() { mark_to_drop(standard); } \
    action forward(bit<9> port) { standard.egress_spec = port; } \
    table route { \
        key = { hdr.ipv4.destination: lpm; } \
        actions = { forward; drop; } \
        default_action = drop(); \
        size = 256; \
    }
