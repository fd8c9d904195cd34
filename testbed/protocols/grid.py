"""GRID's hosts: those of the system whose memory it uses, sending as a plan says.

A worker's fragments name the switch that aggregates them and carry the tag of their way, and leave
at the rate that the plan has for the worker. A server reminds the switches that the plan has for a
fragment. With ATP's memory a fragment has its window position's index, and so on, as ATP's hosts
have it; else ESA's.
"""

from __future__ import annotations

import numpy as np

from testbed.protocols import atp, esa, pool_worker, server_store, stripes
from testbed.protocols import worker as wk
from testbed.protocols.floats import WorkerFloats
from testbed.protocols.progress import no_progress


def new_worker(
    spec: dict,
    gradients: tuple[np.ndarray, np.ndarray] | None = None,
    floats: WorkerFloats | None = None,
) -> pool_worker.Worker:
    """A worker machine; `gradients` and `floats` as in esa.py and atp.py."""
    if spec["memory"] == "atp":
        worker = atp.new_worker(spec, gradients, floats)
    else:
        worker = esa.new_worker(spec, gradients)
    worker.c[wk.PACE_PS] = spec["pace_ps"]
    return worker._replace(stripes=stripes.of_worker(*spec["stripes"]))


def new_server(spec: dict) -> server_store.Server:
    """A parameter server machine."""
    server = (atp if spec["memory"] == "atp" else esa).new_server(spec)
    server = server._replace(stripes=stripes.of_server(*spec["stripes"]))
    if len(spec["stripes"][0]) > 1:  # on several ways, fragments do not arrive in order
        server = server._replace(progress=no_progress())
    return server
