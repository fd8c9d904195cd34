"""The programs and packets of data/p4_language.txt and data/p4_specification.txt, in which a new
case is a few lines of P4 and hexadecimal digits."""

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
