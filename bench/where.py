"""The parts of a run's time: host send, host receive, host machine, switch, and what is checked.

    sudo .venv/bin/python -m bench where [--systems esa,atp,switchml] [--offload off]

The experiment of end_to_end.yaml under `perf record` (Debian: linux-perf), which looks at all cores
a thousand times a second. A sample counts for the part whose system call is on its stack; so what
the kernel does in the sender's name is part of its sending: a host's packet as far as into the
switch's ring, a switch's packet as far as into the host's socket, and the waking of the process
that waits for it. All in microseconds of processor time per gradient packet.

Generating and checking values is part of a host's machine; compiled code has no names that perf
could tell, so it is timed on its own, one packet after the other.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from numba import njit

from bench import harness
from testbed.protocols import values

SAMPLES_PER_S = 999
# The parts of a process by the first of these names on the stack of a sample; else "program".
HOST_PARTS = (("sendmmsg", "send"), ("recvmmsg", "receive"), ("poll", "sleep and wake"))
SWITCH_PARTS = (("sendmmsg", "send"), ("poll", "sleep and wake"))
TITLES = {"host program": "host machine", "switch program": "switch pipeline and queues"}
REPEATS = 200_000


def part_of(process: str, stack: str) -> str:
    """The part of the run that a sample of a process belongs to."""
    if process.startswith("ina-h"):
        kind, parts = "host", HOST_PARTS
    elif process.startswith("ina-s"):
        kind, parts = "switch", SWITCH_PARTS
    else:
        return "idle" if process == "swapper" else "everything else on this machine"
    name = next((part for call, part in parts if call in stack), "program")
    return TITLES.get(f"{kind} {name}", f"{kind} {name}")


def samples(record: Path) -> Counter[str]:
    """Samples per part of a recording, from the first packet that a host sends to the last one:
    before that, hosts load their code."""
    done = subprocess.run(
        ["perf", "script", "-i", str(record), "-F", "comm,time,ip,sym"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: list[tuple[float, str]] = []
    for sample in done.stdout.split("\n\n"):
        head, _, stack = sample.strip().partition("\n")
        if head:
            process, time_s = head.rstrip(" :").rsplit(maxsplit=1)
            found.append((float(time_s), part_of(process.strip(), stack)))
    sent = [time_s for time_s, part in found if part == "host send"]
    return Counter(part for time_s, part in found if min(sent) <= time_s <= max(sent))


def where(system: str, scale: float, offload: str) -> None:
    """Print the parts of one system's run; scale, offload: those of end_to_end.yaml."""
    changes = [f"system={system}", "values_per_packet=64", f"jobs[*].scale={scale}"]
    bench = harness.load("end_to_end", [*changes, "jobs[*].iterations=10", f"offload={offload}"])
    bench.rounds = 1
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "perf.data"
        with subprocess.Popen(
            ["perf", "record", "-a", "-g", "-q", "-F", str(SAMPLES_PER_S), "-o", str(record)],
            stderr=subprocess.DEVNULL,
        ) as perf:
            try:
                (run,) = harness.measure(bench, columns=[harness.packets, harness.packet_rate])
            finally:
                perf.terminate()
        counts = samples(record)
    ((packets, rate),) = run.rounds
    print(f"{system}: {rate:,.0f} gradient packets/s, {run.marks[0]}")
    for part, count in sorted(counts.items()):
        if part.startswith(("host", "switch")):
            print(f"  {part:<32} {1e6 * count / SAMPLES_PER_S / packets:6.2f} us/packet")


@njit
def _generate(row, times):
    for key in range(times):
        values.write_generated(row[key & 255], 10, 64, np.uint32(key), 7, 8)


@njit
def _check(row, times):
    wrong = 0
    for key in range(times):
        wrong += values.wrong_generated(row[key & 255], 10, 64, np.uint32(key), 7, 8) >= 0
    return wrong


def payload() -> None:
    """Print what generating and checking the values of a packet takes."""
    rows = np.zeros((256, 80), np.uint32)
    for title, work in (("generating", _generate), ("checking", _check)):
        work(rows, 1)
        begin = time.perf_counter()
        work(rows, REPEATS)
        each = (time.perf_counter() - begin) / REPEATS
        print(f"{title} 64 values: {1e6 * each:.3f} us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--systems", default="esa,atp,switchml", help="comma-separated")
    parser.add_argument("--scale", type=float, default=0.3, help="of the model")
    parser.add_argument("--offload", default="auto", choices=("auto", "on", "off"))
    options = parser.parse_args()
    if shutil.which("perf") is None:
        raise SystemExit("perf is missing: install linux-perf (Ubuntu: linux-tools-generic)")
    print(harness.machine())
    for system in options.systems.split(","):
        where(system, options.scale, options.offload)
    payload()
