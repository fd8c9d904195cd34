"""The stand-ins of p4c and BMv2 with each other, on real interfaces, as a script calls them."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest
from p4engine.cli.main import main
from p4engine.control.client import Client
from p4engine_testing.programs import source
from p4engine_testing.veth_pairs import VethPairs

THRIFT_PORT = "9090"  # of a namespace of its own
HEADER = bytes.fromhex("02000000000202000000000188b5")
PROGRAM = source(
    headers=(
        "header ethernet_t { bit<48> destination; bit<48> origin; bit<16> type; }"
        " struct headers_t { ethernet_t ethernet; }"
    ),
    parser="state start { packet.extract(hdr.ethernet); transition accept; }",
    locals=(
        "register<bit<32>>(2) seen; action to_port(bit<9> port) { standard.egress_spec = port; }"
        " action drop() { mark_to_drop(standard); }"
        " table across { key = { standard.ingress_port: exact; } actions = { to_port; drop; }"
        " default_action = drop; }"
    ),
    apply='bit<32> n; seen.read(n, 0); seen.write(0, n + 1); log_msg("a packet"); across.apply();',
)


class Scripted(VethPairs):
    """The stand-ins in front of the PATH, and all their files in one folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.run(1, "ip", "link", "set", "lo", "up")
        assert main(["shims", str(folder / "shims")]) == 0
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        path = f"{folder / 'shims'}{os.pathsep}{os.environ['PATH']}"
        self.environment = {"PATH": path, "TMPDIR": str(self.temporary)}

    def script(self, *command: str, given: str = "") -> str:
        """The output of a command that succeeds; on the switch's side."""
        done = subprocess.run(
            ["env", *(f"{k}={v}" for k, v in self.environment.items()), *self.enter(1), *command],
            cwd=self.folder,
            input=given,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def switch(self, *command: str) -> None:
        """Start one, until it is ready."""
        self.spawn("env", *command, environment=self.environment)
        while "ready" not in (line := self.process.stdout.readline()):
            assert line, self.process.stderr.read()

    def stop(self, said: str = "") -> None:
        """End the switch as scripts do, with `said` on stderr; nothing may be left of it."""
        self.process.send_signal(signal.SIGTERM)
        assert self.end() == (0, said)
        assert [file for file in self.temporary.rglob("*") if not file.is_dir()] == []
        assert [each.name for each in self.temporary.iterdir()] == [f"p4engine-{os.geteuid()}"]

    def client(self) -> Client:
        control = self.temporary / f"p4engine-{os.geteuid()}" / f"thrift-{THRIFT_PORT}.sock"
        return Client(control)


@pytest.fixture
def scripted(tmp_path, capsys):
    made = Scripted(tmp_path)
    (tmp_path / "across.p4").write_text(PROGRAM)
    yield made
    made.close()


def frame(number: int) -> bytes:
    return HEADER + bytes([number]) + bytes(50)


def recorded(path: Path) -> list[bytes]:
    """The packets of a pcap file."""
    data, packets = path.read_bytes(), []
    assert struct.unpack_from("<I", data) == (0xA1B2C3D4,)
    at = 24
    while at < len(data):
        _, _, length, whole = struct.unpack_from("<IIII", data, at)
        assert length == whole
        packets.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    return packets


def test_a_controller_brings_the_program_and_the_entries(scripted):
    """As the tutorials' exercise p4runtime does it."""
    pytest.importorskip("grpc")
    from google.protobuf import text_format
    from p4engine.p4runtime.proto import p4info_pb2
    from p4engine_testing.controller import Controller, Ids

    files = ("--p4runtime-files", "build/across.p4info.txtpb", "-o", "build/across.json")
    (scripted.folder / "build").mkdir()
    scripted.script("p4c-bm2-ss", "--p4v", "16", *files, "across.p4")
    address = f"unix:{scripted.folder}/grpc.sock"
    scripted.switch(
        *("simple_switch_grpc", "--no-p4", "--device-id", "1", "--thrift-port", THRIFT_PORT),
        *("-i", "1@s1", "-i", "2@s2", "--", "--grpc-server-addr", address),
    )
    with scripted.client() as client:
        scripted.sockets[1].send(frame(1))  # --no-p4: dropped
        while not client.stats()["received"]:
            time.sleep(0.01)
    text = (scripted.folder / "build" / "across.p4info.txtpb").read_text()
    info = text_format.Parse(text, p4info_pb2.P4Info())
    ids = Ids(info)
    with Controller(address) as controller:
        assert controller.arbitrate().status.code == 0
        device = (scripted.folder / "build" / "across.json").read_bytes()
        controller.set_config("VERIFY_AND_COMMIT", info, device=device)
        for here, there in ((1, 2), (2, 1)):
            entry = ids.entity(
                "table_entry { table_id: $across match { field_id: 1 exact { value:"
                f" '\\{here}' }} }} action {{ action {{ action_id: $to_port params {{ param_id: 1"
                f" value: '\\{there}' }} }} }} }}"
            )
            controller.write(("INSERT", entry))
        for number, (here, there) in enumerate([(1, 2), (2, 1), (1, 2)], 2):
            scripted.sockets[here].send(frame(number))
            assert scripted.sockets[there].recv(2000) == frame(number)
        assert controller.get_config().p4_device_config == device
    said = scripted.script(
        "simple_switch_CLI", "--thrift-port", THRIFT_PORT, given="register_read seen 0\n"
    )
    assert "MyIngress.seen[0] = 3" in said  # the first packet met no program
    scripted.stop("p4runtime: across.p4 runs instead of none.p4\n")


def test_commands_from_one_call_to_the_next(scripted):
    """As scripts do it that call simple_switch_CLI once for each step."""
    scripted.script("p4c-bm2-ss", "across.p4", "-o", "across.json")
    scripted.switch(
        *("simple_switch", "--thrift-port", THRIFT_PORT, "--log-console", "--pcap", "."),
        *("-i", "1@s1", "-i", "2@s2", "across.json"),
    )
    command = ("simple_switch_CLI", "--thrift-port", THRIFT_PORT)
    assert "entry 0 added" in scripted.script(*command, given="table_add across to_port 1 => 2\n")
    given = "# comment\n\ntable_add across to_port 2 => 1\nno_such_command\nmc_mgrp_create 1\n"
    said = scripted.script(*command, given=given)
    assert "entry 1 added" in said and "Error: there is no command 'no_such_command'" in said
    assert "node 0" in scripted.script(*command, given="mc_node_create 5 1 2\n")
    said = scripted.script(*command, given="mc_node_associate 1 0\nmc_dump\nshow_ports\n")
    assert "node 0: rid 5, ports 1, 2" in said and "1 s1\n2 s2" in said
    scripted.sockets[1].send(frame(7))
    assert scripted.sockets[2].recv(2000) == frame(7)
    scripted.sockets[2].send(frame(8))
    assert scripted.sockets[1].recv(2000) == frame(8)
    assert scripted.process.stdout.readline() == "a packet\n"
    scripted.stop()
    names = ("s1_in", "s1_out", "s2_in", "s2_out")
    found = [recorded(scripted.folder / f"{name}.pcap") for name in names]
    assert found == [[frame(7)], [frame(8)], [frame(8)], [frame(7)]]


@pytest.mark.parametrize("kind", ["tbf", "htb"])
def test_packets_for_a_shaped_interface_wait_in_the_switch(scripted, kind):
    """As behind Mininet's TCLink: programs see the queue, and BMv2's depth limits it."""
    words = ("tc", "qdisc", "add", "dev", "s2", "root", "handle", "5:", kind)
    rest = {"tbf": "rate 1kbit burst 10k latency 50ms", "htb": "default 1"}[kind].split()
    try:
        scripted.run(1, *words, *rest)
    except subprocess.CalledProcessError:
        pytest.skip(f"this kernel has no {kind}")
    if kind == "htb":
        words = ("tc", "class", "add", "dev", "s2", "parent", "5:", "classid", "5:1", "htb")
        scripted.run(1, *words, "rate", "1kbit", "burst", "15k")
    scripted.script("p4c-bm2-ss", "across.p4", "-o", "across.json")
    options = ("--thrift-port", THRIFT_PORT, "-i", "1@s1", "-i", "2@s2")
    scripted.switch("simple_switch", *options, "across.json")
    with scripted.client() as client:
        assert client.port_shape_get(2, "egress")["rate_bps"] == 1000
        assert client.port_shape_get(1, "egress")["rate_bps"] == 0
        client.table_add("across", "to_port", [1], [2])
        for number in range(70):  # each is on the wire for half a second
            scripted.sockets[1].send(frame(number))
        while client.stats()["received"] < 70:
            time.sleep(0.01)
        [row] = [each for each in client.queue_stats() if each["port"] == 2]
        assert row["max_queue"] == 64 and row["queue_drops"] > 0
    scripted.stop()


def test_no_switch_at_a_port_is_said(scripted):
    with pytest.raises(AssertionError, match=r"simple_switch_CLI \(p4engine\): port 9999: no swi"):
        scripted.script("simple_switch_CLI", "--thrift-port", "9999")
