"""YAML text to plain data that remembers its lines, and back.

PyYAML reads the syntax; what a plain word means is decided here, because the rules of YAML 1.1
surprise people: there `on` and `no` are booleans, `10:30` is 630, `010` is 8, and `1e3` is text.
Here a number is what looks like one in decimal, `true` and `false` are booleans, and everything
else is text. A key without a value, a key given twice and a key that is not text are errors.
Aliases (`*name`) work; tags and merge keys (`<<`) do not.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from p4fabric.base.config.data_files import MAX_DEPTH
from p4fabric.base.config.problems import ExperimentError, Path, Problem
from p4fabric.base.errors import sentence

MAX_BYTES = 4 * 2**20
MAX_VALUES = 500_000  # a few aliases of aliases could otherwise become billions

_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(
    r"[-+]?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,30}(?:[eE][-+]?[0-9]{1,3})?|[eE][-+]?[0-9]{1,3})"
)
_TEXT, _LIST, _MAPPING = (f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))


@dataclass
class Document:
    """`data`: dicts, lists, text, numbers and booleans. `lines`: line (from 1) of each key path.
    `problems`: the problems found so far; values that could not be read are not in data."""

    data: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def line(self, path: Path) -> int | None:
        """The line of a path, or of the nearest thing around it that is in the file."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None


class _Loader(yaml.SafeLoader):
    """Leaves every scalar as text, so that `plain_value` decides."""

    yaml_implicit_resolvers: dict[str, Any] = {}


def read_yaml(text: str, file: str, what: str = "experiment") -> Document:
    """Parse `text`, which is `what`. Raises ExperimentError if it is no YAML at all; see
    `Document.problems`."""
    try:
        small = len(text) < 64 << 10
        node = _composed(text) if small else yaml.compose(text, _Loader)
    except yaml.YAMLError as error:
        raise ExperimentError(file, [_syntax_problem(error)], what) from None
    except RecursionError:
        raise ExperimentError(file, [Problem((), "it is nested too deeply")], what) from None
    if node is None:
        example = "experiments/quickstart.yaml shows what one looks like"
        message = sentence("the file is empty", example if what == "experiment" else "")
        raise ExperimentError(file, [Problem((), message)], what)
    document = Document()
    try:
        document.data = _Builder(document).value(node, ())
    except _TooMuch as error:
        raise ExperimentError(file, [Problem((), str(error))], what) from None
    return document


@functools.lru_cache(maxsize=1)
def _composed(text: str) -> yaml.Node | None:
    """Nodes of a text, which several ask for: is it a network, a sweep? They take PyYAML a tenth
    of a small file's check."""
    return yaml.compose(text, _Loader)


class _TooMuch(Exception):
    pass


class _Builder:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.count = 0
        self.open: list[yaml.Node] = []  # nodes around the current one

    def value(self, node: yaml.Node, path: Path) -> object:
        self.count += 1
        if self.count > MAX_VALUES:
            raise _TooMuch(f"it has more than {MAX_VALUES} values (aliases counted in full)")
        self.document.lines.setdefault(path, node.start_mark.line + 1)
        if len(self.open) > MAX_DEPTH:
            raise _TooMuch(
                f"line {node.start_mark.line + 1}: it is nested deeper than {MAX_DEPTH} levels"
                " (aliases counted in full)"
            )
        if any(node is each for each in self.open):
            raise _TooMuch(
                f"line {node.start_mark.line + 1}: an alias (*) inside its own anchor (&)"
            )
        if node.tag not in (_TEXT, _LIST, _MAPPING):
            self.add_problem(path, f"the tag {node.tag} is not supported; remove it")
            return None
        if isinstance(node, yaml.ScalarNode):
            if node.style is not None:
                return node.value
            if node.value in ("", "~", "null", "Null", "NULL"):
                self.add_problem(path, "nothing is written here; write a value or remove the key")
                return None
            return plain_value(node.value)
        self.open.append(node)
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
            return self.mapping(node, path)
        finally:
            self.open.pop()

    def mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        result: dict[str, object] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or not key_node.value:
                self.add_problem(path, "a key must be a word", line)
                continue
            key = key_node.value
            if key == "<<" and key_node.style is None:
                self.add_problem(
                    (*path, key), "merge keys are not supported; write the keys out", line
                )
                continue
            if key in result:
                first = self.document.lines[(*path, key)]
                self.add_problem(
                    (*path, key), f"already given in line {first}; keep one of them", line
                )
                continue
            self.document.lines[(*path, key)] = line
            result[key] = self.value(value_node, (*path, key))
        return result

    def add_problem(self, path: Path, message: str, line: int | None = None) -> None:
        self.document.problems.append(Problem(path, message, line or self.document.line(path)))


def plain_value(text: str) -> int | float | bool | str:
    """The meaning of an unquoted word: int, float, bool, or the text itself."""
    if _WHOLE.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text):
        return float(text)
    return {"true": True, "True": True, "false": False, "False": False}.get(text, text)


def _syntax_problem(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark else None
    if isinstance(error, yaml.reader.ReaderError):
        code = error.character if isinstance(error.character, int) else ord(error.character)
        return Problem((), f"not a text file: character {code:#04x} at position {error.position}")
    problem = getattr(error, "problem", None) or str(error)
    if r"'\t'" in problem or _tab_at(mark):
        return Problem((), "a tab; indent with spaces", line)
    if "expected a single document" in (getattr(error, "context", None) or ""):
        return Problem((), "a second document begins (---); an experiment file holds one", line)
    if "undefined alias" in problem:
        return Problem((), f"not valid YAML: {problem}", line)
    shown = _line_at(mark)
    source = f"\n{shown}" if shown else ""
    return Problem((), f"not valid YAML: {problem}{source}", line)


def _tab_at(mark: yaml.Mark | None) -> bool:
    line = _line_at(mark)
    return bool(line) and "\t" in line[: len(line) - len(line.lstrip())]


def _line_at(mark: yaml.Mark | None) -> str:
    if mark is None or mark.buffer is None:
        return ""
    lines = mark.buffer.rstrip("\0").split("\n")
    return lines[mark.line][:100] if mark.line < len(lines) else ""


class Inline(list):
    """A list that is written in one line: [h1, h2]."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)  # lists are indented under their key


def _write_text(dumper: yaml.Dumper, text: str) -> yaml.Node:
    # Quoted where this module would read something else than text; PyYAML quotes what it would
    # read as something else, so that other programs read the same.
    ours = plain_value(text) is text and text not in ("", "~", "null", "Null", "NULL")
    return dumper.represent_scalar(_TEXT, text, style=None if ours else '"')


_Dumper.add_representer(str, _write_text)
_Dumper.add_representer(
    Inline, lambda dumper, items: dumper.represent_sequence(_LIST, items, flow_style=True)
)


def write_yaml(data: object) -> str:
    """Text that `read_yaml` reads as the same data. Keys keep their order."""
    return yaml.dump(
        data,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=96,
        default_flow_style=False,
    )
