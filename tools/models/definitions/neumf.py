"""NeuMF (He et al., "Neural Collaborative Filtering", 2017) sized for MovieLens-20M.

138,493 users, 26,744 items; 64 factors, a perceptron of 256-256-128-64. Embeddings are 99.7 % of
the parameters. They are sent whole: the trace is that of dense gradients.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

USERS, ITEMS, FACTORS, WIDTHS = 138_493, 26_744, 64, (256, 256, 128, 64)


class NeuMF(nn.Module):
    """Matrix factorisation and a perceptron side by side, joined by one linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.mf_user = nn.Embedding(USERS, FACTORS)
        self.mf_item = nn.Embedding(ITEMS, FACTORS)
        self.mlp_user = nn.Embedding(USERS, WIDTHS[0] // 2)
        self.mlp_item = nn.Embedding(ITEMS, WIDTHS[0] // 2)
        pairs = zip(WIDTHS[:-1], WIDTHS[1:], strict=True)
        self.mlp = nn.ModuleList(nn.Linear(before, after) for before, after in pairs)
        self.final = nn.Linear(FACTORS + WIDTHS[-1], 1)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        product = self.mf_user(users) * self.mf_item(items)
        x = torch.cat([self.mlp_user(users), self.mlp_item(items)], 1)
        for layer in self.mlp:
            x = torch.relu(layer(x))
        return self.final(torch.cat([product, x], 1))
