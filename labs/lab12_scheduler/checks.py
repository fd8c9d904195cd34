"""Checks of lab 12: a scheduler for switch memory that is exact, and better than what is known.

Schedulers are compared by the mean time of a job, on workloads drawn at random. In a kit for
students there are some workloads, with the times of ESA and the others.
"""

from __future__ import annotations

import json
from pathlib import Path

from labs.grader.bench import Bench, Failure
from labs.grader.jobs import PORTS, SLOTS, VALUES, strangers
from labs.grader.lab import Lab
from labs.lab12_scheduler.workload import Result, Workload, draw, run, set_up

LAB = Lab(
    title="A memory scheduler of your own",
    hand_in=("scheduler.p4",),
    given=("packet.p4", "values.p4"),
    program="scheduler.p4",
    defines={"VALUES": VALUES, "SLOTS": SLOTS},
    ports=PORTS,
    judged=True,
)
PRACTICE = Path(__file__).with_name("practice.json")
# Of all registers: the slots as in the skeleton, and 320 bits for more; another slot needs 344.
MOST_BITS = SLOTS * (32 * VALUES + 88) + 320
NAMES = {"none": "no memory for anybody", "fcfs": "first come, first served", "esa": "ESA"}


def workloads(t: Bench, count: int, baseline: str) -> list[tuple[Workload, float]]:
    """Workloads, with the mean time of a job in ticks with a baseline."""
    judge = LAB.judge()
    if judge is None:
        known = list(enumerate(json.loads(PRACTICE.read_text())))
        return [(draw(seed), times[baseline]) for seed, times in t.random.sample(known, count)]
    some = [draw(t.random.getrandbits(48)) for _ in range(count)]
    return [(each, judge.baseline(t, each, baseline)) for each in some]


def scheduled(t: Bench, workload: Workload) -> Result:
    """The submission's result for a workload, if it has no more memory than it may."""
    bits = t.register_bits()
    if bits > MOST_BITS:
        text = f"the registers have {bits} bits; {MOST_BITS} are allowed"
        raise Failure(text, case=text)
    switch = t.switch()
    set_up(switch, workload)
    return run(switch, workload)


def compare(t: Bench, baseline: str, count: int, least: float) -> None:
    """The speed-up of jobs over a baseline, on average; Failure below `least`."""
    t.case = f"compared with {NAMES[baseline]}"
    ratios, packets = [], []
    for workload, ticks in workloads(t, count, baseline):
        made = scheduled(t, workload)
        ratios.append(ticks / made.mean)
        packets.append(made.packets)
    ratio = sum(ratios) / len(ratios)
    t.note(f"{ratio:.3f} times as fast as with {NAMES[baseline]}, {count} workloads;")
    t.note(f"{sum(packets) / count:.2f} packets at the PS for each fragment")
    t.score = ratio
    if ratio < least:
        text = f"the jobs should be {least:g} times as fast as with {NAMES[baseline]}"
        raise Failure(f"{text}, and are {ratio:.3f} times as fast", case="the jobs take too long")


@LAB.check(10, "Every sum is right: each worker is in it once", virtual=True)
def exact(t: Bench) -> None:
    switch, workload = t.switch(), draw(t.random.getrandbits(48))
    set_up(switch, workload)
    jobs = [load.job for load in workload.loads]
    some = strangers(t, jobs, 0)
    for t.case, packet in some:
        switch.expect(jobs[0].ports[0], packet, {}, "no job has sent this")
    t.case = ""
    for _ in range(2):
        made = scheduled(t, draw(t.random.getrandbits(48)))
        if made.astray:
            text = "packets leave where nobody waits for them, instead of being dropped"
            raise Failure(f"{text}: {made.astray}", case=text)


@LAB.check(5, "Jobs are faster than without switch memory", virtual=True)
def better_than_none(t: Bench) -> None:
    compare(t, "none", 2, 1.02)


@LAB.check(20, "Jobs are faster than with first come, first served", virtual=True)
def better_than_fcfs(t: Bench) -> None:
    compare(t, "fcfs", 6, 1.01)


@LAB.check(20, "Jobs are as fast as with ESA", virtual=True)
def as_good_as_esa(t: Bench) -> None:
    compare(t, "esa", 4, 0.97)


@LAB.check(25, "Jobs are faster than with ESA", virtual=True, common=True)
def better_than_esa(t: Bench) -> None:
    compare(t, "esa", 10, 1.02)
