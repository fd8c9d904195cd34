"""Specifications of hosts for tests that have no experiment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from testbed.protocols.host_spec import Compute, HostSpec, JobSpec, SystemSpec, Tensor

OPTIONS = SystemSpec(
    order="front",
    window=8,
    timeout_ns=0,
    min_timeout_ns=1,
    max_timeout_ns=1,
    min_patience_ns=1,
)
JOB = JobSpec(
    number=0,
    name="job-0",
    system="esa",
    seed=1,
    workers=4,
    iterations=1,
    submitted_ns=0,
    start_ns=0,
    tensors=(Tensor("t", values=100, forward_ns=1, backward_ns=1),),
    fragments=2,
    values=64,
    bitmap_width=32,
    gradients=None,
    communication_ns=1,
    bound_ns=None,
    computation_ns=2,
    burst_ns=0,
)
WORKER = HostSpec(
    role="worker",
    number=0,
    host="h1",
    address="10.0.0.1",
    peers=("10.0.0.2",),
    rate_bps=0,
    job=JOB,
    options=OPTIONS,
    compute=Compute(),
)


def host_spec(job: dict[str, Any] | None = None, **fields: Any) -> HostSpec:
    """The specification of worker 0 with other values of some fields, and of its job's."""
    return replace(WORKER, job=replace(JOB, **(job or {})), **fields)
