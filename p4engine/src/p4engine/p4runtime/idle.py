"""Idle timeouts: entries that no packet has hit for as long as their controller allows.

Entries stay where they are; the primary controller hears of them and decides. The time is that of
packets, so nothing in here waits: `scan` says what is idle now, `next_ns` when to ask again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from p4engine.p4runtime.catalog import Catalog, Table
from p4engine.p4runtime.proto import p4runtime_pb2
from p4engine.p4runtime.tables import Tables

LONGEST_LIST = 1024  # entries in a notification, and between two packets


class IdleTimeouts:
    """The entries of one device that can be idle.

    Args:
        program: has the calls of `pipeline.Pipeline`.
        tables: describes entries.
        lock: makes a context in which no packet is processed.
        on_earlier: called when `next_ns` has become earlier, in the thread that set a timeout.
    """

    def __init__(
        self,
        catalog: Catalog,
        program: Any,
        tables: Tables,
        lock: Callable[[], AbstractContextManager[Any]],
        on_earlier: Callable[[], None],
    ) -> None:
        self.catalog, self.program, self.tables, self.lock = catalog, program, tables, lock
        self.on_earlier = on_earlier
        self.next_ns: int | None = None
        program.on_timeout = self._expect

    def _expect(self, ttl_ns: int) -> None:
        """An entry has got a timeout, from whomever."""
        due_ns = self.program.clock() + ttl_ns
        if self.next_ns is None or due_ns < self.next_ns:
            self.next_ns = due_ns
            self.on_earlier()

    def scan(self, timestamp_ns: int) -> list[Any]:
        """Notifications, as stream messages, of all entries that have become idle: one for each
        table, or several if there are many. Sets `next_ns`: no entry becomes idle before it; None:
        none at all.

        Args:
            timestamp_ns: what the messages say when they were made.
        """
        made: list[Any] = []
        with self.lock():
            self.next_ns = None
        for _, table in sorted(self.catalog.tables.items()):
            after, more = -1, table.ages
            while more:
                with self.lock():
                    if self.program.handle is None:  # another program runs by now
                        self.next_ns = None
                        return made
                    found, next_ns = self.program.table_idle(table.name, after, LONGEST_LIST)
                    if found:
                        made.append(self._notification(table, found, timestamp_ns))
                    if next_ns is not None:
                        self.next_ns = min(next_ns, self.next_ns or next_ns)
                more = len(found) == LONGEST_LIST
                after = found[-1] if found else -1
        return made

    def _notification(self, table: Table, handles: list[int], timestamp_ns: int) -> Any:
        made = p4runtime_pb2.StreamMessageResponse()
        made.idle_timeout_notification.timestamp = timestamp_ns
        for handle in handles:
            self.tables.identify(table, handle, made.idle_timeout_notification.table_entry.add())
        return made
