"""Calls: arguments, constructors, and the declaration that a call means (`Call.call`).

Arguments go to parameters by position or name, with defaults. Type arguments are found by
unification of the parameters' types with the arguments'.
"""

from __future__ import annotations

from collections.abc import Sequence

from p4engine.frontend import ast
from p4engine.frontend.checker.check_statements import instantiate_function
from p4engine.frontend.checker.check_types import resolve
from p4engine.frontend.checker.check_values import (
    check_value,
    coerce,
    known_at_instantiation,
    left_value,
    same_type,
)
from p4engine.frontend.checker.checker import Checker, ExpressionRules
from p4engine.frontend.diagnostics import Place, did_you_mean
from p4engine.frontend.parser.parse_annotations import string_value
from p4engine.frontend.types import (
    BOOL,
    DONT_CARE,
    INT,
    UNKNOWN,
    VOID,
    ActionMeant,
    Bits,
    BlockType,
    Composite,
    ExternType,
    FunctionsMeant,
    ListOf,
    Special,
    Stack,
    TableMeant,
    Tuple,
    Type,
    TypeMeant,
    TypeVar,
    Varbit,
    fixed_size,
    has_dots,
    has_variable,
    is_header,
    is_union,
    minimum_width,
    substitute,
    underlying,
    width_of,
)

# Extern functions, and methods of externs, that only parsers can use.
IN_PARSERS = {"extern": ("verify",), "method": ("extract", "lookahead", "advance"), "function": ()}


# ---- arguments ----


def bind(
    c: Checker,
    place: Place,
    parameters: list[ast.Parameter],
    arguments: list[ast.Argument],
    what: str,
) -> ast.Bound | None:
    """The parameters in their order, each with its argument; None after reporting."""
    named = sum(a.name is not None for a in arguments)
    if 0 < named < len(arguments):
        c.error(place, "either all arguments are named or none is")
        return None
    given: dict[str, ast.Argument] = {}
    if named:
        names = {p.name for p in parameters}
        for argument in arguments:
            assert argument.name is not None
            if argument.name not in names:
                c.error(
                    argument.place,
                    f"{what} has no parameter '{argument.name}'"
                    f"{did_you_mean(argument.name, names)}",
                )
                return None
            if argument.name in given:
                c.error(argument.place, f"argument '{argument.name}' is given twice")
                return None
            given[argument.name] = argument
    else:
        if len(arguments) > len(parameters):
            c.error(
                place,
                f"{what} takes {len(parameters)} argument{'s' * (len(parameters) != 1)}, "
                f"{len(arguments)} given",
            )
            return None
        given = {p.name: a for p, a in zip(parameters, arguments, strict=False)}
    bound: ast.Bound = []
    for parameter in parameters:
        if parameter.name in given:
            argument = given[parameter.name]
            if argument.value is None and parameter.direction != "out":
                c.error(argument.place, f"'{parameter.name}' is not 'out', so it needs a value")
                return None
            bound.append((parameter, argument.value))
        elif parameter.default is not None:
            bound.append((parameter, parameter.default))
        elif _is_optional(parameter):
            bound.append((parameter, None))
        else:
            c.error(place, f"{what}: no argument for parameter '{parameter.name}'")
            return None
    return bound


def fit(
    c: Checker, bound: ast.Bound, bindings: dict[Type, Type], variables: Sequence[Type] = ()
) -> bool:
    """Infer `variables` (into `bindings`) and fit every argument to its parameter."""
    good = True
    for parameter, value in bound:
        if value is None:
            continue
        if value.type is ast.UNCHECKED:
            c.check(value)
        if value.type == UNKNOWN:
            good = False
        elif isinstance(value.type, Special):
            c.error(value.place, f"{value.type} cannot be an argument")
            good = False
        elif not (isinstance(value, ast.ListExpr | ast.StructExpr) and value.dots):
            unify(parameter.type, value.type, bindings, variables)
    if not good:
        return False
    for parameter, value in bound:
        if value is None:
            continue
        want = substitute(parameter.type, bindings)
        if isinstance(want, BlockType):
            good = _block_fits(c, parameter, value, want, bindings) and good
        elif want == INT or isinstance(want, TypeVar) or has_variable(want):
            pass
        elif parameter.direction in ("out", "inout"):
            have = value.type
            if not same_type(have, want):
                c.error(value.place, f"'{parameter.name}' needs a variable of {want}, not {have}")
                good = False
        elif not coerce(c, value, want, f"'{parameter.name}' needs"):
            good = False
        if parameter.direction in ("out", "inout") and good:
            good = left_value(c, value)
    return good


def unify(want: Type, have: Type, bindings: dict[Type, Type], variables: Sequence[Type]) -> None:
    """Bind the variables in `want` so that it equals `have`; mismatches are found by coerce."""
    if isinstance(want, TypeVar) and want in variables:
        known = bindings.get(want)
        if has_dots(have):  # it says nothing of the type
            return
        if known is None or (known == INT and have != INT):
            bindings[want] = have
    elif isinstance(want, Stack) and isinstance(have, Stack):
        unify(want.element, have.element, bindings, variables)
    elif isinstance(want, Tuple) and isinstance(have, Tuple):
        for a, b in zip(want.elements, have.elements, strict=False):
            unify(a, b, bindings, variables)
    elif isinstance(want, ListOf) and isinstance(have, ListOf):
        unify(want.element, have.element, bindings, variables)
    elif isinstance(want, ListOf) and isinstance(have, Tuple) and have.elements:
        unify(want.element, have.elements[0], bindings, variables)
    elif isinstance(want, Composite) and isinstance(have, Composite):
        if want.decl is have.decl:
            for a, b in zip(want.arguments, have.arguments, strict=False):
                unify(a, b, bindings, variables)
    elif isinstance(want, Composite) and want.arguments and isinstance(have, Tuple):
        for a, b in zip(want.fields.values(), have.elements, strict=False):
            unify(a, b, bindings, variables)
    elif isinstance(want, ExternType) and isinstance(have, ExternType):
        for a, b in zip(want.arguments, have.arguments, strict=False):
            unify(a, b, bindings, variables)
    elif isinstance(want, BlockType) and isinstance(have, BlockType):
        if want.decl is have.decl:
            for a, b in zip(want.arguments, have.arguments, strict=False):
                unify(a, b, bindings, variables)
        elif type(want.decl) is type(have.decl) and not isinstance(want.decl, ast.Package):
            # a block against the type that its package asks for: by parameters
            formal = [p.type for p in want.decl.type_parameters]
            inner = dict(zip(formal, want.arguments, strict=False))
            for p, q in zip(want.decl.parameters, have.decl.parameters, strict=False):
                unify(substitute(p.type, inner), q.type, bindings, variables)


def accepts(parameters: list[ast.Parameter], arguments: list[ast.Argument]) -> bool:
    """Can these arguments be given to these parameters, by number and names?"""
    needed = [p for p in parameters if p.default is None and not _is_optional(p)]
    if arguments and arguments[0].name:
        names = {a.name for a in arguments}
        return names <= {p.name for p in parameters} and {p.name for p in needed} <= names
    return len(needed) <= len(arguments) <= len(parameters)


def _is_optional(parameter: ast.Parameter) -> bool:
    return any(a.name == "optional" for a in parameter.annotations)


# ---- parsers and controls as arguments ----


def _block_fits(
    c: Checker,
    parameter: ast.Parameter,
    value: ast.Expr,
    want: BlockType,
    bindings: dict[Type, Type],
) -> bool:
    """True if `value` is a block of type `want`, which is that of `parameter`; otherwise reports
    it.

    `bindings` are the type arguments of the construct that `parameter` belongs to.
    """
    have = value.type
    if isinstance(have, BlockType) and want.decl is have.decl:
        return True
    what = _kind(want.decl)
    if not isinstance(have, BlockType):
        c.error(value.place, f"'{parameter.name}' needs a {what}, not {have}")
    elif isinstance(want.decl, ast.Package) or type(want.decl) is not type(have.decl):
        c.error(
            value.place,
            f"'{parameter.name}' needs a {what} {want}, but {have} is a {_kind(have.decl)}",
        )
    else:
        assert not isinstance(have.decl, ast.Package)
        return _same_parameters(c, value, want, have.decl, bindings)
    return False


def _same_parameters(
    c: Checker,
    value: ast.Expr,
    want: BlockType,
    have: ast.Parser | ast.Control,
    bindings: dict[Type, Type],
) -> bool:
    wanted, given = want.decl.parameters, have.parameters
    needed = [p for p in wanted if not _is_optional(p)]
    if not len(needed) <= len(given) <= len(wanted):
        c.error(
            value.place, f"{have.name} has {len(given)} parameters, but {want} has {len(wanted)}"
        )
        return False
    formal = [p.type for p in want.decl.type_parameters]
    inner = dict(zip(formal, want.arguments, strict=False))
    good = True
    for p, q in zip(wanted, given, strict=False):
        expected = substitute(substitute(p.type, inner), bindings)
        if not has_variable(expected) and not same_type(expected, q.type):
            what = str(expected)
        elif p.direction != q.direction:
            what = f"'{p.direction}'" if p.direction else "without direction"
        else:
            continue
        found = f", not {q.type}" if what == str(expected) else ""
        c.error(q.place, f"parameter '{q.name}' of {have.name} must be {what}{found}")
        good = False
    return good


def _kind(decl: ast.Decl) -> str:
    return type(decl).__name__.lower()


# ---- constructors ----


def construct(
    c: Checker, place: Place, target: Type, arguments: list[ast.Argument]
) -> ast.Construction | None:
    """The meaning of `target(arguments)`; None after reporting."""
    if isinstance(target, ExternType):
        name = target.decl.name
        constructors = [m for m in target.decl.methods if m.name == name]
        if not constructors:
            if arguments:
                c.error(place, f"{name} has no constructor")
                return None
            return ast.Construction(place, name, target)
        fitting = [m for m in constructors if accepts(m.parameters, arguments)]
        parameters = (fitting or constructors)[0].parameters
    elif isinstance(target, BlockType):
        name = target.decl.name
        if isinstance(target.decl, ast.Package):
            parameters = target.decl.parameters
        elif target.decl.is_type:
            c.error(place, f"{name} is a type without a body")
            return None
        elif target.decl.type_parameters:
            count = len(target.decl.type_parameters)
            c.error(place, f"{name} needs {count} type argument(s)")
            return None
        else:
            parameters = target.decl.constructor_parameters
    else:
        c.error(place, f"{target} cannot be instantiated")
        return None
    variables = [p.type for p in target.decl.type_parameters]
    bindings = dict(zip(variables, target.arguments, strict=False))
    bound = bind(c, place, parameters, arguments, f"the constructor of {name}")
    if bound is None:
        return None
    free = [v for v in variables if v not in bindings]
    if not fit(c, bound, bindings, free):
        return None
    for parameter, value in bound:
        if value is None or isinstance(value.type, ExternType | BlockType):
            continue
        if not known_at_instantiation(value):
            c.error(value.place, f"'{parameter.name}' must be known at compile time")
    made: Type = target
    if isinstance(target, ExternType) and free:
        made = ExternType(target.decl, tuple(bindings.get(v, UNKNOWN) for v in variables))
    return ast.Construction(place, name, made, bindings, arguments=bound)


# ---- calls ----


def _call(c: Checker, e: ast.Call) -> Type:
    callee = e.function
    if isinstance(callee, ast.TypeExpr):
        return _construct(c, e, resolve(c, callee.target))
    if isinstance(callee, ast.Member):
        callee.called = True
    what = c.check(callee)
    if what == UNKNOWN:
        return _give_up(c, e)
    if isinstance(callee, ast.Name):
        if isinstance(what, TypeMeant):
            return _construct(c, e, what.type)
        if isinstance(what, ActionMeant):
            return _action(c, e, what.decl)
        if isinstance(what, FunctionsMeant):
            return _function(c, e, what.candidates)
    if isinstance(callee, ast.Member) and isinstance(what, Special) and what.what == "a method":
        base = callee.base.type
        if isinstance(base, TableMeant):
            return _table(c, e, base.decl)
        if isinstance(base, TypeMeant) and isinstance(base.type, BlockType):
            return _apply(c, e, base.type, None)
        if isinstance(base, BlockType):
            return _apply(c, e, base, callee.base)
        if isinstance(base, ExternType) and isinstance(what, FunctionsMeant):
            return _function(c, e, what.candidates, callee.base, base)
        return _builtin(c, e, callee, base)
    return c.error(e.place, "this cannot be called")


def _give_up(c: Checker, e: ast.Call) -> Type:
    """The callee or the number of arguments is wrong: report what is wrong in the arguments."""
    for argument in e.arguments:
        if argument.value is not None:
            c.check(argument.value)
    return UNKNOWN


def _construct(c: Checker, e: ast.Call, target: Type) -> Type:
    made = construct(c, e.place, target, e.arguments)
    if made is None:
        return UNKNOWN
    e.call = made
    return made.type


# ---- functions and methods ----


def _function(
    c: Checker,
    e: ast.Call,
    candidates: list[ast.Function],
    receiver: ast.Expr | None = None,
    extern: ExternType | None = None,
) -> Type:
    """A call of a function, or of a method of `receiver`, which is of the type `extern`."""
    fitting = [d for d in candidates if accepts(d.parameters, e.arguments)]
    bindings: dict[Type, Type] = {}
    if extern is not None:
        outer = [p.type for p in extern.decl.type_parameters]
        bindings = dict(zip(outer, extern.arguments, strict=False))
    if len(fitting) > 1:  # what the number of arguments does not tell, their types may
        fitting = [d for d in fitting if _has_types(c, d, e.arguments, bindings)] or fitting
    decl = fitting[0] if fitting else candidates[-1]
    what = f"{'function' if receiver is None else 'method'} {decl.name}"
    if len(fitting) > 1:
        return c.error(e.place, f"{what}: {len(fitting)} declarations fit this call")
    bound = bind(c, e.place, decl.parameters, e.arguments, what)
    if bound is None:
        return _give_up(c, e)
    variables = [p.type for p in decl.type_parameters]
    if e.type_arguments:
        if len(e.type_arguments) != len(variables):
            return c.error(
                e.place,
                f"{what} takes {len(variables)} type arguments, {len(e.type_arguments)} given",
            )
        for variable, argument in zip(variables, e.type_arguments, strict=True):
            if not (isinstance(argument, ast.TypeBase) and argument.kind == "_"):
                bindings[variable] = resolve(c, argument)
    # What is known from the receiver must not be bound again.
    if not fit(c, bound, bindings, [v for v in variables if v not in bindings]):
        if decl.type is ast.UNCHECKED:
            return UNKNOWN
        return substitute(decl.type, bindings)
    for parameter in decl.type_parameters:
        if parameter.type not in bindings:
            return c.error(
                e.place, f"{what}: the type argument {parameter.name} cannot be inferred; give it"
            )
    for p, value in bound:
        if value is None and p.direction and substitute(p.type, bindings) == INT:
            return c.error(
                e.place, f"{what}: the type of '_' for '{p.name}' cannot be inferred; give it"
            )
    if not _known_arguments(c, bound):
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
            decl = instantiate_function(c, decl, bindings, constants, e.place)
            bound = [(p, v) for p, (_, v) in zip(decl.parameters, plain, strict=False)]
    for mark in decl.annotations:
        if mark.name == "deprecated":
            c.warning(e.place, f"{what} is deprecated: {string_value(mark)}")
    kind = "function" if decl.body is not None else "extern" if receiver is None else "method"
    in_function = c.returns is not None
    if decl.name in IN_PARSERS[kind] and not c.in_parser and not in_function:
        return c.error(e.place, f"{decl.name} can only be used in a parser")
    result = substitute(decl.type, bindings)
    if decl.body is not None:
        e.call = ast.FunctionCall(e.place, decl, result, arguments=bound)
    elif receiver is None or extern is None:
        if decl.name == "static_assert":
            _static_assert(c, e, bound)
        e.call = ast.ExternCall(e.place, decl, result, bindings, arguments=bound)
    else:
        e.call = ast.MethodCall(
            e.place, decl, result, bindings, receiver, extern.decl, arguments=bound
        )
        of_packet = extern.decl.name in ("packet_in", "packet_out")
        if of_packet and decl.name in ("lookahead", "extract", "emit"):
            subject = bindings[variables[0]] if variables else UNKNOWN
            _packet_method(c, e, decl.name, subject, bound)
    return result


def _has_types(
    c: Checker, decl: ast.Function, arguments: list[ast.Argument], bindings: dict[Type, Type]
) -> bool:
    """Have the arguments the types of the parameters, as far as these are known?"""
    by_name = {p.name: p for p in decl.parameters}
    for argument, parameter in zip(arguments, decl.parameters, strict=False):
        if argument.name:
            parameter = by_name[argument.name]
        if argument.value is None:
            continue
        if argument.value.type is ast.UNCHECKED:
            c.check(argument.value)
        have, want = argument.value.type, substitute(parameter.type, bindings)
        is_number = have == INT and isinstance(want, Bits)
        if not (is_number or has_variable(want) or want == DONT_CARE or same_type(have, want)):
            return False
    return True


def _known_arguments(c: Checker, bound: ast.Bound) -> bool:
    """Are the arguments of parameters without a direction known at compile time? Reports if
    not. (Those of actions need not be.)"""
    for p, value in bound:
        if p.direction or value is None or isinstance(value.type, ExternType | BlockType):
            if (
                value is not None
                and isinstance(p.type, ExternType)
                and not isinstance(value, ast.Name)
            ):
                c.error(value.place, f"'{p.name}' needs the name of an instance of {p.type}")
                return False
            continue
        if not known_at_instantiation(value):
            c.error(
                value.place,
                f"'{p.name}' has no direction, so its value must be known at compile time",
            )
            return False
    return True


def _packet_method(c: Checker, e: ast.Call, name: str, what: Type, bound: ast.Bound) -> None:
    """Methods of packet_in and packet_out have demands on their type argument `what`."""
    if name == "lookahead":
        if what != UNKNOWN and not fixed_size(what):
            c.error(e.place, f"lookahead needs a type of fixed size, not {what}")
    elif name == "extract":
        if not is_header(what):
            if what != UNKNOWN:
                place = (bound[0][1] or e).place
                c.error(place, f"extract needs a header, not {what}")
            return
        variable = sum(isinstance(underlying(t), Varbit) for t in what.fields.values())
        if len(bound) == 1 and variable:
            c.error(
                e.place, f"{what} has a varbit field; extract needs its size as second argument"
            )
        if len(bound) == 2 and not variable:
            c.error(e.place, f"{what} has no varbit field; extract takes one argument")
        if len(bound) == 2 and variable > 1:
            c.error(e.place, f"{what} has {variable} varbit fields; extract can fill only one")
    elif what != UNKNOWN and not _emittable(what):
        c.error(e.place, f"emit needs headers, not {what}")


def _static_assert(c: Checker, e: ast.Call, bound: ast.Bound) -> None:
    check = bound[0][1]
    assert check is not None
    if check.const is None:
        c.error(check.place, "static_assert needs a value known at compile time")
    elif check.const is False:
        message = bound[1][1] if len(bound) > 1 else None
        text = message.const if message is not None else ""
        c.error(e.place, f"static_assert failed{f': {text}' if text else ''}")
    e.const = True


# ---- other callees ----


def _action(c: Checker, e: ast.Call, decl: ast.Action) -> Type:
    bound = bind(c, e.place, decl.parameters, e.arguments, f"action {decl.name}")
    with c.argument_of_action():
        if bound is not None and fit(c, bound, {}):
            e.call = ast.ActionCall(e.place, decl, arguments=bound)
    if c.in_parser or c.returns is not None:
        where = "a parser" if c.in_parser else "a function"
        return c.error(e.place, f"actions cannot be called in {where}")
    return VOID


def _table(c: Checker, e: ast.Call, decl: ast.Table) -> Type:
    if e.arguments:
        c.error(e.place, "apply of a table takes no arguments")
    if c.in_action or c.in_argument_of_action:
        where = "an action" if c.in_action else "an argument of an action"
        return c.error(e.place, f"a table cannot be applied in {where}")
    decl.info.applied = True
    e.call = ast.TableCall(e.place, decl)
    return TableMeant("the result of apply", decl)


def _apply(c: Checker, e: ast.Call, block: BlockType, receiver: ast.Expr | None) -> Type:
    """`receiver`.apply(..), or the same of a type, which stands for an instance."""
    decl = block.decl
    if isinstance(decl, ast.Package):
        return c.error(e.place, "a package cannot be applied")
    if isinstance(decl, ast.Parser) != c.in_parser:
        here = "a parser" if c.in_parser else "a control"
        return c.error(e.place, f"{decl.name} cannot be applied in {here}")
    if c.in_action:
        return c.error(e.place, "a control cannot be applied in an action")
    if receiver is None and decl.is_type:
        return c.error(e.place, f"{decl.name} is a type without a body")
    if receiver is None and decl.constructor_parameters:
        return c.error(e.place, f"{decl.name} needs constructor arguments; make an instance")
    bound = bind(c, e.place, decl.parameters, e.arguments, f"{decl.name}.apply")
    variables = [p.type for p in decl.type_parameters]
    bindings = dict(zip(variables, block.arguments, strict=False))
    if bound is not None and fit(c, bound, bindings) and _known_arguments(c, bound):
        e.call = ast.BlockCall(e.place, decl, receiver, arguments=bound)
    return VOID


def _builtin(c: Checker, e: ast.Call, callee: ast.Member, base: Type) -> Type:
    """A method of headers, header unions and stacks, or the size of a type."""
    name = callee.name
    target = base.type if isinstance(base, TypeMeant) else base
    made = e.call = ast.BuiltinCall(e.place, name, callee.base)
    if name in ("push_front", "pop_front"):
        if len(e.arguments) != 1 or e.arguments[0].value is None:
            return c.error(e.place, f"{name} takes the number of elements")
        value = e.arguments[0].value
        got, count = check_value(c, value), value.const
        if got == UNKNOWN:
            return VOID
        if not known_at_instantiation(value):
            return c.error(value.place, "the number of elements must be known at compile time")
        if not (got == INT or isinstance(got, Bits)) or (isinstance(count, int) and count < 0):
            c.error(value.place, "the number of elements cannot be negative")
        made.count = value
        left_value(c, callee.base)
        return VOID
    if e.arguments:
        return c.error(e.place, f"{name} takes no arguments")
    if name == "isValid":
        return BOOL
    if name in ("setValid", "setInvalid"):
        if is_union(base):
            return c.error(e.place, f"{name} is for headers, not for header unions")
        left_value(c, callee.base)
        return VOID
    e.const = _size(target, name)
    if e.const is None:
        return c.error(e.place, f"{target} has no size")
    return INT


def _emittable(type_: Type) -> bool:
    """True if the type is a header, or made of headers only."""
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


EXPRESSIONS: ExpressionRules = {ast.Call: _call}
