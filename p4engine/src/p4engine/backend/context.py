"""The state that all emitters share while they write one program: the statements so far, the C
names of what P4 declares, temporaries and labels, and the compiler's results that they read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from p4engine.backend.trace_hooks import Trace
from p4engine.frontend import ast
from p4engine.frontend.checker.checker import Checker
from p4engine.frontend.diagnostics import Diagnostics, Fatal, Place
from p4engine.frontend.types import Type
from p4engine.middle.digests import find_digests
from p4engine.middle.instantiate import BlockInstance, ExternInstance, Instances, Member
from p4engine.middle.layout import Layout
from p4engine.middle.records import Records


@dataclass
class Frame:
    """The targets of return, exit, break and continue in the body that is being written."""

    return_label: str = ""
    exit_label: str | None = None  # None: in a parser, which has no exit
    return_variable: str | None = None
    last: ast.Node | None = None  # of the body's statements: a return there jumps nowhere
    loop_labels: list[tuple[str, str]] = field(default_factory=list)  # (break, continue)


@dataclass(frozen=True)
class AppliedEntry:
    """The C names of a look-up's result, in the actions of the table."""

    entry: str
    hit: str
    table: int
    meter_stored: bool  # the table itself stores the colour of its direct meter


class Context:
    """The state of one program's generation. `out` is the list of C statements that is being
    written."""

    block: BlockInstance  # the parser or control that is being written
    gress = (
        ""  # C in front of the state of what is being written, where an architecture has several
    )

    def __init__(self, checker: Checker, instances: Instances, diagnostics: Diagnostics) -> None:
        self.checker, self.instances, self.diagnostics = checker, instances, diagnostics
        self.layout = Layout(instances.architecture)
        self.fixed_structs = instances.architecture.structs
        self.records = Records(instances.externs.get("register", []), self.layout)
        self.digests = find_digests(instances)
        self.trace = Trace()
        self.out: list[str] = []
        self.names: dict[int, str] = {}  # id(declaration) -> C text of a variable
        self.kept: list[ast.Node] = []  # nodes made here, whose ids are keys of `names`
        self.constants: dict[int, Any] = {}  # id(parameter of type int) -> its value
        self.extern_arguments: dict[int, ast.Expr | None] = {}  # by id(parameter)
        self.block_parents: dict[int, BlockInstance] = {}  # by id(block)
        self.frame = Frame()
        self.applied: AppliedEntry | None = None
        self.here: Place | None = None  # of the statement that is being written
        self.depth = self.temps = self.labels = 0
        self.used_labels: set[str] = set()
        self.used_records: set[int] = set()
        self.prefetched: set[int] = set()  # records, in this C function

    def fatal(self, place: Place, message: str) -> Fatal:
        """Record an error; returns the exception to raise."""
        return self.diagnostics.fatal(place, message)

    # ---- statements ----

    @contextmanager
    def capture(self) -> Iterator[list[str]]:
        """Collect the statements written inside in a list of their own."""
        outer, self.out = self.out, []
        try:
            yield self.out
        finally:
            self.out = outer

    @contextmanager
    def within(self, block: BlockInstance) -> Iterator[None]:
        """Look names up in `block`, and in those around it."""
        outer, self.block = self.block, block
        if block is not outer:
            self.block_parents[id(block)] = outer
        try:
            yield
        finally:
            self.block = outer

    @contextmanager
    def at(self, place: Place | None) -> Iterator[None]:
        """A block whose statements belong to this place of the source."""
        before, self.here = self.here, place or self.here
        try:
            yield
        finally:
            self.here = before

    # ---- names ----

    def temp(self, type_: Type, init: str | None = None) -> str:
        """Declare a C variable for a value of a P4 type; returns its name."""
        return self.temp_c(self.layout.c_type(type_), init)

    def temp_c(self, c_type: str, init: str | None = None) -> str:
        """Declare a C variable of a C type; returns its name."""
        self.temps += 1
        name = f"t{self.depth}_{self.temps}x"
        self.out.append(f"{c_type} {name};" if init is None else f"{c_type} {name} = {init};")
        return name

    def fresh(self, prefix: str) -> str:
        """A C name that nothing else has."""
        self.labels += 1
        return f"{prefix}_{self.labels}"

    def goto(self, label: str | None) -> str:
        """A C statement that jumps to `label`, which is then known to be used."""
        assert label is not None
        self.used_labels.add(label)
        return f"goto {label};"

    def parser_error(self, name: str) -> str:
        """C statements that stop the parser with an error of core.p4."""
        with self.capture() as report:
            self.trace.parser_failed(name)
        number = self.instances.architecture.parser_error(name, self.checker.errors)
        stop = f"P->base.std.parser_error = {number}; {self.goto('reject')}"
        return " ".join([*report, stop])

    def too_short(self, size: str) -> str:
        """C statements for a parser that has fewer than `size` bytes at hand."""
        error = self.parser_error("PacketTooShort")
        more = self.instances.architecture.more_of_packet
        return f"{more.format(size=size)}{{ {error} }}" if more else error

    def variable(self, place: Place, name: str, type_: Type, text: str) -> ast.Name:
        """A P4 name for the C expression `text`."""
        decl = ast.Decl(place, name)
        decl.type = type_
        self.kept.append(decl)
        self.names[id(decl)] = text
        made = ast.Name(place, name)
        made.type, made.decl = type_, decl
        return made

    # ---- instances ----

    def find_instance(self, e: ast.Expr | None) -> Member | None:
        """The instance that a name or parameter stands for."""
        if not isinstance(e, ast.Name):
            return None
        decl = e.decl
        if id(decl) in self.extern_arguments:
            return self.find_instance(self.extern_arguments[id(decl)])
        block: BlockInstance | None = self.block
        while block is not None:
            for known in (block.members, block.values):
                found = known.get(id(decl))
                if isinstance(found, Member):
                    return found
            block = self.block_parents.get(id(block))
        return self.instances.global_externs.get(id(decl))

    def extern(self, call: ast.MethodCall) -> ExternInstance:
        """The extern instance whose method is called."""
        made = self.find_instance(call.receiver)
        if not isinstance(made, ExternInstance):
            raise self.fatal(call.place, "this extern instance cannot be found")
        return made

    def is_path(self, e: ast.Expr) -> bool:
        """True if `e` is a variable or a fixed part of one."""
        if isinstance(e, ast.Name):
            return id(e.decl) in self.names
        if isinstance(e, ast.Member):
            return e.name not in ("next", "last", "lastIndex") and self.is_path(e.base)
        if isinstance(e, ast.Index):
            return e.index.const is not None and self.is_path(e.base)
        return False
