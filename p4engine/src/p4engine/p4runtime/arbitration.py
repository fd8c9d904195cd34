"""The primary controller: the rules of P4Runtime for election ids, without any network.

A role has an election of its own. The controller with the largest election id of all that were
ever seen for a role is primary; when it goes, nobody is until a controller comes with an id that
is as large.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from p4engine.p4runtime.proto import p4runtime_pb2
from p4engine.p4runtime.status import Code, Refused, invalid

MAX_CONTROLLERS = 64  # per role
MAX_ROLES = 64  # a role is never forgotten: its largest election id counts for ever


class Stream(Protocol):
    """A controller's open stream."""

    def send(self, message: p4runtime_pb2.StreamMessageResponse) -> None:
        """Send a message of arbitration or an error."""

    def offer(self, message: p4runtime_pb2.StreamMessageResponse) -> None:
        """Offer a packet or digest, of which some may be lost."""


@dataclass
class _Role:
    """Election ids of the open streams, in the order of their coming; None: will not be primary."""

    streams: dict[Stream, int | None] = field(default_factory=dict)
    highest: int | None = None
    primary: Stream | None = None


@dataclass(frozen=True)
class Notice:
    """An arbitration message to the controller of a stream."""

    stream: Stream
    message: Any


def election_number(message: Any) -> int:
    """A Uint128."""
    number: int = message.high << 64 | message.low
    return number


class Arbitration:
    """The elections of one device."""

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self.roles: dict[str, _Role] = {}
        self.role_of: dict[Stream, str] = {}

    def update(self, stream: Stream, message: Any) -> list[Notice]:
        """A MasterArbitrationUpdate has come on a stream; what to send to whom.

        Raises Refused: the stream must be closed with that status.
        """
        name = message.role.name if message.HasField("role") else ""
        first = stream not in self.role_of
        if message.device_id != self.device_id:
            code = Code.NOT_FOUND if first else Code.FAILED_PRECONDITION
            raise Refused(code, f"this is device {self.device_id}, not {message.device_id}")
        if not first and self.role_of[stream] != name:
            raise Refused(Code.FAILED_PRECONDITION, "a stream keeps its role")
        if message.role.HasField("config"):
            invalid("this switch knows no format of role configurations: each may do everything")
        election = election_number(message.election_id) if message.HasField("election_id") else None
        role = self.roles.get(name, _Role())
        if election is not None and any(
            taken == election for s, taken in role.streams.items() if s is not stream
        ):
            invalid(f"another controller has the election id {election}")
        if first and len(role.streams) >= MAX_CONTROLLERS:
            raise Refused(Code.RESOURCE_EXHAUSTED, f"{MAX_CONTROLLERS} controllers are connected")
        if name not in self.roles and len(self.roles) >= MAX_ROLES:
            raise Refused(Code.RESOURCE_EXHAUSTED, f"{MAX_ROLES} roles are known already")
        self.roles[name] = role
        self.role_of[stream] = name
        role.streams[stream] = election
        if election is not None and (role.highest is None or election >= role.highest):
            role.primary, role.highest = stream, election
            others = [s for s in role.streams if s is not stream]
            return [self._notice(name, s) for s in (*others, stream)]
        if role.primary is stream:
            role.primary = None
            return [self._notice(name, s) for s in role.streams]
        return [self._notice(name, stream)]

    def leave(self, stream: Stream) -> list[Notice]:
        """A stream has closed; what to send to the others."""
        name = self.role_of.pop(stream, None)
        if name is None:
            return []
        role = self.roles[name]
        del role.streams[stream]
        if role.primary is not stream:
            return []
        role.primary = None
        return [self._notice(name, s) for s in role.streams]

    def primary(self, role: str = "") -> Stream | None:
        """The stream of a role's primary controller."""
        found = self.roles.get(role)
        return found.primary if found else None

    def is_primary(self, stream: Stream) -> bool:
        """True if a stream's controller is the primary of its role."""
        name = self.role_of.get(stream)
        return name is not None and self.roles[name].primary is stream

    def check(self, device_id: int, role: str, election: Any | None) -> None:
        """Refuse a request that changes something unless it comes from the primary."""
        self.check_device(device_id)
        found = self.roles.get(role)
        if role and found is None:
            raise Refused(Code.NOT_FOUND, f"no controller has the role {role!r}")
        given = None if election is None else election_number(election)
        if found is None or found.primary is None or found.streams[found.primary] != given:
            raise Refused(Code.PERMISSION_DENIED, "only the primary controller may do this")

    def check_device(self, device_id: int) -> None:
        """Refuse a request that is for another device."""
        if device_id != self.device_id:
            raise Refused(Code.NOT_FOUND, f"this is device {self.device_id}, not {device_id}")

    def _notice(self, name: str, stream: Stream) -> Notice:
        role = self.roles[name]
        made = p4runtime_pb2.StreamMessageResponse()
        arbitration = made.arbitration
        arbitration.device_id = self.device_id
        if name:
            arbitration.role.name = name
        if role.highest is not None:
            arbitration.election_id.high = role.highest >> 64
            arbitration.election_id.low = role.highest & (2**64 - 1)
        if role.primary is stream:
            arbitration.status.SetInParent()
        elif role.primary is not None:
            arbitration.status.code = Code.ALREADY_EXISTS
            arbitration.status.message = "another controller is primary"
        else:
            arbitration.status.code = Code.NOT_FOUND
            arbitration.status.message = "there is no primary controller"
        return Notice(stream, made)
