"""The commands on tables and their entries."""

from __future__ import annotations

from typing import Any

from p4engine.control.command_set import (
    CommandSet,
    action_params,
    action_text,
    split_arrow,
    table_match,
    take_priority,
)
from p4engine.control.command_values import CommandError, match_text, whole
from p4engine.program_info import Action, Table

NS_PER_MS = 1_000_000


class TableCommands(CommandSet):
    """table_* except those of action profiles, and what a program has of tables and actions."""

    # ---- entries ----

    def do_table_add(self, words: list[str]) -> str:
        """table_add TABLE ACTION MATCH... => PARAMETER... [PRIORITY]"""
        table = self.names.table(words[0])
        action = self.names.action(table, words[1])
        match, rest = split_arrow(words[2:])
        priority = take_priority(table, rest)
        handle = self.switch.table_add(
            table.name,
            action.name,
            table_match(table, match),
            action_params(action, rest),
            priority,
        )
        return f"entry {handle} added to {table.name}"

    def do_table_modify(self, words: list[str]) -> None:
        """table_modify TABLE ACTION HANDLE PARAMETER..."""
        table = self.names.table(words[0])
        action = self.names.action(table, words[1])
        params = action_params(action, words[3:])
        self.switch.table_modify(table.name, whole(words[2], "handle"), action.name, params)

    def do_table_delete(self, words: list[str]) -> None:
        """table_delete TABLE HANDLE"""
        table = self.names.table(words[0])
        self.switch.table_delete(table.name, whole(words[1], "handle"))

    def do_table_clear(self, words: list[str]) -> None:
        """table_clear TABLE"""
        self.switch.table_clear(self.names.table(words[0]).name)

    def do_table_num_entries(self, words: list[str]) -> str:
        """table_num_entries TABLE"""
        return str(self.switch.table_count(self.names.table(words[0]).name))

    def do_table_set_timeout(self, words: list[str]) -> None:
        """table_set_timeout TABLE HANDLE MILLISECONDS"""
        table = self.names.table(words[0])
        if not table.ages:
            raise CommandError(f"table {table.name} has no idle timeouts: support_timeout is false")
        timeout_ms = whole(words[2], "timeout")
        if timeout_ms < 0:
            raise CommandError(f"a timeout is not negative: {timeout_ms}")
        handle = whole(words[1], "handle")
        self.switch.table_set_timeout(table.name, handle, timeout_ms * NS_PER_MS)

    # ---- default entries ----

    def do_table_set_default(self, words: list[str]) -> None:
        """table_set_default TABLE ACTION PARAMETER..."""
        table = self.names.table(words[0])
        action = self.names.action(table, words[1])
        self.switch.table_set_default(table.name, action.name, action_params(action, words[2:]))

    def do_table_reset_default(self, words: list[str]) -> None:
        """table_reset_default TABLE"""
        self.switch.table_reset_default(self.names.table(words[0]).name)

    # ---- what there is ----

    def do_table_dump(self, words: list[str]) -> str:
        """table_dump TABLE"""
        table = self.names.table(words[0])
        entries = self.switch.table_dump(table.name)
        return "\n".join(self._entry_text(table, entry) for entry in entries)

    def do_table_dump_entry(self, words: list[str]) -> str:
        """table_dump_entry TABLE HANDLE"""
        table = self.names.table(words[0])
        return self._entry(table, whole(words[1], "handle"))

    def do_table_dump_entry_from_key(self, words: list[str]) -> str:
        """table_dump_entry_from_key TABLE MATCH... [PRIORITY]"""
        table, match = self.names.table(words[0]), words[1:]
        priority = take_priority(table, match)
        handle = self.switch.table_find(table.name, table_match(table, match), priority)
        return self._entry(table, handle)

    def _entry(self, table: Table, handle: int) -> str:
        """An entry with its idle timeout, if it has one."""
        lines = [self._entry_text(table, self.switch.table_get(table.name, handle))]
        if table.ages and handle >= 0:
            ttl_ns, since_hit_ns = self.switch.table_age(table.name, handle)
            timeout = f"{ttl_ns // NS_PER_MS} ms" if ttl_ns else "none"
            since = f"{since_hit_ns // NS_PER_MS} ms since the last hit"
            lines.append(f"idle timeout: {timeout}, {since}")
        return "\n".join(lines)

    def _entry_text(self, table: Table, entry: dict[str, Any]) -> str:
        keys = table.match_keys
        if entry["match"] is None:
            start = "default:"
        else:
            values = [match_text(k, value) for k, value in zip(keys, entry["match"], strict=True)]
            start = " ".join([f"entry {entry['handle']}:", *values])
        if "action" in entry:
            action = self.names.action(table, entry["action"])
            made = f"{start} => {action_text(action, entry['params'])}"
        else:
            kind = "member" if "member" in entry else "group"
            made = f"{start} => {kind} {entry[kind]}"
        if table.ordered and entry["match"] is not None:
            made += f", priority {entry['priority']}"
        return made

    # ---- the program ----

    def do_show_tables(self, _words: list[str]) -> str:
        """show_tables"""
        tables = sorted(self.names.info.tables, key=lambda table: table.name)
        return "\n".join(map(self._table_text, tables))

    def do_show_actions(self, _words: list[str]) -> str:
        """show_actions"""
        actions = {a.name: a for table in self.names.info.tables for a in table.actions}
        return "\n".join(self._action_text(actions[name]) for name in sorted(actions))

    def do_table_show_actions(self, words: list[str]) -> str:
        """table_show_actions TABLE"""
        actions = sorted(self.names.table(words[0]).actions, key=lambda action: action.name)
        return "\n".join(map(self._action_text, actions))

    def do_table_info(self, words: list[str]) -> str:
        """table_info TABLE"""
        table = self._table_text(self.names.table(words[0]))
        return "\n".join([table, self.do_table_show_actions(words)]).rstrip()

    def _table_text(self, table: Table) -> str:
        keys = ", ".join(f"{key.name}({key.kind}, {key.width})" for key in table.keys)
        profile = "none"
        if table.profile is not None:
            profile = next(p.name for p in self.names.info.profiles if p.id == table.profile)
        return f"{table.name} [implementation={profile}, keys: {keys or 'none'}]"

    @staticmethod
    def _action_text(action: Action) -> str:
        params = ", ".join(f"{param.name}({param.width})" for param in action.params)
        return f"{action.name} [{params}]"
