"""Statements and declarations: tokens to a syntax tree.

After a syntax error the parser skips to the next statement (or declaration) and goes on, so that
one run reports several; names of types stay known, because the skipped text is most often a body.
"""

from __future__ import annotations

from . import ast
from .diagnostics import Diagnostics
from .lexer import END, ID, OP, STRING, Token
from .parse_expr import ExpressionParser, SyntaxFailure

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


class Parser(ExpressionParser):
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

    def _constant(self) -> ast.Constant:
        self.expect("const")
        target = self.type()
        place = self.place
        name = self.name("the constant's name")
        target = self.dimensions(target)
        self.expect("=")
        value = self.expression()
        self.expect(";", "after the constant")
        return ast.Constant(place, name, target, value)

    def _type_parameters(self) -> list[ast.TypeParameter]:
        """<T, U> if present; they join the innermost scope of type names."""
        result = []
        if self.accept("<"):
            while not self.at(">"):
                place = self.place
                name = self.name("a type parameter")
                self.types[-1].add(name)
                result.append(ast.TypeParameter(place, name))
                if not self.accept(","):
                    break
            self.expect(">", "after the type parameters")
        return result

    def parameters(self) -> list[ast.Parameter]:
        self.expect("(", "before the parameters")
        result = []
        while not self.at(")"):
            annotations = self.annotations()
            direction = ""
            if self.at("in", "out", "inout"):
                direction = self.token.text
                self.i += 1
            target = self.type()
            place = self.place
            name = self.name("the parameter's name")
            target = self.dimensions(target)
            default = self.expression() if self.accept("=") else None
            result.append(
                ast.Parameter(place, name, direction, target, default, annotations=annotations)
            )
            if not self.accept(","):
                break
        self.expect(")", "after the parameters")
        return result

    def _extern(self) -> ast.Decl:
        self.expect("extern")
        place = self.place
        if self.token.kind == ID and self.peek().text in ("{", "<") and not self._at_function():
            name = self.name("the extern's name")
            self.types[0].add(name)
            self.types.append(set())
            type_parameters = self._type_parameters()
            self.expect("{")

            def method() -> ast.Function:
                annotations = self.annotations()
                abstract = self.accept("abstract")
                if self.token.text == name and self.peek().text == "(":
                    where = self.place
                    self.i += 1
                    made = ast.Function(
                        where, name, [], ast.TypeBase(where, "void"), self.parameters(), None
                    )
                    self.expect(";")
                    made.annotations = annotations
                    return made
                made = self._prototype()
                made.abstract = abstract
                made.annotations = annotations
                return made

            methods = self._repeat(method)
            self.types.pop()
            return ast.ExternObject(place, name, type_parameters, methods)
        return self._prototype()

    def _at_function(self) -> bool:
        """At `extern`'s type: does `type name<..>(` follow (a function, not an object)?"""
        start = self.i
        self.speculating += 1
        try:
            self.types.append(set())
            self.type()
            return self.token.kind == ID and self.peek().text in ("(", "<")
        except SyntaxFailure:
            return False
        finally:
            self.types.pop()
            self.speculating -= 1
            self.i = start

    def _prototype(self) -> ast.Function:
        self.types.append(set())
        # The type parameters stand behind the result type that may use them: T f<T>(..)
        ahead = self.i
        while self.tokens[ahead].text not in ("(", ";", "{", "}") and ahead < len(self.tokens) - 1:
            if self.tokens[ahead].kind == ID and self.tokens[ahead + 1].text == "<":
                j = ahead + 2
                while self.tokens[j].kind == ID or self.tokens[j].text == ",":
                    j += 1
                if self.tokens[j].text == ">" and self.tokens[j + 1].text == "(":
                    self.types[-1] |= {t.text for t in self.tokens[ahead + 2 : j] if t.kind == ID}
            ahead += 1
        result = self.type()
        place = self.place
        name = self.name("the function's name")
        type_parameters = self._type_parameters()
        parameters = self.parameters()
        self.types.pop()
        self.expect(";", "after the function's prototype")
        return ast.Function(place, name, type_parameters, result, parameters, None)

    def _function_or_instance(self) -> ast.Decl:
        """`T f<U>(..) {..}`, or `T(args) name;`, at the top or local."""
        start = self.i
        if not self.at_type() and self.token.kind != ID:
            self.fail("expected a declaration")
        # A generic function's result may be its own type parameter.
        self.types.append(set())
        if self.peek().kind == ID and self.peek(2).text == "<" and self.token.kind == ID:
            j = self.i + 3
            while self.tokens[j].kind == ID or self.tokens[j].text == ",":
                j += 1
            self.types[-1] |= {t.text for t in self.tokens[self.i + 3 : j] if t.kind == ID}
        target = self.type()
        if self.at("("):
            self.types.pop()
            arguments = self.arguments()
            place = self.place
            name = self.name("the instance's name")
            body = None
            if self.accept("="):
                self.expect("{")
                body = self._repeat(self.declaration)
            self.expect(";", "after the instance")
            return ast.Instance(place, name, target, arguments, body)
        if self.token.kind != ID or self.peek().text not in ("(", "<"):
            self.types.pop()
            if self.i == start + 1 and isinstance(target, ast.TypeName):
                if self.peek(0).kind == ID and self.peek().text in ("=", ";"):
                    self.fail("variables are not allowed here; use const", target.place)
                self.fail(f"expected a declaration, found '{target.name}'", target.place)
            if self.token.kind == ID and self.peek().text in ("=", ";"):
                self.fail("variables cannot be declared at the top level; use const")
            self.fail("expected a declaration")
        place = self.place
        name = self.name("the function's name")
        type_parameters = self._type_parameters()
        parameters = self.parameters()
        body = self.block()
        self.types.pop()
        return ast.Function(place, name, type_parameters, target, parameters, body)

    def _action(self) -> ast.Action:
        self.expect("action")
        place = self.place
        name = self.name("the action's name")
        parameters = self.parameters()
        return ast.Action(place, name, parameters, self.block())

    def _composite(self) -> ast.Composite:
        kind = self.token.text
        self.i += 1
        place = self.place
        name = self.name(f"the name of the {kind}")
        self.types[0].add(name)
        self.types.append(set())
        type_parameters = self._type_parameters()
        self.expect("{", f"after the name of the {kind}")

        def one_field() -> ast.Field:
            annotations = self.annotations()
            target = self.type()
            where = self.place
            field_name = self.name("a field's name")
            target = self.dimensions(target)
            self.expect(";", "after a field")
            return ast.Field(where, field_name, target, annotations=annotations)

        fields = self._repeat(one_field)
        self.types.pop()
        return ast.Composite(place, name, kind, type_parameters, fields)

    def _enum(self) -> ast.Enum:
        self.expect("enum")
        base = None
        if self.token.text in ("bit", "int") or (
            self.is_type(self.token.text) and self.peek().kind == ID
        ):
            base = self.type()
        place = self.place
        name = self.name("the enum's name")
        self.types[0].add(name)
        self.expect("{")
        members = []
        while not self.at("}"):
            self.annotations()
            where = self.place
            member = self.name("a member's name")
            value = self.expression() if self.accept("=") else None
            members.append((member, where, value))
            if not self.accept(","):
                break
        self.expect("}", "after the members of the enum")
        return ast.Enum(place, name, base, members)

    def _error(self) -> ast.Decl:
        kind = self.token.text
        place = self.place
        self.i += 1
        self.expect("{")
        members = []
        while not self.at("}"):
            where = self.place
            members.append((self.name("a name"), where))
            if not self.accept(","):
                break
        self.expect("}")
        make = ast.ErrorDecl if kind == "error" else ast.MatchKindDecl
        return make(place, kind, members)

    def _typedef(self) -> ast.Typedef:
        is_new = self.token.text == "type"
        self.i += 1
        if self.at("header", "struct", "enum", "header_union"):
            target = self.declaration()
        else:
            target = self.type()
        place = self.place
        name = self.name("the new name of the type")
        target = self.dimensions(target)
        self.types[0].add(name)
        self.expect(";", "after the typedef")
        return ast.Typedef(place, name, target, is_new)

    def _package(self) -> ast.Package:
        self.expect("package")
        place = self.place
        name = self.name("the package's name")
        self.types[0].add(name)
        self.types.append(set())
        type_parameters = self._type_parameters()
        parameters = self.parameters()
        self.types.pop()
        self.expect(";")
        return ast.Package(place, name, type_parameters, parameters)

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

    def _variable_or_instance(self) -> ast.Decl:
        target = self.type()
        if self.at("("):
            arguments = self.arguments()
            place = self.place
            name = self.name("the instance's name")
            body = None
            if self.accept("="):
                self.expect("{")
                body = self._repeat(self.declaration)
            self.expect(";", "after the instance")
            return ast.Instance(place, name, target, arguments, body)
        place = self.place
        name = self.name("the variable's name")
        target = self.dimensions(target)
        value = self.expression() if self.accept("=") else None
        self.expect(";", "after the declaration")
        return ast.Variable(place, name, target, value)

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

    def _table(self) -> ast.Table:
        self.expect("table")
        place = self.place
        table = ast.Table(
            place, self.name("the table's name"), [], [], None, False, None, False, {}
        )
        self.expect("{", "before the properties of the table")

        def item() -> None:
            self.annotations()
            const = self.accept("const")
            where = self.place
            if self.token.kind != ID:
                self.fail("expected a property of the table")
            name = self.token.text
            self.i += 1
            self.expect("=", f"after {name}")
            if name == "key":
                self.expect("{", "before the keys")
                table.keys += self._repeat(self._key)
            elif name == "actions":
                self.expect("{", "before the actions")
                table.actions += self._repeat(lambda: self._action_ref(";"))
            elif name == "entries":
                self.expect("{", "before the entries")
                table.const_entries = const
                table.entries = self._repeat(self._entry)
            elif name == "default_action":
                table.default = self._action_ref(";")
                table.const_default = const
                return
            else:
                value = self.expression()
                self.expect(";", f"after the property {name}")
                table.properties[name] = ast.Property(where, name, value, const)
                return
            self.accept(";")

        self._repeat(item)
        return table

    def _key(self) -> ast.Key:
        place = self.place
        value = self.expression()
        self.expect(":", "between a key and its match kind")
        if self.token.kind != ID:
            self.fail("expected a match kind such as exact, lpm or ternary")
        kind = self.token.text
        self.i += 1
        annotations = self.annotations()
        self.expect(";", "after a key")
        return ast.Key(place, value, kind, annotations)

    def _action_ref(self, end: str) -> ast.ActionRef:
        annotations = self.annotations()
        place = self.place
        absolute = self.accept(".")
        name = self.name("an action's name")
        arguments = self.arguments() if self.at("(") else None
        annotations += self.annotations()
        if end:
            self.expect(end, "after the action")
        return ast.ActionRef(place, name, absolute, arguments, annotations)

    def _entry(self) -> ast.Entry:
        place = self.place
        const = self.accept("const")
        priority = None
        if self.at("priority") and self.peek().text == "=":
            self.i += 2
            if self.accept("("):
                priority = self.expression()
                self.expect(")")
            else:
                priority = self._primary()
            self.expect(":", "after the priority of an entry")
        keys = self.keysets()
        self.expect(":", "between the keys and the action of an entry")
        action = self._action_ref("")
        annotations = action.annotations
        self.expect(";", "after an entry")
        return ast.Entry(place, keys, action, priority, const, annotations)

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


def parse(tokens: list[Token], diagnostics: Diagnostics) -> ast.Program:
    """The program's syntax tree; errors are in `diagnostics`."""
    return Parser(tokens, diagnostics).program()
