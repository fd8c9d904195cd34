"""Running a network file: on the runtime that it names, with the options of a command line.

On Mininet, the switches start, their links get rates and delays, entries are installed, and the
hosts' commands run. Then the checks run one after the other, each printed with its result. With
`--cli` Mininet's command line opens before or afterwards.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from p4fabric.base.config.units import count
from p4fabric.base.errors import RunError, UserError
from p4fabric.netfile.install_entries import dry_run, install
from p4fabric.netfile.load_network import NetworkPlan, load_network
from p4fabric.netfile.network_schema import Check

if TYPE_CHECKING:
    from p4fabric.netfile.plain_network import PlainNetwork
    from p4fabric.netfile.virtual_command import Report

PING = "ping -c {count} -i 0.2 -W 1 {address}"
COMMAND_S = 120  # a command that takes longer has failed
MORE = "; or add `runtime: virtual` to the file"


def run_plan(
    plan: NetworkPlan,
    results: Path,
    pcap: Sequence[str],
    as_json: bool,
    prompt: str | None,
    remedy: str,
    report: Report | None = None,
    laws: bool = False,
) -> int:
    """Run a network file with the options of a command line; returns the exit code: 1 when a check
    does not hold. They are those of `run_virtual` and `run_network`; prompt "" stands for "after".
    Raises UserError, also for an option that the file's runtime cannot honour, and RunError."""
    if plan.file.runtime == "virtual":
        if prompt is not None:
            raise UserError("--cli needs Mininet; take it out, or `runtime: virtual`")
        from p4fabric.netfile.virtual_command import run_virtual

        return run_virtual(plan, results, pcap, report, as_json, laws)
    if pcap:
        raise UserError(f"--pcap needs virtual time here; in real hosts, run tcpdump{MORE}")
    if as_json:
        raise UserError(f"--json: on Mininet the exit code says whether checks hold{MORE}")
    return run_network(plan, remedy, "after" if prompt == "" else prompt)


def check_network(path: Path) -> int:
    """Check a network file, its programs and its entries, and print the result. Raises
    UserError."""
    plan = load_network(path)
    if plan.file.runtime == "virtual":
        from p4fabric.netfile.virtual_command import check_virtual

        warnings = check_virtual(plan)
    else:
        warnings = dry_run(plan)
    net = plan.net
    entries = sum(len(each.entries) for each in net.switches.values())
    print(
        f"{path}: valid: {count(net.hosts, 'host')}, {count(net.switches, 'switch', 'es')},"
        f" {count(net.links, 'link')}, {entries} entries, {count(plan.checks, 'check')}"
    )
    for warning in warnings:
        print(f"warning: {warning}")
    return 0


def run_network(plan: NetworkPlan, remedy: str, prompt: str | None = None) -> int:
    """Bring the network up, carry out the checks; exit code 1 when one does not hold. remedy:
    what to do about anything that is not installed. prompt: the time at which Mininet's prompt
    opens, "before" the checks or "after" them.

    Raises UserError before anything is built, and RunError."""
    path = plan.path
    for warning in dry_run(plan):
        print(f"warning: {warning}", file=sys.stderr)
    from p4fabric.emulate import run_records
    from p4fabric.emulate.network_needs import require_network

    require_network(remedy)
    for line in run_records.clean():
        print(f"removed what a killed run had left: {line}", file=sys.stderr)
    from p4fabric.emulate.network_session import NetworkSession
    from p4fabric.emulate.prompt import open_prompt
    from p4fabric.netfile.plain_network import PlainNetwork

    with (
        tempfile.TemporaryDirectory(prefix="network-") as logs,
        NetworkSession(f"{plan.name} ({path})", Path(logs)) as session,
    ):
        session.start()
        network = session.build(plan.topology, PlainNetwork, plan=plan)
        network.start_switches()
        session.note_processes()
        for name, settings in plan.net.switches.items():
            install(name, settings, network[name].client)
        for command, said in network.configure_hosts().items():
            print(f"note: {command}: {said}")
        print(f"{plan.name}: the network is up", flush=True)
        if prompt == "before":
            open_prompt(network)
        failed = Checks(network, plan).run()
        print_traffic(network)
        if prompt == "after":
            open_prompt(network)
    if failed:
        print(f"failed: {failed} of {len(plan.checks)} checks do not hold", file=sys.stderr)
        return 1
    return 0


class Checks:
    """Carries out a plan's checks in a network that is up."""

    def __init__(self, network: PlainNetwork, plan: NetworkPlan) -> None:
        self.network = network
        self.plan = plan
        self.started: list[subprocess.Popen] = []

    def run(self) -> int:
        """Run all checks, and print each; returns the number of those that do not hold."""
        failed = 0
        try:
            for check in self.plan.checks:
                what, function = self._kind(check)
                problem = function(check)
                failed += problem is not None
                print(f"{'FAILED' if problem else 'ok':<7} {what}", flush=True)
                for line in (problem or "").splitlines():
                    print(f"        {line}", flush=True)
        finally:
            for process in self.started:
                _kill(process)
        return failed

    def _kind(self, check: Check) -> tuple[str, Callable[[Check], str | None]]:
        if check.ping == "all":
            return "ping between all hosts", self._ping_all
        if check.ping is not None:
            wanted = "is lost" if check.lost else "is answered"
            return f"ping {check.ping[0]} -> {check.ping[1]} {wanted}", self._ping
        if check.run is not None:
            return f"{check.on}: {check.run}", self._command
        return f"{check.on}: {check.start} (started)", self._start

    def _reaches(self, source: str, target: str) -> bool:
        address = self.plan.net.hosts[target].ip.partition("/")[0]
        # The first packet may be spent on learning and address resolution.
        return any(
            " 0% packet loss" in self.network[source].cmd(PING.format(count=1, address=address))
            for _ in range(3)
        )

    def _ping(self, check: Check) -> str | None:
        assert isinstance(check.ping, tuple)
        if self._reaches(*check.ping) is not check.lost:
            return None
        return "an answer came" if check.lost else "no answer"

    def _ping_all(self, check: Check) -> str | None:
        hosts = list(self.plan.net.hosts)
        lost = [
            f"{source} -> {target}: no answer"
            for source in hosts
            for target in hosts
            if source != target and not self._reaches(source, target)
        ]
        return "\n".join(lost) or None

    def _command(self, check: Check) -> str | None:
        assert check.on is not None and check.run is not None  # see _kind
        process = self._popen(check.on, check.run, stdout=subprocess.PIPE)
        try:
            printed = process.communicate(timeout=COMMAND_S)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            _kill(process)
            return f"not done after {COMMAND_S} s"
        if process.returncode:
            return f"exit code {process.returncode}\n{printed.strip()}"
        if check.prints is not None and not re.search(check.prints, printed):
            return f"printed no {check.prints!r} but\n{printed.strip()}"
        return None

    def _start(self, check: Check) -> str | None:
        assert check.on is not None and check.start is not None  # see _kind
        self.started.append(self._popen(check.on, check.start, stdout=subprocess.DEVNULL))
        return None

    def _popen(self, host: str, command: str, **options: int) -> subprocess.Popen:
        return self.network[host].popen(
            ["sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            cwd=str(self.plan.folder),
            **options,
        )


def _kill(process: subprocess.Popen) -> None:
    """End a command, which mnexec has made a group of its own, with all that it has started: what
    is left would hold its pipe open."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    if process.stdout is not None:
        process.stdout.close()
    process.wait()


def print_traffic(network: PlainNetwork) -> None:
    """Packets that each switch's ports have carried and lost."""
    print(
        "\n  port               in packets  out packets  dropped in queues  lost outside the model"
    )
    for switch in network.switches:
        rows: dict[int, dict[str, dict]] = {}
        try:
            for row in switch.client.port_stats():
                rows.setdefault(row["port"], {})[row["direction"]] = row
        except OSError as error:
            raise RunError(f"switch {switch.name}: {error}") from None
        for port, found in sorted(rows.items()):
            into, out = found["ingress"], found["egress"]
            drops = into["queue_drops"] + out["queue_drops"]
            outside = (into["unmodelled_drops"] or 0) + (out["unmodelled_drops"] or 0)
            print(
                f"  {f'{switch.name}-p{port}':<17}{into['packets']:>12}{out['packets']:>13}"
                f"{drops:>19}{outside:>24}"
            )
