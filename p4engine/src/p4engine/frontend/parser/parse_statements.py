"""Statements."""

from __future__ import annotations

from collections.abc import Callable

from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Place
from p4engine.frontend.lexer import ID, OP
from p4engine.frontend.parser.parse_annotations import parse_annotations
from p4engine.frontend.parser.parse_expressions import ExpressionParser
from p4engine.frontend.parser.parse_variables import VariableParser
from p4engine.frontend.parser.token_stream import TokenStream

ASSIGNMENTS = {
    "=": "",
    "+=": "+",
    "-=": "-",
    "*=": "*",
    "/=": "/",
    "%=": "%",
    "<<=": "<<",
    ">>=": ">>",
    "&=": "&",
    "|=": "|",
    "^=": "^",
    "|+|=": "|+|",
    "|-|=": "|-|",
}


class StatementParser:
    """The grammar of blocks and what stands in them."""

    def __init__(
        self, tokens: TokenStream, expressions: ExpressionParser, variables: VariableParser
    ) -> None:
        self.tokens, self.expressions, self.variables = tokens, expressions, variables
        self._keywords: dict[str, Callable[[], ast.Node]] = {
            "{": self.block,
            ";": self._empty,
            "if": self._if,
            "return": self._return,
            "exit": self._exit,
            "break": self._break,
            "continue": self._continue,
            "switch": self._switch,
            "const": self.variables.constant,
        }

    def block(self) -> ast.Block:
        """{ statements }"""
        annotations = parse_annotations(self.tokens)
        place = self.tokens.expect("{")
        self.tokens.enter(place)
        with self.tokens.type_scope():
            statements = self.tokens.repeat(self.statement)
        self.tokens.leave()
        return ast.Block(place, statements, annotations)

    def statement(self) -> ast.Node:
        """A statement, or a declaration in a block."""
        annotations = parse_annotations(self.tokens)
        token, place = self.tokens.token, self.tokens.place
        text = token.text if token.kind in (ID, OP) else ""
        parse = self._keywords.get(text)
        result: ast.Node
        if parse is not None:
            result = parse()
            if isinstance(result, ast.Block):
                result.annotations += annotations
            elif isinstance(result, ast.Constant):
                result.annotations = annotations
            return result
        if text == "for" and self.tokens.peek().text == "(":
            return self._for()
        at_state = text == "state" and self.tokens.peek().kind == ID
        if text in ("action", "table", "parser", "control") or at_state:
            self.tokens.fail(f"a {text} cannot be declared inside a block", place)
        if text == "else":
            self.tokens.fail("'else' without 'if'", place)
        if text == "transition":
            self.tokens.fail("'transition' belongs at the end of a parser state", place)
        if self._at_declaration():
            declared = self.variables.variable_or_instance()
            declared.annotations = annotations
            return declared
        result = self._assignment_or_call()
        what = "assignment" if isinstance(result, ast.Assign) else "call"
        self.tokens.expect(";", f"after the {what}")
        return result

    # ---- declarations, assignments, calls ----

    def _at_declaration(self) -> bool:
        """True if a type and then a name (or an instance's arguments and a name) stand here."""
        token = self.tokens.token
        if token.kind != ID or (token.text in ("true", "false", "this")):
            return token.text == "." and self.tokens.peek(2).kind == ID
        if not self.tokens.at_type():
            # An unknown type's name before a name reads as a declaration all the same.
            after = self.tokens.peek()
            return after.kind == ID and token.text != "_"
        return self.tokens.ahead(self._type_and_name)

    def _type_and_name(self) -> bool:
        base = self.tokens.at_base_type()
        self.expressions.types.type()
        if self.tokens.at("(") and not base:
            self.expressions.arguments()
        return self.tokens.token.kind == ID

    def _assignment_or_call(self) -> ast.Assign | ast.CallStatement:
        """An assignment or a call, without the semicolon."""
        place = self.tokens.place
        left = self.expressions.unary()
        op = self.tokens.operator()
        if op in ASSIGNMENTS:
            place = self.tokens.place
            self.tokens.advance(2 if op == ">>=" else 1)
            return ast.Assign(place, left, ASSIGNMENTS[op], self.expressions.expression())
        if not isinstance(left, ast.Call):
            self.tokens.fail("expected an assignment or a call")
        return ast.CallStatement(place, left)

    # ---- branches and ends ----

    def _empty(self) -> ast.Empty:
        return ast.Empty(self.tokens.advance().place)

    def _if(self) -> ast.If:
        place = self.tokens.advance().place
        self.tokens.expect("(", "after 'if'")
        condition = self.expressions.expression()
        self.tokens.expect(")", "after the condition")
        self.tokens.enter(place)
        yes = self.statement()
        no = self.statement() if self.tokens.accept("else") else None
        self.tokens.leave()
        return ast.If(place, condition, yes, no)

    def _return(self) -> ast.Return:
        place = self.tokens.advance().place
        value = None if self.tokens.at(";") else self.expressions.expression()
        self.tokens.expect(";", "after 'return'")
        return ast.Return(place, value)

    def _exit(self) -> ast.Exit:
        return ast.Exit(self._keyword())

    def _break(self) -> ast.Break:
        return ast.Break(self._keyword())

    def _continue(self) -> ast.Continue:
        return ast.Continue(self._keyword())

    def _keyword(self) -> Place:
        """A statement of one word."""
        token = self.tokens.advance()
        self.tokens.expect(";", f"after '{token.text}'")
        return token.place

    def _switch(self) -> ast.Switch:
        place = self.tokens.expect("switch")
        self.tokens.expect("(")
        value = self.expressions.expression()
        self.tokens.expect(")")
        self.tokens.expect("{")
        cases: list[ast.SwitchCase] = []
        labels: list[ast.Expr] = []

        def case() -> None:
            nonlocal labels
            where = self.tokens.place
            if self.tokens.accept("default"):
                labels.append(ast.DontCare(where))
            else:
                labels.append(self.expressions.expression())
            self.tokens.expect(":", "after a label of the switch")
            if self.tokens.at("{", "@"):
                cases.append(ast.SwitchCase(where, labels, self.block()))
                labels = []

        self.tokens.repeat(case)
        if labels:
            cases.append(ast.SwitchCase(place, labels, None))
        return ast.Switch(place, value, cases)

    # ---- loops ----

    def _for(self) -> ast.For | ast.ForIn:
        place = self.tokens.expect("for")
        self.tokens.expect("(")
        if self.tokens.ahead(self._collection_follows):
            parse_annotations(self.tokens)
            return self._for_in(place)
        init = self._for_list(";")
        self.tokens.expect(";")
        condition = self.expressions.expression()
        self.tokens.expect(";", "after the condition of the loop")
        update = self._for_list(")")
        self.tokens.expect(")")
        return ast.For(place, init, condition, update, self.statement())

    def _collection_follows(self) -> bool:
        """True for `T x in a..b)` or `x in ...)`, False for the parts of a counting loop."""
        parse_annotations(self.tokens)
        level = 0
        while not self.tokens.at_end:
            text = self.tokens.advance().text
            if level == 0 and text in ("in", ";", ")"):
                return text == "in"
            level += (text == "(") - (text == ")")
        return False

    def _for_list(self, stop: str) -> list[ast.Node]:
        items: list[ast.Node] = []
        while not self.tokens.at(stop):
            annotations = parse_annotations(self.tokens)
            if self._at_declaration():
                items.append(self.variables.variable(annotations))
            else:
                items.append(self._assignment_or_call())
            if not self.tokens.accept(","):
                break
        return items

    def _for_in(self, place: Place) -> ast.ForIn:
        if self.tokens.peek().text == "in":
            self.tokens.fail("the variable of the loop needs its type: for (bit<8> i in ..)", place)
        target = self.expressions.types.type()
        where = self.tokens.place
        name = self.tokens.name("the variable's name")
        variable = ast.Variable(where, name, target, None)
        self.tokens.expect("in")
        values = self.expressions.expression()
        where = self.tokens.place
        if self.tokens.accept(".."):
            values = ast.Range(where, values, self.expressions.expression())
        self.tokens.expect(")", "after the range of the loop")
        return ast.ForIn(place, variable, values, self.statement())
