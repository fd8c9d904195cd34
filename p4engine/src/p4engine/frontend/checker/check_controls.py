"""Controls and actions."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.check_declarations import DeclarationChecker, DeclarationRules
from p4engine.frontend.checker.check_parameters import ParameterChecker
from p4engine.frontend.checker.check_statements import StatementChecker
from p4engine.frontend.checker.context import Context
from p4engine.frontend.types import BlockType


class ControlChecker:
    """The rules for controls and actions."""

    def __init__(
        self,
        context: Context,
        parameters: ParameterChecker,
        statements: StatementChecker,
        declarations: DeclarationChecker,
    ) -> None:
        self.context, self.parameters = context, parameters
        self.statements, self.declarations = statements, declarations

    def rules(self) -> DeclarationRules:
        """The rules to add to the checker of declarations."""
        return {ast.Action: self._action, ast.Control: self._control}

    def _action(self, d: ast.Action) -> None:
        with self.context.inner_scope():
            self.parameters.declare(d.parameters, "action")
            seen_data = False
            for p in d.parameters:
                if not p.direction:
                    seen_data = True
                elif seen_data:
                    self.context.error(
                        p.place, "parameters with a direction must stand before those without"
                    )
            self.context.in_action = True
            self.statements.block(d.body.statements)
            self.context.in_action = False
        self.context.declare(d)

    def _control(self, d: ast.Control) -> None:
        if d.type_parameters and not d.is_type:
            self.parameters.declare_generic_block(d)
            return
        d.type = BlockType(d)
        with self.context.inner_scope():
            self.parameters.declare_types(d.type_parameters)
            self.parameters.declare(d.parameters)
            if d.body is not None:
                self.parameters.declare_constructor(d)
                with self.context.inner_scope():
                    for local in d.locals:
                        if isinstance(local, ast.ValueSet):
                            self.context.error(local.place, "a control cannot have a value_set")
                        self.declarations.check(local)
                    self.statements.block(d.body.statements)
                    self._unapplied(d)
        self.context.declare(d)

    def _unapplied(self, d: ast.Control) -> None:
        for local in d.locals:
            if isinstance(local, ast.Table) and not local.info.applied:
                self.context.warning(local.place, f"table {local.name} is never applied")
