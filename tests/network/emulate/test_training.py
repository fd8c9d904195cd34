"""PyTorch training through the switches: DistributedDataParallel and FSDP, unmodified, on
Mininet."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.runs import succeeded

pytestmark = pytest.mark.skipif(
    find_spec("torch") is None, reason="needs PyTorch: pip install '.[torch]'"
)

EXPERIMENT = """
name: training
topology: {{kind: star, hosts: 5}}
links: {{bandwidth: 50 Mbit/s, loss: 1 %, duplicate: 1 %, reorder: 1 %}}
system: {system}
memory: {{aggregators: {aggregators}}}
timers: {{min_timeout: 20 ms, max_timeout: 200 ms}}
jobs:
  - {{name: t, command: program.py {steps} {scale}, workers: 4, numbers: {numbers}}}
"""

# Trains twice from the same weights: with the network's sums, and with sums that each rank makes
# by itself from all ranks' gradients, which it gathers over gloo, by the formulas of the docs.
PROGRAM = """
import math
import sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

steps, scale = int(sys.argv[1]), int(sys.argv[2])  # scale 0: exponents
floats = 0
dist.init_process_group("ina")
rank = dist.get_rank()
gloo = dist.new_group(backend="gloo")
said = [None] * 4
dist.all_gather_object(said, {"rank": rank})
assert [each["rank"] for each in said] == [0, 1, 2, 3]
dist.barrier()


def summed_fixed(arrays):
    global floats
    whole = (arrays.double() * scale).round()
    sums = (whole.sum(0) / scale).float()
    for start in range(0, arrays.shape[1], 64):
        fragment = slice(start, start + 64)
        if whole[:, fragment].abs().max() > 213000000:
            floats += 1
            columns = arrays[:, fragment].double().T.tolist()
            sums[fragment] = torch.tensor([math.fsum(each) for each in columns]).float()
    return sums


def summed(arrays):
    if scale:
        return summed_fixed(arrays)
    parts = []
    for start in range(0, arrays.shape[1], 4096):
        block = arrays[:, start : start + 4096].double()
        exponent = int(torch.frexp(block.abs().max())[1])
        exponent += exponent % 2 == 0
        steps = 2.0 ** (31 - 3 - exponent)
        parts.append(((block * steps).round().sum(0) / steps).float())
    return torch.cat(parts)


def hook(state, bucket):
    own = bucket.buffer() / 4
    everyone = [torch.empty_like(own) for _ in range(4)]
    dist.all_gather(everyone, own, group=gloo)
    future = torch.futures.Future()
    future.set_result(summed(torch.stack(everyone)))
    return future


def trained(through_network):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 100), nn.Tanh(), nn.Linear(100, 10))
    model = DistributedDataParallel(net, process_group=None if through_network else gloo)
    if not through_network:
        model.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 / 64, momentum=0.9)
    draw = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        images = torch.randn(8, 64, generator=draw)
        loss = nn.functional.cross_entropy(model(images), images[:, :10].argmax(1))
        optimizer.zero_grad()
        (64 * loss).backward()  # so that some do not fit the fixed scale
        optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in net.parameters()])


torch.set_num_threads(1)
found, reference = trained(True), trained(False)
everyone = [torch.empty_like(found) for _ in range(4)]
dist.all_gather(everyone, found)
assert all(torch.equal(each, found) for each in everyone), "the ranks differ"
assert torch.equal(found, reference), (found - reference).abs().max()
dist.destroy_process_group()
print("equal bit by bit;", floats, "fragments as floats")
"""


@pytest.mark.parametrize(
    "system, aggregators, steps, scale",
    [
        ("esa", 64, 20, 0),
        # So little memory that fragments collide and are evicted.
        pytest.param("esa", 12, 60, 0, marks=pytest.mark.slow),
        # So fine that some fragments go as float32.
        pytest.param("atp", 12, 60, 10**9, marks=pytest.mark.slow),
        pytest.param("switchml", 32, 60, 0, marks=pytest.mark.slow),
    ],
)
def test_weights_are_those_of_the_same_sums_over_gloo(
    tmp_path: Path, system, aggregators, steps, scale
):
    (tmp_path / "program.py").write_text(PROGRAM)
    options = f"{{name: {system}, fixed_point_scale: {scale}}}" if scale else f"{{name: {system}}}"
    numbers = "fixed" if scale else "exponents"
    read = succeeded(
        EXPERIMENT.format(
            system=options, aggregators=aggregators, steps=steps, scale=scale, numbers=numbers
        ),
        tmp_path / "results",
    )
    for rank in range(4):
        said = (read.folder / "logs" / f"t-rank{rank}.log").read_text()
        found = re.search(r"equal bit by bit; (\d+) fragments as floats", said)
        assert found and (int(found[1]) > 0) == bool(scale), said
    job = read.jobs.iloc[0]
    parameters = 64 * 100 + 100 + 100 * 10 + 10
    assert job.values_checked >= 4 * steps * parameters, "gradients went through the network"


# Trains the same network with both kinds of FSDP, and without, in a group of gloo.
ORDERED = """
import os
import sys
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import fully_shard

torch.set_num_threads(1)
rank = int(os.environ["RANK"])
if "moved" in sys.argv:  # the ranks are others than the job's
    store = dist.TCPStore(os.environ["MASTER_ADDR"], 29501, 4, is_master=rank == 0)
    rank = (rank + 1) % 4
    dist.init_process_group("ina", store=store, rank=rank, world_size=4)
else:
    dist.init_process_group("ina")
    rank = dist.get_rank()
parts = [torch.zeros(3) for _ in range(4)]
dist.all_gather(parts, torch.full((3,), float(rank)))
assert torch.stack(parts)[:, 0].tolist() == [0, 1, 2, 3]
root = torch.full((2,), rank)
dist.broadcast(root, 1)
assert root.tolist() == [1, 1]
own = torch.zeros(2)
dist.reduce_scatter(own, [*torch.arange(8.0).view(4, 2)])
assert own.tolist() == [8 * rank, 8 * rank + 4]
dist.monitored_barrier()
pair = dist.split_group(split_ranks=[[0, 1], [3, 2]])
both = torch.tensor([float(rank)])
dist.all_reduce(both, group=pair)
assert both.item() == (1 if rank < 2 else 5)
dist.destroy_process_group(pair)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
whole = {name: value.clone() for name, value in net.state_dict().items()}
for layer in net[0], net[2]:
    fully_shard(layer)
fully_shard(net)
options = StateDictOptions(full_state_dict=True)
for _ in range(100 if "moved" in sys.argv else 20):
    found = get_model_state_dict(net, options=options)
    assert all(torch.equal(found[name], whole[name]) for name in found)
assert rank > 0 or found.keys() == whole.keys()
print("in order")
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["moved", "torchrun"])
def test_ranks_are_those_of_the_process_group(tmp_path: Path, how):
    """Also where a script or torchrun numbers them otherwise; with the state dicts of FSDP2, whose
    all-gathers C++ starts (these once hung in most runs)."""
    (tmp_path / "program.py").write_text(ORDERED)
    (tmp_path / "start").write_text(
        f"#!/bin/sh\nexec {sys.executable} -m torch.distributed.run "
        "--nnodes 4 --rdzv-backend c10d --rdzv-endpoint h1:29500 --rdzv-id 7"
        f" --log-dir {tmp_path}/torchrun {tmp_path}/program.py\n"
    )
    (tmp_path / "start").chmod(0o755)
    text = EXPERIMENT.format(system="esa", aggregators=64, steps=how, scale="", numbers="exponents")
    if how == "torchrun":
        text = text.replace("program.py", str(tmp_path / "start"))
    read = succeeded(text, tmp_path / "results")
    for rank in range(4):
        assert "in order" in (read.folder / "logs" / f"t-rank{rank}.log").read_text()
