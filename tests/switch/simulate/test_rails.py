"""Servers with several ranks on rails in virtual time: groups of a server stay on its switch, those
of a place in the servers on its rail, and every value is exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.experiment import load_text
from testbed.routing.job_tree import tiers_crossed
from testbed.schemes import set_up
from tests.support.experiments import memory_line
from tests.support.ranks import Ranks
from tests.support.virtual import run_virtual

TEXT = """
name: rails
runtime: virtual
topology: {{kind: rails, servers: {servers}, ranks: {ranks}, server_ps: 1, scale_up: 4 Gbit/s,
  nic: 1 Gbit/s, {network}}}
links: {{delay: 1 us{more}}}
system: {{name: {system}}}
{memory}
jobs:
  - {{name: llm, model: {path}, workers: {all_ranks}, iterations: 1}}
"""
TP_BYTES, DP_BYTES = 8 * 256 * 64, 256 * 256


def mesh(servers: int, ranks: int) -> Ranks:
    """A tensor parallel group for each server, a data parallel one for each place in them, and a
    barrier of all."""
    count = servers * ranks
    tp = {f"tp{n}": tuple(range(ranks * n, ranks * (n + 1))) for n in range(servers)}
    dp = {f"dp{n}": tuple(range(n, count, ranks)) for n in range(ranks)}
    made = Ranks(**tp, **dp, everyone=tuple(range(count)))
    for rank in range(count):
        own, same = f"tp{rank // ranks}", f"dp{rank % ranks}"
        made.add(rank, "compute", duration_ns=10_000)
        made.add(rank, "all_reduce", group=own, bytes=TP_BYTES, dtype="float32")
        made.add(rank, "all_gather", group=own, bytes=TP_BYTES // ranks, dtype="float32")
        made.add(rank, "reduce_scatter", group=own, bytes=TP_BYTES, dtype="float32")
        made.add(rank, "all_reduce", group=same, bytes=DP_BYTES, dtype="float32")
        made.add(rank, "barrier", group="everyone")
    return made


def experiment(
    folder: Path, servers: int, ranks: int, system: str, more: str = "", network: str = "spines: 1"
):
    path = mesh(servers, ranks).write(folder / "mesh.et")
    return load_text(
        TEXT.format(
            servers=servers,
            ranks=ranks,
            system=system,
            memory=memory_line(system, 2048),
            path=path,
            all_ranks=servers * ranks,
            network=network,
            more=more,
        )
    )


SIZES = [(2, 4), pytest.param(8, 8, marks=pytest.mark.slow)]


@pytest.mark.parametrize("system", ["esa", "switchml"])
@pytest.mark.parametrize("servers, ranks", SIZES)
def test_groups_stay_on_their_tier_and_rail(tmp_path, servers, ranks, system):
    made = experiment(tmp_path, servers, ranks, system)
    setup, topology = set_up(made), made.topology_object()
    trees = {
        str(group.ranks.calls.route): group.group.routed_tree for group in setup.groups.values()
    }
    for server in range(servers):
        assert trees[f"tp{server}"].switches == (f"s{server + 1}",)
        workers = setup.jobs[0].group.workers[ranks * server : ranks * (server + 1)]
        assert tiers_crossed(topology, workers) == ("scale_up",)
    for rail in range(ranks):
        own = tuple(f"s{server + 1}" for server in range(servers))
        leaf = f"s{servers + rail + 1}"
        assert trees[f"dp{rail}"].switches == (*own, leaf)
        assert {trees[f"dp{rail}"].parent[switch][1] for switch in own} == {leaf}
    tables = run_virtual(made)
    (job,) = tables["jobs"]
    assert job["exact"] and job["values_checked"] > 0 and job["retransmissions"] == 0
    sent = {
        (row["node"], row["neighbour"]): row["packets"]
        for row in tables["links"]
        if row["direction"] == "egress"
    }
    # A dp group's fragments, and on one rail the barrier: nothing else leaves a server.
    fragments = DP_BYTES // 256
    for server in range(servers):
        for rail in range(ranks):
            leaf = f"s{servers + rail + 1}"
            most = fragments + 2 if rail == 0 else fragments
            assert fragments <= sent[f"s{server + 1}", leaf] <= most, (server, rail)
            assert fragments <= sent[leaf, f"s{server + 1}"] <= most
    counted = {
        (row["switch"], row["counter"]): row["value"]
        for row in tables["switch_counters"]
        if row["job"] == 0
    }
    tp = 3 * TP_BYTES // 256
    for server in range(servers):
        # Of a dp group a server has one rank, whose values pass; SwitchML holds these, too.
        passed = ranks * fragments if system == "switchml" else 0
        assert counted[f"s{server + 1}", "completions"] == tp + passed + 1
    for rail in range(ranks):
        barrier = rail == 0
        assert counted[f"s{servers + rail + 1}", "completions"] == fragments + barrier


def test_transfers_between_ranks_take_the_rail_of_their_target(tmp_path):
    made = Ranks(everyone=tuple(range(4)))
    for rank in range(4):
        to, sender = (rank + 3) % 4, (rank + 1) % 4  # h2 to h1, h3 to h2, h4 to h3, h1 to h4
        made.add(rank, "send", (), peer=to, bytes=100 * 256)
        made.add(rank, "recv", (), peer=sender, bytes=100 * 256)
    path = made.write(tmp_path / "ring.et")
    network, memory = "ps: 1", memory_line("esa", 64)
    text = TEXT.format(
        servers=2,
        ranks=2,
        system="esa",
        memory=memory,
        path=path,
        all_ranks=4,
        network=network,
        more="",
    )
    tables = run_virtual(load_text(text))
    assert tables["jobs"][0]["exact"]
    sent = {
        (row["node"], row["neighbour"]): row["bytes"]
        for row in tables["links"]
        if row["direction"] == "egress"
    }
    # Two go to another server, both to local rank 1; the first rail has their acknowledgements.
    assert min(sent["s1", "s4"], sent["s2", "s4"]) > 25_600
    assert max(sent["s1", "s3"], sent["s2", "s3"]) < 5_000


@pytest.mark.parametrize("system", ["esa", "ring"])
def test_ranks_of_a_place_share_no_link_of_a_leaf(tmp_path, system):
    """Also where all network cards of a server lead to one leaf."""
    made = experiment(tmp_path, 2, 4, system, network="rail_optimized: false")
    tables = run_virtual(made)
    assert tables["jobs"][0]["exact"]
    up = [
        row["bytes"]
        for row in tables["links"]
        if (row["node"], row["neighbour"], row["direction"]) == ("s1", "s3", "egress")
    ]
    assert len(up) == 4 and min(up) > 0.9 * max(up) > DP_BYTES * 0.9
