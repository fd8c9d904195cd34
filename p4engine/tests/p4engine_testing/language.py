"""The programs and packets of data/p4_language.txt and data/p4_specification.txt, in which a new
case is a few lines of P4 and hexadecimal digits; and the rules in data/p4_rules.txt."""

from __future__ import annotations

from dataclasses import dataclass, field

from p4engine_testing import DATA

CASES = (DATA / "p4_language.txt", DATA / "p4_specification.txt")


@dataclass(frozen=True)
class Case:
    """Parts of a program (see programs.DEFAULTS), and packets: (bytes in, [(port, bytes out)])."""

    name: str
    parts: dict[str, str]
    packets: list[tuple[bytes, list[tuple[int, bytes]]]] = field(default_factory=list)


def cases() -> list[Case]:
    result = []
    for block in (block for path in CASES for block in path.read_text().split("\n== ")[1:]):
        name, *lines = block.splitlines()
        parts: dict[str, list[str]] = {}
        packets: list[tuple[bytes, list]] = []
        current: list[str] = []
        for line in lines:
            if line.startswith("> ") or line == ">":
                packets.append((bytes.fromhex(line[1:]), []))
            elif line.startswith("< "):
                _, port, *data = line.split(" ")
                packets[-1][1].append((int(port), bytes.fromhex("".join(data))))
            elif line.startswith("    "):
                current.append(line[4:])
            elif line:
                current = parts.setdefault(line.rstrip(":"), [])
        result.append(Case(name, {part: "\n".join(text) for part, text in parts.items()}, packets))
    return result


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
