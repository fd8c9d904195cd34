"""The entries of one switch, as they change when links fail.

Entries are added and changed, never taken out. What leads over a link that is down loses packets,
as the link does; what no packet meets any more does no harm, and sums that still wait in the switch
find their way by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from testbed.dataplane.install_tables import entries_of

if TYPE_CHECKING:
    from testbed.setup.job_setups import Control, Setup


class SwitchEntries:
    """Entries that the control plane has written into one switch since its installation."""

    def __init__(self, setup: Setup, switch: str) -> None:
        self._switch = switch
        self._calls = entries_of(setup, switch, setup.jobs)

    def install(self, client: Control) -> None:
        """Write everything into a switch whose tables are as its program begins with them."""
        client.batch(list(self._calls.values()))

    def follow(self, setup: Setup, jobs: Iterable[int], client: Control) -> int:
        """Write what differs for the paths of `setup`; for jobs that are not named nothing does.
        Returns the number of entries. In one batch, with no packet in between."""
        new = {
            entry: call
            for entry, call in entries_of(setup, self._switch, jobs).items()
            if self._calls.get(entry) != call
        }
        changed = [entry for entry, call in new.items() if _in_table(call) and entry in self._calls]
        finds = [("table_find", entry[0], list(entry[1:])) for entry in changed]
        handles = dict(zip(changed, client.batch(finds) if finds else (), strict=True))
        calls = []
        for entry, call in new.items():
            if entry in handles:
                _, table, action, _, parameters = call
                calls.append(("table_modify", table, handles[entry], action, parameters))
            else:
                calls.append(call)
        if calls:
            client.batch(calls)
        self._calls |= new
        return len(new)


def _in_table(call: tuple) -> bool:
    return call[0] == "table_add"
