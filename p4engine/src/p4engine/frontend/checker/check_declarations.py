"""Declarations in general: `check` checks one and enters it into the scope, by the rule for its
class.

The rules are those of check_named_types, check_functions, check_tables, check_parsers,
check_controls, check_instances and check_statements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from p4engine.frontend import ast

# For a class of declarations, the method that checks one. The key is the class of the argument.
DeclarationRules: TypeAlias = Mapping[type[ast.Decl], Callable[[Any], None]]


class DeclarationChecker:
    """Checks declarations, at the top level and inside of parsers and controls."""

    def __init__(self) -> None:
        self._rules: dict[type[ast.Decl], Callable[[Any], None]] = {}

    def add(self, rules: DeclarationRules) -> None:
        """Add the rules for some classes of declarations."""
        self._rules.update(rules)

    def check(self, decl: ast.Decl) -> None:
        """Check one declaration."""
        self._rules[type(decl)](decl)
