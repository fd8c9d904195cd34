"""Changes that wrong solutions of labs have, beside those of p4_changes.py and python_changes.py: a
check that is missing, a field that is not as it should be in one of the packets that leave, and
numbers that have too few bits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from labs.tests.support import ROOT
from tests.support.mutants.change import Change, numbered, worded

CHECK, FIELD, BITS = "missing check", "wrong field", "too few bits"
LEAVES = re.compile(r"standard\w*\.(?:egress_spec|mcast_grp) = [^;]+;")
PAIR = re.compile(r"((?:hdr|meta)\.[\w.]*number) ([<>=!]=|[<>]) ((?:hdr|meta)\.[\w.]*number)")
WRITE = re.compile(r"(\w+(?:##n)?)\.write\(([^,;]+), ([^;]+)\);")
REGISTER = re.compile(r"register<bit<32>>\([^)]*\)\s+(\w+(?:##n)?);")
JOIN = re.compile(r"&&|\|\|")
OUTER = ("ethernet.source", "ip.dscp", "ip.ttl", "ip.identification", "ip.source", "udp.source")
FIELDS = {  # by a header that a program has
    "hdr.agg": (*OUTER, *(f"agg.{n}" for n in ("kind", "flags", "priority", "number", "slot"))),
    "hdr.sum": ("ethernet.source", "sum.kind", "sum.worker", "sum.round", "sum.v0"),
}
MORE = ("agg.worker", "agg.bitmap")


def changes(file: str) -> list[Change]:
    """All changes of `file`, the program or module of a solution."""
    text = (ROOT / file).read_text()
    found = {".p4": _of_p4, ".py": _of_python}.get(Path(file).suffix, lambda *_: iter(()))
    different = {(each.start, each.end, each.new): each for each in found(file, text)}
    return numbered(iter(different.values()))


def _of_p4(file: str, text: str) -> Iterator[Change]:
    plain = re.sub(r"/\*.*?\*/", lambda m: " " * len(m[0]), text, flags=re.DOTALL)
    for name, fields in FIELDS.items():
        if name in plain:
            for leaves in LEAVES.finditer(plain):
                for field in (*fields, *(MORE if "agg" in name else ())):
                    new = f" hdr.{field} = hdr.{field} + 1;"
                    yield _change(file, text, FIELD, leaves.end(), leaves.end(), new)
    for pair in PAIR.finditer(plain):
        left, operator, right = pair.groups()
        forms = ["({} & 0xffff)", "({} & 0x7fffffff)"]
        forms += ["((int<32>) {})"] if operator not in ("==", "!=") else []
        for form in forms:
            new = f"{form.format(left)} {operator} {form.format(right)}"
            yield _change(file, text, BITS, *pair.span(), new)
    wide = set(REGISTER.findall(plain))
    for write in WRITE.finditer(plain):
        if write[1] in wide and not write[3].isdigit():
            new = f"{write[1]}.write({write[2]}, ({write[3]}) & 0x7fffffff);"
            yield _change(file, text, BITS, *write.span(), new)
    for join in JOIN.finditer(plain):
        new = "true" if join[0] == "&&" else "false"
        for start, end in (_before(plain, join.start()), _behind(plain, join.end())):
            yield _change(file, text, CHECK, start, end, new)


def _behind(text: str, at: int) -> tuple[int, int]:
    """The operand behind an operator."""
    depth, end = 0, at
    while depth or text[end] != ")" and text[end : end + 2] not in ("&&", "||"):
        depth += (text[end] == "(") - (text[end] == ")")
        end += 1
    kept = text[at:end]
    return at + len(kept) - len(kept.lstrip()), at + len(kept.rstrip())


def _before(text: str, at: int) -> tuple[int, int]:
    """The operand before an operator."""
    depth, begin = 0, at
    while depth or text[begin - 1] != "(" and text[begin - 2 : begin] not in ("&&", "||"):
        depth += (text[begin - 1] == ")") - (text[begin - 1] == "(")
        begin -= 1
    kept = text[begin:at]
    return begin + len(kept) - len(kept.lstrip()), begin + len(kept.rstrip())


def _of_python(file: str, text: str) -> Iterator[Change]:
    starts = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.BoolOp):
            for part in node.values:
                start = starts[part.lineno - 1] + part.col_offset
                end = starts[(part.end_lineno or 0) - 1] + (part.end_col_offset or 0)
                yield _change(file, text, CHECK, start, end, str(isinstance(node.op, ast.And)))


def _change(file: str, text: str, kind: str, start: int, end: int, new: str) -> Change:
    line = text.count("\n", 0, start) + 1
    new += "\n" * text.count("\n", start, end)
    return Change(file, kind, start, end, new, 0, 0, line, worded(text, start, end, new))
