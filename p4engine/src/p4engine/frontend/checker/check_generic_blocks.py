"""Generic parsers and controls: one checked copy for each list of type arguments."""

from __future__ import annotations

import copy
from typing import TypeAlias

from p4engine.frontend import ast
from p4engine.frontend.checker.check_declarations import DeclarationChecker
from p4engine.frontend.checker.context import Context, Scope
from p4engine.frontend.types import Type

Block: TypeAlias = ast.Parser | ast.Control


class GenericBlockChecker:
    """Keeps the unchecked source of generic parsers and controls, and makes copies of it."""

    def __init__(self, context: Context, declarations: DeclarationChecker) -> None:
        self.context, self.declarations = context, declarations
        self._sources: dict[int, tuple[Block, Scope]] = {}  # by id of the declaration
        self._copies: dict[tuple[int, tuple[Type, ...]], Block] = {}

    def remember(self, decl: Block) -> None:
        """Keep a copy of the unchecked declaration, and the scope it is in."""
        self._sources[id(decl)] = (copy.deepcopy(decl), self.context.scope)

    def specialize(self, decl: Block, arguments: tuple[Type, ...]) -> Block:
        """The checked copy of a generic parser or control for these type arguments."""
        key = (id(decl), arguments)
        made = self._copies.get(key)
        if made is None:
            source, scope = self._sources[id(decl)]
            made = self._copies[key] = copy.deepcopy(source)
            made.type_parameters = []
            context = self.context
            with context.elsewhere(None), context.inner_scope(scope) as types:
                bind_types(types, dict(zip(decl.type_parameters, arguments, strict=True)))
                with context.inner_scope():
                    self.declarations.check(made)
        return made


def bind_types(scope: Scope, bindings: dict[ast.TypeParameter, Type]) -> None:
    """Let type parameters mean types in `scope`."""
    for parameter, type_ in bindings.items():
        holder = ast.Typedef(
            parameter.place, parameter.name, ast.TypeName(parameter.place, parameter.name), False
        )
        holder.type = type_
        scope.names[parameter.name] = holder
