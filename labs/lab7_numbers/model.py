"""A small model that really trains: two layers, softmax, numpy only.

Four workers have a quarter of the samples each. In every step each computes its own gradient; what
the caller makes of the four is the step. So whatever aggregation does to the numbers shows in the
loss.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

WORKERS = 4
INPUTS, HIDDEN, CLASSES = 12, 14, 4
SAMPLES, STEPS, RATE = 240, 40, 0.8
SIZE = -(-(INPUTS * HIDDEN + HIDDEN * CLASSES) // 64) * 64  # padded to whole blocks

Sum = Callable[[list[np.ndarray]], np.ndarray]


class Task:
    """Points around a few centres, and a network that learns which centre they belong to."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        centres = rng.normal(0, 1.5, (CLASSES, INPUTS))
        self.labels = rng.integers(0, CLASSES, SAMPLES)
        self.points = centres[self.labels] + rng.normal(0, 1, (SAMPLES, INPUTS))
        self.start = np.zeros(SIZE)
        count = INPUTS * HIDDEN + HIDDEN * CLASSES
        self.start[:count] = rng.normal(0, 0.3, count)
        self.first_loss = self.loss(self.start)

    def train(self, total: Sum) -> float:
        """The loss after STEPS steps in which `total` adds up the workers' gradients (float32)."""
        weights = self.start.copy()
        for _ in range(STEPS):
            parts = [self._gradient(weights, worker) for worker in range(WORKERS)]
            step = np.asarray(total(parts), np.float64)
            weights -= RATE * np.nan_to_num(step, posinf=0, neginf=0)
        return self.loss(weights)

    def loss(self, weights: np.ndarray) -> float:
        """The mean cross entropy over all samples."""
        chosen = self._forward(weights, self.points)[1][np.arange(SAMPLES), self.labels]
        return float(-np.log(np.maximum(chosen, 1e-12)).mean())

    def _layers(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cut = INPUTS * HIDDEN
        second = weights[cut : cut + HIDDEN * CLASSES]
        return weights[:cut].reshape(INPUTS, HIDDEN), second.reshape(HIDDEN, CLASSES)

    def _forward(self, weights: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first, second = self._layers(weights)
        hidden = np.tanh(x @ first)
        scores = hidden @ second
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return hidden, scores / scores.sum(axis=1, keepdims=True)

    def _gradient(self, weights: np.ndarray, worker: int) -> np.ndarray:
        """The gradient of this worker's share of the mean loss, float32."""
        own = slice(worker, None, WORKERS)
        x, labels = self.points[own], self.labels[own]
        hidden, output = self._forward(weights, x)
        output[np.arange(len(x)), labels] -= 1
        output /= SAMPLES
        _, second = self._layers(weights)
        back = output @ second.T * (1 - hidden**2)
        made = np.concatenate([(x.T @ back).ravel(), (hidden.T @ output).ravel()])
        return np.pad(made, (0, SIZE - len(made))).astype(np.float32)
