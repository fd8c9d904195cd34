/* A maze for packets: run a packet through it with `python -m p4engine trace` and follow its path.
 *
 * It does nothing useful. Leave it as it is; the questions about it are in answers.txt.
 */
#include <core.p4>
#include <v1model.p4>

header token_t {
    bit<8> colour;
    bit<8> size;
    bit<8> steps;
}

struct headers_t { token_t token; }
struct metadata_t { bit<8> door; }

parser MazeParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.token);
        transition accept;
    }
}

control Nothing(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MazeIngress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard) {
    action walk(bit<8> door) {
        meta.door = door;
        hdr.token.steps = hdr.token.steps + 1;
    }
    action jump(bit<8> door) {
        meta.door = door;
        hdr.token.steps = hdr.token.steps + 3;
    }
    action trap() {
        meta.door = 0;
        mark_to_drop(standard);
    }
    action leave(bit<9> port) {
        standard.egress_spec = port;
    }

    table hall {
        key = { hdr.token.colour: ternary; hdr.token.size: ternary; }
        actions = { walk; jump; }
        const entries = {
            (0x01 &&& 0x01, 0x10 &&& 0xf0): jump(7);
            (0x01 &&& 0x01, _): walk(3);
            (_, 0x08 &&& 0x08): jump(3);
        }
        const default_action = walk(5);
    }
    table garden {
        key = { meta.door: range; hdr.token.steps: exact; }
        actions = { walk; trap; jump; }
        const entries = {
            (1 .. 4, 1): walk(6);
            (3 .. 6, 3): jump(2);
            (5 .. 9, 1): trap();
        }
        const default_action = jump(9);
    }
    table gate {
        key = { meta.door: exact; }
        actions = { leave; trap; }
        const entries = {
            2: leave(2);
            6: leave(3);
            9: leave(4);
        }
        const default_action = trap();
    }

    apply {
        hall.apply();
        if (garden.apply().hit && hdr.token.steps > 4) {
            meta.door = meta.door ^ 4;
        }
        gate.apply();
    }
}

control MazeEgress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard) {
    apply { }
}

control MazeDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.token);
    }
}

V1Switch(MazeParser(), Nothing(), MazeIngress(), MazeEgress(), Nothing(), MazeDeparser()) main;
