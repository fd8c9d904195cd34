"""A network that shrinks with its jobs' models: what `scale_windows` scales.

A job at scale s sends s times the packets and computes for s times as long. Packets and rates stay
what they are, so it should take s times as long. It does where everything else that the run depends
on is s times as large, too:

    in packets   windows and their growth, aggregators, queues, thresholds of congestion marks
    in time      delays and jitter of links and hosts, the time through a switch, timers

Then the window, the bandwidth-delay product, the queue, the memory and the tensors keep their
ratios. Without the delays they would not: the bandwidth-delay product of a link has the same
packets at every scale, and a window of s times the packets would leave it idle.

What belongs to a packet stays: its values, its time on a link, a host's time for it, and the shares
of packets that are lost, duplicated or reordered. The times at which jobs, faults and background
flows begin are the file's.

Numbers of packets are rounded down, but a queue up, so that a queue which holds the sum of some
windows still does; all are at least one. The jobs lie to each other in the switch memory as in that
of full size (whole_pool in testbed/protocols/host_spec.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

from p4fabric.base.config.fields import SECOND
from p4fabric.base.config.units import TIME, show
from pydantic import BaseModel

from testbed.experiment.resolve_network import packet_ns

if TYPE_CHECKING:
    from testbed.experiment.experiment import LinkDirection
    from testbed.experiment.schema_jobs import Job

S = TypeVar("S", bound=BaseModel)
# Of `virtual`: what belongs to a packet.
OF_PACKET = ("worker_packet_time_ns", "server_packet_time_ns")


def scaled_count(count: int, scale: float) -> int:
    """A number of packets."""
    return max(1, math.floor(count * _exact(scale)))


def scaled_ns(time_ns: int, scale: float) -> int:
    """A time in ns; 0 stays 0, and another one is at least a nanosecond."""
    return max(min(time_ns, 1), round(time_ns * _exact(scale)))


def scaled_direction(way: LinkDirection, scale: float, frame_bits: int) -> LinkDirection:
    """One direction of a link, whose usual frame has so many bits."""
    threshold, most = way.ecn_threshold_packets, way.ecn_max_threshold_packets
    return replace(
        way,
        delay_ns=_scaled_delay_ns(way, scale, frame_bits),
        jitter_ns=scaled_ns(way.jitter_ns, scale),
        reorder_delay_ns=scaled_ns(way.reorder_delay_ns, scale),
        queue_packets=max(1, math.ceil(way.queue_packets * _exact(scale))),
        ecn_threshold_packets=None if threshold is None else scaled_count(threshold, scale),
        ecn_max_threshold_packets=None if most is None else scaled_count(most, scale),
    )


def _scaled_delay_ns(way: LinkDirection, scale: float, frame_bits: int) -> int:
    frame_ns = frame_bits * SECOND // way.bandwidth_bps if way.bandwidth_bps else 0
    jitter_ns = scaled_ns(way.jitter_ns, scale)
    return max(scaled_ns(way.delay_ns + frame_ns, scale) - frame_ns, jitter_ns)


def scaled_section(section: S, scale: float) -> S:
    """A section of the file with its window, if it has one, and its times, the attributes that end
    with `_ns`."""
    found: dict[str, int] = {}
    for name in type(section).model_fields:
        value = getattr(section, name)
        if value is None or name in OF_PACKET:
            continue
        if name.endswith("_ns"):
            found[name] = scaled_ns(value, scale)
        elif name == "window":
            found[name] = scaled_count(value, scale)
    return section.model_copy(update=found)


def why_not(
    scale_windows: bool,
    kinds: tuple[Job, ...],
    ways: Sequence[LinkDirection],
    runtime: str = "",
    jobs: tuple[Job, ...] = (),
    values_per_packet: int | None = None,
) -> str:
    """Why `scale_windows` cannot be honoured with these jobs, or kinds of jobs, and directions of
    links; "" if it can."""
    if not scale_windows:
        return ""
    if runtime == "mininet":
        return (
            "is for runtime virtual; on Mininet hosts and switches take the time that they take,"
            " whatever the scale. Take this key out"
        )
    scales = sorted({job.scale for job in (*jobs, *kinds)})
    if len(scales) > 1:
        return (
            f"found jobs with a scale of {scales[0]:g} and of {scales[-1]:g}; allowed: one scale"
            " for all jobs, since they share the network"
        )
    if scales and scales[0] > 1:
        return f"found jobs with a scale of {scales[0]:g}; allowed: at most 1"
    for way in ways if scales and values_per_packet is not None else ():
        delay_ns = scaled_ns(way.reorder_delay_ns, scales[0])
        frame_ns = packet_ns(way, values_per_packet)
        if way.reorder and delay_ns <= frame_ns:
            return (
                f"makes the reorder_delay from {way.source} to {way.target}"
                f" {show(delay_ns, TIME)} at a scale of {scales[0]:g}, so that no packet would"
                f" overtake another; allowed: more than {show(frame_ns, TIME)}, a packet's time on"
                " the link"
            )
    return ""


def _exact(scale: float) -> Fraction:
    """The decimal number that the file has."""
    return Fraction(repr(scale))
