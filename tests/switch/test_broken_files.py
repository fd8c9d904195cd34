"""Broken files for every reader: each is read, or refused with one clear message."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.broken_files import corpus
from tests.support.broken_files.campaign import run, with_other_kinds
from tests.support.broken_files.changes import KINDS
from tests.support.broken_files.readers import READERS
from tests.support.paths import ROOT

# Each of these readers takes more than 0.1 s for a file.
MANY = {"experiment": 100, "results": 100, "sweep": 100}


@pytest.mark.parametrize(
    ("name", "count"),
    [(name, 3) for name in READERS]
    + [pytest.param(name, MANY.get(name, 500), marks=pytest.mark.slow) for name in READERS],
)
def test_a_broken_file_is_read_or_refused(tmp_path, name, count):
    outcome = run(name, count, seed=count, folder=tmp_path, kept=tmp_path / "kept")
    assert not outcome.failures
    assert outcome.ends["refused"] > 0 and sum(outcome.ends.values()) == count


@pytest.mark.parametrize("name", ["p4app", "exercise", "program"])
@pytest.mark.parametrize("most", [1, pytest.param(len(KINDS), marks=pytest.mark.slow)])
def test_a_value_of_another_kind_is_read_or_refused(tmp_path, name, most):
    outcome = with_other_kinds(name, tmp_path, most)
    assert not outcome.failures
    assert outcome.ends["refused"] > 0


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("most", [2, pytest.param(corpus.MOST, marks=pytest.mark.slow)])
def test_what_coverage_has_found_is_read_or_refused(tmp_path, name, most):
    inputs = corpus.kept(name)[-most:]
    assert inputs
    for data, (end, what) in zip(inputs, corpus.read_all(name, inputs, tmp_path), strict=True):
        assert end in ("read", "refused"), (data, what)


@pytest.mark.slow
def test_files_that_coverage_leads_are_read_or_refused(tmp_path):
    pytest.importorskip("atheris", reason="needs atheris: pip install '.[fuzz]'")
    words = ["-m", "tests.support.broken_files", "700", "--guided", "--seed", "7"]
    words += ["--corpus", str(tmp_path / "corpus"), "--keep", str(tmp_path / "kept"), "--reader"]
    names = ["network", "recording", "mix", "graph"]
    done = subprocess.run(
        [sys.executable, *words, *names], cwd=ROOT, text=True, stdout=subprocess.PIPE
    )
    assert done.returncode == 0, done.stdout
    for name in names:
        assert len(list((tmp_path / "corpus" / name).iterdir())) > 10, done.stdout
