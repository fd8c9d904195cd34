"""The training loop as a rank's graph (rank_graph.py).

Forward runs layer by layer from the front; layer l of iteration i + 1 may start when the aggregated
gradient of layer l of iteration i is here. The forward step begins with the update of the layer's
weights, which the first iteration does not need. Then the exchange of the iteration opens, and
backward runs from the last layer to the first; a layer's gradient is ready when its backward step
is done, and is exchanged while backward goes on.
"""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np

from testbed.protocols.host_spec import HostSpec
from testbed.workload.graph_source import CALL, COMPUTE, OPEN, Nodes, Port, stream_of


def of_spec(spec: HostSpec, lags: np.ndarray) -> Port:
    """The loop of a worker's specification, with its first forward step to come."""
    job, compute = spec.job, spec.compute
    if compute is None:
        raise ValueError(f"{spec.title} computes nothing")
    layers = len(job.tensors)
    made = _nodes(layers)
    own = tuple((each.forward_ns, each.backward_ns, each.update_ns) for each in job.tensors)
    durations, updates = _times(compute.steps or (own,))
    stream = stream_of(spec, job.number, spec.number)
    calls_ns = np.zeros(len(made.kinds), np.int64)
    for layer, call_ns in enumerate(spec.costs.call_ns if spec.costs is not None else ()):
        calls_ns[_backward(layers, layer) + 1] = call_ns
    graph = made.graph(spec, stream, durations, updates, ahead=1, calls_ns=calls_ns)
    return Port(graph, own=np.zeros(1, np.int64), lag=lags)


@lru_cache(maxsize=16)
def _times(times: tuple[tuple[tuple[int, int, int], ...], ...]) -> tuple[np.ndarray, np.ndarray]:
    """Durations of nodes and, of forward steps, of updates, int64[times, nodes], ns. times:
    forward, backward and update time of each layer."""
    table = np.array(times, np.int64)
    layers = table.shape[1]
    durations = np.zeros((len(times), len(_nodes(layers).kinds)), np.int64)
    updates = np.zeros_like(durations)
    backward = [_backward(layers, layer) for layer in range(layers)]
    durations[:, :layers], durations[:, backward] = table[:, :, 0], table[:, :, 1]
    updates[:, :layers] = table[:, :, 2]
    return durations, updates


@cache
def _nodes(layers: int) -> Nodes:
    """Nodes 0 to L - 1 are the forward steps and L opens the exchange. Layer l has its backward
    step in node `_backward` and its call in the node behind."""
    made = Nodes()
    for layer in range(layers):
        first = [_backward(layers, 0)] if layer == 0 else []
        carried = [_backward(layers, layer) + 1, *first]
        made.add(COMPUTE, [layer - 1] if layer else [], carried=carried, layer=layer)
    made.add(OPEN, [layers - 1], port=0)
    for layer in reversed(range(layers)):
        before = layers if layer == layers - 1 else _backward(layers, layer + 1)
        made.add(COMPUTE, [before])
        made.add(CALL, [_backward(layers, layer)], port=0, tensor=layer)
    return made


def _backward(layers: int, layer: int) -> int:
    return layers + 1 + 2 * (layers - 1 - layer)
