"""Single flows of the key `background`, and the problems that keep a flow from being honoured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from testbed.config.problems import Problem
from testbed.errors import did_you_mean, sentence
from testbed.experiment.schema_background import MAX_FLOWS, MODELLED, RANDOM, Background
from testbed.topology import Topology
from testbed.traffic.draws import Stream

if TYPE_CHECKING:
    from testbed.config.problems import Path as KeyPath
    from testbed.experiment.experiment import Experiment

ENDS = 0xB6F1  # distinguishes the stream of random ends from others of the same seed


@dataclass(frozen=True)
class Flow:
    """One flow: `number` from 0, in the order of the file. Times are ns from the start of the run;
    `end_ns` None: the end of the run. `on_ns` None: always. `burst_bytes` None: without end."""

    number: int
    name: str
    kind: str
    source: str
    target: str
    rate_bps: int | None
    packet_bytes: int
    start_ns: int
    end_ns: int | None
    on_ns: int | None
    off_ns: int | None
    burst_bytes: int | None
    every_ns: int | None
    congestion_control: str | None  # None: not TCP

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> Flow:
        return cls(**stored)

    @property
    def title(self) -> str:
        """Name of the flow in messages."""
        return f"{self.name} ({self.kind}, {self.source} to {self.target})"


def flows_of(background: Sequence[Background], topology: Topology, seed: int) -> list[Flow]:
    """All flows of a repetition with this seed."""
    found: list[Flow] = []
    for entry, given in enumerate(background):
        pairs = _pairs(given, topology.hosts, Stream(seed, ENDS, entry))
        name = given.name or f"{given.kind}-{entry}"
        for place, (source, target) in enumerate(pairs):
            found.append(
                Flow(
                    number=len(found),
                    name=f"{name[:58]}-{place}" if len(pairs) > 1 else name,
                    kind=given.kind,
                    source=source,
                    target=target,
                    rate_bps=given.rate_bps,
                    packet_bytes=given.packet_bytes,
                    start_ns=given.start_ns,
                    end_ns=given.duration_ns and given.start_ns + given.duration_ns,
                    on_ns=given.on_ns,
                    off_ns=given.off_ns,
                    burst_bytes=given.burst_bytes,
                    every_ns=given.every_ns,
                    congestion_control=congestion_control(given),
                )
            )
    return found


def congestion_control(given: Background) -> str | None:
    """Of the flows of an entry; None: they have none."""
    return (given.congestion_control or MODELLED) if given.kind == "tcp" else None


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
                if host == RANDOM or host in topology.hosts:
                    continue
                what = "is a switch" if host in topology.switches else "is not in the topology"
                near = did_you_mean(host, topology.hosts)
                problems.append(Problem((*path, key), sentence(f"{host} {what}", near)))
        alone = len(given.sources) == 1 and given.sources != (RANDOM,)
        if alone and given.sources == given.targets:
            problems.append(Problem((*path, "to"), f"{given.targets[0]} cannot send to itself"))
        if lossless_reason:
            message = f"fills queues, so that packets get lost; {lossless_reason}"
            problems.append(Problem(path, message))
        if virtual and congestion_control(given) not in (None, MODELLED):
            message = (
                f"found {given.congestion_control}; virtual time models {MODELLED} only. Take"
                " that, or `runtime: mininet`"
            )
            problems.append(Problem((*path, "congestion_control"), message))
        if frame_bytes is not None and given.packet_bytes != frame_bytes:
            message = (
                f"found {given.packet_bytes} B; a link of BMv2 carries a number of packets/s, so"
                f" all must have the size of the jobs' packets: {frame_bytes} B. Set it, or take"
                " the links' bandwidth out"
            )
            problems.append(Problem((*path, "packet"), message))
    if len(topology.hosts) < 2 and background:
        problems.append(Problem(("background",), "needs two hosts; the topology has one"))
    if not problems and (count := len(flows_of(background, topology, 0))) > MAX_FLOWS:
        problems.append(Problem(("background",), f"found {count} flows; allowed: {MAX_FLOWS}"))
    return problems


def warnings(experiment: Experiment) -> list[str]:
    """Effects of flows on jobs that a user may not expect."""
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
        if congestion_control(each) in ("reno", "cubic") and each.burst_bytes is None
    )
    first = next(endless, None)
    if first is None or not always_marked:
        return []
    return [
        f"background[{first}]: TCP without bursts keeps a queue on its path above ecn_threshold,"
        " where workers whose windows follow congestion marks send one packet at a time; set"
        " links.ecn_threshold: none, burst and every, or congestion_control: bbr (on Mininet)"
    ]
