"""ViT-B/16 (Dosovitskiy et al., 2020) for 224x224 images: a pre-norm transformer on 196 patches."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tools.models.definitions.bert import attend

WIDTH, HEADS, LAYERS, PATCH, PATCHES = 768, 12, 12, 16, 196


class SelfAttention(nn.Module):
    """Query, key and value in one projection, and the output projection."""

    def __init__(self) -> None:
        super().__init__()
        self.in_proj = nn.Linear(WIDTH, 3 * WIDTH)
        self.out_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.in_proj(x).split(WIDTH, 2)
        return self.out_proj(attend(query, key, value, HEADS))


class EncoderLayer(nn.Module):
    """Attention and a two-layer perceptron, each normalised before and added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH)
        self.self_attention = SelfAttention()
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attention(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class ViT(nn.Module):
    """Patch embedding, class token, position embedding, twelve encoder layers, one linear head."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv_proj = nn.Conv2d(3, WIDTH, PATCH, stride=PATCH)
        self.class_token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.pos_embedding = nn.Parameter(torch.zeros(1, PATCHES + 1, WIDTH))
        self.layers = nn.Sequential(*(EncoderLayer() for _ in range(LAYERS)))
        self.ln = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.conv_proj(images).flatten(2).transpose(1, 2)
        token = self.class_token.expand(images.shape[0], -1, -1)
        x = torch.cat([token, patches], 1) + self.pos_embedding
        return self.head(self.ln(self.layers(x))[:, 0])
