"""What the P4-16 specification forbids, and what the author of such a program is told.

By the specification's chapters. A part of a program stands in the frame of programs.py.
"""

from __future__ import annotations

import pytest
from p4engine.backend.build import translate
from p4engine.frontend.diagnostics import Diagnostics
from p4engine.frontend.preprocessor.preprocess import preprocess
from p4engine_testing.programs import source

from p4engine import P4Error

BLOCKS = "control CT(inout bit<8> x); control Use(inout bit<8> x)(CT c) { apply { c.apply(x); } }"
TERNARY = "action a() {} table t { key = { hdr.h.a: ternary; } actions = { a; } %s }"
ODD = "header odd_t { bit<7> a; }"
TABLE = "action a() {} action b() {} table t { key = { hdr.h.a: exact; } %s }"

CASES = [
    # ---- lexical constructs ----
    ({"apply": "hdr.h.a = 32w1 $ 2;"}, "unexpected character '$'"),
    ({"apply": "hdr.h.a = 8'd7;"}, 'unexpected character "\'"'),
    ({"apply": 'log_msg("never closed);'}, "this string is never closed"),
    # ---- annotations ----
    ({"top": "@x[a=1, 2] const bit<8> K = 1;"}, "mixes values with and without a key"),
    ({"top": "@x[a=1, a=2] const bit<8> K = 1;"}, "has the key 'a' twice"),
    ({"top": "@x[1] @x[2] const bit<8> K = 1;"}, "the element has @x already"),
    ({"top": "@x(1) @x[2] const bit<8> K = 1;"}, "with (..) and with [..]"),
    ({"locals": '@name("a") @name("b") action a() {}'}, "the element has @name already"),
    ({"locals": "@name action a() {}"}, "@name needs an argument"),
    ({"locals": "@hidden(1) action a() {}"}, "@hidden takes no argument"),
    ({"metadata": "@field_list(X) bit<8> a;"}, "'X' is not declared"),
    ({"metadata": '@field_list("a") bit<8> a;'}, "@field_list needs numbers"),
    ({"metadata": "@field_list(1 2) bit<8> a;"}, "expected ','"),
    (
        {"locals": TABLE % "actions = { @tableonly a; b; } default_action = a;"},
        "default_action: action 'a' is @tableonly",
    ),
    (
        {"locals": TABLE % "actions = { @defaultonly a; b; } entries = { 1: a; }"},
        "entry: action 'a' is @defaultonly",
    ),
    # ---- types ----
    (
        {"metadata": "odd_t odd;", "top": ODD, "deparser": "odd_t x = { 1 }; packet.emit(x);"},
        "odd_t has 7 bits; only headers of whole bytes can be emitted",
    ),
    (
        {"top": ODD, "parser": "state start { packet.extract<odd_t>(_); transition accept; }"},
        "odd_t has 7 bits; only whole bytes can be extracted",
    ),
    ({"top": "struct s { error e; } header x { s e; }"}, "a header cannot have a field of type s"),
    ({"top": "header x { h_t[2] e; } ", "headers": ""}, "'h_t' is not declared"),
    ({"top": "header x { tuple<bit<8>> e; }"}, "a header cannot have a field of type tuple"),
    ({"top": "enum E { A } header x { E e; }"}, "a header cannot have a field of type E"),
    ({"top": "struct s { match_kind m; }"}, "a struct cannot have a field of type match_kind"),
    ({"top": "struct s { list<bit<8>> m; }"}, "a struct cannot have a field of type list"),
    ({"apply": "match_kind m = exact;"}, "a variable cannot have the type match_kind"),
    ({"top": "match_kind { lpm }"}, "match kind 'lpm' is already declared"),
    # ---- values known at compile time ----
    ({"apply": "hdr.h.a = (bit<32>)(int)hdr.h.b;"}, "bit<32> cannot be cast to int"),
    ({"top": "bit<8> f(in int x) { return 1; }"}, "so it cannot have a direction"),
    ({"locals": "action a(int x) { }"}, "'x' needs a width"),
    (
        {"top": "bit<8> f(int x) { return 1; }", "apply": "hdr.h.a[7:0] = f((int)hdr.h.b);"},
        "cannot be cast to int",
    ),
    (
        {"top": "bit<8> f(bit<8> x) { return x; }", "apply": "hdr.h.a[7:0] = f(hdr.h.b[7:0]);"},
        "'x' has no direction, so its value must be known",
    ),
    (
        {
            "top": "control C(inout bit<8> x, bit<8> y) { apply { x = y; } }",
            "locals": "C() c;",
            "apply": "c.apply(hdr.h.a[7:0], hdr.h.b[7:0]);",
        },
        "'y' has no direction, so its value must be known",
    ),
    (
        {"top": "control C(in bit<32> n) { counter(n, CounterType.bytes) c; apply { } }"},
        "known at compile time",
    ),
    (
        {"top": "control C()(in bit<8> n) { apply { } }"},
        "parameter cannot have a direction",
    ),
    ({"top": "bit<8> f(out bit<8> x = 1) { return 1; }"}, "that is 'out' has no default"),
    (
        {"locals": "action a(packet_in p) { }"},
        "an action's parameter cannot be of the type packet_in",
    ),
    ({"top": "control C(in packet_in p) { apply { } }"}, "cannot be of the type packet_in"),
    ({"top": BLOCKS + "control C(CT c) { apply { } }"}, "only constructors have parameters"),
    (
        {"locals": "action a(h_t h) {} table t { key = { hdr.h.a: exact; } actions = { a; } }"},
        "a value of h_t cannot be the data of a table's entries",
    ),
    # ---- statements ----
    ({"apply": "for (i in 8w1..8w6) { }"}, "the variable of the loop needs its type"),
    ({"apply": "bit<8> i; for (i in 8w1..8w6) { }"}, "the variable of the loop needs its type"),
    ({"apply": "for (bit<8> i in 8w1..16w6) { }"}, "different types, bit<8> and bit<16>"),
    ({"apply": "for (bit<8> i in hdr.h.a..hdr.h.b) { }"}, "expected bit<8>, but this is bit<32>"),
    # ---- parsers ----
    (
        {"parser": "state start { transition s; } state s { transition start; }"},
        "parser MyParser never ends",
    ),
    (
        {"parser": "state start { transition select(8w1) { 1: start; default: start; } }"},
        "parser MyParser never ends",
    ),
    (
        {
            "top": "header v_t { varbit<8> v; } struct p_t { v_t v; }",
            "parser": "state start { p_t p = packet.lookahead<p_t>(); transition accept; }",
        },
        "lookahead needs a type of fixed size",
    ),
    (
        {
            "top": "header v_t { bit<8> v; } header_union u_t { v_t v; }",
            "parser": "state start { u_t p = packet.lookahead<u_t>(); transition accept; }",
        },
        "lookahead needs a type of fixed size",
    ),
    # ---- tables ----
    ({"locals": "table t { size = 1; size = 2; }"}, "the table has 'size' already"),
    ({"locals": TABLE % "actions = { a; } actions = { b; }"}, "the table has 'actions' already"),
    ({"locals": TABLE % "default_action = a; actions = { a; }"}, "'actions' must stand before"),
    ({"locals": "table t { entries = { } key = { } }"}, "'key' must stand before 'entries'"),
    ({"locals": TABLE % "actions = { a; } size = true;"}, "the size of a table must be a number"),
    (
        {"locals": TABLE % "actions = { a; } priority_delta = 0;"},
        "priority_delta must be a positive number",
    ),
    (
        {"locals": TABLE % "actions = { a; } largest_priority_wins = 1;"},
        "largest_priority_wins must be true or false",
    ),
    (
        {"locals": "table t { actions = { NoAction; } entries = { 1: NoAction; } }"},
        "table t has entries, but no key",
    ),
    (
        {"locals": TABLE % "actions = { a; } entries = { priority=1: 1: a; }"},
        "entries have a priority only where a key is not exact or lpm",
    ),
    (
        {"locals": TERNARY % "entries = { 1: a; priority=1: 2: a; }"},
        "if any entry has a priority, the first one must have one",
    ),
    (
        {"locals": TERNARY % "const entries = { priority=1: 1: a; }"},
        "const entries have no priorities",
    ),
    ({"locals": TERNARY % "entries = { priority=(-1): 1: a; }"}, "priority -1 is not from 0"),
    ({"locals": TERNARY % "entries = { priority=1: 1: a; 2: a; 3: a; }"}, "priority -1 is not"),
    (
        {
            "locals": "table u { actions = { NoAction; } } action a(in bool x) {}"
            " table t { actions = { a(u.apply().hit); } }"
        },
        "a table cannot be applied in an argument of an action",
    ),
    (
        {
            "locals": "table u { actions = { NoAction; } } action a(in bool x) {}",
            "apply": "a(u.apply().hit);",
        },
        "a table cannot be applied in an argument of an action",
    ),
    # ---- control plane names ----
    (
        {"locals": '@name("x") table t { } @name("x") table u { }'},
        "two tables of the name 'MyIngress.x'",
    ),
    ({"locals": '@name("t") table u { } table t { }'}, "two tables of the name 'MyIngress.t'"),
    (
        {"locals": '@name(".a.b") table t { }', "egress_locals": '@name(".a.b") table t { }'},
        "two tables of the name 'a.b'",
    ),
    (
        {"locals": ('@name("a") action b() {} action a() {} table t { actions = { a; b; } }')},
        "two actions of the name 'MyIngress.a'",
    ),
    (
        {"locals": '@name("r") register<bit<8>>(1) x; @name("r") counter(1, CounterType.bytes) y;'},
        "two objects of the name 'MyIngress.r'",
    ),
    (
        {
            "top": "control C() { table t { } apply { t.apply(); } }",
            "apply": "C.apply(); C.apply();",
        },
        "two tables of the name 'MyIngress.C.t'",
    ),
    # ---- types of parsers and controls ----
    (
        {
            "top": BLOCKS + " control Wide(inout bit<9> w) { apply { } }",
            "locals": "Wide() w; Use(w) u;",
        },
        "parameter 'w' of Wide must be bit<8>, not bit<9>",
    ),
    (
        {
            "top": BLOCKS + " control In(in bit<8> w) { apply { } }",
            "locals": "In() i; Use(i) u;",
        },
        "parameter 'w' of In must be 'inout'",
    ),
    (
        {"top": BLOCKS + " control No() { apply { } }", "locals": "No() n; Use(n) u;"},
        "No has 0 parameters, but CT has 1",
    ),
    ({"top": BLOCKS, "locals": "Use(7) u;"}, "'c' needs a control, not int"),
]


def messages(folder, text, severity="error"):
    """The errors or warnings of a program, which is translated to C and not compiled further."""
    path = folder / "program.p4"
    path.write_text(text)
    diagnostics = Diagnostics()
    try:
        tokens, _ = preprocess(path, {}, (), diagnostics)
        translate(tokens, diagnostics, "program")
    except P4Error as error:
        return [d.message for d in error.diagnostics if d.severity == severity]
    return [d.message for d in diagnostics.warnings if severity == "warning"]


WARNINGS = [
    ({"parser": "state start { transition reject; }"}, "parser MyParser never accepts"),
    ({"parser": "state start { }"}, "parser MyParser never accepts"),
    (
        {"locals": TERNARY % "entries = { priority=2: 1: a; priority=2: 2: a; }"},
        "an earlier entry has the priority 2, too",
    ),
    (
        {"locals": TERNARY % "entries = { priority=2: 1: a; priority=3: 2: a; }"},
        "this entry (priority 3) wins against the one before it",
    ),
    (
        {
            "locals": TERNARY
            % '@noWarn("entries_out_of_priority_order") entries = { priority=2: 1: a;'
            " priority=3: 2: a; }"
        },
        "",
    ),
]


RESERVED = (
    "abstract action bit bool break const continue control default else enum error exit extern"
    " false for header header_union if in inout int match_kind out package parser return select"
    " string struct switch table this transition true tuple typedef value_set varbit void _"
)


@pytest.mark.parametrize(("parts", "message"), WARNINGS)
def test_warned_of(tmp_path, parts, message):
    text = source(**({"apply": "t.apply();"} if "locals" in parts else {}) | parts)
    assert messages(tmp_path, text) == []
    found = messages(tmp_path, text, "warning")
    assert found == [] if not message else [message] == found


@pytest.mark.parametrize("word", RESERVED.split())
def test_reserved_words(tmp_path, word):
    found = messages(tmp_path, source(metadata=f"bit<8> {word};"))
    assert len(found) == 1 and f"'{word}'" in found[0], found


def test_text_that_is_skipped_may_hold_anything(tmp_path):
    text = "\n#if 0\n don't `look\n#endif\n hdr.h.a = 1;"
    assert messages(tmp_path, source(apply=text)) == []


@pytest.mark.parametrize(("parts", "message"), CASES, ids=[c[1][:40] for c in CASES])
def test_refused(tmp_path, parts, message):
    found = messages(tmp_path, source(**parts))
    assert any(message in m for m in found), found
