/* Which of several equal paths a packet takes.
 *
 * A table's action says how many paths there are and by what to choose (routes.p4, forwarding.p4); the
 * control PathChoice names one of them, and table `path` has the port of each. A path with twice the
 * weight has two places in the table.
 *
 *   PATHS   the choice BY_PACKET
 *   -----   ----------------------------------------------------------------------------------
 *   1       ECMP: a hash of the five-tuple, so all packets of a flow take one path
 *   2       flowlets: the same with the number of the flow's pause; after a gap, a flow may change
 *   3       packet spraying: a hash of the number of the packet at this switch
 *
 * BY_FRAGMENT is a hash of job and fragment that is the same in every switch, so that the packets of a
 * fragment meet (docs/paths.md).
 *
 * A CRC of a seed and a tuple is the CRC of the tuple, changed by a constant: switches would choose
 * alike, whatever their seeds. So seeds are mixed in as MurmurHash3 mixes its last bits.
 *
 * Compile-time parameters: PATHS, FLOWLETS (places for flows between pauses, a power of two).
 */
#ifndef PATHS_P4
#define PATHS_P4

#ifndef FLOWLETS
#define FLOWLETS 4096
#endif

const bit<2> BY_PACKET   = 1;
const bit<2> BY_FRAGMENT = 2;

control PathChoice(inout headers_t hdr, inout standard_metadata_t standard, in bit<2> by,
                   in bit<16> paths, out bit<16> path) {
    bit<32> mixed = 0;
    bit<32> seed = 0;
    bit<48> gap = 0;

    /* This switch's seed, and the pause after which a flow may change its path. */
    action set_choice(bit<32> seed_of_switch, bit<48> gap_of_flowlets) {
        seed = seed_of_switch;
        gap = gap_of_flowlets;
    }
    table path_choice {
        actions = { set_choice; }
        default_action = set_choice(0, 0);
        size = 1;
    }

#if PATHS == 3
    register<bit<32>>(1) sprayed;        // packets that had a choice

    action number_packet() {
        sprayed.read(mixed, 0);
        sprayed.write(0, mixed + 1);
    }
#else
    bit<32> ports = 0;

    action hash_flow() {
        hash(mixed, HashAlgorithm.crc32, (bit<32>) 0,
             { hdr.ip.source, hdr.ip.destination, hdr.ip.protocol, ports }, (bit<64>) 0x100000000);
    }
#endif
#if PATHS == 2
    register<bit<48>>(FLOWLETS) flow_seen;       // when the flow's last packet came
    register<bit<32>>(FLOWLETS) flow_pauses;     // of the flow

    bit<48> seen = 0;
    bit<32> pauses = 0;
    bit<32> place = 0;

    action read_flow() {
        place = mixed & (FLOWLETS - 1);
        flow_seen.read(seen, place);
        flow_pauses.read(pauses, place);
    }
    action write_flow() {
        flow_seen.write(place, standard.ingress_global_timestamp);
        flow_pauses.write(place, pauses);
        mixed = mixed ^ (pauses * 0x9e3779b1);
    }
#endif

    action take_fragment() {
        mixed = hdr.ina.fragment ^ ((bit<32>) hdr.ina.job << 16);
        seed = 0;
    }

    /* Of so many paths, the one in whose part of all hashes this one is. */
    action choose() {
        mixed = mixed ^ seed;
        mixed = (mixed ^ (mixed >> 16)) * 0x85ebca6b;
        mixed = (mixed ^ (mixed >> 13)) * 0xc2b2ae35;
        mixed = mixed ^ (mixed >> 16);
        path = (bit<16>) (((mixed >> 16) * (bit<32>) paths) >> 16);
    }

    apply {
        path_choice.apply();
        if (by == BY_FRAGMENT) {
            take_fragment();
        } else {
#if PATHS == 3
            number_packet();
#else
            if (hdr.udp.isValid()) {
                ports = hdr.udp.source ++ hdr.udp.destination;
            } else if (hdr.tcp.isValid()) {
                ports = hdr.tcp.source ++ hdr.tcp.destination;
            }
            hash_flow();
#endif
#if PATHS == 2
            read_flow();
            if (standard.ingress_global_timestamp - seen > gap) {
                pauses = pauses + 1;
            }
            write_flow();
#endif
        }
        choose();
    }
}

#endif
