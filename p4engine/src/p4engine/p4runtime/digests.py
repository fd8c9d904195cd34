"""Digests: what a program tells its controllers, in lists, without duplicates.

Messages are gathered until a list is long or old enough. One that was sent and not acknowledged is
not sent again for a while. The times are the caller's, so that there is no clock in here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from p4engine.p4runtime.catalog import Catalog
from p4engine.p4runtime.matches import encoded
from p4engine.p4runtime.proto import p4runtime_pb2
from p4engine.p4runtime.status import check_existence, invalid
from p4engine.p4runtime.transactions import Undo

LONGEST_LIST = 1024  # if the controller sets no limit
MAX_UNACKNOWLEDGED = 65536  # messages; older ones are forgotten


@dataclass
class _Stream:
    """One digest that a controller has asked for."""

    entry: Any
    waiting: dict[tuple[int, ...], None] = field(default_factory=dict)  # in their order
    first_ns: int = 0
    # By number: when it was sent, and its messages.
    lists: dict[int, tuple[int, frozenset[tuple[int, ...]]]] = field(default_factory=dict)
    number: int = 0

    def known(self, values: tuple[int, ...]) -> bool:
        return values in self.waiting or any(values in sent for _, sent in self.lists.values())


class Digests:
    """The digests that the controllers of one device have asked for."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.ids = {d.preamble.name: id_ for id_, d in catalog.digests.items()}
        self.streams: dict[int, _Stream] = {}

    def clear(self) -> None:
        """No digest is wanted any more."""
        self.streams.clear()

    def write(self, kind: str, entry: Any) -> None:
        """Ask for a digest, change how, or no longer."""
        digest = self.catalog.find("digests", entry.digest_id)
        check_existence(kind, entry.digest_id in self.streams, f"entry for {digest.preamble.name}")
        if kind == "DELETE":
            del self.streams[entry.digest_id]
            return
        config = entry.config
        if min(config.max_timeout_ns, config.max_list_size, config.ack_timeout_ns) < 0:
            invalid(f"digest {digest.preamble.name}: times and sizes cannot be negative")
        stored = type(entry).FromString(entry.SerializeToString())
        if kind == "INSERT":
            self.streams[entry.digest_id] = _Stream(stored)
        else:
            self.streams[entry.digest_id].entry = stored

    def undo(self, kind: str, entry: Any) -> Undo:
        """The undo of a `write` that comes now."""
        old = self.streams.get(entry.digest_id)
        config = old and old.entry

        def restore() -> None:
            if old is None:
                del self.streams[entry.digest_id]
            else:
                old.entry = config
                self.streams[entry.digest_id] = old

        return restore

    def read(self, entry: Any) -> Iterator[Any]:
        """One entry, or all."""
        if entry.digest_id:
            self.catalog.find("digests", entry.digest_id)
        for id_, stream in sorted(self.streams.items()):
            if entry.digest_id in (0, id_):
                made = p4runtime_pb2.Entity()
                made.digest_entry.CopyFrom(stream.entry)
                yield made

    def add(self, name: str, values: list[int], now_ns: int) -> None:
        """The program has sent a digest."""
        stream = self.streams.get(self.ids.get(name, 0))
        key = tuple(values)
        if stream is None:
            return
        self._forget(stream, now_ns)
        if stream.known(key):
            return
        if not stream.waiting:
            stream.first_ns = now_ns
        stream.waiting[key] = None

    def acknowledge(self, message: Any) -> None:
        """A DigestListAck; one for a list that is forgotten means nothing.

        Raises Refused: the program has no such digest.
        """
        if message.digest_id not in self.catalog.digests:
            invalid(f"the program has no digest {message.digest_id:#010x}")
        stream = self.streams.get(message.digest_id)
        if stream is not None:
            stream.lists.pop(message.list_id, None)

    def due(self, now_ns: int, timestamp_ns: int) -> Iterator[Any]:
        """The lists to send now, as stream messages."""
        for id_, stream in list(self.streams.items()):
            config = stream.entry.config
            limit = config.max_list_size or LONGEST_LIST
            while stream.waiting and (
                len(stream.waiting) >= limit or now_ns - stream.first_ns >= config.max_timeout_ns
            ):
                batch = list(stream.waiting)[:limit]
                yield self._list(id_, stream, batch, now_ns, timestamp_ns)

    def next_ns(self) -> int | None:
        """Time at which the next list is due by its age."""
        waiting = [s for s in list(self.streams.values()) if s.waiting]
        return min((s.first_ns + s.entry.config.max_timeout_ns for s in waiting), default=None)

    def _list(
        self, id_: int, stream: _Stream, batch: list[tuple[int, ...]], now_ns: int, stamp: int
    ) -> Any:
        for values in batch:
            del stream.waiting[values]
        stream.first_ns = now_ns
        stream.number += 1
        if stream.entry.config.ack_timeout_ns:
            stream.lists[stream.number] = (now_ns, frozenset(batch))
        made = p4runtime_pb2.StreamMessageResponse()
        made.digest.digest_id, made.digest.list_id = id_, stream.number
        made.digest.timestamp = stamp
        for values in batch:
            left = list(values)
            self._fill(made.digest.data.add(), self.catalog.digests[id_].type_spec, left)
        return made

    def _fill(self, data: Any, spec: Any, left: list[int]) -> None:
        """A P4Data of the type `spec` from the first of the values that are left."""
        kind = spec.WhichOneof("type_spec")
        if kind == "struct":
            for member in self.catalog.info.type_info.structs[spec.struct.name].members:
                self._fill(data.struct.members.add(), member.type_spec, left)
        elif kind == "tuple":
            for member in spec.tuple.members:
                self._fill(data.tuple.members.add(), member, left)
        elif kind == "bool":
            data.bool = bool(left.pop(0))
        else:
            data.bitstring = encoded(left.pop(0))

    @staticmethod
    def _forget(stream: _Stream, now_ns: int) -> None:
        limit = stream.entry.config.ack_timeout_ns
        old = [n for n, (sent_ns, _) in stream.lists.items() if now_ns - sent_ns >= limit]
        while sum(len(sent) for _, sent in stream.lists.values()) > MAX_UNACKNOWLEDGED:
            old.append(next(iter(stream.lists)))
            stream.lists.pop(old[-1])
        for number in old:
            stream.lists.pop(number, None)
