"""An experiment as an object: loaded from a file or made of parts, changed, written as a file.

An `Experiment` holds what its file says, not what follows from it. So a change has the same effect
as the same change in the file: another system brings its own defaults and its own placement. Every
new object is checked in full, as `ina check` would except for the P4 program.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from p4fabric.base.config.yaml_document import Document, Inline, read_yaml, write_yaml
from p4fabric.base.errors import UserError
from p4fabric.base.linux.whole_files import write_whole, writing

from testbed.api.experiment_parts import plain
from testbed.experiment.changes import changed
from testbed.experiment.experiment import summary
from testbed.experiment.load import load_document, load_text, read_file
from testbed.experiment.sweep_file import has_sweep, sweep_of

if TYPE_CHECKING:
    from testbed.experiment import Experiment as Resolved
    from testbed.experiment.sweep_file import Sweep


def load(path: str | Path) -> Experiment:
    """An experiment file, with or without the key `sweep`. Raises UserError that lists everything
    that is wrong with it."""
    path = Path(path)
    document = read_yaml(read_file(path), str(path))
    return Experiment._of(document, str(path), path.absolute().parent, path.stem)


class Experiment:
    """The content of an experiment file, checked. It does not change; `with_` makes another one.

    Attributes: `folder`, where relative paths in it start."""

    folder: Path
    _document: Document
    _file: str
    _stem: str
    _resolved: Resolved | None
    _sweep: Sweep | None

    def __init__(self, *, folder: str | Path = ".", **keys: object) -> None:
        """An experiment of the keys of a file: `Experiment(topology=tb.Star(hosts=5), ...)`.
        Raises UserError."""
        data = {name: plain(value, name) for name, value in keys.items()}
        self._set(Document(data), "experiment", Path(folder).absolute(), "experiment")

    @classmethod
    def _of(cls, document: Document, file: str, folder: Path, stem: str) -> Experiment:
        made = cls.__new__(cls)
        made._set(document, file, folder, stem)
        return made

    def _set(self, document: Document, file: str, folder: Path, stem: str) -> None:
        self._document, self._file, self.folder, self._stem = document, file, folder, stem
        self._resolved = self._sweep = None
        if has_sweep(document):
            self._sweep = sweep_of(document, file, folder, stem)
        else:
            self._resolved = load_document(document, file, folder, stem)

    @property
    def data(self) -> dict[str, Any]:
        """The content of the file, as mappings, lists, text and numbers; a copy."""
        return copy.deepcopy(self._document.data)

    @property
    def name(self) -> str:
        """The name of the experiment and its results."""
        return self._sweep.name if self._sweep is not None else self.resolved.name

    @property
    def is_sweep(self) -> bool:
        """True if it has the key `sweep`, so that it is several experiments."""
        return self._sweep is not None

    @property
    def resolved(self) -> Resolved:
        """All settings, every default filled in: `resolved.jobs`, `resolved.memory`, ... Raises
        UserError for a sweep."""
        if self._resolved is None:
            raise UserError(
                f"{self._file}: this is a sweep of {len(self.points)} experiments; tb.sweep runs"
                " it, and `points` has them"
            )
        return self._resolved

    @property
    def points(self) -> tuple[Resolved, ...]:
        """The resolved experiments: all points of a sweep, or the one."""
        if self._sweep is not None:
            return tuple(point.experiment for point in self._sweep.points)
        return (self.resolved,)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the results."""
        return tuple(dict.fromkeys(line for each in self.points for line in each.warnings))

    def with_(self, changes: Mapping[str, object] | None = None, /, **keys: object) -> Experiment:
        """Another experiment, in which these keys have other values; None removes a key.

        A key can be a path, as in a sweep: `with_({"memory.aggregators": 64, "jobs[*].scale":
        0.1})`. The value takes the place of all that was there. A system that uses no switch memory
        drops `memory`. Raises UserError if the new experiment is not sound; so changes that need
        each other belong into one call."""
        given = {**(changes or {}), **keys}
        plainly = {
            name: None if value is None else plain(value, name) for name, value in given.items()
        }
        document = changed(self._document, plainly, self._file)
        return self._of(document, self._file, self.folder, self._stem)

    def sweep(
        self,
        vary: Mapping[str, object],
        together: Iterable[Mapping[str, object]] = (),
        skip: Iterable[Mapping[str, object]] = (),
    ) -> Experiment:
        """The sweep of this experiment over lists of values by key, beside those that it varies
        already. `together`, `skip`: as in a file ([sweep](experiment.md#sweep)). Raises
        UserError."""
        swept = dict(self._document.data.get("sweep", {}))
        swept |= {name: _values(name, values) for name, values in vary.items()}
        for name, more in (("together", together), ("skip", skip)):
            if listed := [*swept.get(name, []), *plain(list(more), name)]:
                swept[name] = listed
        return self.with_(sweep=swept)

    def to_yaml(self, path: str | Path | None = None, *, resolved: bool = False) -> str:
        """The experiment as the text of a file; `path`: also write it there.

        resolved: with every default filled in, and absolute paths. Raises UserError when the file
        cannot be written, or would mean something else in its folder."""
        text = self.resolved.resolved_yaml() if resolved else write_yaml(_compact(self.data))
        if path is None:
            return text
        path = Path(path)
        folder = path.absolute().parent
        if not resolved and folder != self.folder:
            self._check_paths(text, path, folder)
        with writing(path):
            write_whole(path, text)
        return text

    def _check_paths(self, text: str, path: Path, folder: Path) -> None:
        """Raises UserError unless the text means the same in another folder."""
        remedy = f"write it into {self.folder}, or with resolved=True, which has absolute paths"
        try:
            if self.is_sweep:
                there = sweep_of(read_yaml(text, str(path)), str(path), folder, self._stem).points
                same = [each.experiment.resolved_yaml() for each in there]
            else:
                same = [load_text(text, str(path), folder, self._stem).resolved_yaml()]
        except UserError as error:
            raise UserError(f"{error}\n  paths in it start elsewhere; {remedy}") from None
        if same != [each.resolved_yaml() for each in self.points]:
            raise UserError(f"{path}: paths in it would lead to other files; {remedy}")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Experiment)
            and (self._document.data, self.folder) == (other._document.data, other.folder)
            and self.name == other.name
        )

    __hash__ = None  # type: ignore[assignment]  # its data are dicts

    def __repr__(self) -> str:
        if self._sweep is not None:
            count, keys = len(self._sweep.points), ", ".join(self._sweep.keys)
            return f"<Experiment {self.name}: a sweep of {count} points over {keys}>"
        return f"<Experiment {self.name}: {summary(self.resolved)}>"


def _values(name: str, values: Any) -> Any:
    """The values of a key as a sweep's file has them."""
    found = plain(values, name)
    if isinstance(values, set | frozenset) or not isinstance(found, list | dict):
        raise UserError(f"{name}: found {values!r}; allowed: a list of values")
    return found


def _compact(value: Any) -> Any:
    """The same with short lists in one line."""
    if isinstance(value, dict):
        return {key: _compact(each) for key, each in value.items()}
    if not isinstance(value, list):
        return value
    if all(not isinstance(each, dict | list) for each in value):
        return Inline(value)
    return [_compact(each) for each in value]
