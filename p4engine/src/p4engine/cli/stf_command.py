"""The `stf` command: one test, or all tests of a folder, and what it prints.

A failed test shows the first packet that differs, field by field, because a student compares
fields and not digits. Where the fields are is learnt from the program itself: a traced build of
it (see trace.py) runs the test again and tells which headers it put into the packet that left.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from p4engine.backend.build import compile_program
from p4engine.frontend.diagnostics import P4Error
from p4engine.stf.isolate import TaskFailed, run_all
from p4engine.stf.stf_run import Difference, Result, compile_for, run_test

Spans = list[tuple[str, str, int, int]]  # (header, field, first bit, bits)
STYLES = {"pass": "green", "fail": "bold red", "error": "yellow"}
WORDS = {"pass": "pass", "fail": "FAIL", "error": "cannot run"}
BYTES_PER_ROW = 8
LIMIT_S = 120
PLAIN_WIDTH = 200  # columns where there is no terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of `stf`; -D and -I are the caller's."""
    parser.add_argument("program", help="a P4-16 program, or a folder with tests")
    parser.add_argument(
        "test", nargs="?", help="the test; default: the program's name with the ending .stf"
    )
    parser.add_argument("--seed", type=int, default=0, help="of random() (default 0)")
    parser.add_argument(
        "--limit", type=float, default=LIMIT_S, help=f"seconds for a test (default {LIMIT_S})"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="only failures and the summary")


def find_tests(folder: Path) -> list[tuple[Path, Path]]:
    """(program, test) of all *.stf files below the folder; the program has the test's name."""
    return [(test.with_suffix(".p4"), test) for test in sorted(folder.rglob("*.stf"))]


def run_one(program: Path, test: Path, arguments: argparse.Namespace) -> tuple[Result, Spans]:
    """Compile and run; returns the result and (header, field, first bit, bits) of the packet
    that differs."""
    defines, includes = dict(arguments.define), arguments.include
    try:
        compiled = compile_for(program, defines, includes)
    except P4Error as error:
        return Result(test, "error", str(error)), []
    result = run_test(compiled, test, arguments.seed)
    spans: Spans = []
    if result.difference is not None:
        from p4engine.stf.stf_fields import packet_fields

        data = result.difference.sent
        try:
            traced = compile_program(program, defines, includes, trace=True)
            spans = packet_fields(traced, test, data, arguments.seed)
        except Exception:  # whatever goes wrong here, the verdict stands; the digits must do
            if os.environ.get("P4ENGINE_DEBUG"):
                raise
    return result, spans


def run_tests(
    tests: Sequence[tuple[Path, Path]], arguments: argparse.Namespace
) -> Iterator[tuple[Result, Spans, float]]:
    """run_one of each (program, test), every one in a process of its own; with its seconds."""
    tasks = [(program, test, arguments) for program, test in tests]
    outcomes = run_all(run_one, tasks, arguments.limit)
    for (_, test), (outcome, seconds) in zip(tests, outcomes, strict=True):
        if isinstance(outcome, TaskFailed):
            outcome = Result(test, "error", f"the test {outcome}"), []
        yield *outcome, seconds


def show(console: Console, result: Result, spans: Spans, seconds: float | None = None) -> None:
    """Print one result."""
    line = Text(WORDS[result.status], STYLES[result.status])
    line.append(f"  {result.test}", "default")
    if result.status == "pass":
        line.append(f"  {result.packets} packets in, {result.expected} expected", "dim")
    if seconds is not None:
        line.append(f"  {seconds:.1f} s", "dim")
    console.print(line, soft_wrap=True)
    if result.status != "pass":
        for text in result.warnings:
            console.print(Text(f"  warning: {text}", "yellow"), soft_wrap=True)
        for text in result.message.splitlines():
            console.print(Text(f"  {text}"), soft_wrap=True)
    if result.difference is not None:
        show_difference(console, result.difference, spans, result.test)


def show_difference(console: Console, d: Difference, spans: Spans, test: Path) -> None:
    """The packet, field by field; what differs is marked."""
    console.print(Text(f"  port {d.port}, packet {d.index}: {d.reason}"), soft_wrap=True)
    if d.line:
        console.print(Text(f"  expected in {test}:{d.line}", "dim"), soft_wrap=True)
    expected = (d.expected or "").rstrip("$")
    if d.sent is None:
        console.print(Text(f"  expected  {expected or 'any packet'}"), soft_wrap=True)
        console.print(Text("  sent      nothing"))
        return
    sent = d.sent.hex().upper()
    if d.line is None:
        console.print(Text("  expected  nothing"))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("", "byte", "field", "expected", "sent"):
        table.add_column(name, overflow="fold")
    for name, first, bits in _rows(spans, max(len(sent), len(expected)) * 4):
        want, have = _part(expected, first, bits), _part(sent, first, bits)
        differs = d.line is not None and _differs(want, have, d.expected or "")
        table.add_row(
            Text("*" if differs else " ", "bold red"),
            str(first // 8),
            name,
            Text(want if d.line is not None else "", "red" if differs else "default"),
            Text(have, "red" if differs else "default"),
        )
    console.print(table)


def _rows(spans: Spans, total: int) -> list[tuple[str, int, int]]:
    """(name, first bit, bits) that cover the packet: fields, then rows of plain bytes."""
    rows = []
    at = 0
    for header, field, first, bits in spans:
        if first != at or first >= total:
            break
        rows.append((f"{header}.{field}", first, bits))
        at = first + bits
    label = "payload" if rows else "bytes"
    while at < total:
        bits = min(BYTES_PER_ROW * 8, total - at)
        rows.append((label, at, bits))
        at += bits
    return rows


def _part(digits: str, first: int, bits: int) -> str:
    """The bits of a string of hexadecimal digits, as digits where they begin and end on them,
    else as a number; with wildcards `*`."""
    if first % 4 == 0 and bits % 4 == 0:
        return digits[first // 4 : (first + bits) // 4]
    made = ""
    for i in range(first, first + bits):
        digit = digits[i // 4 : i // 4 + 1]
        if not digit:
            break
        made += "*" if digit == "*" else str(int(digit, 16) >> (3 - i % 4) & 1)
    return f"0b{made}" if made else ""


def _differs(want: str, have: str, expected: str) -> bool:
    if len(want) > len(have):
        return True
    if len(have) > len(want):
        return expected.endswith("$") or any(
            a not in ("*", b) for a, b in zip(want, have, strict=False)
        )
    return any(a not in ("*", b) for a, b in zip(want, have, strict=True))


def main(arguments: argparse.Namespace) -> int:
    """Carry out the command; returns the exit code (0 pass, 1 fail, 2 cannot run)."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=PLAIN_WIDTH)
    errors = Console(highlight=False, stderr=True)
    program = Path(arguments.program)
    if not program.is_dir():
        test = Path(arguments.test) if arguments.test else program.with_suffix(".stf")
        ((result, spans, _),) = run_tests([(program, test)], arguments)
        if result.status == "pass":
            for text in result.warnings:
                errors.print(Text(f"warning: {test}: {text}", "yellow"), soft_wrap=True)
        for text in result.printed:
            console.print(Text(text, "dim"), soft_wrap=True)
        target = errors if result.status == "error" else console
        show(target, result, spans)
        return result.code
    tests = find_tests(program)
    if not tests:
        errors.print(Text(f"there is no *.stf file in {program}"))
        return 2
    counts = {"pass": 0, "fail": 0, "error": 0}
    begin = time.monotonic()
    for result, spans, seconds in run_tests(tests, arguments):
        counts[result.status] += 1
        if result.status != "pass" or not arguments.quiet:
            show(console, result, spans, seconds)
    summary = ", ".join(f"{n} {WORDS[status]}" for status, n in counts.items() if n)
    console.print(Text(f"{len(tests)} tests: {summary} ({time.monotonic() - begin:.0f} s)", "bold"))
    sys.stdout.flush()
    return 1 if counts["fail"] else 2 if counts["error"] else 0
