"""Network files that run in virtual time, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from p4fabric.netfile.install_entries import compile_all
from p4fabric.netfile.law import broken
from p4fabric.netfile.load_network import load_network
from p4fabric.netfile.network_laws import of_network
from p4fabric.netfile.virtual_network import VirtualNetwork
from p4fabric.netfile.virtual_run import VirtualRun
from p4fabric.netfile.virtual_tables import tables
from p4fabric.simulate.captures import Captures

from p4fabric_testing import ROOT

MARKING = str(ROOT / "examples" / "incast" / "marking.p4")


def star(
    program: str,
    hosts: int,
    more: str = "",
    switch: str = "",
    links: str = "bandwidth: 100 Gbit/s, delay: 1 us, queue: 100000 packets",
    host: dict[int, str] | None = None,
    port: str = "port",
    params: str = "",
) -> str:
    """The text of a network file: hosts h1, h2, ... with addresses 10.0.0.1, ... at the port with
    their number of s1. more: its other sections; host: more keys of a host, by number."""
    lines = ["runtime: virtual", "network:", f"  program: {program}", "  hosts:"]
    for number in range(1, hosts + 1):
        own = (host or {}).get(number, "")
        lines.append(f"    h{number}: {{ip: 10.0.0.{number}/24{own and ', ' + own}}}")
    lines += ["  switches:", "    s1:", *([f"      {switch}"] if switch else []), "      entries:"]
    for number in range(1, hosts + 1):
        given = f"{{{port}: {number}{params % number if params else ''}}}"
        lines.append(
            f"        - {{table: route, match: {{hdr.ipv4.destination: 10.0.0.{number}/32}},"
            f" action: forward, params: {given}}}"
        )
    lines.append("  links:")
    for number in range(1, hosts + 1):
        lines.append(f"    - {{between: [h{number}, s1-p{number}], {links}}}")
    return "\n".join(lines) + "\n" + more


def built(folder: Path, text: str) -> VirtualRun:
    """The run of this text, at its beginning."""
    path = folder / "net.yaml"
    path.write_text(text)
    plan = load_network(path)
    return VirtualRun(VirtualNetwork(plan, compile_all(plan)))


def run_text(folder: Path, text: str) -> tuple[VirtualRun, dict[str, list[dict[str, Any]]]]:
    """Run this text; the run and its tables, which keep all laws."""
    run = built(folder, text)
    with Captures((), folder / "captures") as captures:
        run.run(captures)
    made = tables(run)
    lines = broken(of_network(made, run.drained))
    assert not lines, "\n".join(lines)
    return run, made


def flow(found: dict[str, list[dict[str, Any]]], name: str, host: str | None = None) -> Any:
    """The row of a flow at its receiver, or at another host."""
    return next(
        row
        for row in found["flows"]
        if row["flow"] == name and row["host"] == (host or row["to"]) and row["what"] == "packets"
    )


def port(found: dict[str, list[dict[str, Any]]], switch: str, number: int, direction: str) -> Any:
    """The row of a port's link."""
    return next(
        row
        for row in found["ports"]
        if (row["switch"], row["port"], row["direction"]) == (switch, number, direction)
    )
