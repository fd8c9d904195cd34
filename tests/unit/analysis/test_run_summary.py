"""The numbers of the synthetic run, worked out by hand (its packets are counted in its module)."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from p4fabric.base import units
from p4fabric.base.text_table import Column, Estimate, Row, Spread, Table

from testbed.analysis.data import run_summary
from testbed.analysis.data.run_summary import interval, summary
from testbed.results import Writer, read
from tests.support.synthetic_results import ENVIRONMENT, tables, write_run, write_tables


def write(parent, changed):
    """A finished run of one repetition whose tables `changed` has replaced in part."""
    return write_tables(parent, (tables() | changed), name="changed", text="name: changed")


def test_a_caller_s_changes_reach_nobody_else(tmp_path):
    results = read(write_run(tmp_path))
    jobs = summary(results)["jobs"]
    jobs["jct_ns"] = 0
    assert (summary(results)["jobs"]["jct_ns"] > 0).all()


def test_a_program_of_ranks_waits_within_its_iterations(tmp_path):
    """Its computation is the nominal one, not what lies between its first and last step."""
    call = {"job": 1, "worker": 0, "communicator": "dp", "collective": "all_reduce",
            "dtype": "float32", "route": "system", "calls": 1, "bytes": 4,
            "time_ns": 5}  # fmt: skip
    jobs = tables()["jobs"]
    for job in jobs:
        job["compute_ns"] = 7_000_000 * job["iterations"]
    plain = summary(write(tmp_path / "as_it_is", {}))["jobs"]["computation_ns"]
    found = summary(write(tmp_path / "ranks", {"jobs": jobs, "collectives": [call]}))["jobs"]
    assert found["computation_ns"].tolist() == [plain[0], 7e6] and plain[1] != 7e6


def test_of_tokens_in_packets_owners_get_the_sums_and_no_server(tmp_path):
    results = read(write_run(tmp_path))
    owned = {"model": {"transformer": "mixtral-8x7b", "experts": {"calls": "packets"}}}
    results.experiment["jobs"] = [{"model": "resnet50"}, owned]
    found = summary(results)
    assert found["jobs"]["ps_packets_per_fragment"].isna().tolist() == [False, True]
    assert found["run"]["ps_packets_per_fragment"].isna().all()


def test_an_empty_folder_has_empty_frames(tmp_path):
    found = summary(read(Writer.create(tmp_path, "empty", "", ENVIRONMENT).folder))
    assert {name: len(frame) for name, frame in found.items()} == dict.fromkeys(found, 0)


def test_interval():
    # n = 3, t(0.975, 2) = 4.3027, s = 1: 4.3027 / sqrt(3) = 2.4842
    mean, half = interval(pd.Series([1.0, 2.0, 3.0]))
    assert (mean, half) == (2.0, pytest.approx(2.4842, abs=1e-4))
    mean, half = interval(pd.Series([7.0]))
    assert mean == 7.0 and pd.isna(half)
    assert pd.isna(interval(pd.Series([], dtype=float))[0])
    # n = 2, t(0.975, 1) = 12.7062, s / sqrt(2) = 0.5
    assert interval(pd.Series([1.0, 2.0])) == (1.5, pytest.approx(6.3531, abs=1e-4))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (units.time(0), "0 ns"),
        (units.time(1_234_567), "1.23 ms"),
        (units.time(999_960), "1.00 ms"),
        (units.time(61e9), "61.0 s"),
        (units.time(None), "-"),
        (units.time(pd.NA), "-"),
        (units.spread(Spread(50e6, 45e6, 55.25e6)), "50.0 (45.0 .. 55.2) ms"),
        (units.spread(Spread(50e6, None, 55.25e6)), "-"),
        (units.significant(12_345), "12 345"),
        (units.size(12_345_678), "12.3 MB"),
        (units.share(0.1234), "12.3 %"),
        (units.number(1_234_567), "1 234 567"),
        (units.number(84.123), "84.1"),
        (units.number(float("nan")), "-"),
        (units.ratio(1.4), "1.400"),
    ],
)
def test_quantities_as_people_read_them(text, expected):
    assert text == expected


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ((287.5e6, 1.2e9, None), ["288 ms", "1 200 ms", "-"]),
        ((9.8e6, 21.4e6, 0), ["9.80 ms", "21.4 ms", "0 ms"]),
        ((3e6, 40e9), ["0.00300 s", "40.0 s"]),  # 40 000 ms would be long
        ((), []),
    ],
)
def test_a_column_has_one_unit(values, texts):
    show = units.time.common(values)
    assert [show(value) for value in values] == texts


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(8.19e9, 51.2e6, 3), "8.19 ± 0.05 s"),
        (Estimate(8.19e9, 1e6, 3), "8.19 ± 0.00100 s"),  # no interval of nothing
        (Estimate(8e6, 17.2e6, 3), "8.00 ± 17.20 ms"),  # wider than the mean, and not 215.1 %
        (Estimate(8e6, 17.2e6, 2), "8.00 ms"),  # of two repetitions there is none
        (Estimate(1.2e9, 35e6, 5, "mean "), "mean 1.20 ± 0.04 s"),
        (Estimate(float("nan"), float("nan"), 0), "-"),
    ],
)
def test_an_interval_has_the_unit_of_its_mean(estimate, text):
    table = Table("t", "", [Column("x", "x", units.time)], [Row([estimate])])
    assert table.cells(table.rows[0]) == [text]


@given(rates=st.lists(st.floats(1e3, 1e12), min_size=1, max_size=20), scale=st.floats(0.1, 10))
def test_fairness_is_jains_index(rates, scale):
    """1 for equal rates, at least 1 / n, whatever the unit; 1 / n where one flow has all."""
    found = run_summary._of_flows(pd.DataFrame({"mean_bps": rates}))
    scaled = run_summary._of_flows(pd.DataFrame({"mean_bps": [scale * each for each in rates]}))
    assert found["flows_jain"] == pytest.approx(scaled["flows_jain"])
    assert 1 / len(rates) - 1e-9 <= found["flows_jain"] <= 1 + 1e-9
    assert found["flows_bps"] == pytest.approx(sum(rates) / len(rates))
    assert found["flow_bps"] == rates[0]
    equal = run_summary._of_flows(pd.DataFrame({"mean_bps": rates[:1] * 5}))
    alone = run_summary._of_flows(pd.DataFrame({"mean_bps": [rates[0], 0, 0, 0]}))
    assert equal["flows_jain"] == pytest.approx(1) and alone["flows_jain"] == pytest.approx(0.25)


def test_runs_without_flows_have_no_fairness():
    found = run_summary._of_flows(pd.DataFrame({"mean_bps": []}))
    assert np.isnan(found["flows_jain"]) and np.isnan(found["flows_bps"])
