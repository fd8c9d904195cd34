"""Graphs of ranks that run without packets: results come when a test says so."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from p4fabric.simulate.jit import njit

from testbed.protocols import lag, send_scoreboard
from testbed.protocols.host_spec import Compute, Tensor
from testbed.workload import graph_source, training
from tests.support.host_specs import host_spec


class Exchange(NamedTuple):
    """A protocol that only begins iterations."""

    nothing: np.ndarray


@njit
def begin(exchange, scoreboard, iteration):
    send_scoreboard.begin(scoreboard, iteration)


class Driven:
    """A port of a graph with its communicator's scoreboard, with tensors of `sizes` values."""

    def __init__(self, port: graph_source.Port, sizes: list[int], iterations: int) -> None:
        self.port = port
        self.scoreboard = send_scoreboard.new_scoreboard(
            sizes, 4, iterations, send_scoreboard.FRONT, 8
        )
        self._exchange = Exchange(np.zeros(1))

    @property
    def graph(self) -> graph_source.Graph:
        return self.port.graph

    def run(self, now: int) -> None:
        """Run the graph up to `now`."""
        while graph_source.drive(self.port, self._exchange, self.scoreboard, now):
            pass

    def arrive(self, tensor: int, when: int) -> None:
        """The sum of a tensor of the iteration is there."""
        state = self.scoreboard.state
        self.scoreboard.done_ns[state.row, tensor] = when
        state.unfinished -= 1


def training_loop(
    tensors: tuple[Tensor, ...], iterations: int = 1, compute: Compute | None = None
) -> Driven:
    """A worker's training loop."""
    job: dict[str, Any] = {"tensors": tensors, "iterations": iterations}
    spec = host_spec(job, compute=compute or Compute())
    port = training.of_spec(spec, lag.new_lag())
    return Driven(port, [tensor.values for tensor in tensors], iterations)
