"""The report of results folders: printed tables, report.txt, figures and report.html.

A run's own report goes into its folder. A comparison goes into a folder beside the runs, which is
named after them, because it belongs to none of them. A failed or unfinished run is printed as far
as it got, under a headline that says so, and has no figures.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from p4fabric.base.errors import RunError, shortage
from p4fabric.base.steps import step
from p4fabric.base.text_table import Table, printed, table_data, without_zeros
from rich.console import Console, Group, RenderableType
from rich.text import Text

from testbed.analysis import drawn
from testbed.analysis.data import explanations
from testbed.analysis.data import sweep_data as sweeps
from testbed.analysis.data.map_data import maps
from testbed.analysis.data.robust_data import verdicts
from testbed.analysis.data.run_summary import (
    MOST_JOBS,
    Frames,
    jobs_left_out,
    longest_jobs,
    summary,
    take,
)
from testbed.analysis.style.plot_style import plot_styles
from testbed.analysis.tables import pause_tables, serving_tables, verdict_tables
from testbed.analysis.tables import report_tables as tables
from testbed.paths import command_line
from testbed.results import Results, ResultsError, hand_over, read, whole, write_whole

if TYPE_CHECKING:
    import pandas as pd

BRIEF_JOBS = 10
BRIEF_LINKS = 5
BRIEF, DETAILS, ALL = "brief", "details", "all"  # how much is printed of a run; ALL: rows of zeros
LOADING = "loading matplotlib"
# Summaries (`run_summary.packed`) by a point's key and the name of its run.
Summaries = Mapping[tuple[str, str], bytes]
NONE_KNOWN: Summaries = MappingProxyType({})
_WIDTH = 150  # of report.txt, and of a terminal that does not tell its own


def console_of_tables() -> Console:
    """Standard output; a pipe or a file does not tell its width, and rich would take 80 columns."""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH)


def after_run(
    folder: str | Path, console: Console | None = None, *, draw: bool = True, shown: str = BRIEF
) -> Results:
    """Report at the end of a run: print first, then, with `draw`, make figures and report.html.
    shown: how much is printed, BRIEF, DETAILS or ALL. Returns the run."""
    results = read(folder)
    _one(results, console or console_of_tables(), draw, shown)
    return results


def report_command(
    paths: Sequence[str | Path], console: Console | None = None, *, shown: str = BRIEF
) -> None:
    """`ina report RESULTS...`: reports each run, and compares them where there are several. A
    point of a sweep is SWEEP/HASH.

    Raises ResultsError (a UserError) when a path is no results folder.
    """
    console = console or console_of_tables()
    if not paths:
        raise ResultsError(f"name at least one results folder: {command_line('report RESULTS...')}")
    once: dict[Path, Path] = {}
    for path in map(_with_name, paths):
        once.setdefault(path.resolve(), path)
    folders = list(once.values())
    for folder in [each for each in folders if sweeps.is_sweep(each)]:
        folders.remove(folder)
        sweep_report(folder, console)
    runs = [sweeps.run_at(path) for path in folders]
    for results in runs:
        _one(results, console, shown=shown)
    if len(runs) > 1:
        _comparison(runs, console)


def _with_name(path: str | Path) -> Path:
    """A folder as it was given, which what is printed repeats; `.` and `..` by their names."""
    return Path(path).resolve() if Path(path).name in ("", "..") else Path(path)


def sweep_report(
    folder: str | Path,
    console: Console | None = None,
    *,
    draw: bool = True,
    again: bool = True,
    known: Summaries = NONE_KNOWN,
) -> None:
    """The table of a sweep's points, report.txt, data.csv and, with `draw`, the figures and
    report.html, into its folder. again: also if figures and page are there and would be the
    same. known: summaries that need not be made."""
    sweep = _read_sweep(folder, known)
    frame = sweeps.frame(sweep)
    console = console or console_of_tables()
    with _writing(sweep.folder):
        _show(render_sweep(sweep, frame), console, sweep.folder / "report.txt")
        if frame.empty:
            console.print("no figures: no point has finished", style="yellow")
            return
        write_whole(sweep.folder / "data.csv", frame.to_csv(index=False))
        if not draw:
            return
        if not again and (paths := drawn.drawn(sweep, frame)):
            _name_figures(console, paths[:-1])
            _name_page(console, paths[-1])
        else:
            with step(console, LOADING):
                from testbed.analysis.figures import sweep_figures
            figures = sweep.folder / "figures"
            made = _draw(console, lambda: sweep_figures.draw(sweep, frame, figures))
            page = _write_page(console, lambda html: html.write_sweep(sweep, frame))
            drawn.note(sweep, frame, [*made, page])
    for sentence in explanations.of_sweep(sweep):
        console.print(sentence, highlight=False)


def _read_sweep(folder: str | Path, known: Summaries) -> sweeps.Sweep:
    sweep = sweeps.read_sweep(folder)
    runs: list[sweeps.Point | sweeps.VariedRun] = [*sweep.points]
    runs += sweep.robust.runs if sweep.robust else ()
    for each in runs:
        if each.results is not None and (key := (each.key, each.results.folder.name)) in known:
            take(each.results, known[key])
    return sweep


def render_sweep(sweep: sweeps.Sweep, frame: pd.DataFrame | None = None) -> RenderableType:
    """The table of a sweep's points. `frame`: that of the sweep, if it is at hand."""
    frame = sweeps.frame(sweep) if frame is None else frame
    parts: list[RenderableType] = [printed(tables.sweep(sweep.points, sweep.keys, frame))]
    if sweep.figure is not None and sweep.figure.rows and not frame.empty:
        parts += ["", printed(tables.map_cells(maps(sweep, frame)))]
    if robust := verdict_tables.robust(sweep):
        parts += ["", *(verdict.sentence for verdict in verdicts(sweep)), "", printed(robust)]
    return Group(*parts)


def render(results: Results, zeros: bool = False) -> RenderableType:
    """Headline and tables of one run; tables without rows are left out. zeros: with the rows whose
    numbers are all 0."""
    frames = summary(results)
    return _composed(results, frames, run_tables(results, frames, MOST_JOBS), zeros)


def _composed(results: Results, frames: Frames, whole: list[Table], zeros: bool) -> RenderableType:
    """The result of `render`, from a run's `summary` and its tables."""
    parts: list[RenderableType] = [tables.headline(results, frames)]
    if chosen := jobs_left_out(frames["jobs"]):
        parts.append(f"tables of jobs: {chosen} (`report --json` has all of them)")
    shown = whole if zeros else [without_zeros(table) for table in whole]
    parts += ["", *(printed(table) for table in shown if table.rows)]
    if left_out := sum(len(table.rows) for table in whole) - sum(len(t.rows) for t in shown):
        parts.append(f"rows of zeros omitted: {left_out} (--all prints them)")
    return Group(*parts)


def brief(results: Results, frames: Frames) -> RenderableType:
    """A run on one screen of 80 columns: who was how fast, what took the time, and
    how far the numbers can be trusted. frames: its `summary`."""
    parts: list[RenderableType] = [tables.headline(results, frames), ""]
    jobs = longest_jobs(frames["jobs"], BRIEF_JOBS)
    if chosen := jobs_left_out(frames["jobs"], BRIEF_JOBS):
        parts.append(f"the table has {chosen}")
    if len(jobs):
        parts.append(printed(tables.brief_jobs({**frames, "jobs": jobs})))
    parts += map(printed, serving_tables.of_run(results))
    for table in (tables.lost_by_job(frames, BRIEF_JOBS), tables.lost_by_link(frames, BRIEF_LINKS)):
        parts += [printed(table)] if table.rows else []
    parts += explanations.of_run(explanations.frames_of(results))
    if len(results.faults):
        parts.append(f"{len(results.faults)} planned faults took place.")
    return Group(*parts)


def run_tables(results: Results, frames: Frames, most: int | None = None) -> list[Table]:
    """The tables of one run that have rows, from top to bottom. frames: its `summary`. most: jobs
    in a table; all by default."""
    if most is not None:
        frames = {**frames, "jobs": longest_jobs(frames["jobs"], most)}
    found: list[Table | None] = [verdict_tables.tuning(results)]
    if len(results.faults):
        found.append(tables.faults(results))
    if len(frames["jobs"]):
        found.append(tables.jobs(frames))
        found.append(tables.lengths(frames))
        found += serving_tables.of_run(results)
        found.append(tables.throughput(frames))
        found.append(tables.traffic(frames))
        found.append(tables.lost_by_job(frames))
        found.append(tables.lost_by_link(frames))
        found.append(tables.departures(results, frames))
        if len(tables.comparable(frames)):
            found.append(tables.communication(frames))
        found.append(tables.trunks(results))
    if len(results.buffers):
        found += [pause_tables.pauses(results), pause_tables.buffers(results)]
    if len(results.collectives):
        found.append(tables.collectives(results))
    found.append(tables.kept_sums(results))
    if len(results.flows):
        found.append(tables.flows(results))
    if len(frames["switches"]):
        found.append(tables.memory(frames))
    if len(frames["events"]):
        found.append(tables.events(frames, every=most is None))
    return [table for table in found if table and table.rows]


def perfetto_command(paths: Sequence[str | Path]) -> int:
    """`ina report RESULTS... --perfetto`: writes a trace for Perfetto's viewer into each run's
    folder, and nothing else. Raises ResultsError for a sweep, or a run without jobs."""
    from testbed.analysis import perfetto

    for path in paths:
        if sweeps.is_sweep(path):
            raise ResultsError(f"{path}: a sweep; --perfetto is for runs: name a point, SWEEP/HASH")
        results = sweeps.run_at(path)
        if not len(results.jobs):
            raise ResultsError(f"{results.folder}: {results.notice or 'it has no jobs'}")
        with _writing(results.folder):
            for written in perfetto.write(results):
                print(f"open in https://ui.perfetto.dev: {written}")
    return 0


def report_json(paths: Sequence[str | Path], known: Summaries = NONE_KNOWN) -> int:
    """`ina report RESULTS... --json`: prints what the tables of runs and sweeps hold; writes and
    draws nothing. known: as for `sweep_report`. Raises ResultsError."""
    described: list[dict[str, Any]] = []
    for path in paths:
        if sweeps.is_sweep(path):
            sweep = _read_sweep(path, known)
            points = tables.sweep(sweep.points, sweep.keys, sweeps.frame(sweep))
            found = {"points": [point.key for point in sweep.points]}
            described.append({"sweep": sweep.name, "folder": str(sweep.folder), **found})
            described[-1]["tables"] = {points.name: table_data(points)}
            if robust := verdict_tables.robust(sweep):
                described[-1]["tables"][robust.name] = table_data(robust)
                described[-1]["verdicts"] = [verdict.sentence for verdict in verdicts(sweep)]
            continue
        results = sweeps.run_at(path)
        of_run = {table.name: table_data(table) for table in run_tables(results, summary(results))}
        state = {"state": results.state, "fidelity": results.fidelity, "reasons": results.reasons}
        described.append({"run": results.name, "folder": str(results.folder), **state})
        described[-1]["tables"] = of_run
    print(json.dumps(described, indent=1))
    return 0


def render_comparison(runs: Sequence[Results]) -> RenderableType:
    """Notices of runs that are not to be trusted, and the comparison."""
    frames = [explanations.frames_of(results) for results in runs]
    styles = plot_styles(runs)
    parts: list[RenderableType] = []
    for results, style in zip(runs, styles, strict=True):
        if results.notice:
            parts.append(Text(f"{style.title}: {results.notice}", style="yellow"))
    parts += explanations.of_comparison(frames, [style.title for style in styles])
    parts.append(printed(tables.comparison(runs, frames, styles)))
    if pair := tables.twins(runs, frames):
        parts.append(printed(pair))
    return Group(*parts)


class _CannotWrite(ResultsError):
    pass


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        if error.filename:
            why = shortage(error) or f"{why} ({error.filename})"
        raise _CannotWrite(f"can't write the report into {folder}: {why}") from None


@contextmanager
def of_what_has_finished(folder: Path) -> Iterator[None]:
    """A block that reports what has just been run into `folder`. Raises RunError if that cannot be
    written, since something was started; results are whole then."""
    try:
        yield
    except _CannotWrite as error:
        again = command_line(f"report {folder}")
        raise RunError(f"{error}. Results there are whole; when there is room: {again}") from None


def _one(results: Results, console: Console, draw: bool = True, shown: str = BRIEF) -> None:
    with _writing(results.folder):
        frames = summary(results)
        whole = run_tables(results, frames, MOST_JOBS)
        if not console.quiet:  # rich would lay the tables out all the same
            if shown == BRIEF:
                console.print(brief(results, frames))
                again = command_line(f"report {results.folder} --details")
                console.print(f"all tables: {again}", soft_wrap=True, highlight=False, markup=False)
            else:
                console.print(_composed(results, frames, whole, shown == ALL))
        _keep(_composed(results, frames, whole, True), results.folder / "report.txt")
        if not draw:
            return
        if results.finished:
            with step(console, LOADING):  # only now that the table is on the screen
                from testbed.analysis.figures import run_figures
            _draw(console, lambda: run_figures.draw([results], results.folder / "figures"))
        else:
            console.print(f"no figures: {results.notice}", style="yellow", markup=False)
        _write_page(console, lambda html: html.write_run(results))


def _comparison(runs: list[Results], console: Console) -> None:
    names = "\n".join(results.folder.name for results in runs)
    short = hashlib.sha256(names.encode()).hexdigest()[:6]
    folder = runs[0].folder.parent / f"comparison-{short}"
    with _writing(folder):
        folder.mkdir(exist_ok=True)
        hand_over(folder)
        _compare(runs, folder, console)


def _compare(runs: list[Results], folder: Path, console: Console) -> None:
    console.print()
    _show(render_comparison(runs), console, folder / "report.txt")
    finished = [results for results in runs if results.finished]
    if len(finished) > 1:
        with step(console, LOADING):
            from testbed.analysis.figures import run_figures
        _draw(console, lambda: run_figures.draw(finished, folder))
    else:
        console.print("no figures: fewer than two of these runs have finished", style="yellow")
    _write_page(console, lambda html: html.write_comparison(runs, folder))


def _show(content: RenderableType, console: Console, path: Path) -> None:
    if not console.quiet:
        console.print(content)
    _keep(content, path)


def _keep(content: RenderableType, path: Path) -> None:
    with whole(path) as draft, draft.open("w", encoding="utf-8") as file:
        Console(file=file, width=_WIDTH, color_system=None).print(content)


def _draw(console: Console, draw: Callable[[], Sequence[Path]]) -> Sequence[Path]:
    with step(console, "drawing the figures"):
        paths = draw()
    _name_figures(console, paths)
    return paths


def _name_figures(console: Console, paths: Sequence[Path]) -> None:
    if paths:
        names = ", ".join(path.name for path in paths if path.suffix == ".png")
        console.print(f"\nfigures in {paths[0].parent}: {names} (and PDF)", soft_wrap=True)


def _write_page(console: Console, write: Callable[[Any], Path]) -> Path:
    """`write` gets the module testbed.analysis.html."""
    with step(console, "writing the HTML report"):
        from testbed.analysis import html

        page = write(html)
    _name_page(console, page)
    return page


def _name_page(console: Console, page: Path) -> None:
    console.print(f"open in a browser: {page}", soft_wrap=True, highlight=False)
