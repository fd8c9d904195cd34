"""What an analysis found, as data and as text."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from p4engine.fit.limits import Limits


@dataclass(frozen=True)
class Spot:
    """A place in the program's text; "" and 0 for what has none."""

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
    elements: int
    element_bits: int
    sram_bits: int
    accesses: tuple[AccessFound, ...]
    spot: Spot


@dataclass(frozen=True)
class TableFound:
    """A table; `applications` are those of a packet that makes most of them."""

    name: str
    size: int
    sram_bits: int
    tcam_bits: int
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
    """Everything that was found; the program fits if there are no problems."""

    program: str
    target: str
    limits: Limits
    arrays: tuple[ArrayFound, ...]
    tables: tuple[TableFound, ...]
    ingress: tuple[StepFound, ...]
    egress: tuple[StepFound, ...]
    circles: tuple[CircleFound, ...]
    alus: int
    header_bits: int
    metadata_bits: int
    standard_metadata_bits: int
    problems: tuple[Problem, ...]

    @property
    def fits(self) -> bool:
        return not self.problems

    @property
    def stages(self) -> int:
        """Of the longer of the two chains."""
        return max((chain[-1].stage for chain in (self.ingress, self.egress) if chain), default=0)

    @property
    def sram_bits(self) -> int:
        return sum(a.sram_bits for a in self.arrays) + sum(t.sram_bits for t in self.tables)

    @property
    def tcam_bits(self) -> int:
        return sum(table.tcam_bits for table in self.tables)

    @property
    def phv_bits(self) -> int:
        return self.header_bits + self.metadata_bits + self.standard_metadata_bits

    @property
    def most_accesses(self) -> int:
        """Of a packet to one array."""
        return max((len(array.accesses) for array in self.arrays), default=0)

    def to_json(self) -> dict[str, Any]:
        """All fields, and the sums."""
        sums = ("fits", "stages", "sram_bits", "tcam_bits", "phv_bits", "most_accesses")
        return asdict(self) | {name: getattr(self, name) for name in sums}


def text_of(report: Report) -> str:
    """The report for people."""
    limits = report.limits
    verdict = "fits" if report.fits else f"does not fit: {_count(report)}"
    lines = [f"{report.program} on {report.target}: {verdict}", ""]
    for name, found, limit in (
        ("accesses to one array", report.most_accesses, limits.accesses),
        ("stages", report.stages, limits.stages),
        ("arrays that need each other", sum(len(c.names) for c in report.circles), 0),
        ("array ALUs", report.alus, limits.arrays_per_stage * limits.stages),
        ("PHV bits", report.phv_bits, limits.phv_bits),
        ("SRAM bits", report.sram_bits, limits.sram_bits * limits.stages),
        ("TCAM bits", report.tcam_bits, limits.tcam_bits * limits.stages),
    ):
        mark = "  <-- too many" if found > limit else ""
        lines.append(f"  {name:28}{found:>12,} of {limit:>12,}{mark}".replace(",", " "))
    lines += ["", "Arrays (accesses of the packet that makes most of them)", ""]
    for array in report.arrays:
        did = ", ".join(a.kind for a in array.accesses) or "none"
        size = f"{array.elements} x {array.element_bits} bit"
        lines.append(f"  {array.name:34}{size:>20}{array.sram_bits // 8192:>8} KiB  {did}")
    lines += ["", "Tables", ""]
    for table in report.tables:
        memory = f"{table.sram_bits // 8192} KiB SRAM, {table.tcam_bits // 8192} KiB TCAM"
        lines.append(f"  {table.name:34}{table.size:>8} entries  {memory}")
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
