"""Trains the small model and keeps the float32 gradients of every worker.

Quantisation has to be tried on real gradients: they span many orders of magnitude, differ between
layers and workers, and shrink while training goes on. Nothing is downloaded: the images are ten
random smooth patterns, shifted and covered with noise, which a small network learns within a few
dozen steps. Initial weights and data come from numpy's Philox generator, so two machines differ
only by the rounding of torch's own sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from tools.models.definitions.convolutions import CLASSES, SIDE, SmallCNN
from tools.models.profile import Counted

SEED = 2022
WORKERS = 8
BATCH = 32
LEARNING_RATE = 0.01
KEPT = (0, 1, 5, 10, 20, 40)  # training iterations; the gradients of each worker are kept

SOURCE = (
    f"gradients: ours, data-parallel SGD with {WORKERS} workers of batch {BATCH}, learning rate "
    f"{LEARNING_RATE}, on generated images of {CLASSES} classes; kept of iterations "
    f"{', '.join(map(str, KEPT))}"
)


@dataclass(frozen=True)
class Training:
    """`gradients`: float32 [worker, kept iteration, value], layers concatenated in forward order.

    `loss`: float32 [worker, kept iteration]. `iterations`: int64 [kept iteration].
    """

    gradients: np.ndarray
    loss: np.ndarray
    iterations: np.ndarray


def train(layers: list[Counted]) -> Training:
    """Train SmallCNN for max(KEPT) + 1 iterations; `layers` gives the order of its parameters."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the order of a sum must not depend on the number of cores
    try:
        return _train(layers)
    finally:
        torch.set_num_threads(threads)


def _train(layers: list[Counted]) -> Training:
    model = SmallCNN()
    _initialise(model)
    parameters = dict(model.named_parameters())
    order = [parameters[f"{layer.name}.{part}"] for layer in layers for part in ("weight", "bias")]
    patterns = _patterns(np.random.Generator(np.random.Philox(SEED + 1)))
    samples = [np.random.Generator(np.random.Philox([SEED, worker])) for worker in range(WORKERS)]
    size = sum(parameter.numel() for parameter in order)
    gradients = np.zeros((WORKERS, len(KEPT), size), np.float32)
    losses = np.zeros((WORKERS, len(KEPT)), np.float32)
    for iteration in range(max(KEPT) + 1):
        mean = torch.zeros(size)
        for worker in range(WORKERS):
            images, labels = _batch(patterns, samples[worker])
            model.zero_grad()
            loss = cross_entropy(model(images), labels)
            loss.backward()
            flat = torch.cat([parameter.grad.flatten() for parameter in order])
            mean += flat / WORKERS
            if iteration in KEPT:
                gradients[worker, KEPT.index(iteration)] = flat.numpy()
                losses[worker, KEPT.index(iteration)] = loss.item()
        with torch.no_grad():
            for parameter, step in zip(
                order, mean.split([parameter.numel() for parameter in order]), strict=True
            ):
                parameter -= LEARNING_RATE * step.view_as(parameter)
    return Training(gradients, losses, np.array(KEPT, np.int64))


def _initialise(model: SmallCNN) -> None:
    """Normal weights of variance 2 / inputs (He), biases 0."""
    random = np.random.Generator(np.random.Philox(SEED))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.zero_()
            else:
                shape = tuple(parameter.shape)
                deviation = (2 / np.prod(shape[1:])) ** 0.5
                values = random.standard_normal(shape) * deviation
                parameter.copy_(torch.from_numpy(values.astype(np.float32)))


def _patterns(random: np.random.Generator) -> np.ndarray:
    """One smooth picture per class: float64 [class, SIDE, SIDE], mean 0, deviation 1."""
    coarse = random.standard_normal((CLASSES, SIDE // 4, SIDE // 4))
    fine = coarse.repeat(4, 1).repeat(4, 2)
    for axis in (1, 2):
        fine = (np.roll(fine, 1, axis) + 2 * fine + np.roll(fine, -1, axis)) / 4
    fine -= fine.mean((1, 2), keepdims=True)
    return fine / fine.std((1, 2), keepdims=True)


def _batch(patterns: np.ndarray, random: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Images float32 [BATCH, 1, SIDE, SIDE] and labels int64 [BATCH] of one worker."""
    labels = random.integers(0, CLASSES, BATCH)
    shifts = random.integers(-2, 3, (BATCH, 2))
    images = np.stack(
        [
            np.roll(patterns[label], shift, (0, 1))
            for label, shift in zip(labels, shifts, strict=True)
        ]
    )
    images += 0.7 * random.standard_normal(images.shape)
    return torch.from_numpy(images.astype(np.float32)[:, None]), torch.from_numpy(labels)
