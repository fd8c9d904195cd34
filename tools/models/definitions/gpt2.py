"""GPT-2 (Radford et al., 2019), the smallest of the four: 12 layers, width 768.

The output projection is the token embedding again. It is counted once, and its gradient is complete
only when the backward pass has reached the embedding, so it is the embedding's entry in a trace.
"""

from __future__ import annotations

from torch import Tensor, nn

from tools.models.definitions.bert import attend

VOCABULARY, POSITIONS, WIDTH, HEADS, LAYERS = 50257, 1024, 768, 12, 12


class Block(nn.Module):
    """Attention and a two-layer perceptron, each normalised before and added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH)
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.attn_proj = nn.Linear(WIDTH, WIDTH)
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.c_fc = nn.Linear(WIDTH, 4 * WIDTH)
        self.mlp_proj = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.c_attn(self.ln_1(x)).split(WIDTH, 2)
        x = x + self.attn_proj(attend(query, key, value, HEADS))
        y = nn.functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh")
        return x + self.mlp_proj(y)


class GPT2(nn.Module):
    """Token and position embedding, twelve blocks, a norm, and the tied output projection."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, WIDTH)
        self.wpe = nn.Embedding(POSITIONS, WIDTH)
        self.h = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.ln_f = nn.LayerNorm(WIDTH)

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:
        x = self.wte(tokens) + self.wpe(positions)
        return self.ln_f(self.h(x)) @ self.wte.weight.t()
