"""The systems' host side: workers and servers as state machines without sockets and clocks.

A machine is a named tuple of numpy arrays and records, and a few functions over it: packets and the
time in, packets and the next deadline out. Mininet's host processes and virtual time drive the same
code. It runs once per packet, so numba compiles it; with ``NUMBA_DISABLE_JIT=1`` the same functions
run as plain Python and give the same results.

Numbers that belong together are fields of a record (`records`): measured, that costs nothing over
places in an array of integers.

Reading order: `host_spec` (what a host is told), `sizes` and `wire` (the packet), `values` (what
workers send and how a sum is checked), `records`, `status` (what a runtime knows of a machine),
`heap`, `send_scoreboard` (what a worker knows of an iteration's fragments), `worker_state` and
`payload` (what all workers share), `pool_worker` and `server_store` (what a system decides: their
`Rules`), then a system, such as `esa`.

Compiled functions take `njit` from `jit`, which says where numba keeps them; `callees` says how
they call each other. Functions that a system's type chooses (`by_type`) are in `jit`, too. The
package itself does without numba, so that what only reads an experiment (`sizes`, the plan) need
not wait for it.
"""

from __future__ import annotations

from pathlib import Path

from p4fabric.simulate.code_cache import add_sources
from p4fabric.simulate.code_cache import compiled as compiled
from p4fabric.simulate.code_cache import is_shipped as is_shipped
from p4fabric.simulate.code_cache import remove_unused as remove_unused
from p4fabric.simulate.shipped_code import add_shipped

# Of all compiled functions of the testbed, and what else is a part of their code.
add_sources(
    Path(__file__).resolve().parent.parent,
    (
        *("protocols/*.py", "workload/*.py", "hosts/*.py", "simulate/*.py"),
        *("collective/memory_map.py", "collective/prelude.py"),
    ),
)

COMPILED = "ina_testbed_compiled"  # what `python -m tools.compiled` makes
add_shipped(COMPILED)
