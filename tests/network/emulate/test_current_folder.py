"""No process of a run on Mininet, which are root's, imports modules from its user's folder."""

from __future__ import annotations

import pytest
from p4fabric_testing import L3

from tests.support.hostile_folder import imported, make_hostile, run_in
from tests.support.paths import ROOT

TEXT = """
topology: {kind: star, hosts: 3}
links: {bandwidth: 100 Mbit/s}
system: esa
memory: {aggregators: 64}
jobs: [{model: resnet18, workers: 2, iterations: 1, scale: 0.0005, compute_scale: 0}]
"""
SCRIPT = """
import sys
from mininet.net import Mininet
from p4fabric.emulate.nodes import P4Switch

net = Mininet(controller=None)
h1 = net.addHost("h1")
s1 = net.addSwitch("s1", cls=P4Switch, program=sys.argv[1])
net.addLink(h1, s1)
net.start()
net.stop()
"""
CASES = {
    "a run": [str(ROOT / "run.py"), "{text}", "--no-report", "--results", "{made}"],
    "a switch in a script": ["{script}", str(L3)],
}


@pytest.mark.parametrize("case", CASES)
def test_the_current_folder_s_modules_are_not_imported(case, tmp_path):
    files = {"text": tmp_path / "text.yaml", "script": tmp_path / "script.py"}
    files["text"].write_text(TEXT)
    files["script"].write_text(SCRIPT)
    words = [word.format(**files, made=tmp_path / "made") for word in CASES[case]]
    folder = tmp_path / "hostile"
    folder.mkdir()
    done = run_in(make_hostile(folder), words)
    assert not imported(folder), done.stderr
    assert done.returncode == 0, done.stderr
