"""An experiment: all settings of a run, resolved.

`load` makes it. Nothing in it is optional any more (names, placements, number of aggregators), and
nothing changes. What follows from it for a run is worked out by testbed/setup, once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from p4fabric.base.config.input_files import Input
from p4fabric.base.config.units import SIZE, count, show
from p4fabric.base.config.yaml_document import write_yaml
from p4fabric.base.topology import Topology
from pydantic import PrivateAttr

from testbed import systems
from testbed.costs.profile import Costs
from testbed.experiment.drawn_jobs import Source
from testbed.experiment.inputs import identity, inputs_of
from testbed.experiment.number_checks import sum_bits
from testbed.experiment.printing import as_data
from testbed.experiment.schema import ExperimentFile
from testbed.experiment.schema_jobs import Job
from testbed.protocols.sizes import bitmap_width
from testbed.systems.tuned_options import KEY, Tuned, Tuning


@dataclass(frozen=True)
class LinkDirection:
    """The effect of a link on packets from `source` to `target`. `bandwidth_bps` None: unlimited;
    `loss`, `duplicate`, `reorder`: shares, 0 to 1; `ecn_threshold_packets` None: no congestion
    marks; `ecn_max_threshold_packets` None: all packets beyond it get one."""

    source: str
    target: str
    bandwidth_bps: int | None
    delay_ns: int
    jitter_ns: int
    loss: float
    duplicate: float
    reorder: float
    reorder_delay_ns: int
    queue_packets: int
    ecn_threshold_packets: int | None
    ecn_max_threshold_packets: int | None = None
    ecn_max_probability: float = 1.0


def worker_bits(jobs: Iterable[Job]) -> int:
    """Width of a bitmap of workers that fits the largest of these jobs."""
    return bitmap_width(max(job.workers for job in jobs))


def bitmap_bits(jobs: Sequence[Job]) -> int:
    """Width of a packet's bitmaps: two where those of tokens name their ranks, else one."""
    return worker_bits(jobs) << any(job.tokens_in_packets for job in jobs)


class Experiment(ExperimentFile):
    """A loaded experiment. Its fields are those of `ExperimentFile`, all filled in."""

    _topology: Topology = PrivateAttr()
    _directions: tuple[tuple[LinkDirection, LinkDirection], ...] = PrivateAttr()
    _warnings: tuple[str, ...] = PrivateAttr()
    _source: Source | None = PrivateAttr(default=None)  # of jobs, where `arrivals` are drawn
    _inputs: tuple[Input, ...] | None = PrivateAttr(default=None)
    _identity: str = PrivateAttr(default="")
    _tuning: Tuning | None = PrivateAttr(default=None)
    _tuned: Tuned | None = PrivateAttr(default=None)

    def topology_object(self) -> Topology:
        """The network as data."""
        return self._topology

    @property
    def directions(self) -> tuple[tuple[LinkDirection, LinkDirection], ...]:
        """Both directions of each link (a, b) of the topology: a to b, b to a."""
        return self._directions

    @property
    def system_entry(self) -> systems.System:
        """The system's entry in the list of systems."""
        return systems.SYSTEMS[self.system.name]

    @property
    def program(self) -> Path:
        """The P4 program to load."""
        own = self.system.program == "default"
        return self.system_entry.program if own else Path(self.system.program)

    @property
    def bitmap_bits(self) -> int:
        """Width of a packet's bitmaps of workers, each of which fits the largest job."""
        return bitmap_bits(self._all_jobs)

    @property
    def _all_jobs(self) -> tuple[Job, ...]:
        """Those of the file, and those of which others are drawn."""
        return (*self.jobs, *(self._source.of_kind if self._source is not None else ()))

    @property
    def aggregators(self) -> int:
        """Aggregators of each switch; 0 for a system that uses no switch memory."""
        return self.memory.aggregators or 0 if self.memory is not None else 0

    @property
    def aggregator_bytes(self) -> int:
        """Switch memory of one aggregator."""
        bits = sum_bits(self.system, self.system_entry, self.jobs)
        width = worker_bits(self._all_jobs)
        return self.system_entry.aggregator_bytes(self.values_per_packet, width, bits)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Files that a run of it reads, as they were at the first access."""
        if self._inputs is None:
            self._inputs = inputs_of(self)
        return self._inputs

    @property
    def identity(self) -> str:
        """SHA-256 of the experiment without its name, its inputs, and what is to be tuned."""
        if not self._identity:
            self._identity = identity(self)
            if self._tuning is not None:
                whole = [self._identity, self._tuning.as_data()]
                self._identity = hashlib.sha256(json.dumps(whole).encode()).hexdigest()
        return self._identity

    @property
    def tuning(self) -> Tuning | None:
        """Options that the file leaves to be tuned, before a run; None: it names all."""
        return self._tuning

    @property
    def tuned(self) -> Tuned | None:
        """The trials of options that have been tuned; None: none were."""
        return self._tuned

    def with_tuned(self, tuned: Tuned) -> Experiment:
        """The same with a note that these options were tuned."""
        made = self.model_copy()
        made._tuned = tuned
        return made

    def noted(self) -> Experiment:
        """The same with its inputs as they are now."""
        made = self.model_copy()
        made._inputs, made._identity = inputs_of(self), ""
        return made

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the user to read before trusting the results; one line each."""
        return self._warnings

    @property
    def memory_parts(self) -> int:
        """Number of parts into which a system divides the memory that gives each job its own."""
        if self.arrivals is not None:
            return self.arrivals.at_once or 1
        return len(self.jobs) + sum(self.groups)

    @property
    def groups(self) -> tuple[int, ...]:
        """Number of groups of its ranks with communicators that each job can make."""
        return tuple(job.groups or 0 for job in self.jobs)

    def of_repetition(self, repetition: int) -> Experiment:
        """The experiment with the jobs of a repetition: where they are drawn, others than those of
        repetition 0, which a loaded experiment has."""
        if self.arrivals is None or self._source is None or not repetition:
            return self
        jobs = self._source.jobs(self.arrivals, self.seed + repetition)
        return self.model_copy(update={"jobs": jobs})

    def resolved_yaml(self) -> str:
        """The whole experiment with all defaults, as a file that loads to the same experiment."""
        data = as_data(self)
        if self._tuning is not None:
            for key in self._tuning.options:
                data["system"].pop(key, None)
            data[KEY] = self._tuning.as_data()
            if self.arrivals is None and self._tuning.servers_reserved:  # hosts depend on them
                for job, given in zip(
                    data["jobs"], self._tuning.document.data["jobs"], strict=True
                ):
                    job["placement"] = given.get("placement", "packed")
        return write_yaml(data)


# -- in one line


def choices(experiment: Experiment) -> list[str]:
    """Choices of `auto` for the calls of programs, a line for each kind and size of groups, such
    as `all_reduce among 8 ranks (auto): double_tree, from 64 KiB on esa`."""
    from testbed.traffic import rank_source
    from testbed.traffic.call_algorithms import AUTO
    from testbed.traffic.rank_calls import load_program

    found = []
    for job in experiment.jobs:
        routes = rank_source.of(job.trace().ranks).routes if job.has_ranks else None
        if routes is None or routes.network is None:
            continue
        groups = load_program(job.trace().ranks).groups.values()
        for kind in dict.fromkeys(kind for kind, _, use, _ in routes.rules if use == AUTO):
            for ranks in sorted({len(each) for each in groups} - {1}):
                steps = [
                    f"from {show(size, SIZE)} on {name or experiment.system.name}"
                    for size, name in routes.network.thresholds(kind, ranks)
                ]
                first = steps[0].partition(" on ")[2]
                found.append(f"{kind} among {ranks} ranks (auto): {', '.join([first, *steps[1:]])}")
    return list(dict.fromkeys(found))


def summary(experiment: Experiment) -> str:
    """One line, such as `2 jobs with 8 workers on star (10 hosts, 1 switch), ESA, 256 aggregators
    per switch`."""
    topology = experiment.topology_object()
    workers = sum(job.workers for job in experiment.jobs)
    network = f"{count(topology.hosts, 'host')}, {count(topology.switches, 'switch', 'es')}"
    jobs = f"{count(experiment.jobs, 'job')} with {workers} worker{'s' if workers > 1 else ''}"
    parts = [f"{jobs} on {experiment.topology.title()} ({network})", experiment.system_entry.title]
    if experiment.system_entry.memory:
        parts.append(f"{experiment.aggregators} aggregators per switch")
    if experiment.fabric:
        parts.append(f"fabric {experiment.fabric}")
    if experiment.paths is not None:
        parts.append(f"paths {experiment.paths.choice}, sums {experiment.paths.sums}")
    if isinstance(experiment.costs, Costs):
        parts.append(f"costs {experiment.costs.title()}")
    return ", ".join(parts)
