"""Typical mistakes in lab 16."""

from __future__ import annotations

from labs._teacher import Mistake

_SWITCH, _HOSTS, _MODEL = "shard.p4", "gather.py", "costs.py"
_SUMS = frozenset({"scatter", "receipts", "again", "late", "lossy", "together"})
MISTAKES = [
    Mistake(
        "sums for all",
        "an all-reduce: everybody gets what only the owner needs",
        (("hdr.agg.kind == RESULT && standard.egress_port != meta.owner", "hdr.agg.kind == 99"),),
        _SUMS,
        _SWITCH,
    ),
    Mistake(
        "lengths of a sum",
        "the receipt's headers say that values follow",
        (
            ("        hdr.ip.length = hdr.ip.length - 4 * VALUES;\n", ""),
            ("        hdr.udp.length = hdr.udp.length - 4 * VALUES;\n", ""),
        ),
        frozenset({"receipts", "lossy"}),
        _SWITCH,
    ),
    Mistake(
        "no receipts",
        "sends the sum to the owner alone, so nobody else knows when to go on",
        (
            (
                "                        standard.mcast_grp = meta.group;\n                    } else {",
                "                        standard.egress_spec = meta.owner;\n"
                "                    } else {",
            ),
        ),
        _SUMS - {"together"},  # whoever asks again gets one
        _SWITCH,
    ),
    Mistake(
        "answers to the owner",
        "sends what a copy asks for to the owner, and not to who has asked",
        (("standard.egress_spec = standard.ingress_port;", "standard.egress_spec = meta.owner;"),),
        frozenset({"again", "lossy", "together"}),
        _SWITCH,
    ),
    Mistake(
        "the sum without a set",
        "answers the owner with the values that its copy has brought",
        (("                    take_values();\n", ""),),
        frozenset({"again", "late", "lossy", "together"}),
        _SWITCH,
    ),
    Mistake(
        "values for everybody",
        "does not look at the bitmap of receivers",
        (("(hdr.agg.bitmap & meta.worker) == 0", "meta.worker == 0"),),
        frozenset({"gather", "lossy"}),
        _SWITCH,
    ),
    Mistake(
        "values from anybody",
        "lets a host write parameters that it does not own",
        (
            (
                "hdr.values.isValid() &&\n                       standard.ingress_port == meta.owner",
                "hdr.values.isValid()",
            ),
        ),
        frozenset({"gather", "lossy"}),
        _SWITCH,
    ),
    Mistake(
        "requests for all",
        "asks everybody for a fragment that one has",
        (
            (
                "                standard.egress_spec = meta.owner;",
                "                standard.mcast_grp = meta.group;",
            ),
        ),
        frozenset({"requests", "lossy"}),
        _SWITCH,
    ),
    Mistake(
        "gaps between shards",
        "takes a fragment of one owner for a sign that those of others are lost",
        (("if of == shard and each < number:", "if each < number:"),),
        frozenset({"receiver"}),
        _HOSTS,
    ),
    Mistake(
        "no silence",
        "never misses the last fragments of a shard, behind which nothing comes",
        (("if self.last[shard] + SILENCE_NS <= now_ns:", "if False:"),),
        frozenset({"receiver", "together"}),
        _HOSTS,
    ),
    Mistake(
        "asks once",
        "a request or its answer can be lost, too",
        (
            (
                "self.due[number], self.wait[number] = now_ns + wait,",
                "self.due[number], self.wait[number] = 1 << 60,",
            ),
        ),
        frozenset({"receiver", "together"}),
        _HOSTS,
    ),
    Mistake(
        "an answer for each",
        "answers the last who has asked, and forgets the others",
        (("self.wanted.get(number, 0) | bitmap & self.receivers", "bitmap & self.receivers"),),
        frozenset({"owner"}),
        _HOSTS,
    ),
    Mistake(
        "half a ring",
        "counts the steps of the reduce-scatter alone",
        (("2 * (workers - 1) *", "(workers - 1) *"),),
        frozenset({"costs"}),
        _MODEL,
    ),
    Mistake(
        "receipts are free",
        "a receipt has no values, and still bytes",
        ((" + (fragments - share) * receipt", ""),),
        frozenset({"costs"}),
        _MODEL,
    ),
]
