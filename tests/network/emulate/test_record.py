"""`ina record`: what the ranks of a program give to the switches, replayed."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from testbed.traffic import chakra
from testbed.traffic.rank_graph import COMPUTE, RECV, SEND
from testbed.traffic.recording import load_recording
from tests.support.paths import ROOT
from tests.support.runs import succeeded

PROGRAM = """
name: clicks
topology: {{kind: star, hosts: 4}}
links: {{bandwidth: 100 Mbit/s}}
system: switchml
memory: {{aggregators: 256}}
jobs:
  - {{name: clicks, command: {examples}/train_clicks.py --steps 6, workers: 2}}
"""
REPLAY = """
name: replay
topology: {kind: star, hosts: 3}
links: {bandwidth: 100 Mbit/s, loss: 1 %}
system: esa
memory: {aggregators: 256}
jobs:
  - {name: clicks, model: clicks.npz, workers: 2, iterations: 2}
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch: pip install '.[torch]'")
def test_a_program_is_recorded_and_replayed_on_mininet(tmp_path: Path):
    file = tmp_path / "experiment.yaml"
    file.write_text(PROGRAM.format(examples=ROOT / "examples"))
    output = tmp_path / "clicks.npz"
    words = ["record", file, "-o", output, "--steps", "2", "--results", tmp_path / "recorded"]
    command = [sys.executable, ROOT / "run.py", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    recording = load_recording(output)
    assert (recording.ranks, recording.header["steps"]) == (2, [3, 4])
    read = succeeded(REPLAY, tmp_path / "results")
    job = read.jobs.iloc[0]
    assert job.exact and job.values_checked == 2 * 2 * 107_009


MESH = """
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")  # the experiment makes it `ina`
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
parallelize_module(net, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
fully_shard(net, mesh=mesh["dp"])
whole = DistributedDataParallel(nn.Linear(8, 8, bias=False))
optimizer = torch.optim.SGD([*net.parameters(), *whole.parameters()], lr=0.1)
for step in range(4):
    given = torch.randn(4, 8, dtype=torch.float32)
    net(whole(given)).square().mean().backward()
    if dist.get_rank() == 0:
        dist.send(given, 3)
    if dist.get_rank() == 3:
        dist.recv(given, 0)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""
# Of rank 0 in a step: calls and bytes. Its part of `net` has 8 * 8 + 8 + 8 * 8 + 8 parameters.
STEP = {
    ("world", "all_reduce"): (1, 4 * 64),
    ("world", "send"): (1, 4 * 32),
    ("mesh_dp.1", "all_gather"): (1, 4 * 144 // 2),
    ("mesh_dp.1", "reduce_scatter"): (1, 4 * 144),
    ("mesh_tp.3", "all_reduce"): (2, 2 * 4 * 32),  # forward, and backward to `whole`
}


REPLAYED_RANKS = """
name: replay
runtime: %s
topology: {kind: star, hosts: 5}
links: {bandwidth: 100 Mbit/s%s}
system: esa
memory: {aggregators: 256}
jobs:
  - {name: mesh, model: %s, workers: 4, iterations: 1}
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch: pip install '.[torch]'")
def test_all_groups_of_a_program_are_recorded_and_replayed(tmp_path: Path):
    (tmp_path / "mesh.py").write_text(MESH)
    file = tmp_path / "experiment.yaml"
    text = PROGRAM.replace("{{", "{").replace("}}", "}").replace("hosts: 4", "hosts: 5")
    job = "{name: mesh, command: mesh.py, backend: ina, workers: 4, groups: 8}"
    file.write_text(f"{text[: text.index('  - ')]}  - {job}\n")
    output = tmp_path / "out" / "mesh.et"
    output.parent.mkdir()
    words = ["record", file, "-o", output, "--skip", "2", "--results", tmp_path / "recorded"]
    command = [sys.executable, ROOT / "run.py", *words, "--steps", "2"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = {"mesh.json", *(f"mesh.{rank}.et" for rank in range(4))}
    assert {each.name for each in output.parent.iterdir()} == names
    program = chakra.load(output)
    calls, sizes = Counter(), Counter()
    for node in program.ranks[0]:
        if node.kind != "compute":
            calls[node.group, node.kind] += 1
            sizes[node.group, node.kind] += node.bytes
    assert {key: (calls[key] / 2, sizes[key] / 2) for key in calls} == STEP
    command = [sys.executable, ROOT / "run.py", "recording", output]
    said = subprocess.run(command, capture_output=True, text=True)
    assert re.search(r"mesh_tp.4 +2, 3 +all_reduce +float32 +4 +1\s024", said.stdout), said.stdout
    expected: Counter[tuple] = Counter()
    for rank, nodes in enumerate(program.ranks):
        for node in nodes:
            if node.kind != COMPUTE:
                ranks = program.groups[node.group]
                label = "all" if len(ranks) == 4 else " ".join(map(str, ranks))
                route = "flow" if node.kind in (SEND, RECV) else "system"
                expected[rank, label, node.kind, route] += node.bytes
    for runtime, links in ("mininet", ", loss: 1 %"), ("virtual", ""):
        read = succeeded(REPLAYED_RANKS % (runtime, links, output), tmp_path / runtime)
        rows = read.table("collectives")
        found: Counter[tuple] = Counter()
        for row in rows.itertuples():
            found[row.worker, row.communicator, row.collective, row.route] += row.bytes
        assert found == expected
