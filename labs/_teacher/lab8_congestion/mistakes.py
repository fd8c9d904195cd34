"""Typical mistakes in lab 8."""

from __future__ import annotations

from labs._teacher import Mistake

P4, PYTHON = "congestion.p4", "window.py"
MISTAKES = [
    Mistake(
        "the queue behind it",
        "looks at the queue when the packet leaves, not when it came",
        (("standard.enq_qdepth >= threshold", "standard.deq_qdepth >= threshold"),),
        frozenset({"marked_flags", "marked_ip", "per_port", "others"}),
        P4,
    ),
    Mistake(
        "off-by-one threshold",
        "marks only from one packet above the threshold on",
        (("standard.enq_qdepth >= threshold", "standard.enq_qdepth > threshold"),),
        frozenset({"marked_flags", "marked_ip", "others", "per_port"}),
        P4,
    ),
    Mistake(
        "never is always",
        "takes a threshold of 0 for an empty queue",
        (("threshold != 0 && ", ""),),
        frozenset({"per_port"}),
        P4,
    ),
    Mistake(
        "other flags lost",
        "sets the mark and clears the packet's other flags",
        (
            ("hdr.agg.flags = hdr.agg.flags | ECN;", "hdr.agg.flags = ECN;"),
            (
                "            hdr.ip.ecn = ECN_MARK;\n",
                "            hdr.ip.ecn = ECN_MARK;\n            hdr.ip.dscp = 0;\n            hdr.ip.ttl = hdr.ip.ttl - 1;\n",
            ),
        ),
        frozenset({"others"}),
        P4,
    ),
    Mistake(
        "halves for each mark",
        "a window full of marks takes the window down to one packet",
        (("            if fragment > self.until:\n", "            if True:\n"),),
        frozenset({"once", "together"}),
        PYTHON,
    ),
    Mistake(
        "one more for each result",
        "doubles the window every round trip",
        (("self.size + 1 / self.size)", "self.size + 1)"),),
        frozenset({"increase", "together"}),
        PYTHON,
    ),
    Mistake(
        "marks ignored",
        "grows, whatever comes",
        (("        if ecn:\n", "        if ecn and self.size < 0:\n"),),
        frozenset({"decrease", "once", "limits", "together"}),
        PYTHON,
    ),
    Mistake(
        "no limit",
        "grows beyond the largest window",
        (("min(float(self.largest), self.size + 1 / self.size)", "self.size + 1 / self.size"),),
        frozenset({"limits"}),
        PYTHON,
    ),
]
