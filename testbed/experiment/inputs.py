"""Inputs of a run: every file by its role, its name and the SHA-256 of its content.

A run's results belong to these inputs. So the hash of a sweep's point has them, environment.json
keeps them, and what reuses, compares, packs or repeats results asks here whether they are still the
same. config/input_files.py finds the files that keys name. The testbed's own code is no input;
results say which code made them (`results.environment.code`).
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from p4fabric.base.config.input_files import (
    LIBRARIES,
    READERS,
    Input,
    Source,
    as_records,
    declared,
    digest,
    file_itself,
    program_files,
    with_imports,
)
from p4fabric.base.errors import UserError

from testbed import plugins
from testbed.experiment.printing import as_data
from testbed.paths import P4
from testbed.topos import KINDS
from testbed.traffic import transformer_times
from testbed.traffic.chakra import FIRST, SUFFIX, files_of
from testbed.traffic.trace import named_traces

if TYPE_CHECKING:
    from p4fabric.base.topology import Topology

    from testbed.experiment.schema import TopologyChoice
    from testbed.results import Results
    from testbed.systems.options import SystemOptions

PLUG_IN = "plug-in"
NAMED = 3  # changed inputs that a sentence names
SUFFIXES = (".csv", ".npz", SUFFIX, ".txt")  # of a model that is a file
LIBRARIES.append(P4)
OLDER = "do not say what they were made from (an older version of the testbed wrote them)"


class Resolved(Protocol):
    """Attributes of an experiment (experiment.py) that are used here."""

    @property
    def topology(self) -> TopologyChoice: ...

    @property
    def system(self) -> SystemOptions: ...

    @property
    def program(self) -> Path: ...

    @property
    def inputs(self) -> tuple[Input, ...]: ...

    @property
    def identity(self) -> str: ...

    def topology_object(self) -> Topology: ...

    def model_copy(self, *, update: dict[str, Any]) -> Any: ...


def inputs_of(experiment: Resolved) -> tuple[Input, ...]:
    """All inputs of an experiment, sorted, as they are now."""
    found = {each for source in sources_of(experiment) for each in source.inputs()}
    choice = experiment.topology
    if choice.file is not None:  # it may depend on what its class has read
        network = experiment.topology_object()
        parts = {key: value for key, value in vars(network).items() if key not in _NOT_MADE}
        made = json.dumps(parts, sort_keys=True, default=lambda each: sorted(each, key=str))
        name = f"the network of {choice.class_name}"
        found.add(Input("topology", name, hashlib.sha256(made.encode()).hexdigest()))
    for group, name in _plug_ins(experiment):
        if package := plugins.package(group, name):
            title, version, folder = package
            digests = [(str(f.relative_to(folder)), digest(f)) for f in _package_files(folder)]
            whole = hashlib.sha256(json.dumps(digests).encode()).hexdigest()
            found.add(Input(PLUG_IN, title, whole, version))
    return tuple(sorted(found))


_NOT_MADE = ("_derived", "_made_with")  # attributes of a topology that say nothing of the network


def sources_of(experiment: Resolved) -> list[Source]:
    """The files that an experiment reads."""
    found = list(declared(experiment, Path()))
    if experiment.system.program == "default":
        found.append(Source("P4 program", program_files(experiment.program)))
    choice = experiment.topology
    if choice.file is not None:
        package, file, named = "", choice.file, str(choice.file)
    else:
        module = sys.modules[KINDS[choice.kind or ""].__module__]
        package, file, named = module.__name__.rpartition(".")[0], Path(module.__file__ or ""), ""
    found.append(Source("topology", with_imports(file, package), named))
    for value in choice.options.values():
        if isinstance(value, str) and value.startswith("/") and Path(value).is_file():
            found.append(Source("topology", (Path(value),), value))
    return list(dict.fromkeys(found))


# -- what the text of a key means


def _p4(role: str, text: str, folder: Path) -> Iterator[Source]:
    if text != "default":
        yield Source(role, program_files(folder / text), text)


def _model(role: str, text: str, folder: Path) -> Iterator[Source]:
    if "/" not in text and not text.endswith(SUFFIXES):
        named = named_traces().get(text)
        yield from [Source(role, (named,))] if named else []
        return
    file = folder / Path(text).expanduser()
    if file.suffix == SUFFIX:
        first = file if file.name.endswith(FIRST) else file.with_suffix(FIRST)
        yield Source(role, tuple(files_of(first)), text)
    else:
        yield Source(role, (file,), text)


def _times(role: str, text: str, folder: Path) -> Iterator[Source]:
    if text == "measured":
        yield Source(role, (transformer_times.FILE,))


READERS |= {
    "P4 program": _p4,
    "model": _model,
    "times of layers": _times,
    "cluster trace": file_itself,
    "arrivals": file_itself,
    "requests": file_itself,
    "counts of experts": file_itself,
}


def _plug_ins(experiment: Resolved) -> Iterator[tuple[str, str]]:
    """The groups and names of entry points that an experiment may use."""
    yield plugins.SYSTEMS, experiment.system.name
    yield plugins.SCHEMES, experiment.system.name
    yield plugins.PLANNERS, getattr(experiment.system, "planner", "")
    yield plugins.TOPOLOGIES, experiment.topology.kind or ""
    models = [file.parent for each in declared(experiment, Path()) for file in each.files]
    for name, folder in plugins.model_packages():
        if folder in models:
            yield plugins.MODELS, name


def _package_files(folder: Path) -> list[Path]:
    files = [folder] if folder.is_file() else folder.rglob("*")
    return sorted(f for f in files if f.is_file() and "__pycache__" not in f.parts)


# -- identity, and what is recorded


def identity(experiment: Resolved) -> str:
    """SHA-256 of an experiment, without its name, and of its inputs."""
    data = as_data(experiment.model_copy(update={"name": ""}))
    named = {
        each.named: next(f"{i.name}@{i.sha256}" for i in each.inputs())
        for each in sources_of(experiment)
        if each.named
    }
    whole = [with_texts(data, named), [asdict(each) for each in experiment.inputs]]
    return hashlib.sha256(json.dumps(whole, default=str).encode()).hexdigest()


def with_texts(data: object, other: Mapping[str, str]) -> object:
    """A file's data with other texts for some names of files, wherever they stand: alone, before
    `:CLASS`, or in a command."""

    def changed(text: str) -> str:
        for name in sorted((name for name in other if name in text), key=len, reverse=True):
            there = rf"(?<![^\s='\"]){re.escape(name)}(?![^\s:'\"])"
            text = re.sub(there, lambda _, new=other[name]: new, text)  # type: ignore[misc]
        return text

    return changed_texts(data, changed) if other else data


def changed_texts(data: object, change: Callable[[str], str]) -> object:
    """A file's data with every text changed."""
    if isinstance(data, dict):
        return {key: changed_texts(value, change) for key, value in data.items()}
    if isinstance(data, list):
        return [changed_texts(value, change) for value in data]
    return change(data) if isinstance(data, str) else data


def record(experiment: Resolved) -> dict[str, object]:
    """The entries of environment.json about what a run has read."""
    return {"identity": experiment.identity, "inputs": as_records(experiment.inputs)}


def recorded(environment: Mapping[str, Any]) -> tuple[Input, ...] | None:
    """The inputs that a run's environment.json names; None: it names none."""
    try:
        found = [Input(**{"sha256": "", **each}) for each in environment["inputs"]]
    except (KeyError, TypeError):
        return None
    texts = (text for each in found for text in vars(each).values())
    return tuple(found) if all(isinstance(text, str) for text in texts) else None


def changes(was: Iterable[Input], now: Iterable[Input]) -> list[str]:
    """The names of the inputs in which two runs differ; programs first."""
    differing = set(was) ^ set(now)
    ordered = sorted(differing, key=lambda each: ("P4" not in each.role, each.role, each.name))
    return list(dict.fromkeys(each.name for each in ordered))


def have_changed(names: Sequence[str]) -> str:
    """The clause that says so of these inputs."""
    shown = list(names[:NAMED])
    if len(names) > NAMED:
        shown.append(f"{len(names) - NAMED} more")
    listed = " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
    return f"{listed} {'have' if len(shown) > 1 else 'has'} changed since"


def require_same(results: Results, experiment: Resolved, needs: str) -> str:
    """Make sure that what a run has read is as it was; returns a warning if its results do not say
    what that was, else "". needs: what is wanted of it, as "`ina trace` runs it again". Raises
    UserError that names what has changed."""
    was = recorded(results.environment)
    if was is None:
        return (
            f"{results.folder}: the results {OLDER}; if a file that the run read has changed since,"
            " this is not about that run"
        )
    if names := changes(was, experiment.inputs):
        raise UserError(
            f"{results.folder}: {have_changed(names)}, and {needs}; bring it back as it was, or run"
            " the experiment again"
        )
    return ""
