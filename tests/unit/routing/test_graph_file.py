"""Networks to plan for from text and GraphML files, and mistakes in them."""

from __future__ import annotations

import networkx
import pytest
from p4fabric.base.errors import UserError

from testbed.cli.main import main
from testbed.routing.network import Host, Link, PlanJob, Switch
from testbed.setup.plan_input import of_file
from tests.support.plan_networks import example


def test_a_list_of_edges_says_everything(tmp_path) -> None:
    path = tmp_path / "net.txt"
    path.write_text(
        "# comment\n"
        "switch s1 aggregation=9Gbit/s slots=7\n"
        "switch s2 aggregation=none  # forwards only\n"
        "host p ingress=5Gbit/s\n"
        "s1 s2 3Gbit/s 1Gbit/s delay=10us\n"
        "s1 s3 failed\n"
        "s2 s3\n"
        "s3 s1 2Gbit/s failed=true\n"
        "w s1 1Mbit/s\n"
        "p s2 unlimited\n"
        "job a workers=w ps=p max_rate=8Gbit/s\n"
    )
    network, jobs = of_file(path)
    assert network.switches == (
        Switch("s1", True, 9 * 10**9, 7),
        Switch("s2", False),
        Switch("s3"),
    )
    assert network.hosts == (Host("p", 5 * 10**9), Host("w"))
    assert network.links[:2] == (
        Link("s1", "s2", 3 * 10**9, 10_000),
        Link("s2", "s1", 10**9, 10_000),
    )
    assert ("s1", "s3") not in network.link and network.failed == ("s1-s3", "s3-s1")
    assert network.link["p", "s2"].capacity_bps is None
    assert jobs == (PlanJob("a", ("w",), "p", 8 * 10**9),)


@pytest.mark.parametrize("directed", [False, True])
def test_graphml_says_the_same(tmp_path, directed) -> None:
    network, jobs = example()
    graph = (networkx.DiGraph if directed else networkx.Graph)()
    for switch in network.switches:
        graph.add_node(switch.name, aggregation="9 Gbit/s", label="ignored", x=1.5)
    for host in network.hosts:
        role = "ps_of" if host.name == "PS" else "worker_of"
        graph.add_node(host.name, **{role: "job"})
    for link in network.links:
        graph.add_edge(link.source, link.target, capacity=f"{link.capacity_bps} bit/s")
    path = tmp_path / "example.graphml"
    networkx.write_graphml(graph, path)
    found, found_jobs = of_file(path)
    assert found.switches == network.switches and found.hosts == network.hosts
    assert set(found.links) == set(network.links) and found_jobs == jobs


BASE = """\
s1 s2 3Gbit/s
w s1 1Gbit/s
p s2 1Gbit/s
"""
JOB = "job a workers=w ps=p\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BASE, "there is no job"),
        (BASE + "job a workers=w\n", "line 4: job a has no a? ?parameter server"),
        (BASE + "job a ps=p\n", "job a has no workers"),
        (BASE + "job a workers=w ps=p,w\n", "two parameter servers"),
        (BASE + "job a workers=w,x ps=p\n", "worker x is not there"),
        (BASE + "job a workers=w,w ps=p\n", "worker w is named twice"),
        (BASE + "job a workers=w ps=w\n", "worker and parameter server"),
        (BASE + "job a workers=w ps=s2\n", "s2 is a switch"),
        (BASE + JOB + JOB, "line 5: there is a job a already"),
        (BASE + "job a workers=w ps=p rate=3\n", "line 4: found 'rate=3'"),
        (BASE + "host q\njob a workers=w ps=q\n", "parameter server q is not connected"),
        (BASE.replace("p s2 1Gbit/s", "p s2 failed") + JOB, r"not connected.*failed: p-s2"),
        (BASE.replace("3Gbit/s", "failed") + JOB, r"worker w has no path .* p \(failed: s1-s2\)"),
        (
            BASE.replace("3Gbit/s", "0") + JOB,
            "capacity: found '0'; allowed: from 1 bit/s to 100 Tbit/s, or unlimited",
        ),
        (
            BASE + "switch s1 aggregation=0\n" + JOB,
            "aggregation: found '0'; allowed: from 1 bit/s to 100 Tbit/s, or unlimited, or none",
        ),
        (BASE + "job a workers=w\n", "job a has no parameter server$"),
        (
            BASE + "switch s1 aggregation=some\n" + JOB,
            r"aggregation: found 'some'; allowed: a rate such as .*, or unlimited, or none",
        ),
        (BASE + "host p ingress=0\n" + JOB, "ingress: found '0'; allowed: from 1 bit/s"),
        (BASE + "switch s1 slots=x\n" + JOB, "line 4: found slots=x"),
        (BASE + "host p slots=3\n" + JOB, "line 4: found 'slots=3'; allowed: ingress="),
        (BASE.replace("p s2 1Gbit/s", "p s2\nswitch s2 failed") + JOB, "not connected.*s2"),
        (BASE + "switch s1 agregation=3Gbit/s\n" + JOB, "did you mean aggregation"),
        (BASE.replace("3Gbit/s", "3") + JOB, "line 1: capacity: found '3'.*unit is missing"),
        (BASE.replace("3Gbit/s", "3 GB/s") + JOB, "line 1: capacity"),
        (BASE + "s2 s1 1Gbit/s\n" + JOB, "line 4: s2 is linked to s1 already"),
        (BASE + "s1 s1\n" + JOB, "line 4: s1 is linked to itself"),
        (BASE + "host w\nhost p\nw p\n" + JOB, "link w -> p is between hosts; allowed: from or to"),
        (BASE + "alone\n" + JOB, "line 4: found 'alone'"),
        ("s1 s2\nw s1\np s2\n" + JOB, "nothing limits the rate"),
    ],
)
def test_mistakes_are_one_clear_line(tmp_path, capsys, text, message) -> None:
    path = tmp_path / "net.txt"
    path.write_text(text)
    assert main(["plan", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and str(path) in error
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(error)


def test_too_few_slots_are_one_clear_line(tmp_path, capsys) -> None:
    path = tmp_path / "net.txt"
    text = BASE + "v s1 1Gbit/s\nswitch s1 slots=1\nswitch s2 aggregation=none\n"
    text = text.replace("v s1 1Gbit/s", "v s1 1Gbit/s delay=100us")
    path.write_text(text + "job a workers=w,v ps=p\n")
    assert main(["plan", str(path), "--planner", "nearest"]) == 2
    assert "switch s1: the nearest plan keeps " in capsys.readouterr().err
    path.write_text(path.read_text().replace("slots=1", "slots=0"))  # then it does not aggregate
    assert main(["plan", str(path), "--planner", "nearest"]) == 0


@pytest.mark.parametrize("content", [b"\xff\xfe", b"<graphml", b"<other/>"])
def test_unreadable_files(tmp_path, content) -> None:
    for name in ("net.graphml", "net.txt"):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(UserError, match=str(path)):
            of_file(path)
    with pytest.raises(UserError, match="can't be read"):
        of_file(tmp_path / "missing.txt")
