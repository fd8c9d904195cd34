"""Broken files that are led by what a reader does with them: an input that reaches something new in
the reader's code is kept and changed further (libFuzzer, in the package atheris).

A corpus is a folder with an input per file (corpus.py); it grows. This module changes how what it
imports is compiled, so it runs in a process of its own: `python -m tests.support.broken_files COUNT
--guided`.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["testbed", "p4fabric", "p4engine"]):
    from tests.support.broken_files import campaign
    from tests.support.broken_files.corpus import as_input, parts
    from tests.support.broken_files.readers import READERS

LONGEST = 1 << 18  # bytes of an input
SHOWN_EVERY = 1000  # inputs


class Guided:
    """`one` reads an input, `changed` makes one of another."""

    def __init__(self, name: str, count: int, folder: Path, kept: Path) -> None:
        self.name, self.count, self.kept = name, count, kept
        self.reader = READERS[name]
        self.folder = folder
        with campaign.quiet():
            files = self.reader.sound(folder)
        self.contents = {str(path.relative_to(folder)): path.read_bytes() for path in files}
        self.ends: Counter[str] = Counter()
        self.failures: dict[str, Path] = {}

    def seeds(self) -> list[bytes]:
        """The sound files as inputs."""
        return [as_input(title, content) for title, content in self.contents.items()]

    def one(self, data: bytes) -> None:
        """Read one input; how it ends is counted."""
        title, content = parts(data)
        end = self._read(title, content) if title in self.contents else "no input"
        self.ends[end] += 1
        done = self.ends.total()
        if not done % SHOWN_EVERY or done == self.count:
            print(f"{self.name}: {campaign.told(self.ends)}", flush=True)
        if done == self.count:  # libFuzzer would end the process without a word
            os._exit(1 if self.failures else 0)

    def _read(self, title: str, content: bytes) -> str:
        path = self.folder / title
        end, what = campaign.read_changed(self.reader, path, content)
        if end == "failed" and (kind := _kind(what)) not in self.failures:
            self.kept.mkdir(parents=True, exist_ok=True)
            copy = self.kept / f"{self.name}-{len(self.failures)}{path.suffix}"
            copy.write_bytes(content)
            copy.with_suffix(".txt").write_text(f"{title}\n{what}")
            self.failures[kind] = copy
            print(f"  {copy}: {what.strip().splitlines()[-1][:300]}", flush=True)
        return end

    def changed(self, data: bytes, longest: int, seed: int) -> bytes:
        """Another input: the data or the bytes of this one's content changed, or another file."""
        rng = random.Random(seed)
        title, content = parts(data)
        if title not in self.contents:
            title = rng.choice([*self.contents])
            content = self.contents[title]
        if rng.random() < 0.2:
            return as_input(title, atheris.Mutate(content, longest - len(title) - 1))
        other = rng.choice([*self.contents.values()])
        try:
            content = campaign.broken(Path(title), content, other, rng)
        except Exception:  # it is no longer YAML, or too deep
            content = campaign.changed_bytes(content, other, rng)
        return as_input(title, content)[:longest]


def _kind(what: str) -> str:
    """Equal for failures of one cause: the end of the traceback without its values."""
    lines = [line.strip() for line in what.splitlines() if line.startswith("  File ")]
    return "\n".join(lines[-2:]) or what[:40]


def main(arguments: Sequence[str]) -> None:
    """Read `count` inputs and leave the process, with exit code 1 if one has failed."""
    name, count, seed, corpus, kept, folder = arguments
    guided = Guided(name, int(count), Path(folder), Path(kept))
    Path(corpus).mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(guided.seeds()):
        (Path(corpus) / f"sound-{number}").write_bytes(data)
    options = ["-runs=-1", f"-seed={seed}", f"-max_len={LONGEST}", "-timeout=600"]
    options += ["-rss_limit_mb=0", "-verbosity=0", corpus]
    atheris.Setup([name, *options], guided.one, custom_mutator=guided.changed)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
