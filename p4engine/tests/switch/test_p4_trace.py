"""Traced builds: they do what the fast ones do, and say it."""

from __future__ import annotations

import pytest
from p4engine.cli.main import main
from p4engine.control.client import Client
from p4engine.control.commands import CommandError, Commands
from p4engine.switch.library import Switch
from p4engine.trace.tracer import TraceError, Tracer
from p4engine_testing.programs import send, serving, source, words
from scapy.utils import wrpcap

from p4engine import compile_program

PARTS = {
    "top": "error { TooSmall } const bit<32> LIMIT = 7; enum colour_t { red, green }"
    " enum bit<8> kind_t { five = 5 }",
    "headers": "header h_t { bit<32> a; bit<32> b; bit<4> c; int<4> d; varbit<32> v; }"
    " header s_t { kind_t x; bit<7> more; bit<1> last; }"
    " struct headers_t { s_t[3] s; h_t h; }",
    "metadata": "colour_t colour;",
    "parser": """
        state start {
            packet.extract(hdr.s.next);
            transition select(hdr.s.last.last) { 1: rest; default: start; }
        }
        state rest {
            packet.extract(hdr.h, 16);
            verify(hdr.h.a > 2, error.TooSmall);
            transition accept;
        }
    """,
    "locals": """
        register<bit<32>>(16) seen;
        counter(16, CounterType.packets) count;
        action note(bit<32> amount, bit<9> port) {
            hdr.h.b = hdr.h.b + amount;
            standard.egress_spec = port;
        }
        action drop() { mark_to_drop(standard); }
        table t {
            key = { hdr.h.a: exact; hdr.s[0].x: ternary; }
            actions = { note; drop; }
            default_action = drop();
        }
    """,
    "apply": """
        bit<32> n;
        meta.colour = colour_t.green;
        log_msg("hello");
        seen.read(n, hdr.h.a);
        if (n < LIMIT) { seen.write(hdr.h.a, n + 1); } else { exit; }
        count.count(hdr.h.a);
        t.apply();
        if (hdr.h.b == 99) { clone(CloneType.I2E, 4); }
    """,
    "egress": "hdr.s.pop_front(1); if (standard.instance_type == 1) { hdr.h.setInvalid(); }",
    "update": "update_checksum(hdr.h.isValid(), { hdr.h.a }, hdr.h.b, HashAlgorithm.crc32);",
}
STACK = bytes([5, 0, 6, 1])


def packet(a: int, b: int) -> bytes:
    return STACK + words(a, b) + b"\x1f\x41\x42" + b"payload"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "program.p4"
    path.write_text(source(**PARTS))
    return path


@pytest.fixture
def switch(program):
    return fill(Switch(compile_program(program, trace=True)))


def fill(switch: Switch) -> Switch:
    commands = Commands(switch)
    commands.run("table_add t note 5 0x05&&&0x0f => 90 3 10")
    commands.run("mirroring_add 4 8   # a comment")
    return switch


def lines_of(switch: Switch, data: bytes, port: int = 2) -> list[str]:
    tracer = Tracer(switch)
    send(switch, data, port)
    return [line.strip() for line in tracer.lines()]


def line_number(text: str) -> int:
    return next(i for i, line in enumerate(source(**PARTS).splitlines(), 1) if text in line)


def test_the_path_of_a_packet_in_the_terms_of_its_source(switch):
    lines = lines_of(switch, packet(5, 9))
    expected = [
        "parser MyParser: 22 bytes on port 2",
        f"{line_number('state start')}  state start",
        f"{line_number('packet.extract(hdr.s.next)')}  packet.extract(hdr.s.next);",
        "hdr.s[0], bytes 0 to 1",
        "x     kind_t.five",
        "hdr.s.last.last = 0",
        "hdr.s[1], bytes 2 to 3",
        f"{line_number('state rest')}  state rest",
        "hdr.h, bytes 4 to 14",
        "d  -1",
        "v  16706 (0x4142)",
        f"{line_number('verify(')}  verify(hdr.h.a > 2, error.TooSmall);",
        "true",
        "ingress MyIngress",
        "meta.colour = colour_t.green",
        'log_msg "hello"()',
        "MyIngress.seen.read(index = 5) gives result = 0",
        "true",
        "MyIngress.seen.write(index = 5, value = 1)",
        "MyIngress.count.count(index = 5)",
        f"{line_number('t.apply()')}  t.apply();",
        "MyIngress.t: hdr.h.a = 5 exact, hdr.s[0].x = kind_t.five ternary",
        "hit, entry 0",
        "action MyIngress.note(amount = 90 (0x5a), port = 3)",
        f"{line_number('hdr.h.b + amount')}  hdr.h.b = hdr.h.b + amount;",
        "hdr.h.b = 99 (0x63)",
        "standard.egress_spec = 3",
        "clone(session = 4)",
        "clone to mirror session 4, to port 3",
        "egress MyEgress: to port 3",
        "deparser MyDeparser",
        "hdr.s[0], bytes 0 to 1",
        "hdr.h, bytes 2 to 12",
        "13 bytes of headers, 7 bytes of payload",
    ]
    at = 0
    for line in expected:
        assert line in lines[at:], (line, lines[at:])
        at = lines.index(line, at) + 1
    assert "egress MyEgress: to port 8, clone of ingress" in lines
    assert "parser MyParser: 22 bytes on port 2, again for a clone" in lines


def test_misses_errors_and_drops_are_told(switch):
    lines = lines_of(switch, packet(6, 0))
    assert "miss, the default action" in lines
    assert "action MyIngress.drop()" in lines
    assert "dropped" in lines
    assert "error.TooSmall: the parser rejects" in lines_of(switch, packet(1, 0))
    assert "error.PacketTooShort: the parser rejects" in lines_of(switch, STACK + b"\0")
    assert "error.StackOutOfBounds: the parser rejects" in lines_of(switch, b"\0" * 64)


def test_a_traced_build_does_the_same(program, switch):
    fast = fill(Switch(compile_program(program)))
    assert fast.compiled.info.trace is None
    tracer = Tracer(switch)
    for data in (packet(5, 9), packet(5, 0), packet(6, 1), packet(1, 1), b"\0" * 64, b"", STACK):
        assert send(switch, data) == send(fast, data)
    assert switch.register_read("seen") == fast.register_read("seen")
    assert tracer.packets == 7
    with pytest.raises(TraceError, match="trace=True"):
        Tracer(fast)


@pytest.mark.parametrize(
    "wrong", [{"port": "1"}, {"packets": [3]}, {"where": 3}, {"where": [("hdr.h.a", 1)]}]
)
def test_what_cannot_be_followed_is_refused(switch, wrong):
    with pytest.raises(TraceError, match="to trace"):
        switch.trace(**wrong)


def test_filters(switch):
    def packets(**options) -> list[int]:
        tracer = Tracer(switch, **options)
        for port, a in ((1, 3), (2, 4), (1, 4), (1, 5)):
            send(switch, packet(a, 0), port)
        events = tracer.take()
        assert tracer.packets == sum(e.kind == "packet" for e in events)
        return [e.values[0] for e in events if e.kind == "begin" and e.site["stage"] == "parser"]

    assert packets() == [1, 2, 1, 1]
    assert packets(port=1) == [1, 1, 1]
    assert packets(port=1, limit=2) == [1, 1]
    assert packets(where={"h.a": 4}) == [2, 1]
    assert packets(where={"hdr.h.a": "4", "hdr.s[1].x": 6}, port=2) == [2]
    assert packets(where={"h.a": 4}, limit=1) == [2]
    assert packets(where={"h.a": 77}) == []


def test_control_calls_of_a_running_switch(switch, tmp_path):
    with serving(tmp_path / "socket", switch), Client(tmp_path / "socket") as client:
        assert client.trace_lines() == []
        client.trace(where={"h.a": 4}, packets=1)
        for a in (3, 4, 4):
            send(switch, packet(a, 0))
        lines = client.trace_lines()
        client.trace_stop()
    assert sum(line.startswith("parser") for line in lines) == 1
    assert "             a  4" in lines


def test_command_line(program, tmp_path, capsys):
    commands = tmp_path / "commands.txt"
    commands.write_text("table_add t note 5 0x05&&&0x0f => 90 3 10\nregister_read seen 5\n")
    base = ["trace", str(program), "--port", "4", "--commands", str(commands)]
    assert main([*base, "--packet", packet(5, 1).hex(" ", 4)]) == 0
    output = capsys.readouterr().out
    assert "MyIngress.seen[5] = 0" in output
    assert "packet 1: 22 bytes on port 4" in output
    assert "leaves on port 3: 20 bytes" in output
    assert "\x1b" not in output
    wrpcap(str(tmp_path / "two.pcap"), [packet(5, 1), packet(6, 1)], linktype=1)
    assert main([*base, "--packet", str(tmp_path / "two.pcap")]) == 0
    output = capsys.readouterr().out
    assert "packet 2: 22 bytes" in output
    assert "nothing leaves" in output
    test = tmp_path / "test.stf"
    test.write_text(f"packet 1 {packet(6, 1).hex()}\n")
    assert main(["trace", str(program), "--stf", str(test)]) == 0
    assert "test.stf:1: 22 bytes on port 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "nothing to trace"),
        (["--packet", "xyz"], "hex digits"),
        (["--packet", "123"], "hex digits"),
        (["--packet", "00", "--port", "600"], "0 to 510"),
        (["--packet", "00", "--commands", "missing.txt"], "cannot read missing.txt"),
        (["--stf", "missing.stf"], "cannot read missing.stf"),
    ],
)
def test_wrong_calls_say_why(program, capsys, options, message):
    assert main(["trace", str(program), *options]) == 2
    assert message in capsys.readouterr().err


COMMANDS = {
    "table_ad t": "did you mean 'table_add'",
    "table_add": "table_add TABLE ACTION MATCH",
    "table_add nothing note 1 1 => 1": "there is no table 'nothing'; the program has",
    "table_add t nothing 1 1 => 1": "no action 'nothing'",
    "table_add t note 1 => 1 1 1": "has 2 keys",
    "table_add t note 1 1&&&1 => 1 1": "takes 2 parameters",
    "table_add t note 1 1&&&1 =>": "needs a priority",
    "table_add t note x 1&&&1 => 1 1 1": "'x' is not a number",
    "table_add t note 0x100000000 1&&&1 => 1 1 1": "does not fit",
    "table_set_default t note 1": "takes 2 parameters",
    "register_write seen 99 1": "elements 0 to 15",
    "register_write seen a 1": "not a whole number",
    "mc_node_associate 3 0": "no multicast group 3",
    "mirroring_get 8": "no mirroring session 8",
    "meter_set_rates m 0 1:1": "two rates",
    "counter_read missing 0": "missing",
}


@pytest.mark.parametrize("line", COMMANDS)
def test_wrong_commands_say_why(switch, tmp_path, line):
    path = tmp_path / "commands.txt"
    path.write_text(f"# first\n{line}\n")
    with pytest.raises(CommandError) as caught:
        Commands(switch).run_file(path)
    assert f"{path}:2: " in str(caught.value)
    assert COMMANDS[line] in str(caught.value)
