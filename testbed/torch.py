"""Names for PyTorch programs: `dispatch` and `combine` of tokens to experts
(collective/torch_experts.py), and the backend `ina` of torch.distributed (torch_backend.py there).

PyTorch registers the backend by itself, through the entry point `torch.backends`. Where the testbed
is not installed but only on the path, `import testbed.torch` does the same.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from testbed.collective.torch_experts import combine as combine
    from testbed.collective.torch_experts import dispatch as dispatch


def register() -> None:
    """Make the backend known to PyTorch, as the entry point of `torch.backends`. PyTorch calls it at
    the end of its own import, which the backend's module may have begun: then that registers
    itself."""
    backend = import_module("testbed.collective.torch_backend")
    if hasattr(backend, "register"):
        backend.register()


def __getattr__(name: str) -> Any:
    if name in ("combine", "dispatch"):
        return getattr(import_module("testbed.collective.torch_experts"), name)
    raise AttributeError(f"module {__name__} has no attribute {name}")


register()
