"""A run on Mininet and its twin in virtual time: what the twin has, and how both are laid side by
side."""

from __future__ import annotations

import pytest

from testbed.analysis.data.run_summary import summary
from testbed.analysis.tables import report_tables as tables
from testbed.cli.twin_command import twin_of
from testbed.errors import UserError
from testbed.experiment import load_text
from testbed.results import Writer, read
from tests.support import synthetic_results as synthetic

TEXT = """
name: real
topology: {kind: star, hosts: 6}
links: {bandwidth: 10 Mbit/s}
system: {name: esa}
memory: {aggregators: 64}
timers: {ack_delay: 3 ms}
jobs:
  - {name: big, model: vgg16, workers: 2, iterations: 2, scale: 0.001}
  - {name: small, model: resnet50, workers: 2, iterations: 3, scale: 0.001}
"""


def run(parent, runtime="mininet", stretch=1.0, finish=True):
    environment = {**synthetic.ENVIRONMENT, "runtime": runtime}
    text = load_text(TEXT.replace("topology:", f"runtime: {runtime}\ntopology:")).resolved_yaml()
    with Writer.create(parent, runtime, text, environment) as writer:
        for table, rows in synthetic.tables("esa", stretch, 0.5).items():
            writer.write(table, rows, repetition=0)
        if finish:
            writer.finish()
        else:
            writer.fail("it was tired")
    return read(writer.folder)


def test_a_twin_has_all_but_the_clock(tmp_path):
    original, twin = load_text(TEXT), twin_of(run(tmp_path))
    assert twin.runtime == "virtual" and twin.name == "real-virtual"
    assert [job.fixed_placement for job in twin.jobs] == [
        job.fixed_placement for job in original.jobs
    ]
    # The real clock's timers, where virtual time would choose others.
    assert twin.timers.min_timeout_ns == 100_000_000
    assert twin.timers.burst_ns == 10_000_000
    assert twin.timers.ack_delay_ns == 3_000_000
    assert twin.system.window == 128
    assert twin.virtual.worker_delay_ns == 1750


def test_hosts_may_be_as_late_as_the_run_was(tmp_path):
    results = run(tmp_path)
    virtual = twin_of(results, measured_hosts=True).virtual
    assert virtual.worker_delay_ns == results.hosts.lag_p50_ns.median() > 0
    assert virtual.worker_jitter_ns == virtual.server_delay_ns == virtual.worker_delay_ns
    workers = results.hosts[results.hosts.role == "worker"]
    packets = workers.packets_sent + workers.packets_received
    assert virtual.worker_packet_time_ns == int((workers.cpu_ns / packets).median())


def test_what_has_no_twin(tmp_path):
    with pytest.raises(UserError, match="name a run on Mininet"):
        twin_of(run(tmp_path, "virtual"))
    with pytest.raises(UserError, match="it was tired.*a twin needs a finished run"):
        twin_of(run(tmp_path, finish=False))


def test_twins_are_laid_side_by_side(tmp_path):
    runs = [run(tmp_path, stretch=1.1), run(tmp_path, "virtual")]
    table = tables.twins(runs, [summary(each) for each in runs])
    cells = [table.cells(row) for row in table.rows]
    assert cells[0][:2] == ["big", "JCT"] and cells[0][4] == "+10.0 %"
    assert "small" in [row[0] for row in cells]
    again = tables.twins(runs[::-1], [summary(each) for each in runs[::-1]])
    assert [again.cells(row) for row in again.rows] == cells
    alike = [runs[0], runs[0]]
    assert tables.twins(alike, [summary(each) for each in alike]) is None
