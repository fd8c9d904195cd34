"""`ina ls`: the runs and sweeps in a folder of results, the newest one last; `ina tag`: words by
which they are found again; and `ina rm`, which removes them."""

from __future__ import annotations

from argparse import Namespace
from datetime import datetime
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from p4fabric.base.errors import UserError

from testbed.cli.shared import (
    Parser,
    json_option,
    print_columns,
    print_json,
    results_argument,
    working,
)
from testbed.paths import default_results

if TYPE_CHECKING:
    from collections.abc import Iterable

    from testbed.results import Results

SHOWN = 20


def ls_arguments(parser: Parser) -> None:
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        metavar="DIR",
        default=default_results(),
        help="a folder of results (default: %(default)s), or of a sweep, for its points' runs",
    )
    parser.add_argument("--tag", metavar="TAG", help="only what has this tag (`tag` sets it)")
    parser.add_argument(
        "--last", type=int, default=SHOWN, metavar="N", help="the newest N (default: 20); 0: all"
    )
    json_option(parser, "print JSON")


def ls(options: Namespace) -> int:
    if options.last < 0:
        raise UserError(f"--last: found {options.last}; allowed: a whole number from 0")
    folder = options.folder
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; results go to where --results says")
    from testbed.results.reader import by_age

    listed = by_age(folder, networks=True)
    if options.tag is not None:
        from testbed.results.tags import tags_of

        listed = [each for each in listed if options.tag in tags_of(each)]
    kept = listed[-options.last :] if options.last else listed
    described: list[dict[str, Any]] = []
    with working(lambda: f"reading results: {len(described)} of {len(kept)}"):
        for path in kept:
            described.append(_described(path, folder))
    if options.json:
        print_json(described)
        return 0
    if not described:
        with_tag = "" if options.tag is None else f" with the tag {options.tag}"
        print(f"{folder} has no results{with_tag}")
        return 0
    from p4fabric.base import units

    times = [_ends(each["jct_s"]) for each in described]
    time = units.time.common([each for ends in times for each in ends])
    rows = [
        (
            each["name"],
            each["state"] + (", degraded" if each["fidelity"] == "degraded" else ""),
            each["system"] or "-",
            " to ".join(dict.fromkeys(map(time, ends)))
            + (f" ({each['layers']})" if each["layers"] else ""),
            each["started"].replace("T", " ")[:16],
            " ".join(each["tags"]),
        )
        for each, ends in zip(described, times, strict=True)
    ]
    print_columns(("name", "state", "system", "average JCT", "started", "tags"), rows)
    if len(kept) < len(listed):
        print(f"  and {len(listed) - len(kept)} older ones (--last 0: all)")
    return 0


def _described(path: Path, folder: Path) -> dict[str, Any]:
    """name, kind (run, sweep or network), state, fidelity, system, jct_s (the average over jobs and
    repetitions; of a sweep, the shortest and the longest of its points), layers (how many of them
    were simulated), started (local time),
    tags; None where nobody knows."""
    from p4fabric.netfile.run_folder import is_run

    from testbed.results import SWEEP_FILE
    from testbed.results.tags import tags_of

    name = str(path.relative_to(folder))
    about = {"name": name, "tags": tags_of(path)}
    if is_run(path):
        return about | _about("network", *_of_network(path))
    return about | (_of_sweep(path) if (path / SWEEP_FILE).is_file() else _of_run(path))


def _ends(jct_s: float | list[float] | None) -> list[float | None]:
    """A time, or the shortest and the longest one, in ns."""
    both = jct_s if isinstance(jct_s, list) else [jct_s]
    return [each and 1e9 * each for each in both]


def _of_run(path: Path) -> dict[str, Any]:
    from testbed.results import ResultsError, read

    try:
        results = read(path)
        known, layers = _jct_s(results), _layers([results])
        system = results.experiment.get("system")
    except ResultsError:
        return _about("run", "unreadable", (path / "status.json").stat().st_mtime)
    if isinstance(system, dict):
        system = system.get("name")
    return _about("run", results.state, _started(results), results.fidelity, system, known, layers)


def _of_sweep(path: Path) -> dict[str, Any]:
    from testbed.analysis.data.sweep_data import read_sweep
    from testbed.results import SWEEP_FILE, ResultsError

    try:
        sweep = read_sweep(path)
        runs = [point.results for point in sweep.points if point.results is not None]
        times = [_jct_s(run) for run in runs if run.finished]
    except ResultsError:
        return _about("sweep", "unreadable", (path / SWEEP_FILE).stat().st_mtime)
    known = [time for time in times if time is not None]
    state = f"{sum(run.finished for run in runs)} of {len(sweep.points)} points"
    begun = [_started(run) for run in runs]
    return _about(
        "sweep",
        state,
        min(begun, default=(path / SWEEP_FILE).stat().st_mtime),
        "degraded" if any(run.fidelity == "degraded" for run in runs) else None,
        ", ".join(dict.fromkeys(point.system for point in sweep.points)),
        [min(known), max(known)] if known else None,
        _layers(runs),
    )


def _of_network(path: Path) -> tuple[str, float]:
    """The state of a network file's run, and when it began."""
    from p4fabric.base.config.data_files import DataError, read_json
    from p4fabric.netfile.run_folder import FILE, RESULTS, state

    began = (path / FILE).stat().st_mtime
    if (found := state(path)) != "finished":
        return found, began
    try:
        checks = read_json(path / RESULTS)["checks"]
        failed = sum(not each["holds"] for each in checks)
    except (DataError, LookupError, TypeError):
        return "unreadable", began
    return f"{failed} of {len(checks)} checks failed" if failed else found, began


def _started(run: Results) -> float:
    return datetime.fromisoformat(run.started_utc).timestamp()


def _jct_s(run: Results) -> float | None:
    """The average over a run's jobs and repetitions; None if none has ended."""
    known = [each for each in run.column("jobs", "jct_ns") if isinstance(each, int)]  # not None
    return fmean(known) / 1e9 if known else None


def _layers(runs: Iterable[Results]) -> str | None:
    """The number of layers that were simulated, where some were not."""
    found = {
        f"{simulated} of {layers} layers"
        for run in runs
        for simulated, layers in zip(
            run.column("jobs", "layers_simulated"), run.column("jobs", "layers"), strict=True
        )
        if layers is not None
    }
    return ", ".join(sorted(found)) or None


def _about(
    kind: str,
    state: str,
    started: float,
    fidelity: str | None = None,
    system: str | None = None,
    jct_s: float | list[float] | None = None,
    layers: str | None = None,
) -> dict[str, Any]:
    return {
        "kind": kind,
        "state": state,
        "fidelity": fidelity,
        "system": system,
        "jct_s": jct_s,
        "layers": layers,
        "started": datetime.fromtimestamp(started).isoformat(timespec="seconds"),
    }


def tag_arguments(parser: Parser) -> None:
    parser.add_argument("tag", metavar="TAG", help="a word, such as baseline")
    results_argument(parser, "results", "RESULTS", "folders of runs or sweeps", "*")
    parser.add_argument("--remove", action="store_true", help="take the tag away")


def tag(options: Namespace) -> int:
    from testbed.analysis.data.sweep_data import is_sweep, run_at
    from testbed.results.tags import checked, tags_of, write_tags

    checked([options.tag])
    # All of them before the first change.
    folders = [each if is_sweep(each) else run_at(each).folder for each in options.results]
    for folder in folders:
        if options.remove and options.tag not in tags_of(folder):
            raise UserError(f"{folder} has no tag {options.tag}")
    for folder in folders:
        kept = [tag for tag in tags_of(folder) if tag != options.tag]
        write_tags(folder, kept if options.remove else [*kept, options.tag])
    return 0


def rm_arguments(parser: Parser) -> None:
    results_argument(parser, "results", "RESULTS", "folders of runs or sweeps", "+")


def rm(options: Namespace) -> int:
    """Remove results, all or none of them: nothing else, and nothing that is still written."""
    import shutil

    from p4fabric.netfile import run_folder

    from testbed.analysis.data.sweep_data import is_sweep
    from testbed.results import read
    from testbed.results.reader import by_age

    runs: dict[Path, list[Path]] = {}
    for folder in options.results:
        if folder.is_symlink():
            raise UserError(f"{folder} is a link; name the folder itself")
        if run_folder.is_run(folder):
            if run_folder.state(folder) == "running":
                raise UserError(f"{folder} is still running; end it first")
            runs[folder] = []
        else:
            runs[folder] = by_age(folder) if is_sweep(folder) else [read(folder).folder]
    for folder, inside in runs.items():
        if busy := [run for run in inside if read(run).state == "running"]:
            raise UserError(f"{folder}: {busy[0].name} is still running; end it first")
    for folder, inside in runs.items():
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise UserError(f"{folder} cannot be removed: {error.strerror}") from None
        runs_word = f" with {len(inside)} runs" if inside not in ([], [folder]) else ""
        print(f"removed: {folder}{runs_word}")
    return 0
