"""A switch as a P4Runtime controller sees it: requests in, replies out; no network in here.

Everything a request says is checked before the engine hears of it, and the engine checks again. An
update that is refused changes nothing.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

from p4engine.frontend.diagnostics import P4Error
from p4engine.p4runtime.arrays import Arrays
from p4engine.p4runtime.catalog import Catalog
from p4engine.p4runtime.digests import Digests
from p4engine.p4runtime.profiles import Profiles
from p4engine.p4runtime.proto import p4info_pb2, p4runtime_pb2
from p4engine.p4runtime.replication import Replication
from p4engine.p4runtime.status import Code, Refused, invalid, of_engine, unimplemented
from p4engine.p4runtime.tables import Tables

API_VERSION = "1.4.1"
AT_ONCE = 64  # updates or entities between which packets may pass


class Device:
    """A switch's program for controllers.

    Args:
        switch: a `library.Switch` (or one with interfaces).
        info: the P4Info message of its program.
        lock: makes a context in which no packet is processed.
    """

    def __init__(
        self, switch: Any, info: Any, lock: Callable[[], AbstractContextManager[Any]]
    ) -> None:
        self.lock = lock
        self.info = p4info_pb2.P4Info.FromString(info.SerializeToString())
        self.catalog = Catalog(self.info, switch.compiled.info)
        self.cookie: int | None = None
        self.saved: Any = None
        program = switch.pipeline
        self.config = f"ina-p4engine {switch.compiled.hash}\n".encode()
        self.profiles = Profiles(self.catalog, program)
        self.tables = Tables(self.catalog, program, self.profiles)
        self.arrays = Arrays(self.catalog, program)
        self.replication = Replication(switch)
        self.digests = Digests(self.catalog)

    # ---- Write ----

    def write(self, updates: Any) -> list[tuple[Code, str]]:
        """Carry out all updates, each by itself; what came of each, in order."""
        results, left = [], iter(updates)
        while batch := list(islice(left, AT_ONCE)):
            with self.lock():
                results += [self._write_one(update) for update in batch]
        return results

    def _write_one(self, update: Any) -> tuple[Code, str]:
        try:
            self._update(update)
        except Refused as error:
            return error.code, error.message
        except P4Error as error:
            refused = of_engine(error)
            return refused.code, refused.message
        except Exception as error:  # a defect; the switch and the other updates must live on
            traceback.print_exc(file=sys.stderr)
            return Code.INTERNAL, f"internal error: {error!r}"
        return Code.OK, ""

    def _update(self, update: Any) -> None:
        kinds = type(update).Type
        if update.type not in kinds.values() or update.type == kinds.Value("UNSPECIFIED"):
            invalid("the update says neither INSERT nor MODIFY nor DELETE")
        kind = kinds.Name(update.type)
        which = update.entity.WhichOneof("entity")
        writers = {
            "table_entry": self.tables.write,
            "direct_counter_entry": self.tables.write_counter,
            "direct_meter_entry": self.tables.write_meter,
            "action_profile_member": self.profiles.write_member,
            "action_profile_group": self.profiles.write_group,
            "counter_entry": self.arrays.write_counter,
            "meter_entry": self.arrays.write_meter,
            "register_entry": self.arrays.write_register,
            "value_set_entry": self.arrays.write_value_set,
            "packet_replication_engine_entry": self.replication.write,
            "digest_entry": self.digests.write,
        }
        if which is None:
            invalid("the update has no entity")
        if which not in writers:
            unimplemented("v1model has no other externs")
        writers[which](kind, getattr(update.entity, which))

    # ---- Read ----

    def read(self, entities: Any) -> Iterator[list[Any]]:
        """What a request asks for, some entities at a time, between which packets may pass.

        Raises Refused.
        """
        for entity in entities:
            which = entity.WhichOneof("entity")
            if which is None:
                invalid("an entity of the request is empty")
            if which not in self._readers():
                unimplemented("v1model has no other externs")
            found = self._readers()[which](getattr(entity, which))
            while True:
                try:
                    with self.lock():
                        batch = list(islice(found, AT_ONCE))
                except P4Error as error:
                    raise of_engine(error) from None
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
        }

    # ---- pipeline configuration ----

    def set_config(self, request: Any) -> None:
        """SetForwardingPipelineConfig: the program that runs is the only one there is.

        It may be verified, and committed, which sets everything to its beginnings.
        """
        action = type(request).Action.Name(request.action) if request.action < 6 else ""
        if action == "COMMIT":
            if request.HasField("config"):
                invalid("COMMIT takes no configuration")
            if self.saved is None:
                raise Refused(Code.NOT_FOUND, "no configuration has been saved")
            config, self.saved = self.saved, None
            self._commit(config, clear=True)
            return
        if action in ("", "UNSPECIFIED"):
            invalid("the request says not what to do")
        if not request.HasField("config"):
            invalid(f"{action} needs a configuration")
        self._verify(request.config)
        if action == "VERIFY_AND_SAVE":
            self.saved = type(request.config).FromString(request.config.SerializeToString())
        elif action != "VERIFY":
            self._commit(request.config, clear=action == "VERIFY_AND_COMMIT")

    def _verify(self, config: Any) -> None:
        if config.p4_device_config not in (b"", self.config):
            unimplemented(
                "the switch runs the program that it was started with and loads no other:"
                " leave p4_device_config empty"
            )
        if _essence(config.p4info) != _essence(self.info):
            invalid("the P4Info is not that of the program that the switch was started with")

    def _commit(self, config: Any, clear: bool) -> None:
        self.cookie = config.cookie.cookie if config.HasField("cookie") else None
        if clear:
            with self.lock():
                self.tables.clear()
                self.profiles.clear()
                self.arrays.clear()
                self.replication.clear()
                self.digests.clear()

    def get_config(self, response_type: int) -> Any:
        """A GetForwardingPipelineConfigResponse."""
        made = p4runtime_pb2.GetForwardingPipelineConfigResponse()
        if self.cookie is not None:
            made.config.cookie.cookie = self.cookie
        else:
            made.config.SetInParent()
        if response_type in (0, 2):
            made.config.p4info.CopyFrom(self.info)
        if response_type in (0, 3):
            made.config.p4_device_config = self.config
        return made


def _essence(info: Any) -> bytes:
    """A P4Info without what is only for people to read."""
    copy = type(info).FromString(info.SerializeToString())
    copy.ClearField("pkg_info")
    for kind, objects in copy.ListFields():
        if kind.name == "type_info":
            continue
        for each in objects:
            preamble = each.preamble
            for name in ("annotations", "annotation_locations", "structured_annotations", "doc"):
                preamble.ClearField(name)
    essence: bytes = copy.SerializeToString(deterministic=True)
    return essence
