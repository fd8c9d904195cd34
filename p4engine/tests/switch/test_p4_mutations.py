"""Damaged programs: whatever the text, the author gets diagnostics; never a traceback, never a word
of the C compiler.

The texts are those of test_p4_language.py with a few tokens removed, doubled, exchanged or taken
from another program, which reaches further into the compiler than random characters would.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest
from p4engine.backend.build import translate
from p4engine.frontend.diagnostics import Diagnostics, Fatal
from p4engine.frontend.preprocessor.preprocess import preprocess
from p4engine_testing.language import cases
from p4engine_testing.programs import source

from p4engine import P4Error, compile_program

TOKENS = re.compile(r"[A-Za-z_]\w*|\d\w*|\s+|.", re.DOTALL)


def programs() -> list[list[str]]:
    return [TOKENS.findall(source(**case.parts)) for case in cases()]


def mutated(random: Random, tokens: list[str], other: list[str]) -> str:
    """The text of `tokens` with one to three small damages."""
    made = list(tokens)
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        at = random.randrange(len(made))
        some = random.randint(1, 12)
        start = random.randrange(len(other))
        words = [t for t in made if not t.isspace()]
        kind = random.randrange(6)
        if kind == 0:
            del made[at : at + some]
        elif kind == 1:
            made[at] = random.choice(words)
        elif kind == 2:
            made.insert(at, random.choice(words))
        elif kind == 3:
            made[at:at] = other[start : start + some]
        elif kind == 4:
            made[at:at] = made[start : start + some]
        else:  # a word of the same sort: the likeliest to parse
            alike = [t for t in words if t[0].isalpha() == made[at][0].isalpha()]
            made[at] = random.choice(alike or words)
    return "".join(made)


def front_end(path: Path) -> bool:
    """Does the text translate to C? Raises what should have been a diagnostic."""
    diagnostics = Diagnostics()
    try:
        tokens, _ = preprocess(path, {}, (), diagnostics)
        translate(tokens, diagnostics, path.name)
    except (P4Error, Fatal):
        assert diagnostics.errors
        assert all(d.line and "internal error" not in d.message for d in diagnostics.errors)
        return False
    return True


@pytest.fixture
def debug(monkeypatch):
    """Let the exceptions through that a user would read as an internal error."""
    monkeypatch.setenv("P4ENGINE_DEBUG", "1")
    monkeypatch.setenv("P4ENGINE_CFLAGS", "-O0")


def run(path: Path, seeds: range) -> int:
    """The number of damaged texts that are still programs; these must compile to the end."""
    texts = programs()
    whole = 0
    for seed in seeds:
        random = Random(seed)
        path.write_text(mutated(random, random.choice(texts), random.choice(texts)))
        try:
            if front_end(path):
                compile_program(path)
                whole += 1
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}\n{path.read_text()}") from error
    return whole


def test_damaged_programs(tmp_path, debug):
    assert run(tmp_path / "program.p4", range(150)) > 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_damaged_programs(tmp_path, debug):
    assert run(tmp_path / "program.p4", range(1000, 4000)) > 50
