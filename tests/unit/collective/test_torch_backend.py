"""The backend `ina` of torch.distributed: what goes through the network, and what over gloo."""

from __future__ import annotations

import functools
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
import types
from datetime import timedelta
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install '.[torch]'")

import torch.distributed as dist  # noqa: E402
import torch.distributed.distributed_c10d as c10d  # noqa: E402
from p4fabric.base.errors import UserError  # noqa: E402

from testbed.collective import CollectiveError, client, torch_backend  # noqa: E402
from testbed.paths import import_path  # noqa: E402
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


@pytest.mark.parametrize("first", ["testbed.torch", "testbed.collective.torch_experts"])
def test_whichever_module_is_imported_first_makes_the_backend_known(first):
    code = f"import {first}, torch; assert 'ina' in torch.distributed.Backend.backend_list"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_sums_go_through_the_network(dtype):
    network = Network()
    tensor = torch.arange(6, dtype=dtype).reshape(2, 3)
    work = group(network).allreduce([tensor], options(dist.ReduceOp.SUM))
    work.wait()
    assert torch.equal(tensor, 10 * torch.arange(6, dtype=dtype).reshape(2, 3))
    assert torch.equal(work.get_future().value()[0], tensor)
    assert len(network.calls) == 1
    assert work.is_completed() and work.is_success()


def test_averages_and_tensors_with_gaps_go_through_the_network():
    network = Network()
    whole = torch.zeros(4, 3)
    whole[:, 1] = torch.arange(4)
    made = group(network)
    made.allreduce([whole[:, 1]], options(dist.ReduceOp.SUM)).wait()
    made.allreduce([whole[:, 1]], options(dist.ReduceOp.AVG)).wait()
    np.testing.assert_array_equal(whole[:, 1], [0, 10, 20, 30])
    assert (whole[:, [0, 2]] == 0).all()
    assert network.calls == 2 * [("allreduce", np.float32)]


@pytest.mark.parametrize("factor", [0.5, torch.tensor([0.5])])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_ranks_multiply_before_the_sum(dtype, factor):
    network = Network()
    made, own = group(network), torch.arange(20, dtype=dtype)
    premultiplied = options(dist._make_nccl_premul_sum(factor))
    made.allreduce([own], premultiplied).wait()
    assert torch.equal(own, 5 * torch.arange(20, dtype=dtype))
    scatter = c10d.ReduceScatterOptions()
    scatter.reduceOp = premultiplied.reduceOp
    part, whole = torch.zeros(2, dtype=dtype), torch.arange(20, dtype=dtype)
    made.reduce_scatter_single(part, whole, scatter).wait()
    assert part.tolist() == [30, 35] and torch.equal(whole, torch.arange(20, dtype=dtype))
    assert network.calls == [("allreduce", np.float32), ("reduce_scatter", np.float32)]
    assert network.kinds == {str(dtype).removeprefix("torch.")}


@pytest.mark.skipif(
    not hasattr(dist.AllreduceOptions(), "asyncOp"), reason="this PyTorch does not say who waits"
)
def test_a_call_that_waits_is_done_when_it_returns_and_needs_no_thread():
    """`dist.all_reduce(tensor)`, as opposed to `async_op=True`."""
    network = Network()
    made = group(network)

    def waiting(kind):
        opts = kind()
        opts.asyncOp = False
        return opts

    tensor, whole, part = torch.ones(3), torch.zeros(10, 3), torch.zeros(2)
    parts = [torch.zeros(3) for _ in range(10)]
    assert made.allreduce([tensor], waiting(dist.AllreduceOptions)) is None
    assert tensor.tolist() == [10, 10, 10]
    assert made.broadcast([tensor], waiting(c10d.BroadcastOptions)) is None
    assert (
        made.reduce_scatter_single(part, torch.ones(20), waiting(c10d.ReduceScatterOptions)) is None
    )
    assert part.tolist() == [10, 10]
    assert made.all_gather_single(whole, torch.ones(3), waiting(c10d.AllgatherOptions)) is None
    assert made.allgather([parts], [torch.ones(3)], waiting(c10d.AllgatherOptions)) is None
    assert bool((whole == 1).all()) and all(each.tolist() == [1, 1, 1] for each in parts)
    assert made.barrier(waiting(c10d.BarrierOptions)) is None
    assert len(network.calls) == 6 and made._line._thread is None


KINDS = [torch.float32, torch.int64, torch.uint8, torch.bool, torch.bfloat16, torch.float64]


@pytest.mark.parametrize("dtype", KINDS)
def test_any_type_is_gathered_and_broadcast_through_the_network(dtype):
    network = Network()
    made = group(network)
    own = torch.tensor([0, 1, 1], dtype=dtype)
    gathered = torch.zeros(10, 3, dtype=dtype)
    made.all_gather_single(gathered, own).wait()
    assert torch.equal(gathered, own.expand(10, 3))
    parts = [torch.zeros(3, dtype=dtype) for _ in range(10)]
    made.allgather([parts], [own]).wait()
    assert all(torch.equal(part, own) for part in parts)
    options = c10d.BroadcastOptions()
    options.rootRank = 7
    made.broadcast([own], options).wait()
    assert network.root == 7
    made.barrier().wait()
    names = [call if isinstance(call, str) else call[0] for call in network.calls]
    assert names == ["all_gather", "all_gather", "broadcast", "barrier"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_a_rank_gets_its_part_of_sums_through_the_network(dtype):
    network = Network()
    made = group(network)
    given = torch.arange(20, dtype=dtype)
    part = torch.zeros(2, dtype=dtype)
    made.reduce_scatter_single(part, given).wait()
    assert part.tolist() == [60, 70]
    whole = torch.zeros(3, 2, dtype=dtype)
    made.reduce_scatter([whole[:2, 1]], [[*given.view(10, 2)]]).wait()
    assert whole.tolist() == [[0, 60], [0, 70], [0, 0]]
    assert network.calls == 2 * [("reduce_scatter", given.numpy().dtype)]


def test_tensors_of_different_sizes_are_gathered_over_gloo():
    network = Network()
    parts = [torch.zeros(1)]
    group(network).allgather([parts], [torch.ones(1)])
    assert len(network.calls) == 1
    parts = [torch.zeros(1), torch.zeros(2)]
    with pytest.raises(RuntimeError):  # of gloo, whose group has one rank
        group(network).allgather([parts], [torch.ones(1)]).wait()
    assert len(network.calls) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_of_16_bit_floats_travel_as_float32_and_are_rounded_once(dtype):
    network = Network()
    made = group(network)
    whole = torch.tensor([[0.1, 1], [256, -3], [7, 0.3]], dtype=dtype)
    expected = (10 * whole.float()).to(dtype)[:, 0]
    made.allreduce([whole[:, 0]], options(dist.ReduceOp.SUM)).wait()
    assert torch.equal(whole[:, 0], expected)
    part = torch.zeros(2, dtype=dtype)
    made.reduce_scatter_single(part, torch.full((20,), 0.3, dtype=dtype)).wait()
    assert torch.equal(part, (10 * torch.full((2,), 0.3, dtype=dtype).float()).to(dtype))
    assert network.calls == [("allreduce", np.float32), ("reduce_scatter", np.float32)]


def test_several_tensors_travel_as_one():
    network = Network()
    made = group(network)
    own = [torch.arange(4.0).view(2, 2), torch.zeros(0), torch.tensor([5.0])]
    made.allreduce_coalesced([each := own[0].clone(), own[1], own[2]]).wait()
    assert torch.equal(each, 10 * own[0]) and own[2].item() == 50
    parts = [torch.zeros(2), torch.zeros(1, 3)]
    given = [torch.arange(20.0), torch.arange(30.0)]
    made.reduce_scatter_single_coalesced(parts, given).wait()
    assert parts[0].tolist() == [60, 70] and parts[1].tolist() == [[90, 100, 110]]
    inputs = [torch.tensor([True, False, True]), torch.tensor([1.5]), torch.tensor([-7])]
    gathered = [each.new_empty(10 * each.numel()) for each in inputs]
    made.all_gather_single_coalesced(gathered, inputs).wait()
    for one, all_ in zip(inputs, gathered, strict=True):
        assert torch.equal(all_, one.repeat(10))
    lists = [[torch.zeros_like(each) for each in inputs] for _ in range(10)]
    made.allgather_coalesced(lists, inputs).wait()
    assert all(torch.equal(a, b) for row in lists for a, b in zip(row, inputs, strict=True))
    names = [name for name, _ in network.calls]
    assert names == ["allreduce", "reduce_scatter", "all_gather", "all_gather"]


ONE = torch.ones(1)
GLOO = {
    "all_reduce of float64": lambda g: g.allreduce([ONE.double()]),
    "all_reduce of int64": lambda g: g.allreduce([ONE.long()]),
    "all_reduce of float32": lambda g: g.allreduce([ONE.clone()], options(dist.ReduceOp.MAX)),
    "all_reduce of int32": lambda g: g.allreduce([ONE.int()], options(dist.ReduceOp.BOR)),
    "reduce_scatter of int64": lambda g: g.reduce_scatter_single(ONE.long(), ONE.long()),
    "reduce of float64": lambda g: g.reduce([ONE.double()]),
    "gather of float32": lambda g: g.gather([[ONE.clone()]], [ONE]),
    "scatter of float32": lambda g: g.scatter([ONE.clone()], [[ONE]]),
    "all_to_all of float32": lambda g: g.all_to_all_single(ONE.clone(), ONE, [], []),
    "monitored_barrier": lambda g: g.monitored_barrier(),
}


@pytest.mark.parametrize("what", GLOO)
def test_what_goes_over_gloo_is_said_once_or_forbidden(what, monkeypatch, capfd):
    monkeypatch.setenv("INA_SOCKET", "some")
    network = Network()
    made = group(network)
    for _ in range(2):
        work = GLOO[what](made)
        assert work is None or work.wait()
    assert not network.calls
    said = f"ina: {what} in a group of 1 rank goes over gloo, past the switches: "
    assert capfd.readouterr().err.count(said) == 1
    monkeypatch.setenv("TESTBED_STRICT", "1")
    with pytest.raises(CollectiveError, match=f"{what} .*TESTBED_STRICT forbids it"):
        GLOO[what](group(network))


def test_several_sums_over_gloo_are_one_work():
    parts, given = [ONE.double(), ONE.double()], [2 * ONE.double(), 3 * ONE.double()]
    group(Network()).reduce_scatter_single_coalesced(parts, given).wait()
    assert torch.cat(parts).tolist() == [2, 3]


def test_several_gathers_over_gloo_are_one_work():
    gathered, given = [torch.zeros(1), torch.zeros(2).long()], [torch.ones(1), torch.arange(2)]
    group(None).all_gather_single_coalesced(gathered, given).wait()
    assert [each.tolist() for each in gathered] == [[1], [0, 1]]
    lists = [[torch.zeros(1), torch.zeros(2).long()]]
    group(None).allgather_coalesced(lists, given).wait()
    assert [each.tolist() for each in lists[0]] == [[1], [0, 1]]


def test_no_method_that_c_plus_plus_calls_is_inherited():
    """An inherited one holds Python's lock while it waits for gloo's, whose threads may hold theirs
    and wait for Python's. C++ calls what PyProcessGroup.hpp overrides."""
    header = Path(torch.__file__).parent / "include/torch/csrc/distributed/c10d/PyProcessGroup.hpp"
    text = header.read_text()
    called = set(re.findall(r"intrusive_ptr<Work> (\w+)\(", text)) | set(
        re.findall(r"WORK_OVERRIDE\(\s*(?://.*\s*)?ProcessGroup, .*\s+(\w+)", text)
    )
    assert len(called) > 9 and "allreduce_coalesced" in called
    assert called <= vars(torch_backend.InaGroup).keys()


def test_without_a_job_everything_goes_over_gloo():
    tensor = torch.ones(3)
    group(None).allreduce([tensor], options(dist.ReduceOp.SUM)).wait()
    assert torch.equal(tensor, torch.ones(3))


def test_waiting_for_a_job_that_cannot_go_on_raises():
    """In Python, of the work and of its future, and again whenever one waits."""
    made = group(Network(CollectiveError("rank 2 has ended")))
    for start in (
        lambda: made.allreduce([torch.ones(3)]),
        lambda: made.broadcast([torch.ones(3)]),
        lambda: made.barrier(),
        lambda: made.all_gather_single(torch.zeros(30), torch.ones(3)),
        lambda: made.reduce_scatter_single(torch.zeros(3), torch.ones(30)),
    ):
        work = start()
        for _ in range(2):
            with pytest.raises(CollectiveError, match="rank 2 has ended"):
                work.wait()
        with pytest.raises(RuntimeError, match="rank 2 has ended"):
            work.get_future().wait()
        assert work.is_completed() and not work.is_success()


def test_data_parallel_training_ends_with_what_went_wrong():
    network = Network()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        made = group(network)
        linear = torch.nn.Linear(3, 1, bias=False)
        model = torch.nn.parallel.DistributedDataParallel(linear, process_group=made)
        network.error = CollectiveError("rank 2 has ended")
        with pytest.raises(RuntimeError, match="rank 2 has ended"):
            model(torch.ones(2, 3)).sum().backward()
    finally:
        dist.destroy_process_group()


def test_data_parallel_training_uses_it_unmodified():
    """Its C++ part calls the group and waits for the works."""
    network = Network()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        linear = torch.nn.Linear(3, 1, bias=False)
        made = group(network)
        model = torch.nn.parallel.DistributedDataParallel(linear, process_group=made)
        model(torch.ones(2, 3)).sum().backward()
        names = [name for name, _ in network.calls]
        assert names.count("allreduce") == 1 and "broadcast" in names, "weights are those of rank 0"
        assert torch.equal(linear.weight.grad, torch.full((1, 3), 20.0))
        words = torch.nn.Embedding(4, 2, sparse=True)
        torch.nn.parallel.DistributedDataParallel(words, process_group=made)(
            torch.tensor([1, 1])
        ).sum().backward()
        assert words.weight.grad.to_dense()[:, 0].tolist() == [0, 2, 0, 0], "summed over gloo"
    finally:
        dist.destroy_process_group()


def test_the_experiment_may_choose_the_backend_and_how_long_ranks_wait(monkeypatch):
    """Under every name that the function has, and for scripts that say something else."""
    called = []

    def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1):
        called.append((backend, timeout, rank))

    modules = [types.ModuleType(f"torch.distributed.made_up{i}") for i in range(2)]
    for module in modules:
        module.init_process_group = init_process_group
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setenv("INA_COLLECTIVE_TIMEOUT_S", "20")
    torch_backend._replace_init(init_process_group)
    modules[0].init_process_group("nccl", rank=3)
    monkeypatch.setenv("INA_BACKEND", "gloo")
    modules[1].init_process_group("ina", timeout=timedelta(seconds=7))
    modules[1].init_process_group()
    later = timedelta(seconds=20 + torch_backend.LATER_S)
    assert called == [
        ("nccl", later, 3),
        ("gloo", timedelta(seconds=7), -1),
        ("gloo", later, -1),
    ]


def test_barriers_that_say_who_is_missing_are_those_of_gloo(monkeypatch):
    """PyTorch's own one refuses groups of other names."""
    called = []

    def monitored_barrier(*arguments):
        called.append(arguments)

    module = types.ModuleType("torch.distributed.made_up")
    module.monitored_barrier = monitored_barrier
    monkeypatch.setitem(sys.modules, module.__name__, module)
    torch_backend._replace_monitored_barrier(monitored_barrier)
    made = group(Network())
    monkeypatch.setattr(made, "monitored_barrier", lambda *given: called.append(("gloo", *given)))
    late = timedelta(seconds=3)
    module.monitored_barrier(made, late, wait_all_ranks=True)
    module.monitored_barrier("another", late)
    dist.group.WORLD = made
    try:
        module.monitored_barrier()
    finally:
        dist.group.WORLD = None
    assert called == [("gloo", late, True), ("another", late, False), ("gloo", None, False)]


def test_a_group_is_split_by_making_new_ones(monkeypatch):
    """PyTorch itself splits only groups of accelerators."""
    made, called = group(Network()), []

    def split_group(*given):
        called.append(given)

    module = types.ModuleType("torch.distributed.made_up")
    module.split_group = split_group
    monkeypatch.setitem(sys.modules, module.__name__, module)
    torch_backend._replace_split_group(split_group)
    monkeypatch.setattr(dist, "get_process_group_ranks", lambda of: [7, 3, 5])
    monkeypatch.setattr(dist, "new_group", lambda *given, **more: (*given, more))
    how = {"use_local_synchronization": True}
    assert module.split_group(made, [[1], [2, 0]]) == ([7, 5], None, "ina", how)
    assert module.split_group(made, [[1, 2]]) is None
    assert not called
    module.split_group("another", [[0]])
    assert called == [("another", [[0]], None)]


@pytest.fixture
def groups(monkeypatch):
    """Makes groups without gloo: (rank, size, what else a group of this backend is told). The job
    has three ranks, which are its workers 2, 0 and 1; `asked`: who has asked for a communicator of
    its own; `seats`: the workers that the job has been told."""
    asked, seats, formats = [], [], []

    def join_as(*wish):
        asked.append(wish)
        return types.SimpleNamespace(label="0 2", add_in=formats.append)

    def begin(name, rank, size, more=None):
        timeout = timedelta(seconds=9)
        options = types.SimpleNamespace(
            store=store, group_rank=rank, group_size=size, timeout=timeout, group_id=name
        )
        return torch_backend.new_group(options, more)

    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setattr(torch_backend, "_in_use", False)
    monkeypatch.setattr(torch_backend, "InaGroup", lambda _, r, s, t, *more, **m: (r, s, *more, m))
    monkeypatch.setattr(torch_backend.client, "join_as", join_as)
    workers = {0: "2", 1: "0"}
    store = types.SimpleNamespace(
        set=lambda key, worker: workers.update({int(key.removeprefix("worker ")): worker}),
        get=lambda key: workers[int(key.removeprefix("worker "))].encode(),
    )
    job = types.SimpleNamespace(size=3, worker=1, seat=seats.append, add_in=formats.append)
    monkeypatch.setattr(torch_backend.client, "join", lambda rank: job)
    return types.SimpleNamespace(begin=begin, asked=asked, job=job, seats=seats, formats=formats)


def test_the_first_group_of_all_ranks_has_the_job(groups, monkeypatch):
    assert groups.begin("one", 0, 1) == (0, 1, None, "it has a single rank", "", {})
    rank, size, job, options = groups.begin("two", 1, 2)
    assert (rank, size, job.label, options) == (1, 2, "0 2", {"label": "0 2"})
    assert groups.begin("all", 2, 3) == (2, 3, groups.job, {}) and groups.seats == [[2, 0, 1]]
    rank, size, job, options = groups.begin("again", 2, 3)
    assert (rank, size, job.label, options) == (2, 3, "0 2", {"label": "0 2"})
    assert groups.asked == [("two", 1, 2, 9.0), ("again", 2, 3, 9.0)] and not groups.formats
    groups.begin("wide", 1, 2, {"sum": "float32"})
    assert groups.formats == ["float32"]
    with pytest.raises(UserError, match="pg_options of ina are {'sum': FORMAT}, not {'a': 1}"):
        groups.begin("wrong", 1, 2, {"a": 1})

    def refuses(*wish):
        raise client.Refused("there are 2", ended=False)

    monkeypatch.setattr(client, "join_as", refuses)
    why = "cannot join the job: there are 2"
    assert groups.begin("third", 0, 2) == (0, 2, None, why, "2 ranks, third", {})


@pytest.mark.parametrize("ended", [True, False])
def test_a_process_that_begins_again_gets_another_communicator(groups, ended, monkeypatch):
    def refuses(rank):
        raise client.Refused("somebody is there", ended)

    monkeypatch.setattr(client, "join", refuses)
    if not ended:
        with pytest.raises(client.Refused, match="somebody is there"):
            groups.begin("all", 2, 3)
        return
    assert groups.begin("all", 2, 3)[2].label == "0 2"


def test_a_job_of_another_size_is_an_error(groups):
    groups.job.size = 2
    with pytest.raises(UserError, match="group has 3 ranks, and the job has 2, .*`workers: 3`"):
        groups.begin("all", 2, 3)


# Two ranks train with FSDP; their job's collectives are made of gloo's.
SHARDED = """
import os
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from datetime import timedelta
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

from testbed.collective.torch_backend import InaGroup


class Done:
    def wait(self, timeout_s=None):
        pass


class Job:
    size = 2

    def __init__(self, gloo):
        self.gloo = gloo
        self.calls = []

    def gathered(self, name, array):
        self.calls.append(name)
        parts = [torch.empty(array.size) for _ in range(2)]
        self.gloo.allgather([parts], [torch.from_numpy(array).clone()]).wait()
        return torch.cat(parts)

    def all_gather_async(self, array, out):
        out[:] = self.gathered("all_gather", array).numpy()
        return Done()

    def reduce_scatter_async(self, array, mean, out, kind):
        both = self.gathered("reduce_scatter", array).view(2, 2, -1)[:, self.gloo.rank()]
        out[:] = (both.mean(0) if mean else both.sum(0)).numpy()
        return Done()


def group(store, rank, size, timeout):
    gloo = dist.ProcessGroupGloo(dist.PrefixStore("gloo", store), rank, size, timeout)
    jobs.append(Job(gloo))
    return InaGroup(store, rank, size, timeout, jobs[-1])


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(9, 31), nn.Tanh(), nn.Linear(31, 4))


def whole(net):
    for layer in net[0], net[2]:
        fully_shard(layer)
    return fully_shard(net)


def losses(model, given):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for samples in given:
        loss = model(samples).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


jobs = []


def rank(number, port):
    os.environ.update(RANK=str(number), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.Backend.register_backend("made_up", group, devices=["cpu"])
    dist.init_process_group("made_up")
    given = torch.randn(4, 8, 9, generator=torch.manual_seed(1))
    expected = [*losses(network(), given)]
    wrapped = FullyShardedDataParallel(network(), device_id=torch.device("cpu"))
    for model in wrapped, whole(network()):
        jobs[0].calls.clear()
        found = [*losses(model, given)]
        assert torch.allclose(torch.tensor(found), torch.tensor(expected)), (found, expected)
        assert {"all_gather", "reduce_scatter"} == set(jobs[0].calls), jobs[0].calls
    dist.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.spawn(rank, args=(sys.argv[1],), nprocs=2)
"""


@pytest.mark.slow
def test_sharded_training_uses_it_unmodified(tmp_path):
    """Both kinds of FSDP: all ranks have the same samples, so the losses are those of one rank."""
    (tmp_path / "sharded.py").write_text(SHARDED)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    done = subprocess.run(
        [sys.executable, str(tmp_path / "sharded.py"), port],
        env=os.environ | {"PYTHONPATH": import_path(), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


class Slow:
    """A collective that is done when `end` is called."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.over = threading.Event()
        self.error = error
        self.waiters: list[threading.Thread] = []

    def wait(self, timeout_s: float) -> None:
        self.waiters.append(threading.current_thread())
        assert self.over.wait(timeout_s)
        if self.error is not None:
            raise self.error


def begun(line, *handles: Slow, put=lambda number: None):
    works = []
    for number, handle in enumerate(handles):
        works.append(torch_backend.InaWork([], line))
        line.append(handle, works[-1], functools.partial(put, number))
    return works


@pytest.fixture
def line():
    made = torch_backend._Line(20)
    yield made
    made.close()
    assert made._thread is None or not made._thread.is_alive()


def test_who_waits_takes_in_the_results_before_its_own(line):
    """A thread beside it takes in what nobody waits for."""
    handles, order = [Slow() for _ in range(3)], []
    line._thread = threading.current_thread()  # none beside this one yet
    works = begun(line, *handles, put=order.append)
    for handle in handles:
        handle.over.set()
    assert works[1].wait() and order == [0, 1] and not works[2].is_completed()
    assert handles[0].waiters == handles[1].waiters == [threading.current_thread()]
    line._thread = None
    handles.append(Slow())
    handles[-1].over.set()
    begun(line, handles[-1])  # which begins a thread
    works[2].get_future().wait()
    assert order == [0, 1, 2] and handles[2].waiters != [threading.current_thread()]


def test_who_has_waited_leaves_the_rest_to_the_thread(line):
    handles = [Slow(), Slow()]
    with line._serving:  # as if somebody waited for one before them
        works = begun(line, *handles)
        tries = 0
        while not line._more._waiters:  # the thread looks once, and is then told
            time.sleep(0.01)
            tries += 1
            assert tries < 2000
    for handle in handles:
        handle.over.set()
    assert works[0].wait() and handles[0].waiters == [threading.current_thread()]
    assert works[1].wait(timedelta(seconds=20))  # with a limit it is left to others
    assert handles[1].waiters == [line._thread]


def test_an_error_belongs_to_its_collective_alone(line):
    handles = [Slow(), Slow(ValueError("one")), Slow()]
    works = begun(line, *handles)
    for handle in handles:
        handle.over.set()
    assert works[2].wait()
    with pytest.raises(ValueError, match="one"):
        works[1].wait()
    assert works[0].wait() and works[1].exception() is handles[1].error


def test_an_interrupt_ends_the_wait_and_the_others_go_on(line):
    handles = [Slow(KeyboardInterrupt()), Slow()]
    line._thread = threading.current_thread()
    works = begun(line, *handles)
    for handle in handles:
        handle.over.set()
    with pytest.raises(KeyboardInterrupt):
        works[1].wait()
    assert works[0].is_completed() and works[1].wait()
    line._thread = None


@pytest.mark.parametrize("seed", range(3))
def test_nobody_waits_forever_whichever_threads_wait(line, seed):
    """Threads wait for some of the works, in any order, while others begin and end."""
    draw = random.Random(seed)
    handles = [Slow() for _ in range(300)]
    works: list = []
    order: list[int] = []

    def wait_for(numbers) -> None:
        for number in numbers:
            while len(works) <= number:
                time.sleep(0)
            assert works[number].wait()

    chosen = [draw.sample(range(300), 40) for _ in range(3)]
    threads = [threading.Thread(target=wait_for, args=(numbers,)) for numbers in chosen]
    for thread in threads:
        thread.start()
    for number, handle in enumerate(handles):
        works += begun(line, handle, put=lambda _, number=number: order.append(number))
        handles[draw.randrange(number + 1)].over.set()
    for handle in handles:
        handle.over.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    for work in works:
        work.get_future().wait()
    assert order == [*range(300)]
