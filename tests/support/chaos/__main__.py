"""See the package's docstring."""

from __future__ import annotations

import argparse
import itertools
import sys
from functools import partial
from pathlib import Path

from p4fabric.base.errors import UserError
from p4fabric.emulate.network_needs import require_network

from tests.support.chaos.campaign import Campaign, table
from tests.support.chaos.plans import SYSTEMS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.chaos")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", type=int, help="at most so many")
    parser.add_argument("--first", type=int, default=0, help="number of the first event")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="this event alone")
    parser.add_argument("--systems", nargs="*", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--keep", type=Path, default=Path("chaos-failures"), help="failed ones")
    options = parser.parse_args()
    try:
        require_network()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    numbers = itertools.count(options.first)
    if options.only is not None:
        numbers = iter([options.only])
    campaign = Campaign(options.keep, partial(print, flush=True))
    summary = campaign.run(
        options.seed,
        itertools.islice(numbers, options.events),
        options.systems,
        options.minutes,
    )
    print(f"\n{table(summary)}\n")
    print(
        f"{summary.events} events, seed {options.seed}: {summary.values:,} values checked in runs"
        f" that finished, the longest run {summary.longest_s:.1f} s;"
        f" {len(summary.failures)} events broke an invariant"
    )
    for failure in summary.failures:
        print(f"  {failure.folder}: {'; '.join(failure.found)[:300]}\n    {failure.again}")
    return 1 if summary.failures else 0


if __name__ == "__main__":
    sys.exit(main())
