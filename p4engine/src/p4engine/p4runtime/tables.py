"""Table entries, default entries, and the counters and meters that belong to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from p4engine.p4runtime.arrays import (
    check_count,
    check_zero,
    decode_rates,
    encode_rates,
    put_colours,
    put_count,
)
from p4engine.p4runtime.catalog import Catalog, Table
from p4engine.p4runtime.matches import (
    decode_match,
    decode_params,
    decode_priority,
    encode_action,
    encode_match,
    encode_priority,
)
from p4engine.p4runtime.profiles import OneShot, Profiles
from p4engine.p4runtime.proto import p4runtime_pb2
from p4engine.p4runtime.status import Code, Refused, invalid
from p4engine.p4runtime.transactions import Undo
from p4engine.switch.pipeline_tables import Entry
from p4engine.values.matches import Match

DEFAULT = -1  # the engine's handle of a default entry


@dataclass(frozen=True)
class _Note:
    """The data of an entry that only its controller knows."""

    metadata: bytes = b""
    controller_metadata: int = 0
    one_shot: OneShot | None = None


@dataclass
class _Saved:
    """An entry before a write. member, group: the controller's numbers, 0: it has made none."""

    entry: Entry
    note: _Note
    member: int = 0
    group: int = 0
    count: dict[str, int] | None = None
    rates: Any = None
    colours: Any = None
    age: tuple[int, int] | None = None


class Tables:
    """`program` has the calls of `pipeline.Pipeline`."""

    def __init__(self, catalog: Catalog, program: Any, profiles: Profiles) -> None:
        self.catalog = catalog
        self.program = program
        self.profiles = profiles
        self.notes: dict[tuple[int, int], _Note] = {}
        self.ranks: dict[int, list[int]] = {}

    def clear(self) -> None:
        """All tables as the program's text has them."""
        for table in self.catalog.tables.values():
            if not table.const_entries:
                self.program.table_clear(table.name)
            if not table.const_default and not table.profile:
                self.program.table_reset_default(table.name)
        for note in self.notes.values():
            if note.one_shot:
                self.profiles.remove_one_shot(note.one_shot)
        self.notes.clear()

    # ---- writing ----

    def write(self, kind: str, entry: Any) -> None:
        """Insert, modify or delete an entry."""
        table = self.catalog.find("tables", entry.table_id)
        if kind != "DELETE":  # a deletion looks at the key only
            self._check(table, entry)
            if entry.HasField("time_since_last_hit"):
                invalid(f"table {table.name}: time_since_last_hit is read only")
        if entry.is_default_action:
            self._write_default(kind, table, entry)
            return
        if table.const_entries and (kind != "MODIFY" or entry.HasField("action")):
            raise Refused(Code.PERMISSION_DENIED, f"table {table.name} has const entries")
        if entry.is_const:
            invalid(f"table {table.name}: a controller's entries are not const (is_const)")
        match, priority = decode_match(table, entry.match), self._priority(table, entry.priority)
        if kind == "INSERT":
            if not entry.HasField("action"):
                invalid(f"table {table.name}: the entry has no action")
            note, handle = self._insert(table, match, priority, entry)
        else:
            handle = self.program.table_find(table.name, match, priority)
            if kind == "DELETE":
                self.program.table_delete(table.name, handle)
                self._forget(table, handle)
                return
            note = self._modify(table, handle, entry)
        self.notes[table.id, handle] = note
        self._write_resources(table, handle, entry)

    def _check(self, table: Table, entry: Any) -> None:
        what = f"table {table.name}"
        if entry.idle_timeout_ns or entry.HasField("time_since_last_hit"):
            if not table.ages:
                invalid(f"{what}: the table does not support idle timeouts (support_timeout)")
            if entry.is_default_action or table.const_entries:
                invalid(f"{what}: default entries and those of const tables have no idle timeout")
        if entry.idle_timeout_ns < 0:
            invalid(f"{what}: an idle timeout cannot be negative")
        if entry.HasField("meter_counter_data"):
            if not table.direct_meter:
                invalid(f"{what}: the table has no direct meter")
            check_zero(entry.meter_counter_data, what)
        if entry.HasField("counter_data"):
            if not table.direct_counter:
                invalid(f"{what}: the table has no direct counter")
            check_count(entry.counter_data, what)
        if entry.HasField("meter_config"):
            if not table.direct_meter:
                invalid(f"{what}: the table has no direct meter")
            self._rates(table, entry.meter_config)

    def _rates(self, table: Table, config: Any) -> list[tuple[float, float]] | None:
        kind = self.catalog.meter_types[table.direct_meter]
        return decode_rates(config, kind, f"table {table.name}")

    def _write_default(self, kind: str, table: Table, entry: Any) -> None:
        what = f"the default entry of {table.name}"
        if kind != "MODIFY":
            invalid(f"{what} can only be modified")
        if entry.match or entry.priority:
            invalid(f"{what} has neither match nor priority")
        if table.const_default or table.profile:
            raise Refused(Code.PERMISSION_DENIED, f"{what} is constant")
        if not entry.HasField("action"):
            self.program.table_reset_default(table.name)
            self.notes.pop((table.id, DEFAULT), None)
            self._reset_resources(table)
        else:
            name, params = self._action(table, entry.action, default=True)
            self.program.table_set_default(table.name, name, params)
            self.notes[table.id, DEFAULT] = _Note(entry.metadata, entry.controller_metadata)
        self._write_resources(table, DEFAULT, entry)

    def _action(self, table: Table, message: Any, default: bool = False) -> tuple[str, list[int]]:
        if message.WhichOneof("type") != "action":
            invalid(f"table {table.name}: its entries have an action of their own")
        action = self.catalog.action_of(table, message.action.action_id, default)
        return action.name, decode_params(action, message.action)

    def _target(self, table: Table, message: Any) -> tuple[dict[str, int], OneShot | None]:
        """The target of an entry of a table with an action profile, as the engine numbers it."""
        kind = message.WhichOneof("type")
        if kind == "action_profile_member_id":
            number = self.profiles.member_number(table, message.action_profile_member_id)
            return {"member": number}, None
        if kind == "action_profile_group_id":
            number = self.profiles.group_number(table, message.action_profile_group_id)
            return {"group": number}, None
        if kind == "action_profile_action_set":
            made = self.profiles.add_one_shot(table, message.action_profile_action_set)
            return {"group": made.group}, made
        invalid(f"table {table.name}: its entries point to members or groups of a profile")

    def _insert(
        self, table: Table, match: list[Match], priority: int, entry: Any
    ) -> tuple[_Note, int]:
        one_shot = None
        if not table.profile:
            name, params = self._action(table, entry.action)
            handle = self.program.table_add(table.name, name, match, params, priority)
        else:
            target, one_shot = self._target(table, entry.action)
            try:
                handle = self.program.table_add_indirect(
                    table.name, match, priority=priority, **target
                )
            except Exception:
                if one_shot:
                    self.profiles.remove_one_shot(one_shot)
                raise
        return _Note(entry.metadata, entry.controller_metadata, one_shot), handle

    def _modify(self, table: Table, handle: int, entry: Any) -> _Note:
        old = self.notes.get((table.id, handle), _Note())
        one_shot = old.one_shot
        if entry.HasField("action") and not table.profile:
            name, params = self._action(table, entry.action)
            self.program.table_modify(table.name, handle, name, params)
        elif entry.HasField("action"):
            target, one_shot = self._target(table, entry.action)
            self.program.table_modify_indirect(table.name, handle, **target)
            if old.one_shot:
                self.profiles.remove_one_shot(old.one_shot)
        return _Note(entry.metadata, entry.controller_metadata, one_shot)

    def _forget(self, table: Table, handle: int) -> None:
        note = self.notes.pop((table.id, handle), None)
        if note and note.one_shot:
            self.profiles.remove_one_shot(note.one_shot)

    def _write_resources(self, table: Table, handle: int, entry: Any) -> None:
        if table.ages and handle != DEFAULT:
            self.program.table_set_timeout(table.name, handle, entry.idle_timeout_ns)
        if table.direct_meter:
            config = entry.meter_config if entry.HasField("meter_config") else None
            self.program.meter_set(table.name, handle, self._rates(table, config))
        if entry.HasField("meter_counter_data"):
            self.program.meter_counts_set(table.name, handle)
        if entry.HasField("counter_data"):
            data = entry.counter_data
            self.program.counter_write(table.name, handle, data.packet_count, data.byte_count)

    def _reset_resources(self, table: Table) -> None:
        """Reset the resources of the default entry."""
        if table.direct_counter:
            self.program.counter_write(table.name, DEFAULT, 0, 0)
        if table.direct_meter:
            self.program.meter_counts_set(table.name, DEFAULT)

    # ---- taking back ----

    def undo(self, kind: str, entry: Any) -> Undo:
        """The undo of a write that comes now. Raises Refused: the write will be refused."""
        table = self.catalog.find("tables", entry.table_id)
        if entry.is_default_action:
            saved = self._save(table, DEFAULT)
            return lambda: self._restore(table, DEFAULT, saved)
        match, priority = decode_match(table, entry.match), self._priority(table, entry.priority)

        def find() -> int:
            handle: int = self.program.table_find(table.name, match, priority)
            return handle

        if kind == "INSERT":

            def remove() -> None:
                handle = find()
                self.program.table_delete(table.name, handle)
                self._forget(table, handle)

            return remove
        saved = self._save(table, find())
        if kind == "DELETE":
            return lambda: self._restore(table, None, saved)
        return lambda: self._restore(table, find(), saved)

    def _save(self, table: Table, handle: int) -> _Saved:
        entry = self._get(table, handle)
        made = _Saved(entry, self.notes.get((table.id, handle), _Note()))
        if entry.member is not None:
            made.member = self.profiles.member_id(table.profile, entry.member)
        if entry.group is not None:
            made.group = self.profiles.group_id(table.profile, entry.group)
        if table.direct_counter:
            made.count = self.program.counter_read(table.name, handle)
        if table.direct_meter:
            made.rates = self.program.meter_get(table.name, handle)
            made.colours = self.program.meter_counts(table.name, handle)
        if table.ages and handle != DEFAULT:
            made.age = self.program.table_age(table.name, handle)
        return made

    def _restore(self, table: Table, handle: int | None, saved: _Saved) -> None:
        """Make an entry what it was; None: it has been deleted."""
        entry, note, program = saved.entry, saved.note, self.program
        if entry.action is not None:
            what = (entry.action, entry.match, entry.params, entry.priority)
            if handle is None:
                handle = program.table_add(table.name, *what)
            elif handle == DEFAULT:
                program.table_set_default(table.name, entry.action, entry.params)
            else:
                program.table_modify(table.name, handle, entry.action, entry.params)
        else:
            now = _Note() if handle is None else self.notes.get((table.id, handle), _Note())
            if note.one_shot and now.one_shot is not note.one_shot:
                note = replace(note, one_shot=self.profiles.again(note.one_shot))
            target = self._old_target(table, saved, note)
            if handle is None:
                handle = program.table_add_indirect(
                    table.name, entry.match, priority=entry.priority, **target
                )
            else:
                program.table_modify_indirect(table.name, handle, **target)
                if now.one_shot and now.one_shot is not note.one_shot:
                    self.profiles.remove_one_shot(now.one_shot)
        self.notes[table.id, handle] = note
        if saved.count is not None:
            program.counter_write(table.name, handle, **saved.count)
        if table.direct_meter:
            program.meter_set(table.name, handle, saved.rates)
            program.meter_counts_set(table.name, handle, saved.colours)
        if saved.age is not None:
            program.table_set_timeout(table.name, handle, *saved.age)

    def _old_target(self, table: Table, saved: _Saved, note: _Note) -> dict[str, int]:
        """Members and groups that were made again have other numbers in the engine."""
        if note.one_shot:
            return {"group": note.one_shot.group}
        if saved.member:
            return {"member": self.profiles.member_number(table, saved.member)}
        if saved.group:
            return {"group": self.profiles.group_number(table, saved.group)}
        name = "member" if saved.entry.member is not None else "group"
        return {name: getattr(saved.entry, name)}

    def undo_counter(self, kind: str, entry: Any) -> Undo:
        """Undo call, as by `undo`, for `write_counter`."""
        table, handle = self._locate(kind, entry.table_entry, "counter")
        old = self.program.counter_read(table.name, handle)

        def restore() -> None:
            _, now = self._locate(kind, entry.table_entry, "counter")
            self.program.counter_write(table.name, now, **old)

        return restore

    def undo_meter(self, kind: str, entry: Any) -> Undo:
        """Undo call, as by `undo`, for `write_meter`."""
        table, handle = self._locate(kind, entry.table_entry, "meter")
        old = self.program.meter_get(table.name, handle)
        counts = self.program.meter_counts(table.name, handle)

        def restore() -> None:
            _, now = self._locate(kind, entry.table_entry, "meter")
            self.program.meter_set(table.name, now, old)
            self.program.meter_counts_set(table.name, now, counts)

        return restore

    # ---- reading ----

    def read(self, entry: Any) -> Iterator[Any]:
        """The entries that a request asks for; what it leaves out matches all."""
        for table, found in self._asked(entry):
            made = p4runtime_pb2.Entity()
            self._put(table, found, made.table_entry)
            handle = found.handle
            if entry.HasField("counter_data") and table.direct_counter:
                value = self.program.counter_read(table.name, handle)
                put_count(made.table_entry.counter_data, value)
            if entry.HasField("meter_config") and table.direct_meter:
                rates = self.program.meter_get(table.name, handle)
                if rates is not None:
                    encode_rates(rates, made.table_entry.meter_config)
            if entry.HasField("meter_counter_data") and table.direct_meter:
                counts = self.program.meter_counts(table.name, handle)
                put_colours(made.table_entry.meter_counter_data, counts)
            if entry.HasField("time_since_last_hit") and table.ages:
                _, elapsed_ns = self.program.table_age(table.name, handle)
                made.table_entry.time_since_last_hit.elapsed_ns = elapsed_ns
            yield made

    def identify(self, table: Table, handle: int, target: Any) -> None:
        """Fill in a TableEntry, without its action."""
        self._put(table, self._get(table, handle), target)
        target.ClearField("action")

    def _asked(self, entry: Any) -> Iterator[tuple[Table, Entry]]:
        """(table, the engine's entry) of what a TableEntry asks for."""
        if not entry.table_id:
            for _, table in sorted(self.catalog.tables.items()):
                yield from ((table, each) for each in self._entries(table) if each.handle >= 0)
            return
        table = self.catalog.find("tables", entry.table_id)
        self._check(table, entry)
        if entry.is_default_action:
            if entry.match or entry.priority:
                invalid(f"the default entry of {table.name} has neither match nor priority")
            candidates: Iterable[Entry] = [e for e in self._entries(table) if e.handle == DEFAULT]
        elif entry.match and (entry.priority or not table.ordered):
            candidates = self._exactly(table, entry)
        else:
            match = decode_match(table, entry.match) if entry.match else None
            candidates = (
                each
                for each in self._entries(table)
                if each.handle >= 0 and (match is None or each.match == tuple(match))
            )
        wanted = entry.action.action.action_id
        for each in candidates:
            note = self.notes.get((table.id, each.handle), _Note())
            if entry.priority and self._read_priority(table, each) != entry.priority:
                continue
            if wanted and self.catalog.action_ids.get(each.action or "") != wanted:
                continue
            if entry.metadata not in (b"", note.metadata):
                continue
            if entry.controller_metadata not in (0, note.controller_metadata):
                continue
            yield table, each

    def _exactly(self, table: Table, entry: Any) -> list[Entry]:
        match, priority = decode_match(table, entry.match), self._priority(table, entry.priority)
        return [self._get(table, self.program.table_find(table.name, match, priority))]

    def _get(self, table: Table, handle: int) -> Entry:
        found: Entry = self.program.entry(table.name, handle)
        return found

    def _entries(self, table: Table) -> list[Entry]:
        found: list[Entry] = self.program.entries(table.name)
        return found

    def _put(self, table: Table, found: Entry, target: Any) -> None:
        target.table_id = table.id
        note = self.notes.get((table.id, found.handle), _Note())
        target.metadata, target.controller_metadata = note.metadata, note.controller_metadata
        if found.match is None:
            target.is_default_action = True
            target.is_const = table.const_default or bool(table.profile)
        else:
            encode_match(table.keys, found.match, target.match)
            target.priority = self._read_priority(table, found)
            target.is_const = table.const_entries
            if table.ages:
                target.idle_timeout_ns, _ = self.program.table_age(table.name, found.handle)
        if found.action is not None:
            # A table without NoAction in its list may still do nothing by default.
            if found.action in self.catalog.action_ids:
                made = encode_action(self.catalog, found.action, found.params)
                target.action.action.CopyFrom(made)
        elif note.one_shot:
            target.action.action_profile_action_set.CopyFrom(note.one_shot.entry)
        elif found.group is not None:
            number = self.profiles.group_id(table.profile, found.group)
            target.action.action_profile_group_id = number
        elif found.member is not None:
            number = self.profiles.member_id(table.profile, found.member)
            target.action.action_profile_member_id = number

    # ---- priorities ----

    def _ranks(self, table: Table) -> list[int]:
        """The engine's priorities of const entries, from the weakest: P4Runtime's are 1, 2, ..."""
        if table.id not in self.ranks:  # const: they stay as they are
            found = {e.priority for e in self._entries(table) if e.handle >= 0}
            self.ranks[table.id] = sorted(found, reverse=True)
        return self.ranks[table.id]

    def _priority(self, table: Table, priority: int) -> int:
        if not (table.const_entries and table.ordered):
            return decode_priority(table, priority)
        ranks = self._ranks(table)
        if not 1 <= priority <= len(ranks):
            raise Refused(Code.NOT_FOUND, f"table {table.name} has no priority {priority}")
        return ranks[priority - 1]

    def _read_priority(self, table: Table, found: Entry) -> int:
        if not (table.const_entries and table.ordered):
            return encode_priority(table, found.priority)
        return self._ranks(table).index(found.priority) + 1

    # ---- direct resources ----

    def _locate(self, kind: str, entry: Any, resource: str) -> tuple[Table, int]:
        if kind != "MODIFY":
            invalid(f"a direct {resource} can only be modified")
        table = self.catalog.find("tables", entry.table_id)
        if not getattr(table, f"direct_{resource}"):
            invalid(f"table {table.name} has no direct {resource}")
        if entry.is_default_action:
            return table, DEFAULT
        match, priority = decode_match(table, entry.match), self._priority(table, entry.priority)
        return table, self.program.table_find(table.name, match, priority)

    def write_counter(self, kind: str, entry: Any) -> None:
        """Set an entry's counter; without data nothing changes."""
        table, handle = self._locate(kind, entry.table_entry, "counter")
        data = check_count(entry.data, f"table {table.name}")
        if entry.HasField("data"):
            self.program.counter_write(table.name, handle, data.packet_count, data.byte_count)

    def write_meter(self, kind: str, entry: Any) -> None:
        """Set an entry's meter; without a configuration all packets are green."""
        table, handle = self._locate(kind, entry.table_entry, "meter")
        config = entry.config if entry.HasField("config") else None
        rates = self._rates(table, config)
        if entry.HasField("counter_data"):
            check_zero(entry.counter_data, f"table {table.name}")
        self.program.meter_set(table.name, handle, rates)
        if entry.HasField("counter_data"):
            self.program.meter_counts_set(table.name, handle)

    def read_direct(self, entry: Any, resource: str) -> Iterator[Any]:
        """The direct counters or meters (`resource`) of the entries that are asked for."""
        for table, found in self._asked(entry.table_entry):
            if not getattr(table, f"direct_{resource}"):
                if entry.table_entry.table_id:
                    invalid(f"table {table.name} has no direct {resource}")
                continue
            made = p4runtime_pb2.Entity()
            target = getattr(made, f"direct_{resource}_entry")
            self._put(table, found, target.table_entry)
            target.table_entry.ClearField("action")
            if resource == "counter":
                put_count(target.data, self.program.counter_read(table.name, found.handle))
            else:
                rates = self.program.meter_get(table.name, found.handle)
                if rates is not None:
                    encode_rates(rates, target.config)
                if entry.HasField("counter_data"):
                    put_colours(
                        target.counter_data, self.program.meter_counts(table.name, found.handle)
                    )
            yield made
