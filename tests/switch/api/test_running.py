"""Runs and sweeps from Python, in virtual time; what they have measured as data frames."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pandas as pd
import pytest

import testbed as tb
from testbed.cli.main import main
from testbed.results import TABLES
from tests.support.paths import ROOT

SMALL = tb.Experiment(
    name="small",
    runtime="virtual",
    topology=tb.Star(hosts=3),
    links={"bandwidth": "1 Gbit/s"},
    system="esa",
    memory={"aggregators": 16},
    jobs=[tb.Job(model="alexnet", workers=2, iterations=1, scale=0.00005, compute_scale=0)],
)


@pytest.fixture(scope="module", autouse=True)
def few_samples():
    """Runs of this process are compared with those of others: both take the usual number."""


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> tb.Result:
    return tb.run(SMALL, tmp_path_factory.mktemp("results"), progress=False)


@pytest.fixture(scope="module")
def swept(tmp_path_factory) -> tb.SweepResult:
    folder = tmp_path_factory.mktemp("results")
    vary = {"memory.aggregators": [4, 16]}
    return tb.sweep(SMALL, folder, system=["esa", "atp"], seeds=2, processes=1, **vary)


def test_a_run_has_tables_with_units(result):
    assert result.state == "finished" and result.notice == ""
    assert set(TABLES) - {"fidelity"} <= set(dir(result))
    assert result.jobs.attrs["units"]["jct_ns"] == "ns"
    assert set(result.jobs.attrs["meanings"]) == set(result.jobs.columns)
    frame = result.jobs
    frame["jct_ns"] = 0
    assert result.jobs["jct_ns"].iloc[0] > 0, "a frame is the caller's own"
    with pytest.raises(AttributeError, match="did you mean jobs"):
        result.jbs  # noqa: B018
    assert "1.000" in result.text and result.text in result._repr_html_()


def test_it_is_what_the_command_line_measures(result, tmp_path, capsys):
    SMALL.to_yaml(tmp_path / "small.yaml")
    words = [str(tmp_path / "small.yaml"), "--no-report", "--results", str(tmp_path / "results")]
    assert main(words) == 0
    (other,) = (tmp_path / "results").iterdir()
    assert tb.read(other).digest == result.digest
    again = tb.read(result.folder).experiment.resolved
    assert again.resolved_yaml() == SMALL.resolved.resolved_yaml()


def test_tidy_rows_are_those_of_the_tables(result):
    tidy = result.tidy.set_index(["job", "measure"])
    job = result.jobs.iloc[0]
    assert tidy.loc[(job["name"], "jct"), "value"] == pytest.approx(job["jct_ns"] * 1e-9)
    assert tidy.loc[(job["name"], "jct"), "unit"] == "s"
    assert tidy.loc[(job["name"], "ps_packets"), "value"] == job["ps_packets"]


def test_nothing_is_shown_that_was_not_asked_for(tmp_path, capfd):
    tb.run(SMALL, tmp_path, progress=False)
    assert capfd.readouterr() == ("", "")


def test_a_sweep_is_one_row_per_point_seed_job_and_measure(swept):
    assert swept.finished and swept.failed.empty
    assert swept.name == "small-system-memory.aggregators"
    tidy = swept.tidy
    columns = ["point", "system", "memory.aggregators", "seed", "repetition", "job", "measure"]
    assert list(tidy.columns) == [*columns, "value", "unit"]
    assert not tidy.duplicated(columns).any()
    jct = tidy[tidy["measure"] == "jct"]
    assert len(jct) == 2 * 2 * 2 and set(jct["seed"]) == {1, 2}
    assert tidy["memory.aggregators"].dtype == "int64" and set(jct["system"]) == {"esa", "atp"}
    of_switches = tidy[tidy["measure"] == "free_share"]
    assert of_switches["job"].isna().all() and of_switches["value"].between(0, 1).all()


def test_a_point_is_found_by_place_hash_and_values(swept):
    first = swept[0]
    assert swept[swept.points.index[0]].folder == first.folder
    assert swept[swept.points.index[0][:6]].folder == first.folder
    assert swept[{"system": "esa", "memory.aggregators": 4}].folder == first.folder
    assert [each.folder for each in swept] == [swept[number].folder for number in range(4)]
    with pytest.raises(tb.UserError, match="2 points fit {'system': 'esa'}"):
        swept[{"system": "esa"}]
    with pytest.raises(tb.UserError, match="no point fits 'zz'"):
        swept["zz"]


@pytest.mark.slow
def test_a_sweep_is_read_again_and_goes_on(swept, capsys):
    again = tb.read(swept.folder)
    pd.testing.assert_frame_equal(again.tidy, swept.tidy)
    more = tb.sweep(
        SMALL, swept.folder.parent, system=["esa", "atp"], seeds=2, processes=1,
        **{"memory.aggregators": [4, 16]},
    )  # fmt: skip
    assert "4 of 4 points have finished before" in capsys.readouterr().err
    assert [each.folder for each in more] == [each.folder for each in swept]


def test_a_figure_has_what_was_asked_for(swept, tmp_path):
    figure = tb.figure(swept, x="memory.aggregators", y=["jct", "ps_packets_per_fragment"])
    assert [axes.get_xlabel() for axes in figure.axes] == ["aggregators"] * 2
    assert figure.axes[0].get_title("left").startswith("(a) average JCT")
    figure.savefig(tmp_path / "figure.pdf")
    assert b"/Type3" not in (tmp_path / "figure.pdf").read_bytes(), "fonts are embedded as such"
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert tb.figure(swept, x="", y="jct").axes


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"y": "jtc"}, "there is no measure 'jtc'; did you mean jct"),
        ({"x": "seed"}, "x: seed is not varied"),
        ({"y": []}, "found 0 measures; allowed: 1 to 8"),
        ({"y": "jct_ratio", "against": "Esa"}, "there is no series 'Esa'; did you mean ESA"),
        ({"y": "jct_long"}, "no run of this sweep has measured jct_long"),
    ],
)
def test_a_figure_that_cannot_be_is_one_message(swept, how, message):
    with pytest.raises(tb.UserError) as caught:
        tb.figure(swept, **how)
    assert message in str(caught.value)


def test_what_cannot_be_swept_is_one_message(tmp_path):
    with pytest.raises(tb.UserError, match="nothing is varied"):
        tb.sweep(SMALL, tmp_path)
    with pytest.raises(tb.UserError, match="processes: found 0"):
        tb.sweep(SMALL, tmp_path, seed=[1], processes=0)
    with pytest.raises(tb.UserError, match="this is a sweep of 2 experiments"):
        tb.run(SMALL.sweep({"seed": [1, 2]}), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_several_runs_side_by_side(result, tmp_path):
    async def both():
        return await asyncio.gather(
            tb.run_async(SMALL, tmp_path), tb.run_async(SMALL.with_(seed=2), tmp_path)
        )

    same, other = asyncio.run(both())
    assert same.digest == result.digest != other.digest


def test_a_run_that_is_cancelled_ends_in_order(tmp_path):
    long = SMALL.with_({"jobs[0].iterations": 20_000})

    async def cancelled():
        task = asyncio.create_task(tb.run_async(long, tmp_path))
        while not list(tmp_path.glob("*/status.json")):
            await asyncio.sleep(0.05)
            assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    (folder,) = tmp_path.iterdir()
    assert tb.read(folder).state == "interrupted"


SCRIPT = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import testbed as tb
print("once")
print(tb.sweep("small.yaml", seed=[1, 2], processes=1, progress=False).finished)
"""


def test_a_script_needs_no_guard_around_a_sweep(tmp_path):
    SMALL.to_yaml(tmp_path / "small.yaml")
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "once\nTrue\n"
