"""`ina record FILE -o RUN.npz|RUN.et`: record the collectives of an experiment's program; and `ina
recording FILE`: print the contents of a recording, of either kind."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from argparse import Namespace
from pathlib import Path

from p4fabric.base.errors import RunError, UserError

from testbed.cli.shared import (
    Parser,
    changes_argument,
    import_schemas,
    json_option,
    picture_files,
    positive,
    refuse_network,
    results_option,
    working,
)
from testbed.paths import command_line


def record_arguments(parser: Parser) -> None:
    parser.add_argument(
        "file", type=Path, metavar="FILE.yaml", help="an experiment with a job that has a command"
    )
    changes_argument(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="RUN.npz: the gradients of a DDP model, with their values; RUN.et: all collectives of"
        " all process groups, as Chakra traces RUN.0.et, ...",
    )
    parser.add_argument("--job", metavar="NAME", help="where several jobs have a command")
    parser.add_argument("--steps", type=positive, metavar="N", help="to record (default: 8)")
    parser.add_argument(
        "--skip", type=int, metavar="N", help="steps before the first one (default: 3)"
    )
    parser.add_argument("--no-values", action="store_true", help=".npz: sizes and times alone")
    parser.add_argument(
        "--limit",
        type=positive,
        metavar="MB",
        help=".npz: most values of a rank, uncompressed (default: 256)",
    )
    results_option(parser)


def record(options: Namespace) -> int:
    """Run the experiment on Mininet, and write what the ranks of the job give to collectives.
    Raises UserError and RunError."""
    import_schemas()
    from p4fabric.base.linux.ownership import hand_over

    from testbed.collective import ina_recorder
    from testbed.collective.client import RECORD
    from testbed.experiment import load
    from testbed.runner import run
    from testbed.traffic import chakra
    from testbed.traffic.trace import TraceError

    refuse_network(options.file)
    if options.skip is not None and options.skip < 0:
        raise UserError(f"--skip: found {options.skip}; allowed: 0 or more")
    experiment, job, output = load(options.file, options.changes), options.job, options.output
    programs = [each.name for each in experiment.jobs if each.is_program]
    if not programs:
        raise UserError(f"{experiment.name} has no job with a command, so nothing to record")
    if job is None and len(programs) > 1:
        raise UserError(f"name the job to record with --job: {', '.join(programs)}")
    name = programs[0] if job is None else job
    if name not in programs:
        raise UserError(f"--job: found {name}; jobs with a command: {', '.join(programs)}")
    if experiment.repetitions > 1:
        raise UserError("repetitions: a recording is of one run; take this key out")
    kinds = (ina_recorder.VALUES, ina_recorder.TRACE)
    if output.suffix not in kinds or not output.absolute().parent.is_dir():
        raise UserError(
            f"{output}: name a file that ends in {' or '.join(kinds)}, in a folder that is there"
        )
    whole = output.suffix == ina_recorder.TRACE
    if whole and (options.no_values or options.limit is not None):
        raise UserError(f"{output}: a trace has no values; leave out --no-values and --limit")
    with tempfile.TemporaryDirectory(prefix="ina-record-") as made:
        folder = Path(made)
        hand_over(folder)
        path = folder / output.name
        told = {"path": str(path), "job": name, "values": not options.no_values}
        wanted = {"steps": options.steps, "skip": options.skip, "limit_mb": options.limit}
        told |= {key: value for key, value in wanted.items() if value is not None}
        os.environ[RECORD] = json.dumps(told)
        try:
            run(experiment, options.results, report=False)
        finally:
            del os.environ[RECORD]
        parts = sorted(folder.glob(f"*{output.suffix}"))
        if not parts:
            what = "call no collectives" if whole else "wrap no model in DistributedDataParallel"
            raise RunError(
                f"nothing is recorded: the ranks of job {name} {what}, or train for at most"
                f" {told.get('skip', ina_recorder.SKIP)} steps (--skip)"
            )
        try:
            if whole:
                parts.append(ina_recorder.join_traces(path))
                chakra.load(path)
            else:
                parts = [ina_recorder.join(path, parts)]
        except (ina_recorder.RecordingError, TraceError) as error:
            raise RunError(str(error)) from None
        for part in parts:
            shutil.move(part, output.parent / part.name)
            hand_over(output.parent / part.name)
    print(f"{output}: recorded; `{command_line(f'recording {output}')}` shows what is in it")
    return 0


def recording_arguments(parser: Parser) -> None:
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
        "--figure",
        type=picture_files,
        metavar="FIGURE",
        help="draw the errors of the number formats, as .pdf and .png",
    )
    json_option(parser, "print JSON")


def recording(options: Namespace) -> int:
    """Print the contents of a recording, and draw its numbers with `--figure`. Raises UserError."""
    import_schemas()
    from testbed.cli import program_tables
    from testbed.cli.program_output import show_tables
    from testbed.cli.recording_tables import draw_numbers, tables
    from testbed.traffic import chakra
    from testbed.traffic.recording import load_recording

    if chakra.is_trace(options.recording):
        if options.figure is not None:
            raise UserError(f"{options.recording}: it has no values, so there is nothing to draw")
        with working(f"reading {options.recording}"):
            program = chakra.load(options.recording)
            found = [*program_tables.tables(program)]
        show_tables("recording", program_tables.title(program), found, options.json)
        return 0
    with working(f"reading {options.recording}"):
        recording = load_recording(options.recording)
    if options.figure is not None and not recording.has_values:
        raise UserError(
            f"{options.recording}: this recording has no values, so there is nothing to draw"
        )
    trace = recording.trace()
    title = f"{trace.title}, {trace.hardware}: {trace.sources[0]}"
    with working("looking at its numbers"):
        found = [*tables(recording, trace, options.fixed_scale, options.values)]
    show_tables("recording", title, found, options.json)
    if options.figure is not None:
        with working(f"drawing {options.figure}"):
            drawn = draw_numbers(recording, title, options.values, options.figure)
        for written in drawn:
            if not options.json:
                print(written)
    return 0
