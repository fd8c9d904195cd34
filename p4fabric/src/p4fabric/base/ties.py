"""A warning about drops that ties have decided, for runs of every kind."""

from __future__ import annotations

from p4fabric.base import units


def of_ties(tied: int, dropped: int) -> list[str]:
    """A warning where sources may be in step (`steps: exact`): `tied` of `dropped` packets arrived
    at a full queue in the very moment in which another one got the last place."""
    if not tied:
        return []
    return [
        f"ties decided {units.number(tied)} of {units.number(dropped)} drops of full queues, since"
        " sources are in step (steps: exact); which source lost them means nothing"
    ]
