"""What an experiment may ask for with `switch: bmv2`.

simple_switch has egress queues with a rate in packets/s, and the kernel adds delay and loss. What
neither of them does, or does not do as the file says, is an error here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from testbed.config.problems import Path, Problem
from testbed.config.units import RATE, show
from testbed.experiment.experiment import LinkDirection
from testbed.experiment.printing import shown

# simple_switch forwards some thousand packets/s; a faster link is only a wrong number.
MOST_BPS = 10**9
# Whole packets/s are at most 1 % less than what the file says.
LEAST_PPS = 100
REMEDY = "take this key out, or use switch embedded"


def packets_per_s(bandwidth_bps: int, frame: int) -> int:
    """BMv2's queue rate for a bandwidth, given the bytes of a full frame."""
    return bandwidth_bps // (8 * frame)


def check(
    runtime: str | None, ways: Iterable[LinkDirection], frame_bytes: int | None
) -> Iterator[Problem]:
    """What cannot be with BMv2. frame_bytes: of a full packet; None where it is not known."""
    if runtime == "virtual":
        yield Problem(
            ("switch",), "found 'bmv2' with runtime virtual, which has the embedded switch alone"
        )
    told: set[str] = set()
    for way in ways:
        for key, message in _of_way(way, frame_bytes):
            if key not in told:  # one direction stands for all
                told.add(key)
                path: Path = ("links", key)
                yield Problem(path, f"{way.source} to {way.target}: {message}")


def _of_way(way: LinkDirection, frame_bytes: int | None) -> Iterator[tuple[str, str]]:
    """(key, what is wrong with it) of one direction."""
    for key, attribute in (
        ("jitter", "jitter_ns"),
        ("duplicate", "duplicate"),
        ("reorder", "reorder"),
    ):
        if getattr(way, attribute):
            yield key, f"found {shown(way, attribute)}; BMv2 has none. Allowed: 0; {REMEDY}"
    rate = way.bandwidth_bps
    if rate is None or frame_bytes is None:
        return
    least = LEAST_PPS * 8 * frame_bytes
    if rate > MOST_BPS or packets_per_s(rate, frame_bytes) < LEAST_PPS:
        least_text, most_text = show(least, RATE), show(MOST_BPS, RATE)
        yield (
            "bandwidth",
            f"found {shown(way, 'bandwidth_bps')}; allowed with BMv2, whose queues have a rate in"
            f" whole packets/s: {least_text} ({LEAST_PPS} packets of {frame_bytes} B) to"
            f" {most_text}, or unlimited",
        )
