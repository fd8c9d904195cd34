"""The STF runner: what its statements mean, what it lets pass, and what it says."""

from __future__ import annotations

import random

import pytest
from p4engine.cli.main import main
from p4engine.stf.stf_parser import StfError, Value, parse
from p4engine.stf.stf_run import run_test
from p4engine_testing.programs import source

from p4engine import compile_program

ETHERNET = "000000000001 000000000002 0900"
PROGRAM = source(
    headers="header e_t { bit<48> dst; bit<48> src; bit<16> type; }"
    " header tag_t { bit<3> a; bit<5> b; }"
    " struct headers_t { e_t e; tag_t tag; }",
    parser="state start { packet.extract(hdr.e); transition select(hdr.e.type) {"
    " 0x0901: tag; default: accept; } }"
    " state tag { packet.extract(hdr.tag); transition accept; }",
    locals="""
        register<bit<32>>(8) seen;
        counter(4, CounterType.packets_and_bytes) count;
        direct_counter(CounterType.packets) hits;
        meter(2, MeterType.packets) rate;
        action drop() { mark_to_drop(standard); }
        action send(bit<9> port, bit<48> src) { standard.egress_spec = port; hdr.e.src = src; }
        action group(bit<16> g) { standard.mcast_grp = g; }
        action mirror(bit<32> session) { clone(CloneType.I2E, session); }
        table exact_t { key = { hdr.e.dst: exact; }
            actions = { send; drop; group; mirror; NoAction; }
            default_action = NoAction(); counters = hits; }
        table tern { key = { hdr.e.type: ternary; hdr.tag.isValid(): exact; }
            actions = { send; drop; NoAction; } default_action = NoAction(); }
        table prefix { key = { hdr.e.src: lpm; } actions = { send; NoAction; }
            default_action = NoAction(); }
        table span { key = { hdr.e.type: range; hdr.e.dst: optional; } actions = { send; NoAction; }
            default_action = NoAction(); }
    """,
    apply="""
        bit<32> n; bit<2> colour;
        seen.read(n, 0); seen.write(0, n + 1);
        count.count((bit<32>) standard.ingress_port);
        rate.execute_meter((bit<32>) standard.ingress_port, colour);
        if (!exact_t.apply().hit) { if (!tern.apply().hit) {
            if (!prefix.apply().hit) { span.apply(); } } }
        if (colour == 2) { mark_to_drop(standard); }
    """,
    egress="if (standard.egress_rid != 0) { hdr.e.src = (bit<48>) standard.egress_rid; }"
    " if (standard.instance_type == 1) { hdr.e.src = 99; }",
)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    path = tmp_path_factory.mktemp("stf") / "program.p4"
    path.write_text(PROGRAM)
    return compile_program(path)


@pytest.fixture
def run(compiled, tmp_path):
    def run(text: str):
        test = tmp_path / "test.stf"
        test.write_text(text)
        return run_test(compiled, test)

    return run


PASSES = {
    "prefix, exact length, wildcard": f"""
        packet 0 {ETHERNET} 4142
        expect 1 {ETHERNET}
        packet 0 {ETHERNET} 4142
        expect 1 000000000001 ************ 0900 41*2 $
    """,
    "any content": f"packet 0 {ETHERNET}\nexpect 1",
    "an unnamed port is not seen": f"add exact_t e.dst:1 send(port:7, src:5)\npacket 0 {ETHERNET}",
    "exact with a full name": f"""
        add MyIngress.exact_t hdr.e.dst:0x000000000001 MyIngress.send(port:2, src:0xa) = $entry
        packet 0 {ETHERNET}
        expect 2 000000000001 00000000000A 0900 $
        check_counter hits($entry) packets == 1
        check_counter count(0) bytes >= 14
    """,
    "positional parameters and addresses": f"""
        add exact_t hdr.e.dst:00:00:00:00:00:01 send(2, 00:00:00:00:00:0a)
        packet 0 {ETHERNET}
        expect 2 000000000001 00000000000a
    """,
    "only the digits that are written": """
        add tern 5 hdr.e.type:0x9** send(port:3, src:1)
        packet 0 000000000001 000000000002 09ff
        expect 3
        packet 0 000000000001 000000000002 19ff
        expect 3
    """,
    "higher priority wins, validity by another name": """
        add tern 5 hdr.e.type:0x090* send(port:3, src:1)
        add tern 6 hdr.tag.$valid$:1 hdr.e.type:0b**** send(port:4, src:2)
        packet 0 000000000001 000000000002 0901 ff
        expect 4
    """,
    "lpm by digits": """
        add prefix hdr.e.src:0x0a********** send(port:2, src:1)
        add prefix hdr.e.src:0x0a0b0c0d0e0f send(port:3, src:1)
        packet 0 000000000009 0a0b0c0d0e0f 0902
        expect 3
        packet 0 000000000009 0a0b0c0d0e00 0902
        expect 2
    """,
    "range and optional": """
        add span 1 hdr.e.type:0x0a00->0x0aff send(port:2, src:1)
        add span 2 hdr.e.type:0x0b00..0x0bff hdr.e.dst:9 send(port:3, src:1)
        packet 0 000000000009 000000000000 0a42
        expect 2
        packet 0 000000000009 000000000000 0b42
        expect 3
        packet 0 000000000008 000000000000 0b42
        expect 1
    """,
    "multicast": f"""
        add exact_t e.dst:1 group(g:1)
        mc_mgrp_create 1
        mc_node_create 5 3 2
        mc_node_create 6 4
        mc_node_associate 1 0
        mc_node_associate 1 1
        packet 0 {ETHERNET}
        expect 2 000000000001 000000000005
        expect 3 000000000001 000000000005
        expect 4 000000000001 000000000006
    """,
    "mirroring": f"""
        add exact_t e.dst:1 mirror(session:9)
        mirroring_add 9 6
        mirroring_get 9
        packet 0 {ETHERNET}
        expect 6 000000000001 000000000063
        expect 1 {ETHERNET}
    """,
    "registers, counters, meters": f"""
        register_write seen 0 41
        register_read MyIngress.seen 0
        counter_write count 2 10 1000
        meter_set_rates rate 3 0.1:1 0.2:2
        meter_array_set_rates rate 0.000000001:1 0.000000001:2
        meter_get_rates rate 0
        packet 0 {ETHERNET}
        expect 1
        packet 0 {ETHERNET}
        expect 1
        packet 0 {ETHERNET}
        register_reset seen
        check_counter count(2) packets == 10
        check_counter count(2) bytes < 1001
    """,
    "default action": f"""
        setdefault span send(src:0x7, port:0x3)
        setdefault exact_t NoAction()
        PACKET 0 {ETHERNET}
        Expect 3 000000000001 000000000007
    """,
    "comments, several lines, wait": f"""
        # a comment
        wait
        add exact_t hdr.e.dst:0x1   // another
            send(port:2,
                src:3)
        packet 0 {ETHERNET} # and one more
           41424344
        expect 2 000000000001 000000000003 0900
           41424344 $
        remove all
    """,
    "a duplicate is refused and nothing else happens": f"""
        add exact_t e.dst:1 send(port:2, src:1)
        add exact_t e.dst:1 send(port:3, src:1)
        add exact_t e.dst:0x1000000000000 send(port:3, src:1)
        packet 0 {ETHERNET}
        expect 2
    """,
}


@pytest.mark.parametrize("name", PASSES)
def test_passes(run, name):
    result = run(PASSES[name])
    assert (result.status, result.message) == ("pass", ""), result.difference


def test_refused_commands_are_warnings(run):
    result = run(PASSES["a duplicate is refused and nothing else happens"])
    assert len(result.warnings) == 2
    assert "line 3: refused" in result.warnings[0]
    assert "does not fit" in result.warnings[1]


FAILS = {
    "content": (f"packet 0 {ETHERNET}\nexpect 1 000000000001 000000000003", "digit 23"),
    "longer than exact": (f"packet 0 {ETHERNET} 41\nexpect 1 {ETHERNET}$", "exactly 14"),
    "shorter": (f"packet 0 {ETHERNET}\nexpect 1 {ETHERNET} 41", "14 bytes left"),
    "missing": (f"packet 0 {ETHERNET}\nexpect 1\nexpect 1", "2 packets are expected on port 1"),
    "elsewhere": (
        f"add exact_t e.dst:1 send(port:7, src:5)\npacket 0 {ETHERNET}\nexpect 1",
        "more than expected left on port 7",
    ),
    "too many": (f"packet 0 {ETHERNET}\npacket 0 {ETHERNET}\nexpect 1", "2 left"),
    "unexpected on a named port": (f"packet 1 {ETHERNET}", "0 packets are expected on port 1"),
    "order": (
        f"packet 0 {ETHERNET} 41\npacket 0 {ETHERNET} 42\n"
        f"expect 1 {ETHERNET} 42\nexpect 1 {ETHERNET} 41",
        "digit 29",
    ),
    "no_packet": (
        f"add exact_t e.dst:1 send(port:7, src:5)\npacket 0 {ETHERNET}\nno_packet",
        "0 packets are expected on port 7",
    ),
}


@pytest.mark.parametrize("name", FAILS)
def test_fails(run, name):
    text, reason = FAILS[name]
    result = run(text)
    assert result.status == "fail"
    assert reason in result.difference.reason


def test_counters_are_checked(run):
    result = run(f"packet 0 {ETHERNET}\nexpect 1\ncheck_counter count(0) packets == 2")
    assert result.status == "fail"
    assert "packets is 1, not == 2" in result.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pakcet 0 00", "did you mean 'packet'"),
        ("packet 0 0g", "'G' cannot stand"),
        ("packet x 00", "number of a port"),
        ("add nothing a:1 b()", "there is no table 'nothing'"),
        ("add exact_t wrong:1 send(port:1, src:1)", "no key 'wrong'"),
        (
            "add exact_t e.dst:1 nothing()",
            "there is no action 'nothing'; table MyIngress.exact_t has",
        ),
        ("add exact_t e.dst:1 send(port:1)", "needs a value for src"),
        ("add exact_t e.dst:1 send(port:1, mac:1)", "no parameter mac"),
        ("add exact_t e.dst:1 send(port:1, src:1) )", "stands behind the end"),
        ("add exact_t e.dst:1 send(port:", "is missing at the end"),
        ("check_counter count(1) packets = 3", "a comparison is expected"),
        ("check_counter count(x)", "invalid literal"),
    ],
)
def test_what_cannot_be_run_says_why(run, text, message):
    result = run(text)
    assert result.status == "error"
    assert message in result.message


def test_no_text_breaks_the_runner(run, monkeypatch):
    monkeypatch.setenv("P4ENGINE_DEBUG", "1")  # a defect is raised, not reported
    numbers = random.Random(7)
    texts = list(PASSES.values())
    for _ in range(150):
        text = list(numbers.choice(texts))
        for _ in range(numbers.randint(1, 3)):
            at = numbers.randrange(len(text))
            kind = numbers.random()
            if kind < 0.5:
                text[at] = numbers.choice('09afx*$:/()&->.,="# \n_[]\\\0\xe9')
            elif kind < 0.75:
                del text[at : at + numbers.randint(1, 6)]
            else:
                text[at:at] = text[numbers.randrange(len(text)) :][:20]
        assert run("".join(text)).status in ("pass", "fail", "error")


def test_parser():
    add = parse('add "a.b"."c" 3 x[1].y : 0x1* "k":1/8 act ( p : 0b1 , 7 ) = e')[0]
    assert (add.table, add.priority, add.action, add.entry) == ("a.b.c", 3, "act", "e")
    assert add.matches == (("x[1].y", Value("0x1*")), ("k", Value("1", "/", "8")))
    assert add.arguments == (("p", "0b1"), (None, "7"))
    assert parse("expect 3")[0].data is None
    assert parse("meter_set_rates m 1 0.5 : 1 2:3")[0].words == ("m", "1", "0.5:1", "2:3")
    with pytest.raises(StfError, match="t.stf:2"):
        parse("\nbogus 1", "t.stf")


def test_command_line(tmp_path, capsys):
    (tmp_path / "good.p4").write_text(PROGRAM)
    (tmp_path / "good.stf").write_text(f"packet 0 {ETHERNET}\nexpect 1 {ETHERNET}$")
    assert main(["stf", str(tmp_path / "good.p4"), str(tmp_path / "good.stf")]) == 0
    (tmp_path / "bad.p4").write_text(PROGRAM)
    (tmp_path / "bad.stf").write_text(
        "packet 0 000000000001 000000000002 0901 e1 77\n"
        "expect 1 000000000001 000000000002 0901 e2 77\n"
    )
    capsys.readouterr()
    assert main(["stf", str(tmp_path / "bad.p4")]) == 1
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["0", "hdr.e.dst", "000000000001", "000000000001"] in rows
    assert ["14", "hdr.tag.a", "0b111", "0b111"] in rows
    assert ["*", "14", "hdr.tag.b", "0b00010", "0b00001"] in rows
    assert ["15", "payload", "77", "77"] in rows
    (tmp_path / "broken.p4").write_text("control {")
    (tmp_path / "broken.stf").write_text("packet 0 00")
    assert main(["stf", str(tmp_path / "broken.p4")]) == 2
    assert "broken.p4:1:9: error" in capsys.readouterr().err
    assert main(["stf", str(tmp_path / "nothing.p4")]) == 2
    assert main(["stf", str(tmp_path)]) == 1
    assert "3 tests: 1 pass, 1 FAIL, 1 cannot run" in capsys.readouterr().out
