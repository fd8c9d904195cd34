"""The limits of an experiment with `switch: bmv2`.

simple_switch has egress queues with a rate in packets/s, and the kernel adds delay and loss.
Settings that neither of them can provide are errors here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from testbed import systems
from testbed.config.problems import Path, Problem
from testbed.config.units import RATE, show
from testbed.experiment.experiment import LinkDirection
from testbed.experiment.printing import shown

if TYPE_CHECKING:
    from testbed.systems.options import SystemOptions

# simple_switch forwards some thousand packets/s. A faster link would only be a wrong number.
MAX_BPS = 10**9
# With at least 100 packets/s, rounding to whole packets/s changes the file's rate by at most 1 %.
MIN_PPS = 100
# By which a packet may grow in simple_switch: its buffer has room for what came in and this (the
# constant in SimpleSwitch::receive_). Beyond that it would write outside.
GROWTH_BYTES = 512
REMEDY = "take this key out, or use switch embedded"


def packets_per_s(bandwidth_bps: int, frame: int) -> int:
    """BMv2's queue rate for a bandwidth, given the bytes of a full frame."""
    return bandwidth_bps // (8 * frame)


def check(
    runtime: str | None, directions: Iterable[LinkDirection], frame_bytes: int | None
) -> Iterator[Problem]:
    """The problems of an experiment with BMv2. frame_bytes: of a full packet; None: not known."""
    if runtime == "virtual":
        yield Problem(
            ("switch",), "found 'bmv2' with runtime virtual, which only has the embedded switch"
        )
    told: set[str] = set()
    for direction in directions:
        for key, message in _check_direction(direction, frame_bytes):
            if key not in told:  # one message for all directions
                told.add(key)
                path: Path = ("links", key)
                yield Problem(path, f"{direction.source} to {direction.target}: {message}")


def growing_packets(system: SystemOptions, values: int, programs: bool) -> Iterator[Problem]:
    """The problem of packets with `values` values that leave a switch with them, and have come
    without. programs: zeros `auto` are header_only."""
    entry = systems.SYSTEMS[system.name]
    zeros = getattr(system, "zeros", "sent")
    if entry.memory and entry.servers != "none":
        why = "a server's reminder takes a sum along"
    elif entry.memory and (zeros == "header_only" or programs and zeros == "auto"):
        why = "a gradient without values (zeros: header_only) can take a sum along"
    else:
        return
    if values > GROWTH_BYTES // 4:
        yield Problem(
            ("values_per_packet",),
            f"found {values}; allowed with switch bmv2 and system {system.name}: up to"
            f" {GROWTH_BYTES // 4}, because a packet can grow by {GROWTH_BYTES} B in simple_switch,"
            f" and {why}; take {GROWTH_BYTES // 4}, or use switch embedded",
        )


def _check_direction(
    direction: LinkDirection, frame_bytes: int | None
) -> Iterator[tuple[str, str]]:
    """Problems of one direction: (key, message)."""
    for key, attribute in (
        ("jitter", "jitter_ns"),
        ("duplicate", "duplicate"),
        ("reorder", "reorder"),
    ):
        if getattr(direction, attribute):
            yield key, f"found {shown(direction, attribute)}; BMv2 has none. Allowed: 0; {REMEDY}"
    rate = direction.bandwidth_bps
    if rate is None or frame_bytes is None:
        return
    minimum = MIN_PPS * 8 * frame_bytes
    if rate > MAX_BPS or packets_per_s(rate, frame_bytes) < MIN_PPS:
        min_text, max_text = show(minimum, RATE), show(MAX_BPS, RATE)
        yield (
            "bandwidth",
            f"found {shown(direction, 'bandwidth_bps')}; allowed with BMv2, whose queues have a"
            f" rate in whole packets/s: {min_text} ({MIN_PPS} packets of {frame_bytes} B) to"
            f" {max_text}, or unlimited",
        )
