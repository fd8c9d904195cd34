"""Types as written, resolved."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.check_declarations import DeclarationChecker
from p4engine.frontend.checker.check_expressions import ExpressionChecker
from p4engine.frontend.checker.check_generic_blocks import GenericBlockChecker
from p4engine.frontend.checker.context import Context
from p4engine.frontend.types import (
    BOOL,
    DONT_CARE,
    ERROR,
    INT,
    MATCH_KIND,
    STRING,
    UNKNOWN,
    VOID,
    Bits,
    BlockType,
    ExternType,
    ListOf,
    Stack,
    Tuple,
    Type,
    Varbit,
    can_be_field,
    has_header,
    specialize,
)

MAX_WIDTH = 1 << 16
MAX_STACK = 4096
PLAIN = {
    "bool": BOOL,
    "error": ERROR,
    "match_kind": MATCH_KIND,
    "string": STRING,
    "void": VOID,
    "_": DONT_CARE,
}


class TypeResolver:
    """Finds out what types mean."""

    def __init__(
        self,
        context: Context,
        expressions: ExpressionChecker,
        declarations: DeclarationChecker,
        generic_blocks: GenericBlockChecker,
    ) -> None:
        self.context, self.expressions = context, expressions
        self.declarations, self.generic_blocks = declarations, generic_blocks

    def resolve(self, node: ast.Node) -> Type:
        """The type that `node` stands for; UNKNOWN after reporting."""
        if isinstance(node, ast.TypeBase):
            return self._base(node)
        if isinstance(node, ast.TypeName):
            decl = self.context.lookup(node.name, node.absolute, node.place)
            return UNKNOWN if decl is None else self._named(node, node.name, decl)
        if isinstance(node, ast.TypeSpecialized):
            decl = self.context.lookup(node.base.name, node.base.absolute, node.place)
            arguments = tuple(self.resolve(a) for a in node.arguments)
            if decl is None or UNKNOWN in arguments:
                return UNKNOWN
            return self._specialized(node, decl, arguments)
        if isinstance(node, ast.TypeStack):
            return self._stack(node)
        if isinstance(node, ast.TypeTuple):
            return Tuple(tuple(self._element(t, "tuple") for t in node.elements))
        if isinstance(node, ast.TypeList):
            return ListOf(self._element(node.element, "list"))
        if isinstance(node, ast.Decl):  # typedef struct {..} name
            self.declarations.check(node)
            return UNKNOWN if node.type is ast.UNCHECKED else node.type
        return self.context.error(node.place, "a type was expected")

    def _element(self, node: ast.Node, of: str) -> Type:
        """The type of the elements of a tuple, a list or an array."""
        got = self.resolve(node)
        known_only = got in (INT, STRING, MATCH_KIND) or isinstance(got, ListOf)
        never = got == VOID or isinstance(got, ExternType | BlockType)
        if never or (known_only and of != "list"):
            return self.context.error(node.place, f"{got} cannot be the element of a {of}")
        return got

    def _base(self, node: ast.TypeBase) -> Type:
        if node.kind in PLAIN:
            return PLAIN[node.kind]
        if node.width is None:
            return INT
        width = self.expressions.constant(node.width, None, "the width of a type")
        if width is None:
            return UNKNOWN
        if not isinstance(width, int) or isinstance(width, bool):
            return self.context.error(node.width.place, "the width of a type must be a number")
        lowest = 1 if node.kind == "int" else 0
        if not lowest <= width <= MAX_WIDTH:
            return self.context.error(
                node.width.place, f"{node.kind}<{width}>: the width must be {lowest} to {MAX_WIDTH}"
            )
        if node.kind == "varbit":
            return Varbit(width)
        return Bits(width, node.kind == "int")

    def _stack(self, node: ast.TypeStack) -> Type:
        element = self._element(node.element, "stack or array")
        size = self.expressions.constant(node.size, None, "the size of a header stack")
        if element == UNKNOWN or size is None:
            return UNKNOWN
        if isinstance(element, Stack) and has_header(element):
            return self.context.error(node.place, "a header stack cannot be the element of another")
        if not isinstance(size, int) or not 0 < size <= MAX_STACK:
            return self.context.error(
                node.size.place, f"the size of a stack must be 1 to {MAX_STACK}"
            )
        return Stack(element, size)

    def _named(self, node: ast.Node, name: str, decl: ast.Declared) -> Type:
        """The type that a name without type arguments means."""
        if isinstance(decl, ast.ExternObject):
            return ExternType(decl)
        if isinstance(decl, ast.Parser | ast.Control | ast.Package):
            return BlockType(decl)
        if isinstance(decl, ast.Composite) and decl.type_parameters:
            return self.context.error(
                node.place, f"{decl.name} needs {len(decl.type_parameters)} type argument(s)"
            )
        if isinstance(decl, ast.Composite | ast.Enum | ast.Typedef | ast.TypeParameter):
            return UNKNOWN if decl.type is ast.UNCHECKED else decl.type
        return self.context.error(node.place, f"'{name}' is not a type")

    def _specialized(
        self, node: ast.TypeSpecialized, decl: ast.Declared, arguments: tuple[Type, ...]
    ) -> Type:
        """The type that a name with type arguments means."""
        if not isinstance(decl, ast.Decl) or not isinstance(decl, _TYPES):
            return self.context.error(node.place, f"'{node.base.name}' is not a type")
        parameters = decl.type_parameters if isinstance(decl, _GENERIC) else []
        if len(arguments) != len(parameters):
            return self.context.error(
                node.place,
                f"{decl.name} takes {len(parameters)} type arguments, {len(arguments)} given",
            )
        if not arguments or not isinstance(decl, _GENERIC):
            return self._named(node, decl.name, decl)
        if isinstance(decl, ast.Composite):
            made = specialize(decl, arguments)
            for name, type_ in made.fields.items():
                if not can_be_field(made.kind, type_):
                    return self.context.error(
                        node.place, f"field '{name}' of a {made.kind} cannot have the type {type_}"
                    )
            return made
        if isinstance(decl, ast.ExternObject):
            return ExternType(decl, arguments)
        if isinstance(decl, ast.Parser | ast.Control) and not decl.is_type:
            return BlockType(self.generic_blocks.specialize(decl, arguments))
        return BlockType(decl, arguments)


_GENERIC = ast.Composite | ast.ExternObject | ast.Parser | ast.Control | ast.Package
_TYPES = _GENERIC | ast.Enum | ast.Typedef | ast.TypeParameter
