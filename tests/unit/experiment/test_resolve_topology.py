"""Topologies of the user's own: Python classes of ours, and Mininet's."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from testbed.experiment import load_text
from tests.support.experiments import changed, message


def test_a_topology_class_of_the_user(tmp_path: Path) -> None:
    mine = tmp_path / "my.py"

    def refused(python: str, choice: str = "class: my.py:Mine") -> str:
        mine.write_text("from testbed.topology import Topology\n" + python)
        return message(changed("kind: star, hosts: 10", choice), tmp_path)

    good = (
        "class Mine(Topology):\n"
        "    def __init__(self, hosts: int, rate='10 Mbit/s'):\n"
        "        s = self.add_switch('s1')\n"
        "        for n in range(hosts):\n"
        "            self.add_link(self.add_host(f'h{n}'), s, bandwidth=rate)\n"
    )
    mine.write_text("from testbed.topology import Topology\n" + good)
    text = changed("kind: star, hosts: 10", "class: my.py:Mine, hosts: 9, rate: 5 Mbit/s")
    experiment = load_text(text, folder=tmp_path)
    assert experiment.directions[8][1].bandwidth_bps == 5_000_000
    assert experiment.directions[8][1].delay_ns == 10_000
    assert not (tmp_path / "__pycache__").exists()
    again = load_text(experiment.resolved_yaml(), folder="/")
    assert again == experiment

    assert "class: found 'other.py'; allowed: a file; there is no" in refused(
        good, "class: other.py:Mine"
    )
    assert "allowed: FILE.py:CLASS" in refused(good, "class: my.py")
    assert "allowed: FILE.py:CLASS" in refused(good, "class: 7")
    assert "my.py has no class Mne; did you mean Mine? it has Mine" in refused(
        good, "class: my.py:Mne"
    )
    assert "it has no topology class" in refused("", "class: my.py:Mine")
    assert "Mine in my.py is not a subclass" in refused("Mine = 3\n")
    assert "cannot be imported: line 2, SyntaxError" in refused("class Mine(:\n")
    assert "line 2, ModuleNotFoundError: No module named 'nothere'" in refused("import nothere\n")
    assert "line 2, SystemExit: 3" in refused("raise SystemExit(3)\n")
    assert "topology.hosts: missing; Mine needs it" in refused(good)
    assert "topology.hosts: found 'x'; allowed: a whole number" in refused(
        good, "class: my.py:Mine, hosts: x"
    )
    assert "unknown key; did you mean hosts? allowed: hosts, rate" in (
        refused(good, "class: my.py:Mine, host: 9")
    )
    assert "Mine(...) failed: line 8, ZeroDivisionError: division by zero" in refused(
        good + "        \n        1 / 0\n", "class: my.py:Mine, hosts: 9"
    )
    assert "host h0 has 0 links" in refused(
        "class Mine(Topology):\n    def __init__(self):\n"
        "        self.add_switch('s1'); self.add_host('h0')\n"
    )
    assert "link h0-s1, bandwidth: found 'fast'; allowed: a rate" in refused(
        good, "class: my.py:Mine, hosts: 9, rate: fast"
    )
    assert "link h0-s1, speed: unknown key" in refused(
        good.replace("bandwidth=", "speed="), "class: my.py:Mine, hosts: 9"
    )


def test_loggers_stay_what_they_were(tmp_path: Path) -> None:
    """A file that imports Mininet makes all later ones Mininet's, which say nothing of a run."""
    before = logging.getLoggerClass()
    (tmp_path / "own.py").write_text(
        "import logging\nlogging.setLoggerClass(type('Own', (logging.Logger,), {}))\n"
    )
    message(changed("kind: star, hosts: 10", "class: own.py:Nothing"), tmp_path)
    assert logging.getLoggerClass() is before


def test_a_topology_of_mininet_is_converted(tmp_path: Path) -> None:
    pytest.importorskip("mininet.topo")
    (tmp_path / "old.py").write_text(
        "from mininet.topo import Topo\n"
        "class Old(Topo):\n"
        "    def build(self, n=2):\n"
        "        s = self.addSwitch('s1')\n"
        "        for i in range(n):\n"
        "            h = self.addHost(f'h{i}')\n"
        "            self.addLink(h, s, bw=0.5, delay='5ms', loss=1, max_queue_size=50)\n"
    )
    text = changed("kind: star, hosts: 10", "class: old.py:Old")
    (tmp_path / "wide.py").write_text(
        "from old import Old\nclass Wide(Old):\n    def __init__(self, n: int):\n"
        "        super().__init__(n=n)\n"
    )
    assert "7 workers and 2 parameter servers" in message(text, tmp_path)
    wide = changed("kind: star, hosts: 10", "class: wide.py:Wide, n: 9")
    way = load_text(wide, folder=tmp_path).directions[3][0]
    assert (way.bandwidth_bps, way.delay_ns, way.loss, way.queue_packets) == (
        *(500_000, 5_000_000, 0.01, 50),
    )
