"""Warnings about settings that decide a comparison although they are not its question.

What takes the time of a call, or of a tensor of the training loop, is its bytes on the busiest link
(link_loads.py), or round trips. Where round trips decide, hosts' delays do, and systems compare as
their latencies do, whatever they save in bytes. A model's scale shrinks bytes and leaves round
trips as they are, so it may change which of the two decides. A window below the bandwidth-delay
product leaves links idle, whichever system has it. And where a parameter server's link is the
busiest, the number and the places of servers decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from p4fabric.base.units import number, ratio, time

from testbed.setup.call_times import latency_ns
from testbed.setup.job_setups import JobSetup, Setup
from testbed.setup.link_loads import Sizes, Way, call_ns, loads_of, sizes_of
from testbed.setup.scale_check import jobs_said
from testbed.setup.timing import product_of, round_trip_ns
from testbed.systems.tuned_options import BEST, WINDOW

ROUND_TRIPS = 4  # of a call that is short
MOST = 0.5  # of a program's calls: latency decides
BUSIER = 1.05  # times as busy as the busiest other link


def warnings(setup: Setup, tuned: bool = False) -> list[str]:
    """Warnings about jobs that are there from the start. tuned: the window will be."""
    if setup.arrivals is not None:
        return []
    named: dict[str, dict[str, None]] = {}  # texts without the jobs' names
    for job in setup.jobs.values():
        if job.job.is_program:
            continue  # nobody knows what it will send
        bounds = _bounds(setup, job)
        windows = () if tuned else _window(setup, job)
        for text in (*_short_calls(bounds, job), *_scale(bounds, job), *windows):
            named.setdefault(text, {})[job.name] = None
    found = [f"{jobs_said([*names])}: {text}" for text, names in named.items()]
    return [*found, *_busy_server(setup)]


@dataclass(frozen=True)
class _Bounds:
    """Calls of an iteration, or tensors: how many there are, how many are short, and the least time
    in ns of all their bytes and of all their round trips, one after the other."""

    calls: int
    short: int
    bytes_ns: int
    trips_ns: int


def _bounds(setup: Setup, job: JobSetup) -> _Bounds:
    calls = short = bytes_ns = trips_ns = 0
    for each, sizes, times in _calls(setup, job):
        own_ns = call_ns(each.platform, each.group, sizes)
        trip_ns = latency_ns(each.platform, each.group, sizes.collective)
        calls += times
        short += times * (own_ns < ROUND_TRIPS * trip_ns)
        bytes_ns, trips_ns = bytes_ns + times * own_ns, trips_ns + times * trip_ns
    return _Bounds(calls, short, bytes_ns, trips_ns)


def _calls(setup: Setup, job: JobSetup) -> Iterator[tuple[JobSetup, Sizes, int]]:
    """(communicator's set-up, sizes, how often) of an iteration's calls."""
    if not job.job.has_ranks:
        for size, times in Counter(job.trace.sizes).items():
            yield job, Sizes(int(size)), times
        return
    for group in setup.groups.values():
        if group.ranks is not None and group.ranks.job == job.number:
            for sizes, times in Counter(map(sizes_of, group.ranks.calls.calls)).items():
                yield group, sizes, times


def _short_calls(bounds: _Bounds, job: JobSetup) -> Iterator[str]:
    if job.job.has_ranks and bounds.short > MOST * bounds.calls:
        yield (
            f"latency decides: {number(bounds.short)} of {number(bounds.calls)}"
            f" calls have bytes for less than {ROUND_TRIPS} round trips (all bytes"
            f" {time(bounds.bytes_ns)}, all round trips {time(bounds.trips_ns)}). How systems"
            " compare depends on the delays of hosts and links (docs/verdicts.md)"
        )


def _scale(bounds: _Bounds, job: JobSetup) -> Iterator[str]:
    """Nothing where the network is scaled along."""
    scale = job.job.scale
    full_ns = bounds.bytes_ns / scale
    if job.platform.full_size is None and bounds.bytes_ns < bounds.trips_ns <= full_ns:
        what = "calls" if job.job.has_ranks else "tensors"
        remedy = ", or scale_windows: yes" if job.platform.virtual is not None else ""
        if remedy and job.job.is_transformer:
            remedy = ", or scale 1 with layers: sampled (docs/workloads.md#sampled-layers)"
        trips = f"a round trip for each of {number(bounds.calls)} {what} {time(bounds.trips_ns)}"
        yield (
            f"scale {scale:g} changes what decides: the bytes take at least"
            f" {time(bounds.bytes_ns)}, and {trips}; at full size bytes decide, with"
            f" {time(full_ns)}. Take a scale of at least"
            f" {scale * bounds.trips_ns / bounds.bytes_ns:.2g}{remedy} (docs/verdicts.md)"
        )


def _window(setup: Setup, job: JobSetup) -> Iterator[str]:
    for each in (job, *setup.groups.values()):
        if each is not job and (each.ranks is None or each.ranks.job != job.number):
            continue
        if each is job and job.job.has_ranks:
            continue  # its groups are what sends
        product = product_of(each.platform, each.group)
        if each.window < product:
            trip_ns = round_trip_ns(each.platform, each.group)
            yield (
                f"a window of {number(each.window)} fragments is below the"
                f" bandwidth-delay product, {number(product)} fragments ({time(trip_ns)}), so links"
                f" are idle for a part of the time; `{WINDOW}: {BEST}` tries larger ones, as far as"
                " switch memory has room (docs/verdicts.md)"
            )


def _busy_server(setup: Setup) -> Iterator[str]:
    servers = {host: job for job in setup.jobs.values() for host in job.group.servers}
    if not servers:
        return
    platform, sizes = setup.platform, Counter[Way]()
    for number_, job in setup.jobs.items():
        if not job.job.is_program:
            loads = loads_of(setup, number_)
            for (way, _), size in loads.bytes.items():
                sizes[way] += size
    least: dict[bool, tuple[int, Way]] = {}
    for (link, end), size in sizes.items():
        rate = platform.link(link)[end].bandwidth_bps
        of_server = not servers.keys().isdisjoint(platform.topology.links[link])
        time_ns = 8 * 10**9 * size // rate if rate else 0
        least[of_server] = max(least.get(of_server, (0, (link, end))), (time_ns, (link, end)))
    (own_ns, (link, end)), (other_ns, _) = least.get(True, (0, (0, 0))), least.get(False, (0, 0))
    if own_ns > BUSIER * other_ns > 0:
        nodes = platform.topology.links[link]
        server = next(node for node in nodes if node in servers)
        yield (
            f"the busiest link is that of {server}, a parameter server of job"
            f" {servers[server].name}: {time(own_ns)} per iteration, {ratio(own_ns / other_ns)}"
            f" times as long as any other link ({time(other_ns)}). How systems compare depends on"
            " how many servers there are, and where (docs/verdicts.md)"
        )
