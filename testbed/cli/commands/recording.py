"""`ina recording FILE`: print the contents of a recording, of either kind."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from testbed.cli.shared import Parser, import_schemas, json_option, positive, print_json
from testbed.errors import UserError

FILE_WIDTH = 120  # of tables that go to a file


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "recording", type=Path, metavar="FILE", help="RUN.npz, RUN.et, or a rank's RUN.0.et"
    )
    parser.add_argument(
        "--fixed-scale",
        type=positive,
        default=1_000_000,
        metavar="STEPS",
        help="steps per 1.0 with numbers: fixed (default: %(default)s)",
    )
    parser.add_argument(
        "--values", type=positive, default=64, metavar="N", help="per packet (default: 64)"
    )
    parser.add_argument(
        "--draw",
        type=Path,
        metavar="FIGURE",
        help="draw the errors of the number formats, as .pdf and .png",
    )
    json_option(parser, "print JSON")


def call(options: Namespace) -> int:
    """Print the contents of a recording, and draw its numbers with `--draw`. Raises UserError."""
    import_schemas()
    from rich.console import Console

    from testbed.cli import program_tables
    from testbed.cli.recording_tables import draw_numbers, tables
    from testbed.text_table import Table, printed, table_data
    from testbed.traffic import chakra
    from testbed.traffic.recording import load_recording

    def show(title: str, found: list[Table]) -> None:
        if options.json:
            print_json({"recording": title, **{each.name: table_data(each) for each in found}})
            return
        print(f"{title}\n")
        console = Console()
        if not console.is_terminal:
            console = Console(width=FILE_WIDTH)
        for each in found:
            console.print(printed(each))

    if chakra.is_trace(options.recording):
        if options.draw is not None:
            raise UserError(f"{options.recording}: it has no values, so there is nothing to draw")
        program = chakra.load(options.recording)
        show(program_tables.title(program), list(program_tables.tables(program)))
        return 0
    recording = load_recording(options.recording)
    if options.draw is not None:
        if (
            options.draw.suffix not in (".pdf", ".png")
            or not options.draw.absolute().parent.is_dir()
        ):
            raise UserError(
                f"{options.draw}: name a file that ends in .pdf or .png, in an existing folder"
            )
        if not recording.has_values:
            raise UserError(
                f"{options.recording}: this recording has no values, so there is nothing to draw"
            )
    trace = recording.trace()
    found = list(tables(recording, trace, options.fixed_scale, options.values))
    title = f"{trace.title}, {trace.hardware}: {trace.sources[0]}"
    show(title, found)
    if options.draw is not None:
        for written in draw_numbers(recording, title, options.values, options.draw):
            if not options.json:
                print(written)
    return 0
