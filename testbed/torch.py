"""Names for PyTorch programs: `dispatch` and `combine` of tokens to experts
(collective/torch_experts.py), and the backend `ina` of torch.distributed (torch_backend.py there).

PyTorch registers the backend by itself, through the entry point `torch.backends`. Where the testbed
is not installed but only on the path, `import testbed.torch` does the same.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.collective.torch_experts import combine as combine
    from testbed.collective.torch_experts import dispatch as dispatch


def register() -> None:
    """Make the backend known to PyTorch, which calls this at the end of its own import. The
    backend's module may have begun that; then it registers itself."""
    backend = import_module("testbed.collective.torch_backend")
    if hasattr(backend, "register"):
        backend.register()


def __getattr__(name: str) -> object:
    if name in ("combine", "dispatch"):
        return getattr(import_module("testbed.collective.torch_experts"), name)
    raise AttributeError(f"module {__name__} has no attribute {name}")


register()
