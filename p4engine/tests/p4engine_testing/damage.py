"""Ways in which a file is damaged."""

from __future__ import annotations

from pathlib import Path


def truncate(path: Path) -> None:
    """Keep the first third."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 3])


def empty(path: Path) -> None:
    """Keep nothing."""
    path.write_bytes(b"")


def flip(path: Path) -> None:
    """Change one bit in the middle."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def zero(path: Path) -> None:
    """Put zeros in the place of every byte, as some file systems do when power is lost."""
    path.write_bytes(bytes(path.stat().st_size))


WAYS = (truncate, empty, flip, zero)
