"""Measures that a program reports while it runs: loss, accuracy, or any other number.

They go to a file that the runner gives the rank, a JSON object per line. The runner makes the table
`measures` of it and shows the latest ones in the live view.
"""

from __future__ import annotations

import json
import math
import os
import re
import time

from testbed.collective.own_rank import adopt

MEASURES = "INA_MEASURES"  # environment variable: the file
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def report(*, step: int, **measures: float) -> None:
    """Note numbers of this rank at a step, such as `report(step=10, loss=0.31, accuracy=0.9)`.

    step: an integer from 0, whatever the program counts. Outside a job of an experiment nothing
    happens, so a script may call it anywhere. Raises TypeError for what is no number."""
    if isinstance(step, bool) or int(step) != step or step < 0:
        raise ValueError(f"step is {step!r}; it must be a whole number from 0")
    values = {}
    for name, value in measures.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot be the name of a measure")
        number = float(value)
        # JSON has no NaN; its name is read as well.
        values[name] = number if math.isfinite(number) else str(number)
    adopt()
    path = os.environ.get(MEASURES)
    if not path or not values:
        return
    line = json.dumps({"time_ns": time.monotonic_ns(), "step": int(step), "values": values})
    with open(path, "a") as file:  # one write per line, so that lines stay whole
        file.write(line + "\n")
