"""What the README shows is what the command does."""

from __future__ import annotations

from p4fabric.cli import main
from p4fabric_testing import FABRIC, ROOT

PAGE = (FABRIC / "README.md").read_text()
PROGRAM = "examples/incast/marking.p4"


def block(kind: str, number: int = 0) -> str:
    """A fenced block of the page."""
    return PAGE.split(f"```{kind}\n")[number + 1].partition("```")[0]


def test_the_first_network_prints_what_the_page_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "first.yaml").write_text(block("yaml"))
    assert main(["run", "first.yaml"]) == 0
    printed = {line.rstrip() for line in capsys.readouterr().out.splitlines()}
    shown = block("text").splitlines()
    assert len(shown) > 8 and {*shown} - {"..."} <= printed


def test_the_network_on_linux_is_a_sound_file(tmp_path, monkeypatch, capsys):
    """It has pings alone, which tests/network/test_network_run.py does."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "pair.yaml").write_text(block("yaml", 1))
    assert PROGRAM in block("yaml", 1)
    assert main(["check", "pair.yaml"]) == 0
    assert "2 hosts, 1 switch, 2 links, 2 entries, 1 check" in capsys.readouterr().out
