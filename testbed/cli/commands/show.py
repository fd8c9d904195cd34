"""`ina show FILE`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from p4fabric.base.errors import UserError

from testbed.cli.shared import (
    Parser,
    changes_argument,
    import_schemas,
    is_network,
    is_results,
    json_option,
    picture_file,
    print_json,
    refuse_changes,
    refuse_network,
    results_argument,
    working,
)

if TYPE_CHECKING:
    from testbed.experiment import Experiment


def arguments(parser: Parser) -> None:
    what = (
        "an experiment file, a results folder, or SWEEP/HASH for a point of a sweep; with --figure"
    )
    what += " a network file, or the folder of its run in virtual time, too"
    results_argument(parser, "file", "FILE.yaml", what)
    parser.set_defaults(of_networks=True)
    changes_argument(parser)
    parser.add_argument(
        "--hash",
        action="store_true",
        help="FILE is a results folder: print the hash of its tables",
    )
    parser.add_argument(
        "--network",
        type=Path,
        metavar="OUT.txt",
        help="write the network as a topology of SimAI, which ASTRA-sim's ns-3 backend reads, too",
    )
    parser.add_argument(
        "--figure",
        type=picture_file,
        metavar="OUT.pdf",
        help="draw the network as .pdf, .png or .svg; of a run, with the loads of its links",
    )
    json_option(parser, "print JSON")


def call(options: Namespace) -> int:
    if options.figure:
        return _draw_network(options)
    if options.network:
        return _write_network(options)
    if options.hash:
        refuse_changes(options, "results")
        from testbed.analysis.data.sweep_data import run_at
        from testbed.results import digest

        found = digest(run_at(options.file))
        print(f'{{"hash": "{found}"}}' if options.json else found)
        return 0
    import_schemas(options.file, numpy=False)
    if is_results(options.file):
        refuse_changes(options, "results")
        return show_results(options.file, options.json)
    refuse_network(options.file)
    return show_command(options.file, options.json, options.changes)


def _write_network(options: Namespace) -> int:
    """Write the file's network in the format of another simulator. Raises UserError."""
    from testbed.cli.fabric_files import export_network

    if options.hash or options.json or is_results(options.file):
        raise UserError("--network takes an experiment file, and neither --hash nor --json")
    import_schemas(options.file, numpy=False)
    refuse_network(options.file)
    return export_network(options.file, options.network, options.changes)


def _draw_network(options: Namespace) -> int:
    """Draw the network of a file or of results. Raises UserError."""
    if options.hash or options.json or options.network:
        raise UserError("--figure takes neither --hash nor --json nor --network")
    import_schemas(options.file)
    if options.file.is_dir() or is_results(options.file) or is_network(options.file):
        refuse_changes(options, "results or a network")
    from testbed.cli.network_figure import draw

    with working(f"drawing {options.figure}"):
        draw(options.file, options.figure, options.changes)
    return 0


def show_command(path: str | Path, as_json: bool = False, changes: Sequence[str] = ()) -> int:
    """Print the experiment with all defaults, as a file that loads to the same experiment; of a
    sweep, its points."""
    from testbed.experiment import load
    from testbed.experiment.experiment import summary
    from testbed.experiment.sweep_file import is_sweep, load_sweep

    if as_json:
        print_json(_described(path, changes))
        return 0
    if is_sweep(path):
        for point in load_sweep(path, changes=changes).points:
            print(f"{point.key}  {point.label}")
            print(f"              {summary(point.experiment)}")
        return 0
    experiment = load(path, changes)
    print(f"# {summary(experiment)}")
    for line in _facts(experiment):
        print(f"# {line}")
    for warning in experiment.warnings:
        print(f"# warning: {warning}")
    print()
    print(experiment.resolved_yaml(), end="")
    return 0


def _described(path: str | Path, changes: Sequence[str]) -> dict[str, object]:
    """The same as data."""
    from p4fabric.base.config.yaml_document import read_yaml

    from testbed.experiment import load
    from testbed.experiment.experiment import summary
    from testbed.experiment.sweep_file import is_sweep, load_sweep

    if is_sweep(path):
        sweep = load_sweep(path, changes=changes)
        points = [
            {"key": point.key, "label": point.label, "summary": summary(point.experiment)}
            for point in sweep.points
        ]
        return {"sweep": sweep.name, "keys": list(sweep.keys), "points": points}
    experiment = load(path, changes)
    return {
        "summary": summary(experiment),
        "facts": _facts(experiment),
        "warnings": list(experiment.warnings),
        "experiment": read_yaml(experiment.resolved_yaml(), str(path)).data,
    }


def show_results(path: Path, as_json: bool = False) -> int:
    """The same of the results of a run, or of SWEEP/HASH; of a sweep, its points and how they
    are; of a network file's run, the file."""
    from p4fabric.netfile.run_folder import is_run

    if is_run(path):
        from p4fabric.base.config.data_files import read_text
        from p4fabric.base.config.yaml_document import read_yaml

        text = read_text(path / "network.yaml")
        print_json(read_yaml(text, str(path)).data) if as_json else print(text, end="")
        return 0
    if (path / "status.json").is_file():  # a run: nothing here waits for pandas
        from testbed.results import read

        return show_command(read(path).folder / "experiment.yaml", as_json)
    from testbed.analysis.data.sweep_data import is_sweep, read_sweep, run_at

    if not is_sweep(path):
        return show_command(run_at(path).folder / "experiment.yaml", as_json)
    sweep = read_sweep(path)
    if as_json:
        points = []
        for point in sweep.points:
            described: dict[str, object] = {"key": point.key}
            described["values"] = {key: value.text for key, value in point.values.items()}
            run = point.results
            described["state"] = None if run is None else run.state
            described["notice"] = "" if run is None else run.notice
            described["folder"] = None if run is None else str(run.folder)
            points.append(described)
        print_json({"sweep": sweep.name, "keys": list(sweep.keys), "points": points})
        return 0
    for point in sweep.points:
        values = ", ".join(f"{key}={value.text}" for key, value in point.values.items())
        results = point.results
        state = "not run" if results is None else results.notice or results.state
        print(f"{point.key}  {values}")
        print(f"              {state}{f': {results.folder}' if results else ''}")
    return 0


def _facts(experiment: Experiment) -> list[str]:
    """Consequences of the file that are good to know before a run."""
    from p4fabric.base.config import units

    lines = []
    if experiment.system_entry.memory:
        count, each = experiment.aggregators, experiment.aggregator_bytes
        size = f"{count * each / 1024:.1f} KiB"
        lines.append(f"memory: {count} aggregators of {each} B = {size} per switch")
    total = 0
    for number, job in enumerate(experiment.jobs):
        if job.is_program:
            lines.append(f"jobs[{number}] {job.name}: {job.workers} ranks of {job.command}")
            continue
        trace = job.trace()
        if job.has_ranks:
            lines.append(
                f"jobs[{number}] {job.name}: {trace.title}; `ina workload` prints its calls"
            )
            continue
        fragments = trace.fragments(experiment.values_per_packet)
        total += fragments * job.workers * job.iterations
        compute = units.show(trace.compute_ns, units.TIME)
        lines.append(
            f"jobs[{number}] {job.name}: per iteration {trace.values} values in {fragments}"
            f" fragments and {len(trace.layers)} tensors, {compute} of computing"
            f" ({trace.gpu or trace.hardware})"
        )
    if total:
        lines.append(f"gradient packets in all, without retransmissions: {total} per repetition")
    return lines
