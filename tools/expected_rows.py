"""Rows of a file of expected values: writing what was measured, and the command that measures
some of them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import yaml

from testbed.artifacts.expected import error_of, holds, shown

Measured = float | Sequence[float]  # several: all of them must be expected


def with_measured(text: str, name: str, *values: float) -> str:
    """The file's text with the measured value of a row, or several in a list."""
    listed = ", ".join(f"{value:.4g}" for value in values)
    listed = f"[{listed}]" if len(values) > 1 else listed
    pattern = rf"(\{{name: {name}, .*measured: )[^}}]*\}}"
    changed, count = re.subn(pattern, rf"\g<1>{listed}}}", text)
    assert count == 1, name
    return changed


def command(
    file: Path,
    measure: Mapping[str, Callable[[], Measured]],
    text: str | None,
    words: Sequence[str] | None = None,
) -> int:
    """Measure rows of `file`, print each beside what is expected, and write it with `--write`; the
    exit code is 1 if one fails. measure: by the row's name. text: for the help. words: of the
    command line."""
    parser = argparse.ArgumentParser(description=(text or "").partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help="names (default: all)")
    parser.add_argument("--write", action="store_true", help="put measured values into the file")
    options = parser.parse_args(words)
    if unknown := [name for name in options.rows if name not in measure]:
        parser.error(f"no row {unknown[0]}; rows: {', '.join(measure)}")
    rows = {row["name"]: row for row in yaml.safe_load(file.read_text())["rows"]}
    failed = 0
    print(f"{'row':24} {'expected':>16} {'measured':>16}")
    for name in options.rows or measure:
        row, found = rows[name], measure[name]()
        values = [*found] if isinstance(found, Sequence) else [found]
        wrong = [value for value in values if not holds(row, value)]
        failed += bool(wrong)
        listed = " ".join(f"{value:.4g}" for value in values)
        said = f"FAILS {error_of(row, wrong[0])}" if wrong else ""
        print(f"{name:24} {shown(row):>16} {listed:>16} {said}".rstrip(), flush=True)
        if options.write:
            file.write_text(with_measured(file.read_text(), name, *values))
    return int(failed > 0)
