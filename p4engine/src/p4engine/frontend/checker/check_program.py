"""The checker: gives every expression its type, and every name, call and table its meaning.

One walk in source order, because P4 wants declarations before use. Generic functions, parsers and
controls are checked per instantiation, everything else once.

This file has the rules for parsers, controls, packages and instances. The others in their order:
checker, check_values, check_types, check_expressions, check_statements, check_calls, check_tables.
A file imports only those before it. Recursion, as of a call and its arguments, goes through
`Checker.check` and `Checker.check_declaration`. check_usage is a pass of its own.
"""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.checker import (
    check_calls,
    check_expressions,
    check_statements,
    check_tables,
    check_types,
)
from p4engine.frontend.checker.check_calls import construct
from p4engine.frontend.checker.check_statements import check_block, check_statement
from p4engine.frontend.checker.check_tables import check_key
from p4engine.frontend.checker.check_types import (
    declare_constructor,
    declare_generic_block,
    declare_parameters,
    declare_type_parameters,
    resolve,
)
from p4engine.frontend.checker.check_values import check_value, known_at_instantiation, same_type
from p4engine.frontend.checker.checker import Checker, DeclarationRules
from p4engine.frontend.diagnostics import Diagnostics, Place, did_you_mean
from p4engine.frontend.types import (
    BOOL,
    DONT_CARE,
    ERROR,
    INT,
    UNKNOWN,
    Bits,
    BlockType,
    Composite,
    EnumType,
    ExternType,
    SetOf,
    Tuple,
    Type,
    substitute,
    underlying,
)

# ---- parsers ----


def _value_set(c: Checker, d: ast.ValueSet) -> None:
    element = resolve(c, d.target)
    under = underlying(element)
    fields = [under]
    if isinstance(under, Composite) and under.kind == "struct":
        fields = list(under.fields.values())
    elif isinstance(under, Tuple):
        fields = list(under.elements)
    if element != UNKNOWN and not all(map(_selectable, fields)):
        element = c.error(d.place, f"a value_set cannot hold values of {element}")
    d.type = SetOf(element)
    if check_value(c, d.size) != UNKNOWN and not known_at_instantiation(d.size):
        c.error(d.size.place, "the size of a value_set must be known at compile time")
    c.declare(d)


def _parser(c: Checker, d: ast.Parser) -> None:
    if d.type_parameters and not d.is_type:
        declare_generic_block(c, d)
        return
    d.type = BlockType(d)
    with c.inner_scope():
        declare_type_parameters(c, d.type_parameters)
        declare_parameters(c, d.parameters)
        if not d.is_type:
            declare_constructor(c, d)
            c.in_parser = True
            with c.inner_scope():
                for local in d.locals:
                    if isinstance(local, ast.Action | ast.Table):
                        what = "a table" if isinstance(local, ast.Table) else "an action"
                        c.error(local.place, f"a parser cannot have {what}")
                    c.check_declaration(local)
                _states(c, d)
            c.in_parser = False
    c.declare(d)


def _states(c: Checker, d: ast.Parser) -> None:
    names = {"accept", "reject"}
    for state in d.states:
        if state.name in names:
            c.error(state.place, f"state '{state.name}' is already declared")
        if state.name in c.scope.names:
            c.error(state.place, f"'{state.name}' is already declared here")
        names.add(state.name)
    for state in d.states:
        with c.inner_scope():
            for statement in state.statements:
                check_statement(c, statement)
            if isinstance(state.transition, ast.Name):
                _target(c, state.transition.place, state.transition.name, names)
            elif state.transition is not None:
                _select(c, state.transition, names)
    if any(s.name == "start" for s in d.states):
        _reachable(c, d)
    else:
        c.error(d.place, f"parser {d.name} has no state 'start'")


def _target(c: Checker, place: Place, name: str, names: set[str]) -> None:
    if name not in names:
        c.error(place, f"there is no state '{name}'{did_you_mean(name, names)}")


def _select(c: Checker, select: ast.Select, names: set[str]) -> None:
    types = [_selector(c, value) for value in select.values]
    if len(types) == 1 and isinstance(types[0], Tuple):
        types = list(types[0].elements)
    if not select.cases:
        c.warning(select.place, "this select has no cases; it always rejects")
    complete = False
    for case in select.cases:
        _target(c, case.place, case.state, names)
        if complete:
            c.warning(case.place, "an earlier label matches everything")
            complete = False
        if _is_default(case):
            c.check(case.keys[0])
            complete = True
        else:
            _label(c, case, types)


def _selector(c: Checker, value: ast.Expr) -> Type:
    """The type of a value to select by."""
    got = check_value(c, value)
    if got == INT:
        return c.error(value.place, "a value to select by needs a width")
    parts = got.elements if isinstance(got, Tuple) else (got,)
    if not all(t == UNKNOWN or _selectable(t) for t in parts):
        return c.error(value.place, f"a value of {got} cannot be selected by")
    return got


def _label(c: Checker, case: ast.SelectCase, types: list[Type]) -> None:
    if len(case.keys) == 1 and len(types) > 1:
        key = case.keys[0]
        got = c.check(key)
        if isinstance(got, SetOf):
            if _number_of_parts(got.element) != len(types):
                c.error(key.place, f"this value_set holds {got.element}")
            return
        if isinstance(key, ast.ListExpr):
            case.keys = key.items
    if len(case.keys) != len(types):
        c.error(
            case.place, f"{len(case.keys)} keys in this label, but {len(types)} values to select by"
        )
        return
    for key, want in zip(case.keys, types, strict=True):
        if want != UNKNOWN:
            check_key(c, key, want, "")


def _reachable(c: Checker, d: ast.Parser) -> None:
    by_name = {s.name: s for s in d.states}
    seen, todo = set(), ["start"]
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        if name not in by_name:
            continue
        transition = by_name[name].transition
        if transition is None:
            todo.append("reject")
        elif isinstance(transition, ast.Name):
            todo.append(transition.name)
        else:
            todo += [case.state for case in transition.cases]
            if not any(map(_is_default, transition.cases)):
                todo.append("reject")
    for state in d.states:
        if state.name not in seen:
            c.warning(state.place, f"state {state.name} is never reached")
    if not seen & {"accept", "reject"}:
        c.error(d.place, f"parser {d.name} never ends: no path leads to accept")
    elif "accept" not in seen:
        c.warning(d.place, f"parser {d.name} never accepts")


def _selectable(type_: Type) -> bool:
    under = underlying(type_)
    return isinstance(under, Bits | EnumType) or under in (BOOL, ERROR)


def _is_default(case: ast.SelectCase) -> bool:
    return len(case.keys) == 1 and isinstance(case.keys[0], ast.DontCare)


def _number_of_parts(type_: Type) -> int:
    if isinstance(type_, Composite):
        return len(type_.fields)
    return len(type_.elements) if isinstance(type_, Tuple) else 0


# ---- controls and actions ----


def _action(c: Checker, d: ast.Action) -> None:
    with c.inner_scope():
        declare_parameters(c, d.parameters, "action")
        seen_data = False
        for p in d.parameters:
            if not p.direction:
                seen_data = True
            elif seen_data:
                c.error(p.place, "parameters with a direction must stand before those without")
        c.in_action = True
        check_block(c, d.body.statements)
        c.in_action = False
    c.declare(d)


def _control(c: Checker, d: ast.Control) -> None:
    if d.type_parameters and not d.is_type:
        declare_generic_block(c, d)
        return
    d.type = BlockType(d)
    with c.inner_scope():
        declare_type_parameters(c, d.type_parameters)
        declare_parameters(c, d.parameters)
        if d.body is not None:
            declare_constructor(c, d)
            with c.inner_scope():
                for local in d.locals:
                    if isinstance(local, ast.ValueSet):
                        c.error(local.place, "a control cannot have a value_set")
                    c.check_declaration(local)
                check_block(c, d.body.statements)
                _unapplied(c, d)
    c.declare(d)


def _unapplied(c: Checker, d: ast.Control) -> None:
    for local in d.locals:
        if isinstance(local, ast.Table) and not local.info.applied:
            c.warning(local.place, f"table {local.name} is never applied")


# ---- packages and instances ----


def _package(c: Checker, d: ast.Package) -> None:
    c.declare(d)
    with c.inner_scope():
        declare_type_parameters(c, d.type_parameters)
        declare_parameters(c, d.parameters, "constructor")
    d.type = BlockType(d)


def _instance(c: Checker, d: ast.Instance) -> None:
    target = resolve(c, d.target)
    for argument in d.arguments:
        if argument.value is None:
            target = c.error(argument.place, "an instance needs a value here")
    if target != UNKNOWN:
        d.constructor = construct(c, d.place, target, d.arguments)
    d.type = UNKNOWN if d.constructor is None else d.constructor.type
    _place(c, d)
    _abstract_methods(c, d)
    is_package = isinstance(d.type, BlockType) and isinstance(d.type.decl, ast.Package)
    if _at_top(c) and is_package and d.name == "main":
        c.main_instance = d
    c.declare(d)


def _abstract_methods(c: Checker, d: ast.Instance) -> None:
    """Check the bodies that an instance gives the abstract methods of its extern."""
    made = d.constructor
    if made is None or not isinstance(made.type, ExternType):
        if made is not None and d.body is not None:
            c.error(d.place, f"only an extern has abstract methods, {made.name} is none")
        return
    wanted = {m.name: m for m in made.type.decl.methods if m.abstract}
    bindings = dict(
        zip((p.type for p in made.type.decl.type_parameters), made.type.arguments, strict=False)
    )
    for inner in d.body or []:
        method = wanted.pop(inner.name, None)
        if not isinstance(inner, ast.Function) or method is None:
            c.error(inner.place, f"extern {made.name} has no abstract method '{inner.name}'")
            continue
        with c.inner_scope():
            c.scope.names["this"] = d
            c.check_declaration(inner)
        _same_signature(c, inner, method, bindings)
    needed = [
        m.name for m in wanted.values() if not any(a.name == "optional" for a in m.annotations)
    ]
    for name in needed:
        c.error(d.place, f"'{d.name}' must give the abstract method {name} of {made.name} a body")


def _same_signature(
    c: Checker, have: ast.Function, want: ast.Function, bindings: dict[Type, Type]
) -> None:
    """Report where `have` cannot stand for the abstract method `want`."""
    what = f"the abstract method {want.name}"
    needed = [p for p in want.parameters if not any(a.name == "optional" for a in p.annotations)]
    if not len(needed) <= len(have.parameters) <= len(want.parameters):
        c.error(have.place, f"{what} has {len(want.parameters)} parameters")
        return
    for p, q in zip(have.parameters, want.parameters, strict=False):
        type_ = substitute(q.type, bindings)
        if p.direction != q.direction or not (type_ == DONT_CARE or same_type(p.type, type_)):
            c.error(p.place, f"parameter '{p.name}' of {what} must be {q.direction} {type_}")
    if not same_type(have.type, substitute(want.type, bindings)):
        c.error(have.place, f"{what} must return {want.type}")


def _at_top(c: Checker) -> bool:
    return c.scope is c.globals


def _place(c: Checker, d: ast.Instance) -> None:
    """Can such an instance be declared here? Reports if not."""
    if not isinstance(d.type, BlockType):
        return
    block = d.type.decl
    kind = type(block).__name__.lower()
    if _at_top(c):
        if not isinstance(block, ast.Package):
            c.error(
                d.place,
                f"a {kind} cannot be instantiated at the top level; write"
                f" {block.name}() where the instance is needed",
            )
        return
    here = ast.Parser if c.in_parser else ast.Control
    if not isinstance(block, here):
        c.error(d.place, f"a {kind} cannot be instantiated in a {here.__name__.lower()}")


_EXPRESSIONS = {**check_expressions.EXPRESSIONS, **check_calls.EXPRESSIONS}
_DECLARATIONS: DeclarationRules = {
    **check_types.DECLARATIONS,
    **check_statements.DECLARATIONS,
    **check_tables.DECLARATIONS,
    ast.Parser: _parser,
    ast.ValueSet: _value_set,
    ast.Control: _control,
    ast.Action: _action,
    ast.Package: _package,
    ast.Instance: _instance,
}


def check(program: ast.Program, diagnostics: Diagnostics) -> Checker:
    """Check all declarations of a program; errors are in `diagnostics`."""
    c = Checker(diagnostics, _EXPRESSIONS, _DECLARATIONS)
    for decl in program.declarations:
        c.check_declaration(decl)
    if c.main_instance is None and not diagnostics.errors:
        last = program.declarations[-1] if program.declarations else program
        c.error(last.place, "there is no 'main' package instance, such as V1Switch(...) main;")
    return c
