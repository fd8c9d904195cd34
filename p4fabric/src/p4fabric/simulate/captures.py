"""Captures of a run in virtual time, as pcapng files.

A file has an interface for each repetition, whose times are those of the simulated clock, from 0.
Packets are in order of time. What has been seen is written now and then, up to the time before
which nothing more can happen, and wholly at the end, however the run ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from p4fabric.base.config import pcapng
from p4fabric.base.linux.ownership import hand_over
from p4fabric.simulate import taps

if TYPE_CHECKING:
    from p4fabric.base.captured_ports import CapturedPort

_Packet = tuple[int, int, bytes]  # time in ns, direction, frame


class Captures:
    """The files of all captured ports. A context manager; `folder` is made if ports are wanted."""

    def __init__(self, wanted: Sequence[CapturedPort], folder: Path) -> None:
        self._wanted = wanted
        self._folder = folder
        self._files: dict[tuple[str, int], BinaryIO] = {}
        self._seen: dict[tuple[str, int], list[_Packet]] = {}
        self._counted: dict[tuple[str, int], int] = {}
        self._number = -1  # of the interface

    def __enter__(self) -> Captures:
        if self._wanted:
            self._folder.mkdir()
            hand_over(self._folder)
        for each in self._wanted:
            path = self._folder / each.file_name
            file = self._files[each.switch, each.port] = open(path, "wb")
            file.write(pcapng.section_header())
            hand_over(path)
        return self

    def __exit__(self, *exception: object) -> None:
        for file in self._files.values():
            file.close()

    @contextlib.contextmanager
    def of(self, nodes: taps.Nodes, more: str = "") -> Iterator[None]:
        """Within, the packets of one repetition are written down, if `write` is called now and
        then, and the others at the end. `more`: which repetition it is."""
        if not self._wanted:
            yield
            return
        self._number += 1
        ports: dict[str, list[int]] = {}
        for each in self._wanted:
            key = each.switch, each.port
            ports.setdefault(each.switch, []).append(each.port)
            self._seen[key], self._counted[key] = [], 0
            name = f"{each.switch}-eth{each.port}"
            self._files[key].write(pcapng.interface(name, each.title + more))
        kept = taps.listen(nodes, ports, self._note)
        try:
            yield
        finally:
            self._write(None)
            for key, file in self._files.items():
                file.write(pcapng.statistics(self._counted[key], 0, self._number))
            del kept

    def write(self, next_ns: int) -> None:
        """Write what has happened before the next event, which is at `next_ns`."""
        if self._wanted:
            self._write(next_ns)

    def _note(self, switch: str, port: int, direction: int, time_ns: int, frame: bytes) -> None:
        self._seen[switch, port].append((time_ns, direction, frame))

    def _write(self, before_ns: int | None) -> None:
        for key, file in self._files.items():
            packets = sorted(self._seen[key], key=itemgetter(0))  # stable: equal times as seen
            count = len(packets)
            if before_ns is not None:
                count = sum(time_ns < before_ns for time_ns, _, _ in packets)
            file.writelines(pcapng.packet(*each, self._number) for each in packets[:count])
            self._counted[key] += count
            self._seen[key] = packets[count:]
