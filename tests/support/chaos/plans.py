"""Plans of events: an experiment and the events of its run, drawn from (seed, number).

A plan is data. It has the draws that are made before the run starts, and nothing that is only known
later. So a victim is a kind of process and a number: among the processes of this kind, sorted by
name, the one with this number, modulo the number of processes.

Moments are counted from one of three anchors, because how long each phase takes depends on the
machine: the start of the command, the line that names the results folder, and the first host
process. Some come after the end of the run; then nothing happens to it, and it must end well.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from testbed import systems
from tests.support.paths import ROOT

SYSTEMS = ("esa", "atp", "switchml", "grid", "ps", "ring")
WITHOUT_SERVER = ("switchml", "ring")
PLANNERS = ("grid-links", "nearest", "nearest-anywhere")
PROGRAM = f"{ROOT}/examples/sum_arrays.py --values 4000 --rounds 5"
PROGRAMS = 0.15  # of the events without planned faults have a program as job a
PLAIN_EVERY = 8  # every so many events nothing happens, and the run must succeed
# How often each kind is drawn, relative to the others.
KINDS = {
    "signal": 5,
    "kill": 6,
    "freeze": 5,
    "disk": 3,
    "memory": 3,
    "cpu": 2,
    "storm": 3,
    "planned": 3,
}
ENDING = ("signal", "kill", "disk", "memory")  # a run can fail because of these
COMBINED = 0.25  # of the events have a second kind, which does not end a run
ANCHORS = {"command": 3.0, "results": 1.5, "hosts": 2.5}  # and the latest moment after it, in s
RUNNER_SIGNALS = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")
KILLS = ("SIGKILL", "SIGKILL", "SIGTERM", "SIGSEGV")
VICTIMS = ("host", "switch", "pool", "namespace")
TOPOLOGIES = {
    "star": ("{kind: star, hosts: 8}", 8),
    "two_level": ("{kind: two_level, tors: 2, hosts: 3, servers: 2}", 8),
    "leaf_spine": ("{kind: leaf_spine, leaves: 2, spines: 2, hosts: 4}", 8),
}
DISTURBED = (
    "loss: 0.1 %",
    "loss: 1 %",
    "loss: 3 %",
    "duplicate: 1 %",
    "reorder: 1 %, reorder_delay: 2 ms",
)


@dataclass(frozen=True)
class Moment:
    """`after_s` seconds after the anchor, a key of ANCHORS."""

    anchor: str
    after_s: float

    def __str__(self) -> str:
        return f"{self.after_s:.2f} s after {self.anchor}"


@dataclass(frozen=True)
class Happening:
    """One thing that is done to a run. `what`: signal, kill, freeze, fill, limit, storm.

    victim: runner, everybody, or one of VICTIMS, with `place` among them. signal: its name. for_s:
    how long; None: for good. amount: bytes of memory.
    """

    what: str
    moment: Moment
    victim: str = ""
    place: int = 0
    signal: str = ""
    for_s: float | None = None
    amount: int = 0

    def __str__(self) -> str:
        parts = [self.what, self.signal, self.victim]
        if self.victim in VICTIMS:
            parts.append(f"#{self.place}")
        if self.for_s is not None:
            parts.append(f"for {self.for_s:.1f} s")
        if self.amount:
            parts.append(f"{self.amount >> 20} MiB")
        return f"{' '.join(part for part in parts if part)}, {self.moment}"


@dataclass
class Plan:
    """An event. `kinds`: of KINDS; none: a plain run. `setting`: what the command runs in, see
    environment.py. `faults`: kinds of the planned faults of its experiment."""

    seed: int
    number: int
    system: str = ""
    experiment: str = ""
    kinds: tuple[str, ...] = ()
    happenings: list[Happening] = field(default_factory=list)
    setting: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    stranger: str = ""
    arguments: tuple[str, ...] = ()
    timeout_s: int = 20
    cleaned: bool = False  # True: `ina clean` follows a killed runner; False: the next run
    topology: str = ""
    links: str = ""

    def __str__(self) -> str:
        done = [str(each) for each in self.happenings]
        done += [f"{name} {value}" for name, value in self.setting.items()]
        done += [f"planned {fault}" for fault in self.faults]
        return f"{self.system} on {self.topology}, {self.links}: {'; '.join(done) or 'nothing'}"


def draw(seed: int, number: int) -> Plan:
    """The plan of an event."""
    rng = random.Random(f"chaos {seed} {number}")
    plan = Plan(seed, number)
    plan.system = rng.choice(SYSTEMS)
    plan.topology = rng.choice([*TOPOLOGIES])
    plan.links = rng.choice(DISTURBED) if rng.random() < 0.5 else "no losses"
    plan.arguments = () if rng.random() < 0.15 else ("--no-report",)
    if number % PLAIN_EVERY:
        first = rng.choices([*KINDS], [*KINDS.values()])[0]
        plan.kinds = (first,)
        if rng.random() < COMBINED:
            second = rng.choice([kind for kind in KINDS if kind not in (*ENDING, first)])
            plan.kinds = (first, second)
        plan.cleaned = rng.random() < 0.5
    for kind in plan.kinds:
        _DRAW[kind](plan, rng)
    plan.experiment = _experiment(plan, rng)
    return plan


def _moment(rng: random.Random, *anchors: str) -> Moment:
    anchor = rng.choice(anchors or [*ANCHORS])
    return Moment(anchor, round(rng.uniform(0, ANCHORS[anchor]), 3))


def _signal(plan: Plan, rng: random.Random) -> None:
    first = Happening("signal", _moment(rng), "runner", signal=rng.choice(RUNNER_SIGNALS))
    plan.happenings.append(first)
    if rng.random() < 0.3:  # somebody who does not wait
        later = Moment(first.moment.anchor, round(first.moment.after_s + rng.uniform(0, 0.6), 3))
        again = rng.choice((first.signal, *RUNNER_SIGNALS))
        plan.happenings.append(Happening("signal", later, "runner", signal=again))


def _kill(plan: Plan, rng: random.Random) -> None:
    victim, place = rng.choice(VICTIMS), rng.randrange(100)
    moment = _moment(rng)
    plan.happenings.append(Happening("kill", moment, victim, place, rng.choice(KILLS)))


def _freeze(plan: Plan, rng: random.Random) -> None:
    victim = rng.choice((*VICTIMS, "runner", "everybody", "everybody"))
    for_s = round(rng.uniform(0.1, 2.5), 2)
    if rng.random() < 0.15:  # so long that the watchdog takes it for a failure, if it can
        plan.timeout_s, for_s = 1, round(rng.uniform(2, 4), 2)
    plan.happenings.append(
        Happening("freeze", _moment(rng), victim, rng.randrange(100), for_s=for_s)
    )


def _disk(plan: Plan, rng: random.Random) -> None:
    where = rng.choice(("results", "results", "registry"))
    if rng.random() < 0.5:
        plan.setting[f"{where} KiB"] = rng.choice((4, 16, 40, 64, 100, 160, 256, 400))
    else:
        plan.setting[f"{where} KiB"] = 2048
        plan.happenings.append(Happening("fill", _moment(rng), where))


def _memory(plan: Plan, rng: random.Random) -> None:
    limit = rng.randint(60, 700)
    if rng.random() < 0.6:
        plan.setting["group MiB"] = limit
    else:
        plan.setting["group MiB"] = 16384
        plan.happenings.append(Happening("limit", _moment(rng), "group", amount=limit << 20))


def _cpu(plan: Plan, rng: random.Random) -> None:
    how = rng.choice(("busy processes", "one processor", "quota %"))
    plan.setting[how] = {
        "busy processes": rng.randint(2, 6),
        "one processor": 1,
        "quota %": rng.choice((20, 40, 80)),
    }[how]


def _storm(plan: Plan, rng: random.Random) -> None:
    plan.happenings.append(
        Happening("storm", _moment(rng, "hosts", "results"), for_s=round(rng.uniform(0.5, 4), 2))
    )


def _planned(plan: Plan, rng: random.Random) -> None:
    kinds = ["pause", "slow", "kill", "restart"]
    if plan.topology == "leaf_spine":
        kinds += ["link_down", "link_down"]
    plan.faults = [rng.choice(kinds)]
    if plan.faults[0] in ("pause", "slow") and rng.random() < 0.4:
        plan.faults.append("restart")


_DRAW = {
    "signal": _signal,
    "kill": _kill,
    "freeze": _freeze,
    "disk": _disk,
    "memory": _memory,
    "cpu": _cpu,
    "storm": _storm,
    "planned": _planned,
}


def _experiment(plan: Plan, rng: random.Random) -> str:
    """The file: two jobs of three and two workers, which take about a second, and a stranger."""
    topology, count = TOPOLOGIES[plan.topology]
    hosts = [f"h{number}" for number in range(1, count + 1)]
    rng.shuffle(hosts)
    plan.stranger = hosts.pop()
    with_server = plan.system not in WITHOUT_SERVER
    system = f"{{name: {plan.system}}}"
    if plan.system == "grid":
        system = f"{{name: grid, planner: {rng.choice(PLANNERS)}}}"
    lines = [
        f"name: chaos-{plan.number}",
        f"seed: {rng.randrange(1_000_000)}",
        f"topology: {topology}",
        "links: {bandwidth: 20 Mbit/s, delay: 100 us"
        + (f", {plan.links}}}" if plan.links in DISTURBED else "}"),
        f"system: {system}",
        f"timeout: {plan.timeout_s} s",
    ]
    if systems.SYSTEMS[plan.system].memory:
        lines.append(f"memory: {{aggregators: {rng.choice((32, 128, 512))}}}")
    if rng.random() < 0.1:
        lines.append("repetitions: 2")
    programmed = not plan.faults and rng.random() < PROGRAMS
    lines.append("jobs:")
    for name, model, scale, workers in (("a", "resnet18", 0.006, 3), ("b", "vgg11", 0.0004, 2)):
        members = [hosts.pop() for _ in range(workers)]
        place = f"workers: [{', '.join(members)}]"
        if with_server:
            place += f", ps: {hosts.pop()}"
        work = f"model: {model}, iterations: 3, scale: {scale}, compute_scale: 0.1"
        if programmed and name == "a":
            work = f"command: {PROGRAM}"
        lines.append(f"  - {{name: {name}, {work}, workers: {workers}, placement: {{{place}}}}}")
    if plan.faults:
        lines.append("faults:")
        lines += [f"  - {_fault(kind, plan, rng)}" for kind in plan.faults]
    return "\n".join(lines) + "\n"


def _fault(kind: str, plan: Plan, rng: random.Random) -> str:
    at, length = rng.randint(0, 900), rng.randint(50, 900)
    if kind == "restart":
        return f"{{at: {at} ms, fault: restart, switch: s1}}"
    if kind == "kill":
        return f"{{at: {at} ms, fault: kill, job: b}}"
    if kind == "link_down":
        ends = f"[s{rng.randint(1, 2)}, s{rng.randint(3, 4)}]"
        return f"{{at: {at} ms, fault: link_down, between: {ends}, for: {length} ms}}"
    factor = f", factor: {rng.randint(2, 6)}" if kind == "slow" else ""
    worker = rng.randrange(3)
    return f"{{at: {at} ms, fault: {kind}, job: a, worker: {worker}, for: {length} ms{factor}}}"
