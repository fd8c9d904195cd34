"""Checks of the format in which values are added (option `sum`, testbed/number_formats.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from testbed.experiment.rules import Rule
from testbed.number_formats import DEFAULT, HALVES, MOST_PACKED, format_of

MOST_KEPT = 1 << 30  # bytes of sums

if TYPE_CHECKING:
    from p4fabric.base.topology import Topology

    from testbed.experiment.schema import VirtualTime
    from testbed.experiment.schema_collectives import Collectives
    from testbed.experiment.schema_jobs import Job
    from testbed.systems import System, SystemOptions


def mixes_integers(system: SystemOptions, jobs: Sequence[Job]) -> bool:
    """True if switches that add floats also add int32: what programs agree on, gather, and count
    (INTEGERS in p4/adder.p4)."""
    return format_of(system).is_float and any(job.is_program for job in jobs)


def _too_large(virtual: VirtualTime | None, jobs: Sequence[Job], values_per_packet: int) -> int:
    """MiB of all sums that are to be kept, if they are too many."""
    if virtual is None or not virtual.keep_sums:
        return 0
    words = 0
    for job in jobs:
        if job._trace and job.has_ranks:
            for group in job.rank_groups(values_per_packet):
                words += len(group.ranks) * job.iterations * sum(c.values for c in group.calls)
        elif job._trace:
            words += job.workers * job.iterations * sum(each.values for each in job._trace.layers)
    return 4 * words >> 20 if 4 * words > MOST_KEPT else 0


def _without_parts(
    virtual: VirtualTime | None,
    system: SystemOptions,
    values_per_packet: int,
    jobs: Sequence[Job],
    kinds: Sequence[Job] = (),
) -> str:
    """Groups or values that have no sums of `sum_parts` parts, and why."""
    if virtual is None or not (parts := virtual.sum_parts):
        return ""
    if format_of(system).is_bytes:
        return "sums of int8 are rounded by the number of workers. Take another format"
    if format_of(system).numbers == HALVES:
        return "sums of so short parts of bfloat16 are hardly ever rounded. Take another format"
    for job in (*jobs, *kinds):
        if job._trace is None:
            continue
        if job._trace.gradients is not None:
            return f"job {job.name} has recorded values. Take it out"
        sizes = [(f"job {job.name}", job.workers)]
        if job.has_ranks:
            groups = job.rank_groups(values_per_packet)
            sizes = [(f"group {each.route} of job {job.name}", len(each.ranks)) for each in groups]
            for (name, _), group in zip(sizes, groups, strict=True):
                if call := next((each for each in group.calls if each.share), None):
                    what = "has parts of its own for each rank, in packets that other numbers of"
                    return f"{call.node.kind} of {name} {what} ranks do not have. Take it out"
        for name, size in sizes:
            if parts not in (allowed := (size, 2 * size, 4 * size)):
                return f"{name} has {size} ranks; allowed: {', '.join(map(str, allowed))}"
    return ""


def packs_sums(system: SystemOptions, entry: System, jobs: Sequence[Job]) -> bool:
    """True if a register's word has two sums (p4/int8.p4). What programs add besides, their own
    int32 and what they agree on, needs whole words, and so may formats of groups."""
    if not format_of(system).is_bytes or not entry.memory:
        return False
    return not any(job.is_program or job.sums for job in jobs)


def sum_bits(system: SystemOptions, entry: System, jobs: Sequence[Job]) -> int:
    """Bits of a sum in a switch's registers."""
    return format_of(system).sum_bits(packs_sums(system, entry, jobs))


def _too_many_for_words(
    system: SystemOptions, entry: System, kinds: Sequence[Job], jobs: Sequence[Job] = ()
) -> str:
    """Name and workers of a job whose sums do not fit half a word."""
    if not packs_sums(system, entry, jobs):
        return ""
    many = (job for job in (*jobs, *kinds) if job.workers > MOST_PACKED)
    return next((f"job {job.name} has {job.workers} workers" for job in many), "")


def _not_together(job: Job, system: SystemOptions) -> str:
    """A format of a type or group that a switch does not add beside the system's."""
    allowed = format_of(system).together
    wrong = next((each for each in (job.sums or {}).values() if each not in allowed), "")
    return wrong and f"{wrong} with sum: {allowed[0]}; allowed: {', '.join(allowed)}"


def _least_values(system: SystemOptions, values_per_packet: int) -> int:
    """Values that a packet must have, if it has fewer."""
    least = format_of(system).least_values
    return least if values_per_packet < least else 0


def warnings(value_bits: int) -> list[str]:
    """A warning about a key that the option `sum` has replaced."""
    if value_bits == 32:
        return []
    return [
        f"value_bits: {value_bits} is now the system's option sum: int{value_bits}; the key goes"
        " with the next version"
    ]


def _passes_parts_on(
    system: SystemOptions,
    entry: System,
    network: Topology,
    collectives: Collectives,
) -> str:
    """Subject and verb of passing on sums of some workers, where these have more bits than a
    packet; "" if nobody does."""
    if not format_of(system).is_wide:
        return ""
    if collectives.algorithms:
        return f"{collectives.algorithms[0]} passes on"
    if entry.servers == "many":
        return ""
    if entry.managed:
        return "workers of a job that gets no tree pass on"
    if entry.memory and entry.servers == "none":  # a sum leaves when it is complete in a switch
        return "" if len(network.switches) == 1 else "several switches on a tree pass on"
    return "switches pass on" if entry.memory else "workers pass on"


RULES = (
    Rule(
        "system.sum",
        _passes_parts_on,
        "found {system.sum} with system {entry.name}; {found} sums of some workers, which have 288"
        " bits that no packet has room for. Take switchml with one switch, or ps",
    ),
    Rule(
        "system.sum",
        _too_many_for_words,
        "found {system.sum}, and {found}: a sum of theirs needs more than the 16 bits that it has"
        f" in a switch, where two share a word. Take int16, or at most {MOST_PACKED} workers",
    ),
    Rule(
        "virtual.keep_sums",
        _too_large,
        f"found true, and the sums of all workers take {{found}} MiB; at most {MOST_KEPT >> 20} are"
        " kept. Take a smaller scale, or fewer iterations",
    ),
    Rule(
        "virtual.keep_sums",
        lambda virtual, kinds: virtual is not None and virtual.keep_sums and kinds,
        "found true with arrivals, of whose jobs nobody knows how many sums there will be. Take it"
        " out, or name the jobs",
    ),
    Rule(
        "virtual.sum_parts",
        _without_parts,
        "found {virtual.sum_parts}, and {found}",
    ),
    Rule(
        "system.sum",
        lambda system, values_per_packet: _least_values(system, values_per_packet),
        "found {system.sum} with values_per_packet {values_per_packet}; allowed: {found} values or"
        " more",
    ),
    Rule(
        "system.sum",
        lambda system, entry: (
            format_of(system).bits < 32 and not entry.memory and entry.servers == "none"
        ),
        "found {system.sum} with system {entry.name}, whose workers pass on sums of some workers,"
        " which need more bits. Take int32 or float32",
    ),
    Rule(
        "system.sum",
        lambda system, switch, limited: (
            format_of(system).bits < 32 and switch == "bmv2" and limited
        ),
        "found {system.sum} with switch bmv2, whose queues take as long for a short packet as for a"
        " full one. Take int32 or float32, or use switch embedded, or bandwidth: unlimited",
    ),
    Rule(
        "jobs[*].sums",
        lambda each, system: _not_together(each, system),
        "found {found}: a switch program has one adder, for values of fewer bits and of 32",
    ),
    Rule(
        "value_bits",
        lambda value_bits, system: value_bits == 16 and format_of(system).name != DEFAULT,
        "found 16 with sum: {system.sum}, which has bits of its own. Take value_bits out",
    ),
    Rule(
        "value_bits",
        lambda value_bits, jobs: value_bits == 16 and any(each.sums for each in jobs),
        "found 16, and a job has sums, which name formats. Take the system's sum: int16",
    ),
)
