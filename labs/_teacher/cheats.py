"""Submissions that want points without the work, and the tests that they must not pass.

Some were tried by people who attacked the grader. Others try what somebody could think of next. A
cheat that gets by is added here first. It is the solution with some pieces replaced, or with text
at its end that takes functions over.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from testbed.labs._teacher import Mistake, solution, write_mistake


@dataclass(frozen=True)
class Cheat:
    """A cheat.

    Args:
        lab: name of the lab.
        name: of the cheat.
        why: what it counts on.
        loses: names of the checks that must not be passed; what becomes of others is no matter.
        edits: (old, new) texts in the solution's file.
        more: text behind the solution's.
        file: of the solution; "" if it has only one.
    """

    lab: str
    name: str
    why: str
    loses: frozenset[str]
    edits: tuple[tuple[str, str], ...] = ()
    more: str = ""
    file: str = ""

    def write(self, target: Path) -> None:
        """Write the submission to the new folder `target`."""
        mistake = Mistake(self.name, self.why, self.edits, self.loses, self.file)
        write_mistake(self.lab, mistake, target)
        name = self.file or next(p.name for p in sorted(solution(self.lab).iterdir()))
        with (target / name).open("a") as file:
            file.write(self.more)


_BLOCKS = frozenset({"block_sums", "training"})
_PLANS = frozenset({"on_mesh", "on_leaf_spine"})
_SEARCH = """

_real = {function}

def {function}(*arguments):
    import gc, sys
    frame, seen = sys._getframe(1), []
    while frame is not None:
        seen += list(frame.f_locals.values())
        frame = frame.f_back
    numbers = [x for x in seen + gc.get_objects() if type(x) is float and 0 < x < 100]
    return numbers[0] if numbers else 0.0
"""

CHEATS = [
    Cheat(
        "lab1_forwarding",
        "no TTL and no checksum",
        "a header that has not changed has a right checksum",
        frozenset({"ttl", "checksum"}),
        (
            ("        hdr.ip.ttl = hdr.ip.ttl - 1;\n", ""),
            ("update_checksum(hdr.ip.isValid(),", "update_checksum(hdr.ip.ttl == 0,"),
        ),
        file="forward.p4",
    ),
    Cheat(
        "lab4_loss",
        "bitmap in the program",
        "there were always three workers, with the bits 0 to 2",
        frozenset({"lossless", "doubled", "retransmission", "shadow", "again", "late", "lossy"}),
        (("        meta.complete = complete;\n", "        meta.complete = 7;\n"),),
    ),
    Cheat(
        "lab4_loss",
        "bits counted from 0",
        "the workers have the bits from 0 on, however many there are",
        frozenset({"lossless", "again", "lossy"}),
        (
            (
                "        meta.complete = complete;\n",
                "        meta.complete = ((bit<32>) 1 << workers) - 1;\n",
            ),
        ),
    ),
    Cheat(
        "lab7_numbers",
        "floats behind the quantiser's back",
        "all workers were functions of one process, with its globals",
        _BLOCKS,
        more="""

_kept = []

def quantise_blocks(values, exponents, workers):
    _kept.append(values.astype(np.float64))
    return np.zeros(len(values), np.int32)

def dequantise_blocks(numbers, exponents, workers):
    made = sum(_kept, np.zeros(len(numbers)))
    _kept.clear()
    return made.astype(np.float32)
""",
    ),
    Cheat(
        "lab7_numbers",
        "nothing, with a huge exponent",
        "the tolerance came from the submission's own exponents",
        _BLOCKS,
        more="""

def block_exponents(values):
    return np.full(len(values) // BLOCK, 127, np.int8)

def quantise_blocks(values, exponents, workers):
    return np.zeros(len(values), np.int32)
""",
    ),
    Cheat(
        "lab7_numbers",
        "no numbers at all",
        "a comparison with NaN is never true",
        frozenset({"inverse", "scales", "block_sums", "training"}),
        more="""

def dequantise(numbers, scale):
    return np.full(len(numbers), np.nan, np.float32)

dequantise_blocks = lambda numbers, exponents, workers: dequantise(numbers, 1)
safe_scale = lambda largest, workers: float("nan")
""",
    ),
    Cheat(
        "lab7_numbers",
        "arrays that say what the test wants to hear",
        "an object of a class of one's own can be equal to everything",
        frozenset({"rounding", "saturation"}),
        more="""

class Agreeable(np.ndarray):
    def __ne__(self, other): return np.zeros(len(self), bool)
    def __eq__(self, other): return np.ones(len(self), bool)

def quantise(values, scale):
    return np.zeros(len(values), np.int32).view(Agreeable)
""",
    ),
    Cheat(
        "lab9_routing",
        "plans by the shape of the network",
        "the two test networks were always the same, but for their names",
        _PLANS,
        more="""

def plan(network):
    made = plan_nearest(network)
    home = {w: made["workers"][w][0] for w in network["workers"]}
    counts = Counter(home.values())
    if sorted(counts.values()) == [2, 2, 4] and len(network["switches"]) == 3:
        full = max(counts, key=counts.get)
        third = next(n for a, b, _ in network["links"] for n in (a, b)
                     if network["ps"] in (a, b) and n != network["ps"])
        other = next(s for s in counts if s not in (full, third))
        mover = next(w for w in home if home[w] == full)
        made["workers"][mover] = [other, [mover, full, other]]
    return made
""",
    ),
    Cheat(
        "lab9_routing",
        "imports the solution",
        "in a checkout, the testbed and the teacher's folder were there",
        frozenset({"rates", "none", "nearest", "valid", *_PLANS, "never_worse"}),
        more="""
from testbed.labs._teacher.lab9_routing.solution.planner import plan
""",
    ),
    Cheat(
        "lab9_routing",
        "looks for the answer in the process",
        "the expected rate is somewhere in memory",
        frozenset({"rates"}),
        more=_SEARCH.format(function="rate"),
    ),
    Cheat(
        "lab9_routing",
        "answers for the grader",
        "the connection to the grader is open in the submission's process",
        frozenset({"rates"}),
        more="""

def rate(network, plan):
    import json, os, struct
    text = json.dumps(["ok", 3.0]).encode()
    for number in range(3, 64):
        try:
            os.write(number, (struct.pack("<I", len(text)) + text) * 40)
        except OSError:
            pass
    return 3.0
""",
    ),
    Cheat(
        "lab9_routing",
        "stops the clock",
        "a clock that the submission can reach does not see what it uses",
        frozenset({"valid", *_PLANS, "never_worse"}),
        more="""

def plan(network):
    time.process_time = time.monotonic = time.perf_counter = lambda: 0.0
    for number in range(1, 60000000):
        number * number
    return plan_nearest(network)
""",
    ),
    Cheat(
        "lab9_routing",
        "waits until it is not judged",
        "a test that takes too long on the clock is run again, and costs nothing",
        frozenset({"rates"}),
        more="""

def rate(network, plan):
    import _thread
    lock = _thread.allocate_lock()
    lock.acquire()
    lock.acquire()
""",
    ),
    Cheat(
        "lab9_routing",
        "an unlimited rate",
        "infinity is a float",
        frozenset({"rates"}),
        more="\n\ndef rate(network, plan):\n    return float('inf')\n",
    ),
    Cheat(
        "lab9_routing",
        "a plan that changes the network",
        "the checks could value the plan in the network that the submission has got",
        _PLANS,
        more="""

def plan(network):
    for link in network["links"]:
        link[2] = 1000.0
    network["switches"] = {name: 1000.0 for name in network["switches"]}
    return plan_nearest(network)
""",
    ),
]
