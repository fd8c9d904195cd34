"""All tables of a run name switches in the order in which people count them."""

from __future__ import annotations

from p4fabric.base.text_table import table_data
from p4fabric.base.units import natural

from testbed.analysis.data.run_summary import summary
from testbed.analysis.data.topology_data import switch_work
from testbed.analysis.report import run_tables
from testbed.cli import main as commands
from testbed.results import find, read

TEXT = """
name: wide
runtime: virtual
topology: {kind: leaf_spine, leaves: 11, spines: 1, hosts: 1}
links: {bandwidth: 1 Gbit/s, delay: 5 us}
system: esa
memory: {aggregators: 24}
jobs:
  - {model: resnet18, workers: 10, iterations: 1, scale: 0.0001, compute_scale: 0}
"""


def test_s2_comes_before_s10(tmp_path):
    path = tmp_path / "wide.yaml"
    path.write_text(TEXT)
    assert commands.main([str(path), "--results", str(tmp_path), "--no-report"]) == 0
    results = read(find(tmp_path)[-1])
    tables = {"work": [str(switch) for switch, _ in switch_work(results).index]}
    for table in run_tables(results, summary(results)):
        columns: dict[str, list[str]] = {}
        for row in table_data(table)["rows"]:
            for key, value in row.items():
                columns.setdefault(key, []).append(str(value))
        # By the first column of switches; others are in order among equal ones.
        named = [found for found in columns.values() if "s10" in found]
        if named:
            tables[table.name] = named[0]
    assert len(tables) > 2
    for name, found in tables.items():
        of_ps = {"s11"} if name == "departures" else set()  # there it comes first
        shown = [
            each for each in dict.fromkeys(found) if each.startswith("s") and each not in of_ps
        ]
        assert shown == sorted(shown, key=natural), name
