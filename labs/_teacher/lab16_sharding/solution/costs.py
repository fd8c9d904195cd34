"""Lab 16: an alpha-beta model. A message of n bytes from a host to another takes alpha + n beta.

Arguments: workers; fragments of the model, a multiple of `workers`; packet, the bytes of a packet
with values; receipt, those of one without; alpha in seconds, and beta in seconds per byte.
"""

from __future__ import annotations


def ring_s(workers: int, fragments: int, packet: int, alpha_s: float, beta_s: float) -> float:
    """Seconds of a ring's reduce-scatter and all-gather."""
    return 2 * (workers - 1) * (alpha_s + fragments / workers * packet * beta_s)


def scatter_s(workers: int, fragments: int, packet: int, alpha_s: float, beta_s: float) -> float:
    """Seconds of a reduce-scatter in the switch."""
    return alpha_s + fragments * packet * beta_s


def gather_s(workers: int, fragments: int, packet: int, alpha_s: float, beta_s: float) -> float:
    """Seconds of an all-gather by multicast."""
    return alpha_s + (fragments - fragments / workers) * packet * beta_s


def both_s(
    workers: int, fragments: int, packet: int, receipt: int, alpha_s: float, beta_s: float
) -> float:
    """Seconds of both at the same time, of different layers."""
    share = fragments / workers
    up = (fragments + share) * packet
    down = fragments * packet + (fragments - share) * receipt
    return alpha_s + max(up, down) * beta_s
