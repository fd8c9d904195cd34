"""Tables and action profiles of an instance, from the control plane."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from ctypes import c_int32, c_int64, c_uint32, c_uint64
from dataclasses import dataclass
from typing import Any

from p4engine.program_info import Action, Table
from p4engine.switch.pipeline_instance import Instance
from p4engine.values.matches import Match, from_match_words, match_words, param_words, priority_of
from p4engine.values.numbers import ControlError, from_words, word_array, word_count

NEVER = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a table: with an action, or with a member or a group of the table's profile.
    match: None for the default entry, whose handle is -1."""

    handle: int
    match: tuple[Match, ...] | None
    priority: int
    action: str | None = None
    params: tuple[int, ...] = ()
    member: int | None = None
    group: int | None = None

    def plain(self) -> dict[str, Any]:
        """In plain values."""
        match = None if self.match is None else [each.plain() for each in self.match]
        made: dict[str, Any] = {"handle": self.handle, "match": match, "priority": self.priority}
        if self.action is not None:
            return made | {"action": self.action, "params": list(self.params)}
        if self.member is not None:
            return made | {"member": self.member}
        return made | {"group": self.group}


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
        t = self.names.table(table)
        a = self.names.action(t, action)
        if a.default_only:
            raise ControlError(f"action {a.name} is only for the default of {t.name}")
        status = self.lib.p4_table_add(
            self.handle,
            t.id,
            word_array(match_words(t, match)),
            priority_of(t, priority),
            a.id,
            word_array(param_words(a, params)),
        )
        return self._added(t, status)

    def _added(self, t: Table, status: int) -> int:
        """The handle of a new entry, which ages from now on."""
        handle = self._check(status, f"table {t.name}")
        if t.ages:
            self.lib.p4_age_start(self.handle, t.id, handle, self.clock())
        return handle

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
        t = self.names.table(table)
        status = self.lib.p4_table_add_indirect(
            self.handle,
            t.id,
            word_array(match_words(t, match)),
            priority_of(t, priority),
            int(group is not None),
            group if group is not None else member or 0,
        )
        return self._added(t, status)

    def table_modify(
        self, table: str, handle: int, action: str, params: Sequence[Any] = ()
    ) -> None:
        """Give an entry another action or other parameters."""
        t = self.names.table(table)
        a = self.names.action(t, action)
        status = self.lib.p4_table_modify(
            self.handle, t.id, handle, a.id, word_array(param_words(a, params))
        )
        self._check(status, f"table {t.name}, entry {handle}")

    def table_modify_indirect(
        self, table: str, handle: int, *, member: int | None = None, group: int | None = None
    ) -> None:
        """Point an entry to another member or group of the table's action profile."""
        t = self.names.table(table)
        status = self.lib.p4_table_modify_indirect(
            self.handle,
            t.id,
            handle,
            int(group is not None),
            group if group is not None else member or 0,
        )
        self._check(status, f"table {t.name}, entry {handle}")

    def table_delete(self, table: str, handle: int) -> None:
        """Remove an entry; its handle is not used again."""
        t = self.names.table(table)
        status = self.lib.p4_table_delete(self.handle, t.id, handle)
        self._check(status, f"table {t.name}, entry {handle}")

    def table_clear(self, table: str) -> None:
        """Remove all entries; the default action stays."""
        t = self.names.table(table)
        self._check(self.lib.p4_table_clear(self.handle, t.id), f"table {t.name}")

    def table_set_default(self, table: str, action: str, params: Sequence[Any] = ()) -> None:
        """Set what a miss runs."""
        t = self.names.table(table)
        a = self.names.action(t, action)
        status = self.lib.p4_table_set_default(
            self.handle, t.id, a.id, word_array(param_words(a, params))
        )
        self._check(status, f"table {t.name}, default action")

    def table_set_default_indirect(
        self, table: str, *, member: int | None = None, group: int | None = None
    ) -> None:
        """Have a miss run a member, or a group's choice, of the table's profile."""
        t = self.names.table(table)
        status = self.lib.p4_table_set_default_indirect(
            self.handle,
            t.id,
            int(group is not None),
            group if group is not None else member or 0,
        )
        self._check(status, f"table {t.name}, default action")

    def table_reset_default(self, table: str) -> None:
        """Set the default action of the program's text again."""
        t = self.names.table(table)
        status = self.lib.p4_table_reset_default(self.handle, t.id)
        self._check(status, f"table {t.name}, default action")

    def table_count(self, table: str) -> int:
        """The number of entries."""
        count: int = self.lib.p4_table_count(self.handle, self.names.table(table).id)
        return count

    def table_find(self, table: str, match: Sequence[Any], priority: int | None = None) -> int:
        """The handle of the entry with exactly this match."""
        t = self.names.table(table)
        status = self.lib.p4_table_find(
            self.handle, t.id, word_array(match_words(t, match)), priority_of(t, priority)
        )
        return self._check(status, f"table {t.name}")

    def table_get(self, table: str, handle: int) -> dict[str, Any]:
        """One entry (handle -1: the default), as `table_dump` has it."""
        return self.entry(table, handle).plain()

    def table_dump(self, table: str) -> list[dict[str, Any]]:
        """All entries, then the default (handle -1): handle, match, priority, action, params or
        member/group."""
        return [entry.plain() for entry in self.entries(table)]

    def entry(self, table: str, handle: int) -> Entry:
        """One entry; handle -1: the default."""
        return self._entry(self.names.table(table), handle)

    def entries(self, table: str) -> list[Entry]:
        """All entries, then the default."""
        t = self.names.table(table)
        entries = []
        handle = self.lib.p4_table_next(self.handle, t.id, -1)
        while handle >= 0:
            entries.append(self._entry(t, handle))
            handle = self.lib.p4_table_next(self.handle, t.id, handle)
        if t.actions:
            entries.append(self._entry(t, -1))
        return entries

    def _entry(self, t: Table, handle: int) -> Entry:
        keys = t.match_keys
        words = (c_uint64 * (2 * sum(word_count(k.width) for k in keys) + 1))()
        params = _room(t.actions)
        priority, target, which = c_int32(), c_uint32(), c_uint32()
        status = self.lib.p4_table_get(
            self.handle,
            t.id,
            handle,
            words,
            ctypes.byref(priority),
            ctypes.byref(target),
            ctypes.byref(which),
            params,
        )
        self._check(status, f"table {t.name}, entry {handle}")
        match = tuple(from_match_words(keys, list(words))) if handle >= 0 else None
        if target.value == 1:
            return Entry(handle, match, priority.value, member=which.value)
        if target.value:
            return Entry(handle, match, priority.value, group=which.value)
        action = t.actions[which.value]
        return Entry(handle, match, priority.value, action.name, _values(action, params))

    # ---- idle timeouts ----

    def start_clock(self, clock: Callable[[], int]) -> None:
        """Ages of entries are counted in the times in ns that `clock` gives, which are those of
        packets; entries of the program's text age from now on."""
        self.clock = clock
        for t in self.info.tables:
            handle = self.lib.p4_table_next(self.handle, t.id, -1) if t.ages else -1
            while handle >= 0:
                self.lib.p4_age_start(self.handle, t.id, handle, clock())
                handle = self.lib.p4_table_next(self.handle, t.id, handle)

    def table_set_timeout(
        self, table: str, handle: int, ttl_ns: int, since_hit_ns: int | None = None
    ) -> None:
        """Let an entry be idle when no packet has hit it for `ttl_ns`; 0: never. since_hit_ns: as
        if the last hit was so long ago. Calls `on_timeout`(ttl_ns)."""
        t = self.names.table(table)
        for value in (ttl_ns, since_hit_ns or 0):
            if not 0 <= value < 2**63:  # ctypes would wrap it silently
                raise ControlError(f"table {t.name}: {value} ns is no time")
        status = self.lib.p4_age_set(self.handle, t.id, handle, ttl_ns)
        if not status and since_hit_ns is not None:
            hit_ns = max(0, self.clock() - since_hit_ns)
            status = self.lib.p4_age_start(self.handle, t.id, handle, hit_ns)
        self._check(status, f"table {t.name}, entry {handle}, idle timeout")
        if ttl_ns:
            self.on_timeout(ttl_ns)

    def table_age(self, table: str, handle: int) -> tuple[int, int]:
        """(idle timeout or 0, time since the last hit) of an entry, in ns; before its first hit,
        the time since it was added."""
        t = self.names.table(table)
        ttl_ns, hit_ns = c_uint64(), c_uint64()
        status = self.lib.p4_age_get(
            self.handle, t.id, handle, ctypes.byref(ttl_ns), ctypes.byref(hit_ns)
        )
        self._check(status, f"table {t.name}, entry {handle}, age")
        return ttl_ns.value, max(0, self.clock() - hit_ns.value)

    def table_idle(
        self, table: str, after: int = -1, most: int = 1024
    ) -> tuple[list[int], int | None]:
        """The entries that have become idle, and start to be counted again.

        Args:
            after, most: at most so many handles, of the entries behind this one (-1: of all). If
                there are as many, there may be more behind the last.

        Returns:
            (handles, the earliest time in ns at which one of the entries that were looked at can
            be idle, None: never).
        """
        t = self.names.table(table)
        handles, next_ns = (c_int64 * most)(), c_uint64(NEVER)
        status = self.lib.p4_table_idle(
            self.handle, t.id, self.clock(), after, handles, most, ctypes.byref(next_ns)
        )
        count = self._check(status, f"table {t.name}, idle timeouts")
        return handles[:count], None if next_ns.value == NEVER else next_ns.value

    # ---- action profiles ----

    def member_add(self, profile: str, action: str, params: Sequence[Any] = ()) -> int:
        """Add a member to an action profile; returns its number."""
        p = self.names.profile(profile)
        a = self.names.profile_action(p, action)
        status = self.lib.p4_profile_add_member(
            self.handle, p.id, a.id, word_array(param_words(a, params))
        )
        return self._check(status, f"action profile {p.name}")

    def member_modify(
        self, profile: str, member: int, action: str, params: Sequence[Any] = ()
    ) -> None:
        """Give a member another action or other parameters."""
        p = self.names.profile(profile)
        a = self.names.profile_action(p, action)
        status = self.lib.p4_profile_modify_member(
            self.handle, p.id, member, a.id, word_array(param_words(a, params))
        )
        self._check(status, f"action profile {p.name}, member {member}")

    def member_delete(self, profile: str, member: int) -> None:
        """Remove a member that no entry and no group uses."""
        p = self.names.profile(profile)
        status = self.lib.p4_profile_delete_member(self.handle, p.id, member)
        self._check(status, f"action profile {p.name}, member {member}")

    def group_add(self, profile: str, members: Sequence[int] = ()) -> int:
        """Make a group of members; returns its number."""
        p = self.names.profile(profile)
        what = f"action profile {p.name}"
        group = self._check(self.lib.p4_profile_add_group(self.handle, p.id), what)
        for member in members:
            self.group_add_member(profile, group, member)
        return group

    def group_delete(self, profile: str, group: int) -> None:
        """Remove a group that no entry uses."""
        p = self.names.profile(profile)
        status = self.lib.p4_profile_delete_group(self.handle, p.id, group)
        self._check(status, f"action profile {p.name}, group {group}")

    def group_add_member(self, profile: str, group: int, member: int) -> None:
        """Put a member into a group."""
        p = self.names.profile(profile)
        status = self.lib.p4_profile_group_add(self.handle, p.id, group, member)
        self._check(status, f"action profile {p.name}, group {group}, member {member}")

    def group_remove_member(self, profile: str, group: int, member: int) -> None:
        """Take a member out of a group."""
        p = self.names.profile(profile)
        status = self.lib.p4_profile_group_remove(self.handle, p.id, group, member)
        self._check(status, f"action profile {p.name}, group {group}, member {member}")

    def profile_dump(self, profile: str) -> dict[str, list[dict[str, Any]]]:
        """{"members": [{"member", "action", "params"}], "groups": [{"group", "members"}]}, in the
        order of their numbers."""
        p = self.names.profile(profile)
        actions = next((t.actions for t in self.info.tables if t.profile == p.id), ())
        members, params, which = [], _room(actions), c_uint32()
        number = self.lib.p4_profile_next_member(self.handle, p.id, -1)
        while number >= 0:
            self.lib.p4_profile_get_member(self.handle, p.id, number, ctypes.byref(which), params)
            action = actions[which.value]
            values = list(_values(action, params))
            members.append({"member": number, "action": action.name, "params": values})
            number = self.lib.p4_profile_next_member(self.handle, p.id, number)
        room = (c_uint32 * max(1, len(members)))()
        groups = []
        number = self.lib.p4_profile_next_group(self.handle, p.id, -1)
        while number >= 0:
            count = self.lib.p4_profile_get_group(self.handle, p.id, number, room, len(room))
            groups.append({"group": number, "members": room[:count]})
            number = self.lib.p4_profile_next_group(self.handle, p.id, number)
        return {"members": members, "groups": groups}

    def profile_clear(self, profile: str) -> None:
        """Remove all groups and members; no entry may use them."""
        found = self.profile_dump(profile)
        for group in found["groups"]:
            self.group_delete(profile, group["group"])
        for member in found["members"]:
            self.member_delete(profile, member["member"])


def _room(actions: Sequence[Action]) -> Any:
    """Words for the parameters of any of `actions`."""
    longest = max((sum(word_count(p.width) for p in a.params) for a in actions), default=0)
    return (c_uint64 * (longest + 1))()


def _values(action: Action, words: Any) -> tuple[int, ...]:
    """The values of an action's parameters."""
    values, at = [], 0
    for p in action.params:
        values.append(from_words(words[at : at + word_count(p.width)], p.width))
        at += word_count(p.width)
    return tuple(values)
