"""Hunting for a failing history in a process of its own:

    python -m tests.support.histories REQUEST

For hosts whose code is a mutant: a folder with a changed copy of `testbed` is the current one, and
numba is switched off, since compiling takes a minute and these runs a tenth of a second.

REQUEST is JSON: {"text": experiment, "first": seed, "end": seed, "lossless": bool, "limit_ns": n,
"trace": bool}. Prints {"seed": the seed that fails or null, "failure": text, "runs": with trace,
[seed, end in ns, frames, failure] of each run}.
"""

from __future__ import annotations

import json
import sys
import warnings

from tests.support.histories import cases
from tests.support.histories.history import LIMIT_NS, Chances


def main() -> None:
    # Wrapping integers, on which the protocols rely, are worth a warning to plain numpy.
    warnings.simplefilter("ignore", RuntimeWarning)
    request = json.loads(sys.argv[1])
    run = cases.run_of_text(request["text"], request.get("limit_ns", LIMIT_NS))
    answer: dict = {"seed": None, "failure": "", "runs": []}
    for seed in range(request["first"], request["end"]):
        network, failure = run(Chances(seed, request.get("lossless", False)), False)
        if request.get("trace"):
            answer["runs"].append([seed, network.now, network.frames, failure])
        if failure:
            answer |= {"seed": seed, "failure": failure}
            break
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
