"""Random histories in a process of its own, which may have numba switched off.

    python -m tests.support.histories EXPERIMENT COUNT

Prints [seed, end in ns, frames, failure] of each run, as JSON.
"""

from __future__ import annotations

import json
import sys
import warnings

from tests.support.histories import cases
from tests.support.histories.history import Chances


def main() -> None:
    # Wrapping integers, on which the protocols rely, are worth a warning to plain numpy.
    warnings.simplefilter("ignore", RuntimeWarning)
    run = cases.run_of_text(sys.argv[1])
    runs = []
    for seed in range(int(sys.argv[2])):
        network, failure = run(Chances(seed), False)
        runs.append([seed, network.now, network.frames, failure])
    print(json.dumps(runs))


if __name__ == "__main__":
    main()
