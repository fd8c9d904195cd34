"""The backend `ina` of torch.distributed under its public name (collective/torch_backend.py).

PyTorch registers it by itself, through the entry point `torch.backends`. Where the testbed is not
installed but only on the path, `import testbed.torch` does the same.
"""

from __future__ import annotations


def register() -> None:
    """Make the backend known to PyTorch. The entry point of `torch.backends`."""
    from testbed.collective.torch_backend import register as make_known

    make_known()


register()
