"""The tour does what it says: its commands that need no root, in order, from an empty folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "tour.md").read_text()
INA = f"""#!{sys.executable}
import sys
from testbed.cli.main import entry
sys.argv[0] = "ina"
sys.exit(entry())
"""


# A file that the page says to write, a program, or a command.
STEP = re.compile(
    r"(?:as `(?P<file>\S+)`:\n\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```"
    r"|^ {4}(?P<sh>(?:ina|sed) .+?)$",
    re.MULTILINE | re.DOTALL,
)


def steps() -> list[tuple[str, str]]:
    """Steps of the reader, in order: a file's name and its text, ("python", program) or ("sh",
    command); without steps that need root, a second shell or an installation."""
    found = []
    for match in STEP.finditer(PAGE):
        if match["sh"] and ("~/" in match["sh"] or "/live-" in match["sh"]):
            continue  # that of the reader's shell; that of a run on Mininet
        if match["sh"]:
            found.append(("sh", re.sub(r"\s+# .*", "", match["sh"])))
        elif match["file"] or match["kind"] == "python":
            found.append((match["file"] or "python", match["text"]))
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_reader_gets_through(tmp_path):
    tools, folder = tmp_path / "tools", tmp_path / "tour"
    tools.mkdir()
    (tools / "ina").write_text(INA)
    (tools / "ina").chmod(0o755)
    for name in ("experiments", "examples"):
        shutil.copytree(ROOT / name, folder / name)
    environment = os.environ | {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'p4engine' / 'src'}",
    }

    def run(*command: str) -> None:
        done = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True)
        assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])

    for kind, text in steps():
        if kind == "sh":
            run("sh", "-c", text)
        elif kind == "python":
            run(sys.executable, "-c", text)
        else:
            (folder / kind).write_text(text)
    for name in ("jct.pdf", "results/memory/report.html", "memory.ina.zip"):
        assert Path(folder / name).stat().st_size > 1000
