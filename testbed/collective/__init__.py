"""The testbed's collective: programs on emulated hosts whose arrays are summed in the network.

`client` is what a program uses (`join`, `allreduce`). It hands its arrays to the host process in
shared memory (`layout`); there the same machines as in replay send and receive them. `prelude` says
how the ranks agree on sizes and exponents before the values.

Nothing here imports numba, so a program starts without waiting for it.
"""

from testbed.collective.client import CollectiveError, Handle, Job, join

__all__ = ["CollectiveError", "Handle", "Job", "join"]
