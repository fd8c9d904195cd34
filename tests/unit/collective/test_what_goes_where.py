"""The table "What goes where" of docs/training.md against the backend `ina`: two ranks, in threads,
call every form of every collective with every type and operation."""

from __future__ import annotations

import itertools
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install '.[torch]'")

import torch.distributed as dist  # noqa: E402
import torch.distributed.distributed_c10d as c10d  # noqa: E402

from testbed.collective import tally  # noqa: E402
from testbed.collective.torch_backend import InaGroup  # noqa: E402
from tests.support.paths import ROOT  # noqa: E402

TYPES = ["float32", "bfloat16", "float16", "float64", "complex64"]
TYPES += ["int8", "int16", "int32", "int64", "uint8", "bool"]
OPERATIONS = ["SUM", "AVG", "PREMUL_SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"]
GROUPS = ("with a communicator", "without one")


class Done:
    def wait(self, timeout_s=None):
        pass


class Job:
    """Stands for a communicator of two ranks; it notes what is called, and does nothing."""

    size = 2

    def __init__(self, rank):
        self.rank = rank
        self.calls = []

    def __getattr__(self, name):
        assert name.endswith("_async"), name
        return lambda *_, **__: self.calls.append(name) or Done()


def options(made, operation):
    if operation == "PREMUL_SUM":
        made.reduceOp = dist._make_nccl_premul_sum(0.5)
    else:
        made.reduceOp = getattr(dist.ReduceOp, operation)
    return made


# The forms of each collective: g is the group, one(n) makes a tensor of n values.
SUMS = {
    "all_reduce": [
        lambda g, one, op: g.allreduce([one(2)], options(dist.AllreduceOptions(), op)),
        lambda g, one, op: g.allreduce_coalesced(
            [one(2), one(3)], options(dist.AllreduceCoalescedOptions(), op)
        ),
    ],
    "reduce": [lambda g, one, op: g.reduce([one(2)], options(c10d.ReduceOptions(), op))],
    "reduce_scatter": [
        lambda g, one, op: g.reduce_scatter_single(
            one(1), one(2), options(c10d.ReduceScatterOptions(), op)
        ),
        lambda g, one, op: g.reduce_scatter_single_coalesced(
            [one(1), one(2)], [one(2), one(4)], options(c10d.ReduceScatterOptions(), op)
        ),
        lambda g, one, op: g.reduce_scatter(
            [one(1)], [[one(1), one(1)]], options(c10d.ReduceScatterOptions(), op)
        ),
    ],
    "reduce_scatter, uneven": [
        lambda g, one, op: g.reduce_scatter(
            [one(1 + g.rank())], [[one(1), one(2)]], options(c10d.ReduceScatterOptions(), op)
        ),
    ],
}
OTHERS = {
    "all_gather": [
        lambda g, one: g.all_gather_single(one(2), one(1)),
        lambda g, one: g.all_gather_single_coalesced([one(2), one(4)], [one(1), one(2)]),
        lambda g, one: g.allgather([[one(1), one(1)]], [one(1)]),
        lambda g, one: g.allgather_coalesced([[one(1), one(2)]] * 2, [one(1), one(2)]),
    ],
    "all_gather, uneven": [lambda g, one: g.allgather([[one(1), one(2)]], [one(1 + g.rank())])],
    "broadcast": [lambda g, one: g.broadcast([one(2)])],
    "all_to_all": [
        lambda g, one: g.all_to_all_single(one(2), one(2), [], []),
        lambda g, one: g.alltoall([one(1), one(1)], [one(1), one(1)]),
        lambda g, one: g.all_to_all_single(
            one(2 + g.rank()), one(3 - g.rank()), [1 + g.rank(), 1], [1, 2 - g.rank()]
        ),
    ],
    "gather": [lambda g, one: g.gather([] if g.rank() else [[one(1), one(1)]], [one(1)])],
    "scatter": [lambda g, one: g.scatter([one(1)], [] if g.rank() else [[one(1), one(1)]])],
    "send, recv": [
        lambda g, one: g.recv([one(2)], 0, 1) if g.rank() else g.send([one(2)], 1, 1),
        lambda g, one: g.recv_anysource([one(2)], 1) if g.rank() else g.send([one(2)], 1, 1),
    ],
}
EMPTY = {
    "barrier": [lambda g: g.barrier()],
    "monitored_barrier": [lambda g: g.monitored_barrier()],
}


def table():
    """Its rows: group, collectives, types and operations, each None for any, and the route."""
    page = (ROOT / "docs" / "training.md").read_text()
    section = page.partition("\n### What goes where\n")[2].partition("\n### ")[0]
    _, _, *rows = re.findall(r"(?m)^\|(.*)\|$", section)
    for row in rows:
        group, *cells, route = (cell.strip() for cell in row.split("|"))
        sets = [None if cell == "any" else set(re.findall("`(.*?)`", cell)) for cell in cells]
        assert group in (*GROUPS, "any") and route in (tally.SYSTEM, tally.GLOO, "error"), row
        yield group, *sets, route


@pytest.fixture(scope="module")
def ranks():
    """Does something as both ranks, each with its group: returns what they return."""
    store, timeout = dist.HashStore(), timedelta(seconds=60)
    with ThreadPoolExecutor(2) as threads:

        def made(rank):
            return {
                name: InaGroup(dist.PrefixStore(name, store), rank, 2, timeout, job)
                for name, job in zip(GROUPS, (Job(rank), None), strict=True)
            }

        groups = list(threads.map(made, range(2)))
        yield lambda do, name: list(threads.map(do, [each[name] for each in groups]))


def route(ranks, call, group, collective, dtype):
    """By which route a call goes; error: it ends with one."""
    counted = tally.TALLY = tally.Tally()

    def do(made):
        calls = [] if made._job is None else made._job.calls
        calls.clear()
        try:
            work = call(made)
            if work is not None:
                work.wait()
        except RuntimeError:
            return "error"
        return tally.SYSTEM if calls else tally.GLOO

    found, other = ranks(do, group)
    assert found == other, (collective, dtype)
    rows = counted.rows()
    assert all(row["route"] == tally.GLOO for row in rows)
    assert bool(rows) == (found != tally.SYSTEM), "it is counted under its own name"
    assert {row["collective"] for row in rows} <= set(re.findall(r"\w+", collective))
    assert {row["dtype"] for row in rows} <= {dtype or ""}
    return found


def calls():
    """Every call: collective, type, operation, and a function of the group."""
    for (name, forms), dtype, op in itertools.product(SUMS.items(), TYPES, OPERATIONS):
        yield from ((name, dtype, op, lambda g, o, f=f, op=op: f(g, o, op)) for f in forms)
    for (name, forms), dtype in itertools.product(OTHERS.items(), TYPES):
        yield from ((name, dtype, None, form) for form in forms)
    for name, forms in EMPTY.items():
        yield from ((name, None, None, lambda g, _, form=form: form(g)) for form in forms)


@pytest.mark.parametrize("group", GROUPS)
def test_every_call_goes_where_the_table_says(ranks, group, monkeypatch):
    monkeypatch.setattr(tally, "TALLY", tally.TALLY)
    rows = list(table())
    wrong, used = [], set()
    for collective, dtype, operation, call in calls():
        where, said = next(
            (i, row[-1])
            for i, row in enumerate(rows)
            if row[0] in (group, "any")
            and all(
                allowed is None or each in allowed
                for allowed, each in zip(row[1:4], (collective, dtype, operation), strict=True)
            )
        )
        used.add(where)

        def one(values, dtype=dtype):
            return torch.ones(values, dtype=getattr(torch, dtype))

        found = route(ranks, lambda g, c=call, o=one: c(g, o), group, collective, dtype)
        if found != said:
            wrong.append((collective, dtype, operation, found, said))
    assert not wrong
    needed = {i for i, row in enumerate(rows) if row[0] in (group, "any")}
    assert used == needed, "rows that no call fits"


def both(ranks, group, call, *made):
    """What ranks get: `call(g, *tensors)` with tensors that `made` make of the rank's number."""

    def do(g):
        tensors = [make(g.rank()) for make in made]
        call(g, *tensors).wait()
        return [each.to_dense() if each.is_sparse else each for each in tensors]

    return ranks(do, group)


@pytest.mark.parametrize("group", GROUPS)
def test_sparse_tensors_are_summed_over_gloo_and_counted_by_indices_and_values(
    ranks, group, monkeypatch
):
    monkeypatch.setattr(tally, "TALLY", counted := tally.Tally())

    def sparse(rank):  # one row on rank 0, two on rank 1, one of them doubly
        rows = [1] if rank == 0 else [0, 1, 1]
        return torch.sparse_coo_tensor([rows], torch.ones(len(rows), 3), (4, 3))

    for found in both(ranks, group, lambda g, tensor: g.allreduce([tensor]), sparse):
        assert found[0][:, 0].tolist() == [1, 3, 0, 0]
    (row,) = counted.rows()
    assert (row["collective"], row["route"]) == ("all_reduce", tally.GLOO)
    assert row["calls"] == 2 and row["bytes"] == 4 * (8 + 3 * 4)  # 4 rows: an index, 3 values
    for name in ("broadcast", "reduce", "allreduce_coalesced"):
        with pytest.raises(RuntimeError, match="dense|layout"):
            both(ranks, group, lambda g, tensor, name=name: getattr(g, name)([tensor]), sparse)


@pytest.mark.parametrize("group", GROUPS)
def test_gloo_does_not_take_what_lies_in_gaps_for_values(ranks, group):
    def gaps(rank):
        return (torch.arange(6) + 10 * rank)[::2]

    expected = {"allreduce": [10, 14, 18], "reduce": [10, 14, 18], "broadcast": [0, 2, 4]}
    for name, values in expected.items():
        if name == "broadcast" and group == GROUPS[0]:
            continue  # through the switches
        found = both(ranks, group, lambda g, tensor, name=name: getattr(g, name)([tensor]), gaps)
        assert found[0][0].tolist() == values, name
        assert name == "reduce" or found[1][0].tolist() == values, name


# Forms with an output (by type) that does not fit the input.
PAIRS = [
    lambda g, out, more: g.reduce_scatter_single(out(1 + more), torch.ones(2)),
    lambda g, out, more: g.reduce_scatter_single_coalesced(
        [torch.ones(1), out(2 + more)], [torch.ones(2), torch.ones(4)]
    ),
    lambda g, out, more: g.reduce_scatter([out(1 + more)], [[torch.ones(1), torch.ones(1)]]),
    lambda g, out, more: g.all_gather_single(out(2 + more), torch.ones(1)),
    lambda g, out, more: g.all_gather_single_coalesced(
        [torch.ones(2), out(4 + more)], [torch.ones(1), torch.ones(2)]
    ),
    lambda g, out, more: g.allgather([[out(1 + more), out(1 + more)]], [torch.ones(1)]),
    lambda g, out, more: g.allgather_coalesced(
        [[torch.ones(1), out(1 + more)]] * 2, [torch.ones(1), torch.ones(1)]
    ),
]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("call", PAIRS)
def test_an_output_of_another_type_or_size_is_refused(ranks, group, call):
    """By gloo, and before a packet is sent by the switches."""
    for dtype, more in (("float64", 0), ("int32", 0), ("bfloat16", 0), ("float32", 1)):

        def out(values, dtype=dtype):
            return torch.zeros(values, dtype=getattr(torch, dtype))

        def do(g, out=out, more=more):
            calls = [] if g._job is None else g._job.calls
            calls.clear()
            with pytest.raises((RuntimeError, TypeError, ValueError)):
                call(g, out, more).wait()
            return calls

        assert ranks(do, group) == [[], []]
