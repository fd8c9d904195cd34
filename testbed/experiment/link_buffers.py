"""Buffers of lossless links (`links.lossless`), which stop senders before they are full, if they
have room for what still comes then; links that cannot be lossless are errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from p4fabric.base.config.lossless_settings import CREDITS
from p4fabric.base.config.problems import Path, Problem
from p4fabric.base.lossless_buffers import LATENESS_NS, BufferPlan, plan_buffers, without_rate
from p4fabric.base.topology import Topology

from testbed.experiment.printing import shown
from testbed.experiment.rules import Found
from testbed.experiment.schema import VirtualTime
from testbed.experiment.schema_background import LARGEST_PACKET, Background
from testbed.experiment.schema_network import STAY, Links, lossless_of
from testbed.protocols.sizes import frame_bytes

if TYPE_CHECKING:
    from testbed.experiment.experiment import Experiment, LinkDirection
    from testbed.systems.options import SystemOptions


def lossless_links(
    system: SystemOptions,
    sound_links: Links,
    network: Topology,
    directions: Sequence[tuple[LinkDirection, LinkDirection]],
    runtime: str,
    frame: int,
    switch: str = "",
    background: Sequence[Background] = (),
    virtual: VirtualTime | None = None,
) -> Found:
    """Links that cannot be lossless as the file has them."""
    given = lossless_of(sound_links)
    if given is None:
        return
    place: Path = ("links", "lossless")
    if switch == "bmv2":
        what = "BMv2 has no pause frames: take it out, or take runtime virtual or switch embedded"
        yield Problem(place, what)
        return
    link = directions.__getitem__
    if unlimited := without_rate(network, link):
        yield Problem(place, f"{unlimited} has no bandwidth, which pauses are counted in; give all")
        return
    if given.sums == STAY and system.name != "tree":
        what = f"found {STAY} with system {system.name}; allowed: leave, or system tree"
        yield Problem((*place, "sums"), what)
        return
    unfit, strict = ["reorder"], given.control
    if given.control == CREDITS:
        unfit = ["reorder", "loss"]
    if given.sums == STAY:  # a packet that comes again would stay for ever
        unfit, strict = ["reorder", "loss", "duplicate"], f"sums: {STAY}"
    for both in directions:
        for way in both:
            for key in unfit:
                if getattr(way, key):
                    what = f"{way.source} to {way.target}: found {key} {shown(way, key)}"
                    yield Problem(place, f"{what}; allowed: 0 with {strict}")
                    return
    for name, plan in plan_buffers(
        given, network, link, *_worst(runtime, virtual, frame, background)
    ):
        if plan.too_small:
            where = (*place, plan.too_small_key) if _is_mapping(sound_links) else place
            yield Problem(where, f"{name}, {plan.too_small}")
            return


def _is_mapping(links: Links) -> bool:
    return not isinstance(links.lossless, str | None)


def _worst(
    runtime: str, virtual: VirtualTime | None, frame: int, background: Sequence[Background]
) -> tuple[int, int]:
    """Bytes of the longest frame, and a packet's time in a switch before that obeys a pause. On
    Mininet hosts' kernels may send frames of their own."""
    longest = max([frame, *(each.packet_bytes for each in background)])
    if runtime != "virtual":
        return max(longest, LARGEST_PACKET), LATENESS_NS
    return longest, (virtual or VirtualTime()).switch_latency_ns


def buffers_of(experiment: Experiment) -> dict[str, BufferPlan]:
    """The buffer of each switch, by name; empty where links lose packets."""
    given = lossless_of(experiment.links)
    if given is None:
        return {}
    frame = frame_bytes(experiment.values_per_packet, experiment.bitmap_bits)
    worst = _worst(experiment.runtime, experiment.virtual, frame, experiment.background)
    topology, link = experiment.topology_object(), experiment.directions.__getitem__
    return dict(plan_buffers(given, topology, link, *worst))
