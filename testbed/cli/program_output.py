"""Output of commands about recordings and programs: tables, drawings, traces."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from p4fabric.base.errors import UserError
from p4fabric.base.linux.whole_files import writing
from p4fabric.base.text_table import Table, printed, table_data

from testbed.cli import program_tables
from testbed.cli.shared import print_json
from testbed.cli.workload_tables import tables
from testbed.traffic import chakra
from testbed.traffic.rank_counts import kind_of_group
from testbed.traffic.rank_graph import COMPUTE, RECV, SEND, Program
from testbed.traffic.rank_schedule import Schedule

FILE_WIDTH = 120  # of tables that go to a file


def show_tables(what: str, title: str, found: Iterable[Table], json: bool) -> None:
    """Print a title and tables; what: key of the title in the JSON."""
    from rich.console import Console

    made = [*found]  # before anything is printed
    if json:
        print_json({what: title, **{each.name: table_data(each) for each in made}})
        return
    print(f"{title}\n")
    console = Console()
    if not console.is_terminal:
        console = Console(width=FILE_WIDTH)
    for each in made:
        console.print(printed(each))


def show(program: Program, json: bool, more: tuple[Table, ...] = (), end: str = "") -> None:
    """Print the counts of a program, more tables, and a last line."""
    title = program.about.get("title") or program_tables.title(program)
    show_tables("program", title, [*tables(program), *more], json)
    if end and not json:
        print(end)


def draw(path: Path, program: Program, times: Schedule, rank: int, quiet: bool) -> None:
    """Draw a rank's graph over time."""
    from testbed.analysis.figures import rank_figure

    what = program.about.get("title") or program_tables.title(program)
    title = f"{what}: rank {rank}, each call with its links alone"
    for file in rank_figure.draw(path, title, _lanes(program, times, rank)):
        if not quiet:
            print(file)


def write_perfetto(path: Path, program: Program, times: Schedule, quiet: bool) -> None:
    """Write the graphs of all ranks over time as a trace for Perfetto's viewer. Raises
    UserError."""
    from testbed.analysis import perfetto

    if path.suffix != ".json" or not path.absolute().parent.is_dir():
        raise UserError(f"{path}: name a file that ends in .json, in an existing folder")
    what = program.about.get("title") or program_tables.title(program)
    ranks = range(len(program.ranks))
    events = (
        event
        for rank in ranks
        for event in perfetto.lane_events(_lanes(program, times, rank), f"rank {rank}", rank)
    )
    with writing(path):
        perfetto.write_events(path, events, {"program": what})
    if not quiet:
        print(f"open in https://ui.perfetto.dev: {path}")


def _lanes(
    program: Program, times: Schedule, rank: int
) -> dict[str, list[tuple[str, float, float]]]:
    """A rank's nodes over time, (kind, begin, end) in ns, by lane: computation, calls of each kind
    of group, and transfers."""
    lanes: dict[str, list[tuple[str, float, float]]] = {COMPUTE: []}
    begins, ends = times.begin_ns[rank], times.end_ns[rank]
    for node, begin, end in zip(program.ranks[rank], begins, ends, strict=True):
        lane = COMPUTE
        if node.kind in (SEND, RECV):
            lane = "transfers"
        elif node.kind != COMPUTE:
            lane = kind_of_group(node.route)
        lanes.setdefault(lane, []).append((node.kind, begin, end))
    return lanes


def write(path: Path, program: Program, quiet: bool = False) -> None:
    """Write a program as Chakra traces, with groups that have numbers. Raises UserError."""
    if path.suffix != chakra.SUFFIX:
        raise UserError(f"{path}: name traces that end in {chakra.SUFFIX}")
    if not path.absolute().parent.is_dir():
        raise UserError(f"{path}: there is no folder {path.absolute().parent}: make it first")
    first = path.with_suffix(chakra.FIRST)
    if first.exists():
        raise UserError(f"{first} is there already: remove it, or name others with -o")
    with writing(path):
        chakra.write(path, program, numbered=True)
    if not quiet:
        print(f"{first} to {path.stem}.{len(program.ranks) - 1}{path.suffix}")
