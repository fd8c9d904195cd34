"""`p4engine fit` on small programs with known needs."""

from __future__ import annotations

import json
import re

import pytest
from p4engine.cli.main import main
from p4engine.fit.analysis import analyse
from p4engine.fit.report import Limits, describe, text_of
from p4engine.frontend.diagnostics import P4Error
from p4engine_testing import DATA, ENGINE
from p4engine_testing.language import cases
from p4engine_testing.programs import source

REGISTER = "register<bit<32>>(16) r;"
TWO = "register<bit<32>>(16) r; register<bit<32>>(16) q;"


@pytest.fixture
def fit(tmp_path):
    """Analyses a program made of parts; `limits` are those to change."""

    def run(limits=None, **parts):
        path = tmp_path / "program.p4"
        path.write_text(source(**parts))
        return analyse(path, limits=Limits(**(limits or {})))

    return run


def accesses(report, name="r"):
    """The accesses of the packet that makes most of them to an array."""
    (found,) = [a for a in report.arrays if a.name == f"MyIngress.{name}"]
    return [access.kind for access in found.accesses]


def broken(report):
    return sorted({problem.limit for problem in report.problems})


def chain(report):
    return [(step.stage, step.text) for step in report.ingress]


def test_a_program_without_memory_fits(fit):
    report = fit()
    assert report.fits and report.stages == 0 and report.most_accesses == 0


# ---- accesses ----


@pytest.mark.parametrize(
    ("apply", "kinds"),
    [
        ("bit<32> x; r.read(x, 1); hdr.h.a = x;", ["read"]),
        ("r.write(1, hdr.h.a);", ["write"]),
        # The old value and a packet's field make the new value.
        ("bit<32> x; r.read(x, 1); r.write(1, x + hdr.h.a);", ["read and write"]),
        # The new value is the packet's, the packet gets the old one.
        ("bit<32> x; r.read(x, 1); r.write(1, hdr.h.a); hdr.h.a = x;", ["read and write"]),
        # One index by another name, and through a copy of the old value.
        (
            "bit<32> i = hdr.h.b; bit<32> x; r.read(x, hdr.h.b); bit<32> y = x; r.write(i, y | 1);",
            ["read and write"],
        ),
        # Two indices.
        ("bit<32> x; r.read(x, 1); r.write(2, x);", ["read", "write"]),
        ("bit<32> x; r.read(x, hdr.h.a); r.write(hdr.h.b, 1);", ["read", "write"]),
        # The index has changed in between.
        ("bit<32> x; r.read(x, hdr.h.a); hdr.h.a = 1; r.write(hdr.h.a, 1);", ["read", "write"]),
        # What comes first is a write.
        ("bit<32> x; r.write(1, hdr.h.a); r.read(x, 1); hdr.h.b = x;", ["write", "read"]),
        ("r.write(1, hdr.h.a); r.write(1, hdr.h.b);", ["write", "write"]),
        # Branches that exclude each other do not add up ...
        ("if (hdr.h.a == 1) { r.write(1, 1); } else { r.write(2, 2); }", ["write"]),
        (
            "switch (hdr.h.a) { 1: { r.write(1, 1); } 2: { r.write(2, 2); }"
            " default: { r.write(3, 3); } }",
            ["write"],
        ),
        ("if (hdr.h.a == 1) { r.write(1, 1); } if (hdr.h.a != 1) { r.write(2, 2); }", ["write"]),
        ("if (hdr.h.a == 1) { r.write(1, 1); } if (hdr.h.a == 2) { r.write(2, 2); }", ["write"]),
        ("if (hdr.h.a == 1) { r.write(1, 1); return; } r.write(2, 2);", ["write"]),
        ("if (hdr.h.a == 1) { r.write(1, 1); exit; } r.write(2, 2);", ["write"]),
        # ... also where a variable remembers the branch ...
        (
            "bit<8> way = 0; if (hdr.h.a == 1) { way = 1; r.write(1, 1); } else if (hdr.h.b == 1)"
            " { way = 2; } if (way == 2) { r.write(2, 2); } else if (way == 0) { r.write(3, 3); }",
            ["write"],
        ),
        # ... and those that do not, do.
        (
            "if (hdr.h.a == 1) { r.write(1, 1); } if (hdr.h.b == 1) { r.write(2, 2); }",
            ["write", "write"],
        ),
        ("if (hdr.h.a == 1) { r.write(1, 1); } r.write(2, 2);", ["write", "write"]),
        # A branch that no packet takes counts for nothing.
        ("if (hdr.h.a == 1) { if (hdr.h.a == 2) { r.write(1, 1); } } r.write(2, 2);", ["write"]),
        # Loops are unrolled.
        ("for (bit<32> i in 1 .. 3) { r.write(i, 1); }", ["write", "write", "write"]),
    ],
)
def test_accesses_are_counted_over_the_ways_of_a_packet(fit, apply, kinds):
    report = fit(locals=REGISTER, apply=apply)
    assert accesses(report) == kinds
    assert broken(report) == (["accesses"] if len(kinds) > 1 else [])


def test_a_limit_of_two_accesses_allows_two(fit):
    apply = "r.write(1, hdr.h.a); r.write(2, hdr.h.b);"
    assert not fit(locals=REGISTER, apply=apply).fits
    assert fit({"accesses": 2}, locals=REGISTER, apply=apply).fits


def test_the_second_access_is_named_with_its_place(fit, tmp_path):
    report = fit(locals=REGISTER, apply="\nr.write(1, 1);\n  r.write(2, 2);\n")
    (problem,) = report.problems
    line = (tmp_path / "program.p4").read_text().splitlines().index("  r.write(2, 2);") + 1
    assert (problem.limit, problem.spot.line, problem.spot.column) == ("accesses", line, 5)
    assert "2 accesses (write, write)" in problem.message


def test_a_table_makes_the_accesses_of_one_of_its_actions(fit):
    actions = """
        register<bit<32>>(16) r;
        action one(bit<32> i) { r.write(i, 1); }
        action two(bit<32> i) { bit<32> x; r.read(x, i); r.write(i, x + 1); }
        action none() { }
        table t { key = { hdr.h.a: exact; } actions = { one; two; none; } default_action = none(); }
    """
    report = fit(locals=actions, apply="t.apply();")
    assert report.fits and len(accesses(report)) == 1
    report = fit(locals=actions, apply="t.apply(); r.write(1, 1);")
    assert len(accesses(report)) == 2
    after_a_miss = "if (t.apply().miss) { r.write(1, 1); }"  # one() or two() may be the default
    assert len(accesses(fit(locals=actions, apply=after_a_miss))) == 2
    by_action = "switch (t.apply().action_run) { none: { r.write(1, 1); } }"
    assert len(accesses(fit(locals=actions, apply=by_action))) == 1


def test_accesses_in_called_actions_functions_and_controls_count(fit, tmp_path):
    top = """
        control Inner(inout headers_t hdr) {
            register<bit<32>>(16) r;
            apply { bit<32> x; r.read(x, 3); r.write(3, x + hdr.h.a); }
        }
    """
    frame = source(locals="Inner() inner; Inner() other;", apply="APPLY")
    headers = "struct metadata_t"
    text = frame.replace(headers, top + headers, 1)
    once, twice = "inner.apply(hdr); other.apply(hdr);", "inner.apply(hdr); inner.apply(hdr);"
    assert "APPLY" in text

    def counts(apply, path):
        path.write_text(text.replace("APPLY", apply))
        return {a.name: len(a.accesses) for a in analyse(path).arrays}

    assert counts(once, tmp_path / "p.p4") == {"MyIngress.inner.r": 1, "MyIngress.other.r": 1}
    assert counts(twice, tmp_path / "p.p4") == {"MyIngress.inner.r": 2, "MyIngress.other.r": 0}
    called = "register<bit<32>>(16) r; action put(bit<32> i) { r.write(i, 1); }"
    assert accesses(fit(locals=called, apply="put(1); put(2);")) == ["write", "write"]


def test_a_packet_can_return_from_an_action_before_an_access(fit):
    locals_ = REGISTER + "action put() { if (hdr.h.a == 1) { return; } r.write(1, 1); }"
    report = fit(locals=locals_, apply="put(); if (hdr.h.a == 1) { r.write(2, 2); }")
    assert accesses(report) == ["write"]


def test_counters_and_meters_are_arrays(fit):
    locals_ = "counter(8, CounterType.packets) c; meter(8, MeterType.bytes) m; bit<2> color;"
    report = fit(locals=locals_, apply="c.count(1); m.execute_meter(2, color); c.count(3);")
    assert accesses(report, "c") == ["count", "count"] and accesses(report, "m") == ["count"]
    assert broken(report) == ["accesses"]


def test_a_table_is_applied_once(fit):
    table = "table t { key = { hdr.h.a: exact; } actions = { NoAction; } }"
    assert fit(locals=table, apply="if (hdr.h.b == 1) { t.apply(); } else { t.apply(); }").fits
    report = fit(locals=table, apply="t.apply(); if (hdr.h.b == 1) { t.apply(); }")
    assert broken(report) == ["accesses"] and "looks it up 2 times" in report.problems[0].message


def test_egress_and_ingress_are_both_followed(fit):
    report = fit(egress_locals="register<bit<32>>(4) e;", egress="e.write(1, 1); e.write(2, 1);")
    assert broken(report) == ["accesses"]


# ---- a read and a write that are one access ----


def test_a_new_value_by_way_of_a_table_is_a_second_access(fit):
    locals_ = """
        register<bit<32>>(16) r; bit<32> x; bit<32> y;
        action put(bit<32> value) { y = value; }
        table t { key = { x: exact; } actions = { put; } default_action = put(0); }
    """
    report = fit(locals=locals_, apply="r.read(x, 1); t.apply(); r.write(1, y);")
    assert accesses(report) == ["read", "write"]


@pytest.mark.parametrize(
    "new",
    [
        "x + hdr.h.a",
        "(x | hdr.h.a) | hdr.h.b",
        "x > 5 ? x + 1 : hdr.h.a",
        "(x > 5 && x < 9) ? x + 1 : x",
        "hdr.h.a > 5 && hdr.h.b > 6 && hdr.h.c > 7 && x > 8 ? x + 1 : x",
        "(x + hdr.h.a) ^ hdr.h.b",
    ],
)
def test_a_new_value_from_the_old_one_is_one_access(fit, new):
    report = fit(locals=REGISTER, apply=f"bit<32> x; r.read(x, 1); r.write(1, {new});")
    assert accesses(report) == ["read and write"] and report.fits


# ---- circles ----

NEED_EACH_OTHER = """
    bit<32> x; bit<32> y; r.read(x, I); q.read(y, I);
    if (x > 3) { q.write(I, y + 1); }
    if (y > 3) { r.write(I, x + 1); }
"""


def test_arrays_that_need_each_other_take_two_passes(fit):
    wide = TWO.replace("32>>(16) q", "48>>(16) q") + "bit<48> y;"
    apply = NEED_EACH_OTHER.replace("bit<32> y;", "").replace("I", "1")
    report = fit(locals=wide, apply=apply)
    (circle,) = report.circles
    assert set(circle.names) == {"r", "q"} and circle.length == 2
    assert broken(report) == ["accesses", "circle"]
    assert accesses(report) == ["read", "write"] == accesses(report, "q")
    (text,) = [p.message for p in report.problems if p.limit == "circle"]
    assert "r needs q needs r" in text


def test_two_small_arrays_at_one_index_are_halves_of_one(fit):
    report = fit(locals=TWO, apply=NEED_EACH_OTHER.replace("I", "1"))
    assert report.fits
    elsewhere = NEED_EACH_OTHER.replace("q.read(y, I)", "q.read(y, 2)").replace(
        "q.write(I", "q.write(2"
    )
    assert "circle" in broken(fit(locals=TWO, apply=elsewhere.replace("I", "1")))


def test_three_arrays_in_a_circle(fit):
    locals_ = TWO + "register<bit<32>>(16) p; bit<32> x; bit<32> y; bit<32> z;"
    apply = """
        r.read(x, 1); q.read(y, 1); p.read(z, 1);
        q.write(1, y + x); p.write(1, z + y); r.write(1, x + z);
    """
    (circle,) = fit(locals=locals_, apply=apply).circles
    assert circle.length == 3 and len(circle.names) == 3
    no_circle = apply.replace("r.write(1, x + z)", "r.write(1, x + 1)")
    assert fit(locals=locals_, apply=no_circle).fits


def test_passes_that_exclude_each_other_are_no_circle(fit):
    """As a program that reads in one pass and writes in the next."""
    wide = "register<bit<48>>(16) r; register<bit<48>>(16) q; bit<48> x; bit<48> y;"
    apply = """
        if (standard.instance_type == 0) { r.read(x, 1); q.read(y, 1); }
        else { x = (bit<48>) hdr.h.a; y = (bit<48>) hdr.h.b; }
        if (standard.instance_type != 0) { r.write(1, y); q.write(1, x); }
    """
    assert fit(locals=wide, apply=apply).circles == ()


def test_a_second_pass_that_knows_the_decision_needs_no_other_array(fit):
    """The first pass leaves by a return, so that what follows is the second's alone."""
    locals_ = "register<bit<48>>(16) r; register<bit<48>>(16) q; bit<48> x; bit<48> y;"
    apply = """
        r.read(x, 1); q.read(y, 1);
        bit<1> decided = meta.decided;
        bit<8> event = meta.event;
        if (decided == 0) {
            if (x == 1 && y == 2) { event = 1; } else if (x == 2) { event = 2; }
            if (event != 0) { resubmit_preserving_field_list(1); return; }
        }
        bit<48> x_next = x; bit<48> y_next = y;
        if (event == 1) { x_next = 0; } else if (event == 2) { y_next = 7; }
        CHECK { r.write(1, x_next); q.write(1, y_next); }
    """
    metadata = "bit<1> decided; bit<8> event;"
    checked = apply.replace("CHECK", "if (decided == 1)")
    report = fit(metadata=metadata, locals=locals_, apply=checked)
    assert report.fits and accesses(report) == ["read and write"]
    unchecked = fit(metadata=metadata, locals=locals_, apply=apply.replace("CHECK", ""))
    assert broken(unchecked) == ["accesses", "circle"]


# ---- stages ----


def match_chain(count):
    """Tables of which each matches on what the one before has set, and their application."""
    tables = "".join(
        f"""
        bit<32> f{i};
        action set{i}(bit<32> v) {{ f{i} = v; }}
        table t{i} {{ key = {{ {f"f{i - 1}" if i else "hdr.h.a"}: exact; }} actions = {{ set{i}; }}
                      default_action = set{i}(0); }}"""
        for i in range(count)
    )
    return tables, "".join(f"t{i}.apply();" for i in range(count)) + f"hdr.h.b = f{count - 1};"


@pytest.mark.parametrize(("count", "limit"), [(3, []), (12, []), (13, ["stages"])])
def test_tables_that_match_on_each_other_are_in_successive_stages(fit, count, limit):
    locals_, apply = match_chain(count)
    report = fit(locals=locals_, apply=apply)
    assert chain(report) == [(i + 1, f"table t{i}") for i in range(count)]
    assert report.stages == count and broken(report) == limit
    if limit:
        assert "table t12" in report.problems[0].message


def test_the_limit_of_stages_and_the_delays_are_options(fit):
    locals_, apply = match_chain(3)
    assert broken(fit({"stages": 2}, locals=locals_, apply=apply)) == ["stages"]
    assert fit({"match_delay": 2}, locals=locals_, apply=apply).stages == 6


TABLES = """
    action set_a(bit<32> v) { hdr.h.a = v; }
    action set_b(bit<32> v) { hdr.h.b = v; }
    action add_a(bit<32> v) { hdr.h.b = hdr.h.a + v; }
    table t { key = { hdr.h.c: exact; } actions = { set_a; NoAction; } }
    table u { key = { hdr.h.c: exact; } actions = { ACTION; NoAction; } }
"""


@pytest.mark.parametrize(
    ("action", "apply", "control_delay", "stages"),
    [
        ("set_b", "t.apply(); u.apply();", 0, 1),  # independent
        ("add_a", "t.apply(); u.apply();", 0, 2),  # the action of u uses what t's has set
        ("set_a", "t.apply(); u.apply();", 0, 2),  # both set one field
        ("add_a", "u.apply(); t.apply();", 0, 1),  # u uses what t sets later
        ("set_b", "if (t.apply().hit) { u.apply(); }", 0, 1),  # u is in the same stage, predicated
        ("set_b", "if (t.apply().hit) { u.apply(); }", 1, 2),
        ("set_b", "switch (t.apply().action_run) { set_a: { u.apply(); } }", 0, 1),
        ("set_b", "switch (t.apply().action_run) { set_a: { u.apply(); } }", 1, 2),
    ],
)
def test_actions_and_control_depend_on_tables(fit, action, apply, control_delay, stages):
    locals_ = TABLES.replace("ACTION", action)
    report = fit({"control_delay": control_delay}, locals=locals_, apply=apply)
    assert report.stages == stages


@pytest.mark.parametrize(
    ("apply", "stages"),
    [
        ("hdr.h.a = hdr.h.b;", 0),  # a copy
        ("hdr.h.a = hdr.h.b + hdr.h.c;", 1),
        ("hdr.h.a = (hdr.h.b + hdr.h.c) ^ hdr.h.c;", 2),
        ("hdr.h.a = hdr.h.b + 1; hdr.h.c = hdr.h.a - hdr.h.c;", 2),
        ("hdr.h.a = hdr.h.b + 1; hdr.h.c = hdr.h.a + 1;", 1),  # b + 2
        ("bit<32> x = hdr.h.b + 1; bit<32> y = x; hdr.h.a = y ^ 1;", 2),
        ("hdr.h.a = hdr.h.a | hdr.h.b | hdr.h.c | 1;", 2),
        ("if (hdr.h.a == hdr.h.b) { hdr.h.c = 1; }", 1),  # a gateway compares
        ("if (hdr.h.a < hdr.h.b) { hdr.h.c = 1; }", 2),  # an ALU subtracts
        ("if (hdr.h.a < 7) { hdr.h.c = 1; }", 1),
        ("if (hdr.h.a + 1 == hdr.h.b) { hdr.h.c = 1; }", 2),
        ("if (hdr.h.a == 1) { hdr.h.c = hdr.h.b + 1; } else { hdr.h.c = hdr.h.b - 1; }", 1),
        # r in stage 1, q at the index that r gives in 2, the field in 3.
        ("bit<32> x; r.read(x, 1); q.write(x, 1);", 2),
        ("bit<32> x; bit<32> y; r.read(x, 1); q.read(y, x); hdr.h.a = y + 1;", 3),
        # The new value is what the ALU gives.
        ("bit<32> x; r.read(x, 1); x = x + hdr.h.a; r.write(1, x); hdr.h.a = x;", 1),
        ("bit<32> x; r.read(x, 1); r.write(1, x + hdr.h.a); hdr.h.a = x ^ 1;", 2),
    ],
)
def test_what_takes_a_stage(fit, apply, stages):
    assert fit(locals=TWO, apply=apply).stages == stages


def test_the_longest_chain_is_told_with_places(fit, tmp_path):
    report = fit(locals=TWO, apply="\nbit<32> x;\nr.read(x, hdr.h.a + 1);\nq.write(x, 1);\n")
    assert chain(report) == [(1, "operation +"), (2, "register r"), (3, "register q")]
    lines = (tmp_path / "program.p4").read_text().splitlines()
    assert lines[report.ingress[0].spot.line - 1] == "r.read(x, hdr.h.a + 1);"


# ---- loops ----


@pytest.mark.parametrize(
    ("apply", "said"),
    [
        (
            "for (bit<8> i in 0 .. (bit<8>) hdr.h.a) { hdr.h.b = 1; }",
            "number of rounds is not known",
        ),
        (
            "for (bit<8> i in 0 .. 3) { if (hdr.h.a == 1) { break; } }",
            "break or continue in a loop",
        ),
    ],
)
def test_loops_that_cannot_be_followed_to_their_end_do_not_fit(fit, apply, said):
    report = fit(apply=apply)
    assert broken(report) == ["loop"] and said in report.problems[0].message


def test_a_loop_that_every_packet_leaves_in_its_first_round(fit):
    apply = "for (bit<8> i = 0; i < 3; i = i + 1) { r.write(1, 1); return; }"
    assert accesses(fit(locals=REGISTER, apply=apply)) == ["write"]


# ---- the command ----


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.p4"
    path.write_text(source(locals=REGISTER, apply=f"r.write(1, 1);\n{SECOND}"))
    return str(path)


SECOND = " r.write(N, 2);"


def line_of(program, text):
    with open(program) as file:
        return next(i for i, line in enumerate(file, 1) if line.startswith(text))


def test_the_exit_code_says_whether_it_fits(program, capsys):
    assert main(["fit", program, "-D", "N=2"]) == 1
    said = capsys.readouterr().out
    assert "program.p4: does not fit: 1 problem (accesses)" in said
    where = f"program.p4:{line_of(program, SECOND)}:4"
    assert f"{where}: accesses: register r: a packet makes 2 accesses" in said
    assert main(["fit", program, "-D", "N=2", "--accesses", "2"]) == 0
    assert "program.p4: fits" in capsys.readouterr().out


def test_all_is_there_as_json(program, capsys):
    assert main(["fit", program, "-D", "N=2", "--json", "--stages", "9"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["fits"] is False and found["limits"]["stages"] == 9
    assert found["most_accesses"] == 2 and found["circular"] == 0
    assert [p["limit"] for p in found["problems"]] == ["accesses"]
    assert found["arrays"][0]["accesses"][1]["spots"][0]["line"] == line_of(program, SECOND)


def test_every_limit_is_an_option(program, capsys):
    options = [f"--{name.replace('_', '-')}={value}" for name, value, _ in describe()]
    assert main(["fit", program, "-D", "N=2", *options]) == 1
    assert "accesses" in capsys.readouterr().out


def test_bad_input_is_an_error_with_its_reason(program, tmp_path, capsys):
    assert main(["fit", program]) == 2  # N is not known
    assert "'N'" in capsys.readouterr().err
    assert main(["fit", str(tmp_path / "none.p4")]) == 2
    assert "none.p4" in capsys.readouterr().err
    for wrong in (["--stages", "many"], ["--stages", "-1"]):
        with pytest.raises(SystemExit) as ended:
            main(["fit", program, *wrong])
        assert ended.value.code == 2 and wrong[0] in capsys.readouterr().err


def test_a_program_for_another_architecture_is_an_error(tmp_path):
    path = tmp_path / "other.p4"
    path.write_text("control C(); package P(C c); control D() { apply { } } P(D()) main;")
    with pytest.raises(P4Error, match="the architecture of package P is not supported"):
        analyse(path)


def test_the_page_names_every_option_with_its_default():
    page = (ENGINE / "docs" / "fit.md").read_text()
    rows = re.findall(r"(?m)^\| `--([a-z-]+)` \| ([\d ]+) \|", page)
    listed = {name.replace("-", "_"): int(value.replace(" ", "")) for name, value in rows}
    assert listed == {name: value for name, value, _ in describe()}


@pytest.mark.parametrize("path", sorted(DATA.glob("*.p4")), ids=lambda path: path.name)
def test_larger_programs_are_followed(path):
    report = analyse(path)
    assert report.to_json()["program"] == path.name and text_of(report)


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_the_constructs_of_the_language_are_followed(every, tmp_path):
    path = tmp_path / "program.p4"
    for case in cases()[::every]:
        path.write_text(source(**case.parts))
        assert text_of(analyse(path)), case.name
