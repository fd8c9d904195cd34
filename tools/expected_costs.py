"""Measured values of the rows of experiments/expected/costs.yaml, by runs in virtual time.

    .venv/bin/python -m tools.expected_costs [ROW...] [--write] [--figure FILE]

prints each row with its expected value, what was measured, and the closed form of the profile's
numbers beside it. --write puts the measured values into the file, and nothing else. --figure draws
times and bus bandwidths of `ina perf` over size, with the published points and the error of each.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from p4fabric.base.steps import quiet_console

from testbed.algorithms.bounds import busbw_factor
from testbed.analysis.figures.collective_figure import Line, Published, draw
from testbed.artifacts.expected import bounds_of, error_of, holds, shown
from testbed.sweeps.collective_perf import Point, Setting, measure
from tools.expected_rows import with_measured

FILE = Path(__file__).resolve().parents[1] / "experiments/expected/costs.yaml"
KIB, MIB = 1 << 10, 1 << 20
FEW = 8  # bytes
SHORT = {"512": 512, "32k": 32 * KIB, "512k": 512 * KIB, "1m": MIB}
# Sizes by whose difference a bandwidth is measured: bytes take longer than the steps of 32 ranks.
LARGE = 64 * MIB, 96 * MIB
# Of a packet, from which size on: so few that a short call has several, so many that headers are
# few bytes.
VALUES = ((16 * MIB, 2048), (512 * KIB, 1024), (32 * KIB, 256), (0, 64))
NVLINK, NIC = "3600 Gbit/s", "400 Gbit/s"
IN_SWITCH, AUTO = "switchml", "auto"
RAILS = (
    "{kind: rails, servers: %d, ranks: 8, scale_up: {bandwidth: "
    + NVLINK
    + "}, nic: {bandwidth: "
    + NIC
    + "}}"
)
TREES = "{name: tree, trees: 8}"  # a tree on each rail


@dataclass(frozen=True)
class Measured:
    """A way to measure a row: a call of `size` bytes among `machines` of 8 ranks. Its time counts,
    or, with size 0, its bus bandwidth: that of messages so large that launch and steps do not
    count, by which two sizes differ. rails: machines with a network card for each rank; else all
    ranks hang on one switch, by links that cost nothing. graphs: calls are part of CUDA graphs."""

    system: str
    size: int = FEW
    machines: int = 1
    protocol: str = AUTO
    rails: bool = False
    graphs: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.size,) if self.size else LARGE

    @property
    def setting(self) -> Setting:
        hosts = 8 * self.machines + 1
        profile = "h100-roce-400g" if self.rails else "h100-nvlink" + "-graphs" * self.graphs
        star = f"{{kind: star, hosts: {hosts}, per_server: 8}}"
        return Setting(
            collective="all_reduce",
            ranks=8 * self.machines,
            topology=RAILS % self.machines if self.rails else star,
            rate=NVLINK,
            delay="0",
            values=next(values for size, values in VALUES if self.sizes[0] >= size),
            iterations=1,
            aggregators=2048,
            costs=f"{{from: {profile}, protocol: {self.protocol}}}",
        )


ROWS = {
    "ring_simple_8": Measured("ring", protocol="Simple"),
    "ring_ll_8": Measured("ring", protocol="LL"),
    "ring_ll128_8": Measured("ring", protocol="LL128"),
    "ring_simple_16": Measured("ring", machines=2, protocol="Simple"),
    "ring_ll_16": Measured("ring", machines=2, protocol="LL"),
    "tree_ll_16": Measured("double_tree", machines=2, protocol="LL"),
    "nvls_8": Measured(IN_SWITCH),
    "collnet_8": Measured(IN_SWITCH, machines=2),
    "collnet_64": Measured(IN_SWITCH, machines=8),
    "ring_busbw_8": Measured("ring", 0, protocol="Simple"),
    "nvls_busbw_8": Measured(IN_SWITCH, 0),
    "ring_busbw_16": Measured("ring", 0, 2, "Simple", rails=True),
    "nvls_busbw_16": Measured(TREES, 0, 2, rails=True),
    "ring_busbw_32": Measured("ring", 0, 4, "Simple", rails=True),
    **{f"tp8_{name}": Measured(AUTO, size) for name, size in SHORT.items()},
    **{f"graphs_{name}": Measured(AUTO, size, graphs=True) for name, size in SHORT.items()},
    "plain_8": Measured(AUTO),
}
IN_GRAPHS = "CUDA graphs"
CANDIDATES = ("ring", "double_tree", IN_SWITCH)  # of auto, as NCCL has them


def points_of(row: Measured) -> list[Point]:
    """The calls of a row. Raises UserError and RunError."""
    systems = (*CANDIDATES, AUTO) if row.system == AUTO else (row.system,)
    found = list(measure(row.setting, systems, row.sizes, quiet_console()))
    return found[-len(row.sizes) :]


def value_of(points: Sequence[Point]) -> float:
    """The measured value in the row's unit: us, or GB/s of two sizes."""
    first, last = points[0], points[-1]
    if first is last:
        return last.time_ns / 1e3
    more_bytes, more_ns = last.size - first.size, last.time_ns - first.time_ns
    return more_bytes / more_ns * busbw_factor(last.collective, last.ranks)


def draw_all(path: Path, rows: Sequence[dict]) -> None:
    """The curves of one machine of 8 ranks, with the published points of as many."""
    sizes = [FEW, 512, 4 * KIB, 32 * KIB, 128 * KIB, 512 * KIB, MIB, 4 * MIB, 16 * MIB, *LARGE]
    found: dict[tuple[str, bool, int], Point] = {}
    lines = []
    for system, graphs in (*((each, False) for each in CANDIDATES), ("double_tree", True)):
        some = [size for size in sizes if size <= MIB or not graphs]
        points = [points_of(Measured(system, size, graphs=graphs))[-1] for size in some]
        found |= {(system, graphs, each.size): each for each in points}
        times, bounds = [e.time_ns for e in points], [e.bound.least_ns for e in points]
        busbw, note = [e.busbw for e in points], IN_GRAPHS if graphs else ""
        lines.append(Line(system, some, times, bounds, busbw, note))
    marks: dict[tuple[int, float, float], Published] = {}
    for row in rows:
        how = ROWS.get(row["name"])
        if how is None or row["source"] != "threads" or how.machines > 1:
            continue
        size = how.sizes[-1]
        there = [key for key in found if key[1:] == (how.graphs, size)]
        if how.system != AUTO:
            there = [key for key in there if key[0] == how.system]
        system = min(there, key=lambda key: found[key].time_ns)[0]
        scale = 1e3 if how.size else 1.0
        low, high = (scale * each for each in bounds_of(row))
        error = error_of(row, value_of([found[system, how.graphs, each] for each in how.sizes]))
        if how.graphs:  # the same point, of the other profile
            error = f"{marks.pop((size, low, high)).error}, {IN_GRAPHS} {error}"
        marks[size, low, high] = Published(system, size, low, high, how.size > 0, error)
    title = "all_reduce, 8 H100, costs h100-nvlink; x: published, and our error"
    draw(path, title, lines, [*marks.values()])


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help="names (default: all)")
    parser.add_argument("--write", action="store_true", help="put measured values into the file")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw curves and points")
    options = parser.parse_args(words)
    rows = yaml.safe_load(FILE.read_text())["rows"]
    chosen = [each for each in rows if each["name"] in (options.rows or ROWS)]
    print(f"{'row':16} {'expected':>12} {'measured':>9} {'error':>7}  closed form (us)")
    failed = 0
    for row in chosen if options.rows or not options.figure else ():
        how = ROWS[row["name"]]
        points = points_of(how)
        value, point = value_of(points), points[-1]
        good = holds(row, value)
        failed += not good
        said = f"{row['name']:16} {shown(row):>12} {value:9.4g} {error_of(row, value):>7}"
        beside = f"{point.bound.model_ns / 1e3:.2f} {point.chosen}"
        print(f"{said}  {beside} {'' if good else 'FAILS'}".rstrip(), flush=True)
        if options.write:
            FILE.write_text(with_measured(FILE.read_text(), row["name"], value))
    if options.figure:
        draw_all(options.figure, rows)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
