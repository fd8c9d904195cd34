"""`ina recording FILE`: print the contents of a recording, of either kind."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from testbed.cli.shared import Parser, import_schemas, json_option, picture_files, positive, working
from testbed.errors import UserError


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
        type=picture_files,
        metavar="FIGURE",
        help="draw the errors of the number formats, as .pdf and .png",
    )
    json_option(parser, "print JSON")


def call(options: Namespace) -> int:
    """Print the contents of a recording, and draw its numbers with `--draw`. Raises UserError."""
    import_schemas()
    from testbed.cli import program_tables
    from testbed.cli.program_output import show_tables
    from testbed.cli.recording_tables import draw_numbers, tables
    from testbed.traffic import chakra
    from testbed.traffic.recording import load_recording

    if chakra.is_trace(options.recording):
        if options.draw is not None:
            raise UserError(f"{options.recording}: it has no values, so there is nothing to draw")
        with working(f"reading {options.recording}"):
            program = chakra.load(options.recording)
            found = [*program_tables.tables(program)]
        show_tables("recording", program_tables.title(program), found, options.json)
        return 0
    with working(f"reading {options.recording}"):
        recording = load_recording(options.recording)
    if options.draw is not None and not recording.has_values:
        raise UserError(
            f"{options.recording}: this recording has no values, so there is nothing to draw"
        )
    trace = recording.trace()
    title = f"{trace.title}, {trace.hardware}: {trace.sources[0]}"
    with working("looking at its numbers"):
        found = [*tables(recording, trace, options.fixed_scale, options.values)]
    show_tables("recording", title, found, options.json)
    if options.draw is not None:
        with working(f"drawing {options.draw}"):
            drawn = draw_numbers(recording, title, options.values, options.draw)
        for written in drawn:
            if not options.json:
                print(written)
    return 0
