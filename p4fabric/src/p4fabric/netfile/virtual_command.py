"""Running and checking a network file with `runtime: virtual`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from p4engine.backend.build import Compiled
from rich.console import Console

from p4fabric.base import captured_ports
from p4fabric.base.flow import old_words
from p4fabric.base.steps import step
from p4fabric.base.text_table import printed
from p4fabric.netfile import run_folder, virtual_results
from p4fabric.netfile.install_entries import compile_all
from p4fabric.netfile.law import require
from p4fabric.netfile.load_network import NetworkPlan
from p4fabric.netfile.network_laws import of_network
from p4fabric.netfile.virtual_checks import Outcome, outcomes
from p4fabric.netfile.virtual_network import Row, VirtualNetwork
from p4fabric.netfile.virtual_run import VirtualRun, warn
from p4fabric.netfile.virtual_tables import tables
from p4fabric.simulate.captures import Captures

# (folder of results, run, its tables, what checks have found)
Report: TypeAlias = Callable[[Path, VirtualRun, dict[str, list[Row]], list[Outcome]], None]
WIDTH = 80
LOADING = "loading the hosts' code, or compiling it if it is new (up to a minute)"


def run_virtual(
    plan: NetworkPlan,
    results: Path,
    pcap: Sequence[str] = (),
    report: Report | None = None,
    as_json: bool = False,
    laws: bool = False,
) -> int:
    """Run a network file in virtual time; returns the exit code: 1 when a check does not hold.

    results: the folder in which the run gets its own; pcap: ports whose packets are captured;
    report: draws figures; as_json: print JSON only; laws: hold the run against them. Raises
    UserError and RunError."""
    console = Console(stderr=True)
    with step(console, "compiling the P4 programs"):
        compiled = compile_all(plan)
    for warning in _warnings(plan, compiled):
        print(f"warning: {warning}", file=sys.stderr)
    with step(console, LOADING):
        network = VirtualNetwork(plan, compiled)
        run = VirtualRun(network)
    wanted = captured_ports.ports(network.topology, pcap)
    folder = run_folder.new_folder(results, plan.name, plan.text)
    with run_folder.in_progress(folder):
        with step(console, "running"), Captures(wanted, folder / "captures") as captures:
            run.run(captures)
        warn(run)
        made = tables(run)
        found = outcomes(run, made)
        data = virtual_results.as_json(run, made, found)
        virtual_results.write(folder, data, made)
    if laws:
        require(of_network(made, run.drained), folder)
    if report is not None:
        with step(console, "drawing"):
            report(folder, run, made, found)
    failed = sum(not each.holds for each in found)
    if as_json:
        print(json.dumps(data, indent=1, ensure_ascii=False))
    else:
        _print(run, made, data)
        for each in found:
            print(f"{'ok' if each.holds else 'FAILED':<7} {each.what} (found {each.found})")
        print(f"results: {folder}")
    if failed:
        print(f"failed: {failed} of {len(found)} conditions do not hold", file=sys.stderr)
        return 1
    return 0


def _print(run: VirtualRun, made: dict, data: dict) -> None:
    console = Console(width=min(Console().width, 120) if sys.stdout.isatty() else WIDTH)
    for table in virtual_results.printed(run, made):
        console.print(printed(table))
    for name, own in data["classes"].items():
        if own:
            shown = ", ".join(f"{key} {value}" for key, value in own.items())
            console.print(f"{name}: {shown}", markup=False, highlight=False)


def check_virtual(plan: NetworkPlan) -> list[str]:
    """Build the network without running it; returns the warnings. Raises UserError."""
    compiled = compile_all(plan)
    VirtualRun(VirtualNetwork(plan, compiled))
    return _warnings(plan, compiled)


def _warnings(plan: NetworkPlan, compiled: dict[Path, Compiled]) -> list[str]:
    """Old words of the file, and the compiler's warnings."""
    told = [str(warning) for each in compiled.values() for warning in each.warnings]
    return old_words(plan.file.flows, "flows") + told
