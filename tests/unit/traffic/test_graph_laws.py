"""Laws of rank graphs, of whatever makes them."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from itertools import pairwise
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from testbed.algorithms.by_name import USE_OF
from testbed.algorithms.choice import SYSTEM
from testbed.collective_kinds import COLLECTIVES
from testbed.traffic import simai
from testbed.traffic.call_algorithms import ANY, AUTO, AlgorithmRules, with_algorithms
from testbed.traffic.rank_graph import (
    COMPUTE,
    MAX_BYTES,
    MAX_RANKS,
    RECV,
    SEND,
    GroupRoute,
    Node,
    Program,
    check,
    transfers,
)
from testbed.traffic.trace import MAX_NS, TraceError
from testbed.traffic.transformer import SHAPES, SHARDING, Transformer
from tests.support.graph_laws import hold_bytes, hold_graph, hold_parameters
from tests.support.ranks import drawn, every_transfer
from tests.support.recordings import PROGRAM
from tests.support.workloads import workload

LAYERS = (
    "attention 100 ALLREDUCE 64 200 NONE 0 300 NONE 0 7",
    "experts 10 ALLTOALL_EP 64 20 REDUCESCATTER 64 30 ALLREDUCE_DP_EP 128 8",
)
FEW = settings(max_examples=8, derandomize=True)
SIZES = st.sampled_from([1, 2])


@st.composite
def transformers(draw: st.DrawFn, micro: bool = False, **fixed: object) -> Transformer:
    """Small ones whose parts fit together."""
    sizes = {key: draw(SIZES) for key in ("tp", "cp", "ep", "dp", "pp")}
    model = draw(st.sampled_from(sorted(SHAPES)))
    if not SHAPES[model].experts:
        sizes["ep"] = 1
    if micro:
        sizes["pp"] *= draw(SIZES)
    assume(prod(sizes.values()) <= 8)
    size = draw(SIZES) if micro else 1
    batch = sizes["ep"] * sizes["dp"] * draw(SIZES) * size
    options = {
        "layers": 4 if micro else 2,
        "micro_batch": size,
        "sequence_parallel": draw(st.booleans()) or SHAPES[model].experts > 0,
        "sharding": draw(st.sampled_from(SHARDING)),
        **sizes,
        **fixed,
    }
    return Transformer(model, 512, batch * 2, **options)  # type: ignore[arg-type]


@given(transformers())
@FEW
def test_generated_transformers_keep_the_laws(made):
    with TemporaryDirectory() as folder:
        hold_graph(made.load(), Path(folder))


@given(transformers(dp=2, sharding="none"))
@settings(FEW, max_examples=60)
def test_stages_have_the_parameters_of_the_whole_model(made):
    hold_parameters(made)


@given(transformers(micro=True))
@settings(FEW, max_examples=60)
def test_stages_do_what_the_formulas_say(made):
    hold_bytes(made)


def stuck_nodes(program: Program) -> set[tuple[int, int]]:
    """The nodes that never end, by looking at all nodes again and again."""
    pairs = transfers(program)
    calls: dict[tuple[str, int], list[int]] = {}
    for rank, nodes in enumerate(program.ranks):
        for place, node in enumerate(nodes):
            if node.kind in COLLECTIVES:
                calls.setdefault((node.group, rank), []).append(place)
    done: set[tuple[int, int]] = set()

    def is_ready(rank: int, place: int) -> bool:
        return all((rank, each) in done for each in program.ranks[rank][place].after)

    def may_start(group: str, rank: int, number: int) -> bool:
        return all(is_ready(rank, each) for each in calls[group, rank][: number + 1])

    def ends(rank: int, place: int) -> bool:
        node = program.ranks[rank][place]
        if node.kind in COLLECTIVES:
            number = calls[node.group, rank].index(place)
            return all(may_start(node.group, r, number) for r in program.groups[node.group])
        return is_ready(rank, place) and (node.kind != RECV or pairs[rank, place] in done)

    every = {
        (rank, place) for rank, nodes in enumerate(program.ranks) for place in range(len(nodes))
    }
    while new := {each for each in every - done if ends(*each)}:
        done |= new
    return every - done


def tangled(seed: int) -> Program:
    """A program whose nodes wait for any others of their rank, named twice now and then."""
    draw = random.Random(seed)
    made = drawn(draw.randrange(10**6), draw.randint(2, 3))
    ranks = []
    for nodes in made.nodes:
        places = range(len(nodes))
        changed = []
        for place, node in enumerate(nodes):
            after = node.after if draw.random() < 0.94 else (draw.choice(places),)
            after = after if draw.random() < 0.9 else (*after, *after)
            changed.append(replace(node, after=tuple(a for a in after if a != place), id=place))
        ranks.append(tuple(changed))
    return Program(made.groups, tuple(ranks))


def waits_in(text: str) -> list[tuple[int, int]]:
    """The nodes of a cycle that a message tells."""
    return [(int(a), int(b)) for a, b in re.findall(r"rank (\d+), node (\d+)", text)]


def test_programs_are_refused_if_and_only_if_they_would_wait_forever():
    stuck = 0
    for seed in range(250):
        program = tangled(seed)
        left = stuck_nodes(program)
        if not left:
            check(program)
            continue
        with pytest.raises(TraceError, match="so none of them ever starts") as caught:
            check(program)
        stuck += 1
        cycle = waits_in(str(caught.value))
        assert cycle[0] == cycle[-1] and len({*cycle}) == len(cycle) - 1
        assert left >= {*cycle}
        if "shortened" in str(caught.value):
            del cycle[-1]
        pairs = transfers(program)
        for (rank, place), other in pairwise(cycle):
            node = program.ranks[rank][place]
            for_send = node.kind == RECV and pairs[rank, place] == other
            for_call = node.kind in COLLECTIVES and other[0] in program.groups[node.group]
            if for_call:
                then = program.ranks[other[0]][other[1]]
                for_call = then.group == node.group and then.kind in COLLECTIVES
            assert (other[0] == rank and other[1] in node.after) or for_send or for_call
    assert 40 < stuck < 210


def broken(draw: random.Random, program: Program) -> Program | None:
    """The program with one thing wrong; None if it has nothing of that kind."""
    kind = draw.choice(["size", "root", "kind", "lost call", "lost half", "bytes", "tag", "group"])
    places = [(r, p) for r, nodes in enumerate(program.ranks) for p in range(len(nodes))]
    draw.shuffle(places)
    for rank, place in places:
        node = program.ranks[rank][place]
        members = program.groups.get(node.group, ())
        among = node.kind in COLLECTIVES and len(members) > 1
        half = node.kind in (SEND, RECV) and node.peer != rank
        changed: Node | None = None
        if kind == "size" and among and not COLLECTIVES[node.kind].uneven:
            changed = replace(node, bytes=node.bytes + 1)
        elif kind == "root" and among and COLLECTIVES[node.kind].rooted:
            changed = replace(node, peer=next(each for each in members if each != node.peer))
        elif kind == "kind" and among and node.kind != "barrier":
            changed = replace(node, kind="barrier", parts=())
        elif kind == "bytes" and half:
            changed = replace(node, bytes=node.bytes + 1)
        elif kind == "tag" and half:
            changed = replace(node, tag=node.tag + 100)
        elif kind == "group" and half:
            changed = replace(node, group="all")
        elif (kind == "lost call" and among) or (kind == "lost half" and half):
            changed = Node(COMPUTE, node.after, id=node.id)
        if changed is not None:
            nodes = [*program.ranks[rank]]
            nodes[place] = changed
            ranks = [*program.ranks]
            ranks[rank] = tuple(nodes)
            return replace(program, ranks=tuple(ranks))
    return None


def test_one_thing_that_is_wrong_is_told():
    told = 0
    for seed in range(300):
        draw = random.Random(seed)
        made = drawn(seed, draw.randint(2, 4))
        program = Program(made.groups, tuple(map(tuple, made.nodes)))
        if (wrong := broken(draw, program)) is not None:
            with pytest.raises(TraceError):
                check(wrong)
            told += 1
    assert told > 150


def test_sends_of_groups_and_tags_are_lines_of_their_own():
    """The same number of sends in each line, received in any order of lines."""
    draw = random.Random(1)
    for _ in range(30):
        lines = [(group, tag) for group in ("", "all", "pair") for tag in (0, 1)]
        sends = [draw.choice(lines) for _ in range(9)]
        gives = [Node(SEND, peer=1, group=g, tag=t, bytes=4 * n) for n, (g, t) in enumerate(sends)]
        order = sorted(range(9), key=lambda n: (draw.random(), n))
        queues = {line: [n for n in range(9) if sends[n] == line] for line in lines}
        gets, wanted = [], {}
        for at, number in enumerate(order):
            chosen = queues[sends[number]].pop(0)
            gets.append(replace(gives[chosen], kind=RECV, peer=0))
            wanted[1, at] = (0, chosen)
        program = Program({"all": (0, 1), "pair": (1, 0)}, (tuple(gives), tuple(gets)))
        check(program)
        assert transfers(program) == wanted


@pytest.mark.parametrize(
    "largest, words",
    [
        ({"kind": COMPUTE, "duration_ns": MAX_NS}, "ns; allowed"),
        ({"kind": SEND, "peer": 0, "bytes": MAX_BYTES}, "bytes; allowed"),
    ],
)
def test_limits_themselves_are_allowed(largest, words):
    def program(**more):
        node = Node(**{**largest, **more})
        nodes = (node, replace(node, kind=RECV)) if node.kind == SEND else (node,)
        return Program({"all": (0,)}, (nodes,))

    (key,) = largest.keys() & {"duration_ns", "bytes"}
    for value in (0, largest[key]):
        check(program(**{key: value}))
    for value in (-1, largest[key] + 1):
        with pytest.raises(TraceError, match=words):
            check(program(**{key: value}))


def test_as_many_ranks_as_there_may_be():
    check(Program({}, ((),) * MAX_RANKS))
    for count in (0, MAX_RANKS + 1):
        with pytest.raises(TraceError, match=f"a program of {count} ranks; allowed: 1 to"):
            check(Program({}, ((),) * count))


class Fastest:
    """A network that is asked for the fastest algorithm."""

    def fastest(self, collective: str, size: int, ranks: int) -> str:
        assert size >= 1
        return f"{collective}-{size}-{ranks}"


def test_calls_go_by_the_first_rule_that_fits():
    sizes = sorted({1, 3, 4, 255, 4096, 30_000, 8, 12, 16, 510, 765, 1020})
    used = set()
    for seed in range(120):
        draw = random.Random(seed)
        made = drawn(seed, draw.randint(2, 4))
        program = Program(made.groups, tuple(map(tuple, made.nodes)))
        kinds = [name for name in COLLECTIVES if name in USE_OF]
        rules = tuple(
            (
                draw.choice(kinds),
                draw.choice([ANY, *sizes]),
                draw.choice(["ring", "direct", AUTO, SYSTEM]),
                "",
            )
            for _ in range(8)
        )
        found = with_algorithms(program, AlgorithmRules(rules, Fastest()))
        routes = []
        for nodes, changed in zip(program.ranks, found.ranks, strict=True):
            for node, now in zip(nodes, changed, strict=True):
                algorithm = ""
                ranks = len(program.groups.get(node.group, ()))
                if node.kind in USE_OF and ranks > 1:
                    size = node.bytes * (ranks if COLLECTIVES[node.kind].gives == "own" else 1)
                    for kind, most, use, _ in rules:
                        if kind == node.kind and (most == ANY or size <= most):
                            auto = f"{kind}-{max(size, 1)}-{ranks}"
                            algorithm = auto if use == AUTO else use
                            break
                used.add(algorithm)
                assert now == replace(node, algorithm=algorithm)
                routes += [now.route] if algorithm else []
        plain = [GroupRoute(name) for name in program.groups]
        assert [*found.routes] == [*dict.fromkeys([*plain, *routes])]
        given = replace(program, ranks=found.ranks, routes=found.routes)
        again = with_algorithms(
            given, AlgorithmRules(((draw.choice(kinds), ANY, "double_tree", ""),))
        )
        for nodes, changed in zip(found.ranks, again.ranks, strict=True):
            for node, now in zip(nodes, changed, strict=True):
                assert not node.algorithm or now == node  # what is chosen stays
    assert len(used) > 30


def test_calls_in_steps_name_what_is_inside_servers_first():
    rules = (("all_reduce", 64, "direct", ""), ("all_reduce", ANY, "ring", "double_tree"))
    routes = AlgorithmRules(rules, None, 2)
    node = Node("all_reduce", group="all", bytes=64)
    assert routes.steps_of(node, range(4)) is None
    assert routes.steps_of(replace(node, bytes=65), range(4)) == ("double_tree", "ring")
    auto = AlgorithmRules((("all_reduce", ANY, AUTO, "direct"),), Fastest(), 2)
    assert auto.steps_of(node, range(6)) == ("direct", "all_reduce-64-6")
    program = Program({"all": (0, 1, 2, 3)}, ((replace(node, bytes=128),),) * 4)
    found = with_algorithms(program, routes)
    ways = [(each.kind, each.algorithm) for each in found.ranks[0]]
    # A step across servers is a call whose way is chosen, too.
    assert ways == [
        ("reduce_scatter", "double_tree"),
        ("all_reduce", "ring"),
        ("all_gather", "double_tree"),
    ]


@given(st.integers(0, 2**32))
@settings(FEW, max_examples=25)
def test_random_programs_keep_the_laws(seed):
    made = drawn(seed)
    with TemporaryDirectory() as folder:
        hold_graph(Program(made.groups, tuple(map(tuple, made.nodes))), Path(folder))


def test_recorded_and_read_programs_keep_the_laws(tmp_path):
    hold_graph(PROGRAM, tmp_path)
    made = every_transfer()
    hold_graph(Program(made.groups, tuple(map(tuple, made.nodes))), tmp_path)
    path = tmp_path / "work.txt"
    path.write_text(workload(*LAYERS, tp=2, ep=2, gpus=8))
    hold_graph(simai.load(path), tmp_path)
