"""See the package's docstring."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.support.broken_files.campaign import run
from tests.support.broken_files.readers import READERS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.broken_files")
    parser.add_argument("count", type=int, help="files for each reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader", nargs="*", choices=[*READERS], default=[*READERS])
    parser.add_argument("--keep", type=Path, default=Path("broken-files"), help="failed ones")
    options = parser.parse_args()
    failed = 0
    for name in options.reader:
        with tempfile.TemporaryDirectory(prefix="broken-files-") as folder:
            outcome = run(name, options.count, options.seed, Path(folder), options.keep)
        ends = ", ".join(f"{count} {end}" for end, count in sorted(outcome.ends.items()))
        print(f"{name}: {ends}", flush=True)
        for path, what in outcome.failures:
            print(f"  {path}: {what.strip().splitlines()[-1][:300]}")
        failed += len(outcome.failures)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
