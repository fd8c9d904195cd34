"""Calls of a program that go by different systems and algorithms, and are added in different
formats, in virtual time."""

from __future__ import annotations

import random
import re

import pytest
from p4fabric.base.errors import UserError
from p4fabric_testing.matrix import first_of

from testbed.experiment import load_text
from testbed.experiment.experiment import choices
from testbed.number_formats import FORMATS
from testbed.schemes import set_up
from testbed.setup.host_specs import host_specs
from testbed.traffic import chakra
from testbed.traffic.call_algorithms import names_of_sums
from testbed.traffic.rank_calls import load_program
from testbed.traffic.rank_counts import kind_of_group
from tests.support.experiments import memory_line
from tests.support.ranks import Ranks, drawn
from tests.support.virtual import run_virtual

EXPERIMENT = """
name: test
runtime: virtual
topology: {kind: star, hosts: 6}
links: {bandwidth: 10 Gbit/s, delay: 1 us, loss: %(loss)s}
system: %(system)s
%(memory)s
collectives: %(collectives)s
jobs:
  - {name: job, model: %(model)s, workers: 5, iterations: 3}
"""
SIZES = (4, 1000, 30_000)
ROUTES = """{
  all_reduce: [{up to: 100 B, use: double_tree}, {up to: 8 KiB, use: ring}, {use: %s}],
  reduce_scatter: [{use: ring}], all_gather: [{use: halving_doubling}],
  broadcast: [{use: double_tree}], reduce: [{use: ring}], barrier: [{use: double_tree}]}"""


def program(path) -> str:
    made = Ranks(all=(0, 1, 2, 3, 4), some=(3, 0, 4))
    for rank in range(5):
        for size in SIZES:
            made.add(rank, "all_reduce", group="all", bytes=size)
        made.add(rank, "reduce_scatter", group="all", bytes=9000)
        made.add(rank, "all_gather", group="all", bytes=1500)
        made.add(rank, "broadcast", group="all", bytes=5000, peer=2)
        made.add(rank, "all_to_all", group="all", bytes=5000)
        made.add(rank, "reduce", group="all", bytes=5000, peer=4)
        made.add(rank, "barrier", group="all")
        if rank in (0, 3, 4):
            made.add(rank, "all_reduce", group="some", bytes=2000)
            made.add(rank, "broadcast", group="some", bytes=2000, peer=4)
    return str(made.write(path / "run.et"))


def experiment(path, system: str, collectives: str, loss: str = "0"):
    parts = {"model": program(path), "system": system, "loss": loss, "collectives": collectives}
    return load_text(EXPERIMENT % {**parts, "memory": memory_line(system, 256)})


@pytest.mark.parametrize(
    "system", first_of(["esa", "switchml", "ps", "ring", "atp", "grid", "tree"], 2)
)
@pytest.mark.parametrize("loss", ["0", "1 %"])
def test_each_call_goes_the_way_that_its_kind_and_size_say(system, loss, tmp_path):
    tables = run_virtual(experiment(tmp_path, system, ROUTES % system, loss))
    assert tables["jobs"][0]["exact"]
    found = {
        (row["communicator"], row["collective"], row["route"]): row["bytes"] // 3
        for row in tables["collectives"]
        if row["worker"] == 0
    }
    by_system = "ring" if system == "ring" else "system"
    expected = {
        ("all", "all_reduce", "double_tree"): 4,
        ("all", "all_reduce", "ring"): 1000,
        ("all", "reduce_scatter", "ring"): 9000,
        ("all", "all_gather", "halving_doubling"): 1500,
        ("all", "broadcast", "double_tree"): 5000,
        ("all", "all_to_all", "flow"): 5000,
        ("all", "reduce", "ring"): 5000,
        ("all", "barrier", "double_tree"): 0,
        ("3 0 4", "all_reduce", "ring"): 2000,
        ("3 0 4", "broadcast", "double_tree"): 2000,
    }
    key = ("all", "all_reduce", by_system)
    assert found == expected | {key: expected.get(key, 0) + 30_000}
    if by_system == "system":  # columns about switches count its calls alone
        assert tables["jobs"][0]["fragments"] == -(-30_000 // 4 // 64)


def test_calls_of_a_group_follow_each_other_whatever_carries_them(tmp_path):
    """A call that need not wait for the one before begins after it all the same."""
    made = Ranks(all=(0, 1, 2, 3, 4))
    for rank in range(5):
        made.add(rank, "all_reduce", (), group="all", bytes=200_000)
        made.add(rank, "all_reduce", (), group="all", bytes=4)
    path = made.write(tmp_path / "run.et")
    parts = {"model": path, "system": "esa", "loss": "0", "memory": memory_line("esa", 256)}
    routes = "{all_reduce: [{up to: 1 kB, use: ring}, {use: esa}]}"
    tables = run_virtual(load_text(EXPERIMENT % {**parts, "collectives": routes}))
    took = {row["route"]: row["time_ns"] for row in tables["collectives"] if row["worker"] == 0}
    assert took["system"] > 3 * 200_000  # 782 packets of 326 bytes each time
    assert tables["jobs"][0]["jct_ns"] >= took["system"] + took["ring"]


def test_auto_takes_what_the_model_says_and_check_prints_it(tmp_path):
    spec = experiment(tmp_path, "esa", "{all_reduce: [{use: auto}]}")
    lines = choices(spec)
    assert lines == [
        "all_reduce among 3 ranks (auto): esa",
        "all_reduce among 5 ranks (auto): esa",
    ]
    spec = experiment(tmp_path, "ps", "{all_reduce: [{use: auto}]}")
    few, many = choices(spec)
    assert many.startswith("all_reduce among 5 ranks (auto): ps, from ")
    assert many.endswith("on halving_doubling")
    tables = run_virtual(spec)
    ways = {(row["collective"], row["route"]) for row in tables["collectives"]}
    assert ("all_reduce", "halving_doubling") in ways and ("all_reduce", "system") in ways


def test_groups_by_algorithms_have_no_servers_and_no_memory(tmp_path):
    setup = set_up(experiment(tmp_path, "esa", ROUTES % "esa"))
    of = {str(each.ranks.calls.route): each.group for each in setup.groups.values()}
    assert set(of) == {
        *("all", "all by double_tree", "all by ring", "all by halving_doubling"),
        *("some by ring", "some by double_tree"),
    }
    assert of["all"].servers and of["all"].tree is not None and not of["all"].algorithm
    ring = of["all by ring"]
    assert (ring.servers, ring.tree, ring.algorithm) == ((), None, "ring")


def test_names_of_groups_say_nothing_of_algorithms(tmp_path):
    """Neither a recording's own ones, nor those in an export of routed calls."""
    program = load_program(experiment(tmp_path, "esa", ROUTES % "esa").jobs[0].trace().ranks)
    assert {node.algorithm for node in program.ranks[0]} == {"", "ring", "double_tree",
                                                             "halving_doubling"}  # fmt: skip
    chakra.write(tmp_path / "run.et", program)
    assert [*chakra.load(tmp_path / "run.et").groups] == ["all", "some"]
    made = Ranks(**{"all by hand": (0, 1, 2, 3, 4)})
    for rank in range(5):
        made.add(rank, "all_reduce", group="all by hand", bytes=9)
    for path in (tmp_path / "run.et", made.write(tmp_path / "named.et")):
        parts = {"model": path, "system": "esa", "loss": "0", "memory": memory_line("esa", 256)}
        setup = set_up(load_text(EXPERIMENT % {**parts, "collectives": "{}"}))
        assert {each.group.algorithm for each in setup.groups.values()} == {""}


@pytest.mark.parametrize(
    "collectives, message",
    [
        ("{all_reduce: [{use: rings}]}", r"collectives.all_reduce\[0\].use: found 'rings'.*ring"),
        ("{all_reduce: [{use: atp}]}", r"use: found 'atp'; allowed: esa, ring"),
        ("{all_reduce: [{use: ring}, {use: esa}]}", "a route that no call takes"),
        (
            "{all_reduce: [{up to: 2 KiB, use: ring}, {up to: 1 KiB, use: esa}]}",
            "a route that no call takes",
        ),
        ("{all_to_all: [{use: ring}]}", "all_to_all: unknown key"),
        ("{all_reduce: [{up to: 2, use: ring}]}", "'up to': found 2; allowed: a size"),
    ],
)
def test_what_is_wrong_with_routes_is_named(collectives, message, tmp_path):
    with pytest.raises(Exception, match=message):
        experiment(tmp_path, "esa", collectives)


def test_jobs_without_a_program_have_no_routes(tmp_path):
    text = EXPERIMENT % {
        **{"system": "esa", "memory": memory_line("esa", 256), "loss": "0", "model": "alexnet"},
        "collectives": "{all_reduce: [{use: ring}]}",
    }
    with pytest.raises(Exception, match="is for jobs that replay a program of ranks, and job does"):
        load_text(text)


def test_a_transformer_s_groups_are_routed_by_kind(tmp_path):
    text = EXPERIMENT % {
        **{"system": "esa", "memory": memory_line("esa", 256), "loss": "0"},
        "model": "{transformer: llama2-7b, sequence: 512, global_batch: 4, layers: 1}, parallel:"
        " {tp: 2, dp: 2}, scale: 0.0001",
        "collectives": "{all_reduce: [{up to: 2 KiB, use: ring}, {use: esa}]}",
    }
    spec = load_text(
        text.replace("workers: 5", "workers: 4").replace("iterations: 3", "iterations: 1")
    )
    routes = [each.ranks.calls.route for each in set_up(spec).groups.values()]
    assert {route.algorithm for route in routes} == {"", "ring"}
    assert {route.group.partition(".")[0] for route in routes} >= {"tp", "dp"}
    tables = run_virtual(spec)
    assert tables["jobs"][0]["exact"]
    assert {row["route"] for row in tables["collectives"]} == {"system", "ring"}


ON_SERVERS = """
name: test
runtime: virtual
topology:
  {kind: rails, servers: 3, ranks: 2, leaves: 1, scale_up: 40 Gbit/s, nic: 10 Gbit/s, server_ps: 1}
links: {loss: %(loss)s}
system: %(system)s
%(memory)s
collectives: {all_reduce: [{up to: 100 B, use: ring}, {use: %(system)s, inside: %(inside)s}]}
jobs:
  - {name: job, model: %(model)s, workers: 6, iterations: 2%(more)s}
"""


def on_servers(path, system="esa", inside="ring", loss="0", more="", **groups):
    made = Ranks(**(groups or {"all": (0, 1, 2, 3, 4, 5), "pair": (2, 3), "rail": (1, 3, 5)}))
    for rank in range(6):
        for group, ranks in made.groups.items():
            if rank in ranks:
                made.add(rank, "all_reduce", group=group, bytes=20_004)
        made.add(rank, "all_reduce", group=next(iter(made.groups)), bytes=8)
    parts = {"model": made.write(path / "run.et"), "system": system, "inside": inside,
             "loss": loss, "more": more, "memory": memory_line(system, 256)}  # fmt: skip
    return load_text(ON_SERVERS % parts)


@pytest.mark.parametrize(
    "system, inside", first_of([("esa", "ring"), ("switchml", "double_tree"), ("tree", "ring")], 2)
)
@pytest.mark.parametrize("loss", ["0", "1 %"])
def test_an_all_reduce_goes_in_steps_inside_and_across_servers(system, inside, loss, tmp_path):
    described = on_servers(tmp_path, system, inside, loss)
    assert load_text(described.resolved_yaml()) == described
    tables = run_virtual(described)
    assert tables["jobs"][0]["exact"]
    found = {
        (row["communicator"], row["collective"], row["route"]): row["bytes"] // 2
        for row in tables["collectives"]
        if row["worker"] == 3
    }
    carried = {"ring": "ring", "double_tree": "halving_doubling"}[inside]
    assert found == {
        # 5,001 values are two parts of 2,501.
        ("2 3", "reduce_scatter", carried): 20_008,
        ("1 3 5", "all_reduce", "system"): 10_004 + 20_004,  # and the group of one rank per server
        ("2 3", "all_gather", carried): 10_004,
        ("2 3", "all_reduce", inside): 20_004,  # the group in one server
        ("all", "all_reduce", "ring"): 8,
    }


def test_calls_of_a_group_follow_its_calls_in_steps(tmp_path):
    made = Ranks(all=(0, 1, 2, 3, 4, 5))
    for rank in range(6):
        for size in (8, 200_000, 8):
            made.add(rank, "all_reduce", (), group="all", bytes=size)
    parts = {"model": made.write(tmp_path / "run.et"), "system": "switchml", "inside": "ring",
             "loss": "0", "more": "", "memory": memory_line("switchml", 256)}  # fmt: skip
    program = load_program(load_text(ON_SERVERS % parts).jobs[0].trace().ranks)
    for nodes in program.ranks:
        kinds = [(node.kind, node.after) for node in nodes]
        assert kinds == [
            ("all_reduce", ()),
            ("reduce_scatter", (0,)),
            ("all_reduce", (1,)),
            ("all_gather", (2,)),
            ("all_reduce", (3,)),
        ]


def test_steps_cross_each_card_with_a_part_alone(tmp_path):
    """Of a sum among six ranks on three servers each NIC carries half, in place of all of it."""

    def busiest(described) -> int:
        links = run_virtual(described)["links"]
        return max(row["bytes"] for row in links if row["node"] in ("s1", "s2", "s3")
                   and row["neighbour"] == "s4" and row["direction"] == "egress")  # fmt: skip

    groups = {"all": (0, 1, 2, 3, 4, 5)}
    steps = on_servers(tmp_path, "switchml", **groups)
    in_one = load_text(steps.resolved_yaml().replace("inside: ring", ""))
    assert 0.4 * busiest(in_one) < busiest(steps) < 0.6 * busiest(in_one)


@pytest.mark.parametrize(
    "more, groups, said",
    [
        (", placement: {workers: [h1, h3, h2, h4, h5, h6], ps: h7}", {},
         "ranks 0 to 1 of job are on 2 servers; place whole servers"),
        ("", {"all": (0, 1, 2, 3, 4, 5), "odd": (0, 1, 2)},
         "group odd: has ranks 0, 1 in one server and 2 in another"),
    ],
)  # fmt: skip
def test_steps_that_cannot_be(more, groups, said, tmp_path):
    with pytest.raises(UserError, match=re.escape(said)):
        on_servers(tmp_path, more=more, **groups)


def test_a_trace_s_nodes_may_name_later_ones(tmp_path):
    made = Ranks(all=(0, 1, 2, 3, 4, 5))
    for rank in range(6):
        made.add(rank, "compute", (1,), duration_ns=5)
        made.add(rank, "all_reduce", (), group="all", bytes=200_000)
    parts = {"model": made.write(tmp_path / "run.et"), "system": "esa", "inside": "ring",
             "loss": "0", "more": "", "memory": memory_line("esa", 256)}  # fmt: skip
    nodes = load_program(load_text(ON_SERVERS % parts).jobs[0].trace().ranks).ranks[0]
    assert [(node.kind, node.after) for node in nodes] == [
        ("compute", (3,)),
        ("reduce_scatter", ()),
        ("all_reduce", (1,)),
        ("all_gather", (2,)),
    ]


def test_steps_are_counted_by_kind(tmp_path):
    program = load_program(on_servers(tmp_path).jobs[0].trace().ranks)
    kinds = {kind_of_group(route) for route in program.routes}
    assert kinds >= {"all in server by ring", "all across servers", "pair by ring", "rail"}
    assert not any(kind[-1].isdigit() for kind in kinds)


def test_only_all_reduce_on_servers_goes_in_steps(tmp_path):
    route = "{all_gather: [{use: esa, inside: ring}]}"
    with pytest.raises(UserError, match="all_gather: found `inside`; allowed: `inside` in routes"):
        experiment(tmp_path, "esa", route)
    with pytest.raises(UserError, match="needs servers with equally many ranks, two or more"):
        experiment(tmp_path, "esa", "{all_reduce: [{use: esa, inside: ring}]}")
    with pytest.raises(UserError, match="found `use: auto` with `inside`; allowed: the system or"):
        experiment(tmp_path, "esa", "{all_reduce: [{use: auto, inside: ring}]}")


NARROW = [each for each in [*FORMATS.values()][::-1] if len(each.together) > 1]
WHOLE = ("switchml", "ps")  # systems in which no sum of some workers leaves an aggregator


@pytest.mark.parametrize("system", first_of(["switchml", "esa", "ps", "atp", "tree", "grid"], 2))
@pytest.mark.parametrize("form", first_of(NARROW, 2), ids=lambda each: each.name)
def test_groups_and_types_have_formats_of_their_own(system, form, tmp_path):
    system = system if system in WHOLE or not form.is_wide else "ps"
    for seed in range(4):
        draw = random.Random(seed)
        path = drawn(seed, 5).write(tmp_path / f"{seed}.et")
        names = names_of_sums(chakra.load(path))
        given = {each: draw.choice(form.together) for each in draw.sample(names, len(names) // 2)}
        parts = {"system": f"{{name: {system}, sum: {form.name}}}", "loss": "1 %"}
        parts |= {"memory": memory_line(system, 512), "collectives": "{}"}
        more = ", sums: {" + ", ".join(f"{name}: {each}" for name, each in given.items()) + "}"
        spec = load_text(EXPERIMENT % {**parts, "model": f"{path}{more}"})
        assert spec.resolved_yaml() == load_text(spec.resolved_yaml()).resolved_yaml()
        setup = set_up(spec)
        for group in setup.groups.values():
            for call in group.ranks.calls.calls:
                name = call.node.group
                named = (name, name.rstrip("0123456789"), call.node.dtype)
                expected = next((given[each] for each in named if each in given), form.name)
                assert group.platform.sum.name == expected
        told = {
            (each.job.sum, each.job.value_bits) for h in host_specs(setup) for each in h.members
        }
        assert told == {(g.platform.sum.name, g.platform.sum.bits) for g in setup.groups.values()}
        assert run_virtual(spec)["jobs"][0]["exact"]
