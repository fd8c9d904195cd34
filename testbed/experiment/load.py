"""Loading an experiment file: text, then sections, then what they must agree on.

Each section is checked by itself, so that an error in one does not hide those of the others; what
several sections must agree on is checked as far as those are sound. All problems come in one error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from testbed import systems
from testbed.errors import UserError
from testbed.experiment import topologies
from testbed.experiment.document import MAX_BYTES, Document, read_yaml
from testbed.experiment.experiment import Experiment
from testbed.experiment.fields import nearest
from testbed.experiment.problems import ExperimentError, Problem, sentence
from testbed.experiment.resolve import resolve
from testbed.experiment.schema import ExperimentFile, Section
from testbed.experiment.units import FieldError, describe
from testbed.topology import Topology


def load(path: str | Path) -> Experiment:
    """Read an experiment file. Raises UserError that lists everything that is wrong with it."""
    path = Path(path)
    return load_text(_read(path), file=str(path), folder=path.absolute().parent, stem=path.stem)


def load_text(
    text: str, file: str = "experiment", folder: str | Path = ".", stem: str = "experiment"
) -> Experiment:
    """Read an experiment from text. `file` names it in errors, `folder` is where its relative paths
    start, `stem` is its name unless it has one. Raises UserError."""
    document = read_yaml(text, file)
    loader = _Sections(document, Path(folder).absolute())
    loader.read()
    problems = [*document.problems, *loader.problems]
    experiment = None
    if isinstance(document.data, dict):
        experiment, more = resolve(loader.parts, loader.topology, loader.folder, stem)
        problems += more
    if problems or experiment is None:
        raise ExperimentError(file, _with_lines(problems, document))
    return experiment


def _read(path: Path) -> str:
    try:
        if path.is_dir():
            raise UserError(f"{path}: this is a folder; name an experiment file in it")
        if not path.exists():
            files = [each.name for each in path.absolute().parent.glob("*.y*ml")]
            raise UserError(
                f"{path}: {sentence('no such experiment file', nearest(path.name, files))}"
            )
        if not path.is_file():
            raise UserError(f"{path}: not a regular file; name an experiment file")
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"{path}: too large for an experiment file (over {MAX_BYTES} bytes)")
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not a text file in UTF-8 (byte {error.start})") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def _with_lines(problems: list[Problem], document: Document) -> list[Problem]:
    """Fill in lines; leave out repetitions, and what only follows from something else: errors of a
    value that cannot be read, a key missing because it is misspelt."""
    unread = {problem.path for problem in document.problems if problem.path}
    unread |= {each.instead for each in problems if each.instead not in document.lines}
    found: dict[tuple, Problem] = {}
    for each in problems:
        if each.path not in unread or each in document.problems:
            line = each.line or document.line(each.path)
            found.setdefault((each.path, each.message), Problem(each.path, each.message, line))
    return list(found.values())


class _Sections:
    """Checks each key of the file on its own. `parts`: the sound ones, by attribute name."""

    def __init__(self, document: Document, folder: Path) -> None:
        self.data = document.data
        self.document = document
        self.folder = folder
        self.parts: dict[str, Any] = {}
        self.topology: Topology | None = None
        self.problems: list[Problem] = []

    def read(self) -> None:
        if not isinstance(self.data, dict):
            error = FieldError(describe(self.data), "keys and values, such as `seed: 1`")
            self.problems.append(Problem.of((), error))
            return
        fields = {
            info.alias or name: (name, info) for name, info in ExperimentFile.model_fields.items()
        }
        for key in self.data:
            if key not in fields:
                self.problems.append(_unknown((key,), list(fields)))
        for key, (name, info) in fields.items():
            if key in self.data:
                self.section(key, name, info, self.data[key])
            elif info.is_required():
                self.problems.append(Problem.missing((key,), _first_words(info)))
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
                kind = (
                    Annotated[(info.annotation, *info.metadata)]
                    if info.metadata
                    else info.annotation
                )
                self.parts[name] = TypeAdapter(kind).validate_python(value)
        except topologies.TopologyProblem as error:
            self.problems += error.problems
        except FieldError as error:
            self.problems.append(Problem.of((key,), error))
        except ValidationError as error:
            self.problems += explain(error, (key,), info.annotation)

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
                describe(name), ", ".join(systems.SYSTEMS), nearest(name, systems.SYSTEMS)
            )
        try:
            return systems.SYSTEMS[name].options.model_validate(value)
        except ValidationError as error:
            self.problems += explain(error, ("system",), systems.SYSTEMS[name].options)


def explain(error: ValidationError, path: tuple[str | int, ...], model: Any) -> list[Problem]:
    """pydantic's errors in the words of this package. `path` leads to what was validated, which was
    read as `model`."""
    problems = []
    for each in error.errors(include_url=False):
        where = (*path, *each["loc"])
        context = each.get("ctx", {})
        kind = each["type"]
        if kind == "field":
            field_error = FieldError(context["found"], context["allowed"], context["hint"])
            problems.append(Problem.of(where, field_error))
        elif kind == "extra_forbidden":
            problems.append(_unknown(where, _keys_at(model, each["loc"][:-1])))
        elif kind == "missing":
            problems.append(Problem.missing(where, _meaning(model, each["loc"])))
        elif kind in ("tuple_type", "list_type"):
            problems.append(Problem.of(where, FieldError(describe(each["input"]), "a list")))
        elif kind in ("model_type", "model_attributes_type", "dict_type"):
            keys = ", ".join(_keys_at(model, each["loc"]))
            allowed = f"a mapping with the keys {keys}"
            problems.append(Problem.of(where, FieldError(describe(each["input"]), allowed)))
        elif kind in ("too_short", "too_long"):
            low, high = context.get("min_length", 0), context.get("max_length")
            if kind == "too_short" and len(each["input"]) >= low:
                continue  # pydantic counts only sound entries; the others have their own errors
            limit = f"at least {low}" if kind == "too_short" else f"at most {high}"
            found = f"a list of {len(each['input'])}"
            problems.append(Problem.of(where, FieldError(found, f"a list of {limit}")))
        else:
            problems.append(Problem(where, f"found {describe(each['input'])}; {each['msg']}"))
    return problems


def _unknown(path: tuple[str | int, ...], known: list[str]) -> Problem:
    homes = _homes().get(str(path[-1]), [])
    return Problem.unknown(path, known, f"it belongs under {homes[0]}" if homes else "")


def _homes() -> dict[str, list[str]]:
    """{key: sections that have it}, for keys written one level too high."""
    homes: dict[str, list[str]] = {}
    for name, info in ExperimentFile.model_fields.items():
        model = section_model(info.annotation)
        for key in _keys(model) if model else []:
            homes.setdefault(key, []).append(f"{info.alias or name}:")
    for system in systems.SYSTEMS.values():
        for key in _keys(system.options):
            homes.setdefault(key, []).append("system:")
    return homes


def section_model(annotation: Any) -> type[Section] | None:
    """The section's model in an annotation such as `tuple[Job, ...]`, if there is one."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    for part in getattr(annotation, "__args__", ()):
        model = section_model(part)
        if model is not None:
            return model
    return None


def _keys(model: type[Section]) -> list[str]:
    return [info.alias or name for name, info in model.model_fields.items()]


def _field_at(model: Any, location: tuple[str | int, ...]) -> tuple[Any, FieldInfo | None]:
    """The model that `location` leads to (if any) and the last field on the way."""
    current, info = section_model(model), None
    for part in location:
        if isinstance(part, int) or current is None:
            continue
        fields = {each.alias or name: each for name, each in current.model_fields.items()}
        info = fields.get(part)
        current = section_model(info.annotation) if info else None
    return current, info


def _keys_at(model: Any, location: tuple[str | int, ...]) -> list[str]:
    found, _ = _field_at(model, location)
    return _keys(found) if found else []


def _meaning(model: Any, location: tuple[str | int, ...]) -> str:
    _, info = _field_at(model, location)
    return _first_words(info) if info else ""


def _first_words(info: FieldInfo) -> str:
    return (info.description or "").split(". ")[0].rstrip(".")
