"""The recorder that works away from the testbed: what it writes of trainings on the CPU."""

from __future__ import annotations

import os
import pkgutil  # noqa: F401, runpy imports it when it is first called
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from testbed.collective import ina_recorder as recorder
from testbed.traffic import chakra
from testbed.traffic.rank_graph import Node
from testbed.traffic.recording import load_recording
from tests.support.recordings import header_of, times_of, values_of, write_recording

SCRIPT = """
import sys
import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 200), nn.ReLU(), nn.Linear(200, 3))
plain = nn.Sequential(nn.Linear(6, 200), nn.ReLU(), nn.Linear(200, 3))
plain.load_state_dict(net.state_dict())
model = DistributedDataParallel(net, bucket_cap_mb=0.002)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
draw = torch.Generator().manual_seed(rank)
own = []
for step in range(6):
    batch = torch.randn(4, 6, generator=draw)
    plain.load_state_dict(model.module.state_dict())
    plain.zero_grad()
    plain(batch).square().mean().backward()
    own.append({name: each.grad.numpy() / 2 for name, each in plain.named_parameters()})
    optimizer.zero_grad()
    with torch.no_grad():
        model(batch)
    model(batch).square().mean().backward()
    optimizer.step()
np.savez(f"{sys.argv[1]}/own{rank}.npz", **{f"{s}/{n}": a for s, e in enumerate(own)
                                            for n, a in e.items()})
weights = torch.cat([each.detach().flatten() for each in model.parameters()]).numpy()
np.save(f"{sys.argv[1]}/weights{rank}.npy", weights)
dist.destroy_process_group()
"""


# Data parallel over ranks 0, 2 and 1, 3; tensor parallel over 0, 1 and 2, 3.
MESH = """
import sys
import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, RowwiseParallel, parallelize_module
)
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
torch.manual_seed(0)


def net():  # of 280 parameters
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))


def twice(bucket):  # on one of gloo's threads, the second time
    half = bucket.buffer().half() / 16

    def again(_):
        work = dist.all_reduce(half, async_op=True)
        return bucket.buffer().copy_(work.get_future().wait()[0])

    return dist.all_reduce(half, async_op=True).get_future().then(again)


ddp = DistributedDataParallel(net(), bucket_cap_mb=0.0004)
hooked = DistributedDataParallel(net())
hooked.register_comm_hook(None, lambda _, bucket: twice(bucket))
buffered = DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)))
fsdp1 = FullyShardedDataParallel(net(), device_id=torch.device("cpu"))
fsdp2 = fully_shard(net(), mesh=mesh["dp"])
split = parallelize_module(net(), mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
models = [ddp, hooked, buffered, fsdp1, fsdp2]
optimizer = torch.optim.SGD([p for each in models for p in each.parameters()], lr=0.1)
other = torch.optim.SGD(split.parameters(), lr=0.1)
draw = torch.Generator().manual_seed(rank)
sizes = [[1, 2, 0, 1], [0, 1, 1, 2], [2, 0, 1, 1], [1, 1, 1, 1]]  # of each rank, for each rank
mine, theirs = sizes[rank], [each[rank] for each in sizes]
for step in range(5):
    batch = torch.randn(4, 8, generator=draw)
    for each in [*models, split]:
        each(batch).square().mean().backward()
    value = torch.tensor([float(rank)])
    if rank < 2:  # a pipeline
        got = torch.empty(1)
        pair = [dist.P2POp(dist.isend, value, 1 - rank), dist.P2POp(dist.irecv, got, 1 - rank)]
        for work in dist.batch_isend_irecv(pair):
            work.wait()
    elif rank == 2:
        dist.recv(torch.empty(3, dtype=torch.float64), tag=step)  # from any rank
    else:
        dist.send(torch.ones(3, dtype=torch.float64), 2, tag=step)
    dist.all_to_all_single(torch.empty(sum(theirs)), torch.ones(sum(mine)), theirs, mine)
    dist.broadcast(value, 1)
    dist.reduce(value, 2)
    dist.scatter(torch.empty(2), [torch.ones(2)] * 4 if rank == 3 else None, src=3)
    dist.gather(value, [torch.empty(1) for _ in sizes] if rank == 0 else None, dst=0)
    dist.barrier()
    dist.all_reduce(value, group=mesh.get_group("dp"), async_op=True).wait()
    with torch.inference_mode():
        dist.all_reduce(torch.ones(2, dtype=torch.int64))
    other.step()
    optimizer.step()
    optimizer.zero_grad()
    other.zero_grad()
whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for m in [*models, split]
         for p in m.parameters()]
weights = torch.cat([each.detach().flatten() for each in whole]).numpy()
np.save(f"{sys.argv[1]}/weights{rank}.npy", weights)
dist.destroy_process_group()
"""
# What rank 0 gives in a step: calls, and bytes of all of them. The buffers are 16 floats and a
# number.
STEP = {
    ("world", "all_reduce", "float32"): (3, 1120 + 352),  # the buckets of `ddp`, and `buffered`
    ("world", "all_reduce", "float16"): (2, 1120),
    ("world", "all_reduce", "int64"): (1, 16),
    ("world", "broadcast", "float32"): (2, 64 + 4),
    ("world", "broadcast", "int64"): (1, 8),
    ("world", "all_gather", "float32"): (1, 280),
    ("world", "reduce_scatter", "float32"): (1, 1120),
    ("world", "send", "float32"): (1, 4),
    ("world", "recv", "float32"): (1, 4),
    ("world", "all_to_all", "float32"): (1, 16),
    ("world", "reduce", "float32"): (1, 4),
    ("world", "scatter", "float32"): (1, 32),
    ("world", "gather", "float32"): (1, 4),
    ("world", "barrier", ""): (1, 0),
    ("mesh_dp.1", "all_gather", "float32"): (1, 560),
    ("mesh_dp.1", "reduce_scatter", "float32"): (1, 1120),
    ("mesh_dp.1", "all_reduce", "float32"): (1, 4),
    ("mesh_tp.3", "all_reduce", "float32"): (1, 128),
}

# One rank, whose clock runs only where the script says so; a wait takes 70 us.
TIMES = """
import sys, time
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

now = 0
time.perf_counter_ns = lambda: now
original = dist.Work.wait


def wait(work, *values):
    global now
    now += 70_000
    return original(work, *values)


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(context, value):
        return value.clone()

    @staticmethod
    def backward(context, gradient):
        global now
        now += 8_000
        return gradient


dist.Work.wait = wait
sys.path.insert(0, sys.argv[1])
import elsewhere as ina_recorder

ina_recorder.record(f"{sys.argv[1]}/run.et", skip=0)
dist.init_process_group("gloo")
value = torch.ones(2)
now += 1_000
dist.all_reduce(value)
now += 2_000
work = dist.all_reduce(value, async_op=True)
now += 3_000
dist.barrier()
now += 4_000
work.wait()
now += 5_000
value = functional.all_reduce(value, "sum", dist.group.WORLD)
now += 6_000
value = value + 1
now += 7_000
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
model(Slow.apply(model(torch.ones(1)))).backward()
now += 9_000
dist.destroy_process_group()
"""
GRAPH = [
    ("compute", (), 1_000),
    ("all_reduce", (0,), 0),
    ("compute", (0,), 0),  # between call and wait
    ("compute", (1, 2), 2_000),
    ("all_reduce", (3,), 0),  # the asynchronous one
    ("compute", (3,), 3_000),
    ("barrier", (5,), 0),
    ("compute", (5,), 0),
    ("compute", (6, 7), 4_000),
    ("compute", (4, 8), 5_000),
    ("all_reduce", (9,), 0),  # the functional one
    ("compute", (9,), 6_000),
    ("compute", (10, 11), 7_000),
    ("all_gather", (12,), 0),  # DDP compares the shapes of its parameters, in C++
    ("broadcast", (12,), 0),
    ("compute", (13, 14), 0),
    ("broadcast", (15,), 0),  # and makes the parameters equal
    ("compute", (16,), 0),
    ("compute", (17,), 0),
    ("compute", (18,), 8_000),
    ("all_reduce", (19,), 0),  # of the bucket, for which the end of the backward pass waits
    ("compute", (19,), 0),
    ("compute", (20, 21), 9_000),
]


def training(
    folder: Path, port: int, *words: str | Path, script: str = SCRIPT, size: int = 2
) -> list[subprocess.Popen]:
    """Ranks of a script, with these words before it."""
    (folder / "train.py").write_text(script)
    common = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [
        subprocess.Popen(
            [sys.executable, *words, folder / "train.py", folder],
            env={**os.environ, **common, "RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(size)
    ]


def ended(ranks: list[subprocess.Popen]) -> list[str]:
    """Standard error of the ranks, which must have ended well."""
    said = [rank.communicate()[1] for rank in ranks]
    assert not any(rank.returncode for rank in ranks), "\n".join(said)  # a list would be cut
    return said


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch: pip install '.[torch]'")
def test_it_records_what_a_script_gives_to_all_reduce_and_changes_nothing(tmp_path, free_port):
    ended(training(tmp_path, free_port()))
    weights = np.load(tmp_path / "weights0.npy")
    # The file works alone, where there is no testbed.
    alone = shutil.copy(recorder.__file__, tmp_path / "elsewhere.py")
    output = tmp_path / "run.npz"
    words = alone, "run", "-o", output, "--steps", "3", "--skip", "2"
    ended(training(tmp_path, free_port(), *words))
    assert (np.load(tmp_path / "weights0.npy") == weights).all()
    subprocess.run([sys.executable, alone, "join", output], check=True)

    recording = load_recording(output)
    assert (recording.ranks, recording.header["steps"]) == (2, [2, 3, 4])
    buckets = recording.header["buckets"]
    assert len(buckets) > 1, "or the times of several buckets are not tested"
    with recorder.Archive(output) as archive:
        for rank in range(2):
            own = np.load(tmp_path / f"own{rank}.npz")
            for place, step in enumerate([2, 3, 4]):
                for number, bucket in enumerate(buckets):
                    given = archive.values(rank, place, number, recorder.bucket_values(bucket))
                    names = [each["name"] for each in bucket["parameters"]]
                    expected = np.concatenate([own[f"{step}/{name}"].ravel() for name in names])
                    assert (given == expected).all()
    times = recording.times
    assert (np.diff(times["ready_ns"], axis=2) >= 0).all()
    assert (times["ready_ns"][..., 0] > times["forward_end_ns"]).all()
    assert (times["needed_ns"][..., -1] < times["needed_ns"][..., 0]).all(), "front first"
    assert (times["update_start_ns"] > times["ready_ns"][..., -1]).all()
    assert (times["next_ns"] > times["update_end_ns"]).all()


def before(nodes: Sequence[Node], place: int) -> set[int]:
    """The nodes that one depends on."""
    found, left = set(), [place]
    while left:
        more = set(nodes[left.pop()].after) - found
        found |= more
        left += more
    return found


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch: pip install '.[torch]'")
def test_it_records_all_groups_whoever_calls_them_and_changes_nothing(tmp_path, free_port):
    words = recorder.__file__, "run", "-o", tmp_path / "run.et", "--steps", "2", "--skip", "2"
    ended(training(tmp_path, free_port(), script=MESH, size=4))
    weights = [np.load(tmp_path / f"weights{rank}.npy") for rank in range(4)]
    ended(training(tmp_path, free_port(), *words, script=MESH, size=4))
    for rank in range(4):
        assert (np.load(tmp_path / f"weights{rank}.npy") == weights[rank]).all()

    program = chakra.load(tmp_path / "run.et")  # so all ranks' calls fit together
    assert program.groups == {
        "world": (0, 1, 2, 3),
        **{"mesh_dp.1": (0, 2), "mesh_dp.2": (1, 3), "mesh_tp.3": (0, 1), "mesh_tp.4": (2, 3)},
    }
    calls, sizes = Counter(), Counter()
    for node in program.ranks[0]:
        if node.kind != "compute":
            key = node.group, node.kind, node.dtype
            calls[key] += 1
            sizes[key] += node.bytes
    assert {key: (calls[key] / 2, sizes[key] / 2) for key in calls} == STEP
    for nodes in program.ranks:  # everything is waited for
        assert nodes[-1].kind == "compute" and len(before(nodes, len(nodes) - 1)) == len(nodes) - 1
    second = program.ranks[2]
    assert [node.peer for node in second if node.kind == "recv"] == [3, 3], "from any rank"
    assert [node.tag for node in second if node.kind == "recv"] == [2, 3]
    assert {node.parts for node in second if node.kind == "all_to_all"} == {(8, 0, 4, 4)}
    roots = {node.kind: node.peer for node in second if node.peer >= 0 and node.bytes == 4}
    assert roots == {"broadcast": 1, "reduce": 2, "gather": 0}


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch: pip install '.[torch]'")
def test_computation_is_what_lies_between_calls_and_waits(tmp_path, free_port):
    shutil.copy(recorder.__file__, tmp_path / "elsewhere.py")
    ended(training(tmp_path, free_port(), script=TIMES, size=1))
    (nodes,) = chakra.load(tmp_path / "run.et").ranks
    assert [(node.kind, node.after, node.duration_ns) for node in nodes] == GRAPH


class Gpu:
    """A GPU's streams with times, as PyTorch's `torch.cuda` shows it to the recorder."""

    class Stream:
        def __init__(self, number: int) -> None:
            self.cuda_stream, self.now_ms = number, 0

    class Event:
        def __init__(self, enable_timing: bool = False) -> None:
            self.at_ms = 0

        def record(self, stream: Gpu.Stream) -> None:
            self.at_ms = stream.now_ms

        def wait(self, stream: Gpu.Stream) -> None:
            stream.now_ms = max(stream.now_ms, self.at_ms)

        def elapsed_time(self, later: Gpu.Event) -> float:
            return later.at_ms - self.at_ms

    def __init__(self) -> None:
        self.main, self.side = self.Stream(0), self.Stream(7)
        self.current = self.main

    def default_stream(self, _: object) -> Stream:
        return self.main

    def current_stream(self) -> Stream:
        return self.current

    def get_device_name(self, _: object) -> str:
        return "GPU"

    def synchronize(self) -> None:
        pass


@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch: pip install '.[torch]'")
def test_streams_of_a_gpu_only_order_except_for_the_one_that_computes(tmp_path, monkeypatch):
    """As FSDP2 does it: a collective on a side stream, which begins with an event of the main
    stream and ends with one that the main stream waits for, beside 30 ms of computation."""
    import torch

    gpu = Gpu()
    monkeypatch.setattr(torch, "cuda", gpu)
    monkeypatch.setattr(recorder._Program, "_named", lambda *_: ("world", [0]))
    program = recorder.record(tmp_path / "run.et", skip=0)
    program._rank, program._world, program._groups = 0, 1, {"world": [0]}
    on_gpu = SimpleNamespace(
        device=SimpleNamespace(type="cuda"),
        untyped_storage=lambda: SimpleNamespace(_cdata=1),
        **{"numel": lambda: 4, "element_size": lambda: 2, "dtype": torch.bfloat16},
    )

    def collective(kind: str, took_ms: int, work: object = None) -> object:
        """On the current stream; work: None for a synchronous call."""

        def call() -> object:
            if work is None:
                gpu.current.now_ms += took_ms
            return work

        options = None, None, None
        return program._operation(kind, None, [on_gpu], 0, options, call, lambda result: result)

    collective("barrier", 1)
    gpu.main.now_ms += 20
    begin, end = gpu.Event(), gpu.Event()
    begin.record(gpu.main)
    begin.wait(gpu.side)
    gpu.current = gpu.side
    collective("all_gather", 100)
    end.record(gpu.side)
    gpu.current = gpu.main
    gpu.main.now_ms += 30
    end.wait(gpu.main)
    assert gpu.main.now_ms == 121
    gpu.main.now_ms += 10
    collective("all_reduce", 5)
    gpu.main.now_ms += 4
    program.finish()
    (nodes,) = chakra.load(tmp_path / "run.et").ranks
    ms = 1_000_000
    assert [(node.kind, node.after, node.duration_ns) for node in nodes] == [
        ("compute", (), 0),
        ("barrier", (0,), 0),
        ("compute", (1,), 20 * ms),
        ("all_gather", (2,), 0),
        ("compute", (2,), 30 * ms),
        ("compute", (3, 4), 10 * ms),
        ("all_reduce", (5,), 0),
        ("compute", (6,), 4 * ms),
    ]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch: pip install '.[torch]'")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run.et", "--skip", "9"), "nothing is recorded: the training had 6 steps, and the first"),
        (("run.et", "--steps", "9"), "run.et has 3 steps; the training had no more"),
        (("run.et", "--steps", "0"), "error: recording"),
        (("run.txt",), "run.txt: name a file that ends in .npz or .et"),
    ],
    ids=["too few steps to skip", "few steps", "no steps", "no kind"],
)
def test_what_is_not_recorded_is_told(tmp_path, free_port, words, said):
    options = recorder.__file__, "run", "-o", tmp_path / words[0], *words[1:]
    ranks = training(tmp_path, free_port(), *options)
    assert all(said in rank.communicate()[1] for rank in ranks)


@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch: pip install '.[torch]'")
def test_a_group_that_pytorch_does_not_know_works_on(tmp_path, capsys):
    import torch.distributed as dist

    class Own(dist.ProcessGroup):
        def allreduce(self, tensors, opts=None):
            return "done"

    program = recorder.record(tmp_path / "run.et", skip=0)
    try:
        program._rank, program._world = 0, 1
        group = Own(0, 1)
        assert [group.allreduce([]), group.allreduce([])] == ["done", "done"]
    finally:
        program.finish()
    said = capsys.readouterr().err
    assert said.count("a process group that torch.distributed has not made is not recorded") == 1
    assert "nothing is recorded: there were no collectives" in said
    assert group.allreduce([]) == "done" and not list(tmp_path.iterdir())


def test_a_name_that_does_not_fit_is_told():
    with pytest.raises(
        recorder.RecordingError, match="run.et: call record\\(\\), which needs no mod"
    ):
        recorder.attach(None, "run.et")
    with pytest.raises(recorder.RecordingError, match="run.npz: name a file that ends in .et"):
        recorder.record("run.npz")


def split(folder: Path) -> list[Path]:
    """The parts of two ranks, and what `join` must make of them."""
    whole = write_recording(folder / "whole.npz")
    for rank in range(2):
        header = header_of(2, 3, ranks=[rank], devices=["GPU"])
        times = {name: array[rank : rank + 1] for name, array in times_of(2, 3).items()}
        members = (
            (recorder.member_of(rank, step, bucket), values_of(rank, step, bucket))
            for step in range(3)
            for bucket in range(2)
        )
        recorder.write(recorder.part_of(folder / "run.npz", rank), header, times, members)
    return [whole, folder / "run.npz"]


def test_parts_become_one_recording(tmp_path, capsys):
    whole, path = split(tmp_path)
    recorder.main(["join", str(path)])
    assert capsys.readouterr().out == f"{path}\n"
    one, other = load_recording(whole), load_recording(path)
    assert one.header == other.header
    assert (one.values() == other.values()).all()
    assert all((one.times[name] == other.times[name]).all() for name in one.times)


def test_a_recording_may_have_many_steps(tmp_path):
    """Its times have a size of their own; larger arrays than it says are not read."""
    times = times_of(2, 800)
    path = tmp_path / "run.npz"
    recorder.write(path, header_of(2, 800, values=False), times, iter(()))
    with recorder.Archive(path) as archive:
        assert all((archive.times()[name] == times[name]).all() for name in times)
        archive.header["steps"] = [1]
        with pytest.raises(recorder.RecordingError, match="has 25728 bytes; header.json says 32"):
            archive.times()


def test_parts_that_do_not_fit_are_told(tmp_path, capsys):
    _, path = split(tmp_path)
    part = recorder.part_of(path, 1)
    kept = part.read_bytes()
    with pytest.raises(SystemExit, match="2"):
        recorder.main(["join", str(path), str(recorder.part_of(path, 0))])
    assert capsys.readouterr().err.startswith(f"error: {path}: the part of rank 1 of 2 is missing")
    header = header_of(2, 2, ranks=[1], devices=["GPU"])
    times = {name: array[1:2] for name, array in times_of(2, 2).items()}
    recorder.write(part, header | {"values": False}, times, iter(()))
    with pytest.raises(recorder.RecordingError, match="rank1.npz: steps is not that of .*rank0"):
        recorder.join(path)
    part.write_bytes(kept)
    with pytest.raises(recorder.RecordingError, match="copy.npz: has rank 1, as .*rank1.npz has"):
        recorder.join(path, [part, shutil.copy(part, tmp_path / "copy.npz")])
    with pytest.raises(recorder.RecordingError, match="there are no parts none.rank0.npz"):
        recorder.join(tmp_path / "none.npz")


def test_traces_of_ranks_are_joined_if_their_groups_are_the_same(tmp_path, capsys):
    path = tmp_path / "run.et"

    def write(rank: int, ranks: list[int]) -> None:
        about = {"rank": rank, "world": 2, "groups": {"all": ranks}}
        graph = [("all_reduce", (), 5, {"pg_name": "all", "comm_size": size}) for size in (8, 16)]
        recorder.write_trace(recorder.trace_part(path, rank), about, graph)

    for rank in range(2):
        write(rank, [0, 1])
    recorder.main(["join", str(path)])
    assert "".join(path.with_suffix(".json").read_text().split()) == '{"all":[0,1]}'
    calls = [line.split() for line in capsys.readouterr().out.splitlines() if "calls" in line]
    assert calls == [["all", "all_reduce", "2", "calls", "24", "bytes"]] * 2
    write(1, [1, 0])
    with pytest.raises(recorder.RecordingError, match="1.et: its group all has ranks"):
        recorder.join_traces(path)


class Ticks:
    """A clock that is a microsecond further each time somebody looks."""

    def __init__(self) -> None:
        self.looks = 0

    def perf_counter_ns(self) -> int:
        self.looks += 1
        return 1000 * self.looks


class Training:
    """A rank of four, in this process. Its model has two buckets, the end of the model first; the
    sum over all ranks is ten times what this one gives (tests/support/torch_groups.py)."""

    def __init__(self, monkeypatch) -> None:
        torch = pytest.importorskip("torch", reason="needs PyTorch: pip install '.[torch]'")
        from tests.support.torch_groups import Network, group

        self.torch, self.given = torch, []
        monkeypatch.setattr(recorder, "time", Ticks())
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(6, 200), torch.nn.Linear(200, 3))
        self.model = torch.nn.parallel.DistributedDataParallel(
            self.net, process_group=group(Network()), bucket_cap_mb=0.002
        )
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        for name, number in ("get_rank", 2), ("get_world_size", 4):
            monkeypatch.setattr(torch.distributed, name, lambda group, number=number: number)

    def backward(self) -> None:
        self.model(self.torch.ones(1, 6)).sum().backward()

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.backward()
        self.given.append({name: each.grad.numpy() / 10 for name, each in self.names()})
        self.optimizer.step()

    def names(self):
        return self.net.named_parameters()

    def values(self, step: int, bucket: dict) -> np.ndarray:
        """What the rank has given in a step, of all, to all-reduce."""
        names = [each["name"] for each in bucket["parameters"]]
        return np.concatenate([self.given[step][name].ravel() for name in names])


@pytest.fixture
def trained(monkeypatch):
    yield (made := Training(monkeypatch))
    made.torch.distributed.destroy_process_group()


def test_times_are_those_of_the_events_of_a_step(trained, tmp_path):
    """Every mark is a tick after the one before, whatever copying takes."""
    recorder.attach(trained.model, tmp_path / "run.npz", steps=2, skip=2)
    for _ in range(5):
        trained.step()
        with trained.torch.no_grad():  # a pass without gradients is no step
            trained.model(trained.torch.ones(1, 6))
    with recorder.Archive(tmp_path / "run.rank2.npz") as archive:
        found, header = archive.times(), archive.header
        assert {
            name: header[name] for name in ("world", "ranks", "devices", "steps", "values")
        } == dict(world=4, ranks=[2], devices=["CPU"], steps=[2, 3], values=True)
        assert header["divided"] is True and header["model"] == "Sequential"
        for place in range(2):
            for number, bucket in enumerate(header["buckets"]):
                count = recorder.bucket_values(bucket)
                given = archive.values(2, place, number, count)
                np.testing.assert_allclose(given, trained.values(2 + place, bucket), rtol=1e-6)
    names = [[each["name"] for each in bucket["parameters"]] for bucket in header["buckets"]]
    assert [sorted(each) for each in names] == [["1.bias", "1.weight"], ["0.bias", "0.weight"]]
    for step in range(2):
        times = {name: array[0, step].tolist() for name, array in found.items()}
        assert times == dict(
            needed_ns=[2000, 1000],
            forward_end_ns=3000,
            ready_ns=[4000, 6000],
            update_start_ns=8000,
            update_end_ns=9000,
            next_ns=10000,
        )


def test_gradients_of_several_passes_are_one_step(trained, tmp_path):
    """With a hook of the script, whose values are not divided; the last step ends the process."""
    given = []

    def hook(state, bucket):
        given.append((state, bucket.buffer().numpy().copy()))
        future = trained.torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    made = recorder.attach(trained.model, tmp_path / "run.npz", steps=9, skip=1)
    trained.step()
    trained.model.register_comm_hook("state", hook)
    for _ in range(3):
        with trained.model.no_sync():
            trained.backward()
        trained.backward()
        trained.optimizer.step()
    made.finish()
    made.finish()
    with recorder.Archive(tmp_path / "run.rank2.npz") as archive:
        header, times = archive.header, archive.times()
        assert (header["steps"], header["divided"]) == ([1, 2, 3], False)
        found = [
            archive.values(2, place, number, recorder.bucket_values(bucket))
            for place in range(3)
            for number, bucket in enumerate(header["buckets"])
        ]
    assert {state for state, _ in given} == {"state"}
    for one, (_, other) in zip(found, given[-6:], strict=True):
        np.testing.assert_array_equal(one, other)
    # Three ticks of the first pass are none of the second, in which a module is first used.
    assert times["needed_ns"].tolist() == [3 * [[5000, 4000]]]
    assert times["next_ns"].tolist() == [[13000, 13000, recorder.UNKNOWN]]


def test_the_limits_of_a_recording(trained, tmp_path):
    """2003 values of 1000 steps are 8.012 MB."""
    path = tmp_path / "run.npz"
    with pytest.raises(recorder.RecordingError, match="the values of 1000 steps are 8 MB on each"):
        recorder.attach(trained.model, path, steps=1000, limit_mb=8.0119)
    for steps, skip in (0, 0), (1, -1):
        with pytest.raises(recorder.RecordingError, match=f"found steps {steps} and skip {skip};"):
            recorder.attach(trained.model, path, steps=steps, skip=skip)
    recorder.attach(trained.model, path, steps=1000, limit_mb=8.0121).finish()
    assert not list(tmp_path.iterdir())


def test_without_values_any_number_of_steps_is_recorded(trained, tmp_path, capsys):
    """Also in the first steps, before the buckets have their order."""
    wanted = dict(steps=10**6, skip=0, values=False)
    made = recorder.attach(trained.model, tmp_path / "run.npz", **wanted)
    for _ in range(3):
        trained.step()
    made.finish()
    trained.step()
    with recorder.Archive(path := tmp_path / "run.rank2.npz") as archive:
        header, times = archive.header, archive.times()
        assert (header["steps"], header["values"]) == ([1, 2], False)
        with pytest.raises(recorder.RecordingError, match="has no values/2/0/0.npy"):
            archive.values(2, 0, 0, 1)
    assert times["ready_ns"].tolist() == [2 * [[4000, 5000]]]
    assert capsys.readouterr().err == (
        f"ina_recorder: {path} has 2 steps; the training had no more\n"
    )


def test_a_training_that_is_too_short_is_told(trained, tmp_path, capsys):
    made = recorder.attach(trained.model, tmp_path / "run.npz", skip=2)
    trained.step()
    trained.step()
    trained.model.eval()
    trained.model(trained.torch.ones(1, 6))
    made.finish()
    assert not list(tmp_path.iterdir())
    said = "nothing is recorded: the training had 2 steps, and the first 2 are left out (skip)\n"
    assert capsys.readouterr().err == f"ina_recorder: {said}"


def test_times_of_a_gpu_are_those_of_its_stream(monkeypatch):
    torch = pytest.importorskip("torch", reason="needs PyTorch: pip install '.[torch]'")

    class Event:
        passed_ms = 0.0

        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            Event.passed_ms += 2.5
            self.at = Event.passed_ms

        def elapsed_time(self, other):
            return other.at - self.at

    monkeypatch.setattr(torch.cuda, "Event", Event)
    clock = recorder._Clock(torch.device("cuda"))
    first, second = clock.mark(), clock.mark()
    assert clock.between_ns(first, second) == 2_500_000
    assert clock.between_ns(second, first) == 0
    assert clock.between_ns(first, None) == recorder.UNKNOWN


def test_the_command_runs_a_script_as_python_does(tmp_path, monkeypatch, capsys):
    wanted = []
    monkeypatch.setattr(recorder, "attach_to_first", lambda *a, **k: wanted.append((*a, k)))
    monkeypatch.setattr(sys, "argv", ["ina_recorder.py"])
    monkeypatch.setattr(sys, "path", ["elsewhere", "behind"])
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "scripts/train.py"
    script.parent.mkdir()
    script.write_text("import sys\nprint(__name__, sys.argv, sys.path)\n")
    recorder.main(["run", "-o", "run.npz", str(script), "--steps", "4"])
    assert capsys.readouterr().out == (
        f"__main__ {[str(script), '--steps', '4']} {[str(script.parent), 'behind']}\n"
    )
    words = ["--steps", "4", "--skip", "1", "--no-values", "--limit", "9"]
    recorder.main(["run", "-o", "run.npz", *words, str(script)])
    path = tmp_path / "run.npz"
    assert wanted == [
        (path, dict(steps=8, skip=3, values=True, limit_mb=256)),
        (path, dict(steps=4, skip=1, values=False, limit_mb=9)),
    ]


def test_the_first_model_of_a_script_is_recorded(monkeypatch):
    torch = pytest.importorskip("torch", reason="needs PyTorch: pip install '.[torch]'")
    parallel = torch.nn.parallel.DistributedDataParallel
    made = []

    def init(self, *arguments, **keys):
        made.append((arguments, keys))

    monkeypatch.setattr(parallel, "__init__", init)
    monkeypatch.setattr(recorder, "attach", lambda *a, **k: made.append((*a, k)))
    recorder.attach_to_first("run.npz", steps=4)
    first, _ = parallel("net", device_ids=None), parallel("other")
    built = ("net",), {"device_ids": None}
    assert made == [built, (first, "run.npz", {"steps": 4}), (("other",), {})]


@pytest.fixture
def free_port():
    def found() -> int:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            return int(listener.getsockname()[1])

    return found
