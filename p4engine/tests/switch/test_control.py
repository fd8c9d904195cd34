"""The control socket: the calls of a switch by name, and messages that make no sense."""

from __future__ import annotations

import contextlib
import json
import socket
import stat
from pathlib import Path

import pytest
from p4engine.control.client import CallError, Client
from p4engine.control.server import Server
from p4engine.control.wire import decode, encode
from p4engine.switch.library import Switch
from p4engine.switch.traffic_manager import SwitchError
from p4engine_testing.programs import serving, source

from p4engine import compile_program

PROGRAM = source(
    headers="header h_t { bit<8> op; bit<8> index; bit<32> value; } struct headers_t { h_t h; }",
    locals="""
        register<bit<32>>(65536) seen;
        register<bit<128>>(4) wide;
        counter(16, CounterType.packets_and_bytes) packets;
        action to_port(bit<9> port) { standard.egress_spec = port; }
        action drop() { mark_to_drop(standard); }
        table forward {
            key = { hdr.h.op: exact; }
            actions = { to_port; drop; }
            default_action = drop();
        }
    """,
    apply="""
        seen.write((bit<32>) hdr.h.index, hdr.h.value);
        packets.count((bit<32>) hdr.h.index);
        forward.apply();
    """,
)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("p4") / "small.p4"
    path.write_text(PROGRAM)
    return compile_program(path)


@pytest.fixture
def served(compiled, tmp_path: Path):
    """(switch, path of its control socket); the server runs in a thread."""
    switch = Switch(compiled, ports=[1, 2])
    path = tmp_path / "control.sock"
    with serving(path, switch):
        yield switch, path
    assert not path.exists()
    switch.close()


def raw(path: Path, *lines: bytes) -> list[dict]:
    """Send lines as they are; the replies to as many messages."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(10)
        peer.connect(str(path))
        peer.sendall(b"\n".join(lines) + b"\n")
        with peer.makefile("rb") as replies:
            return [json.loads(replies.readline()) for _ in lines]


def test_calls_reach_the_switch(served):
    switch, path = served
    with Client(path) as client:
        handle = client.table_add("forward", "to_port", [7], [2])
        client.register_write("seen", 5, 1234)
        client.port_shape(2, "egress", rate_bps=1000, loss=0.5)
        client.multicast_group(3, [(1, 0), (2, 9)])
        assert client.register_read("seen", 4, 3) == [0, 1234, 0]
        assert client.multicast_get(3) == [[1, 0], [2, 9]]
        assert client.table_dump("forward")[0]["match"] == [7]
        client.table_delete("forward", handle)
        assert client.table_count("forward") == 0
        assert client.info()["ports"] == [1, 2]
        assert client.stats()["received"] == 0
    assert switch.port_shape_get(2, "egress")["loss"] == 0.5
    switch.receive(1, bytes([7, 3, 0, 0, 0, 9]), 0)
    with Client(path) as client:
        assert client.counter_read("packets", 3) == {"packets": 1, "bytes": 6}


def test_socket_is_the_owners_alone(served):
    _, path = served
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_long_registers_and_wide_ones(served):
    switch, path = served
    values = [(n * 2654435761) & 0xFFFFFFFF for n in range(65536)]
    with Client(path) as client:
        client.register_write("seen", [0, 65536], values)
        assert client.register_read("seen") == values == switch.register_read("seen")
        client.register_write("wide", 2, 1 << 100)
        assert client.register_read("wide") == [0, 0, 1 << 100, 0]
        assert client.register_words("seen") == values
        assert client.register_words("seen", 5, 2) == values[5:7]
        with pytest.raises(CallError, match="wide has elements of"):
            client.register_words("wide")
    assert switch.register_words("seen", 5, 2).tolist() == values[5:7]
    assert switch.register_words("seen", 5, 0).tolist() == []


def test_errors_name_the_call_and_change_nothing(served):
    _, path = served
    with Client(path) as client:
        for call in (
            lambda: client.table_add("forward", "nothing", [7], [2]),
            lambda: client.table_add("none", "to_port", [7], [2]),
            lambda: client.table_add("forward", "to_port", [7], [1 << 20]),
            lambda: client.register_read("seen", 65530, 100),
            lambda: client.register_read("seen", "x"),
            lambda: client.register_read(),
            lambda: client.port_shape(9, "egress"),
            lambda: client.port_shape(1, "egress", rate_bps="fast"),
            lambda: client.port_shape(1, "egress", queue_packets=-1),
            lambda: client.multicast_group(1, [(1,)]),
            lambda: client.multicast_group(1, 7),
            lambda: client.no_such_call(1),
            lambda: client.receive(1, b"", 0),
        ):
            with pytest.raises(CallError):
                call()
        assert client.table_count("forward") == 0


def test_batch_is_in_order_and_says_where_it_failed(served):
    _, path = served
    with Client(path) as client:
        results = client.batch(
            [
                ("register_write", "seen", 0, 5),
                ("register_read", "seen", 0, 2),
                ("port_shape", 1, "ingress", {"rate_bps": 77}),
            ]
        )
        assert results == [None, [5, 0], None]
        with pytest.raises(CallError, match="call 1 of the batch.*no register"):
            client.batch([("register_write", "seen", 0, 6), ("register_read", "sen")])
        assert client.register_read("seen", 0, 1) == [6]
        with pytest.raises(CallError, match="batch contains no batch"):
            client.batch([("batch", [])])
        many = [("register_write", "seen", n, n + 1) for n in range(1000)]
        assert client.batch(many) == [None] * 1000
        assert client.register_read("seen", 998, 3) == [999, 1000, 0]


@pytest.mark.parametrize(
    "line",
    [
        b"hello",
        b"[]",
        b"17",
        b'"text"',
        b"null",
        b"{}",
        b'{"call": 5}',
        b'{"call": "stats", "args": {}}',
        b'{"call": "stats", "kwargs": []}',
        b'{"call": "stats", "args": [1]}',
        b'{"call": "stats", "kwargs": {"x": 1}}',
        b'{"call": "__class__"}',
        b'{"call": "close"}',
        b'{"call": "batch"}',
        b'{"call": "batch", "args": [7]}',
        b'{"call": "batch", "args": [[7]]}',
        b'{"call": "batch", "args": [[{"call": "stats", "args": 1}]]}',
        b'{"call": "register_read", "args": [{"hex": "zz"}]}',
        b'{"call": "register_read", "args": [{"words": "?"}]}',
        b'{"call": "register_read", "args": ["seen", 0, 1e400]}',
        b'{"call": "register_read", "args": ["seen", -1, 1]}',
        b'{"call": "register_read", "args": ["seen", 0, 99999999999999999999999]}',
        b'{"call": "register_write", "args": ["seen", 0, -1]}',
        b'{"call": "register_write", "args": ["seen", 0, null]}',
        b'{"call": "table_add", "args": ["forward", "to_port", [null], [1]]}',
        b'{"call": "table_add", "args": ["forward", "to_port", [[[]]], [[]]]}',
        b'{"call": "table_delete", "args": ["forward", 1e300]}',
        b'{"call": "mirror_session", "args": [1, "x"]}',
        b'{"call": "port_shape", "args": [1, "egress"], "kwargs": {"rate_bps": -1}}',
        b'{"call": "port_shape", "args": [1, "egress"], "kwargs": {"delay_ns": 1e99}}',
        b'{"call": "port_shape", "args": [1, "egress"], "kwargs": {"loss": "NaN"}}',
        b'{"call": "port_shape", "args": [1, "egress"], "kwargs": {"loss": NaN}}',
        b"[" * 100000,
        b'{"call": "\xff\xfe"}',
        b"\x00\x01\x02",
        b'{"call": "register_read", "args": ["seen", ' + b"9" * 5000 + b"]}",
    ],
)
def test_malformed_messages_are_answered(served, line, capsys):
    switch, path = served
    bad, good = raw(path, line, b'{"id": 8, "call": "register_read", "args": ["seen", 0, 1]}')
    assert set(bad) == {"id", "error"} and bad["error"]
    assert good == {"id": 8, "result": [0]}
    assert switch.port_shape_get(1, "egress")["rate_bps"] == 0
    assert "Traceback" not in capsys.readouterr().err


def test_messages_in_pieces_and_without_end(served):
    _, path = served
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.connect(str(path))
        peer.settimeout(10)
        for piece in (b'{"call": "sta', b'ts", "id": 3}', b'\n{"call": "in'):
            peer.sendall(piece)
        with peer.makefile("rb") as replies:
            assert json.loads(replies.readline())["id"] == 3
    with Client(path) as client:  # the one that left in the middle harms nobody
        assert client.stats()["sent"] == 0


def test_a_client_that_does_not_read_blocks_nobody(served):
    _, path = served
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lazy:
        lazy.connect(str(path))
        for _ in range(20):
            lazy.sendall(b'{"call": "register_read", "args": ["seen"]}\n')
        with Client(path, timeout_s=10) as client:
            assert client.register_read("seen", 0, 1) == [0]


def test_second_server_and_leftover_socket(served, tmp_path):
    _, path = served
    with pytest.raises(SwitchError, match="in use"):
        Server(path, {})
    with Client(path) as client:
        assert client.stats()
    left = tmp_path / "left.sock"
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    dead.bind(str(left))
    dead.close()
    Server(left, {}).close()
    with pytest.raises(SwitchError, match="control socket"):
        Server(tmp_path / "no" / "where.sock", {})
    with pytest.raises(SwitchError, match="control socket"):
        Server(tmp_path / ("x" * 200), {})


def test_no_switch_there(tmp_path):
    with pytest.raises(CallError, match="no switch"):
        Client(tmp_path / "nothing.sock")


def test_shutdown(compiled, tmp_path):
    path, switch = tmp_path / "c.sock", Switch(compiled, ports=[1])
    with contextlib.closing(switch), serving(path, switch) as thread:
        with Client(path) as client:
            assert client.shutdown() is None
        thread.join(10)
        assert not thread.is_alive()


def test_encoding_round_trip():
    for value in (
        b"\x00\xff",
        [1, b"x", [2]],
        list(range(1000)),
        {"a": b"b"},
        None,
        1 << 90,
        [True],
    ):
        assert decode(json.loads(json.dumps(encode(value)))) == value
    assert "words" in encode(list(range(1000)))
    assert decode(encode([-1] * 1000)) == [-1] * 1000
