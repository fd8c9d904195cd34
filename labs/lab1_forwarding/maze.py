"""A maze for each student: the tables of maze.p4 with other numbers, and other packets to follow.

The maze in the skeleton is the pattern. What it matches on is turned by bits that the student's
name decides, and so are the doors, the ports and the choice of packets.
"""

from __future__ import annotations

from pathlib import Path

from labs.grader.seeds import Stream

SKELETON = Path(__file__).resolve().parent / "skeleton"
# Packets of the pattern, in groups that take the same way through it.
PATTERN = (
    ((0x01, 0x00, 0x00), (0x0F, 0x22, 0x00)),
    ((0x02, 0x00, 0x00), (0x0A, 0x31, 0x00)),
    ((0x04, 0x0B, 0xFE), (0x0E, 0x2D, 0xFE)),
    ((0x05, 0x40, 0x02), (0x08, 0x71, 0x02)),
    ((0x03, 0x15, 0x00), (0x01, 0x1F, 0x02), (0x07, 0x1A, 0x00), (0x09, 0x12, 0x05)),
    ((0x02, 0x08, 0x00), (0x06, 0x2C, 0x00)),
)


def files(student: str) -> dict[str, str]:
    """maze.p4 and the beginning of answers.txt for a student."""
    stream = _stream(student)
    colour, size = stream.randrange(256), stream.randrange(256)
    doors = 16 * stream.randrange(1, 15)  # the pattern turns one bit of doors below 16
    ports = stream.sample(range(1, 9), 3)
    text = (SKELETON / "maze.p4").read_text()
    pieces = (
        ("(0x01 &&& 0x01, 0x10 &&& 0xf0): jump(7);", _entry(colour, 0x01, size, 0x10, "jump", 7)),
        ("(0x01 &&& 0x01, _): walk(3);", f"({_bits(colour, 1, 1)}, _): walk(3);"),
        ("(_, 0x08 &&& 0x08): jump(3);", f"(_, {_bits(size, 8, 8)}): jump(3);"),
        ("jump(7);", f"jump({doors + 7});"),
        ("walk(3);", f"walk({doors + 3});"),
        ("jump(3);", f"jump({doors + 3});"),
        ("walk(5);", f"walk({doors + 5});"),
        ("(1 .. 4, 1): walk(6);", f"({doors + 1} .. {doors + 4}, 1): walk({doors + 6});"),
        ("(3 .. 6, 3): jump(2);", f"({doors + 3} .. {doors + 6}, 3): jump({doors + 2});"),
        ("(5 .. 9, 1): trap();", f"({doors + 5} .. {doors + 9}, 1): trap();"),
        ("jump(9);", f"jump({doors + 9});"),
        *(
            (f"{d}: leave({n});", f"{doors + d}: leave({p});")
            for d, n, p in zip((2, 6, 9), (2, 3, 4), ports, strict=True)
        ),
    )
    for old, new in pieces:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    answers = (SKELETON / "answers.txt").read_text()
    head = answers[: answers.index("01 00 00")]
    lines = [f"{p.hex(' ')}     ?       ?       ?       ?\n" for p in packets(student)]
    return {"maze.p4": text, "answers.txt": head + "".join(lines)}


def packets(student: str) -> list[bytes]:
    """The packets that a student follows."""
    stream = _stream(student)
    colour, size = stream.randrange(256), stream.randrange(256)
    order = _stream(f"{student}/packets")
    chosen = [order.choice(group) for group in PATTERN]
    order.shuffle(chosen)
    return [bytes((c ^ colour, s ^ size, steps)) for c, s, steps in chosen]


def _stream(text: str) -> Stream:
    return Stream(f"maze of {text}")


def _bits(turned: int, value: int, mask: int) -> str:
    return f"0x{(value ^ turned) & mask:02x} &&& 0x{mask:02x}"


def _entry(colour: int, c: int, size: int, s: int, action: str, door: int) -> str:
    return f"({_bits(colour, c, 1)}, {_bits(size, s, 0xF0)}): {action}({door});"
