"""A run on Mininet and its twin in virtual time: what the twin has, and how both are laid side by
side."""

from __future__ import annotations

import pandas as pd
import pytest
from p4fabric.base.errors import UserError
from p4fabric.base.text_table import Estimate

from testbed.analysis.data.run_summary import estimate, summary
from testbed.analysis.tables import report_tables as tables
from testbed.cli.commands.twin import twin_of
from testbed.cli.main import main
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


def test_the_option_that_is_gone_names_the_section(tmp_path, capsys):
    assert main(["twin", str(tmp_path), "--measured-hosts"]) == 2
    assert "--measured-hosts is gone; a virtual experiment has" in capsys.readouterr().err


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
    assert cells[-1][:2] == ["all", "average JCT"] and cells[-1][4:] == ["-9.1 %", "NO, 6 %"]
    assert "small" in [row[0] for row in cells]
    rows = tables.compared_data(table)["rows"]
    assert {row["name"] for row in rows} == {"big", "small", "all"}
    assert rows[0]["difference"] == pytest.approx(-100 / 11) and rows[0]["within"] is False
    assert [row["within"] for row in rows if row["measure"] == "gradient packets"] == [None, None]
    again = tables.twins(runs[::-1], [summary(each) for each in runs[::-1]])
    assert [again.cells(row) for row in again.rows] == cells
    alike = [runs[0], runs[0]]
    assert tables.twins(alike, [summary(each) for each in alike]) is None


def few(*values: float) -> Estimate:
    return estimate(pd.Series(values))


@pytest.mark.parametrize(
    ("real", "virtual", "shown"),
    [
        (few(100, 101, 99), few(101, 102, 100), ["+1.0 ± 3.5 %", "open, 3 %"]),
        (few(100, 100.1, 99.9), few(101, 101.1, 100.9), ["+1.0 ± 0.4 %", "yes, 3 %"]),
        (few(100, 100.1, 99.9), few(104, 104.1, 103.9), ["+4.0 ± 0.4 %", "NO, 3 %"]),
        (few(100, 101, 99), few(104, 105, 103), ["+4.0 ± 3.5 %", "open, 3 %"]),
        (few(100, 100), few(95, 95), ["-5.0 %", "yes, 6 %"]),  # too few for an interval
        (few(100), few(93), ["-7.0 %", "NO, 6 %"]),
    ],
)
def test_a_difference_is_judged_with_its_interval(real, virtual, shown):
    difference, verdict = tables._compared(real, virtual, real.mean)
    assert [difference.text, verdict.text] == shown
    assert verdict.number is {"yes": True, "NO": False, "open": None}[verdict.text.split(",")[0]]


def test_resent_packets_are_judged_in_relation_to_all():
    """Twice as many of a few are no difference; as many of a few packets are."""
    both = few(1, 1, 1), few(2, 2, 2)
    assert tables._compared(*both, 1000.0)[1].text == "yes, 3 %"
    assert tables._compared(*both, 10.0)[1].text == "NO, 3 %"
    assert tables._compared(few(0, 0, 0), few(2, 2, 2), 10.0) == ["new", ("NO, 3 %", False)]
    assert tables._compared(*both, None)[1] == "-"


@pytest.mark.parametrize("resent", [0.05, 0.07])
def test_a_twin_that_resends_more_is_beyond_its_limit(tmp_path, resent):
    runs = [write_experiment_run(tmp_path), write_experiment_run(tmp_path, "virtual")]
    frames = [summary(each) for each in runs]
    jobs = frames[1]["jobs"]
    jobs["retransmissions"] = (
        frames[0]["jobs"]["retransmissions"] + resent * jobs["gradient_packets"]
    )
    assert tables.beyond_limits(tables.twins(runs, frames)) is (resent > 0.06)
