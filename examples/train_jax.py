"""A network of JAX's learns handwritten digits; its gradients are added up in the switches.

    sudo ina experiments/train_jax.yaml

The step is compiled as a whole. Its gradients leave it by a callback, which gives them to the
testbed's `allreduce` as one array, and come back as their mean over all ranks. The 1797 digits ship
with scikit-learn.
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from jax.flatten_util import ravel_pytree
from sklearn.datasets import load_digits

import testbed
from testbed import collective

TEST = 297  # digits that nobody trains on


def new_weights() -> list[dict[str, jax.Array]]:
    """Of a network with 64 inputs, 100 units and 10 outputs; 7,510 numbers."""
    keys = jax.random.split(jax.random.PRNGKey(0), 2)
    return [
        {"weights": jax.random.normal(key, (m, n)) / m**0.5, "bias": jnp.zeros(n)}
        for key, m, n in zip(keys, (64, 100), (100, 10), strict=True)
    ]


def scores(layers: list[dict[str, jax.Array]], images: jax.Array) -> jax.Array:
    first, last = layers
    inside = jnp.tanh(images @ first["weights"] + first["bias"])
    return inside @ last["weights"] + last["bias"]


def loss_of(layers: list[dict[str, jax.Array]], images: jax.Array, labels: jax.Array) -> jax.Array:
    logs = jax.nn.log_softmax(scores(layers, images))
    return -jnp.take_along_axis(logs, labels[:, None], axis=1).mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=25, help="of each rank")
    parser.add_argument("--accuracy", type=float, default=0.0, help="that it must reach")
    options = parser.parse_args()

    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    images, labels = found.images[order].reshape(-1, 64) / 16, found.target[order]
    with collective.join() as job:

        def mean(array: np.ndarray) -> np.ndarray:
            return job.allreduce(np.asarray(array), mean=True)

        @jax.jit
        def step(layers, images, labels):
            loss, gradients = jax.value_and_grad(loss_of)(layers, images, labels)
            flat, back = ravel_pytree(gradients)
            # Ordered: all ranks must call the same collectives in the same order.
            same = jax.ShapeDtypeStruct(flat.shape, flat.dtype)
            gradients = back(io_callback(mean, same, flat, ordered=True))
            return loss, jax.tree.map(lambda x, g: x - 0.5 * g, layers, gradients)

        layers, number = new_weights(), 0
        for epoch in range(options.epochs):
            shuffled = np.random.default_rng(epoch).permutation(len(labels) - TEST) + TEST
            for start in range(0, len(shuffled), options.batch * job.size):
                own = shuffled[start : start + options.batch * job.size][job.rank :: job.size]
                loss, layers = step(layers, jnp.float32(images[own]), labels[own])
                if job.rank == 0:
                    testbed.report(step=number, loss=float(loss))
                number += 1
            right = scores(layers, images[:TEST]).argmax(1) == labels[:TEST]
            accuracy = float(right.mean())
            if job.rank == 0:
                testbed.report(step=number, accuracy=accuracy)
                print(f"epoch {epoch}: loss {float(loss):.4f}, accuracy {accuracy:.3f}")
    if accuracy < options.accuracy:
        raise SystemExit(f"accuracy {accuracy:.3f} is below {options.accuracy}")


if __name__ == "__main__":
    main()
