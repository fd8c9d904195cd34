"""The settings of each switch, from the file or the topology's class.

This module checks whether the exceptions name switches, and whether the system uses the settings.
"""

from __future__ import annotations

from pydantic import ValidationError

from testbed import systems
from testbed.config.problems import Path, Problem
from testbed.errors import did_you_mean, sentence
from testbed.experiment.schema_switches import Switches, SwitchException
from testbed.experiment.unknown_keys import explain
from testbed.topology import Topology


def resolve_switches(
    switches: Switches, topology: Topology, system: systems.System | None
) -> tuple[Switches, Topology, list[Problem]]:
    """The settings with those of the topology's class among them, the topology with its switches
    that only forward, and the problems; the first two are sound if there is no problem."""
    problems = _named(switches, topology)
    if problems:
        return switches, topology, problems
    settings, problems = _with_topology(switches, topology)
    if problems:
        return switches, topology, problems
    found = {name: settings.of(name) for name in topology.switches}
    off = [name for name, each in found.items() if not each.aggregates]
    if system is not None and not system.planned:
        place: Path = ("switches",) if switches != Switches() else ("topology",)
        limits = [name for name, each in found.items() if each.capacity_bps or each.burst_packets]
        if limits:
            message = (
                f"switch {limits[0]}: {system.title} has no plan that would use a capacity or"
                " burst; allowed with system grid. Take it out"
            )
            problems.append(Problem(place, message))
        elif system.memory and len(off) == len(found):
            message = (
                f"no switch is left that aggregates for {system.title}; allow one, or take system"
                " ps"
            )
            problems.append(Problem(place, message))
    if off:
        topology = topology.only_forwarding(off)
    return settings, topology, problems


def _named(switches: Switches, topology: Topology) -> list[Problem]:
    """Exceptions that name no switch, or one that has been named already."""
    problems = []
    first: dict[str, int] = {}
    for position, each in enumerate(switches.each):
        path, name = ("switches", "each", position, "switch"), each.switch
        if name not in topology.switches:
            what = "is a host" if name in topology.hosts else "is not in the topology"
            message = sentence(f"{name} {what}", did_you_mean(name, topology.switches))
            problems.append(Problem(path, message))
        elif name in first:
            message = f"{name} is already in switches.each[{first[name]}]; keep one of them"
            problems.append(Problem(path, message))
        first.setdefault(name, position)
    return problems


def _with_topology(switches: Switches, topology: Topology) -> tuple[Switches, list[Problem]]:
    """Switches with the settings of the topology's class, where the file says nothing of them."""
    problems = []
    given = {each.switch: each for each in switches.each}
    for name, options in topology.switch_options.items():
        try:
            own = SwitchException.model_validate({"switch": name, **options})
        except ValidationError as error:
            wrong = explain(error, (), SwitchException)
            problems += [Problem(("topology",), f"switch {name}, {each}") for each in wrong]
            continue
        said = given.get(name, own)
        update = {key: getattr(said, key) for key in said.model_fields_set}
        given[name] = own.model_copy(update=update)
    return switches.model_copy(update={"each": tuple(given.values())}), problems
