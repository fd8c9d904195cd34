"""The state of one run of the checker: scopes, the place in the program, rules, findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Diagnostics, Place, did_you_mean
from p4engine.frontend.types import UNKNOWN, Composite, Type

# For a class of nodes, the function that checks one (the second argument). A rule for expressions
# returns the type, and sets `const` where the value is known at compile time.
ExpressionRules: TypeAlias = "Mapping[type[ast.Expr], Callable[[Checker, Any], Type]]"
DeclarationRules: TypeAlias = "Mapping[type[ast.Decl], Callable[[Checker, Any], None]]"

Block: TypeAlias = ast.Parser | ast.Control
# The id of a function, the type arguments, and the values of parameters of type int.
InstanceKey: TypeAlias = tuple[int, tuple[Type, ...], tuple[tuple[str, int], ...]]


class Scope:
    """Names visible at a point; `names` maps to a declaration, or a list of overloaded
    functions."""

    def __init__(self, parent: Scope | None) -> None:
        self.parent = parent
        self.names: dict[str, ast.Declared] = {}

    def find(self, name: str) -> ast.Declared | None:
        """The declaration of `name` that is visible here, or None."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    def visible(self) -> set[str]:
        """All names that are visible here."""
        names: set[str] = set()
        scope: Scope | None = self
        while scope is not None:
            names |= scope.names.keys()
            scope = scope.parent
        return names


class Checker:
    """The argument `c` of all rules. Later passes read the findings."""

    def __init__(
        self,
        diagnostics: Diagnostics,
        expression_rules: ExpressionRules,
        declaration_rules: DeclarationRules,
    ) -> None:
        self.diagnostics = diagnostics
        self._expression_rules, self._declaration_rules = expression_rules, declaration_rules
        # The place in the program.
        self.globals = self.scope = Scope(None)
        self.in_parser = False
        self.in_action = False
        self.in_argument_of_action = False
        self.returns: Type | None = None  # the result type of the function around, if any
        self.loops = 0
        # Generic declarations by id: the unchecked source and the scope around it; their copies.
        self.block_sources: dict[int, tuple[Block, Scope]] = {}
        self.block_copies: dict[tuple[int, tuple[Type, ...]], Block] = {}
        self.function_sources: dict[int, tuple[ast.Block | None, Scope]] = {}
        self.function_copies: dict[InstanceKey, ast.Function] = {}
        self.function_depth = 0
        # Findings.
        self.errors: dict[str, int] = {}  # the numbers of the members of `error`
        self.match_kinds: dict[str, ast.Constant] = {}  # names that a declaration can hide
        self.composites: list[Composite] = []  # headers, unions and structs in source order
        self.main_instance: ast.Instance | None = None

    @property
    def main(self) -> ast.Instance:
        """The package instance `main`, which a program without errors has."""
        assert self.main_instance is not None
        return self.main_instance

    # ---- rules ----

    def check(self, e: ast.Expr) -> Type:
        """Check an expression by the rule for its class. Returns its type."""
        rule = self._expression_rules.get(type(e))
        e.type = self.error(e.place, "this cannot stand here") if rule is None else rule(self, e)
        return e.type

    def check_declaration(self, decl: ast.Decl) -> None:
        """Check a declaration by the rule for its class, and enter it into the scope."""
        self._declaration_rules[type(decl)](self, decl)

    # ---- messages ----

    def error(self, place: Place, message: str) -> Type:
        """Report an error; returns UNKNOWN, the type of what is wrong."""
        self.diagnostics.error(place, message)
        return UNKNOWN

    def warning(self, place: Place, message: str) -> None:
        """Report a warning."""
        self.diagnostics.warning(place, message)

    # ---- names ----

    @contextmanager
    def inner_scope(self, parent: Scope | None = None) -> Iterator[Scope]:
        """Check what follows in a new scope inside of `parent` (the current one if None)."""
        outer = self.scope
        self.scope = Scope(parent or outer)
        try:
            yield self.scope
        finally:
            self.scope = outer

    @contextmanager
    def elsewhere(self, returns: Type | None) -> Iterator[None]:
        """Check what follows as if it stood outside of everything: a function that returns values
        of type `returns`, or (None) a block."""
        saved = self.in_parser, self.in_action, self.in_argument_of_action, self.loops, self.returns
        self.in_parser = self.in_action = self.in_argument_of_action = False
        self.loops, self.returns = 0, returns
        try:
            yield
        finally:
            self.in_parser, self.in_action, self.in_argument_of_action = saved[:3]
            self.loops, self.returns = saved[3:]

    @contextmanager
    def argument_of_action(self) -> Iterator[None]:
        """Check what follows as an argument of an action, in which no table can be applied."""
        outer = self.in_argument_of_action
        self.in_argument_of_action = True
        try:
            yield
        finally:
            self.in_argument_of_action = outer

    def declare(self, decl: ast.Decl) -> None:
        """Enter a declaration into the innermost scope."""
        if decl.name in self.scope.names:
            self.error(decl.place, f"'{decl.name}' is already declared here")
        self.scope.names[decl.name] = decl

    def lookup(self, name: str, absolute: bool, place: Place) -> ast.Declared | None:
        """The declaration that `name` means here, or (`absolute`) at the top level; None after
        reporting."""
        decl = (self.globals if absolute else self.scope).find(name) or self.match_kinds.get(name)
        if decl is None:
            hint = did_you_mean(name, self.scope.visible())
            self.error(place, f"'{name}' is not declared{hint}")
        return decl
