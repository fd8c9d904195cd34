"""Schedulers with which those of lab 12 are compared: ESA (the solution of lab 6), the same without
preemption (first come, first served), and a switch that gives memory to nobody.

`python -m labs._teacher.lab12_scheduler.judge` prints practice.json, for kits that do not
have the solution.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace

from labs._teacher import solution
from labs.grader.bench import Bench, Switch
from labs.grader.jobs import PORTS, SLOTS, VALUES
from labs.lab12_scheduler.workload import Workload, draw, run, set_up

PRACTICE = 10  # workloads
BASELINES = {"none": (0, 0), "fcfs": (SLOTS, 0), "esa": (SLOTS, 1)}  # size of the pool, preemption


def baseline(t: Bench, workload: Workload, name: str) -> float:
    """The mean time of a job, in ticks, with one of them."""
    path = solution("lab6_preemption") / "preemption.p4"
    switch = t.own_switch(path.name, path.read_text(), VALUES=VALUES, SLOTS=SLOTS)
    set_up(switch, workload, *BASELINES[name])
    return run(switch, workload).mean


class _Target:
    """A switch in this process, for our own program."""

    astray = 0

    def __init__(self, switch: object) -> None:
        self.switch = switch

    def control(self, calls: list[list]) -> list:
        return [getattr(self.switch, name)(*args, **kwargs) for name, args, kwargs in calls]

    def send(self, packets: list[list], until_ns: int | None) -> tuple[list, int, list[str]]:
        outputs: list = []
        for port, data, now_ns in packets:
            self.switch.receive(port, data, now_ns)  # type: ignore[attr-defined]
            outputs += self.switch.advance(now_ns)  # type: ignore[attr-defined]
        outputs += self.switch.run()  # type: ignore[attr-defined]
        return outputs, len(outputs), []

    def trace(self) -> list[str]:
        return []


def practice() -> str:
    """The text of practice.json: the baselines of the workloads with seeds 0, 1, ..."""
    from p4engine.backend.build import compile_program
    from p4engine.switch import library

    path = solution("lab6_preemption") / "preemption.p4"
    common = Path(__file__).resolve().parents[2] / "common"
    program = compile_program(path, {"VALUES": VALUES, "SLOTS": SLOTS}, [common])

    def own_switch(*_: object, **__: object) -> Switch:
        bench = SimpleNamespace(about=None, heard=lambda log: None, traced=lambda lines: None)
        return Switch(bench, _Target(library.Switch(program, ports=PORTS, seed=0)))  # type: ignore[arg-type]

    t = SimpleNamespace(own_switch=own_switch, random=random.Random(0))
    rows = [
        json.dumps({name: baseline(t, draw(seed), name) for name in BASELINES})  # type: ignore[arg-type]
        for seed in range(PRACTICE)
    ]
    return "[\n" + ",\n".join(rows) + "\n]\n"


if __name__ == "__main__":
    print(practice(), end="")
