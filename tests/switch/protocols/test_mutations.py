"""Each defence of tests/support/mutations is removed from a copy of the source: its test must
fail."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.support.histories import cases
from tests.support.histories.history import LIMIT_NS, hunt
from tests.support.mutations import MUTATIONS
from tests.support.mutations.mutation import Histories, Mutation, Test, install, mutate_hosts
from tests.support.paths import ROOT


def text_and_limit(proof: Histories) -> tuple[str, int]:
    patient = cases.patient(proof.system) if proof.lossless else {}
    text = cases.text_of(
        proof.system, "racks" if proof.racks else "star", **patient | proof.options
    )
    return text, cases.PATIENCE_NS if proof.lossless else LIMIT_NS


def seed_with_mutated_hosts(mutation: Mutation, folder) -> int | None:
    proof = mutation.proof
    text, limit_ns = text_and_limit(proof)
    mutate_hosts(mutation, folder)
    request = {
        "text": text,
        "first": 0,
        "end": proof.budget,
        "lossless": proof.lossless,
        "limit_ns": limit_ns,
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.histories", json.dumps(request)],
        cwd=folder,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["seed"]


def proof_test(proof: Test) -> Callable[[], None]:
    module, _, name = proof.name.rpartition(".")
    return getattr(importlib.import_module(f"tests.switch.{module}"), name)


def is_noticed(mutation: Mutation, folder, monkeypatch) -> None:
    """The proof fails with the mutation; a proof by histories passes the same ones without."""
    proof = mutation.proof
    if isinstance(proof, Test):
        test = proof_test(proof)
        with monkeypatch.context() as patched:
            install(mutation, folder, patched)
            with pytest.raises(AssertionError):
                test()
        return
    text, limit_ns = text_and_limit(proof)
    if mutation.of_host:
        seed = seed_with_mutated_hosts(mutation, folder)
    else:
        with monkeypatch.context() as patched:
            install(mutation, folder, patched)
            found = hunt(cases.run_of_text(text, limit_ns), range(proof.budget), proof.lossless)
        seed = None if found is None else found.seed
    assert seed is not None, f"{proof.budget} histories did not miss it: {mutation.hazard}"
    assert hunt(cases.run_of_text(text, limit_ns), range(seed + 1), proof.lossless) is None


def ids(chosen: list[Mutation]) -> list[str]:
    return [mutation.name for mutation in chosen]


QUICK = [mutation for mutation in MUTATIONS if mutation.quick]
OTHER = [mutation for mutation in MUTATIONS if not mutation.quick]


@pytest.mark.parametrize("mutation", QUICK, ids=ids(QUICK))
def test_mutation_is_noticed(mutation, tmp_path, monkeypatch):
    is_noticed(mutation, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("mutation", OTHER, ids=ids(OTHER))
def test_other_mutation_is_noticed(mutation, tmp_path, monkeypatch):
    is_noticed(mutation, tmp_path, monkeypatch)


def test_every_mutation_still_fits_the_source():
    """Names are unique, each piece of source occurs once, and each test exists."""
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)
    for mutation in MUTATIONS:
        text = (ROOT / mutation.file).read_text()
        assert text.count(mutation.old) == 1 and mutation.new != mutation.old, mutation.name
        if isinstance(mutation.proof, Test):
            assert callable(proof_test(mutation.proof))
