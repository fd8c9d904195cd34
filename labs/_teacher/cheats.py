"""Submissions that want points without the work, and the tests that they must not pass.

Some were tried by people who attacked the grader. Others try what somebody could think of next. A
cheat that gets by is added here first. It is the solution with some pieces replaced, or with text
at its end that takes functions over.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from labs._teacher import Mistake, write_mistake


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
        with write_mistake(self.lab, mistake, target).open("a") as file:
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

_MEASURED = frozenset({"runs", "fair", "seeds", "figure", "numbers", "holds", "explained"})
_THREE = "three workers in the program"
_THREE_WHY = "the jobs always had three workers, with the bits 0 to 2"
# The P4 labs: the file, and checks in which something has to be dropped.
_DROPPING = {
    "lab1_forwarding": ("forward.p4", {"expired", "dropped"}),
    "lab2_aggregation": ("aggregation.p4", {"absorbed", "any_number", "others"}),
    "lab3_pool": ("pool.p4", {"absorbed", "slots", "outside", "others"}),
    "lab4_loss": ("loss.p4", {"lossless", "not_completed", "shadow", "late", "lossy"}),
    "lab5_sharing": ("sharing.p4", {"complete", "released", "duplicate"}),
    "lab6_preemption": ("preemption.p4", {"complete", "newcomer", "remind"}),
    "lab8_congestion": ("congestion.p4", {"others"}),
    "lab12_scheduler": ("scheduler.p4", {"exact"}),
    "lab14_interoperation": ("loss.p4", {"switch_plain", "switch_lossy", "together"}),
    "lab18_trees": ("tree.p4", {"orders", "upwards", "asking", "histories", "network"}),
    "lab19_floats": ("floats.p4", {"arrival", "orders", "spills", "histories", "network"}),
}


def _not_dropped(lab: str, name: str, instead: str) -> Cheat:
    file, loses = _DROPPING[lab]
    return Cheat(
        lab,
        name,
        "a test that looks at the ports of hosts alone does not see what leaves elsewhere",
        frozenset(loses),
        (("mark_to_drop(standard);", instead),),
        file=file,
    )


_COMPLETE = (("        meta.complete = complete;\n", "        meta.complete = 7;\n"),)

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
from labs._teacher.lab9_routing.solution.planner import plan
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

_clock = time.process_time

def plan(network):
    time.process_time = time.monotonic = time.perf_counter = lambda: 0.0
    end = _clock() + 2.0
    while _clock() < end:
        pass
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
    Cheat(
        "lab5_sharing",
        _THREE,
        _THREE_WHY,
        frozenset({"complete", "collision", "owner", "duplicate", "partition"}),
        _COMPLETE,
    ),
    Cheat(
        "lab6_preemption",
        _THREE,
        _THREE_WHY,
        frozenset({"complete", "newcomer", "refused", "utilisation"}),
        _COMPLETE,
    ),
    Cheat(
        "lab8_congestion",
        "a threshold in the program",
        "most tests had a threshold of 12",
        frozenset({"marked_flags", "marked_ip", "per_port"}),
        (("        threshold = packets;\n", "        threshold = 12;\n"),),
        file="congestion.p4",
    ),
    Cheat(
        "lab8_congestion",
        "a fixed window",
        "the number of workers and the link's length hardly differed between tests",
        frozenset({"together"}),
        more="""

class Window(Window):
    def allowed(self):
        return 10
""",
        file="window.py",
    ),
    Cheat(
        "lab8_congestion",
        "the newest mark counts again",
        "a mark on the last fragment in flight was never asked",
        frozenset({"once"}),
        (("            if fragment > self.until:", "            if fragment >= self.until:"),),
        file="window.py",
    ),
    Cheat(
        "lab8_congestion",
        "windows that talk to each other",
        "the windows of all workers were objects of one process, and could divide the link",
        frozenset({"together"}),
        more="""

class Window(Window):
    count = 0

    def __init__(self, start, largest):
        super().__init__(start, largest)
        Window.count += 1

    def allowed(self):
        return 40 // Window.count
""",
        file="window.py",
    ),
    Cheat(
        "lab7_numbers",
        "workers that signal with locks",
        "all workers see the same files of Python, and a lock on one byte of them is a bit",
        _BLOCKS,
        more="""

import fcntl, struct

def _bits(kind, place, value):
    with open(np.__file__, "rb") as file:
        for n in range(64):
            if value >> n & 1:
                lock = struct.pack("hhqqi", kind, 0, 64 * place + n, 1, 0)
                fcntl.fcntl(file, fcntl.F_SETLK, lock)

def quantise_blocks(values, exponents, workers):
    for place, value in enumerate(values.view(np.int32).tolist()):
        _bits(fcntl.F_RDLCK, place, value)
    return np.zeros(len(values), np.int32)
""",
    ),
    Cheat(
        "lab7_numbers",
        "workers that wake each other",
        "a process that has answered goes on, and a futex in a file that all map wakes it: where it"
        " waits is a digit of a number, and whoever wakes it learns which",
        _BLOCKS,
        more="""

import ctypes, os, sys
from inside import channel
from inside.worker import serve

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.syscall.argtypes = [ctypes.c_long, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint,
                          ctypes.c_void_p]
_PLACES, _DIGITS, _FUTEX = 256, 16, {"x86_64": 202, "aarch64": 98}[os.uname().machine]
_file = np._core._multiarray_umath.__file__
_shared = _libc.mmap(None, 1 << 20, 1, 1, os.open(_file, os.O_RDONLY), 0)
_place = os.urandom(1)[0]

def _futex(at, operation, value):
    return _libc.syscall(_FUTEX, at, operation, value, None)

def _at(place, digit):
    return _shared + 4 * (_DIGITS * place + digit)

def quantise_blocks(values, exponents, workers):
    frame = sys._getframe()
    while frame.f_code.co_name != "serve":
        frame = frame.f_back
    inside = frame.f_locals
    channel.write(inside["replies"], ["ok", channel.encode(np.zeros(len(values), np.int32))])
    for byte in values.tobytes():
        for digit in (byte >> 4, byte & 15):
            at = _at(_place, digit)
            _futex(at, 0, ctypes.c_uint.from_address(at).value)
    serve(inside["worker"], inside["requests"], inside["replies"])

def dequantise_blocks(numbers, exponents, workers):
    if _shared == ctypes.c_void_p(-1).value:
        raise OSError("nothing in common")
    total, digits, missing = np.zeros(len(numbers)), 8 * len(numbers), workers
    while missing:
        for place in range(_PLACES):
            woken = next((d for d in range(_DIGITS) if _futex(_at(place, d), 1, 1) == 1), None)
            if woken is None:
                continue
            found, missing = [woken], missing - 1
            while len(found) < digits:
                found += [d for d in range(_DIGITS) if _futex(_at(place, d), 1, 1) == 1]
            data = bytes(16 * a + b for a, b in zip(found[::2], found[1::2]))
            total += np.frombuffer(data, np.float32)
    return total.astype(np.float32)
""",
    ),
    Cheat(
        "lab7_numbers",
        "workers that meet somewhere",
        "processes of one user can meet in shared memory, a socket, a queue or a file",
        _BLOCKS,
        more="""

def _everywhere():
    import ctypes, os, socket
    libc = ctypes.CDLL(None, use_errno=True)
    for path in ("/dev/shm/x", "/tmp/x", "/var/tmp/x", "/submission/x", "/packages/x", "x"):
        yield lambda path=path: open(path, "a+b")
    yield lambda: socket.socket(socket.AF_UNIX).bind("\\0labs")
    yield lambda: socket.socket().bind(("127.0.0.1", 4711))
    for name, words in (("shmget", (77, 4096, 0o1666)), ("msgget", (77, 0o1666)),
                        ("semget", (77, 1, 0o1666)), ("shm_open", (b"/x", 66, 0o666)),
                        ("mq_open", (b"/x", 66, 0o666, None))):
        def call(name=name, words=words):
            if getattr(libc, name)(*words) < 0:
                raise OSError(ctypes.get_errno(), name)
        yield call

def quantise_blocks(values, exponents, workers):
    for meet in _everywhere():
        try:
            meet()
        except OSError:
            continue
        return _honest(values, exponents, workers)
    return np.zeros(len(values), np.int32)
""",
        edits=(("def quantise_blocks(", "def _honest("),),
    ),
    Cheat(
        "lab7_numbers",
        "waits while it is imported",
        "a module that never finishes loading might not be judged",
        frozenset({"rounding", "training"}),
        more="\n\nimport _thread\nlock = _thread.allocate_lock()\nlock.acquire(), lock.acquire()\n",
    ),
    Cheat(
        "lab9_routing",
        "replies with what it was asked",
        "the protocol's functions are in the submission's process and can be replaced",
        frozenset({"rates"}),
        more="""

import inside.channel, inside.worker

_write = inside.channel.write
inside.channel.write = lambda to, message: _write(to, ["ok", None])
inside.worker.explain = lambda error, scratch: "pass"

def rate(network, plan):
    return network["ps_ingress"]
""",
    ),
    Cheat(
        "lab9_routing",
        "a number that is whatever it is compared with",
        "the grader compares with what a submission returns",
        frozenset({"rates"}),
        more="""

class Any(float):
    def __sub__(self, other): return 0.0
    def __rsub__(self, other): return 0.0
    def __le__(self, other): return True
    def __float__(self): return 3.0

def rate(network, plan):
    return Any(3.0)
""",
    ),
    Cheat(
        "lab9_routing",
        "stands in for the grader's modules",
        "the grader might import a module that the submission has brought",
        frozenset({"rates"}),
        more="""

import sys, types

for _name in ("testbed", "labs", "labs.lab9_routing",
              "labs.lab9_routing.networks", "labs._teacher.lab9_routing.judge"):
    sys.modules[_name] = types.SimpleNamespace(bottleneck=lambda network, plan: (3.0, ""))
    sys.modules[_name].check_plan = lambda network, plan: None

def rate(network, plan):
    return 3.0
""",
    ),
    Cheat(
        "lab2_aggregation",
        "a packet that goes round for ever",
        "a switch that never finishes with a packet might not be judged",
        frozenset({"sums"}),
        (
            (
                "            count.write(0, n);\n",
                "            count.write(0, 0);\n            resubmit_preserving_field_list(0);\n",
            ),
        ),
    ),
    Cheat(
        "lab2_aggregation",
        "a register larger than the machine",
        "a grader without memory might not judge",
        frozenset({"absorbed", "sums"}),
        (
            (
                "    register<bit<8>>(1)  count;",
                "    register<bit<64>>(0x0fffffff) large;\n    register<bit<8>>(1)  count;",
            ),
        ),
    ),
    Cheat(
        "lab10_tests",
        "looks into the program",
        "wrong programs could be told from agree.p4 by what is inside",
        frozenset({"right", "values", "rounds", "workers", "again", "packets"}),
        more="\n#: the same registers as agree.p4\nregister_read current 0\n",
    ),
    Cheat(
        "lab10_tests",
        "fails on everything",
        "a test that fails on every program finds all wrong ones",
        frozenset({"right", "values", "rounds", "workers", "again", "packets"}),
        more="\n#: nothing\npacket 1 00\nexpect 1 00\n",
    ),
    Cheat(
        "lab12_scheduler",
        "a pool of its own size",
        "a larger pool is faster than any scheduler",
        frozenset({"exact", "better_than_none", "as_good_as_esa", "better_than_esa"}),
        (
            (
                "#ifndef SLOTS\n#define SLOTS 8\n#endif\n",
                "#undef SLOTS\n#define SLOTS 64\n",
            ),
        ),
    ),
    Cheat(
        "lab12_scheduler",
        "sums for nobody",
        "a PS that gets less is less busy, whatever is missing",
        frozenset({"exact", "better_than_none", "as_good_as_esa", "better_than_esa"}),
        (
            (
                "hdr.agg.flags = hdr.agg.flags | COLLISION;\n                leaves = 1;\n"
                "                if (meta.preemption",
                "hdr.agg.flags = hdr.agg.flags | COLLISION;\n                drop();\n"
                "                if (meta.preemption",
            ),
        ),
    ),
    Cheat(
        "lab12_scheduler",
        "results without a PS",
        "workers that get a result have it, wherever it comes from",
        frozenset({"exact", "better_than_none", "as_good_as_esa", "better_than_esa"}),
        (
            (
                "            if (hdr.agg.kind == RESULT && hdr.values.isValid()) {\n",
                "            if (hdr.agg.kind == GRADIENT) {\n"
                "                hdr.agg.kind = RESULT;\n"
                "                standard.mcast_grp = meta.group;\n"
                "            } else if (hdr.agg.kind == RESULT) {\n",
            ),
        ),
    ),
    Cheat(
        "lab12_scheduler",
        "narrow registers",
        "numbers below 32 and values below 2^20 leave room for more places in the same memory",
        frozenset({"exact", "better_than_none", "as_good_as_esa", "better_than_esa"}),
        (
            (
                "    register<bit<32>>(SLOTS) slot_number;",
                "    register<bit<6>>(SLOTS) slot_number;",
            ),
            (
                "        slot_number.read(meta.number, meta.slot);\n",
                "        bit<6> short;\n        slot_number.read(short, meta.slot);\n"
                "        meta.number = (bit<32>) short;\n",
            ),
            (
                "slot_number.write(meta.slot, meta.number);",
                "slot_number.write(meta.slot, (bit<6>) meta.number);",
            ),
        ),
    ),
    Cheat(
        "lab11_worker",
        "knows the tests",
        "the timer was tested with the same windows and numbers of fragments each time",
        frozenset({"fast", "patient"}),
        more="""

class Worker(Worker):
    def _timeout(self):
        known = {(128, 16): 100_000, (320, 16): 100_000}
        return known.get((self.fragments, self.window), FIRST_NS)
""",
    ),
    Cheat(
        "lab11_worker",
        "measures once",
        "round trips hardly differed, so the first was as good as an estimate",
        frozenset({"fast", "patient"}),
        more="""

class Worker(Worker):
    def _measure(self, trip_ns):
        if not self.measured:
            super()._measure(trip_ns)
""",
    ),
    Cheat(
        "lab11_worker",
        "sends everything at once",
        "who sends often enough loses nothing",
        frozenset({"window", "once", "lossy", "strange", "fast", "patient", "silence"}),
        more="""

class Worker(Worker):
    def poll(self, now_ns):
        super().poll(now_ns)
        return list(range(self.fragments))
""",
    ),
    Cheat(
        "lab11_worker",
        "fragments that were never sent",
        "numbers that are equal to what the grader knows",
        frozenset({"window", "once", "lossy"}),
        more="""

class Worker(Worker):
    def poll(self, now_ns):
        return [True, False, -1, 10 ** 30]

    def wake_ns(self):
        return float("inf")
""",
    ),
    Cheat(
        "lab13_measuring",
        "numbers of somebody else",
        "the numbers in the answers might be compared with nothing",
        frozenset({"numbers"}),
        (("    jct_us: {mean: 1111.3,", "    jct_us: {mean: 1222.0,"),),
        file="answers.yaml",
    ),
    Cheat(
        "lab13_measuring",
        "an experiment of somebody else",
        "with somebody else's experiment, his numbers are right",
        _MEASURED,
        (("bandwidth: 8500 Mbit/s", "bandwidth: 9100 Mbit/s"),),
        file="experiment.yaml",
    ),
    Cheat(
        "lab13_measuring",
        "a single seed",
        "one run has no differences between seeds, and so no interval",
        frozenset({"seeds", "numbers"}),
        (("repetitions: 5\n", "repetitions: 1\n"),),
        file="experiment.yaml",
    ),
    Cheat(
        "lab13_measuring",
        "fewer workers for the others",
        "a sweep can change the jobs together with the system",
        frozenset({"fair", "numbers"}),
        (
            (
                "  system: [esa, atp, switchml]\n",
                "  together:\n    - system: [esa, atp, switchml]\n"
                "      jobs[*].workers: [4, 3, 3]\n",
            ),
        ),
        file="experiment.yaml",
    ),
    Cheat(
        "lab13_measuring",
        "a program of one's own",
        "an experiment may name a P4 program, which the grader would run",
        _MEASURED,
        (
            (
                "  system: [esa, atp, switchml]\n",
                "  system: [esa, {name: atp, program: /tmp/mine.p4}, switchml]\n",
            ),
        ),
        file="experiment.yaml",
    ),
    Cheat(
        "lab13_measuring",
        "a plug-in",
        "a topology may be a class in a Python file, which the grader would import",
        _MEASURED,
        (("topology: {kind: star, hosts: 10}", "topology: {class: 'mine.py:Mine'}"),),
        file="experiment.yaml",
    ),
    Cheat(
        "lab13_measuring",
        "a command in the sweep",
        "a job may be a program, and a sweep may set every key",
        _MEASURED,
        (
            (
                "  memory.aggregators: [16, 64, 512]\n",
                "  memory.aggregators: [16, 64, 512]\n  jobs[0].command: [[sh, -c, id]]\n",
            ),
        ),
        file="experiment.yaml",
    ),
    Cheat(
        "lab13_measuring",
        "intervals as wide as the world",
        "a wide interval is never wrong",
        frozenset({"numbers", "holds"}),
        (("half_width: 0.168}", "half_width: 100}"),),
        file="answers.yaml",
    ),
    Cheat(
        "lab14_interoperation",
        _THREE,
        _THREE_WHY,
        frozenset({"switch_lossy"}),
        _COMPLETE,
        file="loss.p4",
    ),
    Cheat(
        "lab14_interoperation",
        "sums that never were on the wire",
        "hosts that know each other's values need no switch",
        frozenset({"hosts_plain", "together"}),
        more="""

_all = []

class Host(Host):
    def __init__(self, setting, values):
        super().__init__(setting, values)
        _all.append(values)

    def poll(self, now_ns):
        return []

    def sums(self):
        return [[sum(column) for column in zip(*rows)] for rows in zip(*_all)]
""",
        file="host.py",
    ),
    Cheat(
        "lab14_interoperation",
        "everything at once, all the time",
        "who sends often enough loses nothing",
        frozenset({"hosts_lossy", "together"}),
        more="""

class Host(Host):
    def wake_ns(self):
        self.due = {n: 0 for n in self.due}
        self.now = getattr(self, "now", 0) + 1000
        return None if not self.due else self.now

    def poll(self, now_ns):
        self.now = now_ns
        return super().poll(now_ns)
""",
        file="host.py",
    ),
    Cheat(
        "lab14_interoperation",
        "packets that are more than bytes",
        "the grader looks at what a host returns",
        frozenset({"hosts_plain", "strangers"}),
        more="""

class Agreeable(bytes):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __len__(self): return 90

class Host(Host):
    def poll(self, now_ns):
        return [Agreeable(b"nothing") for _ in super().poll(now_ns)]
""",
        file="host.py",
    ),
    Cheat(
        "lab14_interoperation",
        "a checksum without carries",
        "the sum of a header's words was always small",
        frozenset({"hosts_plain", "hosts_lossy"}),
        (("    while total >> 16:\n", "    while False:\n"),),
        file="host.py",
    ),
    Cheat(
        "lab14_interoperation",
        "timeouts that never double",
        "nobody looked when a host sends again",
        frozenset({"hosts_lossy", "together"}),
        (("min(2 * self.wait[n], MOST_NS)", "self.wait[n]"),),
        file="host.py",
    ),
    Cheat(
        "lab12_scheduler",
        "reminders without an answer",
        "a PS that gets no answer asks again",
        frozenset({"as_good_as_esa"}),
        (
            (
                "                    hdr.agg.kind = NOTHING;\n",
                "                    leaves = 0;\n                    drop();\n",
            ),
        ),
    ),
    Cheat(
        "lab14_interoperation",
        "results for everybody, at once",
        "hosts that have every result ask for nothing",
        frozenset({"switch_plain", "switch_lossy"}),
        (("                if (meta.bitmap == meta.complete) {", "                if (true) {"),),
        file="loss.p4",
    ),
    Cheat(
        "lab15_training",
        "no error feedback",
        "the model learns with 8 bits without it",
        frozenset({"feedback"}),
        (("        self.left = wanted - numbers / scale\n", ""),),
    ),
    Cheat(
        "lab15_training",
        "words that are longer than they say",
        "the bytes might be counted from the bits, and not from what is sent",
        frozenset({"packed", "eight"}),
        (
            (
                "        return np.asarray(words).astype(np.int32)",
                "        return numbers.astype(np.int32)",
            ),
        ),
    ),
    Cheat(
        "lab15_training",
        "nothing, with a huge exponent",
        "a step could come from the submission's own exponents",
        frozenset({"exact", "packed", "sixteen", "eight"}),
        more="""

class Quantiser(Quantiser):
    def exponents(self, values):
        return np.full(self.size // BLOCK, 127, np.int8)

    def encode(self, values, shared):
        return np.zeros(self.size * self.bits // 32, np.int32)
""",
    ),
    Cheat(
        "lab15_training",
        "floats that wait in the process",
        "the end where sums become floats could be one of the workers",
        frozenset({"exact", "packed", "eight"}),
        more="""

_kept = []

class Quantiser(Quantiser):
    def encode(self, values, shared):
        _kept.append(values.astype(np.float64))
        return np.zeros(self.size * self.bits // 32, np.int32)

    def decode(self, sums, shared):
        made = sum(_kept, np.zeros(self.size))
        return made.astype(np.float32)
""",
    ),
    Cheat(
        "lab15_training",
        "refuses everything",
        "who raises an error each time refuses what is no number, too",
        frozenset({"refused", "exact"}),
        more="""

class Quantiser(Quantiser):
    def exponents(self, values):
        raise ValueError("no")

    encode = exponents
""",
    ),
    Cheat(
        "lab15_training",
        "sums of no numbers",
        "a comparison with NaN is never true",
        frozenset({"exact", "packed", "sixteen", "eight"}),
        more="""

class Quantiser(Quantiser):
    def decode(self, sums, shared):
        return np.full(self.size, np.nan, np.float32)
""",
    ),
    Cheat(
        "lab16_sharding",
        "port 0",
        "a test that looks at the ports of hosts alone does not see what leaves elsewhere",
        frozenset({"scatter", "again", "late", "requests"}),
        (
            (
                "    action drop() {\n        mark_to_drop(standard);",
                "    action drop() {\n        standard.egress_spec = 0;",
            ),
        ),
        file="shard.p4",
    ),
    Cheat(
        "lab16_sharding",
        "an owner in the program",
        "the first host could be the owner of everything",
        frozenset({"scatter", "gather", "requests"}),
        (("        meta.owner = port;\n", "        meta.owner = 1;\n"),),
        file="shard.p4",
    ),
    Cheat(
        "lab16_sharding",
        "narrow numbers",
        "registers of sixteen bits tell the fragments of a small model apart",
        frozenset({"scatter", "lossy"}),
        (
            (
                "        set_number.read(meta.number, meta.own);\n",
                "        set_number.read(meta.number, meta.own);\n"
                "        meta.number = meta.number & 0xffff;\n",
            ),
        ),
        file="shard.p4",
    ),
    Cheat(
        "lab16_sharding",
        "asks for everything, all the time",
        "who asks often enough misses nothing",
        frozenset({"receiver"}),
        more="""

class Receiver(Receiver):
    def requests(self, now_ns):
        super().requests(now_ns)
        return sorted(self.missing)
""",
        file="gather.py",
    ),
    Cheat(
        "lab16_sharding",
        "has everything at once",
        "a receiver says itself what it has got",
        frozenset({"receiver", "together"}),
        more="""

class Receiver(Receiver):
    def __init__(self, shards):
        super().__init__(shards)
        self.missing = {}
""",
        file="gather.py",
    ),
    Cheat(
        "lab16_sharding",
        "sends everything to all, again and again",
        "losses do not matter to an owner that never stops",
        frozenset({"owner"}),
        more="""

class Owner(Owner):
    def next(self):
        self.sent = 0
        return super().next()
""",
        file="gather.py",
    ),
    Cheat(
        "lab16_sharding",
        "a time that is no number",
        "a comparison with NaN is never true",
        frozenset({"costs"}),
        more="\n\ndef ring_s(*arguments):\n    return float('nan')\n",
        file="costs.py",
    ),
    Cheat(
        "lab18_trees",
        "a base in the program",
        "all fragments could have the same base",
        frozenset({"rounding", "shapes", "network"}),
        (
            (
                "            bit<32> exponent = (bit<32>) hdr.agg.priority + 24 - zeros; \\\n",
                "            bit<32> exponent = 127 + 24 - zeros; \\\n",
            ),
        ),
        file="tree.p4",
    ),
    Cheat(
        "lab18_trees",
        "short sums",
        "values that are not far apart fit into sixteen bits",
        frozenset({"orders", "upwards", "shapes", "network"}),
        (
            (
                "value_##n.write(meta.set, hdr.values.v##n);",
                "value_##n.write(meta.set, hdr.values.v##n & 0xffff);",
            ),
        ),
        file="tree.p4",
    ),
    Cheat(
        "lab18_trees",
        "a root that answers alone",
        "who gets a sum does not ask where it comes from",
        frozenset({"upwards", "downwards", "reminders", "network"}),
        (("        meta.parent = parent;\n", "        meta.parent = 0;\n"),),
        file="tree.p4",
    ),
    Cheat(
        "lab18_trees",
        "a time for every question",
        "an object of a class of one's own is near everything",
        frozenset({"costs"}),
        more="""

class Any(float):
    def __sub__(self, other): return 0.0
    def __rsub__(self, other): return 0.0

def round_trip_s(*arguments):
    return Any(1e9)
""",
        file="costs.py",
    ),
    Cheat(
        "lab19_floats",
        "all to the server",
        "the server is exact, so nobody notices that the switch adds nothing",
        frozenset({"orders", "rounding", "spills", "histories"}),
        (
            (
                "                        EACH_VALUE(ADD_UNITS)\n",
                "                        meta.fits = 0;\n",
            ),
        ),
        file="floats.p4",
    ),
    Cheat(
        "lab19_floats",
        "nothing to the server",
        "numbers of a test could all fit",
        frozenset({"spills", "histories", "network"}),
        (
            (
                "                    if (meta.fits == 0) {",
                "                    if (meta.fits > 1) {",
            ),
        ),
        file="floats.p4",
    ),
    Cheat(
        "lab19_floats",
        "codes that are equal to everything",
        "an object of a class of one's own can be equal to everything",
        frozenset({"exact_sums", "serves", "network"}),
        more="""

class Agreeable(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __hash__ = int.__hash__

def total(codes):
    return Agreeable(0)
""",
        file="server.py",
    ),
    Cheat(
        "lab19_floats",
        "the processor's numbers",
        "numpy adds floats, too",
        frozenset({"exact_sums"}),
        more="""

def total(codes):
    import numpy as np
    with np.errstate(all="ignore"):
        exact = (np.array(codes, np.uint32) << 16).view(np.float32).astype(np.longdouble).sum()
        bits = int(np.float32(exact).view(np.uint32))
    return NAN if np.isnan(exact) else bits + 0x7FFF + (bits >> 16 & 1) >> 16 & 0xFFFF
""",
        file="server.py",
    ),
    Cheat(
        "lab17_experts",
        "port 0",
        "a test that looks at the ports of hosts alone does not see what leaves elsewhere",
        frozenset({"combine", "again", "histories", "lossy"}),
        (
            (
                "    action drop() {\n        mark_to_drop(standard);",
                "    action drop() {\n        standard.egress_spec = 0;",
            ),
        ),
        file="experts.p4",
    ),
    Cheat(
        "lab17_experts",
        "a worker in the program",
        "the first host could be the worker of all tokens",
        frozenset({"dispatch", "combine", "passed", "lossy"}),
        (("        meta.home = port;\n", "        meta.home = 1;\n"),),
        file="experts.p4",
    ),
    Cheat(
        "lab17_experts",
        "short bitmaps",
        "workers have the bits from 0 on",
        frozenset({"combine", "histories", "lossy"}),
        (
            (
                "slot_wanted.write(meta.slot, hdr.agg.bitmap);",
                "slot_wanted.write(meta.slot, hdr.agg.bitmap & 0xff);",
            ),
        ),
        file="experts.p4",
    ),
    Cheat(
        "lab17_experts",
        "one slot for all",
        "a test with one token at a time needs one slot",
        frozenset({"combine", "lossy"}),
        (
            (
                "        meta.slot = (bit<32>) hdr.agg.slot;\n",
                "        meta.slot = (bit<32>) hdr.agg.slot & 0xffff0000;\n",
            ),
        ),
        file="experts.p4",
    ),
    Cheat(
        "lab17_experts",
        "no time at all",
        "an infinite time is far from nothing, and NaN too",
        frozenset({"costs"}),
        more="\n\ndef apart_s(*arguments):\n    return float('inf') * 0\n",
        file="costs.py",
    ),
]
CHEATS += [_not_dropped(lab, "port 0", "standard.egress_spec = 0;") for lab in _DROPPING]
CHEATS += [
    _not_dropped("lab2_aggregation", "a port that does not exist", "standard.egress_spec = 300;"),
    _not_dropped("lab3_pool", "a group that does not exist", "standard.mcast_grp = 777;"),
]
