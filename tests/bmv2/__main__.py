"""The long comparison, for whoever has BMv2: 100 thousand packets per program unless told less.

python -m tests.bmv2 [PROGRAM...] [--packets N] [--values V] [--seed S]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.support.bmv2.cases import CASES
from tests.support.bmv2.compare import Difference, compare
from tests.support.bmv2.simple_switch import why_not


def main() -> int:
    """0 if both switches agree, 1 if not, 2 where there is no BMv2."""
    parser = argparse.ArgumentParser(prog="python -m tests.bmv2", description=__doc__)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(CASES))
    parser.add_argument("--packets", type=int, default=100_000, help="per program")
    parser.add_argument("--values", type=int, default=4, help="per packet")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    unknown = set(options.programs) - set(CASES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    if reason := why_not():
        print(f"error: {reason}", file=sys.stderr)
        return 2
    failed = 0
    for program in options.programs or CASES:
        cases = CASES[program]
        events: Counter[int] = Counter()
        for number, case in enumerate(cases):
            share = -(-options.packets // len(cases))
            began = time.monotonic()
            what = f"p4/{program}.p4 ({case.title()})"
            try:
                found = compare(case, share, options.seed + number, options.values)
            except Difference as difference:
                print(f"{what}: {difference}", flush=True)
                failed = 1
                continue
            events.update(found.events)
            print(
                f"{what}: {found.packets} packets in, {found.outputs} out, {found.registers}"
                f" registers: equal ({time.monotonic() - began:.0f} s)",
                flush=True,
            )
        if events:
            print(f"p4/{program}.p4 events: {dict(sorted(events.items()))}", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
