"""Tokens to experts on other ranks, and the sums of their answers back, as functions of PyTorch
with gradients (docs/experts.md): that of a dispatch is a combine, and the other way round.

In a group of the backend `ina` tokens of one rank that go to the same set of ranks travel together,
in a call of a group of these ranks (torch_backend.InaGroup.part): switches multiply tokens to them,
and add their answers up. In any other group, of gloo for instance, each rank has a copy of its own
in an all_to_all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch import Tensor

from testbed.collective.torch_backend import InaGroup

MOST_RANKS = 62  # a set of ranks is a number of 64 bits
LARGEST = 2**31 - 1  # of an int32


@dataclass(frozen=True)
class Handle:
    """The ways of a call's tokens. wanted: of each rank of `group`, bool [tokens, ranks]: the ranks
    that a token goes to. steps: as of `dispatch`."""

    group: dist.ProcessGroup
    wanted: list[Tensor]
    steps: int | None

    @property
    def coming(self) -> list[Tensor]:
        """Of each rank, bool [tokens]: those that come here, the own ones among them."""
        return [each[:, self.group.rank()] for each in self.wanted]

    @property
    def splits(self) -> tuple[list[int], list[int]]:
        """Numbers of tokens to and from each rank."""
        to = self.wanted[self.group.rank()].sum(0).tolist()
        return to, [int(each.sum()) for each in self.coming]

    def calls(self) -> Iterator[tuple[InaGroup, int, int, Tensor]]:
        """The calls of this rank: (group, root in it, owner, int64 [n] tokens of the owner). All
        ranks have theirs in the same order."""
        group, own = self.group, self.group.rank()
        assert isinstance(group, InaGroup)
        bits = 1 << torch.arange(group.size())
        for owner, wanted in enumerate(self.wanted):
            sets = (wanted * bits).sum(1) & ~(1 << owner)
            for members in sets.unique().tolist():
                ranks = [r for r in range(group.size()) if members >> r & 1 or r == owner]
                if members and own in ranks:
                    tokens = (sets == members).nonzero()[:, 0]
                    yield group.part(tuple(ranks)), ranks.index(owner), owner, tokens


class _Dispatch(torch.autograd.Function):
    @staticmethod
    def forward(context, rows, handle):  # type: ignore[no-untyped-def]
        context.handle = handle
        return _dispatched(rows, handle)

    @staticmethod
    def backward(context, gradient):  # type: ignore[no-untyped-def]
        return _Combine.apply(gradient, context.handle), None


class _Combine(torch.autograd.Function):
    @staticmethod
    def forward(context, rows, handle):  # type: ignore[no-untyped-def]
        context.handle = handle
        return _combined(rows, handle)

    @staticmethod
    def backward(context, gradient):  # type: ignore[no-untyped-def]
        return _Dispatch.apply(gradient, context.handle), None


def _by_sets(group: dist.ProcessGroup) -> bool:
    return isinstance(group, InaGroup) and group.in_network


def _dispatched(rows: Tensor, handle: Handle) -> Tensor:
    """[coming, H] of each rank's rows [tokens, H]."""
    group, own = handle.group, handle.group.rank()
    if not _by_sets(group):
        to, back = handle.splits
        given = torch.cat([rows[each] for each in handle.wanted[own].T])
        into = rows.new_empty(sum(back), rows.shape[1])
        dist.all_to_all_single(into, given, back, to, group=group)
        return into
    tokens = [rows.new_empty(len(each), rows.shape[1]) for each in handle.coming]
    tokens[own] = rows
    begun = []
    for part, root, owner, which in handle.calls():
        options = c10d.BroadcastOptions()
        options.rootRank, options.asyncOp = root, True
        each = tokens[owner][which]
        begun.append((part.dispatch([each], options), each, owner, which))
    for work, each, owner, which in begun:
        assert work is not None
        work.wait()
        if owner != own:
            tokens[owner][which] = each
    return torch.cat([each[here] for each, here in zip(tokens, handle.coming, strict=True)])


def _combined(answers: Tensor, handle: Handle) -> Tensor:
    """[tokens, H], the sums of all ranks' answers [coming, H]."""
    group, own, dtype = handle.group, handle.group.rank(), answers.dtype
    to, back = handle.splits
    if handle.steps is not None:
        answers = _in_steps(answers, handle.steps, group.size())
    if not _by_sets(group):
        into = answers.new_empty(sum(to), answers.shape[1])
        dist.all_to_all_single(into, answers.contiguous(), to, back, group=group)
        total = answers.new_zeros(len(handle.wanted[own]), answers.shape[1])
        for each, part in zip(handle.wanted[own].T, into.split(to), strict=True):
            total[each] += part
    else:
        given = [answers.new_zeros(len(each), answers.shape[1]) for each in handle.coming]
        for each, here, part in zip(given, handle.coming, answers.split(back), strict=True):
            each[here] = part
        total = given[own]
        begun = []
        for part, root, owner, which in handle.calls():
            options = c10d.ReduceOptions()
            options.rootRank, options.asyncOp = root, True
            each = given[owner][which]
            begun.append((part.combine([each], options), each, owner, which))
        for work, each, owner, which in begun:
            assert work is not None
            work.wait()
            if owner == own:
                total[which] += each
    return total if handle.steps is None else (total.double() / handle.steps).to(dtype)


def _in_steps(values: Tensor, steps: int, ranks: int) -> Tensor:
    """int32, whole steps of 1 / steps. Raises ValueError if a sum of all ranks might not fit."""
    whole = (values.double() * steps).round()
    most = float(whole.abs().max()) if whole.numel() else 0.0
    if not most <= LARGEST // ranks:
        raise ValueError(
            f"combine: a value is {most / steps:g}; in steps of 1/{steps} a sum of {ranks} ranks"
            f" has place for values up to {LARGEST // ranks / steps:g}. Take fewer steps"
        )
    return whole.to(torch.int32)


def _routes(chosen: Tensor, group: dist.ProcessGroup) -> list[Tensor]:
    """Of each rank its tokens' experts, int64 [tokens, k]."""
    shapes = torch.stack(_gathered(torch.tensor(chosen.shape), group))
    most, k = shapes.amax(0).tolist()
    if int(shapes[:, 1].min()) != k:
        raise ValueError(
            f"dispatch: topk_idx has {shapes[:, 1].tolist()} columns on ranks 0, 1, ... of the"
            " group; give each token as many experts on all ranks, -1 for none"
        )
    own = torch.full((max(most, 1), max(k, 1)), -1, dtype=torch.int32)
    own[: len(chosen), :k] = chosen
    counts = shapes[:, 0].tolist()
    found = zip(_gathered(own, group), counts, strict=True)
    return [each[:count, :k].long() for each, count in found]


def _gathered(own: Tensor, group: dist.ProcessGroup) -> list[Tensor]:
    found = [torch.empty_like(own) for _ in range(group.size())]
    dist.all_gather(found, own, group=group)
    return found


def dispatch(
    x: Tensor,
    topk_idx: Tensor,
    topk_weights: Tensor,
    num_experts: int,
    group: dist.ProcessGroup | None = None,
    *,
    steps: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, list[int], Handle]:
    """Give each token to the ranks with its experts, once to each; differentiable.

    Arguments and results are those of DeepEP's `Buffer.dispatch`, as far as they make sense on a
    processor. All ranks of `group` (None: all) call it; each holds num_experts / ranks neighbouring
    experts. Numbers of tokens may differ.

    x: floats [tokens, H]. topk_idx: integers [tokens, k], the experts of a token, -1 for none, such
    as one that has dropped it. topk_weights: [tokens, k], of the type of `x`. steps: answers and
    gradients are added as int32, in steps of 1 / steps, so exactly, whatever their order; None: in
    their type.

    Returns (tokens [n, H], by rank and by place there; their experts int64 [n, k], counted from
    this rank's first, -1 for others; the weights of these [n, k], 0 for others; the number of
    tokens of each expert here; a handle for `combine`). Raises ValueError."""
    group = dist.group.WORLD if group is None else group
    assert group is not None
    ranks = group.size()
    wrong = (
        f"x is {list(x.shape)} of {x.dtype}; allowed: floats [tokens, H]"
        if x.ndim != 2 or not x.is_floating_point()
        else f"topk_idx is {list(topk_idx.shape)}; allowed: [{len(x)}, k], as x has {len(x)} tokens"
        if topk_idx.ndim != 2 or len(topk_idx) != len(x)
        else f"topk_weights is {list(topk_weights.shape)} of {topk_weights.dtype}; allowed:"
        f" {list(topk_idx.shape)} of {x.dtype}, as topk_idx and x are"
        if topk_weights.shape != topk_idx.shape or topk_weights.dtype != x.dtype
        else f"num_experts is {num_experts}; allowed: a multiple of the {ranks} ranks"
        if num_experts < 1 or num_experts % ranks
        else f"topk_idx has values from {topk_idx.min()} to {topk_idx.max()}; allowed: -1 to"
        f" {num_experts - 1}"
        if topk_idx.numel() and not -1 <= topk_idx.min() <= topk_idx.max() < num_experts
        else f"the group has {ranks} ranks; allowed: up to {MOST_RANKS}"
        if ranks > MOST_RANKS
        else f"steps is {steps}; allowed: 1 and more"
        if steps is not None and steps < 1
        else ""
    )
    if wrong:
        raise ValueError(f"dispatch: {wrong}")
    held = num_experts // ranks
    routes = _routes(topk_idx, group)
    # Places without an expert, -1, are of no rank.
    places = [each.div(held, rounding_mode="floor")[:, :, None] for each in routes]
    handle = Handle(group, [(each == torch.arange(ranks)).any(1) for each in places], steps)
    got = _Dispatch.apply(torch.cat([x, topk_weights], 1), handle)
    chosen = torch.cat([each[here] for each, here in zip(routes, handle.coming, strict=True)])
    chosen = chosen - held * group.rank()
    mine = (chosen >= 0) & (chosen < held)
    chosen = chosen.where(mine, -1)
    weights = got[:, x.shape[1] :].where(mine, 0)
    counts = chosen[mine].bincount(minlength=held).tolist()
    return got[:, : x.shape[1]], chosen, weights, counts, handle


def combine(x: Tensor, handle: Handle) -> Tensor:
    """The sums of all ranks' answers to this rank's tokens [tokens, H]; differentiable.

    x: floats [n, H], of each token that `dispatch` has brought here the sum of its experts'
    answers, times their weights. Raises ValueError."""
    count = sum(handle.splits[1])
    if x.ndim != 2 or len(x) != count or not x.is_floating_point():
        raise ValueError(
            f"combine: x is {list(x.shape)} of {x.dtype}; allowed: floats [{count}, H], an answer"
            " to each token that has come"
        )
    total: Tensor = _Combine.apply(x, handle)
    return total
