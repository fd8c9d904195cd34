"""Every figure of experiments/figures from its command to its files, small; `learning`, which needs
Mininet, is in tests/network/emulate/test_training_examples.py."""

from __future__ import annotations

import pandas as pd
import pytest

from testbed.analysis.data.sweep_chart_data import MEASURES
from testbed.cli import main as commands
from testbed.sweeps import figures as figure_run


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in figure_run.names() if name != "learning"])
def test_a_figure_is_made_at_small_scale(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(commands.interrupts, "install", lambda: None)
    assert commands.main(["figure", name, "--quick", "--results", str(tmp_path)]) == 0
    capsys.readouterr()
    path = figure_run.find(name)
    sweep, figure = figure_run.declared(path, figure_run.size_of(path, None, True))
    folder = tmp_path / f"{name}-quick"
    runs = pd.read_csv(folder / "data.csv")
    assert runs["exact"].all() and runs["point"].nunique() == len(sweep.points)
    assert (runs.groupby("point").size() == 2).all()
    # Each fragment's sum reaches the server in one packet at least.
    assert runs["ps_packets_per_fragment"].dropna().ge(1).all()
    drawn = pd.read_csv(folder / "figures" / f"{name}-quick.csv")
    assert len(drawn) == len(sweep.points)
    for panel in figure.panels:
        column = drawn[MEASURES[panel].column]
        # A system without a server, or one whose memory nobody counts, has no such number; and
        # few jobs need not be of all classes by length.
        of_class = panel.endswith(("_short", "_medium", "_long"))
        assert (of_class or column.notna().any()) and column.dropna().ge(0).all()
    assert runs["jct_mean_ns"].gt(0).all()
    if "jct_ratio" in figure.panels:
        ours = drawn[drawn["series"] == figure.against]
        assert len(ours) and (ours["jct_ratio"] == 1).all()
        assert drawn["jct_ratio"].notna().all()
    for stem in (name, f"{name}-over-time") if figure.occupancy else (name,):
        shown = stem.replace(name, f"{name}-quick", 1)
        for ending in (".pdf", ".png"):
            assert (folder / "figures" / f"{shown}{ending}").stat().st_size > 5000
