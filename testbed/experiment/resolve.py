"""Valid sections resolved to an experiment: defaults of open settings, and checks across keys.

These checks need more than one key: hosts for all roles, links that exist, jitter against delay,
files that the experiment names, fragment numbers that fit the packet. `CHECKS` has all of them in
their order. What they can ask for is what `resolve` begins with, the sections, and what a check has
found out; rules.py says how.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from p4fabric.base.config.fields import NAME, user_file
from p4fabric.base.config.problems import Problem
from p4fabric.base.config.units import FieldError
from p4fabric.base.errors import did_you_mean, sentence
from p4fabric.base.topology import Topology

from testbed import systems
from testbed.costs.files import resolved
from testbed.costs.profile import Costs, costs_in
from testbed.experiment import bmv2_limits, number_checks, resolve_arrivals, sampled_layers
from testbed.experiment.background_flows import check as check_background
from testbed.experiment.background_flows import warnings as flow_warnings
from testbed.experiment.experiment import Experiment, bitmap_bits, worker_bits
from testbed.experiment.link_buffers import lossless_links
from testbed.experiment.lossless_checks import (
    RESTARTS,
    RESTARTS_WITH_CREDITS,
    lossy_links,
    short_queues,
)
from testbed.experiment.planned_faults import check as check_faults
from testbed.experiment.printing import shown
from testbed.experiment.resolve_jobs import loaded
from testbed.experiment.resolve_network import (
    PATH_RULES,
    check_links,
    resolve_links,
    resolve_switches,
    unmarked,
    why_no_control,
)
from testbed.experiment.resolve_placement import place
from testbed.experiment.rules import Found, Known, Rule, ask
from testbed.experiment.scaled_network import scaled_count, why_not
from testbed.experiment.schema import MAX_AGGREGATORS, ExperimentFile, Memory, VirtualTime
from testbed.experiment.schema_arrivals import Arrivals
from testbed.experiment.schema_background import Background
from testbed.experiment.schema_collectives import Collectives
from testbed.experiment.schema_jobs import Job
from testbed.number_formats import format_of
from testbed.protocols.sizes import MAX_JOBS, frame_bytes
from testbed.systems import SystemOptions
from testbed.traffic.call_algorithms import AUTO

if TYPE_CHECKING:
    from testbed.traffic.trace import Trace


def resolve(
    parts: Known,
    topology: Topology | None,
    folder: Path,
    stem: str,
    system: systems.System | None,
    servers_reserved: int = 0,
) -> tuple[Experiment | None, list[Problem]]:
    """Build the experiment from the sound sections `parts` (by attribute name).

    Returns it, or None and the problems that stand in the way. Sections that are missing from
    `parts` were not sound; what needs them is not checked. `system` is the one that the file names,
    whether or not its options are sound; None: no such system. `servers_reserved`: a job that is
    placed here takes hosts for at least so many servers, where the topology has them.
    """
    known: Known = {"faults": (), **parts}
    if "arrivals" not in parts:  # nobody knows which jobs there are
        known.pop("jobs", None)
    known |= {"folder": folder, "stem": stem, "servers_reserved": servers_reserved}
    problems: list[Problem] = []
    known |= {"problems": problems, "known": known}  # so far
    known |= {"directions": (), "ways": (), "limited": False, "traced": (), "kinds": ()}
    if topology is not None:
        known["network"] = topology
    if system is not None:
        known["entry"] = system
    for check in CHECKS:
        problems += ask(check, known)
    sections = {name: known[name] for name in ExperimentFile.model_fields if name in known}
    if problems or len(sections) < len(ExperimentFile.model_fields):
        return None, problems
    experiment = Experiment.model_construct(**sections)
    experiment._topology = known["network"]
    experiment._directions = known["directions"]
    experiment._source = known.get("source")
    experiment._warnings = (
        *_mixed_hardware([job.trace() for job in experiment.jobs if not job.is_program]),
        *unmarked(experiment),
        *flow_warnings(experiment),
        *number_checks.warnings(experiment.value_bits),
    )
    if problems := short_queues(experiment):
        return None, problems
    return experiment, []


def _name(name: str, stem: str) -> Found:
    """The name of the experiment is that of its file."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")[:64]
    usual = plain if re.fullmatch(NAME.pattern, plain) else "experiment"
    yield {"name": name or usual}


def _servers(entry: systems.System, system: SystemOptions | None = None) -> Found:
    """Parameter servers of each job."""
    if system is not None or entry.servers != "many":
        yield {"servers": entry.servers_per_job(system)}


def _jobs(jobs: Sequence[Job], arrivals: Arrivals | None, known: Known) -> Found:
    """The jobs of the file, with their hosts."""
    if arrivals is not None:
        return
    found, problems = loaded([(("jobs", number), job) for number, job in enumerate(jobs)], known)
    yield from problems
    found, problems = place(found, known)
    yield from problems
    groups = sum(job.groups or 0 for job in found)
    if groups and len(found) + groups > MAX_JOBS:
        yield Problem(
            ("jobs",),
            f"found {len(found)} jobs with {groups} groups of ranks (`groups`); allowed:"
            f" {MAX_JOBS} together",
        )
    yield {"jobs": tuple(found)}


def _frame(values_per_packet: int, jobs: Sequence[Job]) -> Found:
    """Bytes of a job's packet."""
    if jobs:
        yield {"frame": frame_bytes(values_per_packet, bitmap_bits(jobs))}


def _carriers(collectives: Collectives, entry: systems.System) -> Found:
    """The carriers of calls exist."""
    hosts = [each.name for each in systems.SYSTEMS.values() if each.algorithm]
    names = tuple(dict.fromkeys([entry.name, *hosts, AUTO]))
    for kind, number, route in collectives.each():
        if route.use not in names:
            hint = did_you_mean(route.use, names) or "take one of them"
            yield Problem(
                ("collectives", kind, number, "use"),
                sentence(f"found {route.use!r}; allowed: {', '.join(names)}", hint),
            )


def _without_ranks(collectives: Collectives, entry: systems.System, jobs: Sequence[Job]) -> str:
    """A job without calls that something could carry."""
    routed = any(True for _ in collectives.each())
    return next((job.name for job in jobs if routed and not job.has_ranks), "")


def _memory(
    memory: Memory | None,
    entry: systems.System,
    system: SystemOptions,
    jobs: tuple[Job, ...],
    kinds: tuple[Job, ...],
    arrivals: Arrivals | None,
    values_per_packet: int | None = None,
    scale_windows: bool = False,
) -> Found:
    """The number of aggregators, of which every job needs some where it has its own."""
    if memory is None or not entry.memory:
        return
    key, count = "aggregators", memory.aggregators or 0
    if memory.size_bytes is not None:
        if values_per_packet is None:
            return
        each_bytes = entry.aggregator_bytes(
            values_per_packet,
            worker_bits((*jobs, *kinds)),
            number_checks.sum_bits(system, entry, jobs),
        )
        key, count = "size", memory.size_bytes // each_bytes
        if not 1 <= count <= MAX_AGGREGATORS:
            yield Problem(
                ("memory", "size"),
                f"found {shown(memory, 'size_bytes')}, which is room for {count} aggregators of"
                f" {each_bytes} B; allowed: 1 to {MAX_AGGREGATORS} aggregators",
            )
            return
        yield {"memory": memory.model_copy(update={"aggregators": count, "size_bytes": None})}
    scaled = ""
    if scale_windows:
        scale = jobs[0].scale
        count, scaled = scaled_count(count, scale), f" at a scale of {scale:g}"
    parts = len(jobs)
    who = f"{parts} job{'s' if parts > 1 else ''}"
    if groups := sum(job.groups or 0 for job in jobs):
        parts += groups
        who += f" with {groups} groups of ranks"
    if arrivals is not None:
        parts = arrivals.at_once or 1
        who = f"{parts} at once (arrivals.at_once)"
    if count < (least := parts * entry.aggregators_per_job(system)):
        yield Problem(
            ("memory", key),
            f"found {count} aggregators{scaled}; {entry.title} divides them among the jobs, and"
            f" {who} need at least {least}",
        )


def _program(system: SystemOptions, folder: Path) -> Found:
    if system.program == "default":
        return
    try:
        file = user_file(system.program, folder)
        yield {"system": system.model_copy(update={"program": str(file)})}
    except FieldError as error:
        yield Problem.of(("system", "program"), error)


def _costs(costs: Costs | str | None, folder: Path) -> Found:
    """The whole cost profile."""
    if costs is None:
        return
    try:
        yield {"costs": resolved(costs, folder)}
    except FieldError as error:
        yield Problem.of(("costs",), error)


def _virtual_time(
    virtual: VirtualTime | None,
    runtime: str,
    costs: Costs | str | None,
    entry: systems.System | None = None,
    values_per_packet: int | None = None,
) -> Found:
    if runtime != "virtual":
        return
    virtual, says = virtual or VirtualTime(), ""
    if isinstance(costs, Costs):
        of_profile = _of_profile(costs, entry, values_per_packet or 1)
        given = virtual.model_fields_set
        virtual = virtual.model_copy(
            update={key: each for key, each in of_profile.items() if key not in given}
        )
        says = f", with what profile {costs.name} says"
    for role in ("worker", "server"):
        if getattr(virtual, f"{role}_jitter_ns") > getattr(virtual, f"{role}_delay_ns"):
            found, most = (shown(virtual, f"{role}_{key}_ns") for key in ("jitter", "delay"))
            yield Problem(
                ("virtual", f"{role}_jitter"),
                f"found {found}{says}; allowed: at most {role}_delay, {most}",
            )
    yield {"virtual": virtual}


def _of_profile(costs: Costs, entry: systems.System | None, values: int) -> dict[str, int]:
    """Times of hosts and switches in a profile, by field of VirtualTime. `values`: of a packet."""
    passes = costs.switch.passes(values) if entry is not None and entry.memory else 1
    found = {"switch_latency_ns": costs.switch.latency_ns * passes}
    for role, host in (("worker", costs.host), ("server", costs.server)):
        found |= {f"{role}_delay_ns": host.delay_ns, f"{role}_jitter_ns": host.jitter_ns}
        found[f"{role}_packet_time_ns"] = host.frame_ns(values)
    return found


def _of_hosts(costs: Costs | str | None, runtime: str) -> str:
    """Costs that a real clock cannot honour."""
    if not isinstance(costs, Costs) or runtime == "virtual":
        return ""
    real = ("nic", "host", "server", "switch")
    return ", ".join(
        f"{each.key} ({each.text})" for each in costs_in(costs) if each.path[0] in real
    )


def _with_passes(costs: Costs | str | None, entry: systems.System, values_per_packet: int) -> bool:
    """Packets need passes for which the profile names no way."""
    if not isinstance(costs, Costs) or not entry.memory:
        return False
    return costs.switch.passes(values_per_packet) > 1 and costs.switch.recirculation_bps is None


def _background(
    background: Sequence[Background],
    network: Topology,
    limited: bool,
    system: SystemOptions | None = None,
    frame: int | None = None,
    switch: str = "",
    runtime: str = "",
) -> Found:
    counted = frame if switch == "bmv2" and limited else None
    reason = system.lossless_reason if system is not None else ""
    yield from check_background(background, network, reason, counted, runtime == "virtual")


IN_TRAINS = (
    "found on; allowed with {found}: auto, off (only the embedded switch on Mininet takes packets"
    " in trains)"
)
CHECKS: tuple[Rule | Callable[..., Found], ...] = (
    _name,
    _servers,
    _costs,
    _virtual_time,
    check_links,
    resolve_links,
    resolve_switches,
    resolve_arrivals.submitted,
    Rule(
        "arrivals",
        lambda submitted, jobs: jobs,
        "there are jobs, too; an experiment has one of the two",
    ),
    Rule(
        "arrivals",
        lambda submitted, runtime: runtime == "mininet",
        "is for runtime virtual; on Mininet hosts belong to a job for the whole run: name jobs with"
        " a start in `jobs`",
    ),
    Rule(
        "arrivals",
        lambda submitted, entry: entry.planned,
        "{entry.title} plans for jobs that have their hosts from the start; take another system, or"
        " name `jobs`",
    ),
    Rule(
        "faults",
        lambda submitted, faults: faults,
        "cannot be planned for jobs that come and go; take them out",
    ),
    resolve_arrivals.read_csv,
    resolve_arrivals.read_trace,
    resolve_arrivals.submitted_jobs,
    resolve_arrivals.drawn_jobs,
    _jobs,
    _frame,
    lossless_links,
    _carriers,
    Rule(
        "collectives",
        _without_ranks,
        "is for jobs that replay a program of ranks, and {found} does not; take it out, or replay a"
        " program (docs/workloads.md)",
    ),
    Rule("scale_windows", why_not),
    Rule("transport.congestion_control", why_no_control),
    Rule(
        "memory",
        lambda memory, entry: memory is None and entry.memory,
        "missing; Memory of each switch for aggregation",
    ),
    Rule(
        "memory",
        lambda memory, entry: memory and not entry.memory,
        "{entry.title} does not aggregate in the switch and has no use for its memory. Take this"
        " key out",
    ),
    _memory,
    _program,
    check_faults,
    sampled_layers.check,
    Rule(
        "system.zeros",
        lambda system, entry, faults: (
            entry.managed
            and getattr(system, "zeros", "") == "header_only"
            and next((fault.kind for fault in faults if fault.loses_memory), "")
        ),
        "found header_only; with the fault {found} workers ask each other for results, of which"
        " each must have all values. Take sent, or auto",
    ),
    Rule(
        "faults[*].fault",
        lambda each, entry: each.of_link and not entry.reroutes,
        "found {each.kind}; the system {entry.name} does not say what becomes of its jobs when"
        " routes change (`reroutes`, docs/architecture.md)",
    ),
    Rule(
        "virtual",
        lambda virtual, runtime: virtual and runtime != "virtual",
        "is for runtime virtual, not {runtime}, where hosts and switches take the time that they"
        " take. Take this key out",
    ),
    Rule(
        "costs",
        _of_hosts,
        "{found}: runtime {runtime} has real hosts and switches, which take the time that they"
        " take. Take runtime virtual, or a profile without them",
    ),
    Rule(
        "costs",
        lambda costs, jobs: (
            isinstance(costs, Costs)
            and costs.of_calls
            and next((job.name for job in jobs if job.is_program), "")
        ),
        "has costs of calls (algorithms or copy), and {found} is a program whose calls take the"
        " time that they take. Take a profile without them, or replay the program's recording",
    ),
    Rule(
        "costs",
        _with_passes,
        "a pass through a switch adds {costs.switch.values} values, values_per_packet is"
        " {values_per_packet}, and the profile says no switch.recirculation. Take fewer values, or"
        " name the rate",
    ),
    Rule(
        "faults[*].fault",
        lambda each, virtual, runtime: runtime == "virtual" and each.needs_processes,
        "found {each.kind}; allowed with runtime virtual: pause of a job, worker or server, slow of"
        " workers; there are no processes to end or to slow down",
    ),
    Rule(
        "offload",
        lambda offload, runtime: offload == "on" and runtime != "mininet" and f"runtime {runtime}",
        IN_TRAINS,
    ),
    Rule(
        "offload",
        lambda offload, switch: offload == "on" and switch != "embedded" and f"switch {switch}",
        IN_TRAINS,
    ),
    Rule(
        "value_bits",
        lambda value_bits, values_per_packet: value_bits == 16 and values_per_packet == 1,
        "found 16 with values_per_packet 1; allowed: 2 values or more",
    ),
    Rule(
        "value_bits",
        lambda value_bits, system, entry: (
            value_bits == 16 and not entry.memory and entry.servers == "none"
        ),
        "found 16 with system {entry.name}, whose workers pass on sums of some workers, which need"
        " more bits. Take it out",
    ),
    Rule(
        "jobs[*].numbers",
        lambda each, value_bits, system: (
            each.numbers == "fixed"
            and (min(value_bits, format_of(system).bits) < 32 or format_of(system).is_float)
        ),
        "found fixed with value_bits 16 or sum: {system.sum}; a fixed scale is that of int32. Take"
        " exponents",
    ),
    *PATH_RULES,
    *number_checks.RULES,
    *bmv2_limits.RULES,
    lossy_links,
    RESTARTS,
    RESTARTS_WITH_CREDITS,
    _background,
)


def _mixed_hardware(traces: list[Trace]) -> list[str]:
    """A warning about jobs whose compute times cannot be compared."""
    hardware: dict[str, list[str]] = {}
    for trace in traces:
        names = hardware.setdefault(trace.hardware, [])
        if trace.name not in names:
            names.append(trace.name)
    if len(hardware) < 2:
        return []
    groups = "; ".join(f"{where}: {', '.join(names)}" for where, names in hardware.items())
    return [f"the compute times of these jobs' models belong to different hardware ({groups})"]
