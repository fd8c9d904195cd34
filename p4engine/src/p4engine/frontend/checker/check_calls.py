"""Calls: which declaration a call means, and what the code generator needs of it (`Call.call`)."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker.check_arguments import ArgumentChecker, accepts
from p4engine.frontend.checker.check_constructors import ConstructorChecker, known_at_instantiation
from p4engine.frontend.checker.check_expressions import ExpressionChecker, ExpressionRules
from p4engine.frontend.checker.check_functions import FunctionChecker
from p4engine.frontend.checker.check_types import TypeResolver
from p4engine.frontend.checker.context import Context
from p4engine.frontend.parser.parse_annotations import string_value
from p4engine.frontend.types import (
    BOOL,
    INT,
    UNKNOWN,
    VOID,
    ActionMeant,
    Bits,
    BlockType,
    Composite,
    ExternType,
    FunctionsMeant,
    Special,
    Stack,
    TableMeant,
    Tuple,
    Type,
    TypeMeant,
    Varbit,
    fixed_size,
    is_header,
    is_union,
    minimum_width,
    substitute,
    underlying,
    width_of,
)

# Extern functions, and methods of externs, that only parsers can use.
IN_PARSERS = {
    "extern": ("verify",),
    "method": ("extract", "lookahead", "advance"),
    "function": (),
}


class CallChecker:
    """The rule for calls."""

    def __init__(
        self,
        context: Context,
        expressions: ExpressionChecker,
        types: TypeResolver,
        arguments: ArgumentChecker,
        constructors: ConstructorChecker,
        functions: FunctionChecker,
    ) -> None:
        self.context, self.expressions, self.types = context, expressions, types
        self.arguments, self.constructors = arguments, constructors
        self.functions = functions

    def rules(self) -> ExpressionRules:
        """The rules to add to the checker of expressions."""
        return {ast.Call: self._call}

    def _call(self, e: ast.Call) -> Type:
        callee = e.function
        if isinstance(callee, ast.TypeExpr):
            return self._construct(e, self.types.resolve(callee.target))
        if isinstance(callee, ast.Member):
            callee.called = True
        what = self.expressions.check(callee)
        if what == UNKNOWN:
            return self._give_up(e)
        if isinstance(callee, ast.Name):
            if isinstance(what, TypeMeant):
                return self._construct(e, what.type)
            if isinstance(what, ActionMeant):
                return self._action(e, what.decl)
            if isinstance(what, FunctionsMeant):
                return self._function(e, what.candidates)
        if isinstance(callee, ast.Member) and isinstance(what, Special) and what.what == "a method":
            base = callee.base.type
            if isinstance(base, TableMeant):
                return self._table(e, base.decl)
            if isinstance(base, TypeMeant) and isinstance(base.type, BlockType):
                return self._apply(e, base.type, None)
            if isinstance(base, BlockType):
                return self._apply(e, base, callee.base)
            if isinstance(base, ExternType) and isinstance(what, FunctionsMeant):
                return self._function(e, what.candidates, callee.base, base)
            return self._builtin(e, callee, base)
        return self.context.error(e.place, "this cannot be called")

    def _give_up(self, e: ast.Call) -> Type:
        """The callee or the number of arguments is wrong: report what is wrong in the arguments."""
        for argument in e.arguments:
            if argument.value is not None:
                self.expressions.check(argument.value)
        return UNKNOWN

    def _construct(self, e: ast.Call, target: Type) -> Type:
        made = self.constructors.construct(e.place, target, e.arguments)
        if made is None:
            return UNKNOWN
        e.call = made
        return made.type

    # ---- functions and methods ----

    def _function(
        self,
        e: ast.Call,
        candidates: list[ast.Function],
        receiver: ast.Expr | None = None,
        extern: ExternType | None = None,
    ) -> Type:
        """A call of a function, or of a method of `receiver`, which is of the type `extern`."""
        fitting = [d for d in candidates if accepts(d.parameters, e.arguments)]
        decl = fitting[0] if fitting else candidates[-1]
        what = f"{'function' if receiver is None else 'method'} {decl.name}"
        if len(fitting) > 1:
            return self.context.error(e.place, f"{what}: {len(fitting)} declarations fit this call")
        bound = self.arguments.bind(e.place, decl.parameters, e.arguments, what)
        if bound is None:
            return self._give_up(e)
        bindings: dict[Type, Type] = {}
        if extern is not None:
            outer = [p.type for p in extern.decl.type_parameters]
            bindings = dict(zip(outer, extern.arguments, strict=False))
        variables = [p.type for p in decl.type_parameters]
        if e.type_arguments:
            if len(e.type_arguments) != len(variables):
                return self.context.error(
                    e.place,
                    f"{what} takes {len(variables)} type arguments, {len(e.type_arguments)} given",
                )
            for variable, argument in zip(variables, e.type_arguments, strict=True):
                if not (isinstance(argument, ast.TypeBase) and argument.kind == "_"):
                    bindings[variable] = self.types.resolve(argument)
        # What is known from the receiver must not be bound again.
        if not self.arguments.fit(bound, bindings, [v for v in variables if v not in bindings]):
            if decl.type is ast.UNCHECKED:
                return UNKNOWN
            return substitute(decl.type, bindings)
        for parameter in decl.type_parameters:
            if parameter.type not in bindings:
                return self.context.error(
                    e.place,
                    f"{what}: the type argument {parameter.name} cannot be inferred; give it",
                )
        for p, value in bound:
            if value is None and p.direction and substitute(p.type, bindings) == INT:
                return self.context.error(
                    e.place, f"{what}: the type of '_' for '{p.name}' cannot be inferred; give it"
                )
        if not self._known_arguments(bound):
            return substitute(decl.type, bindings)
        if decl.body is not None:
            generic = bool(decl.type_parameters)
            constants: dict[str, int] = {}
            plain: ast.Bound = []
            for p, value in bound:
                is_int = substitute(p.type, bindings) == INT
                generic = generic or is_int
                if is_int and value is not None and isinstance(value.const, int):
                    constants[p.name] = value.const
                else:
                    plain.append((p, value))
            if generic:
                decl = self.functions.instantiate(decl, bindings, constants, e.place)
                bound = [(p, v) for p, (_, v) in zip(decl.parameters, plain, strict=False)]
        for mark in decl.annotations:
            if mark.name == "deprecated":
                self.context.warning(e.place, f"{what} is deprecated: {string_value(mark)}")
        kind = "function" if decl.body is not None else "extern" if receiver is None else "method"
        in_function = self.context.returns is not None
        if decl.name in IN_PARSERS[kind] and not self.context.in_parser and not in_function:
            return self.context.error(e.place, f"{decl.name} can only be used in a parser")
        result = substitute(decl.type, bindings)
        if decl.body is not None:
            e.call = ast.FunctionCall(e.place, decl, result, arguments=bound)
        elif receiver is None or extern is None:
            if decl.name == "static_assert":
                self._static_assert(e, bound)
            e.call = ast.ExternCall(e.place, decl, result, bindings, arguments=bound)
        else:
            e.call = ast.MethodCall(
                e.place, decl, result, bindings, receiver, extern.decl, arguments=bound
            )
            if decl.name in ("lookahead", "extract", "emit"):
                subject = bindings[variables[0]] if variables else UNKNOWN
                self._packet_method(e, decl.name, subject, bound)
        return result

    def _known_arguments(self, bound: ast.Bound) -> bool:
        """Are the arguments of parameters without a direction known at compile time? Reports if
        not. (Those of actions need not be.)"""
        for p, value in bound:
            if p.direction or value is None or isinstance(value.type, ExternType | BlockType):
                continue
            if not known_at_instantiation(value):
                self.context.error(
                    value.place,
                    f"'{p.name}' has no direction, so its value must be known at compile time",
                )
                return False
        return True

    def _packet_method(self, e: ast.Call, name: str, what: Type, bound: ast.Bound) -> None:
        """Methods of packet_in and packet_out have demands on their type argument `what`."""
        if name == "lookahead":
            if what != UNKNOWN and not fixed_size(what):
                self.context.error(e.place, f"lookahead needs a type of fixed size, not {what}")
        elif name == "extract":
            if not is_header(what):
                if what != UNKNOWN:
                    place = (bound[0][1] or e).place
                    self.context.error(place, f"extract needs a header, not {what}")
                return
            variable = sum(isinstance(underlying(t), Varbit) for t in what.fields.values())
            if len(bound) == 1 and variable:
                self.context.error(
                    e.place, f"{what} has a varbit field; extract needs its size as second argument"
                )
            if len(bound) == 2 and not variable:
                self.context.error(
                    e.place, f"{what} has no varbit field; extract takes one argument"
                )
            if len(bound) == 2 and variable > 1:
                self.context.error(
                    e.place, f"{what} has {variable} varbit fields; extract can fill only one"
                )
        elif what != UNKNOWN and not _emittable(what):
            self.context.error(e.place, f"emit needs headers, not {what}")

    def _static_assert(self, e: ast.Call, bound: ast.Bound) -> None:
        check = bound[0][1]
        assert check is not None
        if check.const is None:
            self.context.error(check.place, "static_assert needs a value known at compile time")
        elif check.const is False:
            message = bound[1][1] if len(bound) > 1 else None
            text = message.const if message is not None else ""
            self.context.error(e.place, f"static_assert failed{f': {text}' if text else ''}")
        e.const = True

    # ---- other callees ----

    def _action(self, e: ast.Call, decl: ast.Action) -> Type:
        bound = self.arguments.bind(e.place, decl.parameters, e.arguments, f"action {decl.name}")
        with self.context.argument_of_action():
            if bound is not None and self.arguments.fit(bound, {}):
                e.call = ast.ActionCall(e.place, decl, arguments=bound)
        if self.context.in_parser or self.context.returns is not None:
            where = "a parser" if self.context.in_parser else "a function"
            return self.context.error(e.place, f"actions cannot be called in {where}")
        return VOID

    def _table(self, e: ast.Call, decl: ast.Table) -> Type:
        if e.arguments:
            self.context.error(e.place, "apply of a table takes no arguments")
        if self.context.in_action or self.context.in_argument_of_action:
            where = "an action" if self.context.in_action else "an argument of an action"
            return self.context.error(e.place, f"a table cannot be applied in {where}")
        decl.info.applied = True
        e.call = ast.TableCall(e.place, decl)
        return TableMeant("the result of apply", decl)

    def _apply(self, e: ast.Call, block: BlockType, receiver: ast.Expr | None) -> Type:
        """`receiver`.apply(..), or the same of a type, which stands for an instance."""
        decl = block.decl
        if isinstance(decl, ast.Package):
            return self.context.error(e.place, "a package cannot be applied")
        if isinstance(decl, ast.Parser) != self.context.in_parser:
            here = "a parser" if self.context.in_parser else "a control"
            return self.context.error(e.place, f"{decl.name} cannot be applied in {here}")
        if self.context.in_action:
            return self.context.error(e.place, "a control cannot be applied in an action")
        if receiver is None and decl.is_type:
            return self.context.error(e.place, f"{decl.name} is a type without a body")
        if receiver is None and decl.constructor_parameters:
            return self.context.error(
                e.place, f"{decl.name} needs constructor arguments; make an instance"
            )
        bound = self.arguments.bind(e.place, decl.parameters, e.arguments, f"{decl.name}.apply")
        variables = [p.type for p in decl.type_parameters]
        bindings = dict(zip(variables, block.arguments, strict=False))
        if (
            bound is not None
            and self.arguments.fit(bound, bindings)
            and self._known_arguments(bound)
        ):
            e.call = ast.BlockCall(e.place, decl, receiver, arguments=bound)
        return VOID

    def _builtin(self, e: ast.Call, callee: ast.Member, base: Type) -> Type:
        """A method of headers, header unions and stacks, or the size of a type."""
        name = callee.name
        target = base.type if isinstance(base, TypeMeant) else base
        made = e.call = ast.BuiltinCall(e.place, name, callee.base)
        if name in ("push_front", "pop_front"):
            if len(e.arguments) != 1 or e.arguments[0].value is None:
                return self.context.error(e.place, f"{name} takes the number of elements")
            value = e.arguments[0].value
            got, count = self.expressions.value(value), value.const
            if got == UNKNOWN:
                return VOID
            if not known_at_instantiation(value):
                return self.context.error(
                    value.place, "the number of elements must be known at compile time"
                )
            if not (got == INT or isinstance(got, Bits)) or (isinstance(count, int) and count < 0):
                self.context.error(value.place, "the number of elements cannot be negative")
            made.count = value
            self.expressions.left_value(callee.base)
            return VOID
        if e.arguments:
            return self.context.error(e.place, f"{name} takes no arguments")
        if name == "isValid":
            return BOOL
        if name in ("setValid", "setInvalid"):
            if is_union(base):
                return self.context.error(e.place, f"{name} is for headers, not for header unions")
            self.expressions.left_value(callee.base)
            return VOID
        e.const = _size(target, name)
        if e.const is None:
            return self.context.error(e.place, f"{target} has no size")
        return INT


def _emittable(type_: Type) -> bool:
    """Is the type a header, or made of headers only?"""
    if isinstance(type_, Stack):
        return _emittable(type_.element)
    if isinstance(type_, Tuple):
        return all(map(_emittable, type_.elements))
    if isinstance(type_, Composite):
        return type_.kind != "struct" or all(map(_emittable, type_.fields.values()))
    return False


def _size(type_: Type, name: str) -> int | None:
    """The value of minSizeInBits, maxSizeInBytes and so on; None if the type has no size."""
    bits = width_of(type_)
    if bits is None:
        return None
    if name.startswith("min"):
        bits = minimum_width(type_)
    return (bits + 7) // 8 if name.endswith("Bytes") else bits
