"""Hooks at which a program reports what it does: one call at every step that is worth seeing.

The emitters make these calls at the place in the C where the event belongs. The hooks here write
nothing, which gives the fast build; emit_trace.py has those that write events.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Place
from p4engine.frontend.types import Type
from p4engine.middle.instantiate import ActionInstance, TableInstance
from p4engine.program_info import Trace as TraceInfo


class Trace:
    """Hooks that write nothing."""

    headers: tuple[str, ...] = ()  # C headers that the hooks' statements need

    def info(self) -> TraceInfo | None:
        """The part of the program's `info` about the events."""
        return None

    # ---- stages ----

    def packet_arrived(self) -> None:
        """A packet comes in; the parser also runs for clones."""

    def stage_begun(self, stage: str, decl: ast.Decl) -> None:
        """A block of the package begins; `stage` is the name of the package's parameter."""

    def stage_ended(self, stage: str, decl: ast.Decl) -> None:
        """The block has ended, however it was left."""

    # ---- statements ----

    def ran(self, place: Place) -> None:
        """A statement without a result to show runs, or has run."""

    def assigned(self, s: ast.Assign) -> None:
        """An assignment has been made."""

    def declared(self, s: ast.Variable, text: str) -> None:
        """A variable, in C `text`, has got its first value."""

    def decided(self, place: Place, condition: str) -> str:
        """A condition is about to be tested; returns the C expression to test."""
        return condition

    # ---- calls ----

    def action_called(self, call: ast.ActionCall) -> None:
        """A control calls an action itself."""

    def block_entered(self, call: ast.BlockCall) -> None:
        """A control or parser is applied by another one."""

    @contextmanager
    def extern_called(self, call: ast.ExternCall) -> Iterator[None]:
        """Stands around the C of a call of an extern function or method."""
        yield

    # ---- tables ----

    def table_applied(
        self,
        call: ast.TableCall,
        table: TableInstance,
        keys: list[str],
        hit: str,
        action: str,
        entry: str,
    ) -> None:
        """A table has been looked up, with these C expressions of the keys and of the result."""

    def action_chosen(self, action: ActionInstance, entry: str) -> None:
        """An action runs with the data of the table's entry at the C pointer `entry`."""

    # ---- parsers ----

    def state_entered(self, state: ast.State) -> None:
        """A parser's state begins."""

    def selected(self, select: ast.Select, values: list[tuple[str, Type]]) -> None:
        """The values of a select expression are known."""

    def parser_failed(self, error: str) -> None:
        """The parser is about to stop with this error."""

    def verify_failed(self, place: Place, error: str) -> None:
        """verify() is about to stop the parser with the error of this C expression."""

    @contextmanager
    def extracted(self, place: Place, target: ast.Expr, type_: Type) -> Iterator[None]:
        """Stands around the C of an extraction into `target`."""
        yield

    # ---- deparsers ----

    @contextmanager
    def emitted(self, text: str, type_: Type, what: str) -> Iterator[None]:
        """Stands around the C that emits the header `text`, in P4 `what`."""
        yield
