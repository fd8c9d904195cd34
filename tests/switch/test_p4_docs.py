"""docs/p4engine.md says what is so: its example runs, and its tables name every file."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "p4engine" / "src" / "p4engine"
TEXT = (ROOT / "docs" / "p4engine.md").read_text()
PROSE = re.sub(r"^```.*?^```", "", TEXT, flags=re.DOTALL | re.MULTILINE)


def test_the_example_prints_what_it_says(monkeypatch):
    code, said = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", TEXT, re.DOTALL).groups()
    monkeypatch.chdir(ROOT)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs/p4engine.md", "exec"), {})
    assert printed.getvalue() == said
    assert len([line for line in code.splitlines() if line]) <= 12


def test_every_file_has_its_place_in_the_tables():
    named = set(PROSE.split("`")[1::2])
    modules = {path.stem for path in ENGINE.rglob("*.py") if path.parent.name != "p4runtime"} - {
        "__init__",
        "__main__",
        "cli",
    }
    runtime = {path.name for path in (ENGINE / "runtime").iterdir() if path.is_file()}
    assert sorted(modules - named) == []
    assert sorted(runtime - named) == []
