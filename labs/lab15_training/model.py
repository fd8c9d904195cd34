"""A small model that really trains, on pictures like digits: two layers, softmax, numpy alone.

The pictures are drawn from a seed: ten shapes of 8 x 8 pixels, moved, faded and with noise. Four
workers have a quarter of them each. What the caller makes of the workers' gradients is the step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

WORKERS, BLOCK = 4, 64
SIDE, HIDDEN, CLASSES = 8, 16, 10
INPUTS = SIDE * SIDE
TRAINING, TEST = 400, 600  # pictures
STEPS, RATE = 60, 2.0
COUNT = INPUTS * HIDDEN + HIDDEN * CLASSES
SIZE = -(-COUNT // BLOCK) * BLOCK

Sum = Callable[[list[np.ndarray]], np.ndarray]


class Task:
    """Pictures, and a network that learns which shape they show."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        shapes = [_shape(rng) for _ in range(CLASSES)]
        self.training = _pictures(rng, shapes, TRAINING)
        self.test = _pictures(rng, shapes, TEST)
        self.start = np.zeros(SIZE)
        self.start[:COUNT] = rng.normal(0, 0.2, COUNT)

    def train(self, total: Sum) -> float:
        """The share of test pictures that is named rightly after STEPS steps, in which `total` adds
        up the workers' gradients (float32[SIZE])."""
        weights = self.start.copy()
        for _ in range(STEPS):
            parts = [self._gradient(weights, worker) for worker in range(WORKERS)]
            step = np.asarray(total(parts), np.float64)
            weights -= RATE * np.nan_to_num(step, posinf=0, neginf=0)
        pictures, labels = self.test
        named = _forward(weights, pictures)[1].argmax(axis=1)
        return float((named == labels).mean())

    def _gradient(self, weights: np.ndarray, worker: int) -> np.ndarray:
        """The gradient of this worker's share of the mean loss, float32."""
        pictures, labels = (part[worker::WORKERS] for part in self.training)
        hidden, output = _forward(weights, pictures)
        output[np.arange(len(labels)), labels] -= 1
        output /= TRAINING
        _, second = _layers(weights)
        back = output @ second.T * (1 - hidden**2)
        made = np.concatenate([(pictures.T @ back).ravel(), (hidden.T @ output).ravel()])
        return np.pad(made, (0, SIZE - COUNT)).astype(np.float32)


def _shape(rng: np.random.Generator) -> np.ndarray:
    """A line that wanders over the pixels."""
    made, place = np.zeros((SIDE, SIDE)), rng.integers(2, SIDE - 2, 2)
    for _ in range(14):
        made[tuple(place)] = 1.0
        place = np.clip(place + rng.integers(-1, 2, 2), 1, SIDE - 2)
    return made


def _pictures(
    rng: np.random.Generator, shapes: list[np.ndarray], count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Pictures (float64[count, INPUTS]), and which shape each shows."""
    labels = rng.integers(0, CLASSES, count)
    made = np.empty((count, INPUTS))
    for n, label in enumerate(labels):
        moved = np.roll(shapes[label], tuple(rng.integers(0, 2, 2)), (0, 1))
        noise = rng.normal(0, 0.25, (SIDE, SIDE))
        made[n] = (moved * rng.uniform(0.6, 1.2) + noise).ravel()
    return made, labels


def _layers(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    cut = INPUTS * HIDDEN
    return weights[:cut].reshape(INPUTS, HIDDEN), weights[cut:COUNT].reshape(HIDDEN, CLASSES)


def _forward(weights: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    first, second = _layers(weights)
    hidden = np.tanh(x @ first)
    scores = hidden @ second
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, scores / scores.sum(axis=1, keepdims=True)
