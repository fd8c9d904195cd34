"""`ina reproduce FIGURE`: run published figures again, and say which numbers come out."""

from __future__ import annotations

import contextlib
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from p4fabric.base.errors import UserError

from testbed.cli.shared import (
    Parser,
    import_schemas,
    json_option,
    positive,
    print_json,
    results_option,
)

if TYPE_CHECKING:
    from testbed.artifacts.reproduce import Reproduction


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "figures", nargs="*", metavar="FIGURE", help="without one: list them, with their minutes"
    )
    parser.add_argument(
        "--kick-the-tires",
        action="store_true",
        help="the figures that take less than 5 minutes together on two cores",
    )
    parser.add_argument(
        "--processes", type=positive, metavar="N", help="points at one time (default: all cores)"
    )
    json_option(parser, "print the list, or the numbers beside the published ones, as JSON")
    results_option(parser)


def call(options: Namespace) -> int:
    from testbed.artifacts import reproduce

    if options.kick_the_tires and options.figures:
        raise UserError("--kick-the-tires chooses the figures itself: leave the names out")
    names = reproduce.quick() if options.kick_the_tires else reproduce.chosen(options.figures)
    if not names:
        listed = reproduce.known()
        if options.json:
            print_json(listed)
        else:
            for name, of in listed.items():
                root = "needs root and Mininet" if of.get("root") else "virtual time"
                quick = ", part of --kick-the-tires" if of.get("kick_the_tires") else ""
                print(f"{name:<12}{of['minutes']:>5g} min{of['gib']:>5g} GiB  {root}{quick}")
        return 0
    import_schemas()
    found = []
    # What runs prints its progress, which is not part of a JSON document.
    with contextlib.redirect_stdout(sys.stderr if options.json else sys.stdout):
        for each in reproduce.reproduce(names, options.results, options.processes):
            found.append(each)
            if not options.json:
                _print(each)
    good = sum(each.reproduced for each in found)
    if options.json:
        print_json([_data(each) for each in found])
    elif len(found) > 1:
        print("\n" + "\n".join(f"{each.figure:<12}{_verdict(each)}" for each in found))
        print(f"{good} of {len(found)} figures reproduced")
    return 0 if good == len(found) else 1


def _verdict(each: Reproduction) -> str:
    if each.failed:
        return f"NOT RUN: {each.failed}"
    within = sum(cell.reproduced for cell in each.cells)
    said = "reproduced" if each.reproduced else "NOT REPRODUCED"
    return f"{said}: {within} of {len(each.cells)} numbers, {each.minutes:.1f} min"


def _print(each: Reproduction) -> None:
    from testbed.artifacts.expected import shown

    print(f"\n{each.figure}: {_verdict(each)}")
    for cell in each.cells:
        row = cell.row
        unit = "" if row["unit"] == 1 else f" {row['unit']}"
        value = "-" if cell.found is None else f"{cell.found:.4g}"
        said = "ok  " if cell.reproduced else "NOT "
        told = f"{said}{value:>10}{unit} (published {shown(row)} +- {row['tolerance']:g}"
        print(f"  {told}, {cell.error or 0}): {row['what']}")


def _data(each: Reproduction) -> dict[str, object]:
    return {
        "figure": each.figure,
        "reproduced": each.reproduced,
        "failed": each.failed or None,
        "minutes": each.minutes,
        "numbers": [
            {**cell.row, "found": cell.found, "reproduced": cell.reproduced} for cell in each.cells
        ],
    }
