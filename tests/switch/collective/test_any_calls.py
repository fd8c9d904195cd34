"""Any collectives of a program, many of them under way at once, on any system and in any format,
whatever is lost: whole numbers and bytes arrive exactly, floats within the stated bound, and with
the same bits on all ranks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from testbed.collective import Job, client, prelude
from testbed.number_formats import FORMATS, HALVES
from testbed.protocols import block_float
from testbed.protocols import given as given_values
from testbed.protocols.formats import bfloat16, by_number
from tests.support.budget import Budget
from tests.support.fabric import lossy
from tests.support.programs import BLOCK, draw, programs, reference, text
from tests.support.wire_tap import TAP

SHARE = 1 / 4  # of a property's usual budget
PACKET, SCALE = 16, 10**6  # values, steps of fixed point
SYSTEMS = (
    *("esa", "switchml", "atp", "ring", "ps", "grid", "a2tp"),
    *("esa, results_from: switch", "atp, release: on_completion, results_from: switch"),
)
SUMS = ("allreduce", "reduce_scatter", "reduce", "combine")
BYTES = ("all_gather", "broadcast", "dispatch")
TYPES = ("f2", "f4", "f8", "i4", "i8", "u1", "c8", "?")
ZEROS = ("", "zeros: header_only", "zeros: sent")
FLOATS = ("float32", "bfloat16", "bfloat16_in_float32", "float32_exact", "fpisa")
WIDE = ("switchml", "ps")  # carry float32_exact
LOOKS = ("any", "mostly zeros", "small", "huge", "not finite")


class Call(NamedTuple):
    """A collective of four ranks; `look`: what is special about the values of a sum."""

    name: str
    dtype: str
    size: int
    root: int
    mean: bool
    look: str
    seed: int

    @property
    def arguments(self) -> tuple[int, ...]:
        return () if self.name in ("allreduce", "reduce_scatter", "all_gather") else (self.root,)

    def given(self) -> list[np.ndarray]:
        """What each rank gives."""
        random = np.random.default_rng(self.seed)
        if self.name in BYTES:
            dtype = np.dtype(self.dtype)
            made = random.integers(0, 256, (4, self.size * dtype.itemsize), np.uint8)
            return [*(made & 1 if self.dtype == "?" else made).view(dtype)]
        arrays = draw(self.seed, self.size, np.int32 if self.dtype == "i4" else np.float32)
        if self.look in ("mostly zeros", "small"):
            arrays = [np.rint(array.clip(-500, 500)).astype(array.dtype) for array in arrays]
        for rank, array in enumerate(arrays):
            if self.look == "mostly zeros":
                array[self.size // 8 : 3 * self.size // 4 + 50 * rank] = 0
            if self.dtype == "f4" and self.look == "huge":
                array[:: 7 + rank] *= np.float32(1e20)
            if self.dtype == "f4" and self.look == "not finite":
                array[rank :: 40 + rank] = (np.nan, np.inf, -np.inf, np.inf)[rank]
        return arrays

    def check(self, arrays: list[np.ndarray], found: list[np.ndarray], form: str) -> None:
        """That the results of all ranks are right."""
        if self.name in BYTES:
            right = np.stack(arrays) if self.name == "all_gather" else arrays[self.root]
            for each in found:
                assert (each.shape, each.dtype) == (right.shape, right.dtype)
                assert each.tobytes() == right.tobytes()
            return
        if self.name == "combine":  # what the root gives does not count
            arrays = [*arrays]
            arrays[self.root] = np.zeros_like(arrays[self.root])
        if self.name in ("reduce", "combine"):
            assert [each.size > 0 for each in found] == [rank == self.root for rank in range(4)]
            found = [found[self.root]]
        got = np.concatenate(found) if self.name == "reduce_scatter" else found[0]
        for each in found if self.name == "allreduce" else ():
            np.testing.assert_array_equal(each, got)
        if self.dtype == "i4":
            np.testing.assert_array_equal(got, np.sum(arrays, axis=0, dtype=np.int32))
            return
        few = self.name == "allreduce" and 4 * self.size <= client.FEW_WORDS
        few &= form not in FORMATS
        with np.errstate(invalid="ignore", over="ignore"):
            exact = np.sum(arrays, axis=0, dtype=np.float64)
            if form == "exponents" and self.look != "not finite" and not few:
                np.testing.assert_array_equal(
                    got, reference(arrays, 4 if self.mean else 1, few=few)
                )
            most = within(arrays, "few" if few else form) + np.abs(exact) * 2.0**-23
            got = got.astype(np.float64) * (4 if self.mean else 1)
            right = np.abs(got - exact) <= most
        finite = np.isfinite(exact)
        if form == "fpisa":  # has neither infinities nor what is no number
            finite &= self.look != "not finite"
            exact, got = exact[finite], got[finite]
            right, finite = right[finite], finite[finite]
        assert right[finite].all(), (self, np.flatnonzero(~right & finite)[:5])
        np.testing.assert_array_equal(got[~finite], exact[~finite])


def within(arrays: list[np.ndarray], form: str) -> np.ndarray:
    """How far a sum may be from the exact one (docs/training.md), but for its own rounding."""
    size = arrays[0].size
    if form == "few":
        return np.zeros(size)
    if form in FORMATS:
        sums, absolute = FORMATS[form], np.abs(np.stack(arrays).astype(np.float64)).sum(axis=0)
        if form == "fpisa":
            return by_number.WRONG_BOUND * absolute
        bound = max(by_number.bound(sums.adder, sums.numbers, 4), 0.0)
        # What a worker gives is rounded, too, and sums of bfloat16 next to 0.
        once = bfloat16.ROUNDING if sums.numbers == HALVES else 0.0
        return (bound + once * (1 + bound)) * absolute + 2.0**-130
    if form == "fixed":
        steps = np.rint(np.stack(arrays).astype(np.float64) * SCALE)
        starts = np.arange(0, size, PACKET)
        fits = np.abs(steps).max(axis=0, initial=0) <= given_values.most_steps(4)
        whole = np.repeat(np.logical_and.reduceat(fits, starts), PACKET)[:size]
        return np.where(whole, 4 / (2 * SCALE), 0)
    bounds = []
    for start in range(0, size, BLOCK):
        blocks = [array[start : start + BLOCK] for array in arrays]
        level = max(int(prelude.levels_of(block, BLOCK)[0][0]) for block in blocks)
        exponent = prelude.exponent_of(level)
        if not np.isfinite(blocks).all():
            bound = prelude.error_bound(4, 2.0 ** (exponent - 0.5), True)
        elif form == "short":
            bound = block_float.short_error_bound(exponent, 4)
        else:
            bound = prelude.error_bound(4, max(float(np.abs(block).max()) for block in blocks))
        bounds.append(np.full(blocks[0].size, bound))
    return np.concatenate(bounds)


@st.composite
def calls(draw: st.DrawFn) -> Call:
    name = draw(st.sampled_from((*SUMS, *BYTES, "barrier")))
    size = draw(st.sampled_from((1, 15, 17, 60, 700, BLOCK - 1, 2 * BLOCK + 8)))
    if name == "reduce_scatter":
        size = 4 * -(-size // 4)
    dtype = draw(st.sampled_from(TYPES if name in BYTES else ("i4", "f4")))
    mean = name in ("allreduce", "reduce_scatter") and dtype == "f4" and draw(st.booleans())
    return Call(name, dtype, size, draw(st.integers(0, 3)), mean, draw(st.sampled_from(LOOKS)),
                draw(st.integers(0, 99)))  # fmt: skip


def begun(job: Job, call: Call, array: np.ndarray, layer: int) -> Any:
    if call.name == "barrier":
        return job.barrier_async()
    options: dict[str, Any] = {"mean": True} if call.mean else {}
    return getattr(job, f"{call.name}_async")(array, *call.arguments, layer=layer, **options)


@pytest.mark.timeout(900)
def test_any_calls_are_right_on_all_ranks(budget: Budget, request):
    budget.seconds *= SHARE

    @settings(
        max_examples=5 * budget.examples,
        derandomize=not request.config.getoption("--slow"),
        suppress_health_check=[*HealthCheck],
        deadline=None,
    )
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        system = data.draw(st.sampled_from(SYSTEMS))
        fixed = system[:3] in ("atp", "a2t") and data.draw(st.booleans())
        name, _, more = system.partition(", ")
        possible = [
            each
            for each in ("int32", "int16", *FLOATS)
            if (FORMATS[each].bits == 32 or name != "ring")
            and (not FORMATS[each].is_wide or name in WIDE)
        ]
        sums = "int32" if fixed else data.draw(st.sampled_from(possible))
        more = ", ".join(each for each in (more, f"sum: {sums}") if each)
        options = [each for each in (more, data.draw(st.sampled_from(ZEROS))) if each]
        aggregators = data.draw(st.sampled_from((64, 8)))
        experiment = text(
            name, aggregators, "".join(f", {each}" for each in options), ", numbers: fixed" * fixed
        )
        made = data.draw(st.lists(calls(), min_size=1, max_size=6))
        faults = data.draw(st.sampled_from((0.0, 0.02, 0.05)))
        seats = data.draw(st.permutations(range(4)))
        if budget.is_spent():
            return
        with budget.example():
            note(experiment)
            _, workers = programs(experiment, lossy(1, faults, faults, faults))
            jobs = [Job(workers[worker]._link, rank) for rank, worker in enumerate(seats)]
            for job in jobs:
                job.seat(seats)
            form = {"int32": "exponents", "int16": "short"}.get(sums, sums)
            form = "fixed" if fixed else form
            given_arrays = [call.given() for call in made]
            handles = [
                [begun(job, call, array, layer) for job, array in zip(jobs, arrays, strict=True)]
                for layer, call, arrays in zip(range(9, 0, -1), made, given_arrays, strict=False)
            ]
            for call, arrays, several in zip(made, given_arrays, handles, strict=True):
                found = [handle.wait() for handle in several]
                if call.name != "barrier":
                    call.check(arrays, found, form)
            TAP.check()

    holds()
    assert budget.done > 1
