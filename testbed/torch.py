"""Names for PyTorch programs: `dispatch` and `combine` of tokens to experts
(collective/torch_experts.py), and the backend `ina` of torch.distributed (torch_backend.py there).

PyTorch registers the backend by itself, through the entry point `torch.backends`. Where the testbed
is not installed but only on the path, `import testbed.torch` does the same.
"""

from __future__ import annotations

from testbed.collective.torch_backend import register
from testbed.collective.torch_experts import combine, dispatch

__all__ = ["combine", "dispatch", "register"]

register()
