"""`ina ls`: the runs and sweeps in a folder of results, the newest one last."""

from __future__ import annotations

from argparse import Namespace
from datetime import datetime
from pathlib import Path
from typing import Any

from testbed.cli.shared import Parser, json_option, print_columns, print_json, working
from testbed.errors import UserError
from testbed.paths import default_results

SHOWN = 20


def arguments(parser: Parser) -> None:
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


def call(options: Namespace) -> int:
    if options.last < 0:
        raise UserError(f"--last: found {options.last}; allowed: a whole number from 0")
    folder = options.folder
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; results go to where --results says")
    listed = sorted(_entries(folder), key=lambda each: each[0])
    if options.tag is not None:
        from testbed.results.tags import tags_of

        listed = [each for each in listed if options.tag in tags_of(each[1])]
    kept = listed[-options.last :] if options.last else listed
    described: list[dict[str, Any]] = []
    with working(lambda: f"reading results: {len(described)} of {len(kept)}"):
        for _, path in kept:
            described.append(_described(path, folder))
    if options.json:
        print_json(described)
        return 0
    if not described:
        with_tag = "" if options.tag is None else f" with the tag {options.tag}"
        print(f"{folder} has no results{with_tag}")
        return 0
    from testbed import units

    times = [each["jct_s"] and 1e9 * each["jct_s"] for each in described]
    time = units.time.common(times)
    rows = [
        (
            each["name"],
            each["state"] + (", degraded" if each["fidelity"] == "degraded" else ""),
            each["system"] or "-",
            time(jct_ns),
            each["started"].replace("T", " ")[:16],
            " ".join(each["tags"]),
        )
        for each, jct_ns in zip(described, times, strict=True)
    ]
    print_columns(("name", "state", "system", "average JCT", "started", "tags"), rows)
    if len(kept) < len(listed):
        print(f"  and {len(listed) - len(kept)} older ones (--last 0: all)")
    return 0


def _entries(folder: Path) -> list[tuple[float, Path]]:
    """(time of the last change, folder) of the runs and sweeps that lie in a folder."""
    from testbed.results import SWEEP_FILE, find

    inside = sorted(each for each in folder.iterdir() if each.is_dir())
    if (folder / SWEEP_FILE).is_file():
        runs = [run for point in inside for run in find(point)]
        return [((run / "status.json").stat().st_mtime, run) for run in runs]
    found = [((run / "status.json").stat().st_mtime, run) for run in find(folder)]
    for each in inside:
        if (each / SWEEP_FILE).is_file():
            times = [path.stat().st_mtime for path in each.glob("*/*/status.json")]
            found.append((max(times, default=(each / SWEEP_FILE).stat().st_mtime), each))
    return found


def _described(path: Path, folder: Path) -> dict[str, Any]:
    """name, kind (run or sweep), state, fidelity, system, jct_s (the average over jobs and
    repetitions), started (local time), tags; None where nobody knows."""
    from testbed.results import SWEEP_FILE
    from testbed.results.tags import tags_of

    name = str(path.relative_to(folder))
    about = {"name": name, "tags": tags_of(path)}
    return about | (_of_sweep(path) if (path / SWEEP_FILE).is_file() else _of_run(path))


def _of_run(path: Path) -> dict[str, Any]:
    from testbed.results import ResultsError, read

    try:
        results = read(path)
        jct = results.jobs["jct_ns"].astype("float64").mean() / 1e9
        system = results.experiment.get("system")
    except ResultsError:
        return _about("run", "unreadable", (path / "status.json").stat().st_mtime)
    if isinstance(system, dict):
        system = system.get("name")
    started = datetime.fromisoformat(results.started_utc).timestamp()
    known = float(jct) if jct == jct else None
    return _about("run", results.state, started, results.fidelity, system, known)


def _of_sweep(path: Path) -> dict[str, Any]:
    from testbed.config.data_files import DataError, read_json
    from testbed.results import SWEEP_FILE

    changed = (path / SWEEP_FILE).stat().st_mtime
    try:
        described = read_json(path / SWEEP_FILE)
        points = described["points"]
        systems = ", ".join(dict.fromkeys(str(point["system"]) for point in points))
        keys = [str(point["key"]) for point in points]
    except (DataError, KeyError, TypeError):
        return _about("sweep", "unreadable", changed)
    started = [each.stat().st_mtime for key in keys for each in path.glob(f"{key}/*/status.json")]
    finished = sum(any(path.glob(f"{key}/*/tables/jobs.parquet")) for key in keys)
    state = f"{finished} of {len(keys)} points"
    return _about("sweep", state, min(started, default=changed), None, systems)


def _about(
    kind: str,
    state: str,
    started: float,
    fidelity: str | None = None,
    system: str | None = None,
    jct_s: float | None = None,
) -> dict[str, Any]:
    return {
        "kind": kind,
        "state": state,
        "fidelity": fidelity,
        "system": system,
        "jct_s": jct_s,
        "started": datetime.fromtimestamp(started).isoformat(timespec="seconds"),
    }
