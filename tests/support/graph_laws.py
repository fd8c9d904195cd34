"""Laws of rank graphs, whoever has made them: generated, read from a file, or recorded.

They are counted here from the nodes, beside what the product counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

from testbed.collective.memory_map import WHOLE
from testbed.traffic import chakra
from testbed.traffic.rank_calls import load_groups
from testbed.traffic.rank_graph import COMPUTE, RECV, SEND, Node, Program, check
from testbed.traffic.transfers import PARTS, transfers_of
from testbed.traffic.transformer import Transformer

VALUES = 64  # of a packet
WIDTHS = {"bfloat16": 2, "float16": 2, "int8": 1, "uint8": 1}  # bytes; others have 4


def hold_graph(program: Program, folder: Path) -> None:
    """A program keeps all laws; it is written below `folder` and read again."""
    check(program)
    for rank, nodes in enumerate(program.ranks):
        assert not _in_circles(nodes), f"rank {rank} waits for itself"
    for group, ranks in program.groups.items():
        first, *others = ({rank: _calls(program, rank, group) for rank in ranks}).values()
        assert all(each == first for each in others), f"group {group} calls in several orders"
    _hold_transfers(program)
    path = folder / "held.et"
    chakra.write(path, program)
    again = chakra.load(path)
    assert again.groups == program.groups and again.about == program.about
    assert [*again.ranks] == [*program.ranks]
    for values in (1, VALUES):
        _hold_sizes(path, values)


def _in_circles(nodes: tuple[Node, ...]) -> bool:
    """Whether nodes are left that only wait for each other."""
    left = dict(enumerate(nodes))
    while free := [place for place, node in left.items() if not left.keys() & {*node.after}]:
        for place in free:
            del left[place]
    return bool(left)


def _calls(program: Program, rank: int, group: str) -> list[tuple]:
    """What a rank calls in a group; all ranks give the same number of bytes but to all_to_all."""
    return [
        (node.kind, 0 if node.kind == "all_to_all" else node.bytes, node.peer, node.dtype)
        for node in program.ranks[rank]
        if node.group == group and node.kind not in (COMPUTE, SEND, RECV)
    ]


def _hold_transfers(program: Program) -> None:
    """All that is given to single ranks arrives there, on lines that never mix."""
    moved = transfers_of(program)
    columns = (moved.source, moved.target, moved.sends, moved.receives, moved.values)
    rows = list(zip(*(each.tolist() for each in columns), strict=True))
    given: Counter[tuple[int, int]] = Counter()
    for source, target, sends, receives, values in rows:
        given[source, sends] += values
        one, other = program.ranks[source][sends], program.ranks[target][receives]
        assert (one.group, one.tag, one.bytes if one.kind == SEND else 0) == (
            *(other.group, other.tag),
            other.bytes if other.kind == RECV else 0,
        ), (one, other)
    for rank, nodes in enumerate(program.ranks):
        for place, node in enumerate(nodes):
            if node.kind in (SEND, *PARTS):
                assert given[rank, place] == _words_given(program, rank, node), (rank, node)
    lines: defaultdict[tuple, list[tuple[int, int]]] = defaultdict(list)
    for source, target, sends, receives, _ in rows:
        node = program.ranks[source][sends]
        if node.kind == SEND:
            lines[source, target, node.group, node.tag].append((sends, receives))
    for pairs in lines.values():  # the n-th send is the n-th receive of its line
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(sorted(pairs)))
    _hold_numbers(rows, moved.numbered(VALUES))


def _words_given(program: Program, rank: int, node: Node) -> int:
    """Words of 32 bits that a rank gives to others in a call or send, itself in a send alone."""
    if node.kind == SEND:
        return max(1, -(-node.bytes // 4))
    others = [each for each in program.groups[node.group] if each != rank]
    ranks = program.groups[node.group]
    if node.kind == "gather":
        sizes = [node.bytes] if node.peer != rank else []
    elif node.kind == "scatter":
        sizes = [-(-node.bytes // len(ranks))] * len(others) if node.peer == rank else []
    else:
        equal = -(-node.bytes // len(ranks))
        sizes = [node.parts[ranks.index(each)] if node.parts else equal for each in others]
    return sum(-(-size // 4) for size in sizes)


def _hold_numbers(rows: list[tuple], numbers: tuple) -> None:
    """The packets that a rank receives have the numbers from 0 on, each once."""
    theirs: defaultdict[int, list[tuple[int, int, int, int]]] = defaultdict(list)
    for row, number, first, total in zip(rows, *(each.tolist() for each in numbers), strict=True):
        source, target, _, _, values = row
        if source != target:
            theirs[target].append((number, first, -(-values // VALUES), total))
    for received in theirs.values():
        end = 0
        for place, (number, first, packets, total) in enumerate(sorted(received)):
            assert (number, first) == (place, end)
            end += packets
            assert total == sum(each[2] for each in received)


def _hold_sizes(path: Path, values: int) -> None:
    """Values of each call, as the table of collectives says, in packets of so many."""
    for group in load_groups(path, values):
        size = len(group.ranks)
        for call in group.calls:
            node = call.node
            words, numbers = -(-node.bytes // 4), -(-node.bytes // WIDTHS.get(node.dtype, 4))
            if node.kind in ("all_gather", "reduce_scatter"):
                own = words if node.kind == "all_gather" else -(-numbers // size)
                assert call.values == size * call.share and call.share % values == 0
                assert max(own, 1) <= call.share < max(own, 1) + values
            else:
                wanted = words if node.kind == "broadcast" else numbers
                assert call.values == max(wanted, 1)
                rooted = node.kind in ("broadcast", "reduce")
                assert call.share == (WHOLE if rooted else 0)
                root = group.ranks.index(node.peer) if rooted else 0
                assert call.share_at == root * call.share
            assert call.from_one == (node.kind in ("all_gather", "broadcast"))


def hold_parameters(made: Transformer) -> None:
    """The ranks of all stages sum up the gradient of each parameter once: norms and embeddings as
    well, those that several tensor parallel ranks have on each of them, and the matrix that is
    embedding and head on both stages that use it."""
    shape, program = made.shape, made.load()
    replicas = made.layout.group_size("dp"), made.layout.group_size("dp_ep")
    assert min(replicas) > 1 and made.sharding == "none"
    found = 0
    for rank, nodes in enumerate(program.ranks):
        places = [made.layout.place(rank, each) for each in ("cp", "dp")]
        for node in nodes:
            kind = node.group.partition(".")[0]
            alone = kind == "dp_ep" or made.layout.place(rank, "ep") == 0
            if kind in ("dp", "dp_ep") and node.kind == "all_reduce" and alone and not any(places):
                found += node.bytes // 4
    hidden, more = shape.hidden, made.tp - 1
    norms = (2 * shape.layers + 1) * shape.norm
    routers = shape.layers * hidden * shape.experts
    biases = shape.layers * 2 * hidden if shape.gpt else 0
    positions = shape.context * hidden if shape.gpt else 0
    words = -(-shape.vocabulary // made.tp) * made.tp
    padding = (words - shape.vocabulary) * hidden * (1 if shape.gpt else 2)
    copy = words * hidden if shape.gpt and made.pp > 1 else 0
    twice = more * (norms + routers + biases + positions)
    assert found == shape.parameters + twice + padding + copy
