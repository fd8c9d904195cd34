"""Parts of an experiment as objects: jobs, faults, background traffic, topologies.

A part holds what a file would say, and is checked when it is made. `plain` turns parts, and what
Python programs have in their place (tuples, ranges, paths, numbers of numpy), into the data of a
file.
"""

from __future__ import annotations

import copy
import inspect
import numbers
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from p4fabric.base.errors import UserError
from p4fabric.base.topology import Topology

if TYPE_CHECKING:
    from p4fabric.base.config.fields import Section
    from typing_extensions import Self


class Part:
    """One mapping of an experiment file. `keys`: as in the file; a word that Python
    reserves, such as `for`, can be written with an underscore at its end (`for_`)."""

    _word: ClassVar[str]

    def __init__(self, **keys: object) -> None:
        """Raises UserError for keys and values that the file would not allow."""
        self._data = {key.removesuffix("_"): plain(value) for key, value in keys.items()}
        self._check()

    @property
    def data(self) -> dict[str, Any]:
        """The keys and values, as in a file."""
        return copy.deepcopy(self._data)

    def with_(self, **keys: object) -> Self:
        """The same with other keys; None removes one. Raises UserError."""
        changed = {**self._data, **{key.removesuffix("_"): value for key, value in keys.items()}}
        return type(self)(**{key: value for key, value in changed.items() if value is not None})

    def _model(self) -> type[Section]:
        raise NotImplementedError

    def _check(self) -> None:
        from p4fabric.base.config.explain import explain
        from p4fabric.base.config.problems import ExperimentError
        from pydantic import ValidationError

        model = self._model()
        try:
            model.model_validate(self._data)
        except ValidationError as error:
            raise ExperimentError(
                type(self).__name__, explain(error, (), model), what=self._word
            ) from None

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._data == self._data

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self._data.items())})"


class Job(Part):
    """A training job: `Job(model="vgg16", workers=4, iterations=2)`; the keys are those of
    [jobs[]](experiment.md#jobs)."""

    _word = "job"

    def _model(self) -> type[Section]:
        from testbed.experiment.schema_jobs import Job as Schema

        return Schema


class Fault(Part):
    """A planned fault: `Fault(at="1 s", fault="pause", job="a", worker=0, for_="300 ms")`; the keys
    are those of [faults[]](experiment.md#faults)."""

    _word = "fault"

    def _model(self) -> type[Section]:
        from testbed.experiment.schema_jobs import Fault as Schema

        return Schema


class Background(Part):
    """Traffic of no job: the keys are those of [background[]](experiment.md#background)."""

    _word = "traffic"

    def _model(self) -> type[Section]:
        from testbed.experiment.schema_background import Background as Schema

        return Schema


def plain(value: Any, key: str = "") -> Any:
    """A value as a file would have it. `key`: names it in errors. Raises UserError for what no
    file can say."""
    if value is None:
        where = f"{key}: " if key else ""
        raise UserError(f"{where}found None; leave the key out")
    if isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, Part):
        return value.data
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): plain(each, f"{key}.{name}") for name, each in value.items()}
    if isinstance(value, Topology):
        return topology_data(value)
    if _is_mininet(value):
        from testbed.experiment.resolve_topology import from_mininet

        return topology_data(from_mininet(value))
    if hasattr(value, "tolist"):  # of numpy and pandas
        return plain(value.tolist(), key)
    if isinstance(value, list | tuple | range):
        return [plain(each, f"{key}[{number}]") for number, each in enumerate(value)]
    where = f"{key}: " if key else ""
    raise UserError(
        f"{where}found an object of type {type(value).__name__}; allowed: what a file can say"
        " (text, numbers, lists, mappings), topologies, tb.Job, tb.Fault and tb.Background"
    )


def topology_data(topology: Topology) -> dict[str, Any]:
    """The section `topology` for an object: by kind and options where that makes the same network,
    by file and class for a class of the user's own file, else with all its nodes and links."""
    from testbed.topos import KINDS
    from testbed.topos.explicit import listed

    options = _options(topology)
    if options is not None:
        kind = next((name for name, cls in KINDS.items() if cls is type(topology)), None)
        found = {"kind": kind} if kind else _own_class(type(topology))
        if found is not None and type(topology)(**options) == topology:
            return {**found, **plain(options)}
    return {"kind": "explicit", **plain(listed(topology))}


def _options(topology: Topology) -> dict[str, Any] | None:
    """The arguments that the topology was made with, by name; None where a file cannot say them."""
    if type(topology) is Topology:
        return None
    by_position, by_name = topology.made_with
    bound = inspect.signature(type(topology)).bind(*by_position, **by_name)
    try:
        for value in bound.arguments.values():
            plain(value)
    except UserError:
        return None
    given = dict(bound.arguments)
    kinds = {each.kind for each in bound.signature.parameters.values()}
    named = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    return given if kinds <= named else None


def _own_class(cls: type) -> dict[str, str] | None:
    """A class of a file of the user's own; None for one of a notebook, a plug-in or a program."""
    if cls.__module__ == "__main__" or cls.__qualname__ != cls.__name__:
        return None
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return {"class": f"{file}:{cls.__name__}"} if file else None


def _is_mininet(value: object) -> bool:
    return any((c.__module__, c.__name__) == ("mininet.topo", "Topo") for c in type(value).__mro__)
