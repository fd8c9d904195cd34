"""Tables: keys, actions, entries and properties."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.lexer import ID
from p4engine.frontend.parser.parse_decl import DeclarationParser


class TableParser(DeclarationParser):
    """The table declaration."""

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
