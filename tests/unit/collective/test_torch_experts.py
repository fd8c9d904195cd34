"""`testbed.torch.dispatch` and `combine`: ranks in threads, through communicators that add exactly
and through gloo's all_to_all, with the same results and gradients."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install '.[torch]'")

import torch.distributed as dist  # noqa: E402

from testbed.collective import client, torch_backend  # noqa: E402
from testbed.collective_kinds import COLLECTIVES  # noqa: E402
from testbed.torch import combine, dispatch  # noqa: E402

RANKS, HELD, WIDTH = 3, 2, 5


class Network:
    """The communicators of some ranks; a call is done when all of its ranks have begun it."""

    def __init__(self):
        self.changed = threading.Condition()
        self.calls = []  # (communicator, kind, root)
        self.given = {}

    def join_as(self, name, rank, size, timeout_s=None, ranks=None):
        return Member(self, name, rank, size)


class Member:
    def __init__(self, network, name, rank, size):
        self.network, self.name, self.rank, self.size = network, name, rank, size
        self.label, self.begun = name, 0

    def __getattr__(self, name):
        kind = name.removesuffix("_async")

        def begin(array, root=0, *, out=None, kind_of=None, **_):
            self.begun += 1
            key = self.name, self.begun
            with self.network.changed:
                given = self.network.given.setdefault(key, {})
                given[self.rank] = kind, root, array.copy()
                self.network.changed.notify_all()
            return Handle(self, key, out)

        assert kind in COLLECTIVES, name
        return begin


class Handle:
    def __init__(self, member, key, out):
        self.member, self.key, self.out = member, key, out

    def wait(self, timeout_s=None):
        member, network = self.member, self.member.network
        with network.changed:
            given = network.given[self.key]
            assert network.changed.wait_for(lambda: len(given) == member.size, 60)
        ((kind, root),) = {each[:2] for each in given.values()}
        arrays = [given[rank][2] for rank in range(member.size)]
        assert len({each.shape for each in arrays}) == 1 and arrays[0].size
        found = COLLECTIVES[kind].results([each.tolist() for each in arrays], root)[member.rank]
        if member.rank == 0:
            network.calls.append((self.key[0], kind, root))
        if found and self.out is not None:
            self.out.reshape(-1)[:] = np.array(found, arrays[0].dtype)


def exchanged(group, draw, steps):
    """What a rank gets and finds, forward and backward: experts that multiply by their number."""
    rank, count = group.rank(), int(draw.integers(0, 6))
    experts = np.array([draw.permutation(RANKS * HELD)[:2] for _ in range(count)]).reshape(-1, 2)
    chosen = torch.from_numpy(np.where(draw.random((count, 2)) < 0.3, -1, experts)).long()
    x, weights = (
        torch.from_numpy(draw.integers(-9, 9, (count, each))).float().requires_grad_()
        for each in (WIDTH, 2)
    )
    tokens, local, shares, counts, handle = dispatch(
        x, chosen, weights, RANKS * HELD, group, steps=steps
    )
    assert counts == [int((local == each).sum()) for each in range(HELD)]
    times = ((local + HELD * rank + 1) * shares * (local >= 0)).sum(1, keepdim=True)
    found = combine(tokens * times, handle)
    found.backward(upstream := torch.from_numpy(draw.integers(-9, 9, found.shape)).float())
    # The same by the definition, without any network.
    by_expert = ((chosen + 1) * weights).where(chosen >= 0, 0).sum(1, keepdim=True).detach()
    own = (x.detach() * upstream).sum(1, keepdim=True) * (chosen + 1)
    assert torch.equal(found, x.detach() * by_expert)
    assert torch.equal(x.grad, upstream * by_expert)
    assert torch.equal(weights.grad, own.where(chosen >= 0, 0))
    return [tokens.detach(), local, shares.detach()]


@pytest.mark.parametrize("steps", [None, 4])
def test_tokens_come_to_their_experts_and_sums_and_gradients_back(monkeypatch, steps):
    """Random numbers of tokens, some with no expert, by sets of ranks and over gloo."""
    network, store = Network(), dist.HashStore()
    monkeypatch.setattr(client, "join_as", network.join_as)

    def of_rank(rank):
        found = []
        for name, job in (("ina", network.join_as("all", rank, RANKS)), ("gloo", None)):
            group = torch_backend.InaGroup(
                dist.PrefixStore(name, store), rank, RANKS, timedelta(seconds=60), job
            )
            group._set_group_name(name)
            draw = np.random.default_rng([rank, 7])
            found.append([exchanged(group, draw, steps) for _ in range(6)])
        return found

    with ThreadPoolExecutor(RANKS) as threads:
        for through_network, over_gloo in threads.map(of_rank, range(RANKS)):
            for one, other in zip(through_network, over_gloo, strict=True):
                assert all(torch.equal(*each) for each in zip(one, other, strict=True))
    kinds = {(name, kind) for name, kind, _ in network.calls}
    sets = {"all", "ina.0.1", "ina.0.2", "ina.1.2"}
    assert kinds >= {(name, kind) for name in sets for kind in ("dispatch", "combine")}


def alone():
    return torch_backend.InaGroup(dist.HashStore(), 0, 1, timedelta(seconds=20), None)


@pytest.mark.parametrize(
    "x, experts, weights, number, steps, said",
    [
        ((2,), (2, 1), (2, 1), 1, None, "x is"),
        ((2, 3), (1, 1), (2, 1), 1, None, "as x has 2 tokens"),
        ((2, 3), (2, 1), (2, 2), 1, None, "as topk_idx and x are"),
        ((2, 3), (2, 1), (2, 1), 0, None, "multiple of the 1 ranks"),
        ((2, 3), (2, 1), (2, 1), 1, 0, "steps is 0"),
    ],
)
def test_arguments_that_do_not_fit_are_told(x, experts, weights, number, steps, said):
    with pytest.raises(ValueError, match=said):
        chosen = torch.zeros(experts, dtype=torch.int64)
        dispatch(torch.ones(x), chosen, torch.ones(weights), number, alone(), steps=steps)
