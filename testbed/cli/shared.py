"""Parts that several commands share: the parser, options, kinds of files, output.

It imports little, as do the modules of the commands: a command imports what it needs when it is
called, so that its help and errors of usage come at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from p4fabric.base import interrupts
from p4fabric.base.command_line import Parser as Parser
from p4fabric.base.errors import UserError
from p4fabric.base.linux.blas_threads import no_blas_threads

from testbed.paths import LATEST, command_line, default_results


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}; allowed: a whole number from 1")
    return int(text)


def factor(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= 100:
        raise argparse.ArgumentTypeError(f"found {text!r}; allowed: a number above 0 up to 100")
    return found


def picture_file(text: str, suffixes: tuple[str, ...] = (".pdf", ".png", ".svg")) -> Path:
    """The type of an option that names a picture to be written: what matplotlib cannot write is
    refused before anything runs."""
    path = Path(text)
    if path.suffix not in suffixes or not path.absolute().parent.is_dir():
        allowed = f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"
        raise argparse.ArgumentTypeError(
            f"{text}: name a file that ends in {allowed}, in an existing folder"
        )
    return path


def picture_files(text: str) -> Path:
    """The same, of a picture that is written as PNG and PDF."""
    return picture_file(text, (".pdf", ".png"))


def changes_argument(parser: Parser) -> None:
    """Add `changes`, after the file: other values for keys of the experiment."""
    parser.add_argument(
        "changes",
        nargs="*",
        metavar="KEY=VALUE",
        help="another value for a key of the file, such as system=atp memory.aggregators=64;"
        " KEY= removes it",
    )


def refuse_changes(options: argparse.Namespace, of: str) -> None:
    """Raises UserError if there are `changes`, where FILE is no experiment but `of`."""
    if options.changes:
        raise UserError(f"{options.changes[0]}: KEY=VALUE changes an experiment, not {of}")


def results_argument(
    parser: Parser, name: str, metavar: str, what: str, nargs: str | None = "?"
) -> None:
    """Add an argument that names results, or several with nargs="*". `latest`, which it is if it is
    left out, stands for the folder that changed last (`find_latest`)."""
    newest = Path(LATEST)
    parser.add_argument(
        name,
        type=Path,
        nargs=nargs,
        metavar=metavar,
        default=[newest] if nargs == "*" else newest,
        help=f"{what} (default: {LATEST}, the newest results)" if nargs in ("?", "*") else what,
    )
    parser.set_defaults(of_results=(*(parser.get_default("of_results") or ()), name))


def find_latest(options: argparse.Namespace) -> None:
    """Put the folder that is meant in the place of `latest`. Raises UserError if there is none."""
    from testbed.results.reader import latest

    given = None if "results" in options.of_results else getattr(options, "results", None)
    results = given or default_results()
    for name in options.of_results:
        named = getattr(options, name)
        several = named if isinstance(named, list) else [named]
        networks = getattr(options, "of_networks", False)
        found = [latest(each, results, networks) for each in several]
        setattr(options, name, found if several is named else found[0])


def results_option(parser: Parser) -> None:
    parser.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        default=default_results(),
        help="where results go (default: %(default)s)",
    )


def json_option(parser: argparse._ActionsContainer, what: str) -> None:
    parser.add_argument("--json", action="store_true", help=what)


def details_options(parser: Parser) -> None:
    parser.add_argument("--details", action="store_true", help="print all tables of a run")
    zeros_option(parser)


def zeros_option(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="all tables, with rows of zeros")


def shown(options: argparse.Namespace) -> str:
    """Extent of the printed report of a run (analysis/report.py)."""
    return "all" if options.all else "details" if options.details else "brief"


def no_report_option(parser: Parser) -> None:
    parser.add_argument(
        "--no-report",
        action="store_true",
        help="make neither figures nor report.html; `report` makes them later",
    )


def parallel_options(parser: Parser) -> None:
    """Add the options for the place where the points of a sweep run."""
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--processes", type=positive, metavar="N", help="points at one time (default: all cores)"
    )
    chosen.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="a Dask cluster's scheduler: tls://HOST:PORT or tcp://HOST:PORT",
    )
    chosen.add_argument(
        "--slurm",
        metavar="SETTINGS",
        help="SLURM jobs, one per point in virtual time: KEY=VALUE,..., such as"
        " partition=short,timeout_min=30",
    )


def run_option(parser: Parser) -> None:
    parser.add_argument(
        "--run", metavar="NAME", help="one of several runs: the beginning of its title, or its id"
    )


def working(text: str | Callable[[], str]) -> AbstractContextManager[None]:
    """A step of a command, named on standard error while it takes long (`p4fabric.base.steps`)."""
    from p4fabric.base.steps import step
    from rich.console import Console

    return step(Console(stderr=True), text)


def import_schemas(path: Path | None = None, numpy: bool = True) -> bool:
    """Import the schemas, for commands that read experiments or networks; that of networks only if
    `path` is one, or None. True if `path` is one. `numpy`: what they do with them needs it. Signals
    wait meanwhile: an interrupted import of pydantic panics in Rust, and an interrupted class of it
    is a RuntimeError."""
    with interrupts.postponed(), no_blas_threads():
        import testbed.experiment  # noqa: F401

        if numpy:
            import numpy as _  # noqa: F401
        network = path is not None and is_network(path)
        if network or path is None:
            import p4fabric.netfile.load_network  # noqa: F401
    return network


def is_network(path: str | Path) -> bool:
    """True if a file is a network file: it has the key `network`. To see that needs no schema,
    which takes long to import."""
    from p4fabric.base.config.yaml_document import read_yaml

    from testbed.experiment.load import read_file

    path = Path(path)
    if not path.is_file():
        return False
    try:
        data = read_yaml(read_file(path), str(path)).data
    except UserError:
        return False  # the reader of experiments reports what is wrong
    return isinstance(data, dict) and "network" in data


def is_results(path: Path) -> bool:
    """True if a path is a folder of results, or SWEEP/HASH, not a file."""
    from testbed.results import SWEEP_FILE

    return path.is_dir() or (path.parent / SWEEP_FILE).is_file() and not path.is_file()


def refuse_network(path: Path) -> None:
    if is_network(path):
        raise UserError(f"{path} is a network file; `{command_line('check FILE')}` checks it")


def print_json(data: object) -> None:
    import json

    print(json.dumps(data, indent=1, ensure_ascii=False))


def print_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table: columns that line up, nothing else, for people and for awk."""
    lines = [tuple(header), *rows]
    widths = [max(len(str(line[place])) for line in lines) for place in range(len(header))]
    for line in lines:
        cells = (str(cell).ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  " + "  ".join(cells).rstrip())
