"""Systems, planners, topologies and models from other installed packages.

A package names them as entry points in its pyproject.toml; nothing of the testbed is edited:

    [project.entry-points."ina.systems"]
    esa-lru = "my_package.system:SYSTEM"          # a testbed.systems.System: facts and options
    [project.entry-points."ina.schemes"]
    esa-lru = "my_package.scheme:SCHEME"          # a testbed.setup.Scheme: its code
    [project.entry-points."ina.planners"]
    greedy = "my_package.planner:PLANNER"         # a testbed.routing.planners.Planner
    [project.entry-points."ina.topologies"]
    torus = "my_package.torus:Torus"              # a subclass of testbed.topology.Topology
    [project.entry-points."ina.models"]
    my-models = "my_package.models"               # a package whose folder has traces (*.csv)

The name of an entry point is the name that an experiment file uses; a package of models is the
exception, since each of its traces has a name. docs/extending.md has an example.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast

from p4fabric.base.errors import UserError

T = TypeVar("T")
SYSTEMS, SCHEMES, PLANNERS = "ina.systems", "ina.schemes", "ina.planners"
TOPOLOGIES, MODELS = "ina.topologies", "ina.models"
GROUPS = (SYSTEMS, PLANNERS, TOPOLOGIES, MODELS)
SWITCH = "INA_PLUGINS"  # `off` in the environment: the testbed's own parts alone
KINDS = ("system", "planner", "topology", "models")


@functools.cache
def found(group: str) -> dict[str, metadata.EntryPoint]:
    """The entry points of a group by name. Raises UserError if two packages use one name."""
    entries: dict[str, metadata.EntryPoint] = {}
    for entry in () if os.environ.get(SWITCH) == "off" else _installed().select(group=group):
        other = entries.setdefault(entry.name, entry)
        if other.value != entry.value:
            raise UserError(
                f"two installed packages name a plug-in {entry.name!r} ({group}): {_owner(other)}"
                f" and {_owner(entry)}; uninstall one of them"
            )
    return entries


@functools.cache
def _installed() -> metadata.EntryPoints:
    """Entry points of all groups: to look through the installed packages takes 15 ms."""
    return cast(metadata.EntryPoints, metadata.entry_points())  # what it is, by Python's version


def load(group: str, name: str, kind: type | tuple[type, ...]) -> Any:
    """The object of an entry point. Raises UserError if it cannot be imported or is no `kind`."""
    entry = found(group)[name]
    try:
        loaded = entry.load()
    except Exception as error:
        raise UserError(
            f"cannot load the plug-in {name!r} of {_owner(entry)} ({group}: {entry.value}):"
            f" {type(error).__name__}: {error}; repair or uninstall that package"
        ) from error
    if not isinstance(loaded, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise UserError(
            f"the plug-in {name!r} of {_owner(entry)} ({group}: {entry.value}) is a"
            f" {type(loaded).__name__}; it must be a {' or '.join(k.__name__ for k in kinds)}"
        )
    return loaded


def with_shipped(group: str, shipped: Mapping[str, T], kind: type) -> dict[str, T]:
    """The testbed's own entries of a group, then those of other packages, which are `kind` objects.

    Raises UserError for one that cannot be loaded, or that has the name of one of the testbed's."""
    entries = found(group)
    for name in sorted(set(entries) & set(shipped)):
        raise UserError(
            f"the plug-in {name!r} of {_owner(entries[name])} ({group}) has the name of one"
            " of the testbed's own; uninstall that package or ask its author to rename it"
        )
    return {**shipped, **{name: load(group, name, kind) for name in entries}}


def model_folders() -> tuple[Path, ...]:
    """The folders with traces of all packages of models."""
    return tuple(folder for _, folder in model_packages())


def model_packages() -> list[tuple[str, Path]]:
    """The names of the packages of models, each with its folder of traces."""
    modules = {name: load(MODELS, name, ModuleType) for name in sorted(found(MODELS))}
    return [(name, Path(place)) for name, each in modules.items() for place in each.__path__]


def package(group: str, name: str) -> tuple[str, str, Path] | None:
    """The package that an entry point is of: its name, its version ("" if it has none), and its
    folder, or its file if it is a single module; None if there is no such entry point."""
    entry = found(group).get(name)
    if entry is None:
        return None
    top = entry.value.partition(":")[0].partition(".")[0]
    spec = find_spec(top)
    places = (spec.submodule_search_locations or [spec.origin or ""]) if spec is not None else []
    owner = entry.dist
    title, version = (owner.name, owner.version) if owner is not None else (top, "")
    return title, version, Path(next(iter(places), None) or "")


def listing() -> list[str]:
    """One line per plug-in, for `ina --version`."""
    return [
        f"{kind} {name} ({_owner(entry)})"
        for kind, group in zip(KINDS, GROUPS, strict=True)
        for name, entry in sorted(found(group).items())
    ]


def _owner(entry: metadata.EntryPoint) -> str:
    owner = entry.dist
    return f"{owner.name} {owner.version}" if owner is not None else "an unknown package"
