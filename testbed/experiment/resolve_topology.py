"""The topology that an experiment names: found, checked, built.

`kind:` names one of topos/, `class: FILE.py:CLASS` one of the user's own. The other keys are the
arguments of the class's `__init__`, whose names, annotations and defaults say what is allowed. The
user's file is run, so anything can go wrong in it; each way has its own message. A subclass of
Mininet's `Topo` is converted.
"""

from __future__ import annotations

import importlib.util
import inspect
import logging
import re
import sys
import traceback
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from p4fabric.base.config.fields import ANY_TEXT, Flag, Kind, Number, Whole, user_file
from p4fabric.base.config.problems import Problem
from p4fabric.base.config.units import FieldError, describe
from p4fabric.base.errors import did_you_mean, sentence
from p4fabric.base.topology import Topology, TopologyError

from testbed.experiment.schema import TopologyChoice
from testbed.topos import KINDS

HERE = ("topology",)
_EXAMPLE = "a mapping such as {kind: star, hosts: 10}"
_KINDS_OF: dict[Any, Kind] = {
    int: Whole(-(2**31), 2**31 - 1),
    float: Number(-1e18, 1e18),
    bool: Flag(),
}


class TopologyProblem(Exception):
    """Error for an invalid topology, with the problems to show."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = list(problems)


def choose(value: Any, folder: Path) -> tuple[TopologyChoice, Topology]:
    """Read the section `topology:` (`folder`: where the experiment file lies) and build it.

    Raises TopologyProblem.
    """
    if not isinstance(value, dict):
        raise TopologyProblem(Problem.of(HERE, FieldError(describe(value), _EXAMPLE)))
    if ("kind" in value) == ("class" in value):
        both = "kind" in value
        found = "both kind and class" if both else "neither kind nor class"
        hints = [f"{key}: {did_you_mean(key, ('kind', 'class'))}" for key in value]
        near = next((hint for hint in hints if not both and not hint.endswith(": ")), "")
        raise TopologyProblem(Problem.of(HERE, FieldError(found, f"one of them: {_EXAMPLE}", near)))
    given = {key: each for key, each in value.items() if key not in ("kind", "class")}
    if "kind" in value:
        kind = value["kind"]
        if not isinstance(kind, str) or kind not in KINDS:
            allowed = f"{', '.join(KINDS)} (or class: FILE.py:CLASS for one of your own)"
            error = FieldError(describe(kind), allowed, did_you_mean(kind, KINDS))
            raise TopologyProblem(Problem.of((*HERE, "kind"), error))
        cls, choice = KINDS[kind], TopologyChoice(kind=kind)
    else:
        cls, choice = load_class(value["class"], folder)
    options = _find_files(cls, check_options(cls, given), folder)
    topology = build(cls, options, choice)
    return TopologyChoice(choice.kind, choice.file, choice.class_name, options), topology


def parameters(cls: type) -> dict[str, tuple[Any, Any]]:
    """{argument: (annotation, default)} of a class's `__init__`; `inspect.Parameter.empty` if
    none."""
    try:
        signature = inspect.signature(cls)
    except (TypeError, ValueError):
        return {}
    try:
        hints = typing.get_type_hints(cls.__init__)  # type: ignore[misc]  # read, not called
    except Exception:  # annotations that cannot be resolved say nothing
        hints = {}
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {
        name: (hints.get(name, Any), each.default)
        for name, each in signature.parameters.items()
        if each.kind in named
    }


def check_options(cls: type, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments to call `cls` with. Raises TopologyProblem with all that do not fit."""
    known = parameters(cls)
    problems, options = [], {}
    for key, value in given.items():
        path = (*HERE, key)
        if key not in known:
            problems.append(Problem.unknown(path, list(known)))
            continue
        annotation = known[key][0]
        try:
            if annotation in _KINDS_OF:
                value = _KINDS_OF[annotation].parse(value)
            elif annotation is str and not isinstance(value, str):
                raise FieldError(describe(value), "text (put it in quotes)")
            options[key] = value
        except FieldError as error:
            problems.append(Problem.of(path, error))
    for key, (_, default) in known.items():
        if default is inspect.Parameter.empty and key not in given:
            problems.append(Problem.missing((*HERE, key), f"{cls.__name__} needs it"))
    if problems:
        raise TopologyProblem(*problems)
    return options


def _find_files(cls: type, options: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The options, those that the class's FILES names as absolute paths. Raises TopologyProblem."""
    found = dict(options)
    for key in getattr(cls, "FILES", ()):
        if key in found:
            try:
                found[key] = str(user_file(found[key], folder))
            except FieldError as error:
                raise TopologyProblem(Problem.of((*HERE, key), error)) from None
    return found


def build(cls: type, options: dict[str, Any], choice: TopologyChoice) -> Topology:
    """Call the class and check what comes out. Raises TopologyProblem."""
    where = (*HERE, "kind" if choice.kind else "class")
    try:
        with _imports_from(choice.file):
            made = cls(**options)
        topology = made.plain() if isinstance(made, Topology) else from_mininet(made)
        topology.check("`ina plan` can plan for a graph file's hosts with several")
    except TopologyError as error:
        path = (*HERE, error.option) if error.option in options else where
        raise TopologyProblem(Problem(path, str(error))) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        message = f"{cls.__name__}(...) failed: {_reason(error, choice.file)}"
        raise TopologyProblem(Problem(where, message)) from None
    return topology


def load_class(value: Any, folder: Path) -> tuple[type, TopologyChoice]:
    """Import the class that `FILE.py:CLASS` names. Raises TopologyProblem."""
    path = (*HERE, "class")
    file_text, _, name = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if not file_text or not name.isidentifier() or not re.fullmatch(ANY_TEXT.pattern, file_text):
        error = FieldError(describe(value), "FILE.py:CLASS, such as my.py:MyTopology")
        raise TopologyProblem(Problem.of(path, error))
    try:
        file = user_file(file_text, folder)
    except FieldError as error:
        raise TopologyProblem(Problem.of(path, error)) from None
    try:
        module = _run_file(file)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        message = f"{file} cannot be imported: {_reason(error, file)}"
        raise TopologyProblem(Problem(path, message)) from None
    cls = getattr(module, name, None)
    if cls is None:
        classes = [each for each, what in vars(module).items() if _is_topology(what)]
        own = [each for each in classes if vars(module)[each].__module__ == module.__name__]
        near = did_you_mean(name, own)
        has = f"it has {', '.join(own)}" if own else "it has no topology class"
        message = sentence(f"{file.name} has no class {name}", near, has)
        raise TopologyProblem(Problem(path, message))
    if not _is_topology(cls):
        message = f"{name} in {file.name} is not a subclass of testbed.topology.Topology"
        raise TopologyProblem(Problem(path, message))
    return cls, TopologyChoice(kind=None, file=file, class_name=name)


def _is_topology(what: Any) -> bool:
    if not inspect.isclass(what) or what is Topology:
        return False
    mininets = any((c.__module__, c.__name__) == ("mininet.topo", "Topo") for c in what.__mro__)
    return issubclass(what, Topology) or mininets


def _run_file(file: Path) -> Any:
    name = f"_topology_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError("a Python file ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and get_type_hints look their module up
    with _imports_from(file):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _imports_from(file: Path | None) -> Iterator[None]:
    """While this lasts, the user's file finds the modules beside it, and no __pycache__ appears
    that root would own. Later loggers are what they were, also where the file imports Mininet."""
    if file is None:
        yield
        return
    wrote, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, str(file.parent))
    loggers = logging.getLoggerClass()
    try:
        yield
    finally:
        logging.setLoggerClass(loggers)
        sys.dont_write_bytecode = wrote
        if str(file.parent) in sys.path:
            sys.path.remove(str(file.parent))


def _reason(error: BaseException, file: Path | None) -> str:
    """The error in one line, with the last line of the user's file on the way to it."""
    text = f"{type(error).__name__}: {error}".strip().rstrip(":")
    if isinstance(error, SyntaxError):
        place = f"line {error.lineno}" if error.lineno else ""
        source = f": {error.text.strip()}" if error.text else ""
        return ", ".join(
            part for part in (place, f"{type(error).__name__}: {error.msg}{source}") if part
        )
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if file and frame.filename == str(file)
    ]
    return f"line {lines[-1]}, {text}" if lines else text


def from_mininet(topo: Any) -> Topology:
    """Convert an object of Mininet's `Topo`: its nodes, links, and what TCLink would take."""
    topology = Topology()
    switches = set(topo.switches())
    for name in topo.nodes(sort=False):
        if name in switches:
            topology.add_switch(name)
        else:
            topology.add_host(name)
    for a, b, info in topo.links(sort=False, withInfo=True):
        options: dict[str, Any] = {}
        for key, value in info.items():
            if value is None or key in ("node1", "node2", "port1", "port2", "cls", "use_htb"):
                continue
            if key == "bw":
                options["bandwidth"] = f"{Decimal(str(value)):f} Mbit/s"
            elif key in ("delay", "jitter"):
                options[key] = str(value)
            elif key == "loss":
                options["loss"] = f"{value} %"
            elif key == "max_queue_size":
                options["queue"] = f"{value} packets"
            else:
                raise TopologyError(f"link {a}-{b}: the option {key} of Mininet has no counterpart")
        topology.add_link(a, b, **options)
    return topology
