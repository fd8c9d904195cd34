"""See the package's docstring."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.broken_files.campaign import run, told
from tests.support.broken_files.corpus import chosen, keep, kept
from tests.support.broken_files.readers import READERS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.broken_files")
    parser.add_argument("count", type=int, help="files for each reader", nargs="?", default=1500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader", nargs="*", choices=[*READERS], default=[*READERS])
    parser.add_argument("--keep", type=Path, default=Path("broken-files"), help="failed ones")
    parser.add_argument("--guided", action="store_true", help="by coverage (needs atheris)")
    parser.add_argument("--corpus", type=Path, help="what --guided starts from and adds to")
    parser.add_argument("--gather", action="store_true", help="keep the best of --corpus for tests")
    options = parser.parse_args()
    if options.gather:
        if not options.corpus:
            parser.error("--gather needs --corpus")
        gather(options.corpus, options.reader)
        return 0
    failed = 0
    for name in options.reader:
        with tempfile.TemporaryDirectory(prefix="broken-files-") as folder:
            campaign = by_coverage if options.guided else at_random
            failed += campaign(name, options, Path(folder))
    return 1 if failed else 0


def at_random(name: str, options: argparse.Namespace, folder: Path) -> bool:
    """True if a file has failed."""
    outcome = run(name, options.count, options.seed, folder, options.keep)
    print(f"{name}: {told(outcome.ends)}", flush=True)
    for path, what in outcome.failures:
        print(f"  {path}: {what.strip().splitlines()[-1][:300]}")
    return bool(outcome.failures)


def by_coverage(name: str, options: argparse.Namespace, folder: Path) -> bool:
    """True if a file has failed, or the process has ended otherwise."""
    corpus = options.corpus / name if options.corpus else folder / "corpus"
    words = [name, options.count, options.seed, corpus, options.keep.resolve(), folder / "work"]
    (folder / "work").mkdir()
    command = [sys.executable, "-m", "tests.support.broken_files.guided", *map(str, words)]
    with (folder / "said").open("wb") as errors:
        code = subprocess.run(command, stderr=errors).returncode
    if code not in (0, 1):
        print(f"{name}: exit code {code}\n{(folder / 'said').read_text()[-3000:]}")
    return code != 0


def gather(corpus: Path, names: list[str]) -> None:
    """Choose from what is kept and from a corpus, for the readers `names`, and keep that."""
    best = {name: kept(name) for name in READERS}
    for name in names:
        found = corpus / name
        inputs = [path.read_bytes() for path in sorted(found.iterdir())] if found.is_dir() else []
        with tempfile.TemporaryDirectory(prefix="broken-files-") as folder:
            best[name] = chosen(name, kept(name) + inputs, Path(folder))
        print(f"{name}: {len(best[name])} of {len(inputs)}", flush=True)
    keep(best)


if __name__ == "__main__":
    sys.exit(main())
