"""The tables of `ina recording`: tensors and times, numbers of each parameter, packets.

Of numbers: the ranks' values of each parameter, and how far a program's sum in either number format
(docs/training.md#numbers) is from the exact one, which is that of the float32 values in double
precision.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from p4fabric.base import units
from p4fabric.base.text_table import Column, Row, Table

from testbed.experiment.program_jobs import block_fragments
from testbed.protocols import block_float
from testbed.protocols.given import most_steps
from testbed.protocols.sizes import MAX_WORKERS, bitmap_width, frame_bytes, rounded_bits
from testbed.traffic.recording import Recording
from testbed.traffic.trace import Trace
from testbed.workload.gradients import block_scales, quantise

FIXED_SCALES = tuple(10**power for power in range(3, 10))  # that are drawn


@dataclass
class Measured:
    """Sums over all steps of the measurements of one parameter. `over`, `floats`: values of a rank
    that do not fit the fixed scale, and fragments that travel as float32 because of one; `lost`:
    sums that the fixed scale makes 0 although they are not."""

    name: str
    shape: tuple[int, ...]
    values: int = 0  # of all ranks and steps
    zeros: int = 0
    low: int | None = None  # smallest whole e with 2^e <= abs(x) for a value x that is not 0
    high: int | None = None  # and largest
    over: int = 0
    sums: int = 0
    floats: int = 0  # sums that were made of float32
    lost: int = 0
    square: float = 0.0  # of the exact sums
    errors: dict[str, float] = field(
        default_factory=lambda: {"exponents": 0.0, "short": 0.0, "fixed": 0.0}
    )

    def add(self, given: np.ndarray, sums: dict[str, np.ndarray], over: np.ndarray) -> None:
        """given: float32[W, n]; sums: exact, exponents, short, fixed, float64[n], and which are
        made of float32; over: bool[W, n]."""
        self.values += given.size
        self.zeros += int((given == 0).sum())
        sizes = np.abs(given[given != 0].astype(np.float64))
        if sizes.size:
            low, high = (int(np.frexp(each)[1]) - 1 for each in (sizes.min(), sizes.max()))
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)
        self.over += int(over.sum())
        exact = sums["exact"]
        self.sums += exact.size
        self.floats += int(sums["as_floats"].sum())
        self.lost += int(((sums["fixed"] == 0) & (exact != 0)).sum())
        self.square += float((exact**2).sum())
        for name in self.errors:
            self.errors[name] += float(((sums[name] - exact) ** 2).sum())

    def error(self, name: str) -> float | None:
        """Root of the mean square error of a format's sums, as a share of that of the exact
        sums."""
        return float(np.sqrt(self.errors[name] / self.square)) if self.square else None


def measured(recording: Recording, fixed_scale: int, values: int) -> list[Measured]:
    """The parameters in forward order, with their measurements; values: per packet."""
    ranks = recording.ranks
    block = block_fragments(ranks, values) * values
    found: list[list[Measured]] = [
        [Measured(each["name"], tuple(each["shape"])) for each in bucket["parameters"]]
        for bucket in reversed(recording.header["buckets"])
    ]
    everything = recording.values()
    for step in range(recording.steps):
        start = 0
        for tensor, layer in enumerate(recording.tensors):
            given = everything[:, step, start : start + layer.values]
            start += layer.values
            sums, over = _summed(given, block, fixed_scale, values)
            place = 0
            for each in found[tensor]:
                part = slice(place, place + int(np.prod(each.shape)))
                each.add(given[:, part], {k: v[part] for k, v in sums.items()}, over[:, part])
                place = part.stop
    # DDP fills its buckets from the back of the model.
    return [each for tensor in found for each in reversed(tensor)]


def _summed(
    given: np.ndarray, block: int, fixed_scale: int, values: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The sums of one bucket in each format, and which values do not fit the fixed scale."""
    ranks, count = given.shape
    exact = given.astype(np.float64).sum(axis=0)
    steps = np.rint(given.astype(np.float64) * fixed_scale)
    over = np.abs(steps) > most_steps(ranks)
    fragment = np.arange(count) // values
    as_floats = np.zeros(fragment[-1] + 1, bool)
    as_floats[fragment[over.any(axis=0)]] = True
    fixed = np.where(as_floats[fragment], exact, steps.sum(axis=0) / fixed_scale)
    sums = {
        "exact": exact,
        "exponents": _in_blocks(given, block, 32)[2],
        "short": _in_blocks(given, block, 16)[2],
        "fixed": fixed.astype(np.float32).astype(np.float64),
        "as_floats": as_floats[fragment],
    }
    return sums, over


def _in_blocks(
    given: np.ndarray, block: int, value_bits: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The ranks' steps, int32[W, n], their sums as a result has them, int64[n], and what these
    stand for, float64[n], which has been a float32."""
    scales = block_scales(given, block, value_bits)
    steps = quantise(given, scales)
    sums = steps.sum(axis=0, dtype=np.int64)
    unit = 1
    if value_bits < 32:
        sums = block_float.rounded(sums.astype(np.int32), given.shape[0]).astype(np.int64)
        unit = 1 << rounded_bits(given.shape[0])
    found = np.asarray(sums * unit / scales, np.float32)
    return steps, np.asarray(sums), found.astype(np.float64)


@dataclass
class Packets:
    """Fragments that a rank sends and gets with 32 or 16 bits per value and, of them, those that
    are all 0, of all ranks (`sent`) or of the sums (`summed`) and of all steps; `error`: as
    Measured.error, of all parameters."""

    value_bits: int
    sent: int = 0
    sent_zeros: int = 0
    summed: int = 0
    summed_zeros: int = 0
    square: float = 0.0
    wrong: float = 0.0

    def add(self, given: np.ndarray, block: int, values: int) -> None:
        """given: float32[W, n], of one bucket and step; values: per packet."""
        steps, sums, found = _in_blocks(given, block, self.value_bits)
        starts = np.arange(0, sums.size, values)
        of_ranks = np.maximum.reduceat(np.abs(steps), starts, axis=1)
        of_sums = np.maximum.reduceat(np.abs(sums), starts)
        self.sent += of_ranks.size
        self.sent_zeros += int((of_ranks == 0).sum())
        self.summed += of_sums.size
        self.summed_zeros += int((of_sums == 0).sum())
        exact = given.astype(np.float64).sum(axis=0)
        self.square += float((exact**2).sum())
        self.wrong += float(((found - exact) ** 2).sum())

    @property
    def error(self) -> float | None:
        return float(np.sqrt(self.wrong / self.square)) if self.square else None


def packets(recording: Recording, values: int) -> list[Packets]:
    """Those of 32 and of 16 bits; values: per packet."""
    block = block_fragments(recording.ranks, values) * values
    found = [Packets(32), Packets(16)]
    everything = recording.values()
    for step in range(recording.steps):
        start = 0
        for layer in recording.tensors:
            given = everything[:, step, start : start + layer.values]
            start += layer.values
            for each in found:
                each.add(given, block, values)
    return found


def _packet_rows(recording: Recording, values: int) -> Iterator[Row]:
    """The rows of `_PACKETS`."""
    width = bitmap_width(min(recording.ranks, MAX_WORKERS))
    empty = frame_bytes(0, width)
    for each in packets(recording, values):
        full = frame_bytes(values * each.value_bits // 32, width)
        for zeros, what_is_zero in (("sent", full), ("header_only", empty)):
            sent = each.sent * full + each.sent_zeros * (what_is_zero - full)
            summed = each.summed * full + each.summed_zeros * (what_is_zero - full)
            steps = recording.steps
            yield Row(
                (
                    *(each.value_bits, zeros, sent / steps / recording.ranks, summed / steps),
                    *(each.sent_zeros / each.sent, each.summed_zeros / each.summed, each.error),
                )
            )


def _whole(count: float) -> str:
    return units.number(round(count))


def _error(error: float) -> str:
    return f"{error:.1e}"


_BUCKETS = (
    Column("bucket", "tensor", words=True),
    Column("values", "values", units.number, "values"),
    Column("forward_ns", "forward", units.time, "ns"),
    Column("backward_ns", "backward", units.time, "ns"),
    Column("update_ns", "update", units.time, "ns"),
)
_LAYERS = (
    Column("parameter", "parameter", words=True),
    Column("values", "values", units.number, "values"),
    Column("zeros", "zeros", units.share, "share"),
    Column("low", "from\n2^", str, "exponent"),
    Column("high", "to\n2^", str, "exponent"),
    Column("error_exponents", "error,\nblocks", _error, "share"),
    Column("error_short", "error,\n16 bits", _error, "share"),
    Column("error_fixed", "error,\nfixed", _error, "share"),
    Column("lost", "lost,\nfixed", units.share, "share"),
    Column("overflows", "over,\nfixed", units.number, "values"),
    Column("floats", "floats,\nfixed", units.share, "share"),
)


_PACKETS = (
    Column("value_bits", "value\nbits", str, "bits"),
    Column("zeros", "zeros", words=True),
    Column("sent_bytes", "sent\nbytes", _whole, "bytes"),
    Column("got_bytes", "got\nbytes", _whole, "bytes"),
    Column("sent_zeros", "zeros,\nsent", units.share, "share"),
    Column("got_zeros", "zeros,\ngot", units.share, "share"),
    Column("error", "error", _error, "share"),
)


def tables(recording: Recording, trace: Trace, fixed_scale: int, values: int) -> Iterator[Table]:
    """Tables of a recording: its tensors with their mean times, and its numbers, if it has any.
    trace: `recording.trace()`."""
    rows = [
        Row((layer.name, layer.values, layer.forward_ns, layer.backward_ns, layer.update_ns))
        for layer in trace.layers
    ]
    yield Table("tensors", "Tensors, with mean times", _BUCKETS, rows)
    if not recording.has_values:
        return
    found = []
    for each in measured(recording, fixed_scale, values):
        share = 1 / each.sums
        row = (
            *(each.name, int(np.prod(each.shape)), each.zeros / each.values, each.low, each.high),
            *(each.error("exponents"), each.error("short"), each.error("fixed")),
            *(each.lost * share, each.over, each.floats * share),
        )
        found.append(Row(row))
    yield Table(
        "parameters", f"Numbers, with a fixed scale of {units.number(fixed_scale)}", _LAYERS, found
    )
    title = f"Packets of a rank and a step, with {values} values each"
    yield Table("packets", title, _PACKETS, list(_packet_rows(recording, values)))


def draw_numbers(recording: Recording, title: str, values: int, path: Path) -> list[Path]:
    """Draw the errors of the sums in each number format, over all parameters, for fixed scales from
    1,000 on. values: per packet. Returns the drawing, as PNG and PDF."""
    from testbed.analysis.figures import number_format_figure as figure

    fixed = []
    for steps in FIXED_SCALES:
        found = measured(recording, steps, values)
        sums, square = sum(each.sums for each in found), sum(each.square for each in found)
        errors = {
            name: float(np.sqrt(sum(each.errors[name] for each in found) / square))
            for name in found[0].errors
        }
        lost, floats = sum(each.lost for each in found), sum(each.floats for each in found)
        fixed.append(figure.FixedScale(steps, errors.pop("fixed"), lost / sums, floats / sums))
    titles = {"exponents": "blocks, 32 bits", "short": "blocks, 16 bits"}
    others = {titles.get(name, name): error for name, error in errors.items()}
    return figure.draw(path, title, fixed, others)
