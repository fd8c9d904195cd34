"""The testbed's collective: programs on emulated hosts whose arrays are summed in the network.

`client` is what a program uses (`join`, `allreduce`). It hands its arrays to the host process in
shared memory (`layout`); there the same machines as in replay send and receive them. `prelude` says
how the ranks agree on sizes and exponents before the values.

Nothing here imports numba, so a program starts without waiting for it. `client`, which needs numpy,
is imported when a name of it is used: what only reads an experiment asks for other modules here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.collective.client import CollectiveError, Handle, Job, join

__all__ = ["CollectiveError", "Handle", "Job", "join"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from testbed.collective import client

    return getattr(client, name)
