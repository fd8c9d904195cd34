/* Parser, checksum and deparser of the packet in ina.p4.
 *
 * Included by a program after it has declared its own `metadata_t` (with `claimed` and `refused`, see
 * admission.p4), since v1model gives the same metadata to the parser and to the controls.
 */
#ifndef PARSER_P4
#define PARSER_P4

parser InaParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard) {
    state start {
        meta.claimed = NO_JOB;
        meta.refused = 0;
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_IPV4: parse_ip;
            default: accept;
        }
    }

    state parse_ip {
        packet.extract(hdr.ip);
        transition select(hdr.ip.ihl, hdr.ip.offset, hdr.ip.protocol) {
            (5, 0, PROTOCOL_UDP): parse_udp;
#ifdef PATHS
            (5, 0, PROTOCOL_TCP): parse_tcp;
#endif
            default: accept;
        }
    }

#ifdef PATHS
    state parse_tcp {
        packet.extract(hdr.tcp);
        transition accept;
    }
#endif

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.destination) {
            INA_PORT: parse_ina;
            default: accept;
        }
    }

    state parse_ina {
        packet.extract(hdr.ina);
        packet.extract(hdr.workers);
        meta.claimed = hdr.ina.job;
        transition select(hdr.ina.version, hdr.ina.kind) {
            (INA_VERSION, KIND_GRADIENT): parse_values;
            (INA_VERSION, KIND_RESULT): parse_values;
            (INA_VERSION, KIND_RESULT_ONE): parse_values;
            default: accept;
        }
    }

#if VALUE_BITS < 32
    state parse_values {
        transition select(hdr.ina.flags & FLAG_SHORT) {
            FLAG_SHORT: parse_short_values;
            default: parse_whole_values;
        }
    }

    state parse_short_values {
        packet.extract(hdr.short_values);
        transition accept;
    }

    state parse_whole_values {
#else
    state parse_values {
#endif
        packet.extract(hdr.values);
        transition accept;
    }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control IpChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ip.isValid() && hdr.ip.ihl == 5,
            { hdr.ip.version, hdr.ip.ihl, hdr.ip.dscp, hdr.ip.ecn, hdr.ip.length,
              hdr.ip.identification, hdr.ip.flags, hdr.ip.offset, hdr.ip.ttl,
              hdr.ip.protocol, hdr.ip.source, hdr.ip.destination },
            hdr.ip.checksum, HashAlgorithm.csum16);
    }
}

control InaDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ip);
        packet.emit(hdr.udp);
#ifdef PATHS
        packet.emit(hdr.tcp);
#endif
        packet.emit(hdr.ina);
        packet.emit(hdr.workers);
        packet.emit(hdr.values);
#if VALUE_BITS < 32
        packet.emit(hdr.short_values);
#endif
    }
}

#endif
