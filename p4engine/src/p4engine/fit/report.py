"""The limits of a pipeline, and the result of an analysis as data and as text."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any


def _limit(default: int, text: str) -> int:
    made: int = field(default=default, metadata={"text": text})
    return made


@dataclass(frozen=True)
class Limits:
    """The pipeline. The defaults are public figures of the first Tofino."""

    stages: int = _limit(12, "stages, shared by ingress and egress")
    accesses: int = _limit(1, "accesses of a packet to one array")
    match_delay: int = _limit(1, "stages from a value to the table or array that it selects from")
    action_delay: int = _limit(1, "stages from a value to an operation on it")
    control_delay: int = _limit(0, "stages from a table to what runs only if it hit")


def describe() -> list[tuple[str, int, str]]:
    """Name, default and meaning of each limit."""
    return [(f.name, getattr(Limits(), f.name), f.metadata["text"]) for f in fields(Limits)]


@dataclass(frozen=True)
class Spot:
    """A place in the program's text; "" and 0 if there is none."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class AccessFound:
    """One access of the way with the most: "read", "write", "read and write" or "count"."""

    kind: str
    spots: tuple[Spot, ...]


@dataclass(frozen=True)
class ArrayFound:
    """A register, counter or meter. `accesses` are those of a packet that makes most of them, in
    their order."""

    name: str
    kind: str
    accesses: tuple[AccessFound, ...]
    spot: Spot


@dataclass(frozen=True)
class TableFound:
    """A table; `applications` are those of a packet that makes most of them."""

    name: str
    applications: int
    spot: Spot


@dataclass(frozen=True)
class StepFound:
    """A step of the longest chain."""

    stage: int
    text: str
    spot: Spot


@dataclass(frozen=True)
class CircleFound:
    """Arrays and tables of which each needs the next before itself, and the last the first; then
    the others that are in circles with them. `spots` are where these needs are."""

    names: tuple[str, ...]
    length: int
    spots: tuple[Spot, ...]


@dataclass(frozen=True)
class Problem:
    """A limit that the program breaks, the place that breaks it, and how."""

    limit: str
    message: str
    spot: Spot


@dataclass(frozen=True)
class Report:
    """The findings; the program fits if there are no problems."""

    program: str
    limits: Limits
    arrays: tuple[ArrayFound, ...]
    tables: tuple[TableFound, ...]
    ingress: tuple[StepFound, ...]
    egress: tuple[StepFound, ...]
    circles: tuple[CircleFound, ...]
    problems: tuple[Problem, ...]

    @property
    def fits(self) -> bool:
        return not self.problems

    @property
    def stages(self) -> int:
        """The stages of the longer of the two chains."""
        return max((chain[-1].stage for chain in (self.ingress, self.egress) if chain), default=0)

    @property
    def most_accesses(self) -> int:
        """The most accesses of a packet to one array."""
        return max((len(array.accesses) for array in self.arrays), default=0)

    @property
    def circular(self) -> int:
        """The number of arrays and tables in circles."""
        return sum(len(circle.names) for circle in self.circles)

    def to_json(self) -> dict[str, Any]:
        """All fields, and the sums."""
        sums = ("fits", "stages", "most_accesses", "circular")
        return asdict(self) | {name: getattr(self, name) for name in sums}


def text_of(report: Report) -> str:
    """The report for people."""
    limits = report.limits
    verdict = "fits" if report.fits else f"does not fit: {_count(report)}"
    lines = [f"{report.program}: {verdict}", ""]
    for name, found, limit in (
        ("accesses to one array", report.most_accesses, limits.accesses),
        ("arrays that need each other", report.circular, 0),
        ("stages", report.stages, limits.stages),
    ):
        mark = "  <-- too many" if found > limit else ""
        lines.append(f"  {name:28}{found:>4} of {limit:>4}{mark}")
    lines += ["", "Arrays (accesses of the packet that makes most of them)", ""]
    for array in report.arrays:
        did = ", ".join(a.kind for a in array.accesses) or "none"
        lines.append(f"  {array.name:34}{array.kind:10}{did}")
    for name, chain in (("ingress", report.ingress), ("egress", report.egress)):
        lines += ["", f"Longest chain in {name}: {chain[-1].stage if chain else 0} stages", ""]
        lines += [f"  {step.stage:>3}  {step.text:44}{step.spot}" for step in chain]
    if report.problems:
        lines += ["", "Limits that it breaks", ""]
        lines += [f"  {p.spot}: {p.limit}: {p.message}" for p in report.problems]
    return "\n".join(lines)


def _count(report: Report) -> str:
    kinds = sorted({p.limit for p in report.problems})
    count = len(report.problems)
    return f"{count} problem{'s' * (count > 1)} ({', '.join(kinds)})"
