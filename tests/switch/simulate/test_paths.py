"""Runs over several equal paths: what meets, what the server completes, which links carry it."""

from __future__ import annotations

import pytest
import yaml

from testbed.experiment import load_text
from tests.support.virtual import content, run_virtual
from tools import expected_paths
from tools.expected_rows import command

SPINES = "s5", "s6", "s7"
EXPERIMENT = """
name: paths
runtime: virtual
topology: {{kind: leaf_spine, leaves: 4, spines: 3, hosts: 2}}
links: {{bandwidth: 10 Gbit/s, delay: 1 us}}
system: {system}
{keys}
values_per_packet: 256
jobs:
  - name: a
    model: resnet18
    workers: 3
    iterations: 1
    scale: 0.0005
    compute_scale: 0
    placement: {{workers: [h1, h3, h5]{server}}}
"""


def run(system: str, paths: str) -> dict:
    pool = system == "esa"
    keys = f"{paths}\nmemory: {{aggregators: 512}}" if pool else paths
    server = ", ps: h7" if pool else ""
    return run_virtual(load_text(EXPERIMENT.format(system=system, keys=keys, server=server)))


def completed(tables: dict) -> int:
    """Sums of all workers that were completed in switches."""
    rows = tables["switch_counters"]
    return sum(row["value"] for row in rows if row["counter"] == "sums")


def carried(tables: dict, leaf: str) -> list[int]:
    """Packets from a leaf to each spine."""
    rows = [row for row in tables["links"] if row["node"] == leaf and row["direction"] == "egress"]
    found = {row["neighbour"]: row["packets"] for row in rows}
    return [found[spine] for spine in SPINES]


def test_the_first_path_is_the_one_without_the_key():
    plain = run("ring", "")
    assert [bool(each) for each in carried(plain, "s1")] == [True, False, False]
    assert content(run("ring", "paths: {choice: first}")) == content(plain)


def test_sprayed_packets_of_a_ring_take_all_paths():
    assert all(carried(run("ring", "paths: {choice: spray}"), "s1"))


def test_with_a_root_for_each_path_all_sums_meet_and_links_share_them():
    tables = run("esa", "paths: {sums: per_root}")
    (job,) = tables["jobs"]
    assert completed(tables) == job["fragments"] and job["retransmissions"] == 0
    for leaf in ("s1", "s4"):  # sums go up from one, results down from the other
        packets = carried(tables, leaf)
        assert sum(packets) == job["fragments"] and min(packets) > job["fragments"] / 9


def test_sums_that_are_not_pinned_meet_by_chance_and_the_server_completes_the_others():
    pinned = run("esa", "")
    tables = run("esa", "paths: {choice: spray, sums: unpinned}")
    (job,) = tables["jobs"]
    assert completed(pinned) == job["fragments"]
    # Two other sums take the first one's path of three: a ninth.
    assert 0 < completed(tables) < job["fragments"] / 3
    assert job["ps_packets"] > 2 * pinned["jobs"][0]["ps_packets"]


@pytest.mark.slow
def test_the_expected_row_is_as_measured(capsys):
    rows = yaml.safe_load(expected_paths.FILE.read_text())["rows"]
    row = next(each for each in rows if each["name"] == "unpinned")
    assert command(expected_paths.FILE, expected_paths.ROWS, None, ["unpinned"]) == 0
    assert f" {row['measured']:9.4g}\n" in capsys.readouterr().out
