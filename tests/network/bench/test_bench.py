"""Every program and sweep of bench/ still runs, at its smallest size. What it measures is not
looked at."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys

import pytest

from bench import side_by_side
from bench.__main__ import known
from tests.support.bmv2.simple_switch import why_not
from tests.support.paths import ROOT

SMALL = {
    "allreduce": [
        ["--ranks", "2", "--megabytes", "0.01", "--rates", "100", "--rounds", "1"]
        + ["--values", "256", "--loss", "1"]
    ],
    "architectures": [["--rounds", "1", "--repeats", "1"]],
    "bmv2": [["--values", "1", "--rounds", "1", "--seconds", "0.1"]],
    "bmv2_experiment": [["--rounds", "1"]],
    "end_to_end": [["--rounds", "1", "jobs[*].scale=0.002"]],
    "fidelity": [["--rounds", "1", "links.bandwidth=20 Mbit/s", "jobs[*].scale=0.02", "--hogs=0"]],
    "losses": [["jobs[*].model=smallcnn", "system=esa", "links.loss=1 %", "bench.values=3000"]],
    "memory": [
        ["--models", "resnet50", "--systems", "esa", "--scale", "0.001"],
        ["--models", "llama2-7b", "--systems", "ring", "--scale", "0.00001", "--workers", "2"],
        ["--systems", "esa", "--idle", "1,2"],
    ],
    "networks": [["--rounds", "1", "--packets", "1000"]],
    "pipeline": [["--off", "--rounds", "1", "--repeats", "1", "--systems", "ps"]],
    "planners": [["--workers", "16", "--planner", "nearest"]],
    "report": [["--rounds", "1", "--iterations", "1"]],
    "scales": [["jobs[*].model=resnet50", "jobs[*].scale=0.02,0.01", "system=esa,switchml"]],
    "side_by_side": [
        [str(ROOT), "--rounds", "1", "--only", "switch,virtual,commands"]
        + ["--hosts", "9", "--scale", "0.01", "--seconds", "0.1"]
    ],
    "soak": [
        ["--minutes", "0.05", "--scale", "0.002"],
        ["--minutes", "0.01", "--scale", "0.002", "--system", "ring"],
    ],
    "soak_virtual": [["--minutes", "0.01", "--systems", "esa"]],
    "switch_alone": [["--rounds", "1", "--seconds", "0.1"]],
    "tables": [["--entries", "100", "--kind", "exact"]],
    "virtual": [
        ["--hosts", "9", "--scale", "0.01"],
    ],
    "where": [["--systems", "esa", "--scale", "0.002"]],
}
NEEDS = {
    "bmv2": why_not,
    "bmv2_experiment": why_not,
    "report": lambda: (
        None
        if shutil.which("chromium") and importlib.util.find_spec("playwright")
        else "no Chromium"
    ),
    "side_by_side": lambda: (
        None if (ROOT / ".venv/bin/python").exists() else "the checkout has no environment .venv"
    ),
    "where": lambda: None if shutil.which("perf") else "no perf (Debian: linux-perf)",
}


QUICK = ("switch_alone", "tables")  # the others need --slow


def test_side_by_side_compares_the_same_where_both_have_it(capsys):
    with_trains = {"esa.p4": 10.0, "esa.p4 in trains": 40.0}
    side_by_side.report([with_trains], [with_trains])
    side_by_side.report([{"esa.p4": 10.0}], [with_trains])
    ratios = [line.split("(")[0].split()[-1] for line in capsys.readouterr().out.splitlines()]
    assert ratios == ["1.00", "1.00", "1.00", "4.00"]


def test_all_programs_are_covered():
    assert set(known()) == set(SMALL)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        pytest.param(name, each, marks=() if name in QUICK else pytest.mark.slow)
        for name, calls in SMALL.items()
        for each in calls
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:2]),
)
def test_runs(name: str, arguments: list[str]):
    if why := NEEDS.get(name, lambda: None)():
        pytest.skip(why)
    done = subprocess.run(
        [sys.executable, "-m", "bench", name, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert any(character.isdigit() for character in done.stdout)
