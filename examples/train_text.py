"""A small transformer learns to write this repository's documentation, one character at a time.

    sudo ina experiments/train_text.yaml

An ordinary PyTorch script with DistributedDataParallel. The text is `docs/*.md`, of which the last
tenth is for testing. The transformer has 1.2 million parameters. A guess by nothing but how often a
character occurs has a loss of 3.3 on that text.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import testbed

DOCS = Path(__file__).resolve().parent.parent / "docs"
LENGTH = 64  # characters of a sample
WIDTH = 128
TESTS = 32  # batches


def text() -> tuple[torch.Tensor, int]:
    """The documentation as numbers of characters, int64[n], and how many characters there are."""
    whole = "".join(path.read_text() for path in sorted(DOCS.glob("*.md")))
    characters = {character: i for i, character in enumerate(sorted(set(whole)))}
    return torch.tensor([characters[character] for character in whole]), len(characters)


class Transformer(nn.Module):
    """Predicts each next character of samples, int64[batch, LENGTH], from those before it."""

    def __init__(self, characters: int, layers: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(characters, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(WIDTH)
        self.scores = nn.Linear(WIDTH, characters)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH)
        inside = self.layers(self.characters(samples) + self.places, mask, is_causal=True)
        return self.scores(self.norm(inside))


def drawn(words: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """Samples with the characters that follow them, int64[count, LENGTH + 1]."""
    starts = torch.randint(len(words) - LENGTH, (count, 1), generator=generator)
    return words[starts + torch.arange(LENGTH + 1)]


def loss_of(model: nn.Module, samples: torch.Tensor) -> torch.Tensor:
    scores = model(samples[:, :-1])
    return nn.functional.cross_entropy(scores.flatten(0, 1), samples[:, 1:].flatten())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32, help="samples of a step, of all ranks")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--backend", default="ina", choices=["ina", "gloo"])
    parser.add_argument("--loss", type=float, default=float("inf"), help="that it must reach")
    options = parser.parse_args()

    dist.init_process_group(options.backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    words, characters = text()
    train, test = words[: len(words) * 9 // 10], words[len(words) * 9 // 10 :]
    torch.manual_seed(0)
    model = DistributedDataParallel(Transformer(characters, options.layers))
    if rank == 0:
        print(f"{sum(each.numel() for each in model.parameters())} parameters")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.manual_seed(rank + 1)
    for step in range(options.steps):
        loss = loss_of(model, drawn(train, options.batch // ranks, generator))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            testbed.report(step=step, loss=loss.item())
            print(f"step {step}: loss {loss.item():.3f}")
    with torch.no_grad():
        samples = drawn(test, 8 * TESTS, torch.manual_seed(0))
        losses = [loss_of(model.module, batch) for batch in samples.split(8)]
    reached = torch.stack(losses).mean().item()
    if rank == 0:
        testbed.report(step=options.steps, test_loss=reached)
        print(f"loss on text that nobody has trained on: {reached:.3f}")
    dist.destroy_process_group()
    if reached > options.loss:
        raise SystemExit(f"the loss {reached:.3f} is above {options.loss}")


if __name__ == "__main__":
    main()
