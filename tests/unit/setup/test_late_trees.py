"""Who is asked about again when others may have ended, and what is said where nobody is."""

from __future__ import annotations

import pytest

from testbed.experiment import load_text
from testbed.schemes import set_up
from testbed.setup.late_trees import late_jobs

TEXT = """
name: trees
%(top)s
topology: {kind: star, hosts: 12}
links: {bandwidth: 50 Mbit/s}
system: {name: tree%(options)s}
memory: {aggregators: 64}
jobs:
  - {name: a, model: resnet18, workers: 2, iterations: 1}
  - {name: b, model: resnet18, workers: 2, iterations: 1}
  - {name: c, model: resnet18, workers: 2, iterations: 1, start: 2 s}
  - {name: d, model: resnet18, workers: 2, iterations: 1, start: 150 ms}
%(more)s
"""
PROGRAM = f"  - {{name: e, command: {__file__}, workers: 2, groups: 2, start: 3 s}}"


def made(top="", options="", more=""):
    setup = set_up(load_text(TEXT % {"top": top, "options": options, "more": more}))
    return [*late_jobs(setup)], [job.refused for job in setup.jobs.values()]


def test_jobs_are_asked_about_that_start_late_enough():
    assert made("runtime: virtual") == ([2, 3], ["", *["s1 is held by a"] * 3])
    assert made() == ([2], ["", *["s1 is held by a"] * 3])
    assert made(options=", mode: quotas")[0] == [2]  # shares
    assert made(options=", mode: quotas, quota: 8")[0] == []


@pytest.mark.parametrize(
    ("top", "more", "why"),
    [
        ("switch: bmv2", "", "with switch bmv2"),
        ("", PROGRAM, "beside programs with groups of ranks"),
    ],
)
def test_where_nobody_is_asked_again_the_reason_says_so(top, more, why):
    late, refused = made(top, "", more)
    assert late == []
    assert refused[1] == "s1 is held by a"  # it overlaps
    assert set(refused[2:]) == {f"s1 is held by a ({why} to the end of the run)"}
