"""Running a network file on the runtime that it names, with the options of a command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from p4fabric.base.errors import UserError
from p4fabric.netfile.load_network import NetworkPlan
from p4fabric.netfile.network_run import run_network
from p4fabric.netfile.virtual_command import Report, run_virtual

MORE = "; or add `runtime: virtual` to the file"


@dataclass(frozen=True)
class Options:
    """What a user asks of a run.

    results: the folder in which a run in virtual time gets its own. pcap: SWITCH:PORT whose packets
    are captured. as_json: print JSON only. prompt: when Mininet's prompt opens, "before" the checks
    or "after" them; "": after; None: it does not. remedy: for what is not installed. report: draws
    figures. laws: hold the run against them."""

    results: Path
    pcap: Sequence[str]
    as_json: bool
    prompt: str | None
    remedy: str
    report: Report | None = None
    laws: bool = False


def run_plan(plan: NetworkPlan, given: Options) -> int:
    """Run a network file; returns the exit code: 1 when a check does not hold. Raises UserError,
    of options that the file's runtime cannot honour among others, and RunError."""
    if plan.file.runtime == "virtual":
        if given.prompt is not None:
            raise UserError("--cli needs Mininet; take it out, or `runtime: virtual`")
        words = given.results, given.pcap, given.report, given.as_json, given.laws
        return run_virtual(plan, *words)
    if given.pcap:
        raise UserError(f"--pcap needs virtual time here; in real hosts, run tcpdump{MORE}")
    if given.as_json:
        raise UserError(f"--json: on Mininet the exit code says whether checks hold{MORE}")
    return run_network(plan, given.remedy, "after" if given.prompt == "" else given.prompt)
