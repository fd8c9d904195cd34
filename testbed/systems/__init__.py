"""The systems that can aggregate gradients: their options (options.py) and their list
(registry.py)."""

from testbed.systems.options import PLANNERS, PRIORITIES, PoolOptions, SystemOptions, WorkerOptions
from testbed.systems.registry import SYSTEMS, System

__all__ = [
    "PLANNERS",
    "PRIORITIES",
    "SYSTEMS",
    "PoolOptions",
    "System",
    "SystemOptions",
    "WorkerOptions",
]
