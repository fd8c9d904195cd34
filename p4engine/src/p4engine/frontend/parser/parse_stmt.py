"""Statements and annotations; skipping behind a syntax error within a list."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.lexer import END, ID, OP, STRING
from p4engine.frontend.parser.parse_expr import ExpressionParser
from p4engine.frontend.parser.parse_types import SyntaxFailure

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


class StatementParser(ExpressionParser):
    """Blocks and what stands in them."""

    def _recover_statement(self, start: int) -> None:
        level, i = 0, start
        while i < len(self.tokens) - 1:
            text = self.tokens[i].text
            if text == "{":
                level += 1
            elif text == "}":
                if level == 0:
                    break
                level -= 1
                if level == 0 and i >= self.i:
                    i += 1
                    break
            elif text == ";" and level == 0 and i >= self.i:
                i += 1
                break
            i += 1
        self.i = max(i, start + (self.tokens[start].text != "}"))

    def _repeat(self, parse, stop: str = "}") -> list:
        """parse() until `stop`, resuming behind errors; consumes `stop`."""
        items = []
        while not self.at(stop):
            if self.token.kind == END:
                self.fail(f"expected '{stop}'")
            start, depth, scopes = self.i, self.depth, len(self.types)
            try:
                item = parse()
                if item is not None:
                    items.append(item)
            except SyntaxFailure:
                if self.speculating:
                    raise
                self.depth = depth
                del self.types[scopes:]
                self._recover_statement(start)
        self.i += 1
        return items

    # ---- annotations ----

    def annotations(self) -> list[ast.Annotation]:
        result = []
        while self.at("@"):
            place = self.place
            self.i += 1
            if self.token.kind != ID:
                self.fail("expected the name of an annotation")
            name = self.token.text
            self.i += 1
            body: list[str] = []
            if name == "pragma":  # goes to the end of the line
                while self.token.kind != END and self.token.place[:2] == place[:2]:
                    body.append(self.token.text)
                    self.i += 1
                name = body.pop(0) if body else name
            elif self.at("(", "["):
                opening = self.token.text
                closing = ")" if opening == "(" else "]"
                level = 0
                while True:
                    token = self.token
                    if token.kind == END:
                        self.fail(f"the annotation @{name} is not closed", place)
                    self.i += 1
                    if token.kind != STRING and token.text == opening:
                        level += 1
                        if level == 1:
                            continue
                    elif token.kind != STRING and token.text == closing:
                        level -= 1
                        if level == 0:
                            break
                    body.append(token.text)
            result.append(ast.Annotation(place, name, body))
        return result

    def _instance(self, target: ast.Node) -> ast.Instance:
        """From the arguments on, which follow its type."""
        arguments = self.arguments()
        place = self.place
        name = self.name("the instance's name")
        body = None
        if self.accept("="):
            self.expect("{")
            body = self._repeat(self.declaration)
        self.expect(";", "after the instance")
        return ast.Instance(place, name, target, arguments, body)

    def _variable_or_instance(self) -> ast.Decl:
        target = self.type()
        if self.at("("):
            return self._instance(target)
        place = self.place
        name = self.name("the variable's name")
        target = self.dimensions(target)
        value = self.expression() if self.accept("=") else None
        self.expect(";", "after the declaration")
        return ast.Variable(place, name, target, value)

    # ---- statements ----

    def block(self) -> ast.Block:
        annotations = self.annotations()
        place = self.expect("{")
        self.nested(place)
        self.types.append(set())
        statements = self._repeat(self.statement)
        self.types.pop()
        self.depth -= 1
        return ast.Block(place, statements, annotations)

    def statement(self) -> ast.Node:
        annotations = self.annotations()
        token, place = self.token, self.place
        text = token.text if token.kind in (ID, OP) else ""
        if text == "{":
            result = self.block()
            result.annotations += annotations
            return result
        if text == ";":
            self.i += 1
            return ast.Empty(place)
        if text == "if":
            self.i += 1
            self.expect("(", "after 'if'")
            condition = self.expression()
            self.expect(")", "after the condition")
            self.nested(place)
            yes = self.statement()
            no = self.statement() if self.accept("else") else None
            self.depth -= 1
            return ast.If(place, condition, yes, no)
        if text == "return":
            self.i += 1
            value = None if self.at(";") else self.expression()
            self.expect(";", "after 'return'")
            return ast.Return(place, value)
        if text in ("exit", "break", "continue"):
            self.i += 1
            self.expect(";", f"after '{text}'")
            return {"exit": ast.Exit, "break": ast.Break, "continue": ast.Continue}[text](place)
        if text == "switch":
            return self._switch()
        if text == "for" and self.peek().text == "(":
            return self._for()
        if text == "const":
            result = self._constant()
            result.annotations = annotations
            return result
        if text in ("action", "table", "state", "parser", "control"):
            self.fail(f"a {text} cannot be declared inside a block", place)
        if text == "else":
            self.fail("'else' without 'if'", place)
        if text == "transition":
            self.fail("'transition' belongs at the end of a parser state", place)
        if self._at_declaration():
            result = self._variable_or_instance()
            result.annotations = annotations
            return result
        return self._assignment_or_call(";")

    def _at_declaration(self) -> bool:
        """Does a type and then a name (or an instance's arguments and a name) stand here?"""
        token = self.token
        if token.kind != ID or (token.text in ("true", "false", "this")):
            return token.text == "." and self.peek(2).kind == ID
        if not self.at_type():
            # An unknown type's name before a name reads as a declaration all the same.
            after = self.peek()
            return after.kind == ID and token.text != "_" and after.text not in ("in",)
        start, depth = self.i, self.depth
        self.speculating += 1
        try:
            self.type()
            if self.token.kind == ID:
                return True
            if self.at("(") and token.text not in BASES:
                self.arguments()
                return self.token.kind == ID
            return False
        except SyntaxFailure:
            return False
        finally:
            self.speculating -= 1
            self.i, self.depth = start, depth

    def _assignment_or_call(self, end: str) -> ast.Node:
        place = self.place
        left = self._unary()
        op = self.join_shift()
        if op in ASSIGNMENTS:
            place = self.place
            self.i += 2 if op == ">>=" else 1
            right = self.expression()
            if end:
                self.expect(end, "after the assignment")
            return ast.Assign(place, left, ASSIGNMENTS[op], right)
        if not isinstance(left, ast.Call):
            self.fail("expected an assignment or a call")
        if end:
            self.expect(end, "after the call")
        return ast.CallStatement(place, left)

    def _switch(self) -> ast.Switch:
        place = self.expect("switch")
        self.expect("(")
        value = self.expression()
        self.expect(")")
        self.expect("{")
        cases: list[ast.SwitchCase] = []
        labels: list = []

        def case() -> None:
            nonlocal labels
            where = self.place
            if self.accept("default"):
                labels.append(ast.DontCare(where))
            else:
                labels.append(self.expression())
            self.expect(":", "after a label of the switch")
            if self.at("{"):
                cases.append(ast.SwitchCase(where, labels, self.block()))
                labels = []

        self._repeat(case)
        if labels:
            cases.append(ast.SwitchCase(place, labels, None))
        return ast.Switch(place, value, cases)

    def _for(self) -> ast.Node:
        place = self.expect("for")
        self.expect("(")
        start = self.i
        self.annotations()
        # for (T x in a..b) / for (x in ...)
        i, level = self.i, 0
        while self.tokens[i].text not in (";", ")") or level:
            text = self.tokens[i].text
            level += (text == "(") - (text == ")")
            if text == "in" and level == 0:
                return self._for_in(place)
            if i >= len(self.tokens) - 1:
                break
            i += 1
        self.i = start
        init = self._for_list(";")
        self.expect(";")
        condition = self.expression()
        self.expect(";", "after the condition of the loop")
        update = self._for_list(")")
        self.expect(")")
        return ast.For(place, init, condition, update, self.statement())

    def _for_list(self, stop: str) -> list:
        items = []
        while not self.at(stop):
            annotations = self.annotations()
            if self._at_declaration():
                target = self.type()
                where = self.place
                name = self.name("the variable's name")
                target = self.dimensions(target)
                value = self.expression() if self.accept("=") else None
                items.append(ast.Variable(where, name, target, value, annotations=annotations))
            else:
                items.append(self._assignment_or_call(""))
            if not self.accept(","):
                break
        return items

    def _for_in(self, place) -> ast.Node:
        if self._at_declaration():
            target = self.type()
            where = self.place
            variable = ast.Variable(where, self.name("the variable's name"), target, None)
        else:
            variable = self._name_path()
        self.expect("in")
        low = self.expression()
        where = self.place
        if self.accept(".."):
            low = ast.Range(where, low, self.expression())
        self.expect(")", "after the range of the loop")
        return ast.ForIn(place, variable, low, self.statement())


BASES = {"bit", "int", "varbit", "bool", "error", "string", "void", "tuple", "list"}
