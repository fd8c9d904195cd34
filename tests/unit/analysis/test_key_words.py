"""Keys of experiment files in words, and where a reader sees them."""

from __future__ import annotations

import inspect
import re
import typing

import pytest
from matplotlib.text import Text
from p4fabric.base.config.fields import Section

from testbed.analysis.data import sweep_data as sweeps
from testbed.analysis.figures import run_figures, sweep_figures
from testbed.analysis.report import render_sweep
from testbed.analysis.style.key_words import heading, words
from testbed.analysis.style.plot_style import plot_styles
from testbed.experiment.schema import ExperimentFile
from testbed.results import read
from testbed.systems import options as system_options
from testbed.topos import KINDS
from tests.support.synthetic_results import write_experiment_run, write_map, write_sweep


def keys_below(model: type, path: str = "", around: tuple[type, ...] = ()):
    """All keys of a part of the file; of lists the first member."""
    for name, field in model.model_fields.items():
        key = f"{path}.{field.alias or name}".lstrip(".")
        parts = [each for each in sections(field.annotation) if each not in around]
        listed = "tuple" in str(field.annotation) or "list" in str(field.annotation)
        yield key
        for part in parts:
            yield from keys_below(part, f"{key}[0]" if listed else key, (*around, model))


def sections(annotation):
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for part in typing.get_args(annotation):
        yield from sections(part)


def all_keys():
    yield from keys_below(ExperimentFile)
    for _, model in inspect.getmembers(system_options, inspect.isclass):
        if issubclass(model, Section):
            yield from keys_below(model, "system")
    for kind in KINDS.values():
        yield from (f"topology.{name}" for name in inspect.signature(kind).parameters)


def test_every_key_that_can_be_varied_has_words_of_its_own():
    found: dict[str, set[str]] = {}
    for key in all_keys():
        found.setdefault(words(key), set()).add(key)
    assert len(found) > 200 and not [said for said in found if re.search(r"[._\[]", said)]
    alike = [keys for keys in found.values() if len(keys) > 1]
    assert alike == [{"system", "system.name"}]


def test_members_of_lists_and_options_of_plug_ins_have_words():
    assert words("jobs[1].scale") == "scale of job 1" and words("jobs[*].scale") == "scale"
    assert words("background[*].rate") == "rate of each background flow"
    assert words("links.each[0].forward.loss") == "link loss forward of exception 0"
    assert words("system.max_hops") == "max hops" and heading("system.window") == (
        "window (fragments)"
    )


RAW = re.compile(r"\b(memory|links|system|jobs(\[.\])?|topology)\.[a-z_]+|window_rule")


@pytest.mark.parametrize("make", ["sweep", "map"])
def test_no_figure_and_no_table_of_a_sweep_shows_a_key_of_the_file(tmp_path, make):
    cell = {("vgg16", "10 Gbit/s", "v100"): {"esa": 2, "ring": 3}}
    folder = write_sweep(tmp_path) if make == "sweep" else write_map(tmp_path, cell)
    file = folder / "sweep.json"
    file.write_text(file.read_text().replace("(gap 3)", "(window_rule positions)"))
    sweep = sweeps.read_sweep(folder)
    frame = sweeps.frame(sweep)
    figure = sweep_figures.measures(sweep, frame)
    said = [text.get_text() for text in figure.findobj(Text)]
    table = render_sweep(sweep, frame)
    tables = getattr(table, "renderables", [table])
    said += [column.heading for each in tables if each for column in each.table.columns]
    said += [cell for each in tables if each for row in each.table.rows for cell in row.values
             if isinstance(cell, str)]  # fmt: skip
    assert any("aggregators" in text or text == "rate" for text in said)
    assert not [text for text in said if RAW.search(text)]


def test_runs_that_differ_in_a_key_are_named_by_its_words(tmp_path):
    """In the legend of a comparison."""
    runs = []
    for loss in ("0 %", "1 %"):
        folder = write_experiment_run(tmp_path / loss[0]).folder
        path = folder / "experiment.yaml"
        path.write_text(path.read_text().replace("loss: 0 %", f"loss: {loss}"))
        runs.append(read(folder))
    assert [style.title for style in plot_styles(runs)] == [
        f"ESA (link loss {loss})" for loss in ("0 %", "1 %")
    ]
    figure = run_figures.jct(runs)
    assert not [text for text in figure.findobj(Text) if RAW.search(text.get_text())]
