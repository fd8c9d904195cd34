"""Tables: keys, actions, entries and properties."""

from __future__ import annotations

from p4engine.frontend import ast
from p4engine.frontend.parser.parse_annotations import parse_annotations
from p4engine.frontend.parser.parse_expressions import ExpressionParser
from p4engine.frontend.parser.parse_keysets import KeysetParser
from p4engine.frontend.parser.token_stream import TokenStream

# Properties that must stand behind the one that is the key here.
AFTER = {"actions": ("default_action", "entries"), "key": ("entries",)}


class TableParser:
    """The grammar of tables."""

    def __init__(
        self, tokens: TokenStream, expressions: ExpressionParser, keysets: KeysetParser
    ) -> None:
        self.tokens, self.expressions, self.keysets = tokens, expressions, keysets

    def table(self) -> ast.Table:
        """table name { properties }"""
        self.tokens.expect("table")
        place = self.tokens.place
        name = self.tokens.name("the table's name")
        table = ast.Table(place, name, [], [], None, False, None, False, [], {})
        self.tokens.expect("{", "before the properties of the table")
        seen: set[str] = set()
        self.tokens.repeat(lambda: self._property(table, seen))
        return table

    def _property(self, table: ast.Table, seen: set[str]) -> None:
        """One property; `seen` are the names of those before it."""
        annotations = parse_annotations(self.tokens)
        const = self.tokens.accept("const")
        place = self.tokens.place
        name = self.tokens.word("a property of the table")
        self.tokens.expect("=", f"after {name}")
        if name in seen:
            self.tokens.report(place, f"the table has '{name}' already")
        for late in seen.intersection(AFTER.get(name, ())):
            self.tokens.report(place, f"'{name}' must stand before '{late}'")
        seen.add(name)
        if name == "default_action":
            table.default = self._action()
            self.tokens.expect(";", "after the action")
            table.const_default = const
        elif name in ("key", "actions", "entries"):
            what = "keys" if name == "key" else name
            self.tokens.expect("{", f"before the {what}")
            if name == "key":
                table.keys += self.tokens.repeat(self._key)
            elif name == "actions":
                table.actions += self.tokens.repeat(self._listed_action)
            else:
                table.const_entries = const
                table.entries_annotations = annotations
                table.entries = self.tokens.repeat(self._entry)
            self.tokens.accept(";")
        else:
            value = self.expressions.expression()
            self.tokens.expect(";", f"after the property {name}")
            table.properties[name] = ast.Property(place, name, value, const, annotations)

    def _key(self) -> ast.Key:
        place = self.tokens.place
        value = self.expressions.expression()
        self.tokens.expect(":", "between a key and its match kind")
        kind = self.tokens.word("a match kind such as exact, lpm or ternary")
        annotations = parse_annotations(self.tokens)
        self.tokens.expect(";", "after a key")
        return ast.Key(place, value, kind, annotations)

    def _listed_action(self) -> ast.ActionRef:
        result = self._action()
        self.tokens.expect(";", "after the action")
        return result

    def _action(self) -> ast.ActionRef:
        annotations = parse_annotations(self.tokens)
        place = self.tokens.place
        absolute = self.tokens.accept(".")
        name = self.tokens.name("an action's name")
        arguments = self.expressions.arguments() if self.tokens.at("(") else None
        annotations += parse_annotations(self.tokens)
        return ast.ActionRef(place, name, absolute, arguments, annotations)

    def _entry(self) -> ast.Entry:
        place = self.tokens.place
        const = self.tokens.accept("const")
        priority = None
        if self.tokens.at("priority") and self.tokens.peek().text == "=":
            self.tokens.advance(2)
            if self.tokens.accept("("):
                priority = self.expressions.expression()
                self.tokens.expect(")")
            else:
                priority = self.expressions.primary()
            self.tokens.expect(":", "after the priority of an entry")
        keys = self.keysets.keysets()
        self.tokens.expect(":", "between the keys and the action of an entry")
        action = self._action()
        self.tokens.expect(";", "after an entry")
        return ast.Entry(place, keys, action, priority, const, action.annotations)
