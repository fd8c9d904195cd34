"""Rank of a process on its server.

A program may be started once on each server and make the processes of its ranks itself, as
`torchrun --nproc-per-node` does (a job's key `launch`). Its environment then has a list (`RANKS`)
of the variables that each rank has of its own: the address of its host process, the files for what
it reports, its network interface. `LOCAL_RANK`, which torchrun and others set, says which entry
counts; without it a process takes the first one whose host process lets it in (client.py).
"""

from __future__ import annotations

import json
import os

from p4fabric.base.errors import UserError

RANKS = "INA_RANKS"  # environment variable: JSON, a list of mappings of variables, by local rank
LOCAL = "LOCAL_RANK"


def entries() -> list[dict[str, str]]:
    """The list, while it is open which entry is this process's; else []."""
    return json.loads(os.environ[RANKS]) if RANKS in os.environ else []


def take(entry: dict[str, str]) -> None:
    """From now on this process has the variables of this entry."""
    os.environ.update(entry)
    os.environ.pop(RANKS, None)


def adopt() -> None:
    """Take the entry that LOCAL_RANK says, if it says one and none has been taken yet. Raises
    UserError if there is none."""
    found = entries()
    number = os.environ.get(LOCAL, "")
    if not found or not number.isdigit():
        return
    if int(number) >= len(found):
        count = f"{len(found)} rank{'s' if len(found) > 1 else ''}"
        raise UserError(
            f"this process has {LOCAL} {number}, and the job has {count} on this server: start"
            f" torchrun with --nproc-per-node {len(found)}"
        )
    take(found[int(number)])
