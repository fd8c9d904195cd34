"""The picture of a network: what its links carried, and the same on a page and in a figure."""

from __future__ import annotations

import csv
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from p4fabric_testing.virtual_networks import MARKING, star

from testbed.analysis.data.network_picture import LABELS, UNKNOWN, of_ports, of_topology
from testbed.cli.main import main
from tests.support.synthetic_results import write_run

COLUMNS = ("switch", "port", "neighbour", "direction", "bytes", "busy")


@st.composite
def ports(draw):
    """Rows of a table of ports: of each link both directions, counted where they begin."""
    rows = []
    for number, other in draw(
        st.lists(st.tuples(*[st.integers(1, 5)] * 2), min_size=1, max_size=9)
    ):
        switch, trunk = f"s{number}", number != other <= 2
        far = f"s{other}" if trunk else f"h{other}"
        back = (far, switch, "egress") if trunk else (switch, far, "ingress")
        for node, neighbour, direction in ((switch, far, "egress"), back):
            octets, busy = draw(st.tuples(st.integers(0, 9), st.sampled_from((0, 0.05, 0.6, 1))))
            values = (node, len(rows) + 1, neighbour, direction, octets, busy)
            rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows


@given(ports())
def test_every_link_is_drawn_once_with_its_bytes_and_the_load_of_the_busier_direction(rows):
    picture = of_ports(rows)
    edges = picture.links
    assert {frozenset(ends) for ends in edges[["a", "b"]].to_numpy()} == {
        frozenset((row["switch"], row["neighbour"])) for row in rows
    }
    assert edges["up_bytes"].sum() + edges["down_bytes"].sum() == sum(row["bytes"] for row in rows)
    assert sum(len(some) for _, some in picture.by_load()) == len(edges)
    floor = -1.0
    for kind, some in picture.by_load():
        for a, b in some[["a", "b"]].to_numpy():
            of_it = [row for row in rows if {row["switch"], row["neighbour"]} == {a, b}]
            known = [row["busy"] for row in of_it if row["busy"] or not row["bytes"]]
            if kind is UNKNOWN:
                assert not known
            else:
                assert floor < max(known) <= kind.most
        floor = kind.most
    down = {(row["switch"], row["neighbour"]) for row in rows if row["direction"] == "egress"}
    for edge in edges.itertuples():
        told = sum(
            row["bytes"]
            for row in rows
            if (row["switch"], row["neighbour"]) == (edge.a, edge.b)
            and row["direction"] == "egress"
        )
        assert (edge.a, edge.b) in down and edge.down_bytes == told
    assert {name for some in picture.nodes for name in some.names} == set(picture.place)


def test_a_link_within_a_level_covers_none_of_the_others():
    ends = [(f"s{n}", f"h{n}") for n in (1, 2, 3)] + [("s1", "s2"), ("s2", "s3"), ("s1", "s3")]
    picture = of_topology(["h1", "h2", "h3"], ["s1", "s2", "s3"], ends)
    (level,) = {picture.place[name][1] for name in ("s1", "s2", "s3")}
    highest = [max(y for _, y in picture.way(*each)) for each in ends[3:]]
    assert level < highest[0] == highest[1] < highest[2]
    assert picture.middles()[1][-1] == highest[2]


def test_names_are_written_where_there_is_room(tmp_path):
    hosts = [f"h{number}" for number in range(LABELS + 1)]
    picture = of_topology(hosts, ["s1"], [("s1", host) for host in hosts])
    assert [picture.named(some) for some in picture.nodes] == [True, False]


NETWORK = """
virtual: {duration: 20 us}
flows: [{name: incast, from: h1, to: h3, rate: 80 Gbit/s, size: 1000 B}]
"""


@pytest.fixture(scope="module")
def network_run(tmp_path_factory):
    """A network file, and the folder of its run."""
    folder = tmp_path_factory.mktemp("network")
    file = folder / "net.yaml"
    file.write_text(star(MARKING, 3, NETWORK))
    assert main(["run", str(file), "--results", str(folder / "results")]) == 0
    (run,) = (folder / "results").iterdir()
    return file, run


def drawn(path):
    """What is written in a picture."""
    return set(re.findall(r"<!-- (.*?) -->", path.read_text()))


def test_the_page_of_a_network_s_run_has_its_topology_with_loads(network_run):
    text = (network_run[1] / "report.html").read_text()
    found = re.search(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', text, re.S)
    chart = json.loads(found.group(1))["charts"]["topology"]
    names = [trace.get("name") for trace in chart["data"]]
    assert names[0] == "load below 10 %" and {"switch", "host"} < set(names)
    (hovers,) = (trace["hovertext"] for trace in chart["data"] if trace.get("name") is None)
    with (network_run[1] / "ports.csv").open() as file:
        (row,) = (
            each
            for each in csv.DictReader(file)
            if each["neighbour"] == "h3" and each["direction"] == "egress"
        )
    assert float(row["busy"]) > 0.5
    (told,) = (text for text in hovers if "s1 to h3" in text)
    assert f"{100 * float(row['busy']):.3g} % of its rate" in told


def test_a_network_is_drawn_and_a_run_with_its_loads(network_run, tmp_path, capsys):
    file, run = network_run
    experiment = tmp_path / "mine.yaml"
    assert main(["init", str(experiment)]) == 0
    loads = {}
    for number, source in enumerate((file, run, experiment, write_run(tmp_path, "ran"))):
        path = tmp_path / f"{number}.svg"
        assert main(["show", str(source), "--figure", str(path)]) == 0
        assert f"picture: {path}" in capsys.readouterr().out
        assert {"s1", "h1", "h3", "switch"} <= drawn(path)
        loads[source] = {text for text in drawn(path) if text.startswith("load")}
    without, of_network, before, of_run = loads.values()
    assert not without and not before
    assert any("share of the run" in text for text in of_network)
    assert any("bytes over the run" in text for text in of_run)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--json"], "--figure takes neither"),
        (["system=atp"], "changes an experiment, not results or a network"),
    ],
)
def test_what_cannot_be_drawn_is_refused(network_run, tmp_path, capsys, words, message):
    path = tmp_path / "out.svg"
    assert main(["show", str(network_run[0]), "--figure", str(path), *words]) == 2
    assert message in capsys.readouterr().err and not path.exists()


def test_the_run_of_a_network_is_listed_opened_shown_and_removed(network_run, capsys, monkeypatch):
    file, run = network_run
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda uri: opened.append(uri) or True)
    assert main(["open", str(run)]) == 0 and opened == [(run / "report.html").as_uri()]
    assert main(["show", str(run)]) == 0
    capsys.readouterr()
    assert main(["ls", str(run.parent), "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["name"], listed["kind"], listed["state"]) == (run.name, "network", "finished")
    assert main(["report", str(run)]) == 2
    assert "`open` shows its page" in capsys.readouterr().err
    assert main(["rm", str(run)]) == 0 and not run.exists()
    assert main(["rm", str(file.parent)]) == 2 and file.exists()
