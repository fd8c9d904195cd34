"""`ina plan`: where each worker's gradient is aggregated, for a graph file or an experiment."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from testbed.cli.plan_text import plan_tables
from testbed.derived.plan_input import read
from testbed.errors import UserError
from testbed.routing.network import Network
from testbed.routing.plan import Plan
from testbed.routing.planners import make_plan


def plan_command(
    path: Path,
    planners: str | None,
    seed: int,
    paths: int | None,
    as_json: bool,
    picture: Path | None,
    **more: Any,
) -> int:
    """Print the plans; returns the exit code. `planners`: one name, or several with commas between
    them; None: those that the file names, else grid-links. more: further arguments of make_plan;
    None: what the file says. Raises UserError."""
    (network, jobs), named, said = read(path)
    told = said | {key: value for key, value in more.items() if value is not None}
    names = planners.split(",") if planners else named or ("grid-links",)
    if as_json and len(names) > 1:
        raise UserError("--json prints one plan; name one planner")
    if picture is not None and picture.suffix not in (".pdf", ".png", ".svg"):
        raise UserError(f"--picture {picture}: allowed: a file that ends in .pdf, .png or .svg")
    try:
        plans = [make_plan(network, jobs, name, seed, paths, **told) for name in names]
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    if as_json:
        json.dump(plans[0].to_json(), sys.stdout, indent=1)
        print()
    else:
        console = Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False)
        for plan in plans:
            for each in plan_tables(network, plan):
                console.print(each)
    if picture is not None:
        _draw(network, plans, picture)
    return 0


def _draw(network: Network, plans: Sequence[Plan], path: Path) -> None:
    from matplotlib import rc_context

    from testbed.analysis.figures.figure_files import write
    from testbed.analysis.style import plot_style
    from testbed.cli import plan_picture

    with rc_context(plot_style.RC):
        figure = plan_picture.draw(network, plans)
        try:
            write(figure, path)
        except OSError as error:
            raise UserError(f"{path}: cannot be written: {error.strerror}") from None
