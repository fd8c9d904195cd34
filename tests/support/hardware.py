"""The tables of docs/hardware.md, made by `p4engine fit`'s analysis of the programs in p4/.

python -m tests.support.hardware        # writes them into the page again
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import PurePath

from p4engine.fit.analysis import analyse
from p4engine.fit.report import Report

from testbed.paths import P4
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "hardware.md"
AGGREGATORS, BITMAP_WIDTH = 1024, 32
TOLD = ("circle", "stages")  # limits that one place of a program breaks


@dataclass(frozen=True)
class Row:
    """A program with its compile-time parameters beside the sizes."""

    program: str
    values: int = 64
    parameter: str = ""
    said: str = ""

    @property
    def title(self) -> str:
        parts = [f"`{self.program}`", *filter(None, [self.said])]
        return ", ".join([*parts, f"{self.values} values"])


ROWS = (
    Row("esa.p4"),
    Row("esa_two_passes.p4"),
    Row("atp.p4"),
    Row("switchml.p4", parameter="SETS=2", said="two sets"),
    Row("switchml.p4", parameter="SETS=1", said="one set"),
    Row("grid.p4", parameter="MEMORY=0", said="first come"),
    Row("grid.p4", parameter="MEMORY=1", said="preemptive"),
    Row("forward.p4"),
    Row("esa.p4", values=4),
    Row("esa_two_passes.p4", values=4),
)


@cache
def report(row: Row) -> Report:
    """Report of the analysis about a row."""
    name, _, value = row.parameter.partition("=")
    defines: dict[str, str | int] = {
        "VALUES": row.values,
        "BITMAP_WIDTH": BITMAP_WIDTH,
        "AGGREGATORS": AGGREGATORS,
    }
    return analyse(P4 / row.program, defines | ({name: value} if name else {}), [P4])


def tables() -> dict[str, str]:
    """The tables of the page by the name of their place in it."""
    return {"figures": figures(), "places": places()}


def figures() -> str:
    """A row of figures for each program."""
    limits = report(ROWS[0]).limits
    lines = [
        "| program | accesses to one array | arrays that need each other | stages | fits |",
        "|---|---|---|---|---|",
        f"| *the pipeline has* | {limits.accesses} | 0 | {limits.stages} | |",
    ]
    for row in ROWS:
        found = report(row)
        cells = [
            (found.most_accesses, limits.accesses),
            (found.circular, 0),
            (found.stages, limits.stages),
        ]
        text = " | ".join(f"**{n}**" if n > limit else str(n) for n, limit in cells)
        lines.append(f"| {row.title} | {text} | {'yes' if found.fits else 'no'} |")
    return "\n".join(lines)


def places() -> str:
    """Table of the places of programs that alone break a limit."""
    lines = ["| program | limit | place | what |", "|---|---|---|---|"]
    for row in ROWS:
        for problem in report(row).problems:
            if problem.limit in TOLD and row.values == 64:
                spot, said = problem.spot, problem.message.replace("|", "\\|")
                place = f"`{PurePath(spot.file).name}:{spot.line}:{spot.column}`"
                lines.append(f"| {row.title} | {problem.limit} | {place} | {said} |")
    return "\n".join(lines)


def with_tables(page: str) -> str:
    """The page with its tables as they are now."""
    for name, text in tables().items():
        begin, end = f"<!-- table {name} -->\n", f"<!-- end of table {name} -->"
        head, found, rest = page.partition(begin)
        _, ended, tail = rest.partition(end)
        assert found and ended, name
        page = f"{head}{begin}\n{text}\n\n{end}{tail}"
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
