"""`ina pack`: results as one file; and `ina verify`: run what such a file holds again, and say what
agrees; with --laws, hold a run's numbers against each other instead."""

from __future__ import annotations

import contextlib
import dataclasses
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from p4fabric.base.errors import UserError

from testbed.cli.shared import (
    Parser,
    import_schemas,
    json_option,
    positive,
    print_json,
    results_argument,
    results_option,
    working,
)

if TYPE_CHECKING:
    from p4fabric.netfile.law import Verdict
    from rich.console import Console

    from testbed.artifacts.verify import Checked

MOST_LINES = 5  # of a law's violations


def pack_arguments(parser: Parser) -> None:
    what = "a folder of results, SWEEP/HASH, or the name of a figure that has been run"
    results_argument(parser, "what", "RUN|SWEEP|FIGURE", what)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the file to write")
    json_option(parser, "print what was packed as JSON")
    results_option(parser)


def pack(options: Namespace) -> int:
    import_schemas()
    from testbed.artifacts.pack import pack

    with working(f"packing {options.what}"):
        made = pack(options.what, options.output, options.results)
    if options.json:
        print_json(made)
        return 0
    runs = f"{made['runs']} run{'s' if made['runs'] > 1 else ''}"
    print(f"written: {made['file']}: {runs} in {made['files']} files, {made['bytes']} bytes")
    print(f"content: {made['content']}")
    return 0


def verify_arguments(parser: Parser) -> None:
    what = "a file that `pack` wrote; with --laws, a results folder, or SWEEP/HASH for a point"
    results_argument(parser, "file", "FILE", what, None)
    parser.add_argument(
        "--laws",
        action="store_true",
        help="hold the numbers of a run against what must be between them, and run nothing",
    )
    parser.add_argument("--no-run", action="store_true", help="check the file, and run nothing")
    parser.add_argument("--point", metavar="HASH", help="only this point of a sweep")
    parser.add_argument(
        "--trust", action="store_true", help="run the Python code that is in the file, too"
    )
    parser.add_argument(
        "--processes", type=positive, metavar="N", help="points at one time (default: all cores)"
    )
    json_option(parser, "print the outcome as JSON")
    results_option(parser)


def verify(options: Namespace) -> int:
    if options.laws:
        return _laws(options)
    import_schemas()
    from rich.console import Console

    from testbed.analysis.report import console_of_tables
    from testbed.artifacts import archive
    from testbed.artifacts import verify as verifying
    from testbed.results import ResultsError, checkout
    from testbed.results.environment import version

    path = options.file
    console = Console(stderr=True) if options.json else console_of_tables()
    try:
        with contextlib.ExitStack() as stack:
            with working(f"reading {path}"):
                folder, manifest = stack.enter_context(verifying.opened(path))
            name = Path(manifest["name"]).name
            if not archive.harmless(name) or name != manifest["name"]:
                raise UserError(f"{path} is no sound artifact: {manifest['name']!r} is no name")
            parent = options.results / f"verify-{name}"
            if not options.json:
                for line in origin(manifest):
                    console.print(line, soft_wrap=True, highlight=False, markup=False)
            if not options.no_run:
                checked = verifying.verify(
                    folder,
                    manifest,
                    parent,
                    console,
                    options.processes,
                    options.point,
                    options.trust,
                )
            else:
                checked = verifying.unrun(manifest)
            found = []
            for each in checked:
                found.append(each)
                if not options.json:
                    _print(each, console)
    except ResultsError as error:
        raise UserError(f"{path} is no sound artifact: {error}") from None
    good = [each for each in found if each.outcome in verifying.GOOD]
    if options.json:
        described = {
            "file": str(path),
            "content": manifest["content"],
            "made": {key: manifest.get(key) for key in ("testbed", "commit", "dirty")},
            "here": {"testbed": version(), **checkout()},
            "agrees": len(good) == len(found),
            "runs": [_data(each) for each in found],
        }
        print_json(described)
    else:
        what = "are whole" if options.no_run else "agree"
        print(f"{len(good)} of {len(found)} runs {what}")
    return 0 if len(good) == len(found) else 1


def _laws(options: Namespace) -> int:
    """Say which laws a run keeps; returns 1 where it breaks one. Raises UserError."""
    path = options.file
    for name in ("no_run", "point", "trust", "processes"):
        if vars(options)[name]:
            raise UserError(f"--{name.replace('_', '-')}: --laws runs nothing; leave it out")
    with working(f"reading {path}"):
        verdicts = _verdicts(path)
    bad = sum(bool(each.violations) for each in verdicts)
    if options.json:
        print_json({"run": str(path), "holds": not bad, "laws": [_law_data(v) for v in verdicts]})
        return 1 if bad else 0
    for each in verdicts:
        if each.exempt:
            print(f"not applicable  {each.law.name}: {each.exempt}")
        elif not each.violations:
            print(f"holds           {each.law.name}: {each.law.states} ({each.compared} compared)")
        else:
            many = len(each.violations)
            print(f"BROKEN          {each.law.name}: {each.law.states} ({many} of {each.compared})")
            print(f"                {each.law.formula}")
            for line in each.violations[:MOST_LINES]:
                print(f"                {line}")
            if many > MOST_LINES:
                print(f"                and {many - MOST_LINES} more (--json has all)")
    held = sum(not each.violations and not each.exempt for each in verdicts)
    print(f"{held} of {held + bad} laws hold, {len(verdicts) - held - bad} do not apply")
    return 1 if bad else 0


def _verdicts(path: Path) -> list[Verdict]:
    """Of a run's folder, or that of a network file's run in virtual time."""
    from p4fabric.netfile.network_laws import of_network

    from testbed.analysis import laws
    from testbed.analysis.data.sweep_data import run_at
    from testbed.results import SWEEP_FILE, ResultsError

    if (path / "network.yaml").is_file():
        tables, drained = laws.read_network(path)
        try:
            return of_network(tables, drained)
        except (AttributeError, KeyError, TypeError) as error:
            raise ResultsError(f"{path}: its tables are damaged ({error!r})") from None
    if (path / SWEEP_FILE).is_file():
        raise ResultsError(f"{path} is the folder of a sweep; name a point of it: {path}/HASH")
    if path.is_file():
        raise ResultsError(f"{path} is a file; --laws takes a results folder")
    return laws.of_run(run_at(path))


def _law_data(verdict: Verdict) -> dict[str, object]:
    law = verdict.law
    return {
        "name": law.name,
        "states": law.states,
        "formula": law.formula,
        "compared": verdict.compared,
        "violations": list(verdict.violations),
        "not_applicable": verdict.exempt or None,
    }


def origin(manifest: dict[str, Any]) -> list[str]:
    """Text about an artifact: its maker, its content, and the version that runs it here."""
    from testbed.results import checkout
    from testbed.results.environment import version

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


def _print(checked: Checked, console: Console) -> None:
    from p4fabric.base.text_table import printed

    line = f"{checked.label}: {checked.outcome}"
    if checked.tables:
        line += f" in {', '.join(checked.tables)}"
    line += f": {checked.why}" if checked.why else ""
    console.print(line, soft_wrap=True, highlight=False, markup=False)
    if checked.measures is not None:
        console.print(printed(checked.measures))


def _data(checked: Checked) -> dict[str, object]:
    from testbed.analysis.tables.report_tables import compared_data

    measures = checked.measures
    found = dataclasses.asdict(dataclasses.replace(checked, measures=None))
    return found | {"measures": None if measures is None else compared_data(measures)}
