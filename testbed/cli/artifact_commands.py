"""`ina pack` and `ina verify`: results as one file, and what of it agrees with a run here."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from testbed.analysis.report import console_of_tables
from testbed.analysis.tables.report_tables import compared_data
from testbed.artifacts import archive
from testbed.artifacts import pack as packing
from testbed.artifacts import verify as verifying
from testbed.errors import UserError
from testbed.results import ResultsError, checkout
from testbed.results.environment import version
from testbed.text_table import printed


def pack_command(what: Path, output: Path | None, results: Path, as_json: bool) -> int:
    """Pack a run, a sweep or a figure, and say what came of it."""
    made = packing.pack(what, output, results)
    if as_json:
        print(json.dumps(made, indent=1))
        return 0
    runs = f"{made['runs']} run{'s' if made['runs'] > 1 else ''}"
    print(f"written: {made['file']}: {runs} in {made['files']} files, {made['bytes']} bytes")
    print(f"content: {made['content']}")
    return 0


def verify_command(
    path: Path,
    results: Path,
    *,
    run: bool = True,
    processes: int | None = None,
    point: str | None = None,
    trusted: bool = False,
    as_json: bool = False,
) -> int:
    """Check an artifact, run it again, and say what agrees. Returns 1 if something does not."""
    console = Console(stderr=True) if as_json else console_of_tables()
    try:
        with verifying.opened(path) as (folder, manifest):
            name = Path(manifest["name"]).name
            if not archive.harmless(name) or name != manifest["name"]:
                raise UserError(f"{path} is no sound artifact: {manifest['name']!r} is no name")
            parent = results / f"verify-{name}"
            if not as_json:
                for line in origin(manifest):
                    console.print(line, soft_wrap=True, highlight=False, markup=False)
            if run:
                checked = verifying.verify(
                    folder, manifest, parent, console, processes, point, trusted
                )
            else:
                checked = verifying.unrun(manifest)
            found = []
            for each in checked:
                found.append(each)
                if not as_json:
                    _print(each, console)
    except ResultsError as error:
        raise UserError(f"{path} is no sound artifact: {error}") from None
    good = [each for each in found if each.outcome in verifying.GOOD]
    if as_json:
        described = {
            "file": str(path),
            "content": manifest["content"],
            "made": {key: manifest.get(key) for key in ("testbed", "commit", "dirty")},
            "here": {"testbed": version(), **checkout()},
            "agrees": len(good) == len(found),
            "runs": [_data(each) for each in found],
        }
        print(json.dumps(described, indent=1))
    else:
        what = "agree" if run else "are whole"
        print(f"{len(good)} of {len(found)} runs {what}")
    return 0 if len(good) == len(found) else 1


def origin(manifest: dict[str, Any]) -> list[str]:
    """What made an artifact, and what runs it here."""
    here = checkout()
    made = f"made by version {manifest['testbed']}, {_code(manifest)}"
    return [
        f"{manifest['kind']} {manifest['name']}: {made}",
        f"content: {manifest['content']}, every file is as it was packed",
        f"here: version {version()}, {_code(here)}",
    ]


def _code(of: dict[str, Any]) -> str:
    commit = of.get("commit")
    if not commit:
        return "commit not known"
    return f"commit {str(commit)[:12]}{' with changes' if of.get('dirty') else ''}"


def _print(checked: verifying.Checked, console: Console) -> None:
    line = f"{checked.label}: {checked.outcome}"
    if checked.tables:
        line += f" in {', '.join(checked.tables)}"
    line += f": {checked.why}" if checked.why else ""
    console.print(line, soft_wrap=True, highlight=False, markup=False)
    if checked.measures is not None:
        console.print(printed(checked.measures))


def _data(checked: verifying.Checked) -> dict[str, Any]:
    measures = checked.measures
    found = dataclasses.asdict(dataclasses.replace(checked, measures=None))
    return found | {"measures": None if measures is None else compared_data(measures)}
