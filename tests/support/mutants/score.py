"""Scores of a campaign: a score for each file, and the survivors."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

KILLED, SURVIVED, INVALID = "killed", "survived", "invalid"
UNCOVERED = "uncovered"  # survived, but no test that can be used executes it
EQUAL = Path(__file__).with_name("equal.yaml")
Z = 1.96  # of a normal distribution: 95 % lie within


@dataclass(frozen=True)
class Result:
    """Outcome of a mutant. `key` names the change and the content of its file; `by` is the test
    that failed, or the reason why it is no mutant; `seconds` are of processor time."""

    key: str
    file: str
    line: int
    kind: str
    name: str
    end: str
    by: str
    seconds: float

    def as_json(self) -> str:
        return json.dumps(asdict(self))


def read(path: Path) -> dict[str, Result]:
    """The results in a file, by key; a later line replaces an earlier one."""
    if not path.exists():
        return {}
    results = (Result(**json.loads(line)) for line in path.read_text().splitlines())
    return {result.key: result for result in results}


def equal_mutants(path: Path = EQUAL) -> dict[tuple[str, str], str]:
    """(file, name of the change) of the mutants that cannot be told from the original, and why."""
    found = {}
    for group in yaml.safe_load(path.read_text()):
        for name in group["changes"]:
            found[group["file"], name] = group["why"]
    return found


@dataclass(frozen=True)
class Score:
    """Mutants of one file or folder that were run. `all`: how many there are with the others;
    `uncovered`: of those that survived."""

    file: str
    killed: int
    survived: int
    equal: int
    invalid: int
    all: int
    uncovered: int = 0

    @property
    def mutants(self) -> int:
        return self.killed + self.survived

    def interval(self) -> tuple[float, float]:
        """Interval of the share of mutants that die, 95 % (Wilson); a point if none was left
        out."""
        n = self.mutants
        if n == 0:
            return 0.0, 1.0
        share = self.killed / n
        if n + self.equal + self.invalid >= self.all:
            return share, share
        middle = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
        half = Z / (1 + Z * Z / n) * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)

    def row(self) -> str:
        low, high = self.interval()
        share = f"{100 * self.killed / self.mutants:.1f} %" if self.mutants else "-"
        between = "all" if low == high else f"{100 * low:.0f} to {100 * high:.0f} %"
        run = f"{self.mutants + self.equal + self.invalid} of {self.all}"
        killed = f"{self.killed} of {self.mutants}"
        told = run, self.equal, killed, self.uncovered, share, between
        return f"| {self.file} | {' | '.join(map(str, told))} |"


HEAD = """| file | changes run | equal | killed | no test executes | score | 95 % interval |
|---|---|---|---|---|---|---|"""


def score(
    name: str, results: list[Result], count: int, equal_file: Path = EQUAL
) -> tuple[Score, list[Result]]:
    """The score of a file or folder with `count` possible changes, and its survivors that are not
    equal."""
    equal = equal_mutants(equal_file)
    killed = sum(result.end == KILLED for result in results)
    invalid = sum(result.end == INVALID for result in results)
    survivors = [r for r in results if r.end in (SURVIVED, UNCOVERED)]
    left = [r for r in survivors if (r.file, r.name) not in equal]
    uncovered = sum(r.end == UNCOVERED for r in left)
    return Score(
        name, killed, len(left), len(survivors) - len(left), invalid, count, uncovered
    ), left
