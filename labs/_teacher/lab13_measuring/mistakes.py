"""Typical mistakes in lab 13."""

from __future__ import annotations

from labs._teacher import Mistake

_FILE, _ANSWERS = "experiment.yaml", "answers.yaml"
_SWEEP = "  system: [esa, atp, switchml]\n  memory.aggregators: [16, 64, 512]\n"
MISTAKES = [
    Mistake(
        "too few repetitions",
        "three seeds, and numbers that are not those of the file any more",
        (("repetitions: 5\n", "repetitions: 3\n"),),
        frozenset({"seeds", "numbers"}),
        _FILE,
    ),
    Mistake(
        "another window for one system",
        "SwitchML has its usual window, ESA and ATP have one that somebody has found good",
        (
            (
                "  system: [esa, atp, switchml]\n",
                "  system: [esa, {name: atp, window: 16}, switchml]\n",
            ),
        ),
        frozenset({"fair", "numbers", "explained"}),
        _FILE,
    ),
    Mistake(
        "a figure without its axis",
        "all points as bars beside each other",
        (("  x: memory.aggregators\n", ""),),
        frozenset({"figure"}),
        _FILE,
    ),
    Mistake(
        "only what supports the claim",
        "leaves out the size of the memory with which nothing is gained",
        ((_SWEEP, _SWEEP.replace(", 512", "")),),
        frozenset({"fair", "numbers", "explained"}),
        _FILE,
    ),
    Mistake(
        "a small difference",
        "calls 1 % undecided, although the whole interval is above 1",
        (("0.00571}\n    verdict: slower\n", "0.00571}\n    verdict: undecided\n"),),
        frozenset({"holds"}),
        _ANSWERS,
    ),
    Mistake(
        "the wrong way round",
        "divides ESA's JCT by the other's",
        (("    ratio: {mean: 1.3843,", "    ratio: {mean: 0.7224,"),),
        frozenset({"numbers", "holds"}),
        _ANSWERS,
    ),
    Mistake(
        "what all have in common",
        "explains a difference by what does not differ",
        (("  measure: ps_packets\n", "  measure: computation\n"),),
        frozenset({"explained"}),
        _ANSWERS,
    ),
]
