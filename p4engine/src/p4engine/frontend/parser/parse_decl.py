"""Declarations without states and tables: constants, types, functions, actions, externs, instances,
packages.
"""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.lexer import ID
from p4engine.frontend.parser.parse_stmt import StatementParser
from p4engine.frontend.parser.parse_types import SyntaxFailure


class DeclarationParser(StatementParser):
    """Declarations that may stand at the top level, except parsers and controls."""

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
            return self._instance(target)
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
