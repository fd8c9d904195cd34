"""The platform and the timers of jobs whose network shrinks with their models; see
testbed/experiment/scaled_network.py."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TypeVar

from testbed.costs.profile import CostSection
from testbed.experiment.scaled_network import (
    scaled_count,
    scaled_direction,
    scaled_ns,
    scaled_section,
)
from testbed.setup.job_setups import Bounds, Platform

S = TypeVar("S", bound=CostSection)


def scaled_platform(platform: Platform, scale: float) -> Platform:
    """The platform of jobs with this scale; it knows the one that it is made from."""
    virtual, bits = platform.virtual, platform.frame_bits
    return replace(
        platform,
        directions=tuple(
            (scaled_direction(there, scale, bits), scaled_direction(back, scale, bits))
            for there, back in platform.directions
        ),
        options=scaled_section(platform.options, scale),
        aggregators=scaled_count(platform.aggregators, scale) if platform.aggregators else 0,
        timers=scaled_section(platform.timers, scale),
        virtual=None if virtual is None else scaled_section(virtual, scale),
        paths=None if platform.paths is None else scaled_section(platform.paths, scale),
        costs=None if platform.costs is None else _scaled_costs(platform.costs, scale),
        full_size=platform,
        scale=scale,
        window_step=scaled_count(platform.window_step, scale),
    )


def _scaled_costs(part: S, scale: float) -> S:
    """A cost profile, or a part of one, with its times."""
    inner = {name: getattr(part, name) for name in type(part).model_fields}
    parts = {
        name: _scaled_costs(each, scale)
        for name, each in inner.items()
        if isinstance(each, CostSection)
    }
    return scaled_section(part, scale).model_copy(update=parts)


def scaled_bounds(bounds: Bounds, scale: float) -> Bounds:
    """The bounds of a job's timers."""
    times = {each.name: getattr(bounds, each.name) for each in fields(bounds)}
    return Bounds(**{name: scaled_ns(time_ns, scale) for name, time_ns in times.items()})
