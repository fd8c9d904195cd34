"""Reading a network file: all mistakes at once, each with its line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from p4fabric.base.config.data_files import read_named
from p4fabric.base.config.explain import explain
from p4fabric.base.config.fields import user_file
from p4fabric.base.config.problems import ExperimentError, Problem
from p4fabric.base.config.units import FieldError
from p4fabric.base.config.yaml_document import MAX_BYTES, read_yaml
from p4fabric.base.errors import did_you_mean, sentence
from p4fabric.base.topology import Topology, TopologyError
from p4fabric.netfile.network_schema import Check, LinkEntry, Net, NetworkFile
from p4fabric.netfile.virtual_plan import VirtualProblems
from p4fabric.netfile.virtual_plan import given as is_given
from p4fabric.netfile.virtual_schema import CONDITIONS

COMMANDS = ("ping", "run", "start")


@dataclass(frozen=True)
class NetworkPlan:
    """A network file that makes sense. `programs`: the P4 file of each switch. `topology`: hosts,
    switches and links in the file's order; `ports`: of each link, the number at each end (None:
    the next that is free); `path`: of the file, `folder`: where it lies; `file`: what it says;
    `text`: its text."""

    name: str
    path: Path
    folder: Path
    file: NetworkFile
    net: Net
    checks: tuple[Check, ...]
    programs: dict[str, Path]
    topology: Topology
    ports: tuple[tuple[int | None, int | None], ...]
    text: str


def load_network(path: str | Path) -> NetworkPlan:
    """Read a network file. Raises UserError that lists everything that is wrong with it."""
    path = Path(path)
    text = read_named(path, "a network file", MAX_BYTES)
    document = read_yaml(text, str(path), "network")
    problems = list(document.problems)
    plan = None
    if not problems:
        try:
            file = NetworkFile.model_validate(document.data)
        except ValidationError as error:
            problems += explain(error, (), NetworkFile)
        else:
            plan, problems = _Plan(file, path, text).made()
    if problems or plan is None:
        lines = [Problem(p.path, p.message, p.line or document.line(p.path)) for p in problems]
        raise ExperimentError(str(path), lines, "network")
    return plan


class _Plan:
    """A network file on its way to a plan: the checks across its sections."""

    def __init__(self, file: NetworkFile, path: Path, text: str) -> None:
        self.file = file
        self.path = path
        self.text = text
        self.problems: list[Problem] = []
        self.topology = Topology()
        self.ports: list[tuple[int | None, int | None]] = []

    def made(self) -> tuple[NetworkPlan | None, list[Problem]]:
        net = self.file.network
        for kind, add in (
            ("hosts", self.topology.add_host),
            ("switches", self.topology.add_switch),
        ):
            for name in getattr(net, kind):
                self._try(("network", kind, name), add, name)
        if not net.switches:
            self._problem(("network", "switches"), "a network has at least one switch")
        taken: set[tuple[str, int]] = set()
        for index, link in enumerate(net.links):
            self._link(("network", "links", index), link, taken)
        for host in self.topology.hosts:
            links = [ends for ends in self.topology.links if host in ends]
            if len(links) != 1:
                self._problem(
                    ("network", "hosts", host), f"a host has one link, {host} has {len(links)}"
                )
        programs = dict(self._programs(net))
        virtual = self.file.runtime == "virtual"
        for index, check in enumerate(() if virtual else self.file.checks):
            self._check(("checks", index), check)
        if not self.problems:
            self.problems += VirtualProblems(self.file, self.topology).found()
        for name, switch in net.switches.items():
            if switch.cpu_port is not None and switch.p4runtime is None:
                where = ("network", "switches", name, "cpu_port")
                self._problem(where, "a CPU port means something with `p4runtime` only")
        name = self.file.name or self.path.stem
        plan = NetworkPlan(
            name,
            self.path,
            self.path.absolute().parent,
            self.file,
            net,
            self.file.checks,
            programs,
            self.topology,
            tuple(self.ports),
            self.text,
        )
        return plan, self.problems

    def _problem(self, path: tuple, message: str) -> None:
        self.problems.append(Problem(path, message))

    def _try(self, path: tuple, function: Any, *arguments: Any) -> None:
        try:
            function(*arguments)
        except TopologyError as error:
            self._problem(path, str(error))

    def _programs(self, net: Net) -> Iterator[tuple[str, Path]]:
        folder = self.path.absolute().parent
        for name, switch in net.switches.items():
            own = switch.program is not None
            where = ("network", *(("switches", name) if own else ()), "program")
            try:
                yield name, user_file(switch.program or net.program, folder)
            except FieldError as error:
                problem = Problem.of(where, error)
                if problem not in self.problems:
                    self.problems.append(problem)

    def _link(self, path: tuple, link: LinkEntry, taken: set[tuple[str, int]]) -> None:
        known = (*self.topology.hosts, *self.topology.switches)
        for position, (name, port) in enumerate(link.between):
            where = (*path, "between", position)
            if name not in known:
                message = f"there is no host or switch {name}"
                self._problem(where, sentence(message, did_you_mean(name, known)))
                return
            if name in self.topology.hosts and port is not None:
                self._problem(where, "a host has one interface and no port numbers")
            if port is not None and (name, port) in taken:
                self._problem(where, f"port {port} of {name} has a link already")
            if port is not None:
                taken.add((name, port))
        (first, first_port), (second, second_port) = link.between
        if link.jitter_ns > link.delay_ns:
            self._problem((*path, "jitter"), "the jitter is larger than the delay")
        marks = [each for each in link.model_fields_set if each.startswith("ecn_")]
        for key in sorted(marks):
            name = key.removesuffix("_packets")
            self._problem((*path, name), "marks are the P4 program's own business here")
        if "delay_spread" in link.model_fields_set:
            self._problem((*path, "delay_spread"), "each link here has its own `delay`: set that")
        self._try(path, self.topology.add_link, first, second)
        self.ports.append((first_port, second_port))

    def _check(self, path: tuple, check: Check) -> None:
        given = [name for name in COMMANDS if getattr(check, name) is not None]
        if not given and any(is_given(check, key) for key in CONDITIONS):
            return  # of virtual time
        if len(given) != 1:
            self._problem(path, "a check has one of the keys ping, run, start")
            return
        hosts = self.topology.hosts
        named = check.ping if given == ["ping"] and isinstance(check.ping, tuple) else ()
        for name in (*named, *([check.on] if check.on else [])):
            if name not in hosts:
                message = sentence(f"there is no host {name}", did_you_mean(name, hosts))
                self._problem(path, message)
        if (given == ["ping"]) == (check.on is not None):
            word = "needs no `on`" if given == ["ping"] else "needs the host that runs it: `on`"
            self._problem(path, f"`{given[0]}` {word}")
        if check.lost and (given != ["ping"] or check.ping == "all"):
            self._problem((*path, "lost"), "`lost` goes with a ping between two hosts")
        if check.prints is not None and given != ["run"]:
            self._problem((*path, "prints"), "`prints` goes with `run`")
