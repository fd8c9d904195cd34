"""The checker: gives every expression its type, and every name, call and table its meaning.

One walk in source order, because P4 wants declarations before use. Generic functions, parsers and
controls are checked per instantiation, everything else once. `Checker` wires up the parts. A part
gets those it needs; `ExpressionChecker` and `DeclarationChecker` get rules from the others, which
is how an expression can be a call and a call have expressions as arguments.
"""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.check_arguments import ArgumentChecker
from p4engine.frontend.checker.check_block_types import BlockTypeChecker
from p4engine.frontend.checker.check_calls import CallChecker
from p4engine.frontend.checker.check_constructors import ConstructorChecker
from p4engine.frontend.checker.check_controls import ControlChecker
from p4engine.frontend.checker.check_conversions import ConversionChecker
from p4engine.frontend.checker.check_declarations import DeclarationChecker
from p4engine.frontend.checker.check_expressions import ExpressionChecker
from p4engine.frontend.checker.check_functions import FunctionChecker
from p4engine.frontend.checker.check_generic_blocks import GenericBlockChecker
from p4engine.frontend.checker.check_instances import InstanceChecker
from p4engine.frontend.checker.check_keysets import KeysetChecker
from p4engine.frontend.checker.check_literals import LiteralChecker
from p4engine.frontend.checker.check_named_types import NamedTypeChecker
from p4engine.frontend.checker.check_names import NameChecker
from p4engine.frontend.checker.check_operators import OperatorChecker
from p4engine.frontend.checker.check_parameters import ParameterChecker
from p4engine.frontend.checker.check_parsers import ParserChecker
from p4engine.frontend.checker.check_statements import StatementChecker
from p4engine.frontend.checker.check_tables import TableChecker
from p4engine.frontend.checker.check_types import TypeResolver
from p4engine.frontend.checker.context import Context, Scope
from p4engine.frontend.diagnostics import Diagnostics
from p4engine.frontend.types import Composite


class Checker:
    """Checks a program; the results are in the decorated tree and in the properties here."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        context = self.context = Context(diagnostics)
        conversions = ConversionChecker(context)
        expressions = ExpressionChecker(context, conversions)
        declarations = self.declarations = DeclarationChecker()
        generic_blocks = GenericBlockChecker(context, declarations)
        types = TypeResolver(context, expressions, declarations, generic_blocks)
        parameters = ParameterChecker(context, expressions, types, generic_blocks)
        statements = StatementChecker(context, conversions, expressions, types)
        functions = FunctionChecker(context, types, parameters, statements)
        blocks = BlockTypeChecker(context, conversions)
        arguments = ArgumentChecker(context, conversions, expressions, blocks)
        constructors = ConstructorChecker(context, arguments)
        keysets = KeysetChecker(context, conversions, expressions)

        literals = LiteralChecker(context, conversions, expressions, types)
        names = NameChecker(context, conversions, expressions, types)
        operators = OperatorChecker(context, conversions, expressions, types)
        calls = CallChecker(context, expressions, types, arguments, constructors, functions)
        for expression_part in (literals, names, operators, calls):
            expressions.add(expression_part.rules())

        named_types = NamedTypeChecker(context, conversions, expressions, types, parameters)
        tables = TableChecker(context, expressions, arguments, keysets)
        parsers = ParserChecker(
            context, expressions, types, parameters, statements, keysets, declarations
        )
        controls = ControlChecker(context, parameters, statements, declarations)
        instances = InstanceChecker(context, types, parameters, constructors)
        for part in (statements, functions, named_types, tables, parsers, controls, instances):
            declarations.add(part.rules())

    @property
    def globals(self) -> Scope:
        """The names of the top level."""
        return self.context.globals

    @property
    def errors(self) -> dict[str, int]:
        """The numbers of the members of `error`."""
        return self.context.errors

    @property
    def composites(self) -> list[Composite]:
        """All headers, header unions and structs, in the order of their declarations."""
        return self.context.composites

    @property
    def main(self) -> ast.Instance:
        """The package instance `main`, which a program without errors has."""
        assert self.context.main is not None
        return self.context.main

    def check(self, program: ast.Program) -> None:
        """Check all declarations of a program."""
        for decl in program.declarations:
            self.declarations.check(decl)
        if self.context.main is None and not self.context.diagnostics.errors:
            last = program.declarations[-1] if program.declarations else program
            self.context.error(
                last.place, "there is no 'main' package instance, such as V1Switch(...) main;"
            )


def check(program: ast.Program, diagnostics: Diagnostics) -> Checker:
    """Check a program; errors are in `diagnostics`."""
    checker = Checker(diagnostics)
    checker.check(program)
    return checker
