"""A single change of a source file, with a name that outlives changes elsewhere in the file."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

OPERATOR, CONSTANT, REMOVED, BRANCH = "operator", "constant", "removed statement", "swapped branch"


@dataclass(frozen=True)
class Change:
    """Characters `start` to `end` of `file` (its path in the checkout) become `new`.

    `first`, `last`: the lines of the statement or condition, from 1; a test that executes none of
    them cannot notice. (0, 0) where no execution shows it: constants, tables, the preprocessor.
    `which`: the number of the change among those that read alike."""

    file: str
    kind: str
    start: int
    end: int
    new: str
    first: int
    last: int
    line: int
    words: str
    which: int = 1

    @property
    def name(self) -> str:
        return self.words + (f" #{self.which}" if self.which > 1 else "")

    def apply(self, text: str) -> str:
        new = self.new
        if self.kind == REMOVED and self.file.endswith(".py"):
            # The function keeps its variables, also those of others (`super` has one).
            new = f"if 0: {text[self.start : self.end]}"
        return text[: self.start] + new + text[self.end :]


BRACKETS = {"(": ")", "[": "]", "{": "}"}


def closing(tokens: Sequence[Any], place: int) -> int:
    """Place of the token that closes the bracket at `place`; of tokens with a `text`."""
    opening, depth = tokens[place].text, 0
    for at in range(place, len(tokens)):
        depth += (tokens[at].text == opening) - (tokens[at].text == BRACKETS[opening])
        if depth == 0:
            return at
    return len(tokens) - 1


def blank(text: str) -> str:
    """Empty lines, as many as the text has; backslashes at ends of lines stay."""
    lines = text.split("\n")
    kept = [" \\" if line.endswith("\\") else "" for line in lines[:-1]]
    return "\n".join([*kept, ""])


def worded(text: str, start: int, end: int, new: str) -> str:
    """A change in words: the lines before, an arrow, and what they become, without indentation."""
    begin = text.rfind("\n", 0, start) + 1
    stop = text.find("\n", end)
    stop = len(text) if stop < 0 else stop
    old_lines = text[begin:stop]
    new_lines = text[begin:start] + new + text[end:stop]
    return f"{_flat(old_lines)} -> {_flat(new_lines) or 'nothing'}"


def _flat(text: str) -> str:
    lines = [line.rstrip("\\").split("//")[0].strip() for line in text.split("\n")]
    return " ".join(line for line in lines if line)


def numbered(changes: Iterator[Change]) -> list[Change]:
    """Changes in the order of their places; those that read alike get numbers."""
    seen: Counter[str] = Counter()
    made = []
    for change in sorted(changes, key=lambda c: (c.start, c.end, c.new)):
        seen[change.words] += 1
        made.append(replace(change, which=seen[change.words]))
    return made


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def sample(changes: list[Change], count: int, seed: int) -> list[Change]:
    """`count` of them, in an order of their own: a smaller sample is the beginning of a larger."""
    shuffled = list(changes)
    random.Random(seed).shuffle(shuffled)
    return shuffled[:count]
