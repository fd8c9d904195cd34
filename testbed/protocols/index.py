"""Which aggregator of a pool a fragment asks for: the packet's 32-bit index.

All workers of a job and its server compute the same number, below the size of the pool.
`consecutive`: neighbouring fragments have neighbouring aggregators, and each job starts at a place
of its own, so a job never collides with itself while its fragments in flight fit into the pool.
`hash`: every fragment anywhere, as if drawn; collides within a single job, too.
With `position` the index is the window position's instead (see positions.py).
"""

from __future__ import annotations

from testbed.protocols.jit import njit
from testbed.protocols.values import mix2

CONSECUTIVE = 0
HASH = 1
POSITION = 2
MODES = {"consecutive": CONSECUTIVE, "hash": HASH, "position": POSITION}


@njit(cache=True)
def index_of(mode, pool, job, fragment):
    """Index of a job's fragment, 0 .. pool - 1."""
    if mode == HASH:
        return mix2(job, fragment) % pool
    return (mix2(job, 0x1DE) + fragment) % pool
