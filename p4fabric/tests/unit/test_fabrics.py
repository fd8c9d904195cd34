"""Networks in files of other simulators: what they become, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as some
from p4fabric.base.config.units import RATE, TIME, parse
from p4fabric.base.errors import UserError
from p4fabric.netfile.fabrics import astra_network, fabric_in, simai_topology
from p4fabric.netfile.fabrics.fabric import Line, topology_of
from p4fabric.netfile.import_topology import import_topology

FILE = Path("net.txt")


def simai(servers, size, nv, leaves, planes=1, rate="400Gbps"):
    """A file of servers with `nv` NVSwitches and `planes` network cards per GPU, below a spine."""
    gpus = servers * size
    inner = [*range(gpus, gpus + servers * nv)]
    outer = [*range(gpus + servers * nv, gpus + servers * nv + leaves + 1)]
    lines = [
        f"{gpu} {inner[gpu // size * nv + each]} 2880Gbps 0.000025ms 0"
        for gpu in range(gpus)
        for each in range(nv)
    ]
    lines += [
        f"{gpu} {outer[(gpu + plane) % leaves]} {rate} 0.0005ms 0"
        for gpu in range(gpus)
        for plane in range(planes)
    ]
    lines += [f"{leaf} {outer[-1]} 1.6Tbps 1us 0.25" for leaf in outer[:-1]]
    head = f"{outer[-1] + 1} {size} {len(inner)} {len(outer)} {len(lines)} H100"
    return "\n".join([head, " ".join(map(str, inner + outer)), *lines]) + "\n"


def rate_at(topology, node):
    """The rates of a node's links, in bit/s; None: unlimited."""
    options = [topology.link_options[link] for _, link, _ in topology.ports(node).values()]
    return [
        parse(each["bandwidth"], RATE, 1, 10**15) if each.get("bandwidth") else None
        for each in options
    ]


def lines_of(topology):
    """The links of a topology as lines."""
    made = []
    for ends, settings in zip(topology.links, topology.link_options, strict=True):
        rate = settings.get("bandwidth")
        delay = parse(settings["delay"], TIME, 0, 10**12) if "delay" in settings else 0
        loss = float(settings.get("loss", "0 %").split()[0]) / 100
        made.append(Line(*ends, parse(rate, RATE, 1, 10**15) if rate else None, delay, loss))
    return made


@given(
    servers=some.integers(1, 4),
    size=some.integers(1, 4),
    nv=some.integers(0, 3),
    leaves=some.integers(1, 4),
    planes=some.integers(1, 2),
)
def test_all_rates_of_a_simai_file_are_kept_and_written_back(servers, size, nv, leaves, planes):
    """Whatever becomes of nodes: into each rank leads what led into it, and the others' links are
    as many and as fast as before. Written and read again, it is the same network."""
    planes = min(planes, leaves)
    text = simai(servers, size, nv, leaves, planes)
    fabric = simai_topology.read(text, FILE)
    topology, _ = topology_of(fabric)
    assert len(topology.hosts) == servers * size
    assert {len(ranks) for ranks in topology.servers.values()} == ({size} if size > 1 else set())
    inside = nv > 0
    for host in topology.hosts:
        (rate,) = rate_at(topology, host)
        expected = 2880 * nv if inside else None if planes > 1 else 400
        assert rate == (expected * 10**9 if expected else None)
    named = [line for line in lines_of(topology) if line.rate_bit_s]
    uplinks = [line for line in named if line.delay_ns == 500]
    assert len(uplinks) == servers * size * planes
    assert {line.rate_bit_s for line in uplinks} == {400 * 10**9}
    spines = [line for line in named if line.delay_ns == 1000]
    assert len(spines) == leaves and {line.loss for line in spines} == {0.25}
    written = simai_topology.text_of(topology, lines_of(topology))
    again, _ = topology_of(simai_topology.read(written, FILE))
    assert (again.links, again.link_options) == (topology.links, topology.link_options)
    assert size == 1 or again == topology  # a machine of one rank cannot be told from a host
    # No link of a machine's switch leads out: the cards belong to GPUs.
    switches = {*written.splitlines()[1].split()[: servers * nv and servers]}
    gpus = {str(number) for number in range(servers * size)}
    for ends in (line.split()[:2] for line in written.splitlines()[2:]):
        assert size == 1 or not inside or not {*ends} & switches or {*ends} & gpus


@given(
    some.lists(
        some.tuples(some.sampled_from(astra_network.KINDS), some.integers(1, 4)),
        min_size=1,
        max_size=3,
    )
)
def test_each_dimension_of_an_astra_network_connects_what_differs_in_it_alone(dimensions):
    kinds, counts = map(list, zip(*dimensions, strict=True))
    rates = [10 * (place + 1) for place in range(len(kinds))]  # GB/s; tells the dimensions apart
    data = {"topology": kinds, "npus_count": counts, "bandwidth": rates}
    data["latency"] = [500.0] * len(kinds)
    fabric = astra_network.read(data, FILE)
    npus = 1
    for count in counts:
        npus *= count
    assert len(fabric.ranks) == npus
    for place, (kind, count) in enumerate(dimensions):
        lines = [line for line in fabric.lines if line.rate_bit_s == rates[place] * 8 * 10**9]
        groups = npus // count
        each = {
            "Switch": count,
            "FullyConnected": count * (count - 1) // 2,
            "Ring": 0 if count == 1 else 1 if count == 2 else count,
        }[kind]
        assert len(lines) == groups * each
        for line in lines:
            if kind == "Switch":
                continue
            a, b = (end.split()[1].split("-") for end in (line.a, line.b))
            assert [x for x, y in zip(a, b, strict=True) if x != y] == [a[len(a) - 1 - place]]
    linked = {end for line in fabric.lines for end in (line.a, line.b)}
    if linked >= {*fabric.ranks} or npus == 1:
        topology, _ = topology_of(fabric)
        assert len(topology.hosts) == npus
        text = simai_topology.text_of(topology, lines_of(topology))
        again, _ = topology_of(simai_topology.read(text, FILE))
        assert (again.links, again.link_options) == (topology.links, topology.link_options)


INFRA = {
    "name": "two",
    "devices": [
        {
            "name": "box",
            "components": [
                {"name": "gpu", "count": 4, "choice": "xpu"},
                {"name": "cpu", "count": 1, "choice": "cpu"},
                {"name": "nv", "count": 2, "choice": "switch"},
                {"name": "pci", "count": 1, "choice": "switch"},
                {"name": "card", "count": 2, "choice": "nic"},
            ],
            "links": [
                {"name": "nvlink", "physical": {"bandwidth": {"gigabytes_per_second": 50}}},
                {"name": "bus"},
            ],
            "edges": [
                {
                    "ep1": {"component": one},
                    "ep2": {"component": two},
                    "scheme": "many2many",
                    "link": link,
                }
                for one, two, link in (
                    ("gpu", "nv", "nvlink"),
                    ("gpu", "pci", "bus"),
                    ("cpu", "pci", "bus"),
                    ("card", "pci", "bus"),
                )
            ],
        },
        {
            "name": "leaf",
            "components": [{"name": "port", "count": 8, "choice": "port"}],
            "links": [],
            "edges": [],
        },
    ],
    "links": [
        {
            "name": "cable",
            "description": "400 Gbps copper",
            "physical": {
                "bandwidth": {"choice": "gigabytes_per_second", "gigabytes_per_second": 50},
                "latency": {"choice": "ns", "ns": 300},
            },
        }
    ],
    "instances": [
        {"name": "box", "device": "box", "count": 3},
        {"name": "leaf", "device": "leaf", "count": 1},
    ],
    "edges": [
        {
            "ep1": {"instance": f"box[{box}]", "component": f"card[{card}]"},
            "ep2": {"instance": "leaf[0]", "component": f"port[{2 * box + card}]"},
            "scheme": "one2one",
            "link": "cable",
        }
        for box in range(3)
        for card in range(2)
    ],
}


def test_an_infragraph_has_xpus_as_ranks_and_its_scale_up_switches_as_one(tmp_path):
    pytest.importorskip("infragraph", reason="needs the package infragraph")
    file = tmp_path / "two.yaml"
    file.write_text(yaml.safe_dump(INFRA))
    kind, fabric = fabric_in(file)
    topology, notes = topology_of(fabric)
    assert "InfraGraph" in kind and len(topology.hosts) == 12 and len(topology.switches) == 4
    assert [*map(len, topology.servers.values())] == [4, 4, 4]
    assert rate_at(topology, "h1") == [2 * 50 * 8 * 10**9]  # two NVSwitches
    leaf = topology.switches[-1]
    assert rate_at(topology, leaf) == [50 * 8 * 10**9] * 6  # cards, not one per xpu
    assert any("says gigabits and its key gigabytes" in note for note in fabric.notes)
    assert any("cpu" in note for note in fabric.notes)
    INFRA["instances"][0]["device"] = "bix"
    file.write_text(yaml.safe_dump(INFRA))
    INFRA["instances"][0]["device"] = "box"
    with pytest.raises(UserError, match=r"two\.yaml: this is no valid InfraGraph"):
        fabric_in(file)


@pytest.mark.parametrize("name", ["clos", "fat tree", "dgx1", "dgx2", "dgx_a100", "dgx_gb200"])
def test_fabrics_that_the_package_infragraph_builds_keep_their_ranks_and_outer_links(
    name, tmp_path, recwarn
):
    pytest.importorskip("infragraph", reason="needs the package infragraph")
    from infragraph.blueprints.devices.generic.generic_switch import Switch
    from infragraph.blueprints.devices.nvidia.dgx import NvidiaDGX
    from infragraph.blueprints.fabrics.clos_fat_tree_fabric import ClosFatTreeFabric
    from infragraph.blueprints.fabrics.closfabric import ClosFabric
    from infragraph.blueprints.fabrics.single_tier_fabric import SingleTierFabric
    from infragraph.infragraph_service import InfraGraphService

    if name == "clos":
        made = ClosFabric()
    elif name == "fat tree":
        made = ClosFatTreeFabric(Switch(16), NvidiaDGX(), 2, [100, 400])
    else:
        made = SingleTierFabric(NvidiaDGX(name), 2, 100)
    file = tmp_path / "made.yaml"
    file.write_text(made.serialize(encoding=made.YAML))
    _, fabric = fabric_in(file)
    topology, _ = topology_of(fabric)  # raises an error unless all is connected
    assert not recwarn
    with pytest.raises(UserError, match="needs a bandwidth"):
        simai_topology.text_of(topology, lines_of(topology))
    service = InfraGraphService()
    service.set_graph(made)
    graph = service.get_networkx_graph()
    xpus = [node for node, kind in graph.nodes(data="type") if kind == "xpu"]
    assert [*fabric.ranks] == xpus and len(topology.hosts) == len(xpus)
    gigabits = {each.name: each.physical.bandwidth.gigabits_per_second for each in made.links}
    outer = [
        gigabits[link]
        for a, b, link in graph.edges(data="link")
        if a.split(".")[:2] != b.split(".")[:2]
    ]
    assert sorted(outer) == sorted(
        line.rate_bit_s // 10**9 for line in lines_of(topology) if line.rate_bit_s
    )
    machines = len({xpu.split(".")[1] for xpu in xpus})
    assert len(topology.servers) == machines
    assert len(topology.switches) == machines + sum(
        instance.count for instance in made.instances if instance.name != made.instances[0].name
    )


GOOD = simai(2, 2, 1, 2)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("9 2 2 3", "9 3 2 3", "4 GPUs cannot be in servers of 3"),
        ("9 2 2 3", "9 2 1 3", "line 2: 5 switches, but the first line says 1 [+] 3"),
        ("4 5 6 7 8\n", "4 5 6 7 9\n", "line 2: 9 is no node from 0 to 8"),
        ("400Gbps", "400G", "400G is no rate such as 400Gbps"),
        ("0.0005ms", "0.0005", "line 7: 0.0005 is no delay"),
        ("0.0005ms 0\n", "0.0005ms 1.5\n", "1.5 is no share of lost packets"),
        ("0.0005ms 0\n", "0.0005ms\n", "a link has two ends, a rate, a delay and a share"),
        ("1 4 2880Gbps", "2 4 2880Gbps", "NVSwitch 4 has GPUs of several servers"),
        ("7 8 1.6Tbps 1us 0.25\n", "", "9 links, but the first line says 10"),
        ("9 2 2 3", "99999 2 2 3", "99999 nodes; at most 65000"),
    ],
)
def test_what_is_wrong_with_a_simai_file_is_named_with_its_line(old, new, message):
    assert old in GOOD
    with pytest.raises(UserError, match=rf"net\.txt.*{message}"):
        simai_topology.read(GOOD.replace(old, new, 1), FILE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bandwidth": 50}, "the key bandwidth is no list"),
        ({"latency": [1]}, "of different lengths"),
        ({"topology": ["Ring", "Torus"]}, "'Torus' is none of Ring, FullyConnected, Switch"),
        ({"npus_count": [2, 0]}, "a count is a whole number above 0"),
        ({"npus_count": [2**10, 2**10]}, "1048576 NPUs; at most 65000"),
        ({"bandwidth": [50, 0]}, "bandwidth: 0 is no number above 0"),
        ({"latency": [-1, 0]}, "latency: -1 is no number from 0"),
    ],
)
def test_what_is_wrong_with_an_astra_network_is_named(change, message):
    good = {"topology": ["Switch", "Ring"], "npus_count": [2, 2]}
    good |= {"bandwidth": [50, 25], "latency": [1, 0]}
    assert astra_network.read({**good, "dimension": "N"}, FILE).notes == [
        "not taken over: dimension"
    ]
    with pytest.raises(UserError, match=message):
        astra_network.read(good | change, FILE)


def test_a_fabric_with_a_program_is_a_network_file(tmp_path, capsys):
    source, program = tmp_path / "pod.txt", tmp_path / "l2.p4"
    source.write_text(GOOD)
    program.write_text("#include <core.p4>\n")
    output = tmp_path / "pod.yaml"
    assert fabric_in(source) and not fabric_in(program)
    with pytest.raises(UserError, match="give the switches a P4 program with --program"):
        import_topology(source, None, output, True, lambda file, root: f"run {file}")
    assert import_topology(source, program, output, True, lambda file, root: f"run {file}") == 0
    made = yaml.safe_load(output.read_text())
    assert len(made["network"]["hosts"]) == 4 and len(made["network"]["links"]) == 10
    assert made["network"]["program"] == "l2.p4" and made["runtime"] == "virtual"
    printed = capsys.readouterr().out
    assert (
        "not taken over: the type of the GPUs, H100" in printed and f"next: run {output}" in printed
    )
    with pytest.raises(UserError, match="there already"):
        import_topology(source, program, output, True, lambda file, root: f"run {file}")
