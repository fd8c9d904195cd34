"""`ina pack`: a run, a sweep or a figure's sweep as one file.

Beside what the results folders hold (without logs and captures), it has the files that the
experiments name: P4 programs, traces, graphs, topologies, programs of jobs, each with what it
includes or imports. In an experiment they are absolute paths of this machine; `inputs` says which
member each is. They must be as the run has read them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from p4fabric.base.config.data_files import read_text, read_yaml
from p4fabric.base.errors import UserError

from testbed.analysis.data.sweep_data import is_sweep, read_sweep, run_at
from testbed.artifacts import archive
from testbed.experiment import load_text
from testbed.experiment.inputs import require_same, sources_of
from testbed.paths import P4, command_line
from testbed.results import SWEEP_FILE, Results, checkout, digest, hand_over
from testbed.results.environment import version
from testbed.results.schema import FORMAT as RESULTS_FORMAT

KEPT = ("status.json", "experiment.yaml", "environment.json", "report.txt", "report.html")
KEPT_FOLDERS = ("tables", "figures")
OF_SWEEP = (SWEEP_FILE, "data.csv", "report.txt", "report.html")


def pack(what: Path, output: Path | None, results: Path) -> dict[str, Any]:
    """Write the artifact of a run's folder, of SWEEP/HASH, of a sweep's folder, or of the figure of
    that name below `results`; returns {"file", "name", "kind", "runs", "files", "bytes",
    "content"}. output: the file; None: named after what is packed, in the current folder. Raises
    UserError."""
    found = _found(what, results)
    packed = _sweep(found) if is_sweep(found) else _run(run_at(found))
    path = output or Path(f"{packed['name']}{archive.SUFFIX}")
    if path.exists():
        raise UserError(f"{path} is there already: remove it, or name another with -o")
    if not path.absolute().parent.is_dir():
        raise UserError(f"{path}: there is no folder {path.absolute().parent}: make it first")
    files = packed.pop("members")
    bad = [name for name in files if not archive.harmless(name)]
    if bad:
        raise UserError(f"{files[bad[0]]} can't be packed: rename it, with letters and digits")
    manifest = {
        "format": archive.FORMAT,
        "results_format": RESULTS_FORMAT,
        "testbed": version(),
        **checkout(),
        **packed,
    }
    written = archive.write(path, manifest, files)
    hand_over(path)
    return {
        "file": str(path),
        "name": packed["name"],
        "kind": packed["kind"],
        "runs": len(packed["runs"]),
        "files": len(files),
        "bytes": path.stat().st_size,
        "content": written["content"],
    }


def _found(what: Path, results: Path) -> Path:
    """The folder of the results to be packed."""
    if what.exists() or is_sweep(what.parent):
        return what
    if what.name == str(what):
        if is_sweep(results / what):
            return results / what
        from testbed.sweeps.figures import names

        if what.name in names():
            first = command_line(f"figure {what}")
            raise UserError(f"{results / what}: the figure has not been run; `{first}` runs it")
    return what  # whose error says what is wrong


def _run(run: Results) -> dict[str, Any]:
    members: dict[str, Path] = {}
    described = _add_run(run, "run", members)
    return {"kind": "run", "name": run.folder.name, "runs": [described], "members": members}


def _sweep(folder: Path) -> dict[str, Any]:
    """All points: of each the newest finished run."""
    sweep = read_sweep(folder)
    open_points = [point for point in sweep.points if not point.finished]
    if open_points:
        raise UserError(
            f"{folder}: {len(open_points)} of {len(sweep.points)} points have not finished; an"
            " artifact has all of them. The command that ran the sweep runs these"
        )
    members = {name: folder / name for name in OF_SWEEP if (folder / name).is_file()}
    members |= _below(folder / "figures", "figures")
    runs = []
    for point in sweep.points:
        assert point.results is not None, "it has finished"
        values = ", ".join(f"{key}={value.text}" for key, value in point.values.items())
        described = _add_run(point.results, f"{point.key}/{point.results.folder.name}", members)
        runs.append({**described, "point": point.key, "label": values})
    return {"kind": "sweep", "name": sweep.name, "runs": runs, "members": members}


def _add_run(run: Results, place: str, members: dict[str, Path]) -> dict[str, Any]:
    """The manifest's entry for a run; its files become members below `place`."""
    if not run.finished:
        raise UserError(f"{run.folder}: {run.notice}; only a finished run can be packed")
    members |= {f"{place}/{n}": run.folder / n for n in KEPT if (run.folder / n).is_file()}
    for name in KEPT_FOLDERS:
        members |= _below(run.folder / name, f"{place}/{name}")
    file = run.folder / "experiment.yaml"
    experiment = load_text(read_text(file), file=str(file), folder=run.folder)
    needs = "an artifact has a run together with what it has read"
    if warning := require_same(run, experiment, needs):
        print(f"warning: {warning}", file=sys.stderr)
    inputs: dict[str, str] = {}
    folders: dict[Path, str] = {}  # those of this machine, each by a number
    for source in sources_of(experiment):
        if source.named:
            top = _top(source.files)
            folder = folders.setdefault(top, f"{place}/inputs/{len(folders)}")
            packed = [each for each in source.files if each.is_relative_to(top)]
            names = [f"{folder}/{each.relative_to(top).as_posix()}" for each in packed]
            members |= zip(names, packed, strict=True)
            inputs[source.named] = names[0]
    return {
        "folder": place,
        "name": run.name,
        "runtime": run.environment.get("runtime"),
        "switch": run.environment.get("switch"),
        "commit": run.environment.get("commit"),
        "dirty": run.environment.get("dirty"),
        "fidelity": run.fidelity,
        "digest": digest(run),
        "inputs": inputs,
        "code": runs_code(read_yaml(file)),
    }


def _below(folder: Path, place: str) -> Mapping[str, Path]:
    if not folder.is_dir():
        return {}
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    return {f"{place}/{path.name}": path for path in files if not path.name.startswith(".")}


def _top(files: Sequence[Path]) -> Path:
    """The folder below which all files are that belong to the first one, so that they find each
    other; without those that come with the testbed, which are everywhere."""
    first = files[0]
    own = [each for each in files if first.is_relative_to(P4) or not each.is_relative_to(P4)]
    return Path(os.path.commonpath([each.parent for each in own]))


def runs_code(data: object) -> bool:
    """True if an experiment runs programs of its user: a topology's class, or a job's command. It
    may be any data; a key of these names counts wherever it is."""
    if isinstance(data, dict):
        return any(key in ("class", "command") or runs_code(each) for key, each in data.items())
    return isinstance(data, list) and any(runs_code(each) for each in data)
