"""The steps that are the same on every runtime: get ready, run an experiment, report.

The runtimes differ in what they need from the machine and in how packets move: `mininet_run` is
Mininet, `virtual_run` virtual time. Each is imported only when it is needed, since virtual time
works without Mininet.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from p4fabric.base.captured_ports import ports
from p4fabric.base.errors import RunError, UserError
from p4fabric.base.steps import quiet_console, step
from rich.console import Console

from testbed.machine import memory_estimate as memory
from testbed.run_parts.program import prepare
from testbed.run_parts.run import Run, Runtime
from testbed.schemes import set_up
from testbed.workload.wrong_value import WrongValueError

if TYPE_CHECKING:
    from p4fabric.base.captured_ports import CapturedPort

    from testbed.experiment import Experiment
    from testbed.results import Writer
    from testbed.web.live_page import LivePage

VIRTUAL = "virtual"
LAWS = "INA_LAWS"  # in the environment: hold every run against the laws (tests)
MOST_EVENTS = 3_000_000  # of a failed run in virtual time that is made again, for some minutes


def run(
    experiment: Experiment,
    results: Path,
    pcap: Sequence[str] = (),
    *,
    report: bool = True,
    prompt: str | None = None,
    shown: str = "brief",
    web: str | None = None,
    as_json: bool = False,
) -> int:
    """Run an experiment and report; its folder goes below `results`. Returns the exit code: 1 if a
    check of a job does not hold.

    pcap: the ports to capture (see captures.py). report: False for the tables alone, without
    figures and report.html. prompt: when Mininet's prompt opens (see mininet_run). shown:
    how much is printed (analysis/report.py). web: a page shows the run while it goes on (""), and
    stays until Ctrl-C ("stay"); None: there is none. as_json: standard output is the tables'
    numbers as JSON, and everything else goes to standard error. Raises UserError before anything is
    built, and RunError."""
    console = Console(stderr=as_json)
    with _live_page(web, console) as page:
        folder = carry_out(experiment, results, pcap, console, prompt, page)
        # Not before: it imports pandas, and the first packet need not wait for that.
        from testbed.analysis.data.serving_data import failures
        from testbed.analysis.report import after_run, of_what_has_finished, report_json
        from testbed.results import read

        with of_what_has_finished(folder):
            after_run(folder, quiet_console() if as_json else None, draw=report, shown=shown)
        if as_json:
            report_json([folder])
        if page is not None:
            written = folder / "report.html"
            page.end("Finished.", written if report and written.exists() else None)
            if page.stay:
                console.print(f"live page: {page.address} stays until Ctrl-C", **AS_IT_IS)
                page.wait()
        failed = failures(read(folder))
    for each in failed:
        print(each, file=sys.stderr)
    return 1 if failed else 0


AS_IT_IS: dict[str, Any] = {"soft_wrap": True, "highlight": False, "markup": False}


@contextlib.contextmanager
def _live_page(web: str | None, console: Console) -> Iterator[LivePage | None]:
    """The page of a run, if it has one. It says how the run has failed."""
    if web is None:
        yield None
        return
    from testbed.web.live_page import LivePage

    with LivePage(stay=web == "stay") as page:
        console.print(f"live page: {page.address} (on this machine alone)", **AS_IT_IS)
        try:
            yield page
        except KeyboardInterrupt:
            page.end("The run was interrupted.")
            raise
        except Exception as error:
            page.end(f"The run has failed: {error}")
            raise


def carry_out(
    experiment: Experiment,
    results: Path,
    pcap: Sequence[str],
    console: Console,
    prompt: str | None = None,
    page: LivePage | None = None,
) -> Path:
    """Check the machine, compile, and run an experiment; returns its results folder, which is below
    `results`. Shows the progress on `console`. Raises UserError and RunError as `run` does."""
    experiment = experiment.noted()
    is_virtual = experiment.runtime == VIRTUAL
    if prompt is not None and is_virtual:
        raise UserError("--cli is for runs on Mininet; virtual time has no network to look into")
    captured = ports(experiment.topology_object(), pcap)
    get_ready([experiment])
    with contextlib.ExitStack() as stack:
        with step(console, "setting up"):
            setup = set_up(experiment)
        shared = None
        if not is_virtual:
            from testbed.emulate.mininet_run import shared_session

            shared = stack.enter_context(shared_session([setup]))
            shared.start()  # loads the protocols meanwhile
        with step(console, "estimating the memory that the run takes"):
            memory.require({f"a run of {experiment.name}": setup})
        with step(console, "compiling the P4 program, and trying it"):
            program = prepare(setup)
        for warning in (*experiment.warnings, *program.warnings):
            print(f"warning: {warning}", file=sys.stderr)
        this = Run(experiment, setup, program, console, page)
        return execute(this, results, captured=captured, shared=shared, prompt=prompt)


def get_ready(experiments: Iterable[Experiment]) -> None:
    """Make sure that the machine has what these experiments need, and that nothing else prevents
    them.

    Raises UserError."""
    emulated = [each for each in experiments if each.runtime != VIRTUAL]
    if not emulated:
        return
    from p4fabric.emulate.network_needs import require_network

    from testbed.machine.preflight import require_bmv2, set_up

    require_network(set_up())
    on_bmv2 = [each for each in emulated if each.switch == "bmv2"]
    if on_bmv2:
        require_bmv2(on_bmv2)
    from p4fabric.emulate import run_records

    for line in run_records.clean():
        print(f"removed what a killed run had left: {line}", file=sys.stderr)


def execute(
    run: Run, results: Path, captured: Sequence[CapturedPort] = (), **on_mininet: Any
) -> Path:
    """Run all repetitions; returns the results folder, which is marked with how it ended.
    captured: ports whose packets are written down. on_mininet: further arguments of MininetRun.
    Raises RunError."""
    from testbed.experiment.inputs import changes, have_changed, record
    from testbed.results import Writer, describe

    if run.experiment.runtime == VIRTUAL:
        from testbed.simulate.open_loop import settled

        run = settled(run)
    experiment, runtime = run.experiment, _runtime(run, captured, on_mininet)
    assert experiment.tuning is None, "testbed.sweeps.trials comes first"
    if names := changes(experiment.inputs, experiment.noted().inputs):
        raise RunError(f"{have_changed(names)} the run was set up; run it again")
    environment = describe(
        run.setup.platform.timestamp_unit_ns,
        switch=experiment.switch,
        runtime=experiment.runtime,
        **record(experiment),
        **runtime.versions(),
        **({"tuned": experiment.tuned.as_data()} if experiment.tuned else {}),
    )
    yaml = experiment.resolved_yaml()
    with contextlib.ExitStack() as stack:
        writer = Writer.create(results, experiment.name, yaml, environment)
        if os.environ.get(LAWS):
            stack.callback(_hold, writer, experiment.runtime == VIRTUAL)
        stack.enter_context(writer)
        run.console.print(f"results: {writer.folder}", highlight=False, soft_wrap=True)
        if experiment.tuned is not None:
            writer.write("tuning", [*experiment.tuned.rows()])
        try:
            runtime.repeat(writer)
        except WrongValueError as error:
            raise _with_reasons(error, run, writer.folder) from None
        writer.finish()
    return writer.folder


def _hold(writer: Writer, virtual: bool) -> None:
    """Hold a run that has ended against the laws. Raises RunError. On a real clock, one that has
    failed has counters of several moments, and its own error to tell."""
    if not virtual and writer.state != "finished":
        return
    from p4fabric.netfile.law import require

    from testbed.analysis.laws import of_tables
    from testbed.analysis.laws.tables import of_writer

    require(of_tables(of_writer(writer, virtual)), writer.folder)


def _with_reasons(error: WrongValueError, run: Run, folder: Path) -> RunError:
    """The error about a wrong value, with what has made it, as far as that can be found out."""
    from testbed.tracing import blame

    again = error.events is not None and error.events <= MOST_EVENTS
    with step(run.console, "running again, to find what has made the value wrong"):
        compiled = run.program.compiled if again else None
        now = error.setup or run.setup
        begun = next(each for each in run.setups() if each.repetition == now.repetition)
        lines = blame.reasons(begun, compiled, error.wrong, folder, now)
        text = "\n".join([error.wrong.text, *lines])
    return RunError(text, error.log_tail, error.log)


def _runtime(run: Run, captured: Sequence[CapturedPort], on_mininet: dict[str, Any]) -> Runtime:
    if run.setup.platform.virtual is not None:
        from testbed.simulate.virtual_run import VirtualRun

        return VirtualRun(run, captured)
    from testbed.emulate.mininet_run import MininetRun

    return MininetRun(run, captured=captured, **on_mininet)
