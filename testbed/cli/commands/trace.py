"""The path of a fragment through a run: `ina trace RESULTS --fragment NAME`.

In virtual time the run is made again, up to the moment in question: it repeats to the bit, so what
is seen is what has happened. On Mininet the captures of the run are read (`--pcap`), and its
switches made again from what the results keep.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from p4fabric.base.errors import UserError

from testbed.cli.shared import (
    Parser,
    import_schemas,
    json_option,
    picture_file,
    positive,
    print_json,
    results_argument,
    working,
)

if TYPE_CHECKING:
    from p4engine.backend.build import Compiled

    from testbed.results import Results
    from testbed.setup import Setup
    from testbed.tracing.fragments import Fragment
    from testbed.tracing.path import Path as FragmentPath
    from testbed.tracing.survey import Survey

    Paths = tuple[dict[Fragment, FragmentPath], list[str]]


def arguments(parser: Parser) -> None:
    what = "of a run, or SWEEP/HASH for a point of a sweep"
    results_argument(parser, "results_folder", "RESULTS", what)
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument(
        "--fragment",
        action="append",
        default=[],
        metavar="NAME",
        help="JOB/ITERATION/TENSOR:POSITION, or JOB#NUMBER as packets have it; can be repeated",
    )
    chosen.add_argument(
        "--slowest", type=positive, metavar="N", help="the N fragments whose results were latest"
    )
    chosen.add_argument(
        "--first-evicted", action="store_true", help="the first fragment whose sum was evicted"
    )
    parser.add_argument(
        "--repetition", type=int, default=0, metavar="N", help="from 0 (default: %(default)s)"
    )
    parser.add_argument(
        "--figure",
        type=picture_file,
        metavar="FILE",
        help="draw lanes, as .png, .pdf or .svg; of several fragments FILE gets numbers",
    )
    json_option(parser, "print the steps as JSON")


def call(options: Namespace) -> int:
    import_schemas()
    from testbed.analysis.data.sweep_data import is_sweep, run_at
    from testbed.tracing.fragments import fragment_of, offset_of

    if is_sweep(options.results_folder):
        raise UserError(f"{options.results_folder}: a sweep; name a point of it, SWEEP/HASH")
    with working(f"reading {options.results_folder}"):
        results = run_at(options.results_folder)
        setup = _setup_of(results, options.repetition)
    named = [fragment_of(setup, text) for text in options.fragment]
    source = _source(results, setup)
    for sentence in source.warnings:
        print(f"warning: {sentence}", file=sys.stderr)
    if options.first_evicted and not setup.platform.system.memory:
        raise UserError(f"{results.folder}: no sum was evicted: its system has no switch memory")
    if not named:
        named = _chosen(source.survey(), options, results)
    found, said = source.paths(named, offset_of(setup, options.fragment))
    for sentence in said:
        print(f"note: {sentence}", file=sys.stderr)
    if options.json:
        from testbed.tracing.trace_text import data

        traces = [data(setup, each, found[each]) for each in named]
        print_json({"run": results.name, "folder": str(results.folder), "traces": traces})
    else:
        from testbed.tracing.trace_text import lines

        for number, each in enumerate(named):
            print("\n".join([*([""] if number else []), *lines(setup, each, found[each])]))
    if options.figure:
        with working(f"drawing {options.figure}"):
            _draw(setup, named, found, options.figure)
    if not any(found[each].steps for each in named):
        raise UserError(
            "no packet of it was seen: the run did not get there, or it has no such one"
        )
    return 0


def _setup_of(results: Results, repetition: int) -> Setup:
    from p4fabric.base.config.data_files import read_text

    from testbed.experiment import load_text
    from testbed.experiment.inputs import require_same
    from testbed.schemes import set_up

    file = results.folder / "experiment.yaml"
    if not file.exists():
        raise UserError(f"{results.folder}: the run has no experiment.yaml; it cannot be traced")
    experiment = load_text(read_text(file), file=str(file), folder=results.folder)
    if not 0 <= repetition < experiment.repetitions:
        last = experiment.repetitions - 1
        raise UserError(f"--repetition: found {repetition}; the run has 0 to {last}")
    if warning := require_same(results, experiment, "a trace would be of another run"):
        print(f"warning: {warning}", file=sys.stderr)
    return set_up(experiment, repetition)


def _chosen(survey: Survey, options: Namespace, results: Results) -> list[Fragment]:
    """The fragments that --slowest or --first-evicted means. Raises UserError if there are none."""
    if options.slowest:
        if not survey.late:
            raise UserError(
                f"{results.folder}: no worker got a result from a PS or a switch, so --slowest"
                " cannot compare them; name a fragment with --fragment"
            )
        return [late.fragment for late in survey.late[: options.slowest]]
    if survey.evicted is None:
        raise UserError(f"{results.folder}: no sum was evicted")
    return [survey.evicted]


class _Source:
    """Source of seen packets."""

    def __init__(self, setup: Setup, warnings: Sequence[str]) -> None:
        self.setup = setup
        self.warnings = list(warnings)

    def survey(self) -> Survey:
        raise NotImplementedError

    def paths(self, wanted: Sequence[Fragment], offset: int | None) -> Paths:
        raise NotImplementedError


class _Again(_Source):
    """A run in virtual time, made again."""

    def __init__(self, results: Results, setup: Setup, compiled: Compiled) -> None:
        from testbed.results.environment import made_by_other_code

        made_by = made_by_other_code(results.environment)
        sentence = f"the run was made by {made_by}; this one may do something else"
        super().__init__(setup, [sentence] if made_by else [])
        self._results, self._compiled = results, compiled

    def survey(self) -> Survey:
        from testbed.tracing import rerun

        with working("running again, to find these fragments"):
            found, _ = rerun.survey(self.setup, self._compiled)
        return found

    def paths(self, wanted: Sequence[Fragment], offset: int | None) -> Paths:
        from testbed.tracing import rerun

        with working("running again, and watching"):
            until_ns = self._until_ns(wanted)
            run = self.setup, self._compiled
            found, error = rerun.paths(*run, wanted, until_ns, offset=offset)
        return found, [f"the run fails here as well: {error}"] if error else []

    def _until_ns(self, wanted: Sequence[Fragment]) -> int | None:
        """The end of the last iteration of these fragments; None where it is not known."""
        from testbed.tracing.fragments import place_of

        rows = self._results.iterations
        rows = rows[rows["repetition"] == self.setup.repetition]
        ends = []
        for each in wanted:
            place = place_of(self.setup, each)
            if place is None:
                return None
            mine = rows[(rows["job"] == each.job) & (rows["iteration"] == place.iteration)]
            if not len(mine) or mine["end_ns"].isna().any():
                return None
            ends.append(int(mine["end_ns"].max()))
        return max(ends, default=None)


class _Captures(_Source):
    """A run on Mininet, from its captures."""

    def __init__(self, results: Results, setup: Setup, compiled: Compiled | None) -> None:
        from testbed.tracing.replay import read_captures

        super().__init__(setup, [])
        with working("reading the captures"):
            self._captured = read_captures(setup, results.folder)
        self._compiled = compiled

    def survey(self) -> Survey:
        from testbed.tracing import replay

        with working("looking for these fragments in the captures"):
            return replay.survey(self._captured)

    def paths(self, wanted: Sequence[Fragment], offset: int | None) -> Paths:
        from testbed.tracing import replay

        with working("giving the captured packets to the switches again"):
            return replay.paths(self._captured, self._compiled, wanted, offset)


def _source(results: Results, setup: Setup) -> _Source:
    from testbed.run_parts.program import prepare

    platform = setup.platform
    if platform.virtual is None and platform.switch == "bmv2":
        return _Captures(results, setup, None)
    with working("compiling the P4 program"):
        compiled = prepare(setup).compiled
    assert compiled is not None
    if platform.virtual is not None:
        return _Again(results, setup, compiled)
    return _Captures(results, setup, compiled)


def _draw(setup: Setup, named: Sequence[Any], found: dict[Any, Any], file: Path) -> None:
    from testbed.tracing import lanes

    for number, each in enumerate(named, 1):
        path = file if len(named) == 1 else file.with_stem(f"{file.stem}-{number}")
        try:
            lanes.draw(setup, each, found[each], path)
        except OSError as error:
            raise UserError(f"--figure {path}: {error.strerror or error}") from None
        print(f"picture: {path}", file=sys.stderr)
