"""The STF runner: what its statements mean, what it lets pass, and what it says."""

from __future__ import annotations

import random

import pytest
from p4engine.cli.main import main
from p4engine.stf.stf_parser import StfError, Value, parse
from p4engine.stf.stf_run import run_test
from p4engine_testing import DATA
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


BLOCKS = (DATA / "stf.txt").read_text().replace("$E", ETHERNET).split("\n== ")[1:]
TEXTS = dict(block.split("\n", 1) for block in BLOCKS)


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


@pytest.mark.parametrize("name", TEXTS)
def test_what_passes_and_what_fails(run, name):
    text = TEXTS[name]
    if text.startswith("! "):
        reason, text = text[2:].split("\n", 1)
        result = run(text)
        assert result.status == "fail" and reason in result.difference.reason
        return
    result = run(text)
    assert (result.status, result.message) == ("pass", ""), result.difference


def test_refused_commands_are_warnings(run):
    result = run(TEXTS["a duplicate is refused and nothing else happens"])
    assert len(result.warnings) == 2
    assert "line 2: refused" in result.warnings[0]
    assert "does not fit" in result.warnings[1]


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
    texts = list(TEXTS.values())
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
