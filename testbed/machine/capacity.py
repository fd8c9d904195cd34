"""The load of an experiment on this machine, by the measurements of `ina calibrate`.

The links of a job allow a number of packets per second (testbed/setup/timing.py). While it
communicates, its hosts send at that rate. If hosts and switches do not have the processor time for
it, the network of the results is slower than that of the file. The check assumes that all jobs
communicate at the same time, which is the worst case and does happen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from testbed.algorithms.bounds import cost
from testbed.config.units import RATE, about
from testbed.machine.calibration import Calibration, Measured
from testbed.paths import command_line

if TYPE_CHECKING:
    from testbed.setup import Setup

HEADROOM = 0.5  # of what was measured; bench/fidelity.py and docs/fidelity.md say why
CALIBRATED_VALUES = 64  # per packet; larger packets cost more


@dataclass(frozen=True)
class Demand:
    """Gradient packets/s that a job's links allow: of all its workers, of one worker, and those
    that each of its servers has to do with."""

    job: str
    rate: float
    worker_rate: float
    server_rate: float


def demands(setup: Setup) -> list[Demand]:
    """Demands of the jobs whose links have a limit."""
    found = []
    for job in setup.jobs.values():
        if not job.bound_ns:
            continue
        own, workers, servers = job.fragments, len(job.group.workers), len(job.group.servers)
        if job.group.algorithm:
            shares = cost(job.group.algorithm, "all_reduce", job.group.ranks)
            own = int(own * max(map(shares.sent, range(workers))))
        worker_rate = own * 1e9 / job.bound_ns
        rate = worker_rate * workers
        found.append(Demand(job.name, rate, worker_rate, rate / max(servers, 1)))
    return found


def load_share(wanted: list[Demand], measured: Measured, cores: int) -> tuple[float, str]:
    """(share of what there is that the experiment asks for, of what); the largest such share."""
    rate = sum(each.rate for each in wanted)
    shares = [(rate / measured.rate, "of the whole machine")]
    if measured.total_ns is not None:
        shares.append((rate * measured.total_ns / 1e9 / cores, "of all cores"))
    if measured.switch_ns is not None:
        shares.append((rate * measured.switch_ns / 1e9, "of a core for the switch"))
    for each in wanted:
        worker = each.worker_rate * measured.worker_ns / 1e9
        shares.append((worker, f"of a core for each worker of job {each.job}"))
        if measured.server_ns is not None:
            server = each.server_rate * measured.server_ns / 1e9
            shares.append((server, f"of a core for a server of job {each.job}"))
    return max(shares)


def of_bmv2(measured: Measured, values: int) -> Measured:
    """The measurement, for another number of values per packet: every value is a register that
    simple_switch reads and writes, and 64 of them cost it as much as all the rest of a packet
    (bench/bmv2.py alone)."""
    dearer = (CALIBRATED_VALUES + values) / (2 * CALIBRATED_VALUES)
    total_ns = None if measured.total_ns is None else measured.total_ns * dearer
    return replace(measured, rate=measured.rate / dearer, total_ns=total_ns)


def warnings(setup: Setup, calibration: Calibration | None) -> list[str]:
    """Warnings before a run that this machine cannot carry; [] when it can, or when nothing is
    known."""
    platform = setup.platform
    if platform.virtual is not None or calibration is None:
        return []
    name, switch = platform.system.name, platform.switch
    # All algorithms of hosts are one machine, and the ring is measured.
    known = "ring" if platform.system.algorithm else name
    measured = calibration.systems.get(switch, {}).get(known)
    wanted = demands(setup)
    if measured is None or not wanted:
        return []
    if switch == "bmv2":
        measured = of_bmv2(measured, platform.values)
    share, whose = load_share(wanted, measured, int(calibration.machine["cores"]))
    larger = switch != "bmv2" and platform.values > CALIBRATED_VALUES
    if share <= HEADROOM:
        return []
    factor = HEADROOM / share
    most = max(wanted, key=lambda each: each.rate).job
    slowest = _slowest_rate(setup, most)
    rate = sum(each.rate for each in wanted)
    lines = [
        f"this machine is too slow for these links: they carry {rate:,.0f} gradient packets/s,"
        f" which takes {share:.0%} {whose} ({command_line('calibrate')}, {calibration.date};"
        f" {HEADROOM:.0%} leave JCT as it is)"
    ]
    if slowest is not None:
        lines.append(
            f"what fits: links at {factor:.2g} times their bandwidth, at most"
            f" {about(slowest * factor, RATE, digits=3)} where job {most} has"
            f" {about(slowest, RATE, digits=3)} now, and"
            f" compute_scale {_times(1 / factor)} times as large, so that computation and"
            " communication keep their ratio; or `runtime: virtual`, which needs no time of the"
            " machine"
        )
    if larger:
        lines.append(
            f"packets of {platform.values} values cost more than the"
            f" {CALIBRATED_VALUES} that were measured"
        )
    return ["\n  ".join(lines)]


def _slowest_rate(setup: Setup, name: str) -> int | None:
    """Rate in bit/s of the slowest link of a job's workers and servers."""
    group = next(job.group for job in setup.jobs.values() if job.name == name)
    platform = setup.platform
    links = [platform.topology.ports(host)[1][1] for host in group.hosts]
    rates = [direction.bandwidth_bps for link in links for direction in platform.link(link)]
    return min((rate for rate in rates if rate), default=None)


def _times(factor: float) -> str:
    return f"{factor:.2g}" if factor < 10 else f"{factor:,.0f}"
