"""The experiments whose switches are compared, by P4 program.

Together the cases of a program have every table, action and policy that the control plane can ask
for, except what two switches cannot agree on, because it depends on when a packet comes or on
chance: ageing aggregators (`max_age`), the toss of a coin (`preempt: coin`), congestion marks
(`ecn_threshold`), GRID's aggregation capacity (a meter; switches' meters are compared in
colors.p4).
"""

from __future__ import annotations

from dataclasses import dataclass

from p4fabric.base.topology import host_ip, switch_ip

from testbed import dataplane
from testbed.experiment import load_text
from testbed.number_formats import DEFAULT, FORMATS, NumberFormat
from testbed.protocols import wire
from testbed.schemes import set_up
from testbed.setup import Setup
from testbed.setup.plan_entries import next_nodes_by_tag
from tests.support.bmv2.packets import Surroundings
from tests.support.paths import ROOT
from tests.support.switches import Recorder

WORKERS = 3
FIXED = 4  # parameters of `aggregate` before those that limit fragments
ANY_NUMBER = 0xFFFFFFFF
AGGREGATORS = 16
STAR = "{kind: star, hosts: 12}"
RACKS = "{kind: two_level, tors: 2, hosts: 3, servers: 2}"
SPINES = "{kind: leaf_spine, leaves: 3, spines: 2, hosts: 3}"  # the same hosts, two paths
TEXT = """
name: differential
topology: %(topology)s
%(links)s
system: {name: %(system)s%(options)s}
admission: %(admission)s
%(memory)s
values_per_packet: %(values)d
jobs:
%(jobs)s
"""


@dataclass(frozen=True)
class Case:
    """One switch of an experiment. `options`: of the system; `racks`: two levels of switches
    instead of one; `paths`: two levels with equal paths, and the choice among them; `gone`: jobs
    that have ended when the first packet comes. Random packets come in anywhere, so with
    `admission` by port most of them are refused."""

    system: str
    options: str = ""
    racks: bool = False
    switch: str = "s1"
    gone: tuple[int, ...] = ()
    admission: str = "off"
    keys: str = ""  # further ones of the experiment
    paths: str = ""

    def title(self) -> str:
        network = "equal paths" if self.paths else "two levels" if self.racks else "star"
        parts = [self.options or "defaults", network, self.switch]
        parts += [f"job {job} gone" for job in self.gone]
        parts += [each for each in (self.keys, self.paths) if each]
        parts += ["admission by port"] if self.admission == "port" else []
        return ", ".join(parts)

    def has_events(self) -> bool:
        """True if the program counts events of packets in a memory."""
        return self.system not in ("ps", "ring")

    @property
    def number_format(self) -> NumberFormat:
        """The format of its sums."""
        return FORMATS[self.options.rpartition("sum: ")[2] if "sum: " in self.options else DEFAULT]

    def setup(self, values: int) -> Setup:
        """With two jobs of three workers on racks, else three jobs."""
        servers = self.system not in ("switchml", "tree", "ring")
        places = (
            ["{workers: [h1, h2, h4]%s}", "{workers: [h3, h5, h6]%s}"]
            if self.racks or self.paths
            else [""] * 3
        )
        jobs = []
        for number, place in enumerate(places):
            if place:
                server = f", ps: h{7 + number}" if servers else ""
                place = ", placement: " + place % server
            jobs.append(f"  - {{model: alexnet, workers: {WORKERS}, iterations: 1{place}}}")
        memory = f"memory: {{aggregators: {AGGREGATORS}}}"
        text = TEXT % {
            "topology": SPINES if self.paths else RACKS if self.racks else STAR,
            "links": "links: {bandwidth: 1 Gbit/s, ecn_threshold: none}"
            if self.system == "grid"
            else "",  # to plan for
            "system": self.system,
            "options": f", {self.options}" if self.options else "",
            "admission": self.admission,
            "memory": memory if self.has_events() else "",
            "values": max(values, self.number_format.least_values),
            "jobs": "\n".join(jobs),
        }
        text += self.keys + (f"\npaths: {self.paths}" if self.paths else "")
        return set_up(load_text(text, folder=ROOT / "experiments"))


def _sums(system: str, *names: str, more: str = "") -> list[Case]:
    """One case for each of these formats of sums."""
    return [Case(system, f"{more}sum: {name}") for name in names]


# By P4 program; every packet count is divided among a program's cases.
CASES: dict[str, tuple[Case, ...]] = {
    "esa": (
        Case("esa"),
        Case("esa", "release: on_result", gone=(2,)),
        Case("esa", "preempt: always, release: on_result"),
        Case("esa", "downgrading: false", racks=True, switch="s2"),
        Case("esa", admission="port"),
        Case("esa", "zeros: header_only"),
        Case("esa", "zeros: header_only, release: on_result", racks=True, switch="s2"),
        Case("esa", keys="value_bits: 16"),
        Case("esa", "zeros: header_only, preempt: always", keys="value_bits: 16"),
        Case("esa", "results_from: switch"),
        Case("esa", "zeros: header_only, results_from: switch", racks=True, switch="s3"),
        Case("esa", paths="{choice: ecmp, sums: per_root}", switch="s1"),
        Case("esa", paths="{choice: spray, sums: unpinned}", switch="s1"),
        *_sums("esa", "int8", "float32", "bfloat16", "bfloat16_in_float32", "fpisa"),
    ),
    "atp": (
        Case("atp"),
        Case("atp", "release: on_completion", gone=(2,)),
        Case("atp", racks=True, switch="s2"),
        Case("atp", "zeros: header_only"),
        Case("atp", "zeros: header_only", keys="value_bits: 16"),
        Case("atp", "release: on_completion, results_from: switch", keys="value_bits: 16"),
        *_sums("atp", "float32", "fpisa"),
    ),
    "a2tp": (
        Case("a2tp"),
        Case("a2tp", racks=True, switch="s2"),
        *_sums("a2tp", "float32"),
    ),
    "switchml": (
        Case("switchml"),
        Case("switchml", racks=True, switch="s1"),
        Case("switchml", racks=True, switch="s2"),
        Case("switchml", "sets: 1"),
        Case("switchml", "sets: 1", racks=True, switch="s2"),
        Case("switchml", "zeros: header_only"),
        Case("switchml", "zeros: header_only", racks=True, switch="s2"),
        Case("switchml", "zeros: header_only", keys="value_bits: 16"),
        *_sums("switchml", *(each for each in FORMATS if each not in ("int32", "int16"))),
    ),
    "tree": (
        Case("tree", "mode: quotas"),
        Case("tree", "mode: quotas", racks=True, switch="s1"),
        Case("tree", "mode: quotas, zeros: header_only", racks=True, switch="s2"),
        *_sums("tree", "float32", more="mode: quotas, "),
    ),
    "grid": (
        Case("grid"),
        Case("grid", "memory: atp", gone=(2,)),
        Case("grid", "memory: plain, collision: drop", racks=True, switch="s2"),
        Case("grid", "planner: nearest, collision: drop, release: on_result", racks=True),
        Case("grid", "planner: none", racks=True),
        Case("grid", "zeros: header_only, memory: plain, collision: drop", racks=True),
        *_sums("grid", "float32"),
    ),
    "forward": (
        Case("ps"),
        Case("ps", keys="value_bits: 16"),
        Case("ring", racks=True, switch="s1", admission="port"),
        Case("ring", paths="{choice: ecmp}", switch="s1"),
    ),
}


def calls_of(case: Case, setup: Setup) -> list[tuple]:
    """Control calls that the control plane makes to the switch. Random packets have fragments of
    any number, so only with admission by port a job has a last one."""
    recorder = Recorder()
    dataplane.install(setup, case.switch, recorder)
    calls = recorder.calls
    if case.admission == "off":
        calls = [_without_last(call) for call in calls]
    gone = [("register_write", "job_gone", job, 1) for job in case.gone]
    return calls + gone


def _without_last(call: tuple) -> tuple:
    """A call without the largest number, and the largest step, of a job's fragments."""
    if call[:3] != ("table_add", "job", "aggregate"):
        return call
    *before, parameters = call
    known, limits = parameters[:FIXED], parameters[FIXED:]
    return (*before, [*known, *[ANY_NUMBER] * len(limits)])


def address_of_port(calls: list[tuple]) -> dict[int, str]:
    """An IPv4 destination behind each port, from the routes among recorded calls."""
    routes = [call for call in calls if call[:3] == ("table_add", "route", "forward")]
    return {parameters[0]: match[0][0] for *_, match, parameters in reversed(routes)}


def surroundings(case: Case, setup: Setup) -> Surroundings:
    """Ranges from which the packets of a case are drawn."""
    platform, part = setup.platform, setup.jobs[0].group.part(case.switch, 0)
    topology, slots = platform.topology, 0
    if platform.system.memory:
        slots = part.slots if part else AGGREGATORS
    known = [host_ip(topology.number(host)) for host in topology.hosts]
    known += [switch_ip(topology.number(switch)) for switch in topology.switches]
    return Surroundings(
        ports=sorted(topology.ports(case.switch)),
        addresses=known,
        node=0 if platform.system.managed else topology.number(case.switch),  # that of a tree
        jobs=platform.job_count,
        workers=WORKERS,
        slots=slots,
        sets=getattr(platform.options, "sets", 0),
        values=platform.values,
        short_bytes=wire.short_bytes(
            wire.short_of(min(platform.value_bits, 16), platform.sum.numbers), platform.values
        ),
        tags=_tags(setup),
    )


def _tags(setup: Setup) -> tuple[tuple[int, ...], ...]:
    """Tags of each job's plan, if there is one."""
    if not setup.platform.system.planned:
        return ()
    return tuple(
        tuple(sorted({tag for _, tag in next_nodes_by_tag(job.group.routed_plan)}))
        for job in setup.jobs.values()
    )
