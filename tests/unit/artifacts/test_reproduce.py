"""Figures that are run again are held against the published numbers, cell by cell."""

from __future__ import annotations

import csv
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.artifacts import reproduce
from testbed.artifacts.expected import bounds_of, of_figures
from testbed.cli import main as commands
from testbed.sweeps import figures
from tests.support.paths import ROOT

FIGURES, ROWS = of_figures()


def of(name):
    return [row for row in ROWS if row["figure"] == name]


def drawn(results, name, change=lambda row, value: value):
    """The CSV of a figure that gives what is published, but for a change."""
    cells = {}
    for row in of(name):
        value = change(row, sum(bounds_of(row)) / 2)
        at = (row["series"], row.get("x", ""))
        cells.setdefault(at, {})[row["column"]] = value * reproduce.BASE.get(row["unit"], 1)
    folder = results / name / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="") as file:
        columns = ["series", "x", *dict.fromkeys(row["column"] for row in of(name))]
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows({"series": s, "x": x, **values} for (s, x), values in cells.items())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


def test_the_minutes_are_those_of_the_page():
    page = (ROOT / "docs/figures.md").read_text()
    for name, each in FIGURES.items():
        section = page.split(f"\n## {name}\n")[1]
        said = re.search(r"Minutes on 2 cores: (?:about )?(\d+(?:\.\d+)?)", section)[1]
        assert float(said) == each["minutes"], name
    assert sum(FIGURES[name]["minutes"] for name in reproduce.quick()) < 4


@given(data=st.data())
def test_a_number_beyond_its_tolerance_is_told_and_no_other(folder, data):
    name = data.draw(st.sampled_from(sorted(FIGURES)))
    wrong = data.draw(st.sampled_from(of(name)))
    far = data.draw(st.sampled_from([-1, 1])) * data.draw(st.floats(1.001, 5))
    near = data.draw(st.floats(-0.999, 0.999))
    drawn(
        folder,
        name,
        lambda row, v: (
            v
            + row["tolerance"] * (far if row is wrong else near)
            + (far if row is wrong and not row["tolerance"] else 0)
        ),
    )
    cells = reproduce.compared(name, folder)
    assert [cell.row for cell in cells] == of(name)
    assert [cell.row["name"] for cell in cells if not cell.reproduced] == [wrong["name"]]


def test_the_command_says_what_is_reproduced(tmp_path, monkeypatch, capsys):
    ran = []
    monkeypatch.setattr(figures, "run_figure", lambda path, *_: ran.append(path.stem) or 0)
    for name in ("kinds", "occupancy", "paths"):
        drawn(tmp_path, name)
    assert commands.main(["reproduce", "--kick-the-tires", "--results", str(tmp_path)]) == 0
    assert ran == reproduce.quick() == ["kinds", "occupancy", "paths"]
    out = capsys.readouterr().out
    assert "3 of 3 figures reproduced" in out and "NOT" not in out

    drawn(tmp_path, "kinds", lambda row, value: value * (2 if row["name"] == "kinds_1" else 1))
    assert commands.main(["reproduce", "kinds", "memory", "--results", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert f"kinds: NOT REPRODUCED: {len(of('kinds')) - 1} of {len(of('kinds'))} numbers" in out
    assert "+100 %" in out and "memory: NOT RUN" in out and "0 of 2 figures reproduced" in out

    assert commands.main(["reproduce", "head", "--results", str(tmp_path)]) == 2
    assert "there is no figure `head`" in capsys.readouterr().err
    assert commands.main(["reproduce", "pays"]) == 2
    assert "`pays` has no expected values" in capsys.readouterr().err
    assert commands.main(["reproduce", "kinds", "--kick-the-tires"]) == 2
    assert "leave the names out" in capsys.readouterr().err
