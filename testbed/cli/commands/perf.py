"""`ina perf COLLECTIVE`: the time of one collective over its size, for systems and algorithms."""

from __future__ import annotations

import math
from argparse import Namespace
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.cli.shared import Parser, import_schemas, json_option, picture_files, positive, working
from testbed.collective_kinds import COLLECTIVES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from p4fabric.base.text_table import Table

    from testbed.sweeps.collective_perf import Point, Setting

MEASURED = tuple(name for name, kind in COLLECTIVES.items() if not kind.empty)
RATES = {"virtual": "100 Gbit/s", "mininet": "50 Mbit/s"}  # of links, by default
DEFAULTS = "esa,switchml,ring,halving_doubling,double_tree"


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "collective", choices=MEASURED, metavar="COLLECTIVE", help=", ".join(MEASURED)
    )
    parser.add_argument("--ranks", type=positive, default=8, metavar="N", help="default: 8")
    parser.add_argument(
        "--sizes",
        default="1K:16M:4",
        metavar="SIZES",
        help="bytes, MIN:MAX:FACTOR or with commas between them (default: 1K:16M:4)",
    )
    parser.add_argument(
        "--system",
        default=DEFAULTS,
        metavar="NAMES",
        help="systems and algorithms, with commas between them, each a name, or with options as in"
        " an experiment, '{name: esa, results_from: switch}'; and auto: for each size the one of"
        f" them that takes the least time in the alpha-beta model (default: {DEFAULTS})",
    )
    parser.add_argument(
        "--runtime", choices=("virtual", "mininet"), default="virtual", help="default: virtual"
    )
    parser.add_argument(
        "--topology",
        default="",
        metavar="TOPOLOGY",
        help="as in an experiment, such as '{kind: rails, servers: 4, ranks: 8}' (default: a star)",
    )
    parser.add_argument(
        "--rate", metavar="RATE", help="of links (default: 100 Gbit/s, on Mininet 50 Mbit/s)"
    )
    parser.add_argument("--delay", default="1 us", metavar="TIME", help="of links (default: 1 us)")
    parser.add_argument("--loss", default="0", metavar="SHARE", help="of packets (default: 0)")
    parser.add_argument(
        "--costs",
        default="",
        metavar="PROFILE",
        help="what calls and hosts cost: a profile, a file or a mapping, as in an experiment"
        " (docs/costs.md)",
    )
    parser.add_argument(
        "--values", type=positive, default=256, metavar="N", help="of a packet (default: 256)"
    )
    parser.add_argument(
        "--iterations", type=positive, default=3, metavar="N", help="runs of a size (default: 3)"
    )
    parser.add_argument(
        "--warmup", type=positive, default=1, metavar="N", help="calls before them (default: 1)"
    )
    parser.add_argument(
        "--figure",
        type=picture_files,
        metavar="FIGURE",
        help="draw time and busbw over size, .pdf and .png",
    )
    json_option(parser, "print JSON")


def call(options: Namespace) -> int:
    """Measure and print; 1 if a value was wrong. Raises UserError and RunError."""
    import_schemas()
    from p4fabric.base import units
    from p4fabric.base.steps import quiet_console

    from testbed.sweeps.collective_perf import (
        Setting,
        check,
        crossovers,
        measure,
        sizes_of,
        systems_of,
    )

    names = {each.name for each in fields(Setting)}
    given = {name: value for name, value in vars(options).items() if name in names}
    setting = Setting(**given | {"rate": options.rate or RATES[options.runtime]})
    sizes = sizes_of(options.sizes)
    systems = systems_of(options.system)
    check(setting, systems)
    points: list[Point] = []
    every = [(system, size) for system in systems for size in sizes]

    def now() -> str:
        system, size = every[min(len(points), len(every) - 1)]
        done = f"{len(points)} of {len(every)}"
        return f"{done} measured; now {system}, {units.number(size)} B"

    with working(now):
        for point in measure(setting, systems, sizes, quiet_console()):
            points.append(point)
    if options.json:
        _print_json(setting, points)
    else:
        _print(points, crossovers(points))
    if options.figure is not None:
        _draw(options.figure, points)
    return int(any(each.wrong for each in points))


def _draw(path: Path, points: Sequence[Point]) -> None:
    from testbed.analysis.figures.collective_figure import Line, draw

    lines = []
    for system, own in by_system(points).items():
        times = [each.time_ns for each in own]
        bounds = [each.bound.least_ns for each in own]
        lines.append(Line(system, [e.size for e in own], times, bounds, [e.busbw for e in own]))
    draw(path, f"{points[0].collective}, {points[0].ranks} ranks", lines)


def by_system(points: Sequence[Point]) -> dict[str, list[Point]]:
    """The points of each system, in order."""
    found: dict[str, list[Point]] = {}
    for point in points:
        found.setdefault(point.system, []).append(point)
    return found


def _print(points: Sequence[Point], crossings: Sequence[str]) -> None:
    from p4fabric.base.text_table import printed
    from rich.console import Console

    from testbed.cli.program_output import FILE_WIDTH

    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_WIDTH)
    for own in by_system(points).values():
        console.print(printed(table(own)))
    for line in crossings:
        console.print(line, highlight=False)


def table(points: Sequence[Point]) -> Table:
    """The rows of one system, with nccl-tests' columns."""
    from p4fabric.base import units
    from p4fabric.base.text_table import Column, Row, Table

    columns: tuple[Column, ...] = (
        Column("size", "size\n(B)", units.number, "bytes"),
        Column("count", "count\n(elements)", units.number),
        Column("type", "type", words=True),
        Column("redop", "redop", words=True),
        Column("time_us", "time\n(us)", _short, "us"),
        Column("algbw", "algbw\n(GB/s)", _bandwidth, "GB/s"),
        Column("busbw", "busbw\n(GB/s)", _bandwidth, "GB/s"),
        Column("wrong", "#wrong"),
        Column("bound_us", "bound\n(us)", _short, "us"),
        Column("over_bound", "time /\nbound", "{:.2f}".format),
    )
    first = points[0]
    if first.chosen:
        columns += (Column("chosen", "carried by", words=True),)
    rows = [
        Row(
            (
                *(each.size, each.count, "int32", each.redop, each.time_ns / 1e3, each.algbw),
                *(each.busbw, each.wrong, each.bound.least_ns / 1e3, each.over_bound),
                *((each.chosen,) if first.chosen else ()),
            )
        )
        for each in points
    ]
    title = f"{first.title}: {first.collective}, {first.ranks} ranks"
    return Table(first.system, title, columns, rows)


def _bandwidth(number: float) -> str:
    return f"{number:.2f}" if number >= 1 else f"{number:.3g}"


def _short(number: float) -> str:
    return (f"{number:.2f}" if number < 100 else f"{number:,.1f}").replace(",", " ")


def _print_json(setting: Setting, points: Sequence[Point]) -> None:
    import json

    rows = []
    for each in points:
        row = {name: value for name, value in asdict(each).items() if name != "bound"}
        row |= {name: getattr(each, name) for name in ("algbw", "busbw", "redop", "over_bound")}
        row |= {"type": "int32", "bound_ns": each.bound.least_ns, "model_ns": each.bound.model_ns}
        rows.append(
            {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()}
        )
    print(json.dumps({"setting": asdict(setting), "points": rows}, indent=1))
