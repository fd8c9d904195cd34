"""Workload files of SimAI as programs of ranks."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import pytest

from testbed.traffic import rank_source, simai
from testbed.traffic.expert_calls import CALLS, FLOWS, PACKETS, SETS
from testbed.traffic.expert_routing import ExpertRouting
from testbed.traffic.rank_graph import COMPUTE, Node, check
from testbed.traffic.rank_source import FileSource
from testbed.traffic.trace import TraceError
from tests.support.workloads import NOTHING, POLICY, example, workload

LAYERS = (
    "embedding 100 ALLREDUCE 64 200 NONE 0 300 NONE 0 7",
    "layer 10 ALLGATHER 64 20 REDUCESCATTER 64 30 ALLREDUCE 128 8",
)


def written(tmp_path, text: str):
    path = tmp_path / "work.txt"
    path.write_text(text)
    return path


def test_a_file_becomes_a_graph(tmp_path):
    """Forward down the rows, backward up; collectives of weight gradients hold nothing up."""
    program = simai.load(written(tmp_path, workload(*LAYERS, tp=2, gpus=4)))
    check(program)
    assert program.groups == {
        "tp.0": (0, 1),
        "tp.1": (2, 3),
        "dp.0": (0, 2),
        "dp.1": (1, 3),
    }

    def node(kind: str, number: int, after: tuple[int, ...] = (), **fields) -> Node:
        return Node(kind, after, id=number, **fields)

    assert program.ranks[3] == (
        node(COMPUTE, 0, duration_ns=100),
        node("all_reduce", 1, (0,), group="tp.1", bytes=64),
        node(COMPUTE, 2, (1,), duration_ns=10),
        node("all_gather", 3, (2,), group="tp.1", bytes=32),  # its own part
        node(COMPUTE, 4, (3,), duration_ns=20),  # backward
        node("reduce_scatter", 5, (4,), group="tp.1", bytes=64),
        node(COMPUTE, 6, (5,), duration_ns=30),
        node("all_reduce", 7, (6,), group="dp.1", bytes=128),
        node(COMPUTE, 8, (7,), duration_ns=8),  # its update
        node(COMPUTE, 9, (6,), duration_ns=200),
        node(COMPUTE, 10, (9,), duration_ns=300),
        node(COMPUTE, 11, (10,), duration_ns=7),
    )


TO_EXPERTS = {"number": 8, "top_k": 2, "token_bytes": 8, "routing_seed": 3}


@pytest.mark.parametrize("calls", CALLS)
def test_pairs_of_all_to_alls_of_ep_ranks_are_dispatch_and_combine(calls, tmp_path):
    """As a forward and a backward pass of one transformer's layer, which has the same tokens."""
    moe = ["moe 5 ALLTOALL_EP 1600 6 ALLTOALL_EP 1600 0 NONE 0 0"] * 2
    path = written(tmp_path, workload(*moe, LAYERS[0], ep=4, gpus=4))
    made = simai.RowExperts(experts=calls, per_server=2, **TO_EXPERTS)
    program = simai.load(path, experts=made)
    check(program)
    assert rank_source.of(str(source := FileSource(str(path), experts=made))) == source
    routing = ExpertRouting(8, 2, 4, seed=3)
    sets = [routing.sets_of(owner, 100, 0, 0) for owner in range(4)]
    for rank, nodes in enumerate(program.ranks):
        calls_of = [node for node in nodes if node.kind in ("dispatch", "combine", "all_to_all")]
        if calls in (SETS, PACKETS):
            order = [kind for kind, _ in groupby(node.kind for node in calls_of)]
            assert order == ["dispatch", "combine"] * 2
            own = Counter(node.kind for node in calls_of if node.peer == rank)
            assert own["dispatch"] == own["combine"] == 2 * len(sets[rank].keys() - {()})
            sent = sum(n.bytes for n in calls_of if n.kind == "dispatch" and n.peer == rank)
            assert sent == 2 * 8 * (100 - sets[rank][()])
        else:
            assert len(calls_of) == (4 if calls == FLOWS else 8)
    assert sum(n.duration_ns for n in program.ranks[0]) == sum(
        n.duration_ns for n in simai.load(path).ranks[0]
    )


@pytest.mark.parametrize(
    ("rows", "change", "words"),
    [
        (1, {}, "in pairs, there and back; found 1 in"),
        (2, {"token_bytes": 7}, "line 3: 1600 bytes of an all_to_all are no multiple of 2 experts"),
        (2, {"number": 6}, "experts.number: found 6; it is a multiple of ep: 4, and at least"),
        (2, {"top_k": 10, "number": 8}, "experts.number: found 8; .* at least top_k: 10"),
    ],
)
def test_experts_that_do_not_fit_a_file_are_named(rows, change, words, tmp_path):
    moe = ["moe 5 ALLTOALL_EP 1600 6 ALLTOALL_EP 1600 0 NONE 0 0"] * rows
    path = written(tmp_path, workload(*moe, ep=4, gpus=4))
    with pytest.raises(TraceError, match=words):
        simai.load(path, experts=simai.RowExperts(experts=SETS, **TO_EXPERTS | change))


def test_suffixes_name_groups_of_experts(tmp_path):
    """Eight GPUs, tp 2, ep 2: experts are in neighbouring replicas, and copies of them two
    replicas apart."""
    row = "moe 1 ALLTOALL_EP 32 1 ALLTOALL 32 1 REDUCESCATTER_DP_EP 64 1"
    path = written(tmp_path, workload(row, tp=2, ep=2, gpus=8))
    program = simai.load(path)
    check(program)
    assert program.groups["ep.0"] == (0, 2) and program.groups["ep.3"] == (5, 7)
    assert program.groups["dp_ep.0"] == (0, 4) and program.groups["dp_ep.3"] == (3, 7)
    kinds = [(node.kind, node.group) for node in program.ranks[0] if node.kind != COMPUTE]
    assert kinds == [
        ("all_to_all", "ep.0"),
        ("all_to_all", "tp.0"),
        ("reduce_scatter", "dp_ep.0"),
    ]
    # A slice of two replicas: each expert is there once.
    few = simai.load(path, replicas=2)
    assert few.groups == {
        "tp.0": (0, 1),
        "tp.1": (2, 3),
        "ep.0": (0, 2),
        "ep.1": (1, 3),
        "dp_ep.0": (0,),
        "dp_ep.1": (1,),
        "dp_ep.2": (2,),
        "dp_ep.3": (3,),
    }
    title = "SimAI workload work.txt, 4 ranks, a slice of 8 GPUs: 2 of 4 replicas"
    assert few.about["title"] == title


def test_one_stage_of_several_has_to_be_said(tmp_path):
    path = written(tmp_path, workload(f"one {NOTHING}", tp=2, pp=3, gpus=12))
    with pytest.raises(TraceError, match=r"work.txt, line 1: .* 3 pipeline stages.* stage: 0"):
        simai.load(path)
    program = simai.load(path, stage=0)
    assert len(program.ranks) == 4
    assert program.about["title"].endswith("a slice of 12 GPUs: 2 of 2 replicas, stage 0 of 3")


def test_collectives_without_bytes_and_steps_without_time_are_no_nodes(tmp_path):
    row = "empty 0 ALLREDUCE 0 5 NONE 0 0 ALLREDUCE 8 0"
    program = simai.load(written(tmp_path, workload(row, gpus=2)))
    assert program.ranks[0] == (
        Node(COMPUTE, duration_ns=5),
        Node("all_reduce", (0,), group="dp.0", bytes=8, id=1),
    )


ROW = f"one {NOTHING}"


@pytest.mark.parametrize(
    "change, message",
    [
        ((POLICY, "HYBRID_DLRM"), "line 1: found the policy 'HYBRID_DLRM'; replayed are HYBRID"),
        (("ep:", "eps:"), "line 1: unknown key 'eps'; known: model_parallel_NPU_group"),
        (("ep: 1", "ep: x"), "line 1: ep: found 'x'; write a whole number"),
        (("ep: 1", "ep: 0"), "line 1: ep: found 0; write at least 1"),
        (("ep: 1", "pp: 1"), "line 1: pp is there twice; take one out"),
        (("all_gpus: 2", "ga: 2"), "line 1: ga is there twice"),
        (("vpp: 1 ga: 1 all_gpus: 2", ""), "line 1: lacks all_gpus; add it"),
        (("ep: 1", "ep: 3"), "line 1: all_gpus: 2 is not a multiple"),
        (("checkpoints: 0", "checkpoints: 1 4"), "line 1: checkpoints: found 1; recomputation"),
        (("\n1\n", "\n2\n"), "line 2: says 2 rows, and 1 follow"),
        (("\n1\n", "\nx\n"), "line 2: found 'x'; write the number of rows"),
        (("\t-1", "\t3"), "line 3: found the dependency '3'; only -1"),
        (("NONE\t0\t1\tNONE\t0\t1\tNONE", "NONE"), "line 3: has 6 columns; a row has 12"),
        (("1\tNONE", "1\tBROADCAST"), "line 3: unknown collective 'BROADCAST' of the forward"),
        (("1\tNONE", "1\tALLREDUCE_XP"), "line 3: unknown collective 'ALLREDUCE_XP'"),
        (("1\tNONE\t0", "1\tNONE\t8"), "line 3: the forward has 8 bytes and no collective"),
        (("1\tNONE", "1.5\tNONE"), "line 3: compute time of the forward: found '1.5'"),
        (("1\tNONE\t0", "1\tALLREDUCE\t-8"), "line 3: bytes of the forward: found '-8'"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(change, message, tmp_path):
    text = workload(ROW, gpus=2).replace(*change, 1)
    assert text != workload(ROW, gpus=2)
    with pytest.raises(TraceError) as caught:
        simai.load(written(tmp_path, text))
    assert f"work.txt, {message}" in str(caught.value)


@pytest.mark.parametrize("text", ["", "\n", "no workload"])
def test_other_texts_are_refused(text, tmp_path):
    with pytest.raises(TraceError, match="work.txt, line 1"):
        simai.load(written(tmp_path, text))


def test_a_slice_that_does_not_exist_is_refused(tmp_path):
    path = written(tmp_path, workload(ROW, ep=2, gpus=8))
    for replicas, allowed in ((3, "2, 4, ..., 8"), (16, "2, 4, ..., 8"), (0, "2, 4, ..., 8")):
        with pytest.raises(TraceError, match=f"found {replicas} replicas.*Allowed: {allowed}"):
            simai.load(path, replicas=replicas)


@pytest.mark.parametrize(
    "name, options",
    [("microAllReduce.txt", {}), ("workload_analytical.txt", {"stage": 0, "replicas": 32})],
)
def test_examples_of_simai_have_the_counts_of_their_text(name, options):
    """Calls and bytes by kind of group, compute time: counted here from the words of the file."""
    path = example(f"simai/{name}")
    words = [line.split() for line in path.read_text().splitlines()]
    header = words[0]
    tp = int(header[header.index("model_parallel_NPU_group:") + 1])
    ep = int(header[header.index("ep:") + 1])
    gpus = int(header[header.index("all_gpus:") + 1])
    pp = int(header[header.index("pp:") + 1])
    replicas = options.get("replicas", gpus // tp // pp)
    sizes = {"tp": tp, "dp": replicas, "ep": ep, "dp_ep": replicas // ep}
    expected: Counter[tuple[str, str]] = Counter()
    calls: Counter[tuple[str, str]] = Counter()
    compute_ns = 0
    for row in words[2:]:
        compute_ns += sum(int(row[at]) for at in (2, 5, 8, 11))
        for at, usual in ((3, "tp"), (6, "tp"), (9, "dp")):
            name, *suffix = row[at].split("_", 1)
            if name != "NONE" and int(row[at + 1]):
                key = suffix[0].lower() if suffix else usual, name.lower()
                calls[key] += 1
                # Of a gather, the node counts the part of a rank.
                parts = sizes[key[0]] if name == "ALLGATHER" else 1
                expected[key] += -(-int(row[at + 1]) // parts)
    program = simai.load(path, **options)
    assert len(program.ranks) == tp * replicas
    for rank in (0, len(program.ranks) - 1):
        nodes = program.ranks[rank]
        found, sums = Counter(), Counter()
        for node in nodes:
            if node.kind != COMPUTE:
                key = node.group.split(".")[0], node.kind.replace("_", "")
                found[key] += 1
                sums[key] += node.bytes
                assert rank in program.groups[node.group]
        assert found == calls and sums == expected
        assert sum(node.duration_ns for node in nodes) == compute_ns
    for name, ranks in program.groups.items():
        assert len(ranks) == sizes[name.split(".")[0]]
