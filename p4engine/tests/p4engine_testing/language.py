"""The programs of data/p4_language.txt, p4_specification.txt and p4_v1model.txt, and the rules of
p4_rules.txt."""

from __future__ import annotations

from dataclasses import dataclass

from p4engine_testing import DATA
from p4engine_testing.cases import Case, read


def cases() -> list[Case]:
    """Programs for v1model (see programs.DEFAULTS)."""
    return read("p4_language.txt", "p4_specification.txt", "p4_v1model.txt")


@dataclass(frozen=True)
class Rule:
    """A program in parts that is accepted ("+"), refused ("-") or warned of ("~")."""

    name: str
    kind: str
    message: str
    parts: dict[str, str]


def rules() -> list[Rule]:
    """The programs of data/p4_rules.txt."""
    result: list[Rule] = []
    chapter, part = "", ""
    for line in (DATA / "p4_rules.txt").read_text().splitlines():
        if line.startswith("== "):
            chapter = line[3:]
        elif line[:1] in ("+", "-", "~"):
            name = f"{chapter}, {len(result)}"
            result.append(Rule(name, line[0], line[2:], {}))
        elif line.startswith("    | "):
            result[-1].parts[part] += "\n" + line[6:]
        elif line.startswith("    "):
            part, _, text = line[4:].partition(":")
            result[-1].parts[part] = text.strip()
    return result
