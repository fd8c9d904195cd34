"""The flows of the key `background`, and the problems that keep a flow from being honoured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from p4fabric.base.config.problems import Problem
from p4fabric.base.flow import Flow, old_words
from p4fabric.base.topology import Topology

from testbed.experiment.rules import not_among
from testbed.experiment.schema_background import MAX_FLOWS, MODELLED, RANDOM, Background
from testbed.traffic.draws import Stream

if TYPE_CHECKING:
    from p4fabric.base.config.problems import Path as KeyPath

    from testbed.experiment.experiment import Experiment

ENDS = 0xB6F1  # distinguishes the stream of random ends from others of the same seed


def flows_of(
    background: Sequence[Background], topology: Topology, seed: int
) -> list[Flow[Background]]:
    """All flows of a repetition with this seed."""
    found: list[Flow[Background]] = []
    for place, keys in enumerate(background):
        pairs = _pairs(keys, topology.hosts, Stream(seed, ENDS, place))
        name = keys.name or f"{keys.kind}-{place}"
        for which, ends in enumerate(pairs):
            own = f"{name[:58]}-{which}" if len(pairs) > 1 else name
            found.append(Flow(len(found), place, own, keys, *ends))
    return found


def _pairs(given: Background, hosts: Sequence[str], stream: Stream) -> list[tuple[str, str]]:
    if RANDOM not in (*given.sources, *given.targets):
        return [(a, b) for a in given.sources for b in given.targets if a != b]
    pairs = []
    for _ in range(given.flows or 1):
        ends = ["", ""]
        for end, named in enumerate((given.sources, given.targets)):
            if RANDOM not in named:
                ends[end] = named[stream.below(len(named))]
        for end in range(2):
            if not ends[end]:
                others = [host for host in hosts if host not in ends]
                ends[end] = others[stream.below(len(others))]
        pairs.append((ends[0], ends[1]))
    return pairs


def check(
    background: Sequence[Background],
    topology: Topology,
    lossless_reason: str,
    frame_bytes: int | None,
    virtual: bool,
) -> list[Problem]:
    """Problems with flows that cannot be honoured. `lossless_reason`: why no packet may be lost, or
    "". `frame_bytes`: of a job's packet, where links carry so many packets/s, as in BMv2, else
    None. `virtual`: the run is in virtual time."""
    problems = []
    for number, given in enumerate(background):
        path: KeyPath = ("background", number)
        for key, hosts in (("from", given.sources), ("to", given.targets)):
            for host in hosts:
                wrong = not_among(host, topology.hosts, topology.switches, "a switch")
                if wrong and host != RANDOM:
                    problems.append(Problem((*path, key), wrong))
        alone = len(given.sources) == 1 and given.sources != (RANDOM,)
        if alone and given.sources == given.targets:
            problems.append(Problem((*path, "to"), f"{given.targets[0]} cannot send to itself"))
        if lossless_reason:
            message = f"fills queues, so that packets get lost; {lossless_reason}"
            problems.append(Problem(path, message))
        if virtual and given.controlled_by not in (None, MODELLED):
            message = (
                f"found {given.controlled_by}; virtual time models {MODELLED} only. Take"
                " that, or `runtime: mininet`"
            )
            problems.append(Problem((*path, "congestion_control"), message))
        if not virtual and given.is_rc:
            message = (
                "found rc, whose hosts are in virtual time only; take kind tcp, or"
                " `runtime: virtual`"
            )
            problems.append(Problem((*path, "kind"), message))
        if frame_bytes is not None and given.packet_bytes != frame_bytes:
            message = (
                f"found {given.packet_bytes} B; a link of BMv2 carries a number of packets/s, so"
                f" all must have the size of the jobs' packets: {frame_bytes} B. Set it, or take"
                " the links' bandwidth out"
            )
            problems.append(Problem((*path, "size"), message))
    if len(topology.hosts) < 2 and background:
        problems.append(Problem(("background",), "needs two hosts; the topology has one"))
    if not problems and (count := len(flows_of(background, topology, 0))) > MAX_FLOWS:
        problems.append(Problem(("background",), f"found {count} flows; allowed: {MAX_FLOWS}"))
    return problems


def warnings(experiment: Experiment) -> list[str]:
    """Old words, and effects of flows on jobs that a user may not expect."""
    notes = old_words(experiment.background, "background")
    # A window is halved when a queue is full, so half of the queue stays.
    always_marked = any(
        each.bandwidth_bps
        and each.ecn_threshold_packets is not None
        and 2 * each.ecn_threshold_packets < each.queue_packets
        for both in experiment.directions
        for each in both
    )
    endless = (
        number
        for number, each in enumerate(experiment.background)
        if each.controlled_by in ("reno", "cubic") and each.burst_bytes is None
    )
    first = next(endless, None)
    if first is None or not always_marked:
        return notes
    return [
        *notes,
        f"background[{first}]: TCP without bursts keeps a queue on its path above ecn_threshold,"
        " where workers whose windows follow congestion marks send one packet at a time; set"
        " links.ecn_threshold: none, burst and every, or congestion_control: bbr (on Mininet)",
    ]
