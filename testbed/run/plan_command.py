"""`run.py plan`: where each worker's gradient is aggregated, for a graph file or an experiment."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rich.console import Console

from testbed.errors import UserError
from testbed.routing.networks import of_file
from testbed.routing.planners import make_plan
from testbed.routing.tables import plan_tables


def plan_command(path: Path, planner: str, seed: int, paths: int, as_json: bool) -> int:
    """Print the plan; returns the exit code. Raises UserError."""
    network, jobs = of_file(path)
    try:
        plan = make_plan(network, jobs, planner, seed, paths)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    if as_json:
        json.dump(plan.to_json(), sys.stdout, indent=1)
        print()
        return 0
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False)
    for each in plan_tables(network, plan):
        console.print(each)
    return 0
