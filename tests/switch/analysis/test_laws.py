"""The laws of runs (testbed/analysis/laws): any run keeps them, and any wrong number breaks one."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path

import pytest
from p4fabric.netfile.law import broken
from p4fabric.netfile.network_laws import of_network
from p4fabric_testing.virtual_networks import MARKING, run_text, star

from testbed import results
from testbed.analysis import laws
from testbed.analysis.laws.tables import of_rows
from testbed.cli.main import main
from tests.support.experiments import experiment
from tests.support.virtual import run_virtual

TEXT = """
name: laws
runtime: virtual
repetitions: 2
topology: {kind: leaf_spine, leaves: 2, spines: 1, hosts: 4}
links: {bandwidth: 1 Gbit/s, delay: 1 us, queue: 40 packets, loss: 1 %, duplicate: 1 %}
system: atp
memory: {aggregators: 24}
jobs:
  - {name: a, model: resnet18, workers: 3, iterations: 2, scale: 0.001}
  - {name: b, model: vgg11, workers: 2, iterations: 2, scale: 0.0001}
faults: [{at: 50 us, fault: slow, job: b, worker: 0, factor: 2}]
"""
ONE_SWITCH = TEXT.replace("leaf_spine, leaves: 2, spines: 1, hosts: 4", "star, hosts: 7")

# Columns in which no row's value can be one more, or be counted where it was not, unseen.
EXACT = {
    "jobs": "waiting_ns jct_ns retransmissions workers iterations communication_bound_ns=10**15",
    "iterations": "end_ns iteration=5",
    "hosts": "packets_sent bytes_sent retransmissions packets_received=10**9 cpu_ns=0",
    "links": "packets bytes queue_drops losses mean_bps refused=0 marks=0",
    "switch_counters": "value",
    "departures": "packets",
    "losses": "packets",
    "resent": "packets",
    "memory": "occupied held",
    "events": "value",
    "queues": "packets=10**9",
    "pool": "filling=999",
    "faults": "entries=0 factor=None",
}
CASES = [
    (table, column.partition("=")[0], column.partition("=")[2])
    for table, columns in EXACT.items()
    for column in columns.split()
]


@pytest.fixture(scope="module")
def tables():
    return run_virtual(experiment(ONE_SWITCH))


@pytest.mark.parametrize("table, column, value", CASES)
def test_a_wrong_number_breaks_a_law(tables, table, column, value):
    rows = tables[table]
    if isinstance(rows, dict):
        rows = [dict(zip(rows, each, strict=True)) for each in zip(*rows.values(), strict=True)]
    places = [
        number
        for number, row in enumerate(rows)
        if _shows(row, column) and (value or row.get(column) is not None)
    ]
    places = places[-1:] if table == "events" else places  # the others are only between two
    for number in {places[0], places[len(places) // 2], places[-1]}:
        changed = deepcopy(list(rows))
        old = changed[number].get(column)
        changed[number][column] = eval(value) if value else old + 1
        assert broken(laws.of_tables([of_rows({**tables, table: changed})])), changed[number]


def _shows(row: dict, column: str) -> bool:
    """Times are compared in sums alone, and a column of one direction is null in the other."""
    if row.get("counter", "").endswith("_ns") or row.get("counter") == "sums":
        return False
    only = {
        "refused": ("direction", "egress"),
        "marks": ("direction", "ingress"),
        "packets": ("direction", "ingress"),
        "retransmissions": ("role", "worker"),
    }
    which, wanted = only.get(column, ("", None))
    return row.get(which, wanted) == wanted


def test_the_command_names_what_holds_and_what_is_broken(tmp_path, capsys):
    path = tmp_path / "laws.yaml"
    path.write_text(TEXT)
    assert main([str(path), "--no-report", "--results", str(tmp_path / "results")]) == 0
    (folder,) = (tmp_path / "results").iterdir()
    capsys.readouterr()
    assert main(["verify", "--laws", str(folder)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert "not applicable  collectives: no job has collectives" in told
    assert told[-1].endswith("laws hold, 4 do not apply")
    table = folder / "tables" / "links.parquet"
    rows = results.read(folder).links
    rows.loc[3, "losses"] += 1
    rows.to_parquet(table)
    assert main(["verify", "--laws", str(folder), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    (losses,) = (each for each in found["laws"] if each["name"] == "losses")
    assert not found["holds"] and losses["compared"] > 50
    (line,) = losses["violations"]
    row = rows.loc[3]
    place = f"repetition 0, {row.node} port {row.port} {row.direction}"
    assert line == f"{place}: losses lost {row.losses - 1} but losses {row.losses}"
    assert main(["verify", "--laws", str(folder)]) == 1
    assert f"                {line}" in capsys.readouterr().out.splitlines()


def test_a_run_that_failed_is_exempt_from_what_needs_its_end(tmp_path):
    verdicts = laws.of_tables(())
    assert not broken(verdicts) and all(each.exempt for each in verdicts)


def test_network_files_have_laws_as_well(tmp_path, capsys):
    flow = "flows: [{name: f, from: h1, to: h2, rate: 40 Gbit/s, size: 500 B}]\n"
    text = star(MARKING, 3, "virtual: {duration: 20 us}\n" + flow)
    _, made = run_text(tmp_path, text)
    assert not broken(of_network(made, True))
    for table, column in (("ports", "bytes"), ("hosts", "sent"), ("switches", "received")):
        wrong = deepcopy(made)
        wrong[table][0][column] += 1
        assert broken(of_network(wrong, True)), (table, column)


@pytest.mark.parametrize("what", ["nothing", "file.yaml", "--no-run"])
def test_what_has_no_laws_is_refused(what, tmp_path: Path, capsys):
    (tmp_path / "file.yaml").write_text("name: a\n")
    given = [str(tmp_path / what)] if what[0] != "-" else [str(tmp_path), what]
    assert main(["verify", "--laws", *given]) == 2
    assert capsys.readouterr().err.startswith("error: ")
