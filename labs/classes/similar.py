"""Submissions of a lab that have much text in common, pair by pair.

A program is a row of tokens, in which all names are the same token and so are all numbers, without
comments and spaces: to rename things or to lay the text out anew changes nothing. Of each K tokens
in a row a hash is made, and of each W hashes in a row the smallest is kept (*winnowing*: Schleimer,
Wilkerson, Aiken, *Winnowing: Local Algorithms for Document Fingerprinting*, SIGMOD 2003). So each
passage of K + W - 1 tokens or more that two programs share is found wherever it is. What the lab's
skeleton has, too, does not count.

A high share is a reason to look at both, and no proof: small labs have few solutions. The median of
all pairs says what is usual in a lab.
"""

from __future__ import annotations

import itertools
import re
import statistics
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.labs.grader.lab import LABS, Lab
from testbed.labs.grader.submission import Unusable, read_plain

K, W = 16, 8
FEWEST = 4  # hashes of a program that can be compared
MINIMUM = 0.5  # share of a pair that is listed, if nobody says otherwise
PASSAGES = 3  # that are named
SOLUTION = "(our solution)"
KEYWORDS = """
    action apply and break class const control def default elif else except exit extern for from
    hash header if import in lambda list match multicast not or packet parser raise register read
    return select state struct switch table transition try while with write yield
"""
WORDS = frozenset(KEYWORDS.split())


def _tokens_of(comment: str, text: str) -> re.Pattern[str]:
    """A language, from what its comments and its texts look like."""
    return re.compile(
        rf"(?P<none>{comment}|\s+)|(?P<text>{text})|(?P<number>\d[\w.]*)"
        r"|(?P<name>[A-Za-z_]\w*)|(?P<sign>&&&|<<|>>|[<>=!]=|&&|\|\||.)",
        re.DOTALL,
    )


LIKE_C = _tokens_of(r"//[^\n]*|/\*.*?\*/", r'"[^"\n]*"')
LIKE_PYTHON = _tokens_of(r"\#[^\n]*", r'""".*?"""|"[^"\n]*"|\'[^\'\n]*\'')


@dataclass(frozen=True)
class Pair:
    """Two submissions.

    Args:
        first_share: share of the first one's hashes that the second one has, too.
        passages: lines that they share, "12-40 = 15-43", the longest ones.
    """

    lab: str
    first: str
    second: str
    first_share: float
    second_share: float
    passages: str

    @property
    def share(self) -> float:
        return max(self.first_share, self.second_share)


def tokens(text: str, name: str) -> list[tuple[str, int]]:
    """The tokens of a file with their lines. `name`: of the file, whose ending tells the
    language."""
    pattern = LIKE_C if name.endswith((".p4", ".c", ".h")) else LIKE_PYTHON
    made, line = [], 1
    for match in pattern.finditer(text):
        kind, word = match.lastgroup, match[0]
        if kind == "name":
            made.append((word if word in WORDS else "name", line))
        elif kind != "none":
            made.append((word if kind == "sign" else str(kind), line))
        line += word.count("\n")
    return made


def hashes(row: Sequence[tuple[str, int]]) -> list[tuple[int, int, int]]:
    """Of each K tokens in a row: hash, first line, last line."""
    return [
        (zlib.crc32(" ".join(word for word, _ in part).encode()), part[0][1], part[-1][1])
        for n in range(len(row) - K + 1)
        if (part := row[n : n + K])
    ]


def prints(files: Mapping[str, str], base: Collection[int] = ()) -> dict[int, tuple[int, int]]:
    """The hashes of a program's files that are kept, none of which is in `base`, with the first and
    the last line of where each is."""
    kept: dict[int, tuple[int, int]] = {}
    for name, text in files.items():
        row = [each for each in hashes(tokens(text, name)) if each[0] not in base]
        for n in range(len(row) - W + 1):
            number, *lines = min(row[n : n + W])
            kept.setdefault(number, (lines[0], lines[1]))
    return kept


def compare(
    lab: str, programs: Mapping[str, Mapping[str, str]], base: Mapping[str, str]
) -> list[Pair]:
    """All pairs of programs, the most similar ones first.

    Args:
        programs: texts of files by their names, by student.
        base: files that all have in common.
    """
    known = {h for name, text in base.items() for h, _, _ in hashes(tokens(text, name))}
    made = {student: prints(files, known) for student, files in programs.items()}
    made = {student: lines for student, lines in made.items() if len(lines) >= FEWEST}
    pairs = []
    for first, second in itertools.combinations(sorted(made), 2):
        a, b = made[first], made[second]
        both = a.keys() & b.keys()
        shares = len(both) / len(a), len(both) / len(b)
        pairs.append(Pair(lab, first, second, *shares, _passages([(a[h], b[h]) for h in both])))
    return sorted(pairs, key=lambda pair: (-pair.share, pair.first, pair.second))


def _passages(both: list[tuple[tuple[int, int], tuple[int, int]]]) -> str:
    """The longest passages of places that follow one another in both programs."""
    runs: list[list[int]] = []
    for (a, a_end), (b, b_end) in sorted(both):
        if runs and a <= runs[-1][1] + 1 and runs[-1][2] <= b <= runs[-1][3] + 1:
            runs[-1][1], runs[-1][3] = max(runs[-1][1], a_end), max(runs[-1][3], b_end)
        else:
            runs.append([a, a_end, b, b_end])
    longest = sorted(runs, key=lambda run: run[0] - run[1])[:PASSAGES]
    return ", ".join(f"{a}-{a_end} = {b}-{b_end}" for a, a_end, b, b_end in longest)


def median(pairs: Sequence[Pair]) -> float:
    """Of the shares of all pairs; 0 without any."""
    return statistics.median([pair.share for pair in pairs]) if pairs else 0.0


def texts(lab: Lab, folder: Path) -> dict[str, str]:
    """The files of a submission that can be read."""
    made = {}
    for name in lab.hand_in:
        try:
            made[name] = read_plain(folder / name).decode(errors="replace")
        except Unusable:
            continue
    return made


def compare_lab(lab: Lab, folders: Mapping[str, Path]) -> list[Pair]:
    """All pairs of submissions of a lab, and of these with our solution where it is here."""
    own = LABS / "_teacher" / lab.name / "solution"
    everybody = {**folders, **({SOLUTION: own} if own.is_dir() else {})}
    programs = {student: texts(lab, folder) for student, folder in everybody.items()}
    base = {name: data.decode(errors="replace") for name, data in lab.skeleton("").items()}
    return compare(lab.name, programs, base)
