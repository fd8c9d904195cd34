"""The jobs in a switch's tables, while jobs come and go.

Each job brings its entries and takes them away again. An entry that several jobs need, such as the
address of the next switch, stays as long as one of them is there. What admits a job at its ports
stays for a while after its end: packets of it may still be on their way, and are nothing that a
switch should refuse.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from testbed.dataplane.install_tables import admission_calls, entry_of, job_calls

if TYPE_CHECKING:
    from testbed.setup.job_setups import Control, JobSetup, Platform

LAST_PACKETS_NS = 1_000_000_000  # a packet of an ended job is on its way no longer than this
MOST_ENDED = 256  # jobs that have ended and are still admitted; the table's size is limited


class JobTables:
    """The entries of jobs in one switch. `client` is its control interface."""

    def __init__(self, switch: str, client: Control) -> None:
        self._switch = switch
        self._client = client
        self._entries: dict[int, list[tuple]] = {}  # by job
        self._users: dict[tuple, int] = {}  # number of jobs that need an entry
        self._handles: dict[tuple, int] = {}  # of entries of tables
        self._admissions: dict[int, list[int]] = {}  # handles by job
        self._ended: deque[tuple[int, int]] = deque()  # (when, job) of those that still have them

    @property
    def jobs(self) -> list[int]:
        """The jobs that have entries here."""
        return list(self._entries)

    def keep(self, platform: Platform, job: JobSetup) -> None:
        """The job has its entries already, and keeps them."""
        for call in job_calls(platform, self._switch, job):
            entry = entry_of(call)
            self._users[entry] = self._users.get(entry, 0) + 1

    def add(self, platform: Platform, started: JobSetup) -> None:
        """The job's hosts are there."""
        job = started.number
        if job in self._admissions:  # those of another job that has had its number
            self._ended = deque(each for each in self._ended if each[1] != job)
            former = [("table_delete", "admission", each) for each in self._admissions.pop(job)]
            self._client.batch(former)
        calls = {entry_of(call): call for call in job_calls(platform, self._switch, started)}
        new = {entry: call for entry, call in calls.items() if not self._users.get(entry)}
        results = self._client.batch(list(new.values())) if new else []
        for (entry, call), result in zip(new.items(), results, strict=True):
            if call[0] == "table_add":
                self._handles[entry] = result
        if calls:
            self._entries[job] = list(calls)
        for entry in calls:
            self._users[entry] = self._users.get(entry, 0) + 1
        if admissions := admission_calls(platform, self._switch, started):
            self._admissions[job] = self._client.batch(admissions)

    def remove(self, job: int, now_ns: int) -> None:
        """The job is over, at `now_ns`."""
        calls: list[tuple] = []
        if job in self._admissions:
            self._ended.append((now_ns, job))
        over_ns = now_ns - LAST_PACKETS_NS
        while self._ended and (self._ended[0][0] < over_ns or len(self._ended) > MOST_ENDED):
            _, former = self._ended.popleft()
            handles = self._admissions.pop(former)
            calls += [("table_delete", "admission", handle) for handle in handles]
        for entry in self._entries.pop(job, ()):
            self._users[entry] -= 1
            if self._users[entry]:
                continue
            del self._users[entry]
            if entry in self._handles:
                calls.append(("table_delete", entry[0], self._handles.pop(entry)))
            else:
                calls.append(("multicast_delete", entry[1]))
        if calls:
            self._client.batch(calls)
