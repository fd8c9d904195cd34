"""BERT (Devlin et al., 2018), the encoder with its pooler, English uncased vocabulary.

The transformers share its multi-head attention, which is written as plain matrix products and not
as a fused kernel, so that its operations are counted like all others.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

VOCABULARY, POSITIONS, SEGMENTS = 30522, 512, 2
SIZES = {"base": (768, 12, 12), "large": (1024, 16, 24)}  # width, heads, layers


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


class EncoderLayer(nn.Module):
    """Attention and a two-layer perceptron, each added to its input and normalised after."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.attention_output = nn.Linear(width, width)
        self.attention_norm = nn.LayerNorm(width)
        self.intermediate = nn.Linear(width, 4 * width)
        self.output = nn.Linear(4 * width, width)
        self.output_norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        seen = attend(self.query(x), self.key(x), self.value(x), self.heads)
        x = self.attention_norm(self.attention_output(seen) + x)
        y = nn.functional.gelu(self.intermediate(x))
        return self.output_norm(self.output(y) + x)


class Bert(nn.Module):
    """Three embeddings added and normalised, the encoder, and the pooler over the first token."""

    def __init__(self, size: str) -> None:
        super().__init__()
        width, heads, layers = SIZES[size]
        self.word_embeddings = nn.Embedding(VOCABULARY, width)
        self.position_embeddings = nn.Embedding(POSITIONS, width)
        self.token_type_embeddings = nn.Embedding(SEGMENTS, width)
        self.embeddings_norm = nn.LayerNorm(width)
        self.encoder = nn.Sequential(*(EncoderLayer(width, heads) for _ in range(layers)))
        self.pooler = nn.Linear(width, width)

    def forward(self, tokens: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
        x = self.word_embeddings(tokens)
        x = x + self.position_embeddings(positions)
        x = x + self.token_type_embeddings(segments)
        x = self.encoder(self.embeddings_norm(x))
        return torch.tanh(self.pooler(x[:, 0]))
