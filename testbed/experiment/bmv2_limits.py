"""The limits of an experiment with `switch: bmv2`.

simple_switch has egress queues with a rate in packets/s, and the kernel adds delay and loss.
Settings that neither of them can provide are errors here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from p4fabric.base.config.problems import Problem
from p4fabric.base.config.units import RATE, show

from testbed import systems
from testbed.experiment.experiment import LinkDirection
from testbed.experiment.printing import shown
from testbed.experiment.rules import Found, Rule

if TYPE_CHECKING:
    from testbed.experiment.schema_jobs import Job
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


def check_directions(switch: str, ways: Sequence[LinkDirection], frame: int | None = None) -> Found:
    """Links that BMv2 has not. frame: bytes of a full packet."""
    told: set[str] = set()
    for way in ways if switch == "bmv2" else ():
        for key, message in _check_direction(way, frame):
            if key not in told:  # one message for all directions
                told.add(key)
                yield Problem(("links", key), f"{way.source} to {way.target}: {message}")


def growing_packets(
    switch: str,
    entry: systems.System,
    system: SystemOptions,
    values_per_packet: int,
    limited: bool,
    jobs: Sequence[Job] = (),
) -> str:
    """The reason why packets grow beyond what simple_switch has room for; "" if they do not."""
    if switch != "bmv2" or not entry.memory or values_per_packet <= GROWTH_BYTES // 4:
        return ""
    if entry.servers != "none":
        return "a server's reminder takes a sum along"
    # Where packets/s are not limited, `auto` of programs is header_only.
    programs = not limited and any(job.is_program or job.has_ranks for job in jobs)
    zeros = getattr(system, "zeros", "sent")
    if zeros == "header_only" or programs and zeros == "auto":
        return "a gradient without values (zeros: header_only) can take a sum along"
    return ""


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


RULES = (
    Rule(
        "switch",
        lambda switch, runtime: switch == "bmv2" and runtime == "virtual",
        "found 'bmv2' with runtime virtual, which only has the embedded switch",
    ),
    check_directions,
    Rule(
        "values_per_packet",
        growing_packets,
        "found {values_per_packet}; allowed with switch bmv2 and system {entry.name}: up to"
        f" {GROWTH_BYTES // 4}, because a packet can grow by {GROWTH_BYTES} B in simple_switch, and"
        f" {{found}}; take {GROWTH_BYTES // 4}, or use switch embedded",
    ),
    Rule(
        "system.zeros",
        lambda switch, limited, system: (
            switch == "bmv2" and limited and getattr(system, "zeros", "auto") == "header_only"
        ),
        "found header_only with switch bmv2, whose queues take as long for a header as for a full"
        " packet; take it out, or use switch embedded, or bandwidth: unlimited",
    ),
    Rule(
        "value_bits",
        lambda switch, limited, value_bits: switch == "bmv2" and limited and value_bits == 16,
        "found 16 with switch bmv2, whose queues take as long for a short packet as for a full one;"
        " take it out, or use switch embedded, or bandwidth: unlimited",
    ),
    Rule(
        "faults[*].fault",
        lambda each, switch: switch == "bmv2" and each.of_link,
        "found {each.kind} with switch bmv2, whose links cannot fail during a run; take the fault"
        " out, or use switch embedded",
    ),
)
