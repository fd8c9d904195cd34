"""`ina pack`: a run, a sweep or a figure's sweep as one file.

Beside what the results folders hold (without logs and captures), it has the files that the
experiments name: P4 programs, traces, graphs, topologies, programs of jobs. In an experiment they
are absolute paths of this machine; `inputs` says which member each is.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any

from testbed.analysis.data.sweep_data import is_sweep, read_sweep, run_at
from testbed.artifacts import archive
from testbed.config.data_files import read_yaml
from testbed.errors import UserError
from testbed.paths import command_line
from testbed.results import SWEEP_FILE, Results, checkout, digest, hand_over
from testbed.results.environment import version
from testbed.results.schema import FORMAT as RESULTS_FORMAT
from testbed.traffic.chakra import FIRST, files_of

KEPT = ("status.json", "experiment.yaml", "environment.json", "report.txt", "report.html")
KEPT_FOLDERS = ("tables", "figures")
OF_SWEEP = (SWEEP_FILE, "data.csv", "report.txt", "report.html")
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


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
    data = read_yaml(run.folder / "experiment.yaml")
    inputs: dict[str, str] = {}
    folders: dict[Path, str] = {}  # those of this machine, each by a number
    for file in sorted(set(named_files(data))):
        folder = folders.setdefault(file.parent, f"{place}/inputs/{len(folders)}")
        for each in _with_includes(file):
            members[f"{folder}/{each.name}"] = each
        inputs[str(file)] = f"{folder}/{file.name}"
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
        "code": runs_code(data),
    }


def _below(folder: Path, place: str) -> Mapping[str, Path]:
    if not folder.is_dir():
        return {}
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    return {f"{place}/{path.name}": path for path in files if not path.name.startswith(".")}


def named_files(data: Any) -> Iterator[Path]:
    """The files that a resolved experiment names: every text in it that is, or begins with, the
    absolute path of a file."""
    if isinstance(data, dict):
        for value in data.values():
            yield from named_files(value)
    elif isinstance(data, list):
        for value in data:
            yield from named_files(value)
    elif isinstance(data, str) and (path := path_in(data)) is not None:
        yield path


def runs_code(data: Any) -> bool:
    """True if an experiment runs programs of its user: a topology's class, or a job's command. It
    may be any data; a key of these names counts wherever it is."""
    if isinstance(data, dict):
        return any(key in ("class", "command") or runs_code(each) for key, each in data.items())
    return isinstance(data, list) and any(runs_code(each) for each in data)


def path_in(text: str) -> Path | None:
    """The file of this machine that a text names."""
    for word in _words(text):
        if word.startswith("/") and "\n" not in word and len(word) < 4096 and Path(word).is_file():
            return Path(word)
    return None


def path_in_text(text: str, known: Container[str]) -> str | None:
    """The one of some known paths that a text names."""
    return next((word for word in _words(text) if word in known), None)


def _words(text: str) -> tuple[str, str, str]:
    """The places of a path in a text: alone, before `:CLASS`, or first on a command line."""
    return text, text.rpartition(":")[0], text.split(" ")[0]


def _with_includes(file: Path) -> list[Path]:
    """A file, and the files beside it that a P4 program includes, or that belong to the trace of a
    program's first rank."""
    if file.name.endswith(FIRST):
        return files_of(file)
    found = [file]
    for each in found:
        if each.suffix not in (".p4", ".h"):
            continue
        text = each.read_text(encoding="utf-8", errors="replace")
        for name in _INCLUDE.findall(text):
            beside = each.parent / name
            if "/" not in name and beside.is_file() and beside not in found:
                found.append(beside)
    return found
