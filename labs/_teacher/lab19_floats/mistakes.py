"""Typical mistakes in lab 19."""

from __future__ import annotations

from labs._teacher import Mistake

_ADDER, _SWITCH, _SERVER = "adder.p4", "floats.p4", "server.py"
_EXACT = frozenset({"orders", "rounding", "histories", "network"})
MISTAKES = [
    Mistake(
        "toward zero",
        "cuts off and does not round",
        (("if (rest > 0x800000 || (rest == 0x800000 && near[0:0] == 1)) {", "if (false) {"),),
        _EXACT | {"adder", "corners", "arrival"},
        _ADDER,
    ),
    Mistake(
        "half a step up",
        "rounds two equally near numbers up, and not to the even one",
        (("(rest == 0x800000 && near[0:0] == 1)", "rest == 0x800000"),),
        frozenset({"adder", "corners", "arrival", "rounding", "histories", "network"}),
        _ADDER,
    ),
    Mistake(
        "no sticky bit",
        "keeps three bits behind the larger number, and forgets whether there were more",
        (
            (
                "low = (low << 20) >> (bit<8>) (exponent - lower);",
                "low = (low << 20) >> (bit<8>) (exponent - lower) & 0xfffe0000;",
            ),
        ),
        frozenset({"adder", "corners", "arrival", "histories"}),
        _ADDER,
    ),
    Mistake(
        "zeros with a sign",
        "gives a sum of zero the sign of a number",
        (("                sign = a & b & SIGN;\n", "                sign = a & SIGN;\n"),),
        frozenset({"adder", "corners"}),
        _ADDER,
    ),
    Mistake(
        "no subnormal numbers",
        "makes zeros of what is smaller than all other numbers",
        (
            (
                "                exponent = 1;\n            }\n            bit<32> rest",
                "                high = 0;\n                exponent = 1;\n            }\n            bit<32> rest",
            ),
        ),
        frozenset({"corners", "rounding", "histories"}),
        _ADDER,
    ),
    Mistake(
        "numbers behind the largest",
        "lets the exponent become 255 with a fraction",
        (("            if (near > INFINITY) {\n", "            if (near > 0xffff) {\n"),),
        frozenset({"corners", "rounding", "histories"}),
        _ADDER,
    ),
    Mistake(
        "cut below a unit",
        "leaves out bits that do not fit, as if they were nothing",
        (("            if ((size >> right) << right != size) { meta.fits = 0; }        \\\n", ""),),
        frozenset({"spills"}),
        _SWITCH,
    ),
    Mistake(
        "sums that wrap",
        "looks at the values alone, and not at their sum",
        (
            (
                "        if (units != (int<64>) (int<32>) units) { meta.fits = 0; }  \\\n"
                "        sum",
                "        sum",
            ),
        ),
        frozenset({"spills", "histories"}),
        _SWITCH,
    ),
    Mistake(
        "a scale in the program",
        "takes one unit for all fragments",
        (
            (
                "            bit<8> right = hdr.agg.priority - exponent;",
                "            bit<8> right = 127 - exponent;",
            ),
            (
                "            bit<8> left = exponent - hdr.agg.priority;",
                "            bit<8> left = exponent - 127;",
            ),
            ("        if (exponent < hdr.agg.priority) { ", "        if (exponent < 127) { "),
        ),
        frozenset({"orders", "rounding", "spills", "histories"}),
        _SWITCH,
    ),
    Mistake(
        "one packet passes",
        "passes on what does not fit, and adds the others",
        (
            (
                "                        meta.state = SPILLED;\n",
                "                        hdr.agg.flags = hdr.agg.flags | OVERFLOW;\n                        standard.egress_spec = meta.server;\n",
            ),
        ),
        frozenset({"spills", "histories", "network"}),
        _SWITCH,
    ),
    Mistake(
        "copies count",
        "adds a gradient that is in the sum already",
        (
            (
                "meta.state == FILLING && (meta.bitmap & hdr.agg.bitmap) == 0",
                "meta.state == FILLING",
            ),
        ),
        frozenset({"histories", "network"}),
        _SWITCH,
    ),
    Mistake(
        "results from anywhere",
        "takes a result from any port",
        ((" && standard.ingress_port == meta.server)", ")"),),
        frozenset({"spills", "histories"}),
        _SWITCH,
    ),
    Mistake(
        "floats of 53 bits",
        "adds up Python's numbers, which are rounded, too",
        (
            (
                "    units = sum(_units(code) for code in codes)\n",
                "    parts = [float(_units(code)) / 2.0**200 for code in codes]\n"
                "    units = int(sum(parts) * 2.0**100) << 100\n",
            ),
        ),
        frozenset({"exact_sums"}),
        _SERVER,
    ),
    Mistake(
        "copies at the server",
        "counts packets, and not workers",
        (
            (
                "        fragment.setdefault(bitmap, values)\n        if sum(fragment) != self.everyone:\n",
                "        fragment[len(fragment)] = values\n        if len(fragment) < self.everyone.bit_count():\n",
            ),
        ),
        frozenset({"serves", "network"}),
        _SERVER,
    ),
]
