"""Single changes of a YAML file: each number, and each word of a few lists, becomes another one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.support.mutants.change import CONSTANT, Change, numbered, worded
from tests.support.paths import ROOT

NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
# Words of lab 13's answers and experiments; each becomes the next of its list.
LISTS = (
    ("slower", "faster", "undecided"),
    ("communication", "computation"),
    ("ps_packets", "retransmissions", "bound"),
    ("jct", "jct_ratio", "goodput", "ps_packets_per_fragment"),
)


def changes(file: str, text: str | None = None) -> list[Change]:
    """All changes of `file`, its path in the checkout, or of a text that takes its place."""
    return numbered(_all(file, text or (ROOT / file).read_text()))


def _all(file: str, text: str) -> Iterator[Change]:
    following = {w: words[(n + 1) % len(words)] for words in LISTS for n, w in enumerate(words)}
    for found in re.finditer(r"[\w.]+", text):
        begin, end, word = found.start(), found.end(), found[0]
        if "#" in text[text.rfind("\n", 0, begin) + 1 : begin]:
            continue
        if NUMBER.fullmatch(word):
            # A quarter more, or the next whole number.
            new = f"{float(word) * 1.25:.6g}" if "." in word else str(int(word) + 1)
        elif word in following and not text[end:].startswith(":"):
            new = following[word]
        else:
            continue
        line = text.count("\n", 0, begin) + 1
        yield Change(file, CONSTANT, begin, end, new, 0, 0, line, worded(text, begin, end, new))
