"""`ina reproduce --kick-the-tires` from the command to its verdict, with real runs."""

from __future__ import annotations

import pytest

from testbed.artifacts import reproduce
from testbed.cli import main as commands


@pytest.mark.slow
def test_the_quick_check_runs_figures_and_compares_them(tmp_path, capsys):
    assert commands.main(["reproduce", "--kick-the-tires", "--results", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "3 of 3 figures reproduced" in out
    for name in reproduce.quick():
        cells = reproduce.compared(name, tmp_path)
        assert cells and all(cell.reproduced for cell in cells)
