"""An architecture for the compiler: everything that depends on the package of `main`.

Each one has a folder of `architectures/` with its declarations in P4, its externs, its pipeline and
the C around it, and an object of this class there, `ARCHITECTURE`. The compiler finds it by the
name of the package, so nothing else names an architecture.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from p4engine.frontend import ast
from p4engine.frontend.checker.checker import Checker
from p4engine.frontend.diagnostics import Diagnostics
from p4engine.frontend.types import BOOL, Bits, BlockType, Composite, Type, underlying

FOLDER = Path(__file__).parents[1] / "architectures"
PACKAGES = {
    "V1Switch": ("v1model",),
    "Switch": ("t2na", "tna"),
}  # the package of `main`, and the folders of the architectures that have it


@dataclass(frozen=True)
class ExternShape:
    """An extern object of which there can be instances.

    `kind` is what it is to the control plane (register, counter, direct_counter, meter,
    direct_meter, action_profile, action_selector), else its own name; `needs` are the parameters
    that its constructor must have.
    """

    kind: str
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class StageTrace:
    """A stage in a trace: its name, and C texts of values at its begin and end
    (trace_text.py says which)."""

    name: str
    begin: tuple[str, ...] = ()
    end: tuple[str, ...] = ()


@dataclass(frozen=True)
class BlockArgument:
    """A parser or control of the pipeline. `prefix` comes before its name for the control plane."""

    name: str
    value: ast.Expr | None
    prefix: str = ""


class Architecture(ABC):
    """One architecture. `package` is that of `main`; `externs` has its extern objects by name;
    `structs` are P4 structs whose C the runtime fixes; `controls` are the blocks that a pipeline
    chip would run as stages, by the words for them; `match_kinds` says which of the common ones a
    match kind of its own is looked up as. `more_of_packet` is C in front of what a parser does when
    the bytes at hand are fewer than {size}; `offset_in_packet` is C of where {start} is. `stages`
    has what a trace shows of each block, by its name without a number behind it; `arrival` members
    of p4_packet that it shows of a packet that comes."""

    name: ClassVar[str]
    package: ClassVar[str]
    externs: ClassVar[Mapping[str, ExternShape]]
    structs: ClassVar[Mapping[str, str]] = {}
    controls: ClassVar[Mapping[str, str]]
    stages: ClassVar[Mapping[str, StageTrace]]
    arrival: ClassVar[tuple[str, ...]]
    match_kinds: ClassVar[Mapping[str, str]] = {}
    # Extern objects that say how a chip would implement a table, and mean nothing here.
    table_hints: ClassVar[frozenset[str]] = frozenset()
    more_of_packet: ClassVar[str] = ""
    offset_in_packet: ClassVar[str] = "(size_t)({start} - P->base.data)"

    def declared(self, checker: Checker) -> bool:
        """True if the declarations are of this architecture, and not of another one with the same
        package."""
        return True

    @abstractmethod
    def check(self, checker: Checker, diagnostics: Diagnostics) -> None:
        """Report where the declarations, which a program can bring itself, are not those that the
        engine implements."""

    @abstractmethod
    def blocks(self, checker: Checker, diagnostics: Diagnostics) -> Sequence[BlockArgument]:
        """The blocks of the pipeline in the order in which a packet passes through them."""

    def member(self, type_: Composite, field: str) -> str:
        """The C member for a field of one of `structs`."""
        return field

    profile_defaults: ClassVar[bool] = False  # of tables with action profiles: the program's
    no_match_is_error: ClassVar[bool] = False  # a select of which no label matches

    def parser_error(self, name: str, errors: Mapping[str, int]) -> int:
        """The number that the parser leaves for an error of core.p4."""
        return errors[name]

    def register_problem(self, element: Type) -> str | None:
        """Problem of a register with such elements; None if there is none."""
        under = underlying(element)
        if isinstance(under, Bits) or under == BOOL:
            return None
        return f"a register of {element} is not supported; use bit<> or int<>"

    def complete(self, made: Any, instances: Any) -> None:
        """An extern object (ExternInstance) has been made: what else follows from that."""
        return

    def add(self, instances: Any) -> None:
        """All instances (Instances) have been made: add those that the architecture itself has."""
        return

    @abstractmethod
    def digest(self, call: ast.ExternCall) -> ast.Expr | None:
        """The data that a call sends to the control plane; None: it sends nothing."""

    def digest_name(
        self, call: ast.ExternCall, name_of: Callable[[ast.Expr], str | None]
    ) -> str | None:
        """The name of that digest, if it has one of its own; `name_of` tells that of an
        instance."""
        return None

    @abstractmethod
    def emitter(self, parts: Any) -> Any:
        """Emitter of the C of the externs and of the pipeline (backend/emit_architecture.py)."""


def architecture_of(checker: Checker, diagnostics: Diagnostics) -> Architecture:
    """The architecture of a checked program. Raises Fatal for a package of none."""
    main = checker.main
    assert isinstance(main.type, BlockType)
    package = main.type.decl.name
    if package not in PACKAGES:
        known = ", ".join(f"{' and '.join(names)} (package {of})" for of, names in PACKAGES.items())
        raise diagnostics.fatal(
            main.place,
            f"the architecture of package {package} is not supported; this compiler is for {known}",
        )
    found = map(named, PACKAGES[package])
    return next(architecture for architecture in found if architecture.declared(checker))


def named(name: str) -> Architecture:
    """The architecture of the folder `name`."""
    module = importlib.import_module(f"p4engine.architectures.{name}")
    found = module.ARCHITECTURE
    assert isinstance(found, Architecture)
    return found
