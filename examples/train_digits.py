"""A small network learns handwritten digits; its gradients are added up in the switches.

    sudo ina experiments/train_digits.yaml

An ordinary PyTorch script with DistributedDataParallel: nothing in it knows of the testbed but the
name of the backend and the two lines that report loss and accuracy. The 1797 digits ship with
scikit-learn. `--backend gloo` trains on the same network without aggregation.
"""

from __future__ import annotations

import argparse
import hashlib

import numpy as np
import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import testbed

TEST = 297  # digits that nobody trains on


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Images, float32[1797, 1, 8, 8] from 0 to 1, and their labels, in a fixed random order."""
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    images = torch.tensor(found.images[order], dtype=torch.float32)[:, None] / 16
    return images, torch.tensor(found.target[order])


def network() -> nn.Module:
    """A convolutional network with 38,282 parameters."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=25, help="of each rank")
    parser.add_argument("--backend", default="ina", choices=["ina", "gloo"])
    parser.add_argument("--accuracy", type=float, default=0.0, help="that it must reach")
    options = parser.parse_args()

    dist.init_process_group(options.backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    images, labels = digits()
    model = DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = 0
    for epoch in range(options.epochs):
        shuffled = torch.randperm(len(labels) - TEST, generator=torch.manual_seed(epoch)) + TEST
        for batch in shuffled.split(options.batch * ranks):
            own = batch[rank::ranks]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[own]), labels[own])
            loss.backward()
            optimizer.step()
            if rank == 0:
                testbed.report(step=step, loss=loss.item())
            step += 1
        with torch.no_grad():
            right = model.module(images[:TEST]).argmax(1) == labels[:TEST]
        accuracy = right.float().mean().item()
        if rank == 0:
            testbed.report(step=step, accuracy=accuracy)
            print(f"epoch {epoch}: loss {loss.item():.4f}, accuracy {accuracy:.3f}")
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    print(f"weights {hashlib.sha256(weights.numpy().tobytes()).hexdigest()}")
    dist.destroy_process_group()
    if accuracy < options.accuracy:
        raise SystemExit(f"accuracy {accuracy:.3f} is below {options.accuracy}")


if __name__ == "__main__":
    main()
