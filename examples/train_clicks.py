"""A recommender learns from generated clicks; most of its parameters are in embeddings.

    sudo ina experiments/train_clicks.yaml

An ordinary PyTorch script with DistributedDataParallel. An event has four categories: a person, a
page, a product and a place. Some are seen often and most are rare, so in a step most rows of the
embeddings have a gradient of 0. Whether a product is clicked depends on hidden properties of the
four, which the network has to find. The measure is the area under the ROC curve: how often a click
gets a higher score than an event without one. 0.5 is a guess.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import testbed

SIZES = (3000, 300, 3000, 100)  # how many persons, pages, products and places there are
HIDDEN = 4  # properties of each
WIDTH = 16  # of an embedding
TEST = 10_000  # events


class Clicks:
    """A world in which people click, the same on all ranks."""

    def __init__(self) -> None:
        random = np.random.default_rng(0)
        self.properties = [random.normal(size=(size, HIDDEN)) for size in SIZES]
        # The share of the events that the k-th of a category has falls as 1 / k.
        self.shares = [1 / np.arange(1, size + 1) for size in SIZES]
        self.shares = [share / share.sum() for share in self.shares]

    def events(self, seed: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Categories, int64[count, 4], and whether it was clicked, float32[count]."""
        random = np.random.default_rng(seed)
        drawn = [
            random.choice(size, count, p=share)
            for size, share in zip(SIZES, self.shares, strict=True)
        ]
        person, page, product, place = (
            each[which] for each, which in zip(self.properties, drawn, strict=True)
        )
        wish = (person * product).sum(axis=1) + (page * product).sum(axis=1) / 2 + place[:, 0]
        clicked = random.random(count) < 1 / (1 + np.exp(-1.5 * wish))
        return torch.tensor(np.stack(drawn, axis=1)), torch.tensor(clicked, dtype=torch.float32)


class Recommender(nn.Module):
    """Scores of events, float32[n], from their categories and the products of their embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(size, WIDTH) for size in SIZES)
        for embedding in self.embeddings:
            nn.init.normal_(embedding.weight, std=0.2)
        pairs = len(SIZES) * (len(SIZES) - 1) // 2
        self.first, self.second = torch.triu_indices(len(SIZES), len(SIZES), 1)
        self.layers = nn.Sequential(
            nn.Linear(len(SIZES) * WIDTH + pairs, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def forward(self, events: torch.Tensor) -> torch.Tensor:
        found = torch.stack([each(events[:, i]) for i, each in enumerate(self.embeddings)], 1)
        products = (found[:, self.first] * found[:, self.second]).sum(2)
        return self.layers(torch.cat([found.flatten(1), products], 1)).squeeze(1)


def area(scores: torch.Tensor, clicked: torch.Tensor) -> float:
    """Share of the pairs of a click and another event in which the click has the higher score."""
    ranks = scores.argsort().argsort().double() + 1
    clicks = clicked.sum().item()
    below = ranks[clicked > 0].sum().item() - clicks * (clicks + 1) / 2
    return below / (clicks * (len(clicked) - clicks))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=1024, help="events of a step, of all ranks")
    parser.add_argument("--backend", default="ina", choices=["ina", "gloo"])
    parser.add_argument("--area", type=float, default=0.0, help="under the curve, to be reached")
    options = parser.parse_args()

    dist.init_process_group(options.backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    clicks = Clicks()
    torch.manual_seed(0)
    model = DistributedDataParallel(Recommender())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(options.steps):
        events, clicked = clicks.events(1 + step * ranks + rank, options.batch // ranks)
        loss = nn.functional.binary_cross_entropy_with_logits(model(events), clicked)
        optimizer.zero_grad()
        loss.backward()
        if rank == 0 and step % 20 == 0:
            table = model.module.embeddings[2].weight.grad
            empty = (table == 0).all(1).float().mean().item()
            testbed.report(step=step, loss=loss.item(), empty_rows=empty)
            print(f"step {step}: loss {loss.item():.3f}, products without gradient {empty:.0%}")
        optimizer.step()
    with torch.no_grad():
        events, clicked = clicks.events(0, TEST)
        reached = area(model.module(events), clicked)
    if rank == 0:
        testbed.report(step=options.steps, area=reached)
        print(f"area under the ROC curve: {reached:.3f}")
    dist.destroy_process_group()
    if reached < options.area:
        raise SystemExit(f"the area {reached:.3f} is below {options.area}")


if __name__ == "__main__":
    main()
