"""The live page of a run on Mininet: what a reader of its stream sees is what the results say."""

from __future__ import annotations

import json
import subprocess
import urllib.request

import pytest

from testbed import results
from tests.support.paths import ROOT
from tests.support.runs import PYTHON

# Some seconds long, so that a reader sees it grow.
TEXT = """
name: watched
topology: {kind: star, hosts: 6}
links: {bandwidth: 20 Mbit/s}
system: {name: esa, window: 32}
memory: {aggregators: 16}
jobs:
  - {name: a, model: resnet18, workers: 2, iterations: 20, scale: 0.005, compute_scale: 0.1}
  - {name: b, model: resnet18, workers: 2, iterations: 20, scale: 0.005, compute_scale: 0.1}
faults:
  - {at: 500 ms, fault: pause, job: a, worker: 1, for: 300 ms}
"""


@pytest.mark.slow
def test_a_reader_sees_what_the_results_say(tmp_path):
    path = tmp_path / "watched.yaml"
    path.write_text(TEXT)
    command = [PYTHON, str(ROOT / "run.py"), str(path), "--web", "--no-report"]
    process = subprocess.Popen(
        [*command, "--results", str(tmp_path / "results")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    address = process.stdout.readline().split()[2]
    assert address.startswith("http://127.0.0.1:")
    states, charts, ends = [], {}, []
    with urllib.request.urlopen(address + "events", timeout=120) as stream:
        kind = ""
        for line in stream:
            words = line.decode().rstrip("\n")
            if words.startswith("event: "):
                kind = words[7:]
            elif words.startswith("data: "):
                content = json.loads(words[6:])
                if kind == "state":
                    states.append(content)
                elif kind == "charts":
                    charts |= content
                elif kind == "end":
                    ends.append(content)
    process.stdout.read()
    process.stdout.close()
    assert process.wait(60) == 0
    (made,) = (tmp_path / "results").iterdir()
    read = results.read(made)
    assert read.state == "finished"
    assert ends == [{"how": "Finished.", "report": None, "link": None}]
    assert len(states) > 1
    assert [row[1] for row in states[-1]["tables"][0]["rows"]] == ["20/20", "20/20"]
    assert {"topology", "timeline", "states-s1", "owners-s1", "pool-s1"} <= set(charts)
    # The last end of the timeline's bars is the last one of the table tensors.
    last_s = max(
        begin + length
        for trace in charts["timeline"]["data"]
        if "base" in trace  # others are the legend
        for begin, length in zip(trace["base"], trace["x"], strict=True)
    )
    assert last_s == pytest.approx(read.tensors.done_ns.max() / 1e9, rel=1e-6)
    assert any(trace["name"] == "planned fault" for trace in charts["timeline"]["data"])
