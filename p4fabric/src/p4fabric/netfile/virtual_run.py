"""Running a network file in virtual time: `runtime: virtual`.

The events are handled up to the next *stop*: a time at which the control plane changes something, a
register is read, or queues and flows are looked at. A change comes before all events of its time, a
reading and a look after them. After `duration`, in which flows begin and end, the network goes on
until nothing is on its way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from p4engine.control.commands import Commands
from p4engine.values.numbers import ControlError

from p4fabric.base.errors import RunError, UserError
from p4fabric.base.lossless_buffers import PRIORITY
from p4fabric.base.pause_cycles import PauseWatch
from p4fabric.base.ties import of_ties
from p4fabric.netfile.virtual_network import Row, VirtualNetwork
from p4fabric.netfile.virtual_schema import Change, Reading
from p4fabric.simulate.captures import Captures
from p4fabric.simulate.event_queue import NEVER
from p4fabric.simulate.flow_machine import sending_bps

SAMPLES = 200
MOST_STOPS = 1_000_000


@dataclass
class Looks:
    """Observations at each look. `times_ns` (N); `queues`: packets that wait, by (switch, port,
    direction), N each; `octets`: bytes of each flow that have arrived so far, (N, F); `rates_bps`:
    at which connections may send, by the flow's number, N each."""

    times_ns: list[int] = field(default_factory=list)
    queues: dict[tuple[str, int, str], list[int]] = field(default_factory=dict)
    octets: list[np.ndarray] = field(default_factory=list)
    rates_bps: dict[int, list[int]] = field(default_factory=dict)


class VirtualRun:
    """One run. Attributes: `network`; `looks`; `readings` and `changes` (rows of tables);
    `end_ns`: the time of the last event, at least `duration`; `drained`: nothing was on its way any
    more."""

    def __init__(self, network: VirtualNetwork) -> None:
        self.network = network
        self.looks = Looks()
        self.readings: list[Row] = []
        self.changes: list[Row] = []
        self.end_ns = 0
        self.drained = False
        self._virtual = network.plan.file.virtual
        hosts = network.topology.hosts
        self._targets = np.array(
            [hosts.index(flow.target) if flow.target else -1 for flow in network.flows], np.int64
        )
        self.watch: PauseWatch | None = None  # of lossless links
        if network.buffers:
            switches = network.nodes.switches
            self.watch = PauseWatch(network.topology, switches, PRIORITY)
        self._check_readings()

    def run(self, captures: Captures, tick: Callable[[int], None] = lambda now_ns: None) -> None:
        """Run to the end; `tick` is called now and then. Raises RunError."""
        nodes = self.network.nodes
        duration_ns = self._virtual.duration_ns
        with captures.of(nodes):
            for until_ns, action in self._stops():
                self._advance(until_ns, captures, tick)
                action()
            self._look_for_deadlock()
            self._advance(duration_ns + self._virtual.drain_ns, captures, tick)
            self._look_for_deadlock()
        self.drained = nodes.next_ns >= NEVER
        self.end_ns = max(nodes.now_ns, duration_ns)
        if nodes.oversized:
            raise RunError(
                f"{nodes.oversized} frames became longer than {nodes.frame_bytes} B, the room that"
                " frames have: give virtual.longest_frame more, or look for a program that adds"
                " headers without end"
            )
        if missing := int(self.network.receptions.shared[0].missing):
            raise RunError(
                f"flows arrived at more than {len(self.network.receptions.rows)} pairs of flow and"
                f" host, so {missing} packets were not counted: run fewer flows"
            )

    def _advance(self, until_ns: int, captures: Captures, tick: Callable[[int], None]) -> None:
        nodes = self.network.nodes
        while not nodes.run(until_ns):
            captures.write(nodes.next_ns)
            tick(nodes.now_ns)
        if int(nodes.world.state[0].too_late):
            raise AssertionError("a packet has come to a switch after events of later times")

    # -- stops

    def _stops(self) -> Iterator[tuple[int, Callable[[], None]]]:
        """(up to when, then what), in order of time."""
        file, duration_ns = self.network.plan.file, self._virtual.duration_ns
        step_ns = self._virtual.sample_ns or max(duration_ns // SAMPLES, 1)
        found: list[tuple[int, Callable[[], None]]] = []
        for number, change in enumerate(file.changes):
            found.append((change.at_ns - 1, self._change(number, change)))
        for reading in file.readings:
            times: Iterable[int] = reading.at or ()
            if reading.every_ns is not None:
                self._limit(duration_ns // reading.every_ns, "readings", reading.every_ns)
                times = range(reading.every_ns, duration_ns + 1, reading.every_ns)
            found += [(time_ns, self._read(reading, time_ns)) for time_ns in times]
        self._limit(duration_ns // step_ns, "virtual.sample", step_ns)
        for time_ns in range(step_ns, duration_ns + 1, step_ns):
            found.append((time_ns, self._look(time_ns)))
        found.sort(key=lambda stop: stop[0])  # stable
        yield from found

    def _limit(self, count: int, key: str, every_ns: int) -> None:
        if count > MOST_STOPS:
            raise UserError(
                f"{self.network.plan.path}: {key}: every {every_ns} ns is {count} times in the run;"
                f" allowed: {MOST_STOPS}"
            )

    def _look(self, time_ns: int) -> Callable[[], None]:
        def look() -> None:
            looks = self.looks
            looks.times_ns.append(time_ns)
            for name, switch in self.network.nodes.switches.items():
                left = switch.advance(time_ns)  # its time; there is no event any more
                assert not left, left
                for port in switch.ports:
                    for direction in self._directions(name, port):
                        depths = looks.queues.setdefault((name, port, direction), [])
                        depths.append(switch.port_queue(port, direction))
            looks.octets.append(self.octets())
            for flow in self.network.flows:
                if flow.keys.is_rc:
                    rate_bps = sending_bps(self.network.machines[flow.source], flow)
                    looks.rates_bps.setdefault(flow.number, []).append(rate_bps)
            self._look_for_deadlock()

        return look

    def _look_for_deadlock(self) -> None:
        if self.watch and (found := self.watch.deadlock()):
            raise RunError(f"at {self.network.nodes.now_ns} ns: {found}")

    def _directions(self, switch: str, port: int) -> tuple[str, ...]:
        """Directions of a port that have a queue: of a host's link, both."""
        topology = self.network.topology
        far = topology.ports(switch)[port][0]
        return ("egress", "ingress") if topology.is_host(far) else ("egress",)

    def octets(self) -> np.ndarray:
        """Bytes of each flow that have arrived at its receiver, or anywhere, int64[flows]."""
        made = np.zeros(len(self.network.flows), np.int64)
        receptions = self.network.receptions
        rows = receptions.rows[: receptions.shared[0].rows]
        at_target = self._targets[rows["flow"]]
        counted = (rows["answers"] == 0) & ((at_target < 0) | (at_target == rows["host"]))
        np.add.at(made, rows["flow"][counted], rows["octets"][counted])
        return made

    # -- the control plane

    def _check_readings(self) -> None:
        """Raises UserError for a register, counter or element that a program does not have."""
        plan = self.network.plan
        places: list[tuple[str, int, Any]] = [
            ("readings", n, each) for n, each in enumerate(plan.file.readings)
        ]
        places += [("checks", n, each) for n, each in enumerate(plan.file.checks)]
        for key, number, each in places:
            if each.register_ is not None or each.counter is not None:
                try:
                    read(self.network, each)
                except ControlError as error:
                    raise UserError(f"{plan.path}: {key}[{number}]: {error}") from None

    def _read(self, reading: Reading, time_ns: int) -> Callable[[], None]:
        def make() -> None:
            rows = read(self.network, reading)
            self.readings += [{"time_ns": time_ns, **row} for row in rows]

        return make

    def _change(self, number: int, change: Change) -> Callable[[], None]:
        plan, nodes = self.network.plan, self.network.nodes

        def commands() -> None:
            assert change.on is not None
            for line in change.commands:
                try:
                    said = Commands(nodes.switches[change.on]).run(line)
                except ControlError as error:
                    raise RunError(f"{plan.path}: changes[{number}]: {line}: {error}") from None
                row = {
                    "time_ns": change.at_ns,
                    "where": change.on,
                    "what": line,
                    "said": said or "",
                }
                self.changes.append(row)
            nodes.changed(change.on)

        def link() -> None:
            assert change.link is not None
            for switch in self.network.topology.switches:
                for port, (far, _, _) in self.network.topology.ports(switch).items():
                    if {switch, far} == set(change.link):
                        nodes.switches[switch].port_up(port, change.up)
                        nodes.changed(switch)
            where = "-".join(change.link)
            what = "up" if change.up else "down"
            self.changes.append({"time_ns": change.at_ns, "where": where, "what": what, "said": ""})

        return link if change.link is not None else commands


def read(network: VirtualNetwork, wanted: Any) -> list[Row]:
    """Rows of a reading or a check: switch, kind, name, index, value (of a counter: packets),
    octets (of a counter). Raises ControlError."""
    switch = network.nodes.switches[wanted.of]
    kind = "register" if wanted.register_ is not None else "counter"
    name, first, last = wanted.register_ or wanted.counter
    base = {"switch": wanted.of, "kind": kind, "name": name}
    if kind == "register":
        count = None if last is None else last - first + 1
        values = switch.register_read(name, first, count)
        return [
            {**base, "index": first + place, "value": value, "octets": None}
            for place, value in enumerate(values)
        ]
    if last is None:
        last = _size(switch, name) - 1
    rows = []
    for index in range(first, last + 1):
        found = switch.counter_read(name, index)
        rows.append({**base, "index": index, "value": found["packets"], "octets": found["bytes"]})
    return rows


def _size(switch: Any, name: str) -> int:
    """Elements of a counter. Raises ControlError for a direct one."""
    found = switch.pipeline.names.counter(name)
    if not hasattr(found, "size") or hasattr(found, "match_keys"):
        raise ControlError(f"counter {name} is a table's: name an entry's handle, {name}[0]")
    return int(found.size)


def ties(run: VirtualRun) -> list[str]:
    """Drops that ties have decided in a run whose flows may be in step."""
    if not run.network.plan.file.virtual.is_exact:
        return []
    rows = [row for each in run.network.nodes.switches.values() for row in each.port_stats()]
    return of_ties(*(sum(row[name] for row in rows) for name in ("tie_drops", "queue_drops")))


def warn(run: VirtualRun) -> None:
    """Say what the numbers do not show."""
    for tied in ties(run):
        print(f"warning: {tied}", file=sys.stderr)
    for what in run.watch.paused_by_hosts() if run.watch else ():
        print(f"warning: {what}", file=sys.stderr)
    if not run.drained:
        print(
            f"warning: packets were still on their way {run.network.plan.file.virtual.drain_ns} ns"
            " after the end; they count as lost (virtual.drain)",
            file=sys.stderr,
        )
