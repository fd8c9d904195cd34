"""The calls of our control plane, kept.

`testbed.dataplane.install_tables` fills any switch that has `batch`. This one only keeps calls, so
that two switches can be given the same ones, and a test can look at them."""

from __future__ import annotations


class Recorder:
    """A switch that keeps what it is told: `calls` is [(name, *arguments), ...]."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []

    def batch(self, calls: list[tuple]) -> None:
        self.calls += calls
