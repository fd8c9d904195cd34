"""`ina verify`: run an artifact's experiments again, and say what agrees.

In virtual time a run depends on nothing but its experiment and the code, so every value must be the
same, bit by bit. On Mininet, processes wait for processors, so measures agree within limits: those
of `twin`.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from p4fabric.base.config.problems import ExperimentError
from p4fabric.base.config.yaml_document import read_yaml, write_yaml
from p4fabric.base.errors import RunError, UserError
from rich.console import Console

from testbed.analysis.data.run_summary import summary
from testbed.analysis.tables import report_tables as tables
from testbed.artifacts import archive
from testbed.artifacts.pack import runs_code
from testbed.experiment import Experiment, load_text
from testbed.experiment.inputs import PLUG_IN, changes, recorded, with_texts
from testbed.experiment.load import read_file
from testbed.results import TABLES, Results, ResultsError, digest, find, read, table_digest
from testbed.results.reader import bytes_of_tables
from testbed.runner import VIRTUAL, carry_out
from testbed.sweeps.point_pool import executor, run_points

CONTENT = "as packed"
SAME, DIFFERENT = "bit by bit", "different"
WITHIN, BEYOND = "within limits", "beyond limits"
FAILED = "failed"
GOOD = (CONTENT, SAME, WITHIN)


@dataclass
class Checked:
    """The outcome of verifying one run of an artifact. outcome: CONTENT (it was not run again),
    SAME, DIFFERENT, WITHIN, BEYOND or FAILED; `tables`: those that differ, by name; `measures`: the
    table of measures of a run on Mininet; `run`: the new results folder."""

    label: str
    runtime: str
    outcome: str
    why: str = ""
    tables: list[str] = field(default_factory=list)
    measures: Any = None
    run: str | None = None


class Rerun(NamedTuple):
    """One run of an artifact, to be run again; as testbed.sweeps.point_pool takes points."""

    key: str
    label: str
    experiment: Experiment
    packed: Results


@contextlib.contextmanager
def opened(path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """An artifact's folder while it is looked at, and its manifest. Raises UserError for a file
    that is no sound artifact, or whose tables do not have the hashes that its manifest says."""
    with tempfile.TemporaryDirectory(prefix="ina-verify-") as made:
        folder = Path(made)
        manifest = archive.unpack(path, folder)
        for each in manifest["runs"]:
            _described(path, each, folder)
            needed = bytes_of_tables(folder / each["folder"])
            if needed > archive.MAX_BYTES:
                raise UserError(
                    f"{path} is no sound artifact: the tables of {each['folder']} need"
                    f" {needed >> 20} MiB of memory; at most {archive.MAX_BYTES >> 20} are read"
                )
            results = read(folder / each["folder"])
            if digest(results) != each["digest"]:
                raise UserError(f"{path}: {each['folder']}: its tables have another digest")
        yield folder, manifest


def _described(path: Path, run: Any, folder: Path) -> None:
    """Check a manifest's description of a run."""
    kinds = {"folder": str, "name": str, "digest": str, "inputs": dict}
    if not isinstance(run, dict) or not all(isinstance(run.get(k), t) for k, t in kinds.items()):
        raise UserError(f"{path} is no sound artifact: its manifest does not describe a run")
    for name in (run["folder"], *run["inputs"].values()):
        if not isinstance(name, str) or not archive.harmless(name):
            raise UserError(f"{path} is no sound artifact: {name!r} is not in it")
    for name in run["inputs"].values():
        if not (folder / PurePosixPath(name)).is_file():
            raise UserError(f"{path} is no sound artifact: {name} is missing")
    if not (folder / run["folder"] / "experiment.yaml").is_file():
        raise UserError(f"{path} is no sound artifact: {run['folder']} has no experiment.yaml")


def verify(
    folder: Path,
    manifest: dict[str, Any],
    results: Path,
    console: Console,
    processes: int | None = None,
    only: str | None = None,
    trusted: bool = False,
) -> Iterator[Checked]:
    """Run the runs of an opened artifact again, below `results`; gives what came of each, those in
    virtual time first. only: the point whose hash begins so. trusted: also what runs Python
    code of the artifact. Raises UserError before anything is run."""
    runs = [each for each in manifest["runs"] if str(each.get("point", "")).startswith(only or "")]
    if not runs:
        raise UserError(f"no point of this artifact has a hash that begins with {only}")
    documents = [_document(folder, each) for each in runs]
    if not trusted and any(map(runs_code, documents)):
        raise UserError(
            "its experiments run programs that are in the file (a topology's class, or a job's"
            " command). If you trust who made it, give --trust"
        )
    reruns = [_rerun(folder, *each) for each in zip(runs, documents, strict=True)]
    virtual = [each for each in reruns if each.experiment.runtime == VIRTUAL]
    for rerun, error in _run_virtual(virtual, results, console, processes):
        yield _same(rerun, results, error)
    for rerun in reruns:
        if rerun.experiment.runtime != VIRTUAL:
            yield _alike(rerun, results, console)


def _document(folder: Path, run: dict[str, Any]) -> Any:
    """The data of a run's experiment, which may be anything. Raises UserError."""
    document = read_yaml(read_file(folder / run["folder"] / "experiment.yaml"), _named(run))
    if document.problems:
        raise ExperimentError(_named(run), document.problems)
    return document.data


def _named(run: dict[str, Any]) -> str:
    return f"{run['folder']}/experiment.yaml"


def _rerun(folder: Path, run: dict[str, Any], data: Any) -> Rerun:
    """A run of an artifact, with its experiment as it is here."""
    place = folder / run["folder"]
    here = {there: str(folder / PurePosixPath(name)) for there, name in run["inputs"].items()}
    # Nothing else of another machine is named: a file that is not among the inputs must be part of
    # the testbed, or is an error when it is loaded.
    text = write_yaml(with_texts(data, here))
    packed = read(place)
    _require_plug_ins(run, packed)
    label = str(run.get("label") or run["name"])
    key = str(run.get("point") or "run")
    if not archive.harmless(key) or "/" in key:
        raise UserError(f"{key!r} is no point's hash")
    experiment = load_text(text, file=_named(run), folder=place)
    return Rerun(key, label, experiment, packed)


def _require_plug_ins(run: dict[str, Any], packed: Results) -> None:
    """Raise UserError that names a package that a run of an artifact needs and that is not here."""
    for each in recorded(packed.environment) or ():
        if each.role != PLUG_IN:
            continue
        try:
            metadata.version(each.name)
        except (metadata.PackageNotFoundError, ValueError):
            raise UserError(
                f"{run['folder']}: it was made with a plug-in of the package {each.name}"
                f" {each.version}, which is not installed here; install it, then verify again"
            ) from None


def _run_virtual(
    reruns: Sequence[Rerun], results: Path, console: Console, processes: int | None
) -> Iterator[tuple[Rerun, str]]:
    if not reruns:
        return
    if len(reruns) == 1:
        # In this process: it shows how far it is.
        try:
            carry_out(reruns[0].experiment, results / reruns[0].key, (), console)
            yield reruns[0], ""
        except RunError as error:
            yield reruns[0], str(error)
        return
    ended: dict[str, str] = {}
    waiting = list(reruns)
    with executor(processes) as pool:
        for each, outcome in run_points(pool, reruns, results):
            ended[each.key] = outcome.error
            while waiting and waiting[0].key in ended:  # in the order of the artifact
                yield (first := waiting.pop(0)), ended[first.key]


def _same(rerun: Rerun, results: Path, error: str) -> Checked:
    """Compare a run in virtual time with the packed one, value by value."""
    checked = Checked(rerun.label, VIRTUAL, FAILED, error)
    if error:
        return checked
    again = read(find(results / rerun.key)[-1])
    checked.run = str(again.folder)
    if digest(again) == digest(rerun.packed):
        checked.outcome = SAME
        return checked
    checked.outcome = DIFFERENT
    was = recorded(rerun.packed.environment)
    if names := changes(was, rerun.experiment.inputs) if was is not None else []:
        checked.why = f"other ones here: {', '.join(names)}"
    checked.tables = [
        name for name in TABLES if table_digest(again, name) != table_digest(rerun.packed, name)
    ]
    return checked


def _alike(rerun: Rerun, results: Path, console: Console) -> Checked:
    """Compare a run on Mininet with the packed one, within limits."""
    checked = Checked(rerun.label, rerun.experiment.runtime, FAILED)
    try:
        folder = carry_out(rerun.experiment, results / rerun.key, (), console)
        again = read(folder)
    except (RunError, ResultsError) as error:
        checked.why = str(error)
        return checked
    checked.run = str(folder)
    pair = [rerun.packed, again]
    checked.measures = tables.repeated(pair, [summary(each) for each in pair])
    beyond = tables.beyond_limits(checked.measures)
    checked.outcome = BEYOND if beyond else WITHIN
    named = zip(("packed", "here"), pair, strict=True)
    checked.why = "; ".join(f"{where}: {each.notice}" for where, each in named if each.notice)
    return checked


def unrun(manifest: dict[str, Any]) -> Iterator[Checked]:
    """The runs of an opened artifact, which are as they were packed."""
    for each in manifest["runs"]:
        yield Checked(str(each.get("label") or each["name"]), str(each.get("runtime")), CONTENT)
