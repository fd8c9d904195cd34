"""The systems that can aggregate gradients: options.py, what an entry says (system.py), and the
list (registry.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from testbed.systems.options import (
        PLANNERS,
        PRIORITIES,
        PoolOptions,
        SystemOptions,
        WorkerOptions,
    )

__all__ = [
    "PLANNERS",
    "PRIORITIES",
    "SYSTEMS",
    "PoolOptions",
    "System",
    "SystemOptions",
    "WorkerOptions",
]


def __getattr__(name: str) -> Any:
    """The names of options.py, which takes a while to load; hosts and reports do without."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from testbed.systems import options

    return getattr(options, name)


# The registry comes last: it loads systems of other packages, which import the others from here.
from testbed.systems.system import System  # noqa: E402 # isort: skip
from testbed.systems.registry import SYSTEMS  # noqa: E402 # isort: skip
