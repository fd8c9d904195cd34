"""A run in virtual time once more, with eyes on some fragments.

A run in virtual time depends on nothing but its experiment and the code, so the second one has the
same packets at the same times. What is watched changes nothing of it.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from p4fabric.base.config.pcapng import INBOUND
from p4fabric.base.errors import RunError
from p4fabric.simulate import taps

from testbed.setup import Setup
from testbed.simulate.simulation import Simulation
from testbed.tracing.fragments import Fragment, summed_by_hosts
from testbed.tracing.packets import fragment_in, packet_in
from testbed.tracing.path import Path, Ports, path_of
from testbed.tracing.paused import PauseLog
from testbed.tracing.survey import Survey
from testbed.tracing.watch import Seen, Watch

if TYPE_CHECKING:
    from p4engine.backend.build import Compiled

Tick = Callable[[Simulation], None]


class _Enough(Exception):
    pass


def workers_of(setup: Setup) -> dict[int, tuple[str, ...]]:
    """The hosts of the workers of each communicator, by its number; without those of jobs that come
    and go."""
    return {
        number: each.group.workers for number, each in (*setup.jobs.items(), *setup.groups.items())
    }


def paths(
    setup: Setup,
    compiled: Compiled,
    wanted: Collection[Fragment],
    until_ns: int | None = None,
    tick: Tick = lambda simulation: None,
    offset: int | None = None,
) -> tuple[dict[Fragment, Path], str]:
    """Run a repetition until its end, its failure, or, if given, a time; returns the paths of these
    fragments, and the error of a run that fails. offset: of a value that is looked at."""
    chosen = frozenset(wanted)
    sent: dict[Fragment, list[Seen]] = defaultdict(list)
    arrived: dict[Fragment, list[Seen]] = defaultdict(list)
    bits = setup.platform.bitmap_bits, setup.platform.tokens
    ports = Ports(setup.platform.topology)

    def seen(switch: str, port: int, direction: int, time_ns: int, frame: bytes) -> None:
        job, number, _ = fragment_in(frame)
        packet = packet_in(frame, *bits) if (job, number) in chosen else None
        if direction == INBOUND:
            watch.entered(switch, port, time_ns, packet)
        if packet is not None:
            host = ports.neighbour(switch, port)
            into = sent if direction == INBOUND else arrived
            into[Fragment(job, number)].append(Seen(time_ns, host, switch, port, packet))

    with _listening(setup, compiled, seen) as simulation:
        watch = Watch(
            lambda: simulation.control.setup if simulation.control else simulation.setup,
            simulation.nodes.switches,
            chosen,
            offset,
        )
        error = _run(simulation, until_ns, tick)
        watch.stop()
    workers, by_hosts = workers_of(setup), summed_by_hosts(setup)
    everybody = tuple(setup.platform.topology.hosts)
    log = PauseLog(setup.platform.topology, simulation.nodes.switches)
    found = {}
    for each in wanted:
        hosts = workers.get(each.job, everybody)
        found[each] = path_of(
            each,
            ports,
            sent[each],
            watch.handled_of(each),
            watch.gone_of(each),
            arrived[each],
            hosts,
            watch.fates,
            setup.platform.topology.switches,
            by_hosts=each.job in by_hosts,
        )
        log.explain(found[each])
    return found, error


def survey(
    setup: Setup, compiled: Compiled, tick: Tick = lambda simulation: None
) -> tuple[Survey, str]:
    """Run a repetition, and look at all packets of hosts; returns also the error of a run that
    fails."""
    ports = Ports(setup.platform.topology)
    found = Survey(setup.platform, workers_of(setup), summed_by_hosts(setup))

    def seen(switch: str, port: int, direction: int, time_ns: int, frame: bytes) -> None:
        found.note(ports.neighbour(switch, port), direction, time_ns, frame)

    with _listening(setup, compiled, seen) as simulation:
        error = _run(simulation, None, tick)
    return found, error


@contextlib.contextmanager
def _listening(setup: Setup, compiled: Compiled, seen: taps.Seen) -> Iterator[Simulation]:
    simulation = Simulation(setup, compiled)
    ports = Ports(setup.platform.topology)
    of_hosts = {name: ports.of_hosts(name) for name in simulation.nodes.switches}
    with contextlib.closing(simulation.parts):
        kept = taps.listen(simulation.nodes, of_hosts, seen)
        yield simulation
        del kept


def _run(simulation: Simulation, until_ns: int | None, tick: Tick) -> str:
    """Run to the end; returns the error of a run that fails."""

    def on_tick(simulation: Simulation) -> None:
        tick(simulation)
        if until_ns is not None and simulation.now_ns > until_ns:
            raise _Enough

    try:
        simulation.run(on_tick)
    except _Enough:
        pass
    except RunError as error:
        return str(error)
    return ""
