"""The Wireshark dissector reads what scapy's layer writes: tshark against `testbed.dissect`.

And the files that captures write are ones that Wireshark reads."""

from __future__ import annotations

import csv
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from p4fabric.base.config import pcapng
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from testbed.dissect import FLAGS, KINDS, Ina
from testbed.protocols import wire
from tests.support.paths import ROOT

SCRIPT = ROOT / "tools" / "wireshark" / "ina.lua"
VALUES = {wire.GRADIENT, wire.RESULT, wire.RESULT_ONE}
NUMBERS = {
    "ina.version": "version",
    "ina.kind": "kind",
    "ina.priority": "priority",
    "ina.job": "job",
    "ina.node": "node",
    "ina.fragment": "fragment_number",
    "ina.extra": "extra",
    "ina.sender": "sender",
    "ina.exponent": "exponent",
    "ina.next_exponent": "next_exponent",
}
LISTS = ("ina.flags", "ina.index", "ina.worker", "ina.value")

pytestmark = pytest.mark.skipif(
    shutil.which("tshark") is None, reason="no tshark; ./test --all installs it"
)


def packets(count: int) -> list[Ina]:
    """Random ones, of every kind and with every flag."""
    draw = random.Random(5)
    found = []
    for number in range(count):
        kind = list(KINDS)[number % len(KINDS)]
        size = draw.choice((1, 4, 64, 500)) if kind in VALUES else 0
        flags = 1 << number % len(FLAGS) if number < 100 else draw.randrange(1024)
        if flags & wire.FLOAT:
            flags &= ~wire.SHORT
        most = 1 << (15 if flags & wire.SHORT else 31)
        found.append(
            Ina(
                kind=kind,
                priority=draw.randrange(256),
                flags=flags,
                job=draw.randrange(1 << 16),
                node=draw.randrange(1 << 16),
                fragment_number=draw.randrange(1 << 32),
                index=draw.randrange(1 << 32),
                extra=draw.randrange(1 << 32),
                sender=draw.choice((0, 7, 0x4000)),
                exponent=draw.randrange(256),
                next_exponent=draw.randrange(256),
                wanted=draw.randrange(1 << Ina.bitmap_width),  # without tokens there is none
                bitmap=draw.randrange(1 << Ina.bitmap_width),
                values=[draw.randrange(-most, most) for _ in range(size)],
            )
        )
    return found


def written(path: Path, inas: list[Ina]) -> Path:
    with path.open("wb") as file:
        file.write(pcapng.section_header() + pcapng.interface("s1-eth1", "port 1 of s1, to h1"))
        for number, ina in enumerate(inas):
            data = bytes(Ether() / IP() / UDP(sport=wire.PORT, dport=wire.PORT, chksum=0) / ina)
            file.write(pcapng.packet(1_700_000_000_000_000_007 + number, 1 + number % 2, data))
        file.write(pcapng.statistics(len(inas) + 2, 2))
    return path


def tshark(path: Path, *arguments: str) -> str:
    command = ["tshark", "-X", f"lua_script:{SCRIPT}", "-r", str(path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "Lua" not in done.stderr, done.stderr
    return done.stdout


def fields(path: Path, names: list[str], *arguments: str) -> list[dict[str, str]]:
    chosen = [part for name in names for part in ("-e", name)]
    text = tshark(path, "-T", "fields", "-E", "separator=;", "-E", "header=y", *chosen, *arguments)
    return list(csv.DictReader(text.splitlines(), delimiter=";"))


def check(rows: list[dict[str, str]], inas: list[Ina]) -> None:
    assert len(rows) == len(inas)
    for row, ina in zip(rows, inas, strict=True):
        for theirs, ours in NUMBERS.items():
            assert int(row[theirs]) == getattr(ina, ours), (theirs, ina)
        assert int(row["ina.flags"], 16) == int(ina.flags)
        assert int(row["ina.index"], 16) == ina.index
        workers = [n for n in range(Ina.bitmap_width) if ina.bitmap >> n & 1]
        assert [int(n) for n in row["ina.worker"].split(",") if n] == workers
        name = "ina.float_value" if "float" in str(ina.flags) else "ina.value"
        assert len([n for n in row[name].split(",") if n]) == len(ina.values)
        if name == "ina.value":
            assert [int(n) for n in row[name].split(",") if n] == ina.values


def test_every_field_is_as_scapy_has_it(tmp_path):
    inas = packets(300)
    names = [*NUMBERS, *LISTS, "ina.float_value"]
    check(fields(written(tmp_path / "a.pcapng", inas), names), inas)


@pytest.mark.parametrize("tokens", [False, True])
def test_a_wider_bitmap_and_a_second_one_are_preferences(tmp_path, monkeypatch, tokens):
    monkeypatch.setattr(Ina, "bitmap_width", 96)
    monkeypatch.setattr(Ina, "tokens", tokens)
    inas = packets(40)
    names = [*NUMBERS, *LISTS, "ina.float_value", "ina.wanted"]
    chosen = ("-o", "ina.bitmap:96 bits", "-o", f"ina.tokens:{str(tokens).upper()}")
    rows = fields(written(tmp_path / "a.pcapng", inas), names, *chosen)
    check(rows, inas)
    for row, ina in zip(rows, inas, strict=True):
        wanted = ina.wanted.to_bytes(12, "big").hex() if tokens else ""
        assert row["ina.wanted"].replace(":", "") == wanted


def test_the_list_of_packets_says_what_each_is(tmp_path):
    ina = Ina(
        kind="gradient", job=3, fragment_number=7, flags="resend", bitmap=0b101, values=[1, 2]
    )
    text = tshark(written(tmp_path / "a.pcapng", [ina]))
    assert "INA" in text and "gradient job 3 fragment 7 [resend] {0, 2} 2 values" in text


def test_short_packets_are_marked_and_other_versions_ignored(tmp_path):
    cut = Ether() / IP() / UDP(sport=wire.PORT, dport=wire.PORT) / bytes(Ina(kind=1))[:26]
    other = Ether() / IP() / UDP(sport=wire.PORT, dport=wire.PORT) / bytes([0x21] + [0] * 40)
    with (tmp_path / "a.pcapng").open("wb") as file:
        file.write(pcapng.section_header() + pcapng.interface("x", "x"))
        for packet in (cut, other):
            file.write(pcapng.packet(0, 1, bytes(packet)))
    first, second = fields(tmp_path / "a.pcapng", ["ina.kind", "ina.short", "_ws.col.Protocol"])
    assert first["ina.kind"] == "1" and first["ina.short"]
    assert second["ina.kind"] == "" and second["_ws.col.Protocol"] == "UDP"


def test_a_captures_file_tells_time_direction_and_interface(tmp_path):
    path = written(tmp_path / "a.pcapng", packets(2))
    names = ["frame.time_epoch", "frame.packet_flags_direction", "frame.interface_name"]
    rows = fields(path, [*names, "frame.interface_description"])
    assert [row["frame.time_epoch"] for row in rows] == [
        "1700000000.000000007",
        "1700000000.000000008",
    ]
    assert [int(row["frame.packet_flags_direction"], 0) for row in rows] == [1, 2]
    assert rows[0]["frame.interface_name"] == "s1-eth1"
    assert rows[0]["frame.interface_description"] == "port 1 of s1, to h1"
