"""Multicast groups and clone sessions.

A clone session is a mirror session of the switch. One with several replicas, or with an instance
that egress is to see, needs a multicast group, and gets one from the upper half of their numbers:
the same way BMv2's server goes, so that programs written for it find their groups where they
expect them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from p4engine.p4runtime.matches import number
from p4engine.p4runtime.proto import p4runtime_pb2
from p4engine.p4runtime.status import Code, Refused, check_existence, invalid, unimplemented
from p4engine.p4runtime.transactions import Undo, opposite

FIRST_OF_SESSIONS = 1 << 15  # multicast groups from here on belong to clone sessions
LONGEST_GROUP = 2048


class Replication:
    """Groups and sessions that a controller has set up; `switch` has the calls of
    `library.Switch`."""

    def __init__(self, switch: Any) -> None:
        self.switch = switch
        self.groups: dict[int, Any] = {}
        self.sessions: dict[int, Any] = {}

    def clear(self) -> None:
        """Remove all groups and sessions of the controllers."""
        for group in list(self.groups):
            self._delete_group(group)
        for session in list(self.sessions):
            self._delete_session(session)

    def write(self, kind: str, entry: Any) -> None:
        """Insert, modify or delete (`kind`) what a PacketReplicationEngineEntry says."""
        which = entry.WhichOneof("type")
        if which == "multicast_group_entry":
            self._write_group(kind, entry.multicast_group_entry)
        elif which == "clone_session_entry":
            self._write_session(kind, entry.clone_session_entry)
        else:
            invalid("the packet replication engine entry is empty")

    def undo(self, kind: str, entry: Any) -> Undo:
        """The undo of a `write` that comes now."""
        if entry.WhichOneof("type") == "multicast_group_entry":
            group = entry.multicast_group_entry
            old = self.groups.get(group.multicast_group_id)
            return opposite(kind, group, old, self._write_group)
        session = entry.clone_session_entry
        return opposite(kind, session, self.sessions.get(session.session_id), self._write_session)

    def read(self, entry: Any) -> Iterator[Any]:
        """The entries that a request asks for; number 0 stands for all, and an
        empty request for groups and sessions."""
        which = entry.WhichOneof("type")
        if which is None:
            both = type(entry)(multicast_group_entry={}), type(entry)(clone_session_entry={})
            for each in both:
                yield from self.read(each)
            return
        of_groups = which == "multicast_group_entry"
        stored = self.groups if of_groups else self.sessions
        message = getattr(entry, which)
        asked = message.multicast_group_id if of_groups else message.session_id
        if asked and asked not in stored:
            raise Refused(Code.NOT_FOUND, f"there is no {which[:-6].replace('_', ' ')} {asked}")
        for number_, found in sorted(stored.items()):
            if asked in (0, number_):
                made = p4runtime_pb2.Entity()
                getattr(made.packet_replication_engine_entry, which).CopyFrom(found)
                yield made

    # ---- multicast groups ----

    def _write_group(self, kind: str, entry: Any) -> None:
        group = entry.multicast_group_id
        if not 0 < group < FIRST_OF_SESSIONS:
            invalid(f"multicast groups are numbered 1 to {FIRST_OF_SESSIONS - 1}, not {group}")
        check_existence(kind, group in self.groups, f"multicast group {group}")
        if kind == "DELETE":
            self._delete_group(group)
            return
        self.switch.multicast_group(group, self._members(entry.replicas, f"group {group}"))
        self.groups[group] = type(entry).FromString(entry.SerializeToString())

    def _delete_group(self, group: int) -> None:
        self.switch.multicast_delete(group)
        del self.groups[group]

    def _members(self, replicas: Any, what: str) -> list[tuple[int, int]]:
        if len(replicas) > LONGEST_GROUP:
            raise Refused(Code.RESOURCE_EXHAUSTED, f"{what}: more than {LONGEST_GROUP} replicas")
        members = []
        for replica in replicas:
            if replica.backup_replicas:
                unimplemented(f"{what}: backup replicas are not supported")
            if replica.WhichOneof("port_kind") == "port":
                port = number(replica.port, 32, f"{what}, port")
            else:
                port = replica.egress_port
            if port not in self.switch.ports:
                invalid(f"{what}: the switch has no port {port}")
            if replica.instance > 0xFFFF:
                invalid(f"{what}: instance {replica.instance} does not fit into 16 bits")
            members.append((port, replica.instance))
        if len(set(members)) < len(members):
            invalid(f"{what}: two replicas have the same port and instance")
        return members

    # ---- clone sessions ----

    def _write_session(self, kind: str, entry: Any) -> None:
        session = entry.session_id
        if not 0 < session < FIRST_OF_SESSIONS:
            invalid(f"clone sessions are numbered 1 to {FIRST_OF_SESSIONS - 1}, not {session}")
        what = f"clone session {session}"
        check_existence(kind, session in self.sessions, what)
        if kind == "DELETE":
            self._delete_session(session)
            return
        if entry.class_of_service:
            unimplemented(f"{what}: clones begin with priority 0, there is no class of service")
        if entry.packet_length_bytes < 0:
            invalid(f"{what}: packet_length_bytes cannot be negative")
        members, length = self._members(entry.replicas, what), entry.packet_length_bytes
        if session in self.sessions:
            self._delete_session(session)
        if len(members) == 1 and members[0][1] == 0:
            self.switch.mirror_session(session, port=members[0][0], length=length)
        elif members:
            self.switch.multicast_group(FIRST_OF_SESSIONS + session, members)
            group = FIRST_OF_SESSIONS + session
            self.switch.mirror_session(session, group=group, length=length)
        self.sessions[session] = type(entry).FromString(entry.SerializeToString())

    def _delete_session(self, session: int) -> None:
        self.switch.mirror_session(session)
        members = self.sessions.pop(session).replicas
        if len(members) > 1 or (members and members[0].instance):
            self.switch.multicast_delete(FIRST_OF_SESSIONS + session)
