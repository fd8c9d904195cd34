"""Inputs worth reading again: of each reader, one for every kind of message that refuses a file.

They were found by coverage (guided.py) and are kept in an archive, KEPT. An input is the path of
one of the reader's sound files, a line break, and the content that the file has instead.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.broken_files import campaign
from tests.support.broken_files.readers import READERS
from tests.support.paths import ROOT

KEPT = ROOT / "tests" / "data" / "broken_files.zip"
MOST = 40  # of a reader
LARGEST = 1 << 16  # bytes of an input


def as_input(title: str, content: bytes) -> bytes:
    """The input that puts this content in the file of this path."""
    return title.encode() + b"\n" + content


def parts(data: bytes) -> tuple[str, bytes]:
    """(path, content) of an input."""
    title, _, content = data.partition(b"\n")
    return title.decode(errors="replace"), content


def kept(name: str) -> list[bytes]:
    """The kept inputs of a reader."""
    if not KEPT.exists():
        return []
    with zipfile.ZipFile(KEPT) as archive:
        return [archive.read(each) for each in archive.namelist() if each.startswith(f"{name}/")]


def read_all(name: str, inputs: list[bytes], folder: Path) -> Iterator[tuple[str, str]]:
    """Outcome of each input in an empty folder: `read`, `refused` with the message, `failed` with
    the error, or `gone` if the reader has no such file."""
    reader = READERS[name]
    with campaign.quiet():
        files = {str(path.relative_to(folder)): path for path in reader.sound(folder)}
    for data in inputs:
        title, content = parts(data)
        if title in files:
            yield campaign.read_changed(reader, files[title], content)
        else:
            yield "gone", ""


def chosen(name: str, inputs: list[bytes], folder: Path) -> list[bytes]:
    """The smallest input for each kind of message, at most MOST; kinds differ in their words."""
    small = sorted(
        (each for each in inputs if len(each) <= LARGEST), key=lambda each: (len(each), each)
    )
    found: dict[tuple[str, str], bytes] = {}
    for data, (end, what) in zip(small, read_all(name, small, folder), strict=True):
        if end == "gone":
            continue
        kind = re.sub(r"'[^']*'|\S*[^A-Za-z\s.,;:()]\S*", "", what.replace(str(folder), ""))
        found.setdefault((end, kind[:200]), data)
    return list(found.values())[:MOST]


def keep(inputs: dict[str, list[bytes]]) -> None:
    """Write the archive anew; equal inputs make an equal file."""
    with zipfile.ZipFile(KEPT, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(inputs):
            for number, data in enumerate(inputs[name]):
                member = zipfile.ZipInfo(f"{name}/{number:03}", (1980, 1, 1, 0, 0, 0))
                archive.writestr(member, data, zipfile.ZIP_DEFLATED)
