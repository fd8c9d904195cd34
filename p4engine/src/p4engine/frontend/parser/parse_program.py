"""The whole program, its parsers and controls: tokens to a syntax tree.

After a syntax error the parser skips to the next statement (or declaration) and goes on, so that
one run reports several; names of types stay known, because the skipped text is most often a
body.
"""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.diagnostics import Diagnostics
from p4engine.frontend.lexer import END, ID, Token
from p4engine.frontend.parser.parse_table import TableParser
from p4engine.frontend.parser.parse_types import SyntaxFailure


class Parser(TableParser):
    """The whole grammar."""

    def program(self) -> ast.Program:
        place = self.place
        declarations = []
        while self.token.kind != END:
            start = self.i
            if self.accept(";"):
                continue
            try:
                declarations.append(self.declaration())
            except SyntaxFailure:
                self._recover_declaration(start)
        return ast.Program(place, declarations)

    # ---- recovery ----

    def _recover_declaration(self, start: int) -> None:
        """Skip to behind the `}` or `;` that ends the declaration which began at `start`."""
        self.depth = 0
        del self.types[1:]
        level, i = 0, start
        while i < len(self.tokens) - 1:
            text = self.tokens[i].text
            if text == "{":
                level += 1
            elif text == "}":
                level -= 1
                if level <= 0 and i >= self.i:
                    i += 1
                    break
            elif text == ";" and level <= 0 and i >= self.i:
                i += 1
                break
            i += 1
        self.i = i

    # ---- declarations ----

    def declaration(self) -> ast.Decl:
        annotations = self.annotations()
        text = self.token.text if self.token.kind == ID else ""
        parse = {
            "const": self._constant,
            "extern": self._extern,
            "action": self._action,
            "parser": self._parser,
            "control": self._control,
            "header": self._composite,
            "header_union": self._composite,
            "struct": self._composite,
            "enum": self._enum,
            "error": self._error,
            "match_kind": self._error,
            "typedef": self._typedef,
            "package": self._package,
        }.get(text)
        if (
            text == "type"
            and self.peek().kind == ID
            or (text == "type" and self.peek().text in ("bit", "int"))
        ):
            parse = self._typedef
        if text in ("error", "match_kind") and self.peek().text != "{":
            parse = None
        if parse:
            result = parse()
        else:
            result = self._function_or_instance()
        result.annotations = annotations
        return result

    # ---- parsers ----

    def _parser(self) -> ast.Parser:
        self.expect("parser")
        place = self.place
        name = self.name("the parser's name")
        self.types[0].add(name)
        self.types.append(set())
        type_parameters = self._type_parameters()
        parameters = self.parameters()
        if self.accept(";"):
            self.types.pop()
            return ast.Parser(place, name, type_parameters, parameters, [], [], [], True)
        constructor = self.parameters() if self.at("(") else []
        self.expect("{", "before the parser's body")
        local, states = [], []

        def item() -> None:
            annotations = self.annotations()
            if self.at("state"):
                states.append(self._state())
                states[-1].annotations = annotations
            else:
                local.append(self._local(annotations))

        self._repeat(item)
        self.types.pop()
        return ast.Parser(place, name, type_parameters, parameters, constructor, local, states)

    def _local(self, annotations: list) -> ast.Decl:
        if self.at("value_set"):
            self.i += 1
            self.expect("<")
            target = self.type()
            self.expect(">")
            self.expect("(")
            size = self.expression()
            self.expect(")")
            place = self.place
            name = self.name("the value set's name")
            self.expect(";")
            result = ast.ValueSet(place, name, target, size)
        elif self.at("const"):
            result = self._constant()
        elif self.at("action"):
            result = self._action()
        elif self.at("table"):
            result = self._table()
        else:
            result = self._variable_or_instance()
        result.annotations = annotations
        return result

    def _state(self) -> ast.State:
        self.expect("state")
        place = self.place
        name = self.name("the state's name")
        self.expect("{", "before the state's body")
        statements, transition = [], None
        while not self.at("}"):
            if self.token.kind == END:
                self.fail("expected '}' at the end of the state")
            if self.at("transition"):
                self.i += 1
                transition = self._transition()
                if not self.at("}"):
                    self.fail("the transition must be the last statement of a state")
                break
            start, depth = self.i, self.depth
            try:
                statements.append(self.statement())
            except SyntaxFailure:
                if self.speculating:
                    raise
                self.depth = depth
                self._recover_statement(start)
        self.expect("}")
        return ast.State(place, name, statements, transition)

    def _transition(self) -> ast.Node:
        place = self.place
        if self.accept("select"):
            self.expect("(")
            values = []
            while not self.at(")"):
                values.append(self.expression())
                if not self.accept(","):
                    break
            self.expect(")", "after the values of the select")
            self.expect("{")

            def case() -> ast.SelectCase:
                where = self.place
                keys = self.keysets()
                self.expect(":", "after a label of the select")
                target = self.name("a state")
                self.expect(";", "after the state")
                return ast.SelectCase(where, keys, target)

            return ast.Select(place, values, self._repeat(case))
        name = self.name("a state")
        self.expect(";", "after the transition")
        return ast.Name(place, name)

    # ---- controls and tables ----

    def _control(self) -> ast.Control:
        self.expect("control")
        place = self.place
        name = self.name("the control's name")
        self.types[0].add(name)
        self.types.append(set())
        type_parameters = self._type_parameters()
        parameters = self.parameters()
        if self.accept(";"):
            self.types.pop()
            return ast.Control(place, name, type_parameters, parameters, [], [], None, True)
        constructor = self.parameters() if self.at("(") else []
        self.expect("{", "before the control's body")
        local: list = []
        body = None

        def item() -> None:
            nonlocal body
            annotations = self.annotations()
            if self.at("apply"):
                if body is not None:
                    self.fail("a control has one apply block", self.place)
                self.i += 1
                body = self.block()
            else:
                if body is not None:
                    self.fail("the apply block must be the last part of a control", self.place)
                local.append(self._local(annotations))

        self._repeat(item)
        if body is None:
            self.diagnostics.error(place, f"control {name} has no apply block")
            body = ast.Block(place, [])
        self.types.pop()
        return ast.Control(place, name, type_parameters, parameters, constructor, local, body)


def parse(tokens: list[Token], diagnostics: Diagnostics) -> ast.Program:
    """The program's syntax tree; errors are in `diagnostics`."""
    return Parser(tokens, diagnostics).program()
