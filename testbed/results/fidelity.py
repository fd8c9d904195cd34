"""Trust in a run on a real clock: the invariants, their limits, and the rows about them.

An emulated network behaves as described only while the machine keeps up. Five things show that it
did not: packets lost where the experiment has no queue, a process without processor time, a process
that stood still, senders that fell behind their own schedule, and fragments that waited for
processors on their way. The limits are simple, so that everybody can check a mark by hand;
docs/fidelity.md says where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from testbed.results.schema import FidelityRow, HostRow, JobRow, LinkRow, Row, SwitchRow

DROPS_LIMIT = 0  # packets
CPU_LIMIT = 0.8  # of a core, in any second
WAIT_LIMIT = 1.0  # seconds per second, all threads of a switch together (docs/bmv2.md)
LAG_LIMIT = 0.01  # 99th percentile of a sender's lag, as a share of its job's mean iteration
# What a fragment waits for processors on its way out and back, as a share of the time that its
# window takes at the links' rate. From there on JCT is more than 5 % above what the links allow.
WINDOW_LIMIT = 0.025
STILL_LIMIT = 0.1  # seconds that a process stood still at once; shorter times do not count
RUNNER_STILL_LIMIT = 1.0  # of the process that starts, watches and samples the others


def row(scope: str, name: str, measure: str, value: float | None, limit: float) -> FidelityRow:
    """One row of table fidelity. A value that could not be measured (None) is not ok."""
    return {
        "scope": scope,
        "name": name,
        "measure": measure,
        "value": value,
        "limit": limit,
        "ok": value is not None and value <= limit,
    }


def missed_faults(count: int) -> FidelityRow:
    """Row with the number of planned faults that did not take place."""
    return row("run", "faults", "planned faults that did not take place", count, 0)


def still_row(scope: str, name: str, still_ns: int, planned_ns: int = 0) -> FidelityRow:
    """Row about a process of the run that stood still: for how long, beyond what was planned."""
    limit = RUNNER_STILL_LIMIT if scope == "run" else STILL_LIMIT
    return row(scope, name, "seconds of standstill", max(still_ns - planned_ns, 0) / 1e9, limit)


def rows(
    jobs: Iterable[JobRow],
    hosts: Iterable[HostRow],
    links: Iterable[LinkRow],
    switch_cpu: Mapping[str, float | None],
    switch_wait: Mapping[str, float | None] | None = None,
) -> list[FidelityRow]:
    """The rows of table fidelity for one repetition.

    jobs, hosts, links: rows as they go into those tables, without hosts and switches that a planned
    fault kept from keeping up. switch_cpu: per switch, the largest share of a core that it used in
    any second. switch_wait: of switches whose threads hand packets on to each other, the largest
    share of any second for which these waited for a processor.
    """
    iteration_ns = {
        job["job"]: jct_ns / job["iterations"] if (jct_ns := job["jct_ns"]) else None
        for job in jobs
    }
    found = []
    for host in hosts:
        name = host["host"]
        found.append(row("host", name, "socket drops", host.get("socket_drops"), DROPS_LIMIT))
        found.append(row("host", name, "cpu peak share", host.get("cpu_peak_share"), CPU_LIMIT))
        if host["role"] != "worker":
            continue  # a server answers what arrives; it has no schedule to fall behind
        lag, whole = host.get("lag_p99_ns"), iteration_ns.get(host["job"])
        share = None if lag is None or whole is None else lag / whole
        found.append(row("host", name, "lag p99 / iteration", share, LAG_LIMIT))
    for link in links:
        name = f"{link['node']}-eth{link['port']} {link['direction']}"
        drops = link.get("unmodelled_drops")
        found.append(row("link", name, "unmodelled drops", drops, DROPS_LIMIT))
    for switch, share in switch_cpu.items():
        found.append(row("switch", switch, "cpu peak share", share, CPU_LIMIT))
    for switch, share in (switch_wait or {}).items():
        found.append(row("switch", switch, "waited for a processor", share, WAIT_LIMIT))
    return found


def wait_rows(
    hosts: Iterable[HostRow],
    switches: Iterable[SwitchRow],
    windows_ns: Mapping[int, float | None],
) -> list[FidelityRow]:
    """The rows about waiting for processors, one per worker of a job whose links have a rate.

    hosts, switches: rows as they go into those tables, without those that a planned fault kept from
    keeping up. windows_ns: by job, the time that a window of fragments takes at its links' rate;
    None: they have none. [] where the kernel keeps no accounts of waits.
    """
    hosts = list(hosts)
    known = [switch["wait_mean_ns"] for switch in switches if switch["wait_mean_ns"] is not None]
    if not known:
        return []
    found = []
    for host in hosts:
        window_ns, own_ns = windows_ns.get(host["job"]), host["wait_mean_ns"]
        if host["role"] != "worker" or not window_ns or own_ns is None:
            continue
        servers = [
            each["wait_mean_ns"] or 0
            for each in hosts
            if each["role"] == "ps" and each["job"] == host["job"]
        ]
        way_ns = 2 * own_ns + 2 * max(known) + max(servers, default=0)
        found.append(row("host", host["host"], "wait / window", way_ns / window_ns, WINDOW_LIMIT))
    return found


def broken(rows: Iterable[Row]) -> list[str]:
    """One sentence per measure that is not ok anywhere, naming the worst place; [] when all are.

    rows: rows of table fidelity, of any number of repetitions.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for entry in rows:
        if not entry["ok"]:
            groups.setdefault((entry["scope"], entry["measure"]), []).append(entry)
    sentences = []
    for (scope, measure), bad in groups.items():
        worst = max(bad, key=lambda entry: inf if entry["value"] is None else entry["value"])
        value = "could not be measured" if worst["value"] is None else f"{worst['value']:.3g}"
        place = scope if scope == "run" else f"{scope} {worst['name']}"
        others = len({entry["name"] for entry in bad}) - 1
        more = f" (and {others} more)" if others else ""
        sentences.append(f"{measure} {value}, limit {worst['limit']:g}, at {place}{more}")
    return sentences
