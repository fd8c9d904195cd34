"""Text and a transformer for the examples that learn to write this repository's documentation, one
character at a time.

The text is `docs/*.md`, of which the last tenth is for testing. A guess by nothing but how often a
character occurs has a loss of 3.3 on it. The transformer is a sequence of modules, so that each
example can divide it among ranks in its own way.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import torch
from torch import nn

DOCS = Path(__file__).resolve().parent.parent / "docs"
LENGTH = 64  # characters of a sample
WIDTH = 64  # of the transformer
HEADS = 4


def text() -> tuple[torch.Tensor, torch.Tensor, int]:
    """The documentation as numbers of characters, int64[n], for training and for testing, and how
    many characters there are."""
    whole = "".join(path.read_text() for path in sorted(DOCS.glob("*.md")))
    characters = {character: i for i, character in enumerate(sorted(set(whole)))}
    words = torch.tensor([characters[character] for character in whole])
    return words[: len(words) * 9 // 10], words[len(words) * 9 // 10 :], len(characters)


def drawn(words: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """Samples with the characters that follow them, int64[count, LENGTH + 1]."""
    starts = torch.randint(len(words) - LENGTH, (count, 1), generator=generator)
    return words[starts + torch.arange(LENGTH + 1)]


def loss(scores: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    """scores: float32[count, LENGTH, characters]; following: int64[count, LENGTH]."""
    return nn.functional.cross_entropy(scores.flatten(0, 1).float(), following.flatten())


def loss_of(model: nn.Module, samples: torch.Tensor) -> torch.Tensor:
    """Loss of a model that predicts each next character of samples from those before it."""
    return loss(model(samples[:, :-1]), samples[:, 1:])


def tested(model: nn.Module, words: torch.Tensor) -> float:
    """Loss of 64 samples, always the same."""
    with torch.no_grad():
        return loss_of(model, drawn(words, 64, torch.Generator().manual_seed(0))).item()


class Embedding(nn.Module):
    """Vectors, float32[count, LENGTH, WIDTH], of samples, int64[count, LENGTH]."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        return self.characters(samples) + self.places(torch.arange(LENGTH))


class Attention(nn.Module):
    """Each place looks at those before it. The rows of `inner` are query, key and value of the
    first head, then of the second, and so on: a share of its rows is a number of heads."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, 3 * WIDTH)
        self.outer = nn.Linear(WIDTH, WIDTH)

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        heads = self.inner(given).unflatten(2, (-1, 3, WIDTH // HEADS)).permute(3, 0, 2, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.outer(seen.transpose(1, 2).flatten(2))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))


class Layer(nn.Module):
    def __init__(self, inside: nn.Module) -> None:
        """inside: what each place goes through by itself."""
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.attention = Attention()
        self.mlp = inside

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        seen = given + self.attention(self.norms[0](given))
        return seen + self.mlp(self.norms[1](seen))


def transformer(characters: int, layers: list[Layer]) -> nn.Sequential:
    """Scores, float32[count, LENGTH, characters], of each next character of samples."""
    head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters, bias=False))
    parts = {"embedding": Embedding(characters), "layers": nn.Sequential(*layers), "head": head}
    return nn.Sequential(OrderedDict(parts))
