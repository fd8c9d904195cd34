"""`ina workload FILE`: what a job's ranks compute and exchange, before anything runs."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from p4fabric.base.errors import UserError

from testbed.cli.shared import (
    Parser,
    changes_argument,
    factor,
    import_schemas,
    json_option,
    picture_files,
    positive,
    refuse_changes,
    working,
)

if TYPE_CHECKING:
    from testbed.experiment import Experiment

PROGRAMS = (".et", ".txt")
OF_FILES = ("replicas", "stage", "scale", "system", "rate")
EXPERIMENT = """
name: workload
runtime: virtual
topology: {topology}
links: {{bandwidth: {rate}, delay: 1 us}}
system: {system}
{memory}
values_per_packet: 256
jobs:
  - {{model: {model}, workers: {ranks}, iterations: 1, scale: {scale}}}
"""
MOST_OF_STAR = 500


def arguments(parser: Parser) -> None:
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="an experiment, NAME.et (Chakra traces), or NAME.txt (a workload of SimAI)",
    )
    changes_argument(parser)
    parser.add_argument("--job", metavar="NAME", help="of an experiment with several jobs")
    parser.add_argument("--replicas", type=positive, metavar="N", help="of a SimAI workload")
    parser.add_argument("--stage", type=int, metavar="0", help="of a SimAI workload with several")
    parser.add_argument("--scale", type=factor, metavar="X", help="of a workload file")
    parser.add_argument("--system", metavar="NAME", help="for a workload file (default: ring)")
    parser.add_argument(
        "--rate", metavar="RATE", help="of each rank's link (default: 100 Gbit/s), likewise"
    )
    parser.add_argument(
        "--figure",
        type=picture_files,
        metavar="FIGURE",
        help="draw a rank's graph over time, .pdf and .png",
    )
    parser.add_argument(
        "--rank", type=int, default=0, metavar="R", help="whose graph is drawn (default: 0)"
    )
    parser.add_argument(
        "--perfetto",
        type=Path,
        metavar="OUT.json",
        help="write the graphs of all ranks over time, for https://ui.perfetto.dev",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.et", help="write Chakra traces")
    json_option(parser, "print JSON")


def call(options: Namespace) -> int:
    """Print ranks, groups, calls, bytes and least times; draw and write what the options name.
    Raises UserError."""
    import_schemas()
    from testbed.cli import program_times
    from testbed.cli.program_output import draw, show, write, write_perfetto
    from testbed.schemes import set_up
    from testbed.traffic.rank_source import stretched

    with working(f"reading {options.file}"):
        experiment = _experiment(options)
    number = _job(experiment, options)
    with working("setting up"):
        setup = set_up(experiment)
        whole = program_times.program_of(setup, number)
    if not 0 <= options.rank < len(whole.ranks):
        raise UserError(f"--rank {options.rank}: the program has ranks 0 to {len(whole.ranks) - 1}")
    with working("working out the least times"):
        program = stretched(whole, program_times.compute_scale(setup, number))
        ideal = program_times.ideal_of(setup, number, program)
        tiers = program_times.tiers_of(setup, number)
        least = program_times.least_of(program, tiers, ideal)
    tokens = program_times.tokens_per_second(setup, number, program, least.all_ns)
    show(program, options.json, program_times.tables(tiers, least), tokens)
    if options.figure is not None:
        with working(f"drawing {options.figure}"):
            draw(options.figure, program, ideal, options.rank, quiet=options.json)
    if options.perfetto is not None:
        with working(f"writing {options.perfetto}"):
            write_perfetto(options.perfetto, program, ideal, quiet=options.json)
    if options.output is not None:
        with working(f"writing {options.output}"):
            write(options.output, program, quiet=options.json)
    return 0


def _experiment(options: Namespace) -> Experiment:
    from testbed.experiment import load
    from testbed.experiment.sweep_file import is_sweep

    if options.file.suffix in PROGRAMS:
        refuse_changes(options, "a workload file")
        return _around(options)
    for name in OF_FILES:
        if getattr(options, name) is not None:
            raise UserError(f"--{name} is for workload files; an experiment says it. Take it out")
    if is_sweep(options.file):
        raise UserError(f"{options.file}: a sweep has many experiments; name a file with one")
    return load(options.file, options.changes)


def _around(options: Namespace) -> Experiment:
    """An experiment with a workload file as its only job, one link for each rank."""
    from testbed import systems
    from testbed.experiment import load_text
    from testbed.traffic.rank_source import FileSource

    if options.job is not None:
        raise UserError("--job is for experiments; take it out")
    source = FileSource(str(options.file), 1.0, options.replicas, options.stage)
    ranks = len(source.load().ranks)
    system = systems.SYSTEMS.get(options.system or "ring")
    if system is None:
        known = ", ".join(systems.SYSTEMS)
        raise UserError(f"--system: found {options.system!r}; allowed: {known}")
    topology = f"{{kind: star, hosts: {ranks + 1}}}"
    if ranks > MOST_OF_STAR:
        leaves = -(-(ranks + 1) // MOST_OF_STAR)
        topology = f"{{kind: leaf_spine, leaves: {leaves}, spines: 1, hosts: {MOST_OF_STAR}}}"
    keys = {"file": str(options.file.absolute())}
    keys |= {name: getattr(options, name) for name in ("replicas", "stage")}
    given = ", ".join(f"{key}: {value!r}" for key, value in keys.items() if value is not None)
    text = EXPERIMENT.format(
        topology=topology,
        rate=options.rate or "100 Gbit/s",
        system=system.name,
        memory="memory: {aggregators: 65536}" if system.memory else "",
        model=f"{{{given}}}",
        ranks=ranks,
        scale=1 if options.scale is None else options.scale,
    )
    return load_text(text)


def _job(experiment: Experiment, options: Namespace) -> int:
    if experiment.arrivals is not None:
        raise UserError(f"{options.file}: its jobs come and go, and have no hosts yet; name a file")
    names = [job.name for job in experiment.jobs]
    if options.job is None and len(names) > 1:
        raise UserError(f"{options.file}: name one of its jobs with --job: {', '.join(names)}")
    name = options.job or names[0]
    if name not in names:
        raise UserError(f"--job: found {name!r}; the jobs are {', '.join(names)}")
    number = names.index(name)
    if experiment.jobs[number].is_program:
        raise UserError(
            f"{options.file}: {name} is a program, whose calls are known when it runs; record them"
            " with `ina record FILE -o RUN.et`"
        )
    return number
