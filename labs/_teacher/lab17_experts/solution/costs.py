"""Lab 17: an alpha-beta model. A message of n bytes from a host to another takes alpha + n beta.

Arguments: tokens of each worker; experts of a token; packet, the bytes of a token or an answer;
alpha in seconds, and beta in seconds per byte.
"""

from __future__ import annotations


def apart_s(tokens: int, experts: int, packet: int, alpha_s: float, beta_s: float) -> float:
    """Seconds of dispatch and combine if the switch only forwards: a packet for each expert of a
    token, and one for each answer."""
    return alpha_s + 2 * experts * tokens * packet * beta_s


def together_s(tokens: int, experts: int, packet: int, alpha_s: float, beta_s: float) -> float:
    """Seconds with this switch: a packet for each token, and one for each sum."""
    return alpha_s + (experts + 1) * tokens * packet * beta_s


def dropped(tokens: int, experts: int, queue: int) -> float:
    """Answers that are dropped if one worker alone has tokens, and the switch only forwards
    answers. The queue of its link has room for so many packets."""
    return max(0, (experts - 1) * tokens - queue)
