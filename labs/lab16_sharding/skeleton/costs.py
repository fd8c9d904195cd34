"""Lab 16: an alpha-beta model. A message of n bytes from a host to another takes alpha + n beta.

Arguments: workers; fragments of the model, a multiple of `workers`; packet, the bytes of a packet
with values; receipt, those of one without; alpha in seconds, and beta in seconds per byte.
"""

from __future__ import annotations


def ring_s(workers: int, fragments: int, packet: int, alpha_s: float, beta_s: float) -> float:
    """Seconds of a ring's reduce-scatter and all-gather."""
    return 0.0  # TODO (task 5)


def scatter_s(workers: int, fragments: int, packet: int, alpha_s: float, beta_s: float) -> float:
    """Seconds of a reduce-scatter in the switch."""
    return 0.0  # TODO (task 5)


def gather_s(workers: int, fragments: int, packet: int, alpha_s: float, beta_s: float) -> float:
    """Seconds of an all-gather by multicast."""
    return 0.0  # TODO (task 5)


def both_s(
    workers: int, fragments: int, packet: int, receipt: int, alpha_s: float, beta_s: float
) -> float:
    """Seconds of both at the same time, of different layers."""
    return 0.0  # TODO (task 5)
