"""Statements, constants, variables and functions.

A function is generic if it has type parameters or parameters of type int, which exist at compile
time only. Its body is checked once per instantiation.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from p4engine.frontend import ast
from p4engine.frontend.checker.check_types import (
    bind_types,
    declare_parameters,
    declare_signature,
    declare_type_parameters,
    resolve,
)
from p4engine.frontend.checker.check_values import (
    check_value,
    coerce,
    constant,
    left_value,
    same_type,
)
from p4engine.frontend.checker.checker import Checker, DeclarationRules
from p4engine.frontend.diagnostics import Place, did_you_mean
from p4engine.frontend.types import (
    BOOL,
    ERROR,
    INT,
    MATCH_KIND,
    STRING,
    UNKNOWN,
    VOID,
    Bits,
    BlockType,
    EnumType,
    ExternType,
    ListOf,
    SetOf,
    Stack,
    TableMeant,
    Type,
    underlying,
)

_ENDS = ast.Return | ast.Exit | ast.Break | ast.Continue
MAX_NESTED_COPIES = 20  # of generic functions


def check_block(c: Checker, statements: list[ast.Node]) -> None:
    """Check statements in a scope of their own."""
    with c.inner_scope():
        ended = False
        for statement in statements:
            if ended and not isinstance(statement, ast.Empty):
                c.warning(statement.place, "this statement is never reached")
                ended = False
            check_statement(c, statement)
            ended = isinstance(statement, _ENDS)


def check_statement(c: Checker, s: ast.Node) -> None:
    """Check one statement."""
    _STATEMENTS[type(s)](c, s)


def _body(c: Checker, s: ast.Node) -> None:
    with c.inner_scope():
        check_statement(c, s)


def _loop_body(c: Checker, s: ast.Node) -> None:
    c.loops += 1
    _body(c, s)
    c.loops -= 1


def _block(c: Checker, s: ast.Block) -> None:
    check_block(c, s.statements)


# ---- declarations ----


def _constant(c: Checker, s: ast.Constant) -> None:
    s.type = resolve(c, s.target)
    s.const = constant(c, s.value, s.type, "the value of a constant")
    c.declare(s)


def _variable(c: Checker, s: ast.Variable) -> None:
    s.type = resolve(c, s.target)
    nothing = (VOID, INT, STRING, MATCH_KIND)
    if isinstance(s.type, ExternType | BlockType | ListOf) or s.type in nothing:
        s.type = c.error(s.place, f"a variable cannot have the type {s.type}")
    if s.value is not None:
        check_value(c, s.value, s.type)
    c.declare(s)


def _instance(c: Checker, s: ast.Instance) -> None:
    c.error(s.place, "instances are declared outside of blocks")


# ---- assignments and calls ----


def _assign(c: Checker, s: ast.Assign) -> None:
    left = check_value(c, s.left)
    if s.op:
        _compound_assign(c, s, left)
    elif left == UNKNOWN:
        c.check(s.right)
    elif not left_value(c, s.left):
        check_value(c, s.right)
    elif check_value(c, s.right) != UNKNOWN:
        coerce(c, s.right, left)


def _compound_assign(c: Checker, s: ast.Assign, left: Type) -> None:
    """Check `a op= b` as `a = a op b`, and make it that."""
    binary = ast.Binary(s.place, s.op, s.left, s.right)
    if left != UNKNOWN and left_value(c, s.left):
        saved = s.left.const
        got = c.check(binary)
        s.left.const = saved
        if got not in (UNKNOWN, left) and underlying(got) != underlying(left):
            c.error(s.place, f"the result is {got}, but this is stored in {left}")
        binary.type = left
        s.right = binary
    s.op = ""


def _call(c: Checker, s: ast.CallStatement) -> None:
    c.check(s.call)
    if isinstance(s.call.call, ast.Construction):
        c.error(s.place, "an instance needs a name")


# ---- branches and ends ----


def _if(c: Checker, s: ast.If) -> None:
    check_value(c, s.condition, BOOL)
    _body(c, s.yes)
    if s.no is not None:
        _body(c, s.no)


def _return(c: Checker, s: ast.Return) -> None:
    want = c.returns
    if c.in_parser and want is None:
        c.error(s.place, "a parser state cannot return")
    if want is None or want == VOID:
        if s.value is not None:
            check_value(c, s.value)
            c.error(s.value.place, "nothing is returned here")
    elif s.value is None:
        c.error(s.place, f"a value of {want} must be returned")
    else:
        check_value(c, s.value, want)


def _exit(c: Checker, s: ast.Exit) -> None:
    if c.in_parser:
        c.error(s.place, "exit cannot be used in a parser")
    if c.returns is not None:
        c.error(s.place, "exit cannot be used in a function")


def _break(c: Checker, s: ast.Break) -> None:
    if not c.loops:
        c.error(s.place, "break outside of a loop")


def _continue(c: Checker, s: ast.Continue) -> None:
    if not c.loops:
        c.error(s.place, "continue outside of a loop")


# ---- loops ----


def _not_in_parser(c: Checker, s: ast.Node, what: str) -> None:
    if c.in_parser:
        c.error(s.place, f"{what} cannot be used in a parser state")


def _for(c: Checker, s: ast.For) -> None:
    _not_in_parser(c, s, "a loop")
    with c.inner_scope():
        for item in s.init:
            check_statement(c, item)
        check_value(c, s.condition, BOOL)
        for item in s.update:
            check_statement(c, item)
        _loop_body(c, s.body)


def _for_in(c: Checker, s: ast.ForIn) -> None:
    _not_in_parser(c, s, "a loop")
    with c.inner_scope():
        s.variable.type = resolve(c, s.variable.target)
        _collection(c, s.collection, s.variable.type)
        c.declare(s.variable)
        _loop_body(c, s.body)


def _collection(c: Checker, e: ast.Expr, element: Type) -> None:
    """Check what a loop runs over with a variable of type `element`."""
    got = check_value(c, e)
    if isinstance(got, SetOf):
        if isinstance(e, ast.Range):
            coerce(c, e.low, element)
            coerce(c, e.high, element)
        else:
            c.error(e.place, f"a loop cannot run over {got}")
    elif isinstance(got, Stack):
        if not same_type(got.element, element):
            c.error(e.place, f"the elements are {got.element}, not {element}")
    elif isinstance(e, ast.ListExpr):
        for item in e.items:
            coerce(c, item, element)
    elif got != UNKNOWN and not isinstance(got, ListOf):
        c.error(e.place, f"a loop cannot run over {got}")


# ---- switch ----


def _switch(c: Checker, s: ast.Switch) -> None:
    _not_in_parser(c, s, "switch")
    got = c.check(s.value)
    labels = [label for case in s.cases for label in case.labels]
    known = [label for label in labels if not isinstance(label, ast.DontCare)]
    if isinstance(got, TableMeant) and got.what == "action_run":
        s.table = got.decl
        _action_labels(c, got.decl, known)
    else:
        if got not in (UNKNOWN, ERROR) and not isinstance(got, Bits | EnumType):
            got = c.error(
                s.value.place, f"switch needs bit<>, int<>, an enum, error or action_run, not {got}"
            )
        _value_labels(c, got, known)
    for case in s.cases:
        for label in case.labels:
            if isinstance(label, ast.DontCare) and label is not labels[-1]:
                c.error(label.place, "default must be the last label of a switch")
        if case.body is not None:
            check_block(c, case.body.statements)


def _action_labels(c: Checker, table: ast.Table, labels: list[ast.Expr]) -> None:
    """Labels of a switch over the action that a table ran."""
    actions = {a.name for a in table.info.actions}
    seen = set()
    for label in labels:
        if not isinstance(label, ast.Name):
            c.error(label.place, "the labels of this switch are names of actions")
        elif label.name not in actions:
            c.error(
                label.place,
                f"table {table.name} has no action '{label.name}'"
                f"{did_you_mean(label.name, actions)}",
            )
        elif label.name in seen:
            c.error(label.place, f"label {label.name} occurs twice")
        else:
            seen.add(label.name)


def _value_labels(c: Checker, want: Type, labels: list[ast.Expr]) -> None:
    """Labels of a switch over a value of type `want`."""
    values: list[ast.Const | None] = []
    for label in labels:
        check_value(c, label)
        if UNKNOWN in (want, label.type):
            continue
        coerce(c, label, want)
        if label.const is None:
            c.error(label.place, "labels must be known at compile time")
        elif label.const in values:
            c.error(label.place, "this label occurs twice")
        values.append(label.const)


# ---- functions and extern objects ----


def _function(c: Checker, d: ast.Function) -> None:
    scope = c.scope
    known = scope.names.get(d.name)
    if known is not None and not isinstance(known, list):
        c.error(d.place, f"'{d.name}' is already declared")
    if isinstance(known, list) and (d.body is not None or known[0].body is not None):
        for other in known:
            if [p.name for p in other.parameters] == [p.name for p in d.parameters]:
                c.error(d.place, f"function '{d.name}' is already declared")
                break
    generic = d.type_parameters or any(
        isinstance(p.target, ast.TypeBase) and p.target.kind == "int" and p.target.width is None
        for p in d.parameters
    )
    c.function_sources[id(d)] = (copy.deepcopy(d.body) if generic else None, scope)
    if generic:
        declare_signature(c, d)
    else:
        _function_body(c, d)
    if isinstance(known, list):
        known.append(d)
    else:
        scope.names[d.name] = [d]


def _function_body(c: Checker, d: ast.Function) -> None:
    """Check a function that is not generic, or not any more."""
    with c.inner_scope():
        d.type = resolve(c, d.result)
        no_value = isinstance(d.type, ExternType | BlockType | ListOf)
        if no_value or d.type in (INT, STRING, MATCH_KIND):
            d.type = c.error(d.place, f"a function cannot return a value of {d.type}")
        declare_parameters(c, d.parameters, "function" if d.body is not None else "")
        if d.body is not None:
            with c.elsewhere(d.type):
                check_block(c, d.body.statements)
            if d.type != VOID and not _returns(d.body):
                c.error(d.place, f"function {d.name} can end without returning a value")


def _extern_object(c: Checker, d: ast.ExternObject) -> None:
    d.type = ExternType(d)
    c.declare(d)
    with c.inner_scope():
        declare_type_parameters(c, d.type_parameters)
        for method in d.methods:
            of = "constructor" if method.name == d.name else ""
            declare_signature(c, method, of)


def instantiate_function(
    c: Checker,
    decl: ast.Function,
    bindings: Mapping[Type, Type],
    constants: Mapping[str, int],
    place: Place,
) -> ast.Function:
    """The checked copy of a function for these type arguments and these values of parameters
    of type int; `place` is that of the call."""
    arguments = {p: bindings[p.type] for p in decl.type_parameters}
    key = (id(decl), tuple(arguments.values()), tuple(constants.items()))
    made = c.function_copies.get(key)
    if made is not None:
        return made
    if c.function_depth > MAX_NESTED_COPIES:
        c.error(place, f"function {decl.name} needs itself with ever new types")
        return decl
    c.function_depth += 1
    source, scope = c.function_sources[id(decl)]
    parameters = [
        ast.Parameter(p.place, p.name, p.direction, copy.deepcopy(p.target))
        for p in decl.parameters
        if p.name not in constants
    ]
    result = copy.deepcopy(decl.result)
    made = ast.Function(decl.place, decl.name, [], result, parameters, copy.deepcopy(source))
    c.function_copies[key] = made
    with c.inner_scope(scope) as inner:
        bind_types(inner, arguments)
        for p in decl.parameters:
            if p.name in constants:
                value = constants[p.name]
                number = ast.Number(p.place, value, None, False)
                known = ast.Constant(p.place, p.name, p.target, number)
                known.type, known.const = INT, value
                inner.names[p.name] = known
        _function_body(c, made)
    c.function_depth -= 1
    return made


def _returns(s: ast.Node) -> bool:
    """True if the statement ends the function on every path."""
    if isinstance(s, ast.Return | ast.Exit):
        return True
    if isinstance(s, ast.Block):
        return any(_returns(x) for x in s.statements)
    if isinstance(s, ast.If):
        return s.no is not None and _returns(s.yes) and _returns(s.no)
    if isinstance(s, ast.Switch):
        labels = [label for case in s.cases for label in case.labels]
        has_default = any(isinstance(label, ast.DontCare) for label in labels)
        return has_default and all(case.body and _returns(case.body) for case in s.cases)
    return False


_STATEMENTS: Mapping[type[ast.Node], Callable[[Checker, Any], None]] = {
    ast.Block: _block,
    ast.Empty: lambda c, s: None,
    ast.Constant: _constant,
    ast.Variable: _variable,
    ast.Instance: _instance,
    ast.Assign: _assign,
    ast.CallStatement: _call,
    ast.If: _if,
    ast.Return: _return,
    ast.Exit: _exit,
    ast.Break: _break,
    ast.Continue: _continue,
    ast.For: _for,
    ast.ForIn: _for_in,
    ast.Switch: _switch,
}
DECLARATIONS: DeclarationRules = {
    ast.Constant: _constant,
    ast.Variable: _variable,
    ast.Function: _function,
    ast.ExternObject: _extern_object,
}
