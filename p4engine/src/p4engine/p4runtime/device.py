"""A switch as a P4Runtime controller sees it: requests in, replies out; no network in here.

Everything a request says is checked before the engine hears of it, and the engine checks again. An
update that is refused changes nothing.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from p4engine.frontend.diagnostics import P4Error
from p4engine.p4runtime.arrays import Arrays
from p4engine.p4runtime.catalog import Catalog
from p4engine.p4runtime.device_config import source_of
from p4engine.p4runtime.digests import Digests
from p4engine.p4runtime.idle import IdleTimeouts
from p4engine.p4runtime.p4info_difference import first_difference
from p4engine.p4runtime.profiles import Profiles
from p4engine.p4runtime.proto import p4info_pb2, p4runtime_pb2
from p4engine.p4runtime.replication import Replication
from p4engine.p4runtime.status import Code, Refused, Result, invalid, of_engine, unimplemented
from p4engine.p4runtime.tables import Tables
from p4engine.p4runtime.transactions import Undo, all_or_nothing

API_VERSION = "1.4.1"
# What carries out an update, and what says how it is taken back.
_Writer = tuple[Callable[[str, Any], None], Callable[[str, Any], Undo]]
LONGEST_MESSAGE = 3000  # characters; clients of gRPC take 8 KiB with everything around it
AT_ONCE = 64  # updates or entities between which packets may pass


@dataclass(frozen=True)
class _Program:
    """A program that can be run, as a controller has configured it. cookie: None: there is none."""

    compiled: Any
    info: Any
    config: bytes
    cookie: int | None = None


def _read_externs(entry: Any) -> Iterator[Any]:
    """All externs that are none of the other entities: the architectures have none."""
    if entry.extern_type_id or entry.extern_id:
        raise Refused(Code.NOT_FOUND, "the architecture has no other externs")
    return iter(())


def _shortened(text: str) -> str:
    if len(text) <= LONGEST_MESSAGE:
        return text
    return text[:LONGEST_MESSAGE].rpartition("\n")[0] + "\n(and more)"


def _to_log(text: str) -> None:
    print(f"p4runtime: {text}", file=sys.stderr, flush=True)


class Device:
    """A switch's program for controllers.

    Args:
        switch: a `library.Switch` (or one with interfaces).
        info: the P4Info message of its program.
        lock: makes a context in which no packet is processed.
        config: the device configuration of its program, for controllers that ask.
        log: takes lines of text about what controllers have had done.
    """

    def __init__(
        self,
        switch: Any,
        info: Any,
        lock: Callable[[], AbstractContextManager[Any]],
        *,
        config: bytes = b"",
        log: Callable[[str], None] = _to_log,
    ) -> None:
        self.switch = switch
        self.lock = lock
        self.log = log
        self.saved: _Program | None = None
        self.on_earlier_idle: Callable[[], None] = lambda: None  # of IdleTimeouts
        self.replication = Replication(switch)
        self._take(
            _Program(
                switch.compiled, p4info_pb2.P4Info.FromString(info.SerializeToString()), config
            )
        )

    def _take(self, program: _Program) -> None:
        """Be the device of the program that the switch runs now, from its beginnings."""
        self.program = program
        self.catalog = Catalog(program.info, program.compiled.info)
        pipeline = self.switch.pipeline
        self.profiles = Profiles(self.catalog, pipeline)
        self.tables = Tables(self.catalog, pipeline, self.profiles)
        self.arrays = Arrays(self.catalog, pipeline)
        self.digests = Digests(self.catalog)
        self.idle = IdleTimeouts(
            self.catalog, pipeline, self.tables, self.lock, lambda: self.on_earlier_idle()
        )

    # ---- Write ----

    def write(self, updates: Any, *, together: bool = False) -> list[Result]:
        """Carry out all updates, each by itself, or with `together` all or none, and without a
        packet in between; what came of each, in order."""
        if together:
            with self.lock():
                return all_or_nothing(updates, self._write_one, self._undo)
        results, left = [], iter(updates)
        while batch := list(islice(left, AT_ONCE)):
            with self.lock():
                results += [self._write_one(update) for update in batch]
        return results

    def _write_one(self, update: Any) -> Result:
        try:
            kind, entry, (write, _) = self._writer(update)
            write(kind, entry)
        except Refused as error:
            return error.code, error.message
        except P4Error as error:
            refused = of_engine(error)
            return refused.code, refused.message
        except Exception as error:  # a defect; the switch and the other updates must live on
            traceback.print_exc(file=sys.stderr)
            return Code.INTERNAL, f"internal error: {error!r}"
        return Code.OK, ""

    def _undo(self, update: Any) -> Undo | None:
        """The undo of an update; None: it will be refused."""
        try:
            kind, entry, (_, undo) = self._writer(update)
            return undo(kind, entry)
        except (Refused, P4Error):
            return None

    def _writer(self, update: Any) -> tuple[str, Any, _Writer]:
        """INSERT, MODIFY or DELETE; the entity; what writes such entities. Raises Refused."""
        kinds = type(update).Type
        if update.type not in kinds.values() or update.type == kinds.Value("UNSPECIFIED"):
            invalid("the update says neither INSERT nor MODIFY nor DELETE")
        tables, profiles, arrays = self.tables, self.profiles, self.arrays
        writers: dict[str, _Writer] = {
            "table_entry": (tables.write, tables.undo),
            "direct_counter_entry": (tables.write_counter, tables.undo_counter),
            "direct_meter_entry": (tables.write_meter, tables.undo_meter),
            "action_profile_member": (profiles.write_member, profiles.undo_member),
            "action_profile_group": (profiles.write_group, profiles.undo_group),
            "counter_entry": (arrays.write_counter, arrays.undo_counter),
            "meter_entry": (arrays.write_meter, arrays.undo_meter),
            "register_entry": (arrays.write_register, arrays.undo_register),
            "value_set_entry": (arrays.write_value_set, arrays.undo_value_set),
            "packet_replication_engine_entry": (self.replication.write, self.replication.undo),
            "digest_entry": (self.digests.write, self.digests.undo),
        }
        which = update.entity.WhichOneof("entity")
        if which is None:
            invalid("the update has no entity")
        if which not in writers:
            unimplemented("the architecture has no other externs")
        return kinds.Name(update.type), getattr(update.entity, which), writers[which]

    # ---- Read ----

    def read(self, entities: Any, results: list[Result]) -> Iterator[list[Any]]:
        """The entities that a request asks for, some at a time, between which packets may pass.

        Args:
            results: gets what came of each entity of the request, in order.
        """
        for entity in entities:
            try:
                yield from self._read_one(entity)
            except Refused as error:
                results.append((error.code, error.message))
            except P4Error as error:
                refused = of_engine(error)
                results.append((refused.code, refused.message))
            else:
                results.append((Code.OK, ""))

    def _read_one(self, entity: Any) -> Iterator[list[Any]]:
        which = entity.WhichOneof("entity")
        if which is None:
            invalid("an entity of the request is empty")
        found = self._readers()[which](getattr(entity, which))
        while True:
            with self.lock():
                batch = list(islice(found, AT_ONCE))
            if not batch:
                break
            yield batch

    def _readers(self) -> dict[str, Callable[[Any], Iterator[Any]]]:
        return {
            "table_entry": self.tables.read,
            "direct_counter_entry": lambda entry: self.tables.read_direct(entry, "counter"),
            "direct_meter_entry": lambda entry: self.tables.read_direct(entry, "meter"),
            "action_profile_member": self.profiles.read_members,
            "action_profile_group": self.profiles.read_groups,
            "counter_entry": self.arrays.read_counters,
            "meter_entry": self.arrays.read_meters,
            "register_entry": self.arrays.read_registers,
            "value_set_entry": self.arrays.read_value_sets,
            "packet_replication_engine_entry": self.replication.read,
            "digest_entry": self.digests.read,
            "extern_entry": _read_externs,
        }

    # ---- pipeline configuration ----

    def set_config(self, request: Any) -> None:
        """SetForwardingPipelineConfig: another program, or the same one from its beginnings.

        A device configuration that holds P4 source is compiled (device_config.py). With any other
        the program stays that runs, if it is the one that the P4Info describes.
        """
        action = type(request).Action.Name(request.action) if request.action < 6 else ""
        if action == "COMMIT":
            if request.HasField("config"):
                invalid("COMMIT takes no configuration")
            if self.saved is None:
                raise Refused(Code.NOT_FOUND, "no configuration has been saved")
            program, self.saved = self.saved, None
            self._install(program)
            return
        if action in ("", "UNSPECIFIED"):
            invalid("the request says not what to do")
        if not request.HasField("config"):
            invalid(f"{action} needs a configuration")
        program = self._verified(request.config)
        if action == "VERIFY_AND_SAVE":
            self.saved = program
        elif action == "VERIFY_AND_COMMIT":
            self._install(program)
        elif action == "RECONCILE_AND_COMMIT":
            if program.compiled.hash != self.program.compiled.hash:
                invalid(
                    "the entries and counts of the program that runs cannot be kept for another"
                    " one: commit it with VERIFY_AND_COMMIT"
                )
            self._tell(program)
            self.program = program

    def _verified(self, config: Any) -> _Program:
        """The program that a configuration asks for. Raises Refused."""
        data, running = config.p4_device_config, self.program
        cookie = config.cookie.cookie if config.HasField("cookie") else None
        source = source_of(data) if data else None
        if source is None:
            difference = first_difference(config.p4info, running.info)
            if difference is not None:
                invalid(
                    f"the P4Info is not that of {running.compiled.info.program}, which the switch"
                    f" runs, and p4_device_config holds no P4 source to run instead: {difference}"
                )
            return _Program(running.compiled, running.info, data or running.config, cookie)
        try:
            compiled, info = source.compile(trace=running.compiled.info.trace is not None)
        except P4Error as error:
            text = _shortened(str(error))
            invalid(f"the program in p4_device_config cannot be compiled:\n{text}")
        new, own = compiled.info.architecture, running.compiled.info.architecture
        if new != own:
            invalid(f"the program in p4_device_config is for {new}, and this switch for {own}")
        difference = first_difference(config.p4info, info)
        if difference is not None:
            invalid(f"the P4Info is not that of the program in p4_device_config: {difference}")
        return _Program(compiled, info, data, cookie)

    def _install(self, program: _Program) -> None:
        self._tell(program)
        with self.lock():
            self.replication.clear()
            self.switch.install(program.compiled)
            self._take(program)

    def _tell(self, program: _Program) -> None:
        """Say in the log what comes of a configuration that is committed."""
        name, running = program.compiled.info.program, self.program
        if program.compiled.hash != running.compiled.hash:
            self.log(f"{name} runs instead of {running.compiled.info.program}")
        elif program.compiled is running.compiled and program.config != running.config:
            self.log(
                f"the device configuration ({len(program.config)} bytes) holds no P4 source and is"
                f" not loaded; its P4Info fits: {name} stays"
            )

    def get_config(self, response_type: int) -> Any:
        """A GetForwardingPipelineConfigResponse."""
        made, program = p4runtime_pb2.GetForwardingPipelineConfigResponse(), self.program
        if program.cookie is not None:
            made.config.cookie.cookie = program.cookie
        else:
            made.config.SetInParent()
        if response_type in (0, 2):
            made.config.p4info.CopyFrom(program.info)
        if response_type in (0, 3):
            made.config.p4_device_config = program.config
        return made
