"""Jobs of many workers, many jobs in a run, and many of them at one time."""

from __future__ import annotations

import pytest

from testbed.protocols import sizes
from tests.support.experiments import experiment
from tests.support.virtual import run_virtual

WIDE = """
name: wide
runtime: virtual
topology: {kind: two_level, tors: 3, hosts: %(hosts)d, servers: 2}
links: {bandwidth: 100 Gbit/s, delay: 1 us, loss: %(loss)s}
system: {name: %(system)s, window: 16}
%(memory)s
values_per_packet: 4
jobs: [{model: resnet18, workers: %(workers)d, iterations: 2, scale: 0.00001, compute_scale: 0}]
"""
MANY = """
name: many
runtime: virtual
topology: {kind: two_level, tors: %(tors)d, hosts: %(hosts)d, servers: 1}
links: {bandwidth: 100 Gbit/s, delay: 1 us}
system: %(system)s
memory: {aggregators: 4096}
values_per_packet: 4
arrivals:
  at_once: %(at_once)s
  poisson:
    jobs: %(jobs)d
    interval: %(interval)s
    kinds: [{model: resnet18, workers: 1, iterations: 1, scale: 0.00001, compute_scale: %(compute)s}]
"""  # noqa: E501


@pytest.mark.parametrize(
    ("system", "workers", "loss"),
    [
        pytest.param("esa", 1000, "0 %"),
        pytest.param("switchml", 600, "0.05 %", marks=pytest.mark.slow),
        pytest.param("atp", 300, "0.05 %"),
        pytest.param("ps", 1024, "0 %", marks=pytest.mark.slow),
    ],
)
def test_a_job_of_many_workers_is_exact(system: str, workers: int, loss: str) -> None:
    memory = "" if system == "ps" else "memory: {aggregators: 64}"
    names = {"system": system, "workers": workers, "loss": loss, "memory": memory}
    made = experiment(WIDE % {**names, "hosts": -(-workers // 3)})
    assert made.bitmap_bits == sizes.bitmap_width(workers) >= workers
    (job,) = run_virtual(made)["jobs"]
    assert job["workers"] == workers and job["exact"]
    assert job["values_checked"] == job["values"] * workers * 2


def many(system: str = "esa", **names: object) -> dict:
    usual = {"tors": 2, "hosts": 10, "at_once": "all", "interval": "200 ns", "compute": "0"}
    return run_virtual(experiment(MANY % {**usual, "system": system, **names}))


@pytest.mark.parametrize("system", ["esa", "switchml"])
def test_more_jobs_than_a_program_serves_at_first(system: str) -> None:
    tables = many(system, jobs=sizes.FEWEST_JOBS + 44, at_once="9")
    jobs = tables["jobs"]
    assert len(jobs) == 300 and all(job["exact"] for job in jobs)
    assert {job["job"] for job in jobs} == set(range(300))
    counted = {row["job"] for row in tables["switch_counters"] if row["value"]}
    assert counted == set(range(300))


@pytest.mark.slow
def test_thousands_of_jobs_at_one_time() -> None:
    jobs = many(jobs=2048, tors=20, hosts=205, interval="1 ns", compute="1")["jobs"]
    assert len(jobs) == 2048 and all(job["exact"] for job in jobs)
    assert max(job["start_ns"] for job in jobs) < min(job["end_ns"] for job in jobs)


def test_limits() -> None:
    assert [sizes.bitmap_width(n) for n in (1, 32, 33, 257, 1024)] == [32, 32, 64, 512, 1024]
    assert [sizes.job_places(n) for n in (1, 256, 257, 4096, sizes.MAX_JOBS)] == [
        *(256, 256, 512, 4096, 65536)
    ]
