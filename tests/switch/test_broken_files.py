"""Broken files for every reader: each is read, or refused with one clear message."""

from __future__ import annotations

import pytest

from tests.support.broken_files.campaign import run
from tests.support.broken_files.readers import READERS


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("count", [5, pytest.param(1500, marks=pytest.mark.slow)])
def test_a_broken_file_is_read_or_refused(tmp_path, name, count):
    outcome = run(name, count, seed=count, folder=tmp_path, kept=tmp_path / "kept")
    assert not outcome.failures
    assert outcome.ends["refused"] > 0 and sum(outcome.ends.values()) == count
