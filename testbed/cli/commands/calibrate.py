"""`ina calibrate`: measure once what this machine can carry, and keep it.

Each system runs for a second or two on links of 10 Gbit/s, which are no limit: the rate that comes
out is the most that the machine carries, and the processor time per packet says which process is
the first to need a whole core. machine/capacity.py compares an experiment with that.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import statistics
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from testbed import systems
from testbed.cli.shared import Parser, json_option, print_json
from testbed.errors import RunError
from testbed.machine.calibration import Calibration, Measured, machine, save
from testbed.paths import command_line

EXPERIMENT = """
name: calibrate
topology: {{kind: star, hosts: 10}}
links: {{bandwidth: {bandwidth}}}
switch: {switch}
system: {system}
{memory}timeout: 30 s
jobs:
  - {{model: resnet50, workers: 4, iterations: 1, scale: {scale}, compute_scale: 0}}
  - {{model: resnet50, workers: 4, iterations: 1, scale: {scale}, compute_scale: 0}}
"""
MEMORY = "memory: {aggregators: 4096}\n"
SCALES = {"embedded": 0.03, "bmv2": 0.001}
BANDWIDTHS = {"embedded": "10 Gbit/s", "bmv2": "1 Gbit/s"}  # of both the most there is
TIMER_SLEEPS = 300


def arguments(parser: Parser) -> None:
    json_option(parser, "print the measurements as JSON")


def timer_lag_ns() -> tuple[int, int]:
    """Median and 99th percentile of the lateness of a sleep of one millisecond."""
    lags = []
    for _ in range(TIMER_SLEEPS):
        before = time.monotonic_ns()
        time.sleep(0.001)
        lags.append(time.monotonic_ns() - before - 1_000_000)
    return int(statistics.median(lags)), int(statistics.quantiles(lags, n=100)[98])


def measure(system: str, switch: str = "embedded") -> Measured:
    """Run a system as fast as it gets. Raises UserError, RunError."""
    from rich.console import Console

    from testbed.experiment import load_text
    from testbed.results import read
    from testbed.runner import execute
    from testbed.runtimes.program import prepare
    from testbed.runtimes.run import Run
    from testbed.schemes import set_up

    memory = MEMORY if systems.SYSTEMS[system].memory else ""
    text = EXPERIMENT.format(
        system=system,
        switch=switch,
        memory=memory,
        scale=SCALES[switch],
        bandwidth=BANDWIDTHS[switch],
    )
    experiment = load_text(text)
    with tempfile.TemporaryDirectory(prefix="ina-testbed-") as folder:
        with open(os.devnull, "w") as nowhere:
            setup = set_up(experiment)
            run = Run(experiment, setup, prepare(setup), Console(file=nowhere))
            done = execute(run, Path(folder))
        return measured(read(done))


def measured(results: Any) -> Measured:
    """Costs of a run per gradient packet."""
    jobs, hosts, switches = results.jobs, results.hosts, results.switches
    packets = float(jobs["gradient_packets"].sum())
    seconds = float(jobs["end_ns"].max() - jobs["start_ns"].min()) / 1e9
    of_job = jobs.set_index("job")["gradient_packets"]
    workers, servers = (hosts[hosts["role"] == role] for role in ("worker", "ps"))
    own = workers["job"].map(of_job) / workers.groupby("job")["host"].transform("count")
    switch_ns = None if switches["cpu_ns"].isna().any() else float(switches["cpu_ns"].sum())
    total_ns = None if switch_ns is None else (float(hosts["cpu_ns"].sum()) + switch_ns) / packets
    if results.experiment.get("switch") == "bmv2":  # its threads share the work among cores
        switch_ns = None
    server_ns = None
    if len(servers):
        server_ns = float((servers["cpu_ns"] / servers["job"].map(of_job)).max())
    return Measured(
        rate=packets / seconds,
        worker_ns=float((workers["cpu_ns"] / own).max()),
        server_ns=server_ns,
        switch_ns=None if switch_ns is None else switch_ns / packets,
        total_ns=total_ns,
    )


def switches_here() -> list[str]:
    """The kinds of switch that this machine can run."""
    from testbed.machine import doctor

    lacks = any(found.state != doctor.OK for found in doctor.bmv2_tools())
    return ["embedded", *([] if lacks else ["bmv2"])]


def call(options: Namespace) -> int:
    """Measure, print, keep. Raises UserError; RunError at the end where a system failed."""
    if options.json:  # standard output is what is kept, the rest goes to standard error
        with contextlib.redirect_stdout(sys.stderr):
            calibration, failed = _calibrate()
        print_json(dataclasses.asdict(calibration))
    else:
        _, failed = _calibrate()
    if failed is not None:
        raise failed
    return 0


def _calibrate() -> tuple[Calibration, RunError | None]:
    """Measure, print, keep; with the error of the last system that failed."""
    from testbed.machine.preflight import require_machine
    from testbed.network import registry

    require_machine()
    registry.clean()
    begun = time.monotonic()
    load_before = os.getloadavg()[0]
    facts = machine()
    print(f"{facts['cpu']}, {facts['cores']} cores, Linux {facts['kernel']}")
    if load_before > 0.5 * int(facts["cores"]):
        print(
            f"warning: other processes are at work (load {load_before:.1f}): what they leave is"
            " what is measured"
        )
    p50_ns, p99_ns = timer_lag_ns()
    print(
        f"a sleep of 1 ms takes {p50_ns / 1e3:.0f} us longer, one in a hundred"
        f" {p99_ns / 1e3:.0f} us"
    )
    print(f"\n{HEAD}")
    found: dict[str, dict[str, Measured]] = {}
    failed: RunError | None = None
    for switch in switches_here():
        found[switch] = {}
        for system in systems.SYSTEMS:
            try:
                found[switch][system] = measure(system, switch)
            except RunError as error:  # a busy machine; what the others have measured stays
                said = f"{system} on {switch} could not be measured: {error}"
                failed = RunError(said, error.log_tail, error.log)
                print(f"{f'{switch}, {system}':22}{'failed':>12}", flush=True)
                continue
            print("".join(_cells(switch, system, found[switch][system])), flush=True)
    date = time.strftime("%Y-%m-%d", time.gmtime())
    calibration = Calibration(facts, date, load_before, p50_ns, p99_ns, found)
    path = save(calibration)
    print(
        f"\nkept in {path} after {time.monotonic() - begun:.0f} s;"
        f" `{command_line('check FILE')}` compares with it"
    )
    return calibration, failed


HEAD = (
    f"{'':22}{'gradient':>12}{'packets/s that one core can do as':>42}\n"
    f"{'switch, system':22}{'packets/s':>12}{'worker':>14}{'server':>14}{'switch':>14}"
)


def _cells(switch: str, system: str, each: Measured) -> Iterator[str]:
    yield f"{f'{switch}, {system}':22}{each.rate:>12,.0f}"
    for cost_ns in (each.worker_ns, each.server_ns, each.switch_ns):
        yield f"{1e9 / cost_ns:>14,.0f}" if cost_ns else f"{'-':>14}"
