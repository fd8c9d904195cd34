"""See the package's docstring."""

from __future__ import annotations

import argparse
import sys
import time

from tests.support.explorer.cases import CASES
from tests.support.explorer.explore import explore
from tests.support.histories.cases import SYSTEMS

HEAD = """| case | faults, early timers | states | transitions | depth | reactions | seconds |
|---|---|---|---|---|---|---|"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.explorer")
    parser.add_argument("systems", nargs="*", metavar="SYSTEM", help=", ".join(SYSTEMS))
    parser.add_argument("--faults", type=int, default=1, help="losses and copies")
    parser.add_argument("--early", type=int, default=0, help="timers while packets are in flight")
    parser.add_argument("--most", type=int, default=3_000_000, help="states of a case")
    options = parser.parse_args()
    print(HEAD)
    failed = 0
    for case in CASES:
        if options.systems and case.system not in options.systems:
            continue
        begin = time.process_time()
        found = explore(case, options.faults, options.early, options.most)
        seconds = time.process_time() - begin
        numbers = found.states, found.transitions, found.depth, found.reactions
        row = " | ".join([f"{options.faults}, {options.early}", *map(str, numbers)])
        note = "" if found.complete or found.failure else ", not all"
        print(f"| {case.name} | {row} | {seconds:.1f}{note} |", flush=True)
        if found.failure:
            print(found.told())
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
