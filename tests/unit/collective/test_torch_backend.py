"""The backend `ina` of torch.distributed: what goes through the network, and what over gloo."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install '.[torch]'")

import torch.distributed as dist  # noqa: E402

from tests.support.paths import ROOT  # noqa: E402
from tests.support.torch_groups import Network, group  # noqa: E402


def options(op):
    made = dist.AllreduceOptions()
    made.reduceOp = op
    return made


def test_pytorch_finds_the_backend_by_itself():
    (found,) = (each for each in entry_points(group="torch.backends") if each.name == "ina")
    assert found.value == "testbed.torch:register"
    found.load()()
    assert "ina" in dist.Backend.backend_list
    assert dist.Backend.default_device_backend_map["cpu"] == "gloo"


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_sums_go_through_the_network(dtype):
    network = Network()
    tensor = torch.arange(6, dtype=dtype).reshape(2, 3)
    work = group(network).allreduce([tensor], options(dist.ReduceOp.SUM))
    work.wait()
    assert torch.equal(tensor, 10 * torch.arange(6, dtype=dtype).reshape(2, 3))
    assert torch.equal(work.get_future().value()[0], tensor)
    assert len(network.calls) == 1


def test_averages_and_tensors_with_gaps_go_through_the_network():
    network = Network()
    whole = torch.zeros(4, 3)
    whole[:, 1] = torch.arange(4)
    made = group(network)
    made.allreduce([whole[:, 1]], options(dist.ReduceOp.SUM)).wait()
    made.allreduce([whole[:, 1]], options(dist.ReduceOp.AVG)).wait()
    np.testing.assert_array_equal(whole[:, 1], [0, 10, 20, 30])
    assert (whole[:, [0, 2]] == 0).all()
    assert network.calls == [np.float32, np.float32]


@pytest.mark.parametrize(
    "dtype, op",
    [
        (torch.float64, dist.ReduceOp.SUM),
        (torch.int64, dist.ReduceOp.SUM),
        (torch.float32, dist.ReduceOp.MAX),
        (torch.int32, dist.ReduceOp.BOR),
    ],
)
def test_the_rest_goes_over_gloo(dtype, op):
    network = Network()
    tensor = torch.ones(3, dtype=dtype)
    group(network).allreduce([tensor], options(op)).wait()
    assert torch.equal(tensor, torch.ones(3, dtype=dtype)) and not network.calls


def test_without_a_job_everything_goes_over_gloo():
    tensor = torch.ones(3)
    group(None).allreduce([tensor], options(dist.ReduceOp.SUM)).wait()
    assert torch.equal(tensor, torch.ones(3))


SCRIPT = """
from testbed.collective import CollectiveError
from tests.support.torch_groups import Network, group, torch
group(Network(CollectiveError("rank 2 has ended"))).allreduce([torch.ones(3)]).wait()
print("went on")
"""


def test_a_job_that_cannot_go_on_ends_the_process():
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "CollectiveError: rank 2 has ended" in done.stderr and not done.stdout


def test_data_parallel_training_uses_it_unmodified():
    """Its C++ part calls the group and waits for the works."""
    network = Network()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        linear = torch.nn.Linear(3, 1, bias=False)
        made = group(network)
        model = torch.nn.parallel.DistributedDataParallel(linear, process_group=made)
        model(torch.ones(2, 3)).sum().backward()
        assert len(network.calls) == 1
        assert torch.equal(linear.weight.grad, torch.full((1, 3), 20.0))
    finally:
        dist.destroy_process_group()
