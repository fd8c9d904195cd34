"""The parts of pages that are made of something else, made anew:  .venv/bin/python tools/pages.py

- What the tour's commands print: they run in order in an empty folder, and each block of output
  takes the lines that are printed now. A block shows parts of an output, with `...` for the rest; a
  part begins with a line of the same words as before, and ends with one. What differs from run to
  run stays as it is (`KEPT`). A block below a command with `sudo`, or about a live run, is of
  Mininet, whose clock is real: it stays. What would write into the home folder does not run.
- README's table of systems: claim and result are the bold words of docs/figures.md's table.
- docs/README.md, the index of all pages: the tree in mkdocs.yml.
- docs/artifacts.md's table of figures: experiments/expected/figures.yaml, and the figures' claims.

It needs no root and takes a minute. tests/switch/docs/test_made_pages.py makes the same and
compares.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from testbed.artifacts import expected
from testbed.paths import import_path
from testbed.sweeps import figures

ROOT = Path(__file__).resolve().parents[1]
TOUR, FIGURES = ROOT / "docs" / "tour.md", ROOT / "docs" / "figures.md"
PRINTED = 150  # characters of a line in a file (testbed/analysis/report.py)
WIDTH = 116  # characters of a line of output, which has four spaces before it in a page
INA = f"#!{sys.executable}\nimport sys\nfrom testbed.cli.main import entry\n"
INA += 'sys.argv[0] = "ina"\nsys.exit(entry())\n'
# Names of runs, hashes (of files with dates, too), sizes of packed files.
KEPT = re.compile(r"\d{8}T\d{6}Z-\w{4}|\b(?=\w*\d)(?:[0-9a-f]{64}|[0-9a-f]{12})\b|\d+ bytes")
_NUMBER = re.compile(r"[-+]?\d[\d .]*( ?(ns|us|ms|s|[kMG]?B)\b)?")
_COMMAND = re.compile(r" {4}(sudo|ina|sed|pip|mkdir|cp|\.) ")
_FILE = re.compile(r"as `(\S+)`:$")
_PROGRESS = re.compile(r"\(\d+ s\)$")
Run = Callable[[list[str]], str]


class Reader:
    """Somebody who follows the tour in a folder: `run` gives what a command prints."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tour"
        for name in ("experiments", "examples"):
            shutil.copytree(ROOT / name, self.folder / name)
        (folder / "ina").write_text(INA)
        (folder / "ina").chmod(0o755)
        self.environment = os.environ | {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "PYTHONPATH": import_path(environment={}),
        }

    def run(self, words: list[str]) -> str:
        """Raises RuntimeError with the command's errors where it ends with another code than 0."""
        done = subprocess.run(
            words, cwd=self.folder, env=self.environment, text=True, capture_output=True
        )
        if done.returncode:
            raise RuntimeError(f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout


def tour(text: str, reader: Reader) -> str:
    """The page with what its commands print now, as far as `text` goes."""
    made: list[str] = []
    printed: list[str] | None = None  # None: on Mininet
    shown = True
    lines = text.splitlines()
    while lines:
        line = lines[0]
        if fence := re.match(r"```(\w+)", line):
            end = lines.index("```")
            body = "\n".join([*lines[1:end], ""])
            named = _FILE.search("\n".join(made).rstrip())
            if named:
                (reader.folder / named[1]).write_text(body)
            elif fence[1] == "python":
                printed, shown = reader.run([sys.executable, "-c", body]).splitlines(), False
            made += lines[: end + 1]
            del lines[: end + 1]
        elif _COMMAND.match(line):
            command = re.sub(r"\s+# .*", "", line.strip())
            printed, shown = [] if shown else printed, False
            if not re.match("ina |sed ", command) or re.search("/live-|~/", command):
                printed = None
            elif printed is not None:
                printed += reader.run(["sh", "-c", command]).splitlines()
            else:
                reader.run(["sh", "-c", command])
            made.append(lines.pop(0))
        elif line.startswith("    "):
            block = []
            while lines and (not lines[0] or lines[0].startswith("    ")):
                if _COMMAND.match(lines[0]):
                    break
                block.append(lines.pop(0).removeprefix("    "))
            blanks = len(block) - len("\n".join(block).rstrip("\n").split("\n"))
            block = block[: len(block) - blanks]
            if printed is not None:
                block = renewed(block, printed)
            shown = True
            made += [f"    {each}".rstrip() for each in block] + [""] * blanks
        else:
            made.append(lines.pop(0))
    return "\n".join([*made, ""])


def words(line: str) -> str:
    """Beginning of a line, without its numbers, their units and its spaces."""
    return " ".join(re.sub("─+", "─", _NUMBER.sub("#", KEPT.sub("@", line))).split())[:60]


def wrapped(printed: list[str]) -> list[str]:
    """Lines with sentences wrapped for a page instead of for a file."""
    made: list[str] = []
    sentence = ""
    for line, after in zip(printed, [*printed[1:], ""], strict=True):
        if "  " in line or line.startswith(" "):
            made.append(line)
            continue
        sentence = f"{sentence} {line}".strip()
        if not after.strip() or len(f"{line} {after.split()[0]}") <= PRINTED:
            made += textwrap.wrap(sentence, WIDTH, break_on_hyphens=False) or [""]
            sentence = ""
    return made


def renewed(block: list[str], printed: list[str]) -> list[str]:
    """A block with the lines that are printed now. Raises ValueError where a part's first line is
    not printed."""
    printed = [each.rstrip() for each in printed if not _PROGRESS.search(each)]
    printed = [
        each for each, before in zip(printed, ["", *printed], strict=False) if each or before
    ]
    printed = wrapped(printed)
    have, place, made, part = [words(each) for each in printed], 0, [], []
    for line in [*block, None]:
        if line is not None and line.strip() != "...":
            part.append(line)
            continue
        while part and not part[0]:
            made.append(part.pop(0))
        blanks = 0
        while part and not part[-1]:
            part.pop()
            blanks += 1
        if part:
            first, last = words(part[0]), words(part[-1])
            starts = [at for at in range(place, len(have)) if have[at] == first]
            if not starts and place:
                raise ValueError(f"the commands no longer print: {part[0]}")
            start = starts[0] if starts else 0
            usual = start + len(part) - 1
            ends = [at for at in range(start, len(have)) if have[at] == last] or [usual]
            place = min(ends, key=lambda at: abs(at - usual)) + 1
            made += as_before("\n".join(printed[start:place]), "\n".join(part)).split("\n")
            made += [""] * blanks
        if line is not None:
            made.append(line)
        part = []
    return made


def as_before(text: str, before: str) -> str:
    """A text with what differs from run to run as `before` has it, in order."""
    kept = iter(KEPT.findall(before))
    return KEPT.sub(lambda found: next(kept, found[0]), text)


def readme(text: str, figures: str) -> str:
    """README with the claims and results that docs/figures.md has in bold, per paper."""
    rows: dict[str, list[list[str]]] = {}
    for row in re.findall(r"^\| (.*) \|$", figures.split("## The papers' claims")[1], re.MULTILINE):
        cells = row.split(" | ")
        if len(cells) == 5:
            rows.setdefault(cells[0], []).append(
                ["; ".join(re.findall(r"\*\*(.+?)\*\*", cells[at])) for at in (1, 3)]
            )

    def row(found: re.Match[str]) -> str:
        cells = ["; ".join(filter(None, each)) for each in zip(*rows[found[2]], strict=True)]
        return f"{found[1]}{' | '.join(cells)} |"

    return re.sub(
        rf"^(\| ({'|'.join(rows)}) \| .*\]\(https.*? \| ).* \|$", row, text, flags=re.MULTILINE
    )


def index() -> str:
    """docs/README.md."""
    sys.path.insert(0, str(ROOT / "tools" / "site"))
    try:
        import hooks
    finally:
        sys.path.pop(0)
    files = {page: os.path.relpath(place, "docs") for place, page in hooks.places().items()}
    lines = ["# All pages", ""]

    def add(nav: list[Any], indent: str) -> None:
        for ((title, target),) in (entry.items() for entry in nav):
            if isinstance(target, list):
                lines.append(f"{indent}- {title}")
                add(target, f"{indent}    ")
            elif target in files:
                lines.append(f"{indent}- [{title}]({files[target]})")

    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    add([*nav, {"Labs": "labs/index.md"}], "")
    return "\n".join([*lines, ""])


def artifacts(text: str) -> str:
    """docs/artifacts.md with a row for each figure that has expected values."""
    there, rows = expected.of_figures()
    claims, made = figures.claims(), []
    for name, each in there.items():
        own = [row for row in rows if row["figure"] == name]
        first = own[0]
        unit = "" if first["unit"] == 1 else f" {first['unit']}"
        number = f"{first['what']}: {expected.shown(first)} ± {first['tolerance']:g}{unit}"
        machine = "root, Mininet, PyTorch" if each.get("root") else "any"
        made.append(
            f"| [{name}](figures.md#{name}) | {claims[name]} | `ina reproduce {name}` |"
            f" {each['minutes']:g} | {each['gib']:g} | {machine} | {len(own)}, first {number} |"
        )
    head = f"| figure | claim | command | minutes | GiB | machine | numbers |\n|{'---|' * 7}\n"
    return re.sub(
        rf"^{re.escape(head)}(\|.*\n)*", lambda _: head + "\n".join([*made, ""]), text, flags=re.M
    )


def main() -> int:
    """Write all of them."""
    page = ROOT / "docs" / "artifacts.md"
    page.write_text(artifacts(page.read_text()))
    page = ROOT / "README.md"
    page.write_text(readme(page.read_text(), FIGURES.read_text()))
    (ROOT / "docs" / "README.md").write_text(index())
    with tempfile.TemporaryDirectory() as folder:
        TOUR.write_text(tour(TOUR.read_text(), Reader(Path(folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
