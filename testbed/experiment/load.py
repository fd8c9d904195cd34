"""Loading an experiment file: text, then sections, then the checks across sections.

Each section is checked by itself, so that an error in one does not hide those of the others; what
several sections must agree on is checked as far as those are sound. All problems come in one error.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from p4engine.garbage import no_garbage
from p4fabric.base.config.data_files import near, read_named
from p4fabric.base.config.explain import first_words
from p4fabric.base.config.problems import COMMAND_LINE, ExperimentError, Problem
from p4fabric.base.config.units import FieldError, describe
from p4fabric.base.config.yaml_document import MAX_BYTES, Document, read_yaml
from p4fabric.base.errors import UserError, did_you_mean
from p4fabric.base.topology import Topology
from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from testbed import systems
from testbed.costs.fabrics import is_preset, with_fabric
from testbed.experiment import resolve_topology as topologies
from testbed.experiment.changes import change_on_command_line, name_with
from testbed.experiment.experiment import Experiment
from testbed.experiment.resolve import resolve
from testbed.experiment.schema import ExperimentFile, explain, unknown
from testbed.paths import EXPERIMENTS, command_line
from testbed.systems import tuned_options

_log = logging.getLogger(__name__)


def load(path: str | Path, changes: Sequence[str] = ()) -> Experiment:
    """Read an experiment file. changes: KEY=VALUE, those of a command line. Raises UserError that
    lists everything that is wrong with it."""
    path = Path(path)
    document = read_document(path, changes)
    made = _one(document, name_with(path, changes), path.absolute().parent, path.stem)
    _log.debug("%s: experiment %s, %d jobs", path, made.name, len(made.jobs))
    return made


def read_document(path: Path, changes: Sequence[str] = ()) -> Document:
    """An experiment file's content, with the changes of a command line. Raises UserError."""
    return change_on_command_line(read_yaml(read_file(path), str(path)), changes, str(path))


def load_text(
    text: str, file: str = "experiment", folder: str | Path = ".", stem: str = "experiment"
) -> Experiment:
    """Read an experiment from text. `file` names it in errors, `folder` is where its relative paths
    start, `stem` is its name unless it has one. Raises UserError."""
    return _one(read_yaml(text, file), file, folder, stem)


def _one(document: Document, file: str, folder: str | Path, stem: str) -> Experiment:
    """The experiment of a document, which has no key `sweep`."""
    if isinstance(document.data, dict) and "sweep" in document.data:
        message = (
            f"this file describes several experiments; `{command_line('sweep FILE')}` runs them all"
        )
        raise ExperimentError(file, [Problem(("sweep",), message, document.line(("sweep",)))])
    return load_document(document, file, folder, stem)


@no_garbage()  # type: ignore[untyped-decorator]
def load_document(
    document: Document, file: str, folder: str | Path, stem: str, servers_reserved: int = 0
) -> Experiment:
    """The same from a document that has been read; servers_reserved: see resolve. Raises
    UserError."""
    if not tuned_options.asks(document.data):
        return _loaded(document, file, folder, stem, servers_reserved)
    plain, options = tuned_options.taken_out(document)
    system = tuned_options.of_system(plain.data)
    if system is not None and system.servers == "many":  # the same workers for all of them
        servers_reserved = max(servers_reserved, *map(int, options.get("servers") or (0,)))
    experiment = _loaded(plain, file, folder, stem, servers_reserved)
    to_tune = tuned_options.Tuning(options, plain, file, str(folder), stem, servers_reserved)
    for values in to_tune.ends():
        load_tried(to_tune, values)
    experiment._tuning = to_tune
    return experiment


def load_tried(
    to_tune: tuned_options.Tuning, values: tuned_options.Values, **keys: object
) -> Experiment:
    """The experiment with values of options to be tuned, and with other keys of the file. Raises
    UserError that names the values."""
    document = tuned_options.with_values(to_tune.document, values)
    document.data.update(keys)
    try:
        return _loaded(
            document, to_tune.file, to_tune.folder, to_tune.stem, to_tune.servers_reserved
        )
    except UserError as error:
        raise UserError(f"{error}\n  tuned, with {tuned_options.said(values)}") from None


def _loaded(
    document: Document, file: str, folder: str | Path, stem: str, servers_reserved: int
) -> Experiment:
    loader = _Sections(document, Path(folder).absolute())
    loader.read()
    problems = [*document.problems, *loader.problems]
    experiment = None
    if isinstance(document.data, dict):
        experiment, more = resolve(
            loader.parts,
            loader.topology,
            loader.folder,
            stem,
            loader.chosen_system,
            servers_reserved,
        )
        problems += more
    if problems or experiment is None:
        raise ExperimentError(file, _with_lines(problems, document))
    return experiment


def read_file(path: Path) -> str:
    """The text of an experiment file. Raises UserError."""
    return read_named(path, "an experiment file", MAX_BYTES, _meant)


def _meant(path: Path) -> str:
    """A hint at the file that was meant: one beside it, or one that comes with the testbed."""
    own = EXPERIMENTS.parent / path
    if not path.is_absolute() and EXPERIMENTS in own.parents and os.path.isfile(own):
        return f"the testbed's own is {own}"
    return near(path)


def _with_lines(problems: list[Problem], document: Document) -> list[Problem]:
    """Fill in lines, of a key that a fabric's preset has set that of `fabric`; leave out
    repetitions, and what only follows from something else: errors of a value that cannot be read, a
    key missing because it is misspelt."""
    unread = {problem.path for problem in document.problems if problem.path}
    meant = {each.instead for each in problems if each.instead}
    unread |= meant - set(document.lines)
    found: dict[tuple, Problem] = {}
    for each in problems:
        if each.path not in unread or each in document.problems:
            line = document.line(each.path) if each.line is None else each.line
            below = (path for path, at in document.lines.items() if at == COMMAND_LINE)
            changed = bool(each.path) and any(path[: len(each.path)] == each.path for path in below)
            message = each.message
            if each.path not in document.lines and is_preset(document.data, each.path):
                line = document.line(("fabric",))
                message += f" (set by fabric: {document.data['fabric']})"
            problem = Problem(each.path, message, line, changed=changed)
            found.setdefault((each.path, each.message), problem)
    return list(found.values())


@functools.cache
def _checker(name: str) -> TypeAdapter:
    """Check of the value of a key of the file, by the name of its attribute: made once for all
    points of a sweep."""
    info = ExperimentFile.model_fields[name]
    kind: Any = info.annotation
    return TypeAdapter(Annotated[(kind, *info.metadata)] if info.metadata else kind)


class _Sections:
    """Checks each key of the file on its own. `parts`: the sound ones, by attribute name."""

    def __init__(self, document: Document, folder: Path) -> None:
        self.data = document.data
        self.document = document
        self.problems: list[Problem] = []
        self.folder = folder
        self.parts: dict[str, Any] = {}
        self.topology: Topology | None = None
        self.models: dict[str, Any] = {}  # for sections whose model depends on the file
        self.chosen_system: systems.System | None = None

    def read(self) -> None:
        if not isinstance(self.data, dict):
            error = FieldError(describe(self.data), "keys and values, such as `seed: 1`")
            self.problems.append(Problem.of((), error))
            return
        fields = {
            info.alias or name: (name, info) for name, info in ExperimentFile.model_fields.items()
        }
        data = with_fabric(self.data)
        for key in data:
            if key not in fields:
                self.problems.append(unknown((key,), list(fields)))
        for key, (name, info) in fields.items():
            if key in data:
                self.section(key, name, info, data[key])
            elif info.is_required():
                self.problems.append(Problem.missing((key,), first_words(info)))
            else:
                self.parts[name] = info.default

    def section(self, key: str, name: str, info: FieldInfo, value: Any) -> None:
        if any(problem.path == (key,) for problem in self.document.problems):
            return  # not even readable
        try:
            if name == "topology":
                self.parts[name], self.topology = topologies.choose(value, self.folder)
            elif name == "system":
                self.parts[name] = self.system(value)
            else:
                self.parts[name] = _checker(name).validate_python(value)
        except topologies.TopologyProblem as error:
            self.problems += error.problems
        except FieldError as error:
            self.problems.append(Problem.of((key,), error))
        except ValidationError as error:
            self.problems += explain(error, (key,), self.models.get(key, info.annotation))

    def system(self, value: Any) -> Any:
        value = {"name": value} if isinstance(value, str) else value
        example = "a system's name, or a mapping such as {name: esa, window: 128}"
        if not isinstance(value, dict):
            raise FieldError(describe(value), example)
        name = value.get("name")
        if name is None:
            raise FieldError("no name", f"{example}; systems: {', '.join(systems.SYSTEMS)}")
        if not isinstance(name, str) or name not in systems.SYSTEMS:
            raise FieldError(
                describe(name), ", ".join(systems.SYSTEMS), did_you_mean(name, systems.SYSTEMS)
            )
        self.chosen_system = systems.SYSTEMS[name]
        self.models["system"] = self.chosen_system.option_model
        return self.models["system"].model_validate(value)
