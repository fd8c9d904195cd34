"""Typical mistakes in lab 14."""

from __future__ import annotations

from labs._teacher import Mistake

_SWITCH, _HOST = "loss.p4", "host.py"
_HOSTS = frozenset({"hosts_plain", "hosts_lossy", "strangers", "together"})
MISTAKES = [
    Mistake(
        "no bit leaves the other set",
        "answers a late copy of a worker that has moved on",
        (("        set_bitmap.write(meta.other, others & ~hdr.agg.bitmap);\n", ""),),
        frozenset({"switch_lossy", "together"}),
        _SWITCH,
    ),
    Mistake(
        "answers nobody",
        "drops a copy although the sum is complete",
        (("                standard.egress_spec = standard.ingress_port;\n", "drop();\n"),),
        frozenset({"switch_lossy", "together"}),
        _SWITCH,
    ),
    Mistake(
        "builds on an open field",
        "takes only gradients with the TTL of the hosts that were there first",
        (("hdr.agg.kind == GRADIENT &&", "hdr.agg.kind == GRADIENT && hdr.ip.ttl == 64 &&"),),
        frozenset({"switch_plain", "switch_lossy"}),
        _SWITCH,
    ),
    Mistake(
        "no checksum",
        "leaves the IP checksum to somebody else",
        (("checksum(bytes(frame[IP_AT:IP_END]))", "0"),),
        _HOSTS,
        _HOST,
    ),
    Mistake(
        "one set",
        "forgets the top bit of the slot",
        (("number % SLOTS | (number // SLOTS % 2) << 15", "number % SLOTS"),),
        _HOSTS,
        _HOST,
    ),
    Mistake(
        "numbers without a sign",
        "reads sums as uint32",
        (("= list(fields[25:])", "= [value % (1 << 32) for value in fields[25:]]"),),
        _HOSTS,
        _HOST,
    ),
    Mistake(
        "never again",
        "has no timer",
        (("        return min(self.due.values(), default=None)", "        return None"),),
        frozenset({"hosts_lossy", "together"}),
        _HOST,
    ),
    Mistake(
        "takes everybody's results",
        "does not look at the job",
        (
            (
                '(kind, job) != (RESULT, self.setting["job"])',
                "kind != RESULT",
            ),
        ),
        frozenset({"strangers"}),
        _HOST,
    ),
    Mistake(
        "smaller numbers are not late",
        "adds an old copy to a newer sum, in which its worker is not yet",
        (
            (
                "hdr.agg.number < meta.number ||\n                       (hdr.agg.number ==",
                "(hdr.agg.number ==",
            ),
        ),
        frozenset({"switch_lossy", "together"}),
        _SWITCH,
    ),
    Mistake(
        "the index for the number",
        "finds a fragment's slot from where it is in the list",
        (("number % SLOTS | (number // SLOTS % 2) << 15", "n % SLOTS | (n // SLOTS % 2) << 15"),),
        _HOSTS,
        _HOST,
    ),
]
