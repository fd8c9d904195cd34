"""The training loop of a layer-by-layer job as a program of ranks, for a look at it before a run.

Forward through the layers, backward through them, a layer's sum beside the rest of the backward
pass, and its update after its sum. (The loop that runs, testbed/workload/training.py, overlaps the
updates and the forward pass of the next iteration with the last sums.)
"""

from __future__ import annotations

from testbed.traffic.rank_graph import COMPUTE, Program
from testbed.traffic.rank_layout import Layout, Template, staged
from testbed.traffic.trace import Trace


def layer_program(trace: Trace, workers: int) -> Program:
    """The program of one iteration of a trace with this many workers."""
    template = Template()
    last: tuple[int, ...] = ()
    for layer in trace.layers:
        last = (template.add(COMPUTE, last, duration_ns=layer.forward_ns),)
    for layer in reversed(trace.layers):
        last = (template.add(COMPUTE, last, duration_ns=layer.backward_ns),)
        summed = template.add("all_reduce", last, "dp", bytes=4 * layer.values, dtype="float32")
        template.add(COMPUTE, (summed,), duration_ns=layer.update_ns)
    about = {"title": f"{trace.title}, {workers} workers", "device": trace.hardware}
    return staged(Layout(dp=workers), [template], about)
