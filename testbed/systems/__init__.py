"""The systems that can aggregate gradients: options.py, what an entry says (system.py), and the
list (registry.py)."""

# The registry comes last: it loads systems of other packages, which import the others from here.
from testbed.systems.options import PLANNERS, PRIORITIES, PoolOptions, SystemOptions, WorkerOptions

from testbed.systems.system import System  # isort: skip
from testbed.systems.registry import SYSTEMS  # isort: skip

__all__ = [
    "PLANNERS",
    "PRIORITIES",
    "SYSTEMS",
    "PoolOptions",
    "System",
    "SystemOptions",
    "WorkerOptions",
]
