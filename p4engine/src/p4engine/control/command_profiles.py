"""The commands on action profiles and selectors, and on the tables that use them.

BMv2 still takes older names of the act_prof_* commands, which name a table in place of its profile.
"""

from __future__ import annotations

from typing import Any

from p4engine.control.command_set import (
    Command,
    CommandSet,
    action_params,
    action_text,
    split_arrow,
    table_match,
    take_priority,
)
from p4engine.control.command_values import CommandError, whole
from p4engine.program_info import ActionProfile, Table

OF_TABLES = {  # older name -> act_prof_*
    "table_indirect_create_member": "create_member",
    "table_indirect_delete_member": "delete_member",
    "table_indirect_modify_member": "modify_member",
    "table_indirect_create_group": "create_group",
    "table_indirect_delete_group": "delete_group",
    "table_indirect_add_member_to_group": "add_member_to_group",
    "table_indirect_remove_member_from_group": "remove_member_from_group",
    "table_dump_member": "dump_member",
    "table_dump_group": "dump_group",
}


class ProfileCommands(CommandSet):
    """act_prof_*, table_indirect_*."""

    def commands(self) -> dict[str, Command]:
        made = super().commands()
        for name, rest in OF_TABLES.items():
            made[name] = self._of_table(name, made[f"act_prof_{rest}"])
        return made

    def _of_table(self, name: str, command: Command) -> Command:
        """`command`, with a table in place of the profile."""

        def call(words: list[str]) -> str | None:
            return command([self._profile_of(self.names.table(words[0])).name, *words[1:]])

        _, _, *rest = (command.__doc__ or "").split()
        call.__doc__ = " ".join([name, "TABLE", *rest])
        return call

    def _profile_of(self, table: Table) -> ActionProfile:
        if table.profile is None:
            raise CommandError(f"table {table.name} has no action profile")
        return next(p for p in self.names.info.profiles if p.id == table.profile)

    # ---- members ----

    def do_act_prof_create_member(self, words: list[str]) -> str:
        """act_prof_create_member PROFILE ACTION PARAMETER..."""
        profile = self.names.profile(words[0])
        action = self.names.profile_action(profile, words[1])
        params = action_params(action, words[2:])
        return f"member {self.switch.member_add(profile.name, action.name, params)}"

    def do_act_prof_modify_member(self, words: list[str]) -> None:
        """act_prof_modify_member PROFILE ACTION MEMBER PARAMETER..."""
        profile = self.names.profile(words[0])
        action = self.names.profile_action(profile, words[1])
        params = action_params(action, words[3:])
        self.switch.member_modify(profile.name, whole(words[2], "member"), action.name, params)

    def do_act_prof_delete_member(self, words: list[str]) -> None:
        """act_prof_delete_member PROFILE MEMBER"""
        self.switch.member_delete(self.names.profile(words[0]).name, whole(words[1], "member"))

    # ---- groups ----

    def do_act_prof_create_group(self, words: list[str]) -> str:
        """act_prof_create_group PROFILE"""
        return f"group {self.switch.group_add(self.names.profile(words[0]).name)}"

    def do_act_prof_delete_group(self, words: list[str]) -> None:
        """act_prof_delete_group PROFILE GROUP"""
        self.switch.group_delete(self.names.profile(words[0]).name, whole(words[1], "group"))

    def do_act_prof_add_member_to_group(self, words: list[str]) -> None:
        """act_prof_add_member_to_group PROFILE MEMBER GROUP"""
        self._member_and_group(self.switch.group_add_member, words)

    def do_act_prof_remove_member_from_group(self, words: list[str]) -> None:
        """act_prof_remove_member_from_group PROFILE MEMBER GROUP"""
        self._member_and_group(self.switch.group_remove_member, words)

    def _member_and_group(self, function: Any, words: list[str]) -> None:
        profile = self.names.profile(words[0])
        function(profile.name, whole(words[2], "group"), whole(words[1], "member"))

    # ---- what there is ----

    def do_act_prof_dump_member(self, words: list[str]) -> str:
        """act_prof_dump_member PROFILE MEMBER"""
        return self._dump(words, "member")

    def do_act_prof_dump_group(self, words: list[str]) -> str:
        """act_prof_dump_group PROFILE GROUP"""
        return self._dump(words, "group")

    def do_act_prof_dump(self, words: list[str]) -> str:
        """act_prof_dump PROFILE"""
        profile = self.names.profile(words[0])
        found = self.switch.profile_dump(profile.name)
        return "\n".join(
            self._text(profile, each) for each in [*found["members"], *found["groups"]]
        )

    def _dump(self, words: list[str], kind: str) -> str:
        profile = self.names.profile(words[0])
        number = whole(words[1], kind)
        for each in self.switch.profile_dump(profile.name)[f"{kind}s"]:
            if each[kind] == number:
                return self._text(profile, each)
        raise CommandError(f"action profile {profile.name} has no {kind} {number}")

    def _text(self, profile: ActionProfile, found: dict[str, Any]) -> str:
        """A member, or a group, in a line."""
        if "group" in found:
            members = ", ".join(map(str, found["members"]))
            return f"group {found['group']}: members {members or 'none'}"
        action = self.names.profile_action(profile, found["action"])
        return f"member {found['member']}: {action_text(action, found['params'])}"

    # ---- tables ----

    def do_table_indirect_add(self, words: list[str]) -> str:
        """table_indirect_add TABLE MATCH... => MEMBER [PRIORITY]"""
        return self._add(words, "member")

    def do_table_indirect_add_with_group(self, words: list[str]) -> str:
        """table_indirect_add_with_group TABLE MATCH... => GROUP [PRIORITY]"""
        return self._add(words, "group")

    def _add(self, words: list[str], kind: str) -> str:
        table = self.names.table(words[0])
        match, rest = split_arrow(words[1:])
        priority = take_priority(table, rest)
        if len(rest) != 1:
            raise CommandError(f"table {table.name}: one {kind} is needed behind =>")
        number = whole(rest[0], kind)
        handle = self.switch.table_add_indirect(
            table.name, table_match(table, match), priority=priority, **{kind: number}
        )
        return f"entry {handle} added to {table.name}"

    def do_table_indirect_delete(self, words: list[str]) -> None:
        """table_indirect_delete TABLE HANDLE"""
        self.switch.table_delete(self._indirect(words[0]), whole(words[1], "handle"))

    def do_table_indirect_set_default(self, words: list[str]) -> None:
        """table_indirect_set_default TABLE MEMBER"""
        number = whole(words[1], "member")
        self.switch.table_set_default_indirect(self._indirect(words[0]), member=number)

    def do_table_indirect_set_default_with_group(self, words: list[str]) -> None:
        """table_indirect_set_default_with_group TABLE GROUP"""
        number = whole(words[1], "group")
        self.switch.table_set_default_indirect(self._indirect(words[0]), group=number)

    def do_table_indirect_reset_default(self, words: list[str]) -> None:
        """table_indirect_reset_default TABLE"""
        self.switch.table_reset_default(self._indirect(words[0]))

    def _indirect(self, name: str) -> str:
        """The full name of a table that has an action profile."""
        table = self.names.table(name)
        self._profile_of(table)
        return table.name
