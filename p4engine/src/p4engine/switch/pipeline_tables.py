"""Tables and action profiles of an instance, from the control plane."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int32, c_uint32, c_uint64
from typing import Any

from p4engine.switch.pipeline_instance import Instance
from p4engine.switch.pipeline_matches import match_values, match_words, param_words, priority_of
from p4engine.switch.pipeline_values import ControlError, from_words, word_array, word_count


class Tables(Instance):
    """Entries, default actions, members and groups."""

    def table_add(
        self,
        table: str,
        action: str,
        match: Sequence[Any],
        params: Sequence[Any] = (),
        priority: int | None = None,
    ) -> int:
        """Add an entry; returns its handle. `priority`: the lower number wins."""
        t = self.find("tables", table)
        a = self._action(t, action)
        if a["default_only"]:
            raise ControlError(f"action {a['name']} is only for the default of {t['name']}")
        status = self.lib.p4_table_add(
            self.handle,
            t["id"],
            word_array(match_words(t, match)),
            priority_of(t, priority),
            a["id"],
            word_array(param_words(a, params)),
        )
        return self._check(status, f"table {t['name']}")

    def table_add_indirect(
        self,
        table: str,
        match: Sequence[Any],
        *,
        member: int | None = None,
        group: int | None = None,
        priority: int | None = None,
    ) -> int:
        """Add an entry that points to a member or group of the table's action profile."""
        t = self.find("tables", table)
        status = self.lib.p4_table_add_indirect(
            self.handle,
            t["id"],
            word_array(match_words(t, match)),
            priority_of(t, priority),
            int(group is not None),
            group if group is not None else member or 0,
        )
        return self._check(status, f"table {t['name']}")

    def table_modify(
        self, table: str, handle: int, action: str, params: Sequence[Any] = ()
    ) -> None:
        """Give an entry another action or other parameters."""
        t = self.find("tables", table)
        a = self._action(t, action)
        status = self.lib.p4_table_modify(
            self.handle, t["id"], handle, a["id"], word_array(param_words(a, params))
        )
        self._check(status, f"table {t['name']}, entry {handle}")

    def table_modify_indirect(
        self, table: str, handle: int, *, member: int | None = None, group: int | None = None
    ) -> None:
        """Point an entry to another member or group of the table's action profile."""
        t = self.find("tables", table)
        status = self.lib.p4_table_modify_indirect(
            self.handle,
            t["id"],
            handle,
            int(group is not None),
            group if group is not None else member or 0,
        )
        self._check(status, f"table {t['name']}, entry {handle}")

    def table_delete(self, table: str, handle: int) -> None:
        """Remove an entry; its handle is not used again."""
        t = self.find("tables", table)
        status = self.lib.p4_table_delete(self.handle, t["id"], handle)
        self._check(status, f"table {t['name']}, entry {handle}")

    def table_clear(self, table: str) -> None:
        """Remove all entries; the default action stays."""
        t = self.find("tables", table)
        self._check(self.lib.p4_table_clear(self.handle, t["id"]), f"table {t['name']}")

    def table_set_default(self, table: str, action: str, params: Sequence[Any] = ()) -> None:
        """Set what a miss runs."""
        t = self.find("tables", table)
        a = self._action(t, action)
        status = self.lib.p4_table_set_default(
            self.handle, t["id"], a["id"], word_array(param_words(a, params))
        )
        self._check(status, f"table {t['name']}, default action")

    def table_set_default_indirect(
        self, table: str, *, member: int | None = None, group: int | None = None
    ) -> None:
        """Have a miss run a member, or a group's choice, of the table's profile."""
        t = self.find("tables", table)
        status = self.lib.p4_table_set_default_indirect(
            self.handle,
            t["id"],
            int(group is not None),
            group if group is not None else member or 0,
        )
        self._check(status, f"table {t['name']}, default action")

    def table_reset_default(self, table: str) -> None:
        """Set the default action of the program's text again."""
        t = self.find("tables", table)
        status = self.lib.p4_table_reset_default(self.handle, t["id"])
        self._check(status, f"table {t['name']}, default action")

    def table_count(self, table: str) -> int:
        """How many entries there are."""
        return self.lib.p4_table_count(self.handle, self.find("tables", table)["id"])

    def table_find(self, table: str, match: Sequence[Any], priority: int | None = None) -> int:
        """The handle of the entry with exactly this match."""
        t = self.find("tables", table)
        status = self.lib.p4_table_find(
            self.handle, t["id"], word_array(match_words(t, match)), priority_of(t, priority)
        )
        return self._check(status, f"table {t['name']}")

    def table_get(self, table: str, handle: int) -> dict:
        """One entry (handle -1: the default), as `table_dump` has it."""
        return self._entry(self.find("tables", table), handle)

    def table_dump(self, table: str) -> list[dict]:
        """All entries, then the default (handle -1): handle, match, priority, action, params or
        member/group."""
        t = self.find("tables", table)
        entries = []
        handle = self.lib.p4_table_next(self.handle, t["id"], -1)
        while handle >= 0:
            entries.append(self._entry(t, handle))
            handle = self.lib.p4_table_next(self.handle, t["id"], handle)
        if t["actions"]:
            entries.append(self._entry(t, -1))
        return entries

    def _entry(self, t: dict, handle: int) -> dict:
        keys = [k for k in t["keys"] if k["kind"] != "selector"]
        match = (c_uint64 * (2 * sum(word_count(k["width"]) for k in keys) + 1))()
        longest = max(
            (sum(word_count(p["width"]) for p in a["params"]) for a in t["actions"]), default=0
        )
        params = (c_uint64 * (longest + 1))()
        priority, target, which = c_int32(), c_uint32(), c_uint32()
        status = self.lib.p4_table_get(
            self.handle,
            t["id"],
            handle,
            match,
            ctypes.byref(priority),
            ctypes.byref(target),
            ctypes.byref(which),
            params,
        )
        self._check(status, f"table {t['name']}, entry {handle}")
        entry: dict[str, Any] = {"handle": handle, "match": None, "priority": priority.value}
        if handle >= 0:
            entry["match"] = match_values(keys, list(match))
        if target.value:
            entry["member" if target.value == 1 else "group"] = which.value
            return entry
        action = t["actions"][which.value]
        values, at = [], 0
        for p in action["params"]:
            values.append(from_words(params[at : at + word_count(p["width"])], p["width"]))
            at += word_count(p["width"])
        entry["action"], entry["params"] = action["name"], values
        return entry

    # ---- action profiles ----

    def _profile_action(self, profile: dict, action: str) -> dict:
        for t in self.info["tables"]:
            if t["profile"] == profile["id"]:
                return self._action(t, action)
        raise ControlError(f"no table uses the action profile {profile['name']}")

    def member_add(self, profile: str, action: str, params: Sequence[Any] = ()) -> int:
        """Add a member to an action profile; returns its number."""
        p = self.find("profiles", profile)
        a = self._profile_action(p, action)
        status = self.lib.p4_profile_add_member(
            self.handle, p["id"], a["id"], word_array(param_words(a, params))
        )
        return self._check(status, f"action profile {p['name']}")

    def member_modify(
        self, profile: str, member: int, action: str, params: Sequence[Any] = ()
    ) -> None:
        """Give a member another action or other parameters."""
        p = self.find("profiles", profile)
        a = self._profile_action(p, action)
        status = self.lib.p4_profile_modify_member(
            self.handle, p["id"], member, a["id"], word_array(param_words(a, params))
        )
        self._check(status, f"action profile {p['name']}, member {member}")

    def member_delete(self, profile: str, member: int) -> None:
        """Remove a member that no entry and no group uses."""
        p = self.find("profiles", profile)
        status = self.lib.p4_profile_delete_member(self.handle, p["id"], member)
        self._check(status, f"action profile {p['name']}, member {member}")

    def group_add(self, profile: str, members: Sequence[int] = ()) -> int:
        """Make a group of members; returns its number."""
        p = self.find("profiles", profile)
        what = f"action profile {p['name']}"
        group = self._check(self.lib.p4_profile_add_group(self.handle, p["id"]), what)
        for member in members:
            self.group_add_member(profile, group, member)
        return group

    def group_delete(self, profile: str, group: int) -> None:
        """Remove a group that no entry uses."""
        p = self.find("profiles", profile)
        status = self.lib.p4_profile_delete_group(self.handle, p["id"], group)
        self._check(status, f"action profile {p['name']}, group {group}")

    def group_add_member(self, profile: str, group: int, member: int) -> None:
        """Put a member into a group."""
        p = self.find("profiles", profile)
        status = self.lib.p4_profile_group_add(self.handle, p["id"], group, member)
        self._check(status, f"action profile {p['name']}, group {group}, member {member}")

    def group_remove_member(self, profile: str, group: int, member: int) -> None:
        """Take a member out of a group."""
        p = self.find("profiles", profile)
        status = self.lib.p4_profile_group_remove(self.handle, p["id"], group, member)
        self._check(status, f"action profile {p['name']}, group {group}, member {member}")
