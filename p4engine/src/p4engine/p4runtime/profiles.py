"""Action profiles: members, groups, and groups that belong to one table entry (one-shots).

Controllers number members and groups as they like, the engine from 0; both numbers are kept here.
The engine's groups have no weights: a member with weight w is w members of the engine with the
same action, which is what weights mean to a hash.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from p4engine.p4runtime.catalog import Catalog, Profile, Table
from p4engine.p4runtime.matches import decode_params
from p4engine.p4runtime.proto import p4runtime_pb2
from p4engine.p4runtime.status import Code, Refused, check_existence, invalid, unimplemented
from p4engine.p4runtime.transactions import Undo, opposite

HEAVIEST = 1024  # the sum of a group's weights


@dataclass
class _Member:
    """The engine's equal copies of one member, and what the controller sent."""

    numbers: list[int]
    action: tuple[str, list[int]]
    entry: Any


@dataclass
class _Group:
    """The engine's number, the engine's members in it, and what the controller sent."""

    number: int
    entry: Any
    members: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class OneShot:
    """A group with members of its own, as the engine numbers them; `entry` is its message."""

    table: int
    profile: str
    group: int
    members: tuple[int, ...]
    entry: Any


class Profiles:
    """`program` has the calls of `pipeline.Pipeline`."""

    def __init__(self, catalog: Catalog, program: Any) -> None:
        self.catalog = catalog
        self.program = program
        self.members: dict[tuple[int, int], _Member] = {}
        self.groups: dict[tuple[int, int], _Group] = {}

    def clear(self) -> None:
        """Remove all; no entry may use them any more."""
        for (profile, _), group in self.groups.items():
            self.program.group_delete(self.catalog.profiles[profile].name, group.number)
        for (profile, _), member in self.members.items():
            for number in member.numbers:
                self.program.member_delete(self.catalog.profiles[profile].name, number)
        self.groups.clear()
        self.members.clear()

    # ---- members ----

    def write_member(self, kind: str, entry: Any) -> None:
        """Insert, modify or delete a member."""
        profile = self.catalog.find("profiles", entry.action_profile_id)
        key = (profile.id, entry.member_id)
        what = f"member {entry.member_id} of {profile.name}"
        if not entry.member_id:
            invalid(f"{what}: members are numbered from 1")
        check_existence(kind, key in self.members, what)
        if kind == "DELETE":
            for number in self.members[key].numbers:  # the first is in every group and entry
                self.program.member_delete(profile.name, number)
            del self.members[key]
            return
        action = self._action(profile, entry.action, what)
        full = profile.size and sum(of == profile.id for of, _ in self.members) >= profile.size
        if kind == "INSERT" and full:
            raise Refused(
                Code.RESOURCE_EXHAUSTED, f"{what}: the profile has room for {profile.size}"
            )
        stored = type(entry).FromString(entry.SerializeToString())
        if kind == "INSERT":
            self.members[key] = _Member([self._add(profile, action)], action, stored)
            return
        member = self.members[key]
        for number in member.numbers:
            self.program.member_modify(profile.name, number, *action)
        member.action, member.entry = action, stored

    def read_members(self, entry: Any) -> Iterator[Any]:
        """One member, all of a profile, or all."""
        for member in self._asked(self.members, entry.action_profile_id, entry.member_id):
            made = p4runtime_pb2.Entity()
            made.action_profile_member.CopyFrom(member.entry)
            yield made

    def member_number(self, table: Table, member: int) -> int:
        """The engine's number of a member of the table's profile."""
        found = self.members.get((table.profile, member))
        if found is None:
            raise Refused(Code.NOT_FOUND, f"table {table.name}: there is no member {member}")
        return found.numbers[0]

    def group_number(self, table: Table, group: int) -> int:
        """The engine's number of a group of the table's profile."""
        found = self.groups.get((table.profile, group))
        if found is None:
            raise Refused(Code.NOT_FOUND, f"table {table.name}: there is no group {group}")
        return found.number

    def member_id(self, profile: int, number: int) -> int:
        """The controller's number of a member; 0: no controller has made it."""
        for (of, member), found in self.members.items():
            if of == profile and number in found.numbers:
                return member
        return 0

    def group_id(self, profile: int, number: int) -> int:
        """The controller's number of a group; 0: no controller has made it."""
        return next(
            (g for (p, g), x in self.groups.items() if (p, x.number) == (profile, number)), 0
        )

    def undo_member(self, kind: str, entry: Any) -> Undo:
        """The undo of a `write_member` that comes now."""
        old = self.members.get((entry.action_profile_id, entry.member_id))
        return opposite(kind, entry, old and old.entry, self.write_member)

    # ---- groups ----

    def write_group(self, kind: str, entry: Any) -> None:
        """Insert, modify or delete a group."""
        profile = self.catalog.find("profiles", entry.action_profile_id)
        key = (profile.id, entry.group_id)
        what = f"group {entry.group_id} of {profile.name}"
        if not profile.selector:
            invalid(f"{what}: only an action selector has groups")
        if not entry.group_id:
            invalid(f"{what}: groups are numbered from 1")
        check_existence(kind, key in self.groups, what)
        if kind == "DELETE":
            self.program.group_delete(profile.name, self.groups[key].number)
            del self.groups[key]
            return
        if kind == "MODIFY" and entry.max_size != self.groups[key].entry.max_size:
            invalid(f"{what}: max_size cannot change, it is {self.groups[key].entry.max_size}")
        largest = profile.largest_group
        if largest and not 0 < entry.max_size <= largest:
            invalid(f"{what}: max_size is 1 to {largest} in this program, not {entry.max_size}")
        weights = self._weights(profile, entry, what)
        numbers = [n for member, weight in weights for n in self._copies(profile, member, weight)]
        if kind == "INSERT":
            self.groups[key] = _Group(self.program.group_add(profile.name), entry)
        group = self.groups[key]
        for number in set(group.members) - set(numbers):
            self.program.group_remove_member(profile.name, group.number, number)
        for number in sorted(set(numbers) - set(group.members)):
            self.program.group_add_member(profile.name, group.number, number)
        group.members = numbers
        group.entry = type(entry).FromString(entry.SerializeToString())

    def undo_group(self, kind: str, entry: Any) -> Undo:
        """The undo of a `write_group` that comes now."""
        old = self.groups.get((entry.action_profile_id, entry.group_id))
        return opposite(kind, entry, old and old.entry, self.write_group)

    def read_groups(self, entry: Any) -> Iterator[Any]:
        """One group, all of a profile, or all."""
        for group in self._asked(self.groups, entry.action_profile_id, entry.group_id):
            made = p4runtime_pb2.Entity()
            made.action_profile_group.CopyFrom(group.entry)
            yield made

    def _weights(self, profile: Profile, entry: Any, what: str) -> list[tuple[_Member, int]]:
        result, seen = [], set()
        for each in entry.members:
            member = self.members.get((profile.id, each.member_id))
            if member is None:
                raise Refused(Code.NOT_FOUND, f"{what}: there is no member {each.member_id}")
            if each.member_id in seen:
                invalid(f"{what}: member {each.member_id} is given twice")
            seen.add(each.member_id)
            _check_watch(each, what)
            result.append((member, each.weight))
        _check_weights(profile, [weight for _, weight in result], entry.max_size, what)
        return result

    def _copies(self, profile: Profile, member: _Member, weight: int) -> list[int]:
        while len(member.numbers) < weight:
            member.numbers.append(self._add(profile, member.action))
        return member.numbers[:weight]

    # ---- one-shots ----

    def add_one_shot(self, table: Table, entry: Any) -> OneShot:
        """Make the members and the group of an ActionProfileActionSet."""
        profile = self.catalog.find("profiles", table.profile)
        what = f"table {table.name}, action set"
        if not profile.selector:
            invalid(f"{what}: only a table with an action selector takes one")
        if entry.HasField("group_action") or entry.action_selection_mode or entry.size_semantics:
            unimplemented(f"{what}: group actions, selection modes and sizes are not supported")
        if not entry.action_profile_actions:
            invalid(f"{what}: it is empty")
        wanted = []
        for each in entry.action_profile_actions:
            _check_watch(each, what)
            wanted.append((self._action(profile, each.action, what), each.weight))
        weights = [weight for _, weight in wanted]
        _check_weights(profile, weights, 0, what)
        if profile.largest_group and profile.group_size(weights) > profile.largest_group:
            invalid(f"{what}: a group of this program has at most {profile.largest_group}")
        made: list[int] = []
        try:
            for action, weight in wanted:
                for _ in range(weight):
                    made.append(self._add(profile, action))
            group = self.program.group_add(profile.name, made)
        except Exception:
            for number in made:
                self.program.member_delete(profile.name, number)
            raise
        stored = type(entry).FromString(entry.SerializeToString())
        return OneShot(table.id, profile.name, group, tuple(made), stored)

    def again(self, one_shot: OneShot) -> OneShot:
        """One that has been removed."""
        return self.add_one_shot(self.catalog.tables[one_shot.table], one_shot.entry)

    def remove_one_shot(self, one_shot: OneShot) -> None:
        """Once no entry points to it any more."""
        self.program.group_delete(one_shot.profile, one_shot.group)
        for number in one_shot.members:
            self.program.member_delete(one_shot.profile, number)

    # ---- what they share ----

    def _action(self, profile: Profile, message: Any, what: str) -> tuple[str, list[int]]:
        if not profile.tables:
            raise Refused(Code.FAILED_PRECONDITION, f"no table uses {profile.name}")
        if not message.action_id:
            invalid(f"{what}: the action is missing")
        action = self.catalog.action_of(self.catalog.tables[profile.tables[0]], message.action_id)
        return action.name, decode_params(action, message)

    def _add(self, profile: Profile, action: tuple[str, list[int]]) -> int:
        number: int = self.program.member_add(profile.name, *action)
        return number

    def _asked(self, stored: dict[tuple[int, int], Any], profile: int, number: int) -> list[Any]:
        if profile:
            self.catalog.find("profiles", profile)
        elif number:
            invalid("a number of a member or group means nothing without its action profile")
        if number and (profile, number) not in stored:
            raise Refused(Code.NOT_FOUND, f"there is no member or group {number}")
        return [
            found
            for (p, n), found in sorted(stored.items(), key=lambda item: item[0])
            if profile in (0, p) and number in (0, n)
        ]


def _check_watch(member: Any, what: str) -> None:
    if member.WhichOneof("watch_kind") is not None and (member.watch_port or member.watch):
        unimplemented(f"{what}: ports are not watched")


def _check_weights(profile: Profile, weights: list[int], limit: int, what: str) -> None:
    """limit: of the group's size; 0: it has none of its own."""
    if any(weight < 1 for weight in weights):
        invalid(f"{what}: a weight is at least 1")
    if profile.heaviest_member and max(weights, default=0) > profile.heaviest_member:
        invalid(f"{what}: a weight of this program is at most {profile.heaviest_member}")
    if limit and profile.group_size(weights) > limit:
        raise Refused(
            Code.RESOURCE_EXHAUSTED, f"{what}: the size of the group is above max_size, {limit}"
        )
    if sum(weights) > HEAVIEST:
        raise Refused(Code.RESOURCE_EXHAUSTED, f"{what}: the weights' sum is above {HEAVIEST}")
