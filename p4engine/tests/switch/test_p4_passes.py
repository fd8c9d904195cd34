"""State that survives into another pass and into copies (the table in docs/language.md), as BMv2's
sources have it: truncation, lengths, metadata, the instance type, ports."""

from __future__ import annotations

import pytest
from p4engine_testing.programs import switch

HEADERS = (
    "header seen_t { bit<8> kind; bit<8> port; bit<8> size; bit<8> rid; bit<8> kept; bit<8> lost; }"
    " header h_t { bit<8> op; bit<24> rest; } struct headers_t { seen_t seen; h_t h; }"
)
METADATA = "@field_list(1) bit<8> kept; bit<8> lost;"
# Egress writes what it sees in front of the packet.
SHOW = (
    "bit<32> size = standard.packet_length; hdr.seen.setValid();"
    " hdr.seen = { (bit<8>)standard.instance_type, (bit<8>)standard.ingress_port, (bit<8>)size,"
    " (bit<8>)standard.egress_rid, meta.kept, meta.lost };"
)
PACKET = bytes.fromhex("01aaaaaa 606162636465")  # the header and six bytes of payload


def build(folder, apply: str, egress: str = SHOW):
    s = switch(
        folder,
        headers=HEADERS,
        metadata=METADATA,
        apply=f"if (standard.instance_type == 0) {{ meta.kept = 7; meta.lost = 9; {apply} }}",
        egress=egress,
    )
    s.mirror_session(5, 4)
    s.multicast_group(3, [(6, 60), (7, 70)])
    return s


def leaves(s) -> list[tuple[int, str]]:
    s.receive(2, PACKET, 10**6)
    return [(port, bytes(data).hex()) for _, port, data in s.run()]


def seen(kind, port, size, rid, kept, lost) -> str:
    return bytes([kind, port, size, rid, kept, lost]).hex()


WHOLE = PACKET.hex()
MULTICAST = "standard.mcast_grp = 3;"
CLONE = "clone_preserving_field_list(CloneType.I2E, 5, 1);"
CLONE_OUT = "if (standard.instance_type == 0) clone_preserving_field_list(CloneType.E2E, 5, 1);"
RESUBMIT = "resubmit_preserving_field_list(1);"
RECIRCULATE = "if (meta.lost == 9) recirculate_preserving_field_list(1);"


@pytest.mark.parametrize(
    ("apply", "egress", "expected"),
    [
        ("", SHOW, [(1, seen(0, 2, 10, 0, 7, 9) + WHOLE)]),
        (
            MULTICAST,
            SHOW,
            [(6, seen(5, 2, 10, 60, 7, 9) + WHOLE), (7, seen(5, 2, 10, 70, 7, 9) + WHOLE)],
        ),
        (
            CLONE,
            SHOW,
            [(4, seen(1, 0, 10, 0, 7, 0) + WHOLE), (1, seen(0, 2, 10, 0, 7, 9) + WHOLE)],
        ),
        (
            "",
            CLONE_OUT + SHOW,
            [
                (1, seen(0, 2, 10, 0, 7, 9) + WHOLE),
                (4, seen(2, 0, 16, 0, 7, 0) + WHOLE),
            ],
        ),
        (RESUBMIT, SHOW, [(1, seen(0, 0, 10, 0, 7, 0) + WHOLE)]),
        ("", RECIRCULATE + f"else {{ {SHOW} }}", [(1, seen(0, 0, 10, 0, 7, 0) + WHOLE)]),
    ],
    ids=["unicast", "multicast", "clone of ingress", "clone of egress", "resubmit", "recirculate"],
)
def test_what_a_pass_sees(tmp_path, apply, egress, expected):
    assert leaves(build(tmp_path, apply, egress)) == expected


CUT = PACKET[:6].hex()


@pytest.mark.parametrize(
    ("apply", "egress", "expected"),
    [
        ("truncate(6);", "", [(1, CUT)]),
        ("", "truncate(6);", [(1, CUT)]),
        (f"truncate(6); {MULTICAST}", "", [(6, WHOLE), (7, WHOLE)]),
        (MULTICAST, "truncate(6);", [(6, CUT), (7, CUT)]),
        (f"truncate(6); {CLONE}", "", [(4, WHOLE), (1, CUT)]),
        ("truncate(6);", CLONE_OUT, [(1, CUT), (4, WHOLE)]),
        (f"truncate(6); {RESUBMIT}", "", [(1, WHOLE)]),
        ("truncate(6);", RECIRCULATE, [(1, WHOLE)]),
        ("", f"truncate(6); {RECIRCULATE}", [(1, CUT)]),
        ("truncate(6); mark_to_drop(standard);", "", []),
        ("truncate(6);", "mark_to_drop(standard);", []),
    ],
)
def test_which_copies_are_cut(tmp_path, apply, egress, expected):
    assert leaves(build(tmp_path, apply, egress)) == expected


def test_a_recirculated_packet_has_its_whole_length(tmp_path):
    s = build(tmp_path, "truncate(6);", RECIRCULATE + f"else {{ {SHOW} }}")
    assert leaves(s) == [(1, seen(0, 0, 10, 0, 7, 0) + WHOLE)]


def test_a_dropped_packet_sends_its_digest_and_its_clone(tmp_path):
    digest = "digest<h_t>(1, hdr.h); truncate(6); mark_to_drop(standard);"
    s = build(tmp_path, CLONE + digest, "")
    heard = []
    s.pipeline.on_digest(lambda name, receiver, values: heard.append((name, receiver)))
    assert leaves(s) == [(4, WHOLE)]
    assert heard == [("h_t", 1)]
