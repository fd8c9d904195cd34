"""Loops must do what the statements did: both are run, as Python, on the same arrays."""

from __future__ import annotations

import re

import pytest
from p4engine.backend.reroll import reroll
from p4engine_testing.programs import c_text


def unroll(statements):
    """Expand generated loops again, textually."""
    out = []
    for s in statements:
        m = re.fullmatch(r"for \(int (i\d) = 0; \1 < (\d+); \1\+\+\) \{\n(.*)\n\}", s, re.DOTALL)
        if not m:
            out.append(s)
            continue
        name, count, body = m.groups()
        for i in range(int(count)):
            for line in body.split("\n"):
                text = re.sub(rf"\((\d+) \+ (-?\d+) \* {name}\)",
                              lambda k, i=i: str(int(k[1]) + int(k[2]) * i), line)  # fmt: skip
                out.append(re.sub(rf"\b{name}\b", str(i), text))
    return out


def test_runs_become_loops_that_do_the_same():
    statements = ["x = 1;"]
    for i in range(16):
        statements += [f"t = a[{i}] + b[{3 * i + 7}];", f"a[{i}] = t;", f"c[{40 - i}] = 5;"]
    statements += ["y = 2;", "a[0] = 1;", "a[1] = 1;", "a[3] = 1;"]
    rolled = reroll(statements, 0)
    assert len(rolled) < 8
    assert unroll(rolled) == statements


def test_irregular_steps_are_left_alone():
    statements = [f"a[{i * i}] = 0;" for i in range(10)]
    assert reroll(statements, 0) == statements


def test_a_common_bounds_check_is_taken_out():
    statements = [f"if (P4_IN(P->m.i, 8)) R0[P->m.i].a0[{k}] = P->h.a0[{k}];" for k in range(8)]
    [loop] = reroll(statements, 0)
    assert loop.startswith("if (P4_IN(P->m.i, 8)) { for")
    assert loop.count("P4_IN") == 1


def test_the_check_stays_if_the_loop_changes_the_index():
    statements = []
    for k in range(8):
        statements += [f"if (P4_IN(P->m.i, 8)) R0[P->m.i].a0[{k}] = 1;", "P->m.i = P->m.i + 1;"]
    [loop] = reroll(statements, 0)
    assert loop.startswith("for")
    whole = [s.replace("P->m.i = P->m.i + 1;", "P->m = q;") for s in statements]
    assert reroll(whole, 0)[0].startswith("for")


@pytest.mark.parametrize(
    ("early", "loops"),
    [("", 1), ("if (x == 7) { return 1; }", 0)],
)
def test_calls_of_a_function_in_a_row_become_a_loop_if_it_returns_at_its_end(
    tmp_path, early, loops
):
    first = "bit<32> a = x << 3; bit<32> b = a ^ x; bit<32> c = b | a; bit<32> d = c + x;"
    fields = "".join(f"bit<32> v{i};" for i in range(8))
    calls = "".join(f"hdr.h.v{i} = f(hdr.h.v{i});" for i in range(8))
    made = c_text(
        tmp_path,
        top=f"bit<32> f(in bit<32> x) {{ {first} {early} return a ^ d; }}",
        headers=f"header h_t {{ {fields} }} struct headers_t {{ h_t h; }}",
        locals=f"action call() {{ {calls} }}",
        apply="call();",
    )
    ingress = made[made.index("run_ingress") : made.index("static void ingress")]
    assert ingress.count("for (int") == loops
