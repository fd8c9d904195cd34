"""Lab 18: an alpha-beta model of trees. A packet of n bytes passes a link in alpha + n beta.

Arguments: tiers of switches between a host and the root, with it; workers; fragments; packet, the
bytes of a packet; window, the fragments that a host may have on their way; alpha in seconds, and
beta in seconds per byte.
"""

from __future__ import annotations

import math


def round_trip_s(tiers: int, packet: int, alpha_s: float, beta_s: float) -> float:
    """Seconds from sending a fragment until its result is there, without any other packet."""
    return 2 * tiers * (alpha_s + packet * beta_s)


def slots(tiers: int, packet: int, alpha_s: float, beta_s: float) -> int:
    """The smallest number of slots with which a host's link is never idle."""
    return math.ceil(round_trip_s(tiers, packet, alpha_s, beta_s) / (packet * beta_s))


def tree_s(
    tiers: int, fragments: int, packet: int, window: int, alpha_s: float, beta_s: float
) -> float:
    """Seconds of an all-reduce in a tree."""
    trip = round_trip_s(tiers, packet, alpha_s, beta_s)
    return trip + max(fragments * packet * beta_s, fragments / window * trip)


def ring_s(workers: int, fragments: int, packet: int, alpha_s: float, beta_s: float) -> float:
    """Seconds of an all-reduce in a ring of hosts on one switch."""
    return 2 * (workers - 1) * (2 * alpha_s + fragments / workers * packet * beta_s)
