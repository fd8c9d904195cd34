"""The switch process between veth pairs: forwarding, stopping, drops, and control under load."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from p4engine.control.client import Client
from p4engine.process.switch_process import NetworkSwitch
from p4engine_testing import udp
from p4engine_testing.programs import source
from p4engine_testing.veth_pairs import VethPairs

from p4engine import compile_program

PROGRAM = source(
    headers="header ethernet_t { bit<48> destination; bit<48> source; bit<16> type; }"
    " struct headers_t { ethernet_t ethernet; }",
    parser="state start { packet.extract(hdr.ethernet); transition accept; }",
    locals="""
        register<bit<64>>(8) first;
        register<bit<64>>(8) second;
        action to_port(bit<9> port) { standard.egress_spec = port; }
        table across {
            key = { standard.ingress_port: exact; }
            actions = { to_port; }
            const entries = { 1: to_port(2); 2: to_port(1); }
        }
    """,
    apply="""
        bit<64> n;
        first.read(n, 0);
        first.write(0, n + 1);
        across.apply();
        second.read(n, 0);
        second.write(0, n + 1);
    """,
)
HEADER = bytes.fromhex("02000000000202000000000188b5")


class Bench(VethPairs):
    """A switch process that forwards across."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.program = folder / "across.p4"
        self.program.write_text(PROGRAM)
        self.control = folder / "control.sock"

    def start(self, *options: str, interfaces: tuple[str, ...] = ("1@s1", "2@s2")) -> None:
        ports = [word for each in interfaces for word in ("-i", each)]
        command = [sys.executable, "-m", "p4engine", "switch", str(self.program)]
        command += [*ports, "--control", str(self.control), *options]
        self.spawn(*command)

    def start_ready(self, *options: str) -> Client:
        self.start(*options)
        assert "ready" in self.process.stdout.readline()
        return Client(self.control)


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    yield made
    made.close()


def test_forwards_between_two_veths_and_stops_cleanly(bench):
    with bench.start_ready() as client:
        for size in (14, 60, 64, 1514):
            for source, target in ((1, 2), (2, 1)):
                packet = (HEADER + os.urandom(1500))[:size]
                bench.sockets[source].send(packet)
                assert bench.sockets[target].recv(2000) == packet
        stats = client.stats()
        assert (stats["received"], stats["sent"], stats["unmodelled_drops"]) == (8, 8, 0)
        rows = {(row["port"], row["direction"]): row for row in client.port_stats()}
        assert rows[1, "ingress"]["bytes"] == rows[2, "egress"]["bytes"] == 14 + 60 + 64 + 1514
        assert rows[1, "ingress"]["interface"] == "s1"
    bench.process.send_signal(signal.SIGTERM)
    assert bench.end() == (0, "")
    assert not bench.control.exists()


@pytest.mark.parametrize("tag", ["81000007", "8100b123", "88a8e007"])
def test_a_vlan_tag_goes_through(bench, tag):
    """The kernel takes tags out of what it receives; the program must see them."""
    with bench.start_ready() as client:
        bench.sockets[2].setsockopt(263, 8, 1)  # PACKET_AUXDATA: the receiving end is untagged, too
        sizes = (50, 1500 if tag.startswith("8100") else 1496)  # what the kernel takes
        for size in sizes:
            content = b"\x88\xb5" + Random(size).randbytes(size)
            bench.sockets[1].send(HEADER[:12] + bytes.fromhex(tag) + content)
            data, auxiliary, _, _ = bench.sockets[2].recvmsg(2000, 200)
            [(_, _, aux)] = auxiliary
            assert data == HEADER[:12] + content
            control, protocol = struct.unpack("=HH", aux[16:20])
            assert f"{protocol:04x}{control:04x}" == tag
        [row] = [r for r in client.port_stats() if (r["port"], r["direction"]) == (1, "ingress")]
        assert row["bytes"] == sum(18 + size for size in sizes)  # with the tags


def test_an_unfinished_checksum_behind_a_vlan_tag_is_completed(bench):
    tag = bytes.fromhex("81000007")
    with bench.start_ready() as client:
        enable_offloads(bench.sockets[1])
        _, packet = udp.train([b"x" * 77], tags=tag)
        bench.sockets[1].send(udp.OFFLOAD.pack(udp.NEEDS_CHECKSUM, 0, 0, 0, 38, 6) + packet)
        assert bench.sockets[2].recv(2000) == udp.packet(b"x" * 77)
        assert client.stats()["completed"] == 1


@contextlib.contextmanager
def flooded(sock: socket.socket) -> Iterator[None]:
    """Packets come in all the time."""
    stop = threading.Event()

    def flood() -> None:
        while not stop.is_set():
            for _ in range(50):
                sock.send(HEADER + bytes(50))

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_one_control_call_sees_no_packet_half_way(bench):
    with bench.start_ready() as client, flooded(bench.sockets[1]):
        # Long enough for packets to come in meanwhile, on a busy machine, too.
        calls = [("register_read", name, 0, 1) for name in ("first", "second")] * 2000
        seen: set[int] = set()
        # Between two packets there may be any number of calls: so not so many calls, but calls at
        # so many moments.
        while len(seen) < 20:
            counts = {count for [count] in client.batch(calls)}
            assert len(counts) == 1
            seen |= counts


def test_what_the_ring_has_no_room_for_is_counted(bench):
    with bench.start_ready() as client:
        bench.sockets[1].send(HEADER + bytes(50))
        bench.sockets[2].recv(2000)
        bench.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, bench.process.pid, os.WSTOPPED)  # on a busy machine it takes a while
        sent = 12_000
        for _ in range(sent):
            bench.sockets[1].send(HEADER + bytes(50))
        bench.process.send_signal(signal.SIGCONT)
        received = -1
        while (stats := client.stats())["received"] != received:
            received = stats["received"]
            time.sleep(0.1)
        assert stats["ring_drops"] > 1000
        assert stats["received"] + stats["ring_drops"] == sent + 1
        rows = {(row["port"], row["direction"]): row for row in client.port_stats()}
        assert rows[1, "ingress"]["unmodelled_drops"] == stats["ring_drops"]
        assert rows[2, "ingress"]["unmodelled_drops"] == 0


@pytest.mark.parametrize(
    "command", [("ip", "link", "set", "s2", "down"), ("ip", "link", "delete", "s2")]
)
def test_an_interface_that_goes_away_ends_the_switch_by_name(bench, command):
    with bench.start_ready():
        bench.run(1, *command)
        code, errors = bench.end()
    assert code == 1 and "interface s2 (port 2)" in errors
    assert not bench.control.exists()


def test_starting_where_it_cannot(bench):
    for interfaces, words in (
        (("1@s1", "2@nothing"), "no interface nothing"),
        (("1@s1", "2@s1"), "is port 1 already"),
        (("1@s1", "1@s2"), "given twice"),
        (("1@s1", "999@s2"), "510"),
        (("1@lo", "2@s2"), "interface lo is down"),
    ):
        bench.start(interfaces=interfaces)
        code, errors = bench.end()
        assert code == 2 and words in errors and "Traceback" not in errors
    with bench.start_ready():
        first, bench.process = bench.process, None
        try:
            bench.start()
            code, errors = bench.end()
            assert code == 2 and "in use" in errors
        finally:
            bench.process = first
        bench.sockets[1].send(HEADER + bytes(50))
        assert bench.sockets[2].recv(2000)


def test_an_address_for_p4runtime_that_cannot_be_used_is_an_error(bench):
    bench.start("--p4runtime", "1", "--p4runtime-netns", "/nowhere")
    code, errors = bench.end()
    assert code == 2 and "/nowhere" in errors and "Traceback" not in errors


def test_an_idle_entry_is_reported_by_the_real_clock(bench):
    from p4engine.p4runtime.p4info import p4info
    from p4engine_testing.controller import Controller, entity

    constant = "const entries = { 1: to_port(2); 2: to_port(1); }"
    bench.program.write_text(PROGRAM.replace(constant, "support_timeout = true;"))
    info = p4info(bench.program)
    (table,) = (each.preamble.id for each in info.tables)
    send = next(each.preamble.id for each in info.actions if each.preamble.alias == "to_port")
    update = entity(
        f"table_entry {{ table_id: {table} idle_timeout_ns: 50000000 match {{ field_id: 1 exact {{"
        f" value: '\\1' }} }} action {{ action {{ action_id: {send} params {{ param_id: 1"
        " value: '\\2' } } } }"
    )
    address = f"unix:{bench.folder}/p4runtime.sock"
    with bench.start_ready("--p4runtime", address), Controller(address) as controller:
        controller.arbitrate()
        controller.write(("INSERT", update))
        for _ in range(2):
            before = time.time_ns()
            bench.sockets[1].send(HEADER + bytes(50))
            assert bench.sockets[2].recv(2000)
            # A report from before the packet may be under way.
            while (heard := controller.hear().idle_timeout_notification).timestamp < before:
                pass
            (entry,) = heard.table_entry
            assert (entry.table_id, entry.match[0].exact.value) == (table, b"\1")


def test_a_controller_hears_of_an_idle_entry_that_a_text_command_made(bench):
    from p4engine.control.commands import Commands
    from p4engine.p4runtime.p4info import p4info
    from p4engine_testing.controller import Controller

    constant = "const entries = { 1: to_port(2); 2: to_port(1); }"
    bench.program.write_text(PROGRAM.replace(constant, "support_timeout = true;"))
    (table,) = (each.preamble.id for each in p4info(bench.program).tables)
    address = f"unix:{bench.folder}/p4runtime.sock"
    with bench.start_ready("--p4runtime", address) as client, Controller(address) as controller:
        controller.arbitrate()
        commands = Commands(client)
        commands.run("table_add across to_port 1 => 2")
        commands.run("table_set_timeout across 0 3600000")
        commands.run("table_set_timeout across 0 20")
        (entry,) = controller.hear().idle_timeout_notification.table_entry
        assert (entry.table_id, entry.match[0].exact.value) == (table, b"\1")


def test_a_controller_changes_the_program_under_traffic(bench):
    from p4engine.p4runtime.p4info import p4info
    from p4engine_testing.controller import Controller

    other = bench.folder / "other.p4"
    other.write_text(PROGRAM.replace("first", "counted").replace("n + 1", "n + 1000"))
    address = f"unix:{bench.folder}/p4runtime.sock"
    with bench.start_ready("--p4runtime", address) as client, Controller(address) as controller:
        controller.arbitrate()
        infos = (other.read_text(), p4info(other)), (PROGRAM, p4info(bench.program))
        with flooded(bench.sockets[1]):
            for text, info in infos:
                controller.set_config("VERIFY_AND_COMMIT", info, device=text.encode())
                name, step = ("counted", 1000) if "counted" in text else ("first", 1)
                while not (found := client.register_read(name, 0, 1)[0]):
                    time.sleep(0.001)
                assert found % step == 0
                assert client.register_read("second", 0, 1)[0] % step == 0
        assert client.stats()["unmodelled_drops"] is not None
    bench.process.send_signal(signal.SIGTERM)
    code, errors = bench.end()
    assert code == 0
    assert "runs instead of across.p4" in errors


def enable_offloads(sock: socket.socket) -> None:
    """From now on every packet of this socket begins with an offload header."""
    sock.setsockopt(263, 15, 1)  # SOL_PACKET, PACKET_VNET_HDR


def test_trains_are_packets_to_the_switch_and_its_links(bench):
    """64 packets in one buffer: as many are counted, queue on a link, and leave one by one."""
    parts = [bytes([n]) * 200 for n in range(63)] + [b"end"]
    with bench.start_ready() as client:
        enable_offloads(bench.sockets[1])
        client.port_shape(2, "egress", rate_bps=100_000_000, queue_packets=50)
        sent = b"".join(udp.train(parts, identification=7))
        assert bench.sockets[1].send(sent) == len(sent)
        got = [bench.sockets[2].recv(70_000) for _ in range(51)]
        wanted = [udp.packet(each, identification=7 + n) for n, each in enumerate(parts[:51])]
        assert got == wanted
        stats = client.stats()
        names = ("received", "trains_received", "trains_sent", "sent", "unmodelled_drops")
        assert [stats[name] for name in names] == [64, 1, 0, 51, 0]
        [row] = [r for r in client.port_stats() if (r["port"], r["direction"]) == (2, "egress")]
        assert (row["queue_drops"], row["max_queue"]) == (13, 50)


@pytest.mark.parametrize("payload, fits", [(1472, True), (1473, False)])
def test_the_packets_of_a_train_are_no_longer_than_the_mtu(bench, payload, fits):
    with bench.start_ready() as client:
        enable_offloads(bench.sockets[1])
        bench.sockets[1].send(b"".join(udp.train([bytes(payload)] * 2)))
        bench.sockets[1].send(udp.NO_OFFLOAD + HEADER)
        lengths = [len(bench.sockets[2].recv(70_000)) for _ in range(3 if fits else 1)]
        assert lengths == ([1514, 1514, 14] if fits else [14])
        assert client.stats()["oversized"] == (0 if fits else 1)


def test_packets_leave_in_trains_where_the_switch_may(bench):
    """Only what belongs together: two flows and a stranger come in mixed, and each flow keeps its
    order."""
    with bench.start_ready("--trains") as client:
        for sock in bench.sockets.values():
            enable_offloads(sock)
        whole = udp.train([bytes([n]) * 100 for n in range(40)] + [b"short"])
        bench.sockets[1].send(b"".join(whole))
        buffer = bench.sockets[2].recv(70_000)
        fields, wanted = udp.OFFLOAD.unpack(buffer[:10]), udp.OFFLOAD.unpack(whole[0])
        assert fields[:2] + fields[3:] == wanted[:2] + wanted[3:]  # the third is only a hint
        assert buffer[10:] == whole[1]
        stats = client.stats()
        assert (stats["received"], stats["sent"], stats["trains_sent"]) == (41, 41, 1)
        bench.process.send_signal(signal.SIGSTOP)
        flows = [
            [udp.packet(bytes([n]) * 50, ports=(1, port)) for n in range(9)] for port in (2, 3)
        ]
        stranger = HEADER + bytes(60)
        for packets in zip(*flows, strict=True):
            for packet in (packets[0], packets[0], packets[1], stranger):
                bench.sockets[1].send(udp.NO_OFFLOAD + packet)
        bench.process.send_signal(signal.SIGCONT)
        got = []
        while len(got) < 36:
            buffer = bench.sockets[2].recv(70_000)
            kind = buffer[1]
            if kind:
                assert buffer[46:48] == b"\x00\x02"  # only this flow has neighbours
                got += [buffer[52:102], buffer[102:152]]
            else:
                got.append(buffer[52:])
        ones = [udp.packet(bytes([n]) * 50)[42:] for n in range(9)]
        wanted = [each for one in ones for each in (one, one, one, stranger[42:])]
        assert sorted(got) == sorted(wanted)
        assert client.stats()["unmodelled_drops"] == 0


def test_an_unfinished_checksum_is_completed_wherever_it_is(bench):
    """It covers the bytes from its start on, with what the kernel has stored in its place."""
    random = Random(1)
    with bench.start_ready() as client:
        enable_offloads(bench.sockets[1])
        for start, offset, size in (
            (34, 16, 90),
            (34, 0, 60),
            (35, 3, 61),
            (54, 6, 67),
            (38, 6, 1514),
        ):
            frame = bytearray(HEADER + random.randbytes(size - 14))
            bench.sockets[1].send(udp.OFFLOAD.pack(1, 0, 0, 0, start, offset) + frame)
            place = slice(start + offset, start + offset + 2)
            frame[place] = udp.checksum(frame[start:]).to_bytes(2, "big")
            assert bench.sockets[2].recv(2000) == frame
        assert client.stats()["completed"] == 5


def test_the_receive_ring_goes_with_the_switch(tmp_path):
    program = tmp_path / "across.p4"
    program.write_text(PROGRAM)

    def mapped() -> int:
        return sum("socket:" in line for line in Path("/proc/self/maps").read_text().splitlines())

    with contextlib.closing(NetworkSwitch(compile_program(program), {}, cpu_port=1)):
        assert mapped() == 1
    assert mapped() == 0


@pytest.mark.parametrize("size", [300, 3000])  # a train may also be short
def test_tcp_segmentation_is_named_as_oversized(bench, size):
    """TCP trains are not cut: the hosts' TCP segmentation stays off."""
    with bench.start_ready() as client:
        enable_offloads(bench.sockets[1])
        header = bytearray(udp.packet(bytes(12 + size), checked=False))
        header[23] = 6  # TCP
        header[46] = 0x50
        offload = udp.OFFLOAD.pack(1, 1, 54, size // 3, 34, 16)
        bench.sockets[1].send(offload + bytes(header))
        bench.sockets[1].send(udp.NO_OFFLOAD + HEADER)
        assert bench.sockets[2].recv(2000) == HEADER
        assert client.stats()["oversized"] == 1


def test_a_control_call_wakes_the_loop(tmp_path):
    program = tmp_path / "across.p4"
    program.write_text(PROGRAM)
    with contextlib.closing(NetworkSwitch(compile_program(program), {}, cpu_port=1)) as switch:
        switch.loop.start()
        begin, sleeps = time.monotonic(), 0
        for _ in range(2000):
            with switch.loop.locked():
                sleeps = switch.loop.stats()["sleeps"]
            # Without calls a sleep lasts 50 ms.
            if sleeps > 10 + (time.monotonic() - begin) / 0.05:
                break
            time.sleep(0.001)
        else:
            raise AssertionError(f"the loop slept {sleeps} times only")


def test_a_standstill_is_counted_at_whatever_moment_it_begins(tmp_path):
    """Also between two turns of the loop, where it waits for a call that is carried out."""
    program = tmp_path / "across.p4"
    program.write_text(PROGRAM)
    with contextlib.closing(NetworkSwitch(compile_program(program), {}, cpu_port=1)) as switch:
        switch.loop.start()

        def stats() -> dict[str, int]:
            with switch.loop.locked():
                return switch.loop.stats()

        def counted() -> int:
            return stats()["still_ns"]

        while not stats()["sleeps"]:  # its thread may begin late
            time.sleep(0.01)
        for _ in range(15):
            before = counted()
            for _ in range(50):  # the loop is awake
                with switch.loop.locked():
                    pass
            with switch.loop.locked():
                time.sleep(0.4)
            deadline = time.monotonic() + 10
            # A sleep of 50 ms may have been planned, and on a busy machine its beginning is noted
            # some time after the lock is taken. A standstill that is lost counts nothing.
            while counted() - before < 100_000_000:
                assert time.monotonic() < deadline
                time.sleep(0.01)
