"""The captures of a run on Mininet, with the events of its switches.

A capture has what entered and left a port of a switch, not what the switch did. So the switch is
made again, with the tables that the results keep (in experiment.yaml) and the seed of its links. It
gets the captured packets at their times, so it does what the switch of the run did. This needs
captures of all ports through which packets of jobs come in; without them the packets are listed
without events.

The switch of the run may have been late, which changes when a packet met a queue. Where that let
it do something else, packets leave the second switch that did not leave the first one; `unlike`
counts them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from p4engine.switch.library import Switch
from p4fabric.base.config.pcapng import INBOUND, packets
from p4fabric.base.config.pcapng import Packet as CapturedPacket
from p4fabric.base.errors import UserError

from testbed import dataplane
from testbed.paths import command_line
from testbed.setup import Setup
from testbed.tracing.fragments import Fragment, summed_by_hosts
from testbed.tracing.packets import Packet, fragment_in, packet_in
from testbed.tracing.path import Path, Ports, path_of
from testbed.tracing.rerun import workers_of
from testbed.tracing.survey import Survey
from testbed.tracing.watch import Seen, Watch

if TYPE_CHECKING:
    from p4engine.backend.build import Compiled

SETTLE_NS = 10_000_000_000  # after the last packet, for what is in queues and on links


@dataclass
class Captured:
    """The captures of a run, by (switch, port), with times in ns since the first packet."""

    setup: Setup
    ports: Ports
    files: dict[tuple[str, int], list[CapturedPacket]] = field(default_factory=dict)

    @property
    def switches(self) -> list[str]:
        return list(dict.fromkeys(switch for switch, _ in self.files))

    def missing(self, switch: str) -> list[str]:
        """Neighbours of a switch whose ports packets of jobs come in through, without a capture."""
        setup = self.setup
        needed = {
            port
            for job in (*setup.jobs.values(), *setup.groups.values())
            for port in job.group.ports.get(switch, ())
        }
        without = sorted(port for port in needed if (switch, port) not in self.files)
        return [self.ports.neighbour(switch, port) for port in without]

    def host_packets(self, seen: Callable[[str, str, int, CapturedPacket], None]) -> None:
        """Call `seen` with (host, switch, port, packet) for each packet at hosts' ports."""
        for (switch, port), found in self.files.items():
            if port in self.ports.of_hosts(switch):
                for each in found:
                    seen(self.ports.neighbour(switch, port), switch, port, each)


def read_captures(setup: Setup, folder: FilePath) -> Captured:
    """The captures in a results folder. Raises UserError if there are none that can be used."""
    topology = setup.platform.topology
    made = Captured(setup, Ports(topology))
    if setup.repetitions > 1:
        raise UserError(
            f"{folder}: the captures have {setup.repetitions} repetitions, in each of which every"
            " fragment comes again; capture a run with one"
        )
    for switch in topology.switches:
        for port in topology.ports(switch):
            path = folder / "captures" / f"{switch}-{port}.pcapng"
            if path.exists():
                made.files[switch, port] = list(packets(path))
    begin_ns = min((rows[0].time_ns for rows in made.files.values() if rows), default=None)
    if begin_ns is None:
        example = f"FILE.yaml --pcap {topology.switches[0]}:1"
        raise UserError(
            f"{folder}: a run on Mininet without captures; run it again with --pcap for every port,"
            f" such as `{command_line(example, root=True)}`, or trace its twin in virtual time"
        )
    for rows in made.files.values():
        rows[:] = sorted(
            (each._replace(time_ns=each.time_ns - begin_ns) for each in rows),
            key=itemgetter(0),
        )
    return made


def paths(
    captured: Captured,
    compiled: Compiled | None,
    wanted: Collection[Fragment],
    offset: int | None = None,
) -> tuple[dict[Fragment, Path], list[str]]:
    """The paths of these fragments, and sentences about what is missing from them. offset: of a
    value that is looked at."""
    setup, platform = captured.setup, captured.setup.platform
    bits = platform.bitmap_bits, platform.tokens
    chosen = frozenset(wanted)
    sent: dict[Fragment, list[Seen]] = defaultdict(list)
    arrived: dict[Fragment, list[Seen]] = defaultdict(list)
    known: dict[int, Packet] = {}  # by the identity of what was captured

    def seen(host: str, switch: str, port: int, each: CapturedPacket) -> None:
        job, number, _ = fragment_in(each.frame)
        packet = packet_in(each.frame, *bits) if (job, number) in chosen else None
        if packet is not None:
            known[id(each)] = packet
            into = sent if each.direction == INBOUND else arrived
            row = Seen(each.time_ns, host, switch, port, packet)
            into[Fragment(job, number)].append(row)

    captured.host_packets(seen)
    watches: dict[str, Watch] = {}
    said = []
    for name in captured.switches:
        if without := captured.missing(name):
            ports = " ".join(f"--pcap {name}:{each}" for each in without)
            said.append(f"events of {name} are not known: its captures lack {ports}")
        elif compiled is not None:
            watch, unlike = _replayed(captured, name, compiled, chosen, known, offset)
            watches[name] = watch
            if unlike:
                said.append(
                    f"{name}: {unlike} packets of these fragments left it otherwise than here:"
                    " it was late, or restarted; take its events with care"
                )
        else:
            said.append(f"events of {name} are not known: it ran on BMv2")
    hosts, everybody = workers_of(setup), tuple(setup.platform.topology.hosts)
    fates = {key: each for watch in watches.values() for key, each in watch.fates.items()}
    found = {}
    for fragment in wanted:
        handled = [row for watch in watches.values() for row in watch.handled_of(fragment)]
        gone = [row for watch in watches.values() for row in watch.gone_of(fragment)]
        found[fragment] = path_of(
            fragment,
            captured.ports,
            sent[fragment],
            handled,
            gone,
            arrived[fragment],
            hosts.get(fragment.job, everybody),
            fates,
            watches,
            True,
            fragment.job in summed_by_hosts(captured.setup),
        )
    return found, said


def survey(captured: Captured) -> Survey:
    """All packets of hosts whose ports have been captured."""
    setup = captured.setup
    found = Survey(setup.platform, workers_of(setup), summed_by_hosts(setup))
    captured.host_packets(
        lambda host, switch, port, each: found.note(host, each.direction, each.time_ns, each.frame)
    )
    return found


def _replayed(
    captured: Captured,
    name: str,
    compiled: Compiled,
    wanted: Collection[Fragment],
    known: Mapping[int, Packet],
    offset: int | None,
) -> tuple[Watch, int]:
    """A switch's watch after it has got all captured packets, and the number of packets of these
    fragments that left it and not the switch of the run, or the other way round. known: packets of
    these fragments that hosts sent."""
    setup = captured.setup
    platform, topology = setup.platform, setup.platform.topology
    number = topology.switches.index(name)
    switch = Switch(
        compiled,
        ports=sorted(topology.ports(name)),
        seed=setup.seed * 1000 + number,
        timestamp_unit_ns=platform.timestamp_unit_ns,
    )
    dataplane.shape_links(platform, name, switch)
    dataplane.install(setup, name, switch)
    watch = Watch(lambda: setup, {name: switch}, wanted, offset)
    left: Counter[tuple] = Counter()

    def count(outputs: Sequence[tuple[int, int, bytes]], sign: int) -> None:
        for _, port, frame in outputs:
            if (name, port) in captured.files and fragment_in(frame)[:2] in wanted:
                packet = packet_in(frame, platform.bitmap_bits, platform.tokens)
                if packet is not None:
                    left[port, packet.key] += sign

    entered = [
        (each.time_ns, port, each)
        for (node, port), rows in captured.files.items()
        if node == name
        for each in rows
        if each.direction == INBOUND
    ]
    entered.sort(key=itemgetter(0))
    for time_ns, port, each in entered:
        count(switch.advance(time_ns), 1)
        switch.receive(port, each.frame, time_ns)
        watch.entered(name, port, time_ns, known.get(id(each)))
    count(switch.advance((entered[-1][0] if entered else 0) + SETTLE_NS), 1)
    watch.stop()
    for (node, port), rows in captured.files.items():
        if node == name:
            outward = [(0, port, each.frame) for each in rows if each.direction != INBOUND]
            count(outward, -1)
    switch.close()
    return watch, sum(map(abs, left.values()))
