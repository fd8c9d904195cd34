"""Rows of the results' tables, from the reports of hosts and switches at the end.

Every function makes the rows of one table for one repetition; columns are those of
testbed/results/schema.py. Times are ns since the run's start, which all processes share.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from p4fabric.base.lossless_buffers import Buffered, buffer_use, pauses_by_cause

from testbed.dataplane import loss_notes
from testbed.dataplane.loss_notes import Notes
from testbed.results.counters import LOSS_COLUMNS
from testbed.results.schema import (
    BufferRow,
    DepartureRow,
    FlowRow,
    HostRow,
    JobRow,
    LinkRow,
    LossRow,
    PauseRow,
    ResentRow,
    Row,
    SumRow,
    SwitchRow,
)

if TYPE_CHECKING:
    from p4fabric.base.flow import Flow

    from testbed.protocols.host_spec import HostSpec
    from testbed.setup import JobSetup, Platform, Setup
    from testbed.setup.job_setups import PortStats
    from testbed.traffic.trace import Trace

Wait = tuple[float | None, int | None]  # see samples.Waits.of
NO_WAIT: Wait = (None, None)
Worker = tuple[int, int]  # the numbers of its job, and of its own
Times = Mapping[str, np.ndarray]
Counted = tuple[int, str, int]  # job, counter and value
Departed = tuple[int, bool, str, int]  # communicator, whether to the PS itself, cause, packets
# What a switch has counted between two restarts: in its registers, its `port_stats()`, departures,
# and the notes of its links.
Life = tuple[list[Counted], "list[PortStats]", list[Departed], Notes | None]


class Host(Protocol):
    """A role on its host, of any runtime: its specification (testbed.setup.host_specs), and its
    counters (testbed.hosts.host_process), once it is done, or as far as they are known."""

    @property
    def spec(self) -> HostSpec: ...

    @property
    def done(self) -> dict[str, Any] | None: ...

    @property
    def totals(self) -> dict[str, Any]: ...


class HostWithFile(Host, Protocol):
    """One whose process writes its times to a file."""

    @property
    def output(self) -> Path: ...


class HostWithSums(Host, Protocol):
    """One that may have kept sums, uint32[I, N], each with the specification of its role."""

    @property
    def sums(self) -> Sequence[tuple[HostSpec, np.ndarray]]: ...


def role_rows(specs: Iterable[HostSpec]) -> Sequence[Row]:
    """Rows of table hosts with the columns that are known from the start."""
    return [
        {
            "host": spec.host,
            "role": spec.role,
            "job": spec.job.number,
            "worker": spec.worker,
        }
        for spec in specs
    ]


def host_rows(
    hosts: Iterable[Host],
    cpu_peaks: Mapping[str, float | None],
    waits: Callable[[str], Wait],
) -> list[HostRow]:
    """Table hosts: one row per host. cpu_peaks, waits: by host, see testbed/emulate/samplers.py."""
    rows: list[HostRow] = []
    for host in hosts:
        done, (wait_share, wait_mean_ns) = host.totals, waits(host.spec.host)
        rows.append(
            {
                "host": host.spec.host,
                "role": host.spec.role,
                "job": host.spec.job.number,
                "worker": host.spec.worker,
                "packets_sent": done["packets_sent"],
                "packets_received": done["packets_received"],
                "bytes_sent": done["bytes_sent"],
                "bytes_received": done["bytes_received"],
                "retransmissions": done["retransmissions"],
                "duplicate_results": done["duplicate_results"],
                "socket_drops": done.get("socket_drops"),
                "lag_p50_ns": done.get("lag_p50_ns"),
                "lag_p99_ns": done.get("lag_p99_ns"),
                "lag_max_ns": done.get("lag_max_ns"),
                "cpu_ns": done.get("cpu_ns"),
                "cpu_peak_share": cpu_peaks.get(host.spec.host),
                "wait_share": wait_share,
                "wait_mean_ns": wait_mean_ns,
                "pss_bytes": done.get("pss_bytes"),
            }
        )
    return rows


def sum_rows(hosts: Iterable[HostWithSums]) -> list[SumRow]:
    """Table sums: one row for each worker that has kept its sums, group of ranks, and
    iteration."""
    kept = [each for host in hosts for each in host.sums]
    if not kept:
        return []
    from testbed.protocols.formats import sum_errors
    from testbed.traffic.rank_graph import GroupRoute
    from testbed.workload import gradients

    rows: list[SumRow] = []
    known: dict[tuple[int, int], tuple[sum_errors.ExactSums | None, np.ndarray | None]] = {}
    for spec, sums in kept:
        job, part = spec.job, spec.program
        named = "" if part is None else str(GroupRoute(*part.groups[part.port - 1]))
        for iteration, words in enumerate(sums):
            place = job.number, iteration
            if place not in known:
                made = sum_errors if job.gradients is None else gradients
                known[place] = (
                    made.exact_sums(spec, iteration),
                    sum_errors.in_rank_order(job, made.words_sent(spec, iteration)),
                )
            exact, in_order = known[place]
            largest, mean = (None, None) if exact is None else sum_errors.errors(job, words, exact)
            rows.append(
                {
                    "job": job.number if part is None else part.job,
                    "communicator": job.number,
                    "group": named,
                    "worker": spec.number if part is None else part.rank,
                    "iteration": iteration,
                    "words": words.astype("<u4").tobytes(),
                    "largest_error": largest,
                    "mean_error": mean,
                    "order_bits": sum_errors.order_bits(words, in_order),
                }
            )
    return rows


def job_rows(
    hosts: Sequence[Host],
    links: Iterable[LinkRow],
    traces: Mapping[int, Trace],
    outcomes: Mapping[int, str],
    shared: Mapping[int, tuple[int, int] | None] = MappingProxyType({}),
) -> list[JobRow]:
    """Table jobs.

    links: rows of table links, which know the servers' links. traces: by job.
    outcomes: by job, of those that have not finished. shared: by job whose servers had their links
    not for the whole run, the bytes to and from them; None without servers.
    """
    by_host = {(row["neighbour"], row["direction"]): row for row in links}
    by_job: dict[int, dict[str, list[Host]]] = {}
    for host in hosts:
        roles = by_job.setdefault(host.spec.job.number, {"worker": [], "ps": []})
        roles[host.spec.role].append(host)
    rows: list[JobRow] = []
    for job, roles in sorted(by_job.items()):
        workers, servers = roles["worker"], roles["ps"]
        spec = workers[0].spec.job
        outcome = outcomes.get(job, "finished")
        end_ns = None
        if outcome == "finished":
            end_ns = max(_end_ns(host) for host in workers)
        values, fragments = sum(tensor.values for tensor in spec.tensors), spec.fragments
        iterations = spec.iterations
        checked = _total(workers, "values_checked")
        if spec.program:  # as a whole it counts as one iteration
            iterations = 1
        due = values * iterations * len(workers)
        ranks = workers[0].spec.program is not None
        if spec.program or ranks:  # what a rank has got, on average, and the sums of all groups
            values = sum(host.totals["values_checked"] for host in workers)
            values //= len(workers) * iterations
            fragments = round(sum(host.totals.get("sums", 0) for host in workers)) // iterations
        if ranks:
            due = sum(host.totals["values_due"] for host in workers)
        carried = (
            # As its switch sees it: what leaves the switch's port goes to the server.
            (_link_bytes(servers, by_host, "egress"), _link_bytes(servers, by_host, "ingress"))
            if job not in shared
            else shared[job] or (None, None)
        )
        rows.append(
            {
                "job": job,
                "name": spec.name,
                "model": traces[job].name,
                "gpu": traces[job].gpu,
                "system": spec.system,
                "fallback": None,
                "refused": None,
                "trees": None,
                "workers": len(workers),
                "iterations": iterations,
                "values": values,
                "fragments": fragments,
                "batch": traces[job].batch,
                "compute_ns": _compute_ns(traces[job], iterations),
                "submitted_ns": spec.submitted_ns,
                "start_ns": spec.start_ns,
                "waiting_ns": spec.start_ns - spec.submitted_ns,
                "end_ns": end_ns,
                "jct_ns": None if end_ns is None else end_ns - spec.submitted_ns,
                "layers": None,
                "layers_simulated": None,
                "messages_simulated": None,
                "layers_ns": None,
                "answers_dropped": traces[job].dropped,
                "outcome": outcome,
                # A worker that finds a wrong value ends the run; these are all that were compared.
                "exact": outcome != "finished" or spec.program or checked == due,
                "values_checked": checked,
                "gradient_packets": _total(workers, "gradient_packets"),
                "retransmissions": _total(workers, "retransmissions"),
                "marked_results": _total(workers, "marked_results"),
                "ps_packets": _total_if_any(servers, "ps_packets"),
                "ps_link_bytes_in": carried[0],
                "ps_link_bytes_out": carried[1],
                "results": _total_if_any(servers, "results"),
                "reminders": _total_if_any(servers, "reminders"),
                "asks": _total_if_any(servers, "asks"),
                # Every worker sees the same results.
                "saturated": max(host.totals["saturated"] for host in workers),
                "communication_bound_ns": _communication_bound_ns(workers),
            }
        )
    return rows


def add_ways(
    rows: Iterable[JobRow],
    system: str,
    jobs: Mapping[int, JobSetup],
    later: Mapping[int, list[str]],
) -> None:
    """Fields of table jobs about the carrier. system: of the experiment. jobs: those that have had
    hosts. later: by job, the roots of its trees after each change."""
    for row in rows:
        job = jobs.get(row["job"])
        if job is None:
            continue
        if job.refused:
            row["fallback"], row["system"], row["refused"] = row["system"], system, job.refused
        elif job.group.trees:
            roots = [job.group.tree_roots, *later.get(row["job"], ())]
            row["trees"] = ", then ".join(roots)


def _compute_ns(trace: Trace, iterations: int) -> int:
    """Compute time of a worker in all iterations; the first one has no update before it."""
    return iterations * trace.compute_ns - trace.update_ns


def flow_row(
    flow: Flow,
    end_ns: int,
    carried: int,
    packets: tuple[int | None, int | None, int | None],
    bursts: tuple[int, int, int] | None,
    measured: Mapping[str, Any] | None = None,
    connection: Mapping[str, int] | None = None,
) -> FlowRow:
    """A row of table flows, of a run that ended at `end_ns`. carried: bytes that arrived. packets:
    sent, received, lost; bursts: how many, the sum of their times and the longest, None: the flow
    has none; measured: see p4fabric/src/p4fabric/simulate/flow_machine.py; connection: further
    columns of a reliable connection."""
    start_ns, over_ns = flow.keys.start_ns, flow.keys.ends_ns(end_ns)
    begun = start_ns < end_ns
    count, total_ns, longest_ns = bursts or (None, 0, 0)
    packets_sent, packets_received, lost = packets
    seen, of_rc = measured or {}, connection or {}
    return {
        "flow": flow.number,
        "name": flow.name,
        "kind": flow.keys.kind,
        "source": flow.source,
        "target": flow.target,
        "begun_ns": start_ns if begun else None,
        "ended_ns": over_ns if begun else None,
        "bytes": carried,
        "mean_bps": 8 * carried * 10**9 // (over_ns - start_ns) if begun else None,
        "packets_sent": packets_sent,
        "packets_received": packets_received,
        "lost": lost,
        "bursts": count,
        "burst_mean_ns": total_ns // count if count else None,
        "burst_max_ns": longest_ns if count else None,
        "duplicates": seen.get("duplicates"),
        "late": seen.get("late"),
        "min_ns": seen.get("min_ns"),
        "mean_ns": seen.get("mean_ns"),
        "p50_ns": seen.get("p50_ns"),
        "p99_ns": seen.get("p99_ns"),
        "max_ns": seen.get("max_ns"),
        "resent_gap": of_rc.get("resent_gap"),
        "resent_timeout": of_rc.get("resent_timeout"),
        "cuts": of_rc.get("cuts"),
        "cnps": of_rc.get("cnps"),
        "marked": of_rc.get("marked"),
    }


def add_mean_rates(links: Iterable[LinkRow], jobs: Iterable[JobRow]) -> None:
    """Column mean_bps of table links: from the first job's start to the last one's end."""
    spans = [(job["start_ns"], job["end_ns"]) for job in jobs if job["end_ns"] is not None]
    if not spans:
        return
    whole_ns = max(end_ns for _, end_ns in spans) - min(start_ns for start_ns, _ in spans)
    for row in links:
        row["mean_bps"] = row["bytes"] * 8 * 10**9 // max(whole_ns, 1)


def _end_ns(host: Host) -> int:
    assert host.done is not None, "its job has finished"
    return host.done["end_ns"]


def _communication_bound_ns(workers: list[Host]) -> int | None:
    """Communication bound of all iterations; None where no link is limited
    (testbed/setup/timing.py), and for a program, whose iterations are not known before."""
    spec = workers[0].spec
    if spec.job.bound_ns is None or spec.job.program or spec.program is not None:
        return None
    return spec.job.bound_ns * spec.job.iterations


def _link_bytes(
    hosts: list[Host], by_host: Mapping[tuple[str, str], LinkRow], direction: str
) -> int | None:
    """Bytes on all these hosts' links; None without hosts, or if one could not be counted."""
    links = [by_host.get((host.spec.host, direction)) for host in hosts]
    known = [link["bytes"] for link in links if link is not None]
    return sum(known) if known and len(known) == len(links) else None


def _total(hosts: list[Host], counter: str) -> int:
    return sum(host.totals[counter] for host in hosts)


def _total_if_any(hosts: list[Host], counter: str) -> int | None:
    return _total(hosts, counter) if hosts else None


def worker_files(hosts: Iterable[HostWithFile]) -> Iterator[tuple[Worker, Times]]:
    """Each worker and its times, from the files that their processes have written;
    the files go. A worker that was killed has none, or one that may end anywhere."""
    for host in hosts:
        if not host.spec.is_worker:
            continue
        if host.done is None:
            host.output.unlink(missing_ok=True)
            continue
        with np.load(host.output) as file:
            times = {name: file[name] for name in file.files}
        host.output.unlink()
        yield (host.spec.job.number, host.spec.number), times


def time_tables(workers: Iterable[tuple[Worker, Times]]) -> dict[str, dict[str, Any]]:
    """Tables iterations, tensors and, of programs of ranks, steps, as columns, from each worker and
    its times (int64 ns, -1 for never: start_ns, compute_end_ns, end_ns [I]; forward_start_ns,
    forward_end_ns, ready_ns, first_sent_ns, done_ns [I, T]; rank_program.node_times)."""
    iterations: list[dict[str, np.ndarray]] = []
    tensors: list[dict[str, np.ndarray]] = []
    steps: list[dict[str, np.ndarray]] = []
    for who, times in workers:
        begun = np.flatnonzero(times["start_ns"] >= 0)
        iterations.append(
            _block(
                who,
                {"iteration": begun},
                {name: times[name][begun] for name in ("start_ns", "compute_end_ns", "end_ns")},
            )
        )
        iteration, tensor = np.nonzero(times["ready_ns"] >= 0)
        names = ("forward_start_ns", "forward_end_ns", "ready_ns", "first_sent_ns", "done_ns")
        tensors.append(
            _block(
                who,
                {"iteration": iteration, "tensor": tensor},
                {name: times[name][iteration, tensor] for name in names},
            )
        )
        if "node_kind" in times:
            ended = (times["node_end_ns"] >= 0) & (times["node_kind"] != "")
            iteration, node = np.nonzero(ended)
            named = {key: times[f"node_{key}"][node] for key in ("kind", "group")}
            keys = {"iteration": iteration, "node": node, "kind": named["kind"]}
            group = [each or None for each in named["group"].tolist()]
            keys["communicator"] = np.array(group, object)
            keys["bytes"] = times["node_bytes"][node]
            spans = {name: times[f"node_{name}"][ended] for name in ("start_ns", "end_ns")}
            steps.append(_block(who, keys, spans))
    tables = {"iterations": iterations, "tensors": tensors, "steps": steps}
    return {name: _columns(blocks) for name, blocks in tables.items() if blocks or name != "steps"}


def _block(
    who: Worker, keys: dict[str, np.ndarray], times: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    size = len(next(iter(keys.values())))
    job, worker = (np.full(size, number, np.int64) for number in who)
    return {"job": job, "worker": worker, **keys, **times}


def _columns(blocks: list[dict[str, np.ndarray]]) -> dict[str, Any]:
    """Blocks below each other; a time of -1 means never, which is null, as are bytes of -1."""
    columns: dict[str, Any] = {}
    for name in blocks[0] if blocks else ():
        column = np.concatenate([block[name] for block in blocks])
        columns[name] = np.ma.masked_less(column, 0) if name.endswith(("_ns", "bytes")) else column
    return columns


def window_times(platform: Platform, hosts: Sequence[Host]) -> dict[int, float | None]:
    """Time that a worker's window of fragments takes at the rate of its job's slowest link, in ns,
    by job; None where no link is limited."""
    bits, topology = platform.longest_frame_bits, platform.topology
    times: dict[int, float | None] = {}
    for job in {host.spec.job.number for host in hosts}:
        members = [host for host in hosts if host.spec.job.number == job]
        links = [topology.ports(host.spec.host)[1][1] for host in members]
        rates = [way.bandwidth_bps for link in links for way in platform.link(link)]
        rate = min((rate for rate in rates if rate), default=None)
        window = max(host.spec.options.window for host in members)
        times[job] = window * bits * 1e9 / rate if rate and window else None
    return times


def switch_rows(
    lives: Mapping[str, Sequence[Mapping[str, int | None]]],
    cpu_peaks: Mapping[str, float | None],
    waits: Callable[[str], Wait],
) -> list[SwitchRow]:
    """Table switches: one row per switch. lives: its `stats()` at the end of each life."""
    rows: list[SwitchRow] = []
    for name, stats in lives.items():

        def whole(
            counter: str,
            of: Callable[[list[int]], int] = sum,
            stats: Sequence[Mapping[str, int | None]] = stats,
        ) -> int | None:
            known = [value for life in stats if (value := life.get(counter)) is not None]
            return of(known) if len(known) == len(stats) else None

        wait_share, wait_mean_ns = waits(name)
        rows.append(
            {
                "switch": name,
                "packets_received": whole("received"),
                "packets_sent": whole("sent"),
                "cpu_ns": whole("cpu_ns"),
                "cpu_peak_share": cpu_peaks.get(name),
                "wait_share": wait_share,
                "wait_mean_ns": wait_mean_ns,
                "late_events": whole("late_events"),
                "late_max_ns": whole("late_max_ns", max),
                "unmodelled_drops": whole("unmodelled_drops"),
            }
        )
    return rows


LINK_COUNTERS = (
    *("packets", "bytes", "queue_drops", "losses", "duplicates", "reordered"),
    *("unmodelled_drops", "max_queue", "refused", "marks", "tie_drops", "down_drops"),
)


def link_rows(platform: Platform, switch: str, stats: Iterable[PortStats]) -> list[LinkRow]:
    """Table links: one switch's ports, from its `port_stats()`, of links that are up."""
    ports = platform.topology.ports(switch)
    rows: list[LinkRow] = []
    for row in stats:
        if row["port"] not in ports:
            continue
        neighbour, link, end = ports[row["port"]]
        sending = end if row["direction"] == "egress" else 1 - end
        rows.append(
            {
                "node": switch,
                "port": row["port"],
                "neighbour": neighbour,
                "direction": row["direction"],
                "rate_bps": platform.link(link)[sending].bandwidth_bps,
                "packets": row["packets"],
                "bytes": row["bytes"],
                "mean_bps": None,
                "queue_drops": row.get("queue_drops"),
                "losses": row.get("losses"),
                "duplicates": row.get("duplicates"),
                "reordered": row.get("reordered"),
                "unmodelled_drops": row.get("unmodelled_drops"),
                "max_queue": row.get("max_queue"),
                "refused": row.get("refused"),
                "marks": row.get("marks"),
                "tie_drops": row.get("tie_drops"),
                "down_drops": row.get("down_drops") if platform.links_fail else None,
            }
        )
    return rows


def lossless_rows(
    platform: Platform, name: str, switch: Buffered, now_ns: int
) -> tuple[list[PauseRow], list[BufferRow]]:
    """Rows of tables pauses and buffers of a switch whose links are lossless. switch: it, or its
    control interface; now_ns: on its clock."""
    assert platform.lossless is not None
    topology, named = platform.topology, {"switch": name}
    told = pauses_by_cause(switch, topology.ports(name), now_ns)
    used = buffer_use(switch, topology, name, platform.lossless.priority)
    return (
        [cast(PauseRow, named | row) for row in told],
        [cast(BufferRow, named | row) for row in used],
    )


def whole_sums(
    platform: Platform, setups: Iterable[JobSetup], switch: str
) -> dict[int, Fraction] | None:
    """By communicator, the share of the sums completed at a switch that have all its workers. None
    where trees change during a run."""
    if platform.links_fail:
        return None
    shares = {each.number: each.group.whole_sums.get(switch) for each in setups}
    return {number: share for number, share in shares.items() if share}


def departure_rows(setup: Setup, switch: str, departed: Iterable[Departed]) -> list[DepartureRow]:
    """Table departures: those of one switch. Owners of tokens are ranks, not servers."""
    packets: Counter[tuple[int, bool, str]] = Counter()
    for number, at_ps, cause, count in departed:
        at_ps = at_ps and not (number in setup.groups and setup.groups[number].of_tokens)
        packets[int(setup.platform.owners[number]), at_ps, cause] += count
    return [
        {"switch": switch, "job": job, "at_ps": at_ps, "cause": cause, "packets": count}
        for (job, at_ps, cause), count in packets.items()
    ]


def together(lives: Sequence[Life]) -> tuple[list[Counted], list[PortStats], list[Departed]]:
    """Counts of a switch over all its lives, between which it was restarted."""
    ports: dict[tuple[int, str], PortStats] = {}
    for _, stats, *_ in lives:
        for row in stats:
            key = row["port"], row["direction"]
            if key not in ports:
                ports[key] = dict(row)
                continue
            before = ports[key]
            for name in LINK_COUNTERS:
                if row.get(name) is not None and before.get(name) is not None:
                    most = name == "max_queue"
                    before[name] = (
                        max(before[name], row[name]) if most else before[name] + row[name]
                    )
    registers = _added(counted for counted, *_ in lives)
    return registers, list(ports.values()), _added(left for _, _, left, *_ in lives)


def loss_rows(
    platform: Platform, switch: str, links: Iterable[LinkRow], lives: Sequence[Notes | None]
) -> list[LossRow]:
    """Table losses: those at one switch, whose rows of table links are `links`. lives: its notes.
    What the links have counted and nobody has noted is of no job."""
    noted: dict[tuple[int, str, str], Counter[int | None]] = defaultdict(Counter)
    for notes in filter(None, lives):
        for (port, direction, job, cause), packets in loss_notes.lost(platform, notes).items():
            noted[port, direction, cause][job] += packets
    rows: list[LossRow] = []
    for link in links:
        for column, cause in LOSS_COLUMNS.items():
            of_jobs = noted[link["port"], link["direction"], cause]
            of_jobs[None] += (cast("Row", link)[column] or 0) - of_jobs.total()
            rows += [
                {
                    "switch": switch,
                    "port": link["port"],
                    "direction": link["direction"],
                    "cause": cause,
                    "job": job,
                    "packets": packets,
                }
                for job, packets in of_jobs.items()
                if packets > 0
            ]
    return rows


def resent_rows(
    platform: Platform,
    jobs: Iterable[JobRow],
    hosts: Sequence[Host],
    notes: Sequence[Notes | None],
    lost_unseen: bool,
) -> list[ResentRow]:
    """Table resent: the retransmissions of each job (rows of table jobs) by what they follow from.

    A switch that has dropped a fragment for want of room says so, and the fragment is sent again
    without being called a retransmission on the wire. lost_unseen: packets were lost that no switch
    could note, so that nothing can be said to follow from no loss."""
    whole = [each for each in notes if each is not None]
    noted = loss_notes.resent(platform, whole)
    signalled: Counter[int] = Counter()
    for host in hosts:
        signalled[host.spec.job.number] += host.totals.get("collisions_signalled", 0)
    rows: list[ResentRow] = []
    for job in jobs:
        number, left = job["job"], job["retransmissions"]
        found = Counter({cause: n for (of, cause), n in noted.items() if of == number})
        if lost_unseen:
            found["unknown"] = found.pop("no_loss", 0)
        left -= sum(found.values())
        if whole and not any(each.missed for each in whole):
            found["collision"] = max(min(left, signalled[number]), 0)
        found["unknown"] += left - found["collision"]
        rows += [{"job": number, "cause": why, "packets": n} for why, n in found.items() if n > 0]
    return rows


def _added(lives: Iterable[Iterable[Any]]) -> list[Any]:
    sums: Counter[tuple] = Counter()
    for counted in lives:
        for *key, value in counted:
            sums[tuple(key)] += value
    return [(*key, value) for key, value in sums.items()]
