"""Multi-head attention as plain matrix products, shared by the transformer models.

Written out instead of using a fused kernel, so that its operations are counted like all others.
"""

from __future__ import annotations

from torch import Tensor


def attend(query: Tensor, key: Tensor, value: Tensor, heads: int) -> Tensor:
    """Scaled dot-product attention: float tensors [batch, length, width] in and out.

    A causal mask would not change the number of operations of the usual dense kernels and is left
    out.
    """
    batch, length, width = query.shape
    size = width // heads

    def split(x: Tensor) -> Tensor:
        return x.reshape(batch, length, heads, size).transpose(1, 2)

    scores = split(query) @ split(key).transpose(2, 3) * size**-0.5
    return (scores.softmax(3) @ split(value)).transpose(1, 2).reshape(batch, length, width)
