"""Every figure of experiments/figures from its command to its files, small. `learning`, which needs
Mininet, is in tests/network/emulate/test_training_examples.py. `pays` has 640 points; of those, the
ones of a corner of its maps are run here."""

from __future__ import annotations

import re

import pandas as pd
import pytest
import yaml

from testbed.analysis.data.sweep_chart_data import MEASURES
from testbed.cli import main as commands
from testbed.experiment.figure import QUICK_REPETITIONS
from testbed.sweeps import figures as figure_run


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in figure_run.names() if name not in ("learning", "pays")]
)
def test_a_figure_is_made_at_small_scale(name, tmp_path, capsys):
    assert commands.main(["figure", name, "--quick", "--results", str(tmp_path)]) == 0
    capsys.readouterr()
    path = figure_run.find(name)
    sweep, figure = figure_run.declared(path, figure_run.size_of(path, None, True))
    folder = tmp_path / f"{name}-quick"
    runs = pd.read_csv(folder / "data.csv")
    assert runs["exact"].all() and runs["point"].nunique() == len(sweep.points)
    repetitions = min(yaml.safe_load(path.read_text()).get("repetitions", 1), QUICK_REPETITIONS)
    assert (runs.groupby("point").size() == repetitions).all()
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


@pytest.mark.slow
def test_every_system_of_the_map_gets_through(tmp_path):
    """The smallest model on the fastest links, with the times of the first GPU."""
    text = figure_run.find("pays").read_text()
    for values in re.findall(
        r"^ +- gpu: (.*)$|^ +jobs\[0\]\S+: (.*)$|^ +links\S+: (.*)$", text, re.M
    ):
        (whole,) = filter(None, values)
        text = text.replace(whole, f"[{whole.strip('[]').split(', ')[-1]}]")
    file = tmp_path / "corner.yaml"
    file.write_text(text.replace("jobs:\n  - {", "jobs:\n  - {scale: 0.001, "))
    assert commands.main(["sweep", str(file), "--results", str(tmp_path)]) == 0
    runs = pd.read_csv(tmp_path / "corner" / "data.csv")
    assert runs["point"].nunique() == 10 and runs["exact"].all()
    (cell,) = pd.read_csv(tmp_path / "corner" / "figures" / "corner.csv").to_dict("records")
    assert 0.9 < cell["gain"] < 2 and cell["fastest"] in (cell["with"], cell["without"])
