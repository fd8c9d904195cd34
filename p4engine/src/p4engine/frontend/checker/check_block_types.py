"""Does a parser or control have the type that a constructor's parameter asks for?

Types of parsers and controls are compared by their parameters, as those of functions are, not by
their names.
"""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.check_conversions import ConversionChecker
from p4engine.frontend.checker.context import Context
from p4engine.frontend.types import BlockType, Type, has_variable, substitute


class BlockTypeChecker:
    """Compares the parameters of blocks."""

    def __init__(self, context: Context, conversions: ConversionChecker) -> None:
        self.context, self.conversions = context, conversions

    def fits(
        self, parameter: ast.Parameter, value: ast.Expr, want: BlockType, bindings: dict[Type, Type]
    ) -> bool:
        """Is `value` a block of type `want`, which is that of `parameter`? Reports if not.

        `bindings` are the type arguments of the construct that `parameter` belongs to.
        """
        have = value.type
        if isinstance(have, BlockType) and want.decl is have.decl:
            return True
        what = _kind(want.decl)
        if not isinstance(have, BlockType):
            self.context.error(value.place, f"'{parameter.name}' needs a {what}, not {have}")
        elif isinstance(want.decl, ast.Package) or type(want.decl) is not type(have.decl):
            self.context.error(
                value.place,
                f"'{parameter.name}' needs a {what} {want}, but {have} is a {_kind(have.decl)}",
            )
        else:
            assert not isinstance(have.decl, ast.Package)
            return self._same_parameters(value, want, have.decl, bindings)
        return False

    def _same_parameters(
        self,
        value: ast.Expr,
        want: BlockType,
        have: ast.Parser | ast.Control,
        bindings: dict[Type, Type],
    ) -> bool:
        wanted, given = want.decl.parameters, have.parameters
        needed = [p for p in wanted if not any(a.name == "optional" for a in p.annotations)]
        if not len(needed) <= len(given) <= len(wanted):
            self.context.error(
                value.place,
                f"{have.name} has {len(given)} parameters, but {want} has {len(wanted)}",
            )
            return False
        formal = [p.type for p in want.decl.type_parameters]
        inner = dict(zip(formal, want.arguments, strict=False))
        good = True
        for p, q in zip(wanted, given, strict=False):
            expected = substitute(substitute(p.type, inner), bindings)
            if not has_variable(expected) and not self.conversions.same(expected, q.type):
                what = str(expected)
            elif p.direction != q.direction:
                what = f"'{p.direction}'" if p.direction else "without direction"
            else:
                continue
            found = f", not {q.type}" if what == str(expected) else ""
            self.context.error(
                q.place, f"parameter '{q.name}' of {have.name} must be {what}{found}"
            )
            good = False
        return good


def _kind(decl: ast.Decl) -> str:
    return type(decl).__name__.lower()
