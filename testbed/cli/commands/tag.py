"""`ina tag`: words by which runs are found again."""

from __future__ import annotations

from argparse import Namespace

from testbed.cli.shared import Parser, results_argument
from testbed.errors import UserError


def arguments(parser: Parser) -> None:
    parser.add_argument("tag", metavar="TAG", help="a word, such as baseline")
    results_argument(parser, "results", "RESULTS", "folders of runs or sweeps", "*")
    parser.add_argument("--remove", action="store_true", help="take the tag away")


def call(options: Namespace) -> int:
    from testbed.analysis.data.sweep_data import is_sweep, run_at
    from testbed.results.tags import checked, tags_of, write_tags

    checked([options.tag])
    # All of them before the first change.
    folders = [each if is_sweep(each) else run_at(each).folder for each in options.results]
    for folder in folders:
        if options.remove and options.tag not in tags_of(folder):
            raise UserError(f"{folder} has no tag {options.tag}")
    for folder in folders:
        kept = [tag for tag in tags_of(folder) if tag != options.tag]
        write_tags(folder, kept if options.remove else [*kept, options.tag])
    return 0
