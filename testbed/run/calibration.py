"""What this machine can carry: measured once by `run.py calibrate`, kept, and used by `check`.

A packet costs processor time in hosts and in switches, and a machine has only so many processors.
So each system runs once, for a second or two, with links of 10 Gbit/s, which are no limit: the rate
that comes out is the most that the machine carries, and the processor time per packet says which
process is the first without any left. capacity.py compares an experiment with that.

What is kept belongs to the user behind sudo, and to this machine: another processor or kernel makes
it void.
"""

from __future__ import annotations

import json
import os
import platform
import pwd
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from testbed import systems
from testbed.errors import RunError, UserError

FILE = Path(".cache", "ina-testbed", "calibration.json")
FORMAT = 1
WORKERS = 4  # of each of the two jobs
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


@dataclass(frozen=True)
class Measured:
    """One system on one kind of switch. `rate`: gradient packets/s of all workers together; the
    others: processor time per gradient packet in ns, of the busiest worker (per packet of its own),
    the busiest server (likewise of its job's) and the switch, and of all processes together; None:
    there is none, or it cannot be measured."""

    rate: float
    worker_ns: float
    server_ns: float | None
    switch_ns: float | None
    total_ns: float | None


@dataclass(frozen=True)
class Calibration:
    """All that was measured. `systems`: by kind of switch and system."""

    machine: dict[str, str]
    date: str
    load: float
    timer_p50_ns: int
    timer_p99_ns: int
    systems: dict[str, dict[str, Measured]]


def machine() -> dict[str, str]:
    """What the numbers depend on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "kernel": platform.release(),
    }


def _place() -> Path:
    from testbed.results.ownership import user_behind

    user = user_behind()
    return Path(pwd.getpwuid(user[0] if user else os.geteuid()).pw_dir) / FILE


def load() -> Calibration | None:
    """What is kept of this machine; None: nothing, or of another one."""
    try:
        data = json.loads(_place().read_text())
        if data["format"] != FORMAT or data["machine"] != machine():
            return None
        kept = {
            switch: {name: Measured(**each) for name, each in found.items()}
            for switch, found in data.pop("systems").items()
        }
        data.pop("format")
        return Calibration(systems=kept, **data)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def save(calibration: Calibration) -> Path:
    """Keep it. Raises UserError where that cannot be written."""
    from testbed.results.ownership import hand_over

    path = _place()
    made = [folder for folder in (path.parent.parent, path.parent) if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps({"format": FORMAT, **asdict(calibration)}, indent=1) + "\n")
        new.replace(path)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from None
    for each in (*made, path):
        hand_over(each)
    return path


def timer_lag_ns() -> tuple[int, int]:
    """Median and 99th percentile of how much longer than a millisecond a sleep of one takes."""
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
    from testbed.run.program import prepare
    from testbed.run.runtimes import run_experiment

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
            done = run_experiment(
                experiment, prepare(experiment), Path(folder), Console(file=nowhere)
            )
        return measured(read(done))


def measured(results: Any) -> Measured:
    """What a run has taken per gradient packet."""
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
    from testbed.run import doctor

    lacks = any(found.state != doctor.OK for found in doctor.bmv2_tools())
    return ["embedded", *([] if lacks else ["bmv2"])]


def calibrate_command(arguments: list[str]) -> int:
    """Measure, print, keep. Raises UserError; RunError at the end where a system failed."""
    from testbed.network import registry
    from testbed.run.preflight import require_machine

    if arguments:
        raise UserError("usage: run.py calibrate (takes no arguments)")
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
        f"\nkept in {path} after {time.monotonic() - begun:.0f} s; `run.py check` compares with it"
    )
    if failed is not None:
        raise failed
    return 0


HEAD = (
    f"{'':22}{'gradient':>12}{'packets/s that one core can do as':>42}\n"
    f"{'switch, system':22}{'packets/s':>12}{'worker':>14}{'server':>14}{'switch':>14}"
)


def _cells(switch: str, system: str, each: Measured) -> Iterator[str]:
    yield f"{f'{switch}, {system}':22}{each.rate:>12,.0f}"
    for cost_ns in (each.worker_ns, each.server_ns, each.switch_ns):
        yield f"{1e9 / cost_ns:>14,.0f}" if cost_ns else f"{'-':>14}"
