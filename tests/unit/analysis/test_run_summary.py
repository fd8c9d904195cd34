"""The numbers of the synthetic run, worked out by hand (its packets are counted in its module)."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from p4fabric.base import units
from p4fabric.base.text_table import Column, Estimate, Row, Spread, Table

from testbed.analysis.data import run_summary
from testbed.analysis.data.run_summary import interval, iteration_times, spans, summary
from testbed.analysis.tables.report_tables import comparable
from testbed.results import Writer, read
from tests.support.synthetic_results import ENVIRONMENT, FRAME, tables, write_run, write_tables


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    return summary(read(write_run(tmp_path_factory.mktemp("run"), stretches=(1.0, 2.0))))


def write(parent, changed):
    """A finished run of one repetition whose tables `changed` has replaced in part."""
    return write_tables(parent, (tables() | changed), name="changed", text="name: changed")


def test_jobs(frames):
    jobs = frames["jobs"].set_index(["repetition", "job"])
    big, small = jobs.loc[(0, 0)], jobs.loc[(0, 1)]
    # big: 12 complete sums + 10 collided + 3 evicted + 3 pulled = 28 packets for 20 fragments
    assert (big["fragments"], small["fragments"]) == (20, 30)
    assert big["ps_packets_per_fragment"] == pytest.approx(1.4)
    assert small["ps_packets_per_fragment"] == pytest.approx(1.1)
    assert (big["in_switch_share"], small["in_switch_share"]) == (0.6, 0.9)
    assert (big["jct_ns"], small["jct_ns"]) == (100e6, 60e6)
    assert jobs.loc[(1, 0)]["jct_ns"] == 200e6
    assert big["ps_link_bytes_in"] == 28 * 326
    # worker 0 ends at 50 and 100: 50 + 50; worker 1 at 52 and 100: 52 + 48
    assert big["iteration_mean_ns"] == 50e6
    assert (big["iteration_min_ns"], big["iteration_max_ns"]) == (48e6, 52e6)
    assert small["iteration_mean_ns"] == 20e6


def test_a_caller_s_changes_reach_nobody_else(tmp_path):
    results = read(write_run(tmp_path))
    jobs = summary(results)["jobs"]
    jobs["jct_ns"] = 0
    assert (summary(results)["jobs"]["jct_ns"] > 0).all()


def test_iteration_times_add_up_to_the_time_that_a_worker_trained(tmp_path):
    times = iteration_times(read(write_run(tmp_path)))
    sums = times.groupby(["job", "worker"])["time_ns"].sum()
    assert sums.to_dict() == {(0, 0): 100e6, (0, 1): 100e6, (1, 0): 60e6, (1, 1): 60e6}


def test_switch_memory(frames):
    rows = frames["switches"].set_index("repetition")
    first = rows.loc[0]
    # 8 aggregators x 100 ms = 800 aggregator-ms; completed 100 + 60, evicted 40, pulled 24,
    # held 48 + 32
    assert (first["aggregators"], first["span_ns"]) == (8, 100e6)
    assert first["filling_completed_share"] == pytest.approx(0.2)
    assert first["filling_evicted_share"] == pytest.approx(0.05)
    assert first["filling_pulled_share"] == pytest.approx(0.03)
    assert pd.isna(first["filling_open_share"])
    assert first["filling_share"] == pytest.approx(0.28)
    assert first["held_share"] == pytest.approx(0.1)
    assert first["free_share"] == pytest.approx(0.62)
    # 18 + 24 claims, 3 preemptions, 12 + 27 completions = 84 in 8 x 0.1 s
    assert first["absorbed"] == 84
    assert first["absorbed_per_aggregator_s"] == pytest.approx(105)
    assert rows.loc[1]["absorbed_per_aggregator_s"] == pytest.approx(52.5)


def test_events_keep_their_order_and_leave_out_what_was_not_counted(frames):
    rows = frames["events"]
    first = rows[rows["repetition"] == 0]
    assert list(dict.fromkeys(first["event"])) == [
        "allocations",
        "completions",
        "preemptions",
        "downgrades",
        "reminders",
        "releases",
    ]
    assert first[first["event"] == "allocations"]["value"].tolist() == [18, 24]


def test_run(frames):
    row = frames["run"].set_index("repetition").loc[0]
    assert row["ps_packets_per_fragment"] == pytest.approx(61 / 50)
    assert row["in_switch_share"] == pytest.approx(39 / 50)
    assert row["jct_mean_ns"] == 80e6
    assert row["ps_link_bytes_in"] == 61 * FRAME
    assert row["values_checked"] == 2560 + 3840
    assert bool(row["exact"])
    assert row["free_share"] == pytest.approx(0.62)


def test_two_switches_weigh_as_their_aggregators(tmp_path):
    changed = tables()
    # A second switch of 24 aggregators, half of them held all the time.
    counters = changed["switch_counters"] + [
        {"switch": "s2", "job": 0, "counter": "filling_completed_ns", "value": 0},
        {"switch": "s2", "job": 0, "counter": "held_ns", "value": 12 * 100_000_000},
    ]
    memory = changed["memory"] + [
        {"switch": "s2", "time_ns": 0, "job": 0, "occupied": 0, "held": 12, "capacity": 24}
    ]
    found = summary(write(tmp_path, {"switch_counters": counters, "memory": memory}))
    assert found["switches"]["held_share"].tolist() == pytest.approx([0.1, 0.5])
    # (8 x 0.1 + 24 x 0.5) / 32
    assert found["run"]["held_share"].iloc[0] == pytest.approx(0.4)


def test_completions_of_several_switches_are_unknown_without_the_counter_of_whole_sums(tmp_path):
    changed = tables()
    more = [{"switch": "s2", "job": 0, "counter": "completions", "value": 20}]
    counters = changed["switch_counters"] + more
    found = summary(write(tmp_path / "failed", {"switch_counters": counters}))
    assert found["jobs"]["in_switch_share"].isna().all()
    assert found["run"]["in_switch_share"].isna().all()
    whole = [
        {"switch": "s1", "job": job, "counter": "sums", "value": value}
        for job, value in ((0, 12), (1, 27))
    ]
    found = summary(write(tmp_path / "known", {"switch_counters": counters + whole}))
    assert found["jobs"]["in_switch_share"].tolist() == [0.6, 0.9]


def test_without_held_sums_what_is_not_filling_is_free(tmp_path):
    counters = [row for row in tables()["switch_counters"] if row["counter"] != "held_ns"]
    switch = summary(write(tmp_path, {"switch_counters": counters}))["switches"].iloc[0]
    assert pd.isna(switch["held_share"])
    assert switch["free_share"] == pytest.approx(1 - switch["filling_share"]) == pytest.approx(0.72)


def test_unknown_is_null_and_never_zero(tmp_path):
    changed = tables()
    for job in changed["jobs"]:
        job["ps_packets"] = None
    parts = {"jobs": changed["jobs"], "switch_counters": [], "tensors": [], "links": []}
    found = summary(write(tmp_path, parts))
    assert found["jobs"]["ps_packets_per_fragment"].isna().all()
    assert found["jobs"]["in_switch_share"].isna().all()
    switch = found["switches"].iloc[0]
    assert pd.isna(switch["filling_share"]) and pd.isna(switch["absorbed_per_aggregator_s"])
    assert pd.isna(switch["free_share"])
    row = found["run"].iloc[0]
    assert pd.isna(row["ps_packets_per_fragment"]) and pd.isna(row["held_share"])
    assert row["jct_mean_ns"] == 80e6


def test_a_job_that_never_ended_leaves_the_average_unknown(tmp_path):
    jobs = tables()["jobs"]
    jobs[1] |= {"end_ns": None, "jct_ns": None}
    writer = Writer.create(tmp_path, "failed", "", ENVIRONMENT)
    writer.write("jobs", jobs, repetition=0)
    writer.fail("host h4 died")
    found = summary(read(writer.folder))
    assert found["jobs"]["jct_ns"].tolist()[0] == 100e6
    assert pd.isna(found["run"]["jct_mean_ns"].iloc[0])


def test_a_job_killed_by_plan_is_left_out_of_the_average(tmp_path):
    jobs = tables()["jobs"]
    jobs[1] |= {"end_ns": None, "jct_ns": None, "outcome": "killed", "values_checked": 7}
    fault = {
        "fault": 0,
        "kind": "kill",
        "target": "job small",
        "job": 1,
        "at_ns": 5,
        "factor": None,
    }
    writer = Writer.create(tmp_path, "killed", "", ENVIRONMENT)
    writer.write("jobs", jobs, repetition=0)
    writer.write("faults", [fault | {"begun_ns": 130_000_000, "ended_ns": 130_000_000}], 0)
    writer.finish()
    results = read(writer.folder)
    found = summary(results)
    assert found["run"]["jct_mean_ns"].tolist() == [100e6]
    assert spans(results).tolist() == [130e6]


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


def test_jobs_that_communicate_longer_than_they_compute_are_apart(tmp_path):
    jobs = tables()["jobs"]
    computes_ns = summary(write(tmp_path / "as_it_is", {}))["jobs"]["computation_ns"]
    assert computes_ns[0] == 31e6  # of its workers, 30 and 32 ms
    jobs[0]["communication_bound_ns"] = int(computes_ns[0] * jobs[0]["iterations"]) + 1
    jobs[1]["communication_bound_ns"] = int(computes_ns[1] * jobs[1]["iterations"])
    run = summary(write(tmp_path / "bounded", {"jobs": jobs}))["run"].iloc[0]
    assert (run["jct_communicating_ns"], run["jct_computing_ns"]) == (100e6, 60e6)


def test_samples_per_second_and_scaling_efficiency(tmp_path):
    jobs = tables()["jobs"]
    found = summary(write(tmp_path / "as_it_is", {}))
    # Two workers, 32 samples each, twice in 100 ms, in which each computes for 60 ms.
    assert found["jobs"]["samples_per_s"][0] == pytest.approx(1280)
    assert found["jobs"]["scaling_efficiency"][0] == pytest.approx(0.6)
    assert found["jobs"]["samples_per_s"].isna().tolist() == [False, True]  # no batch size
    assert found["run"]["samples_per_s"].isna().all()  # so there is no total
    jobs[1]["batch"] = 8
    jobs[1]["start_ns"] += 20_000_000  # it waited for hosts first
    jobs[1]["waiting_ns"] = 20_000_000
    run = summary(write(tmp_path / "known", {"jobs": jobs}))["run"].iloc[0]
    assert run["samples_per_s"] == pytest.approx(1280 + 2 * 8 * 3 / 0.04)
    assert run["scaling_efficiency"] == pytest.approx((0.6 + 90 / 40) / 2)


def test_classes_of_length_divide_the_range_at_equal_ratios():
    # Lengths of 10 to 10 000 ms: computation of all iterations plus the bound of communication.
    rows = [
        (10, 0, 15),
        (10, 5, 20),
        (40, 59, 150),
        (50, 500, 700),
        (1000, 4000, 9000),
        (1e4, 0, 2e4),
    ]
    group = pd.DataFrame(
        [
            {
                "outcome": "finished",
                "computation_ns": computation * 1e6 / 2,
                "iterations": 2,
                "communication_bound_ns": communication * 1e6,
                "jct_ns": jct * 1e6,
            }
            for computation, communication, jct in rows
        ]
    )
    found = run_summary._by_length(group)
    assert found["jct_short_ns"] == pytest.approx((15 + 20 + 150) / 3 * 1e6)
    assert found["jct_medium_ns"] == pytest.approx(700e6)
    assert found["jct_long_ns"] == pytest.approx(14500e6)
    assert found["jct_p99_medium_ns"] == pytest.approx(700e6)
    assert found["jct_p99_long_ns"] == pytest.approx((9000 + 0.99 * 11000) * 1e6)
    assert found["jct_p99_ns"] == pytest.approx((9000 + 0.95 * 11000) * 1e6)
    alike = run_summary._by_length(group.iloc[:1])
    assert pd.isna(alike["jct_short_ns"]) and alike["jct_p99_ns"] == 15e6
    group.loc[5, "jct_ns"] = float("nan")
    assert pd.isna(run_summary._by_length(group)["jct_p99_long_ns"])


def test_an_empty_folder_has_empty_frames(tmp_path):
    found = summary(read(Writer.create(tmp_path, "empty", "", ENVIRONMENT).folder))
    assert {name: len(frame) for name, frame in found.items()} == dict.fromkeys(found, 0)


def uncounted(found):
    for row in found["links"]:
        row["losses"] = None


def restarted(found):
    times = {"at_ns": 5, "begun_ns": 5, "ended_ns": 9, "factor": None}
    found["faults"] = [{"fault": 0, "kind": "restart", "target": "switch s1", "job": None, **times}]


@pytest.mark.parametrize(
    ("change", "lossless"),
    [
        (lambda found: None, True),
        (lambda found: found["links"][0].update(losses=1), False),
        (lambda found: found["links"][5].update(queue_drops=1), False),
        (lambda found: found["links"][7].update(unmodelled_drops=1), False),
        (lambda found: found["hosts"][2].update(socket_drops=1), False),
        (restarted, False),
        (uncounted, False),
    ],
    ids=["in vain", "loss", "queue", "unmodelled", "socket", "restart", "uncounted"],
)
def test_spurious_retransmissions_are_no_loss(tmp_path, change, lossless):
    changed = tables()
    big, small = changed["jobs"]
    big.update(retransmissions=3, communication_bound_ns=40_000_000)
    small.update(communication_bound_ns=30_000_000)
    change(changed)
    found = summary(write(tmp_path, changed))["jobs"]
    # big: 15 .. 52 and 62 .. 100 ms; small: 25 .. 40, 45 .. 60 and 65 .. 80 ms
    assert found["communication_ns"].tolist() == [75e6, 45e6]
    assert found["lossless"].tolist() == [lossless, True]
    assert len(comparable({"jobs": found})) == 1 + lossless


@pytest.mark.parametrize(
    ("change", "packets"),
    [
        (lambda found: None, (28 - 3, 33)),  # of big's, three may be copies, for its reminders
        (lambda found: found["jobs"][0].update(retransmissions=2), (28 - 2 - 3, 33)),
        (
            lambda found: found["jobs"][1].update(retransmissions=9),
            (28 - 3, 30),
        ),  # 3 x 10 fragments
        (lambda found: found["links"][0].update(duplicates=1), (20, 30)),
    ],
    ids=["reminders", "resends", "fragments", "duplicates"],
)
def test_the_bound_at_the_ps_packets_counts_what_came_in_time(tmp_path, change, packets):
    changed = tables()
    for job in changed["jobs"]:
        job["communication_bound_ns"] = job["fragments"] * job["iterations"] * 1_000_000
    change(changed)
    found = summary(write(tmp_path, changed))["jobs"]
    expected = [count * 1_000_000 for count in packets]
    assert found["communication_bound_at_packets_ns"].tolist() == pytest.approx(expected)


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
    equal = run_summary._of_flows(pd.DataFrame({"mean_bps": rates[:1] * 5}))
    alone = run_summary._of_flows(pd.DataFrame({"mean_bps": [rates[0], 0, 0, 0]}))
    assert equal["flows_jain"] == pytest.approx(1) and alone["flows_jain"] == pytest.approx(0.25)


def test_runs_without_flows_have_no_fairness():
    found = run_summary._of_flows(pd.DataFrame({"mean_bps": []}))
    assert np.isnan(found["flows_jain"]) and np.isnan(found["flows_bps"])
