"""A run on Mininet and its twin in virtual time: what the twin has, and how both are laid side by
side."""

from __future__ import annotations

import pytest

from testbed.analysis.data.run_summary import summary
from testbed.analysis.tables import report_tables as tables
from testbed.cli.commands.twin import twin_of
from testbed.errors import UserError
from testbed.experiment import load_text
from tests.support.synthetic_results import EXPERIMENT, write_experiment_run


def test_a_twin_differs_only_in_its_clock(tmp_path):
    original, twin = load_text(EXPERIMENT), twin_of(write_experiment_run(tmp_path))
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
    results = write_experiment_run(tmp_path)
    virtual = twin_of(results, measured_hosts=True).virtual
    assert virtual.worker_delay_ns == results.hosts.lag_p50_ns.median() > 0
    assert virtual.worker_jitter_ns == virtual.server_delay_ns == virtual.worker_delay_ns
    workers = results.hosts[results.hosts.role == "worker"]
    packets = workers.packets_sent + workers.packets_received
    assert virtual.worker_packet_time_ns == int((workers.cpu_ns / packets).median())


def test_other_runs_have_no_twin(tmp_path):
    with pytest.raises(UserError, match="name a run on Mininet"):
        twin_of(write_experiment_run(tmp_path, "virtual"))
    with pytest.raises(UserError, match="it was tired.*a twin needs a finished run"):
        twin_of(write_experiment_run(tmp_path, finish=False))


def test_twins_are_laid_side_by_side(tmp_path):
    runs = [write_experiment_run(tmp_path, stretch=1.1), write_experiment_run(tmp_path, "virtual")]
    table = tables.twins(runs, [summary(each) for each in runs])
    cells = [table.cells(row) for row in table.rows]
    assert cells[0][:2] == ["big", "JCT"] and cells[0][4:] == ["-9.1 %", "NO, 6 %"]
    assert cells[-1][:2] == ["all", "average JCT"] and cells[-1][4:] == ["-9.1 %", "NO, 2 %"]
    assert "small" in [row[0] for row in cells]
    rows = tables.compared_data(table)["rows"]
    assert {row["name"] for row in rows} == {"big", "small", "all"}
    assert rows[0]["difference"] == pytest.approx(-100 / 11) and rows[0]["within"] is False
    assert [row["within"] for row in rows if row["measure"] == "gradient packets"] == [None, None]
    again = tables.twins(runs[::-1], [summary(each) for each in runs[::-1]])
    assert [again.cells(row) for row in again.rows] == cells
    alike = [runs[0], runs[0]]
    assert tables.twins(alike, [summary(each) for each in alike]) is None
