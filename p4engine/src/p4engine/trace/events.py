"""The events of a traced program: one step each, read from the text that the switch reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from p4engine.values.numbers import from_words, word_count

Site = dict[str, Any]  # an entry of info["trace"]["sites"]
Shown = dict[str, Any]  # format of a value: width, and names where it has some


@dataclass(frozen=True)
class Event:
    """One step. `site` is its entry of info["trace"]["sites"]: kind, file, line, source and what
    belongs to the kind; `values` go with site["values"]; `data` are the packet's bytes from
    `offset` of extract and emit; `port` is the packet's ingress port."""

    site: Site
    values: tuple[int, ...]
    port: int
    offset: int = 0
    data: bytes = b""

    @property
    def kind(self) -> str:
        return str(self.site["kind"])

    def fields(self) -> list[tuple[str, int, int, int, Shown]]:
        """(name, value, first bit in the packet, bits, how to show it) of an extracted or emitted
        header; a varbit's value is that of its bits."""
        whole = int.from_bytes(self.data, "big")
        total = 8 * len(self.data)
        fixed = sum(width for _, width, _ in self.site["fields"] if width > 0)
        made, at = [], 0
        for name, width, shown in self.site["fields"]:
            bits = width if width > 0 else max(0, total - fixed)
            if at + bits > total:
                break
            value = whole >> (total - at - bits) & ((1 << bits) - 1)
            made.append((name, value, 8 * self.offset + at, bits, shown))
            at += bits
        return made

    def what(self) -> str:
        """The extracted or emitted header; `next` is replaced by the element that it was."""
        text = str(self.site["what"])
        if self.kind == "extract" and text.endswith(".next") and self.values:
            return f"{text[: -len('.next')]}[{self.values[0]}]"
        return text


def read_event(sites: Sequence[Site], port: int, text: str) -> Event:
    """The event of one report: the site's number, words, and the packet's bytes behind an @."""
    head, _, tail = text.partition(" @")
    parts = head.split()
    site = sites[int(parts[0])]
    numbers = [int(p, 16) for p in parts[1:]]
    if tail:
        offset, _, data = tail.partition(":")
        return Event(site, tuple(numbers), port, int(offset), bytes.fromhex(data))
    values, at = [], 0
    for shown in site.get("values", []):
        count = word_count(shown["width"])
        values.append(from_words(numbers[at : at + count], shown["width"]))
        at += count
    return Event(site, tuple(values), port)
