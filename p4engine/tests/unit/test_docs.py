"""The README says what is so: its example runs, and its tour leads to every file."""

from __future__ import annotations

import contextlib
import fnmatch
import io
import re

import pytest
from p4engine_testing import ENGINE

SOURCES = ENGINE / "src" / "p4engine"
README = (ENGINE / "README.md").read_text()


def tour() -> dict[str, set[str]]:
    """The names in backticks of each section of the tour, by its folder; "" is the text before."""
    text = re.search(r"(?ms)^## The tour\n(.*?)^## ", README)[1]
    first, *sections = re.split(r"(?m)^### ", text)
    found = {"": set(re.findall(r"`([^`\n]+)`", first))}
    for section in sections:
        folder = re.match(r"`(\w+)/`: ", section)[1]
        found[folder] = set(re.findall(r"`([^`\n]+)`", section))
    return found


def test_the_example_prints_what_it_says(monkeypatch):
    code, said = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", README, re.DOTALL).groups()
    monkeypatch.chdir(ENGINE)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue() == said
    assert len([line for line in code.splitlines() if line]) <= 12


@pytest.mark.parametrize("folder", sorted(tour()))
def test_a_section_names_its_folder_s_files_and_no_others(folder):
    """By name or by pattern; a folder in it (`parser/`) by its name, and its files too."""
    named = {name.rsplit("/", 1)[-1] or name for name in tour()[folder]}
    paths = [p for p in (SOURCES / folder).glob("**/*" if folder else "*") if p.is_file()]
    files = {p.name for p in paths if p.name != "__init__.py" and "__pycache__" not in p.parts}
    if folder == "p4runtime":
        files = {name for name in files if "_pb2" not in name}
    missed = [f for f in files if not any(fnmatch.fnmatchcase(f, n) for n in named)]
    assert sorted(missed) == []
    everything = {p.name for p in SOURCES.rglob("*")}
    gone = [
        n for n in named if re.search(r"\.(py|c|h|p4)$", n) and not fnmatch.filter(everything, n)
    ]
    assert sorted(gone) == []


def test_the_tour_visits_every_folder_in_the_order_of_the_passes():
    visited = [folder for folder in tour() if folder]
    there = {p.name for p in SOURCES.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert set(visited) == there
    assert visited[:5] == ["frontend", "middle", "backend", "runtime", "architectures"]
    assert visited[-1] == "cli"


def test_where_to_change_something_exists():
    table = re.search(r"(?ms)^## Where to change what\n(.*?)^## ", README)[1]
    names = set(re.findall(r"`(\w+(?:\.\w+|/))`", table))
    assert len(names) > 20
    there = {p.name + "/" * p.is_dir() for p in SOURCES.rglob("*")}
    assert sorted(names - there) == []


def test_every_file_that_the_readme_names_exists():
    there = [p.name for p in ENGINE.rglob("*")]
    named = set(re.findall(r"`(?:[\w./]+/)?([\w*]+\.(?:py|c|h|p4|txt))`", README))
    assert sorted(name for name in named if not fnmatch.filter(there, name)) == []


def test_every_page_is_in_the_table_of_pages():
    assert {p.name for p in (ENGINE / "docs").glob("*.md")} == set(
        re.findall(r"(?m)^\| \[docs/(\w+\.md)\]", README)
    )
