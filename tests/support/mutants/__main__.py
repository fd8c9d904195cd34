"""See the package's docstring.

    python -m tests.support.mutants FILE... --results FOLDER [--sample N] [--seed S] [--again]

FILEs are P4 programs, protocols (testbed/protocols, testbed/workload), C files of the engine's
runtime, or other Python modules (campaign.OF_FOLDERS), of one kind at a time. A folder of modules
or of C stands for all its files together. With more than 200 changes in a file or folder, 200 are
drawn (`--sample`). A campaign ends after 20 minutes (`--minutes`), and with the same FOLDER goes on
where it was; with `--again`, survivors are run again, against what the tests are now.
`--only-score` prints what is there.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import warnings
from pathlib import Path

from tests.support.paths import ROOT

SAMPLE = 200
# Protocols run as plain Python, where a function can be changed. -O0: a mutant's program is
# compiled to be run for a second.
ENVIRONMENT = {
    "p4": {"P4ENGINE_CFLAGS": "-O0"},
    "plain": {"P4ENGINE_CFLAGS": "-O0", "NUMBA_DISABLE_JIT": "1"},
    "python": {"P4ENGINE_CFLAGS": "-O0"},
    "c": {"P4ENGINE_CFLAGS": "-O0"},
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.mutants")
    parser.add_argument("files", nargs="+", help="p4/..., testbed/protocols/..., a folder")
    parser.add_argument("--results", type=Path, default=Path("mutants"), help="a folder")
    parser.add_argument("--sample", type=int, default=SAMPLE, help="changes of each FILE")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="run survivors again")
    parser.add_argument("--most-s", type=float, default=5.0, help="tests that take longer: not run")
    parser.add_argument("--all-s", type=float, default=120.0, help="tests of one mutant, at most")
    parser.add_argument("--minutes", type=float, default=20.0, help="of the campaign, at most")
    parser.add_argument("--tests", nargs="*", help="instead of the usual ones")
    parser.add_argument("--only-score", action="store_true")
    options = parser.parse_args()
    kinds = set(map(kind_of, options.files))
    if len(kinds) > 1:
        parser.error("P4, protocols, C and other modules need campaigns of their own")
    kind = kinds.pop()
    if kind in ("plain", "python") and importlib.util.find_spec("coverage") is None:
        parser.error("the package coverage is missing: install the extra [fuzz], as ./test --all")
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT[kind].items()):
        command = [sys.executable, "-m", "tests.support.mutants", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **ENVIRONMENT[kind]})
    os.chdir(ROOT)
    return campaign(kind, options)


def kind_of(name: str) -> str:
    """The kind of campaign for a file."""
    if name.endswith(".p4"):
        return "p4"
    if name.endswith((".c", ".h", "/runtime")):
        return "c"
    return "plain" if name.startswith(("testbed/protocols", "testbed/workload")) else "python"


def sources(name: str) -> list[str]:
    """A file, or all files of a folder; those of Python that can be imported here."""
    ends = (".c", ".h") if kind_of(name) == "c" else (".py",)
    files = sorted(Path(name).iterdir()) if Path(name).is_dir() else []
    found = [str(path) for path in files if path.suffix in ends] or [name]
    return [file for file in found if not file.endswith(".py") or imported(file)]


def imported(file: str) -> bool:
    """Import a module. A test that imported it later, in its fork, would get the original."""
    name = file.removesuffix(".py").replace("/", ".")
    of_engine = name.partition(".src.")[2]
    try:
        importlib.import_module(of_engine or f"testbed.{name.removeprefix('testbed.')}")
    except ImportError as error:
        print(f"{file} is left out: {error}")
        return False
    return True


def campaign(kind: str, options: argparse.Namespace) -> int:
    import pytest

    from tests.support.mutants.campaign import Campaign, changes, tests_of
    from tests.support.mutants.change import sample
    from tests.support.mutants.score import HEAD, score

    try:
        tests = options.tests or tests_of(kind, options.files)
    except KeyError as error:
        print(f"there are no tests of {error}; take a folder of campaign.py, or a file there")
        return 2
    found = {file: [c for each in sources(file) for c in changes(each)] for file in options.files}
    chosen = {file: sample(each, options.sample, options.seed) for file, each in found.items()}
    run = Campaign(
        kind,
        [change for each in chosen.values() for change in each],
        options.results.resolve(),
        options.most_s,
        options.all_s,
        options.minutes,
        options.again,
        lambda text: print(text, flush=True),
    )
    status = 0
    if not options.only_score:
        # Wrapping integers, on which the protocols rely, are worth a warning to plain numpy.
        warnings.simplefilter("ignore", RuntimeWarning)
        arguments = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist"]
        status = pytest.main([*arguments, *tests], plugins=[run])
    rows, told = [], []
    for file, drawn in chosen.items():
        results = [run.done[run.key(c)] for c in drawn if run.key(c) in run.done]
        found_score, left = score(file, results, len(found[file]))
        rows.append(found_score.row())
        told += [f"{r.file}:{r.line} {r.kind}: {r.name}   ({r.by})" for r in left]
    print("\n".join([HEAD, *rows, "", "Survivors:", *(told or ["none"])]))
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
