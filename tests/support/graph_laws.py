"""Laws of rank graphs, whoever has made them: generated, read from a file, or recorded.

They are counted here from the nodes, beside what the product counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from testbed.collective.memory_map import WHOLE
from testbed.traffic import chakra
from testbed.traffic.rank_calls import load_groups
from testbed.traffic.rank_graph import COMPUTE, RECV, SEND, Node, Program, check
from testbed.traffic.transfers import PARTS, transfers_of
from testbed.traffic.transformer import GPUS, Transformer
from testbed.traffic.transformer_times import UPDATE_BYTES

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
                from_one = node.kind in ("broadcast", "dispatch")
                wanted = words if from_one else numbers
                assert call.values == max(wanted, 1)
                rooted = from_one or node.kind in ("reduce", "combine")
                assert call.share == (WHOLE if rooted else 0)
                root = group.ranks.index(node.peer) if rooted else 0
                assert call.share_at == root * call.share
            assert call.from_one == (node.kind in ("all_gather", "broadcast", "dispatch"))
            assert call.gives == {"combine": 2}.get(node.kind, call.from_one)


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
    latent = shape.latent.queries + shape.latent.keys if shape.latent else 0
    norms = (2 * shape.layers + 1) * shape.norm + shape.layers * latent
    routers = shape.layers * hidden * shape.experts
    biases = shape.layers * 2 * hidden if shape.gpt else 0
    positions = shape.context * hidden if shape.gpt else 0
    words = -(-shape.vocabulary // made.tp) * made.tp
    padding = (words - shape.vocabulary) * hidden * (1 if shape.gpt else 2)
    copy = words * hidden if shape.gpt and made.pp > 1 else 0
    twice = more * (norms + routers + biases + positions)
    assert found == shape.parameters + twice + padding + copy


def hold_bytes(made: Transformer) -> None:
    """Each rank of a stage gives the bytes of the formulas, by kind of group or tag, and computes
    what the whole model computes, divided; all that it does comes before the update, but the
    gathers of new weights."""
    program, layout = made.load(), made.layout
    for stage in range(made.pp):
        rank = stage * layout.ranks // made.pp
        assert layout.place(rank, "pp") == stage
        found: Counter = Counter()
        for node in program.ranks[rank]:
            if node.kind not in (COMPUTE, RECV):
                group = node.tag if node.kind == SEND else node.group.partition(".")[0]
                found[group, node.kind] += node.bytes
        assert found == _formulas(made, stage), (stage, found)
        for tag, kinds in {1: (SEND, RECV), 2: (SEND, RECV), 3: (SEND, RECV)}.items():
            sends, receives = (
                [n for n in program.ranks[rank] if n.kind == kind and n.tag == tag]
                for kind in kinds
            )
            own = layout.place(rank, "cp")
            assert all(layout.place(n.peer, "cp") == (own + 1) % made.cp for n in sends)
            assert all(layout.place(n.peer, "cp") == (own - 1) % made.cp for n in receives)
        nodes = program.ranks[rank]
        before: list[set[int]] = []  # all that ends before a node
        for node in nodes:
            before.append({*node.after}.union(*(before[each] for each in node.after)))
        assert not any(nodes[each].kind == SEND for node in nodes for each in node.after)
        _hold_update(made, stage, nodes, before)
        if made.pp > 1:
            _hold_passes(made, stage, nodes, before)
        if made.sharding == "fsdp":
            _hold_gathers(made, stage, nodes)
    _hold_operations(made, program)


def _units(made: Transformer, stage: int) -> list[dict[str, int]]:
    """Parameters of a stage's units on a rank, by kind of group."""
    shape, first, final = made.shape, stage == 0, stage == made.pp - 1
    dense, experts = shape.layer(made.tp, made.ep)
    units = [{"dp": dense, "dp_ep": experts} for _ in range(shape.layers // made.pp)]
    if first:
        units.insert(0, {"dp": shape.embedding(made.tp), "dp_ep": 0})
    if final:
        copy = shape.words(made.tp) if shape.gpt and not first else 0
        units.append({"dp": shape.head(made.tp) + copy, "dp_ep": 0})
    return units


def _formulas(made: Transformer, stage: int) -> Counter:
    shape, tp, cp, times = made.shape, made.tp, made.cp, made.microbatches
    first, final, layers = stage == 0, stage == made.pp - 1, shape.layers // made.pp
    tokens = made.micro_batch * made.sequence // cp
    whole = 2 * tokens * shape.hidden  # of activations
    gathered = made.sequence_parallel and tp > 1
    resting = whole // tp if gathered else whole
    found: Counter = Counter()
    if tp > 1:
        passes = times * (4 * layers + first + final)
        loss = final * times * 3 * 4 * tokens
        if gathered:
            sizes = passes * whole
            if shape.experts:
                sizes = times * (2 * layers * (1 + shape.top_k) + first + final) * whole
            found["tp", "all_gather"] = sizes // tp
            found["tp", "reduce_scatter"] = sizes
            found["tp", "all_reduce"] = loss + 4 * (2 * layers + final) * shape.norm
        else:
            found["tp", "all_reduce"] = passes * whole + loss
    if made.ep > 1:
        found["ep", "all_to_all"] = times * 4 * layers * shape.top_k * resting
    if cp > 1:
        keys = times * layers * 2 * 2 * tokens * shape.kv_width // tp
        for tag, rounds in ((1, cp - 1), (2, cp - 1), (3, cp)):
            found[tag, SEND] = rounds * keys
    if not final:
        found[4, SEND] = times * resting
    if not first:
        found[5, SEND] = times * resting
    if shape.gpt and made.pp > 1 and (first or final):
        found["ends", "all_reduce"] = 4 * shape.words(tp)
    for group in ("dp", "dp_ep"):
        size = made.layout.group_size(group)
        values = [unit[group] for unit in _units(made, stage)]
        if size == 1 or not sum(values):
            continue
        if made.sharding == "none":
            found[group, "all_reduce"] = 4 * sum(values)
        else:
            scatters = times if made.sharding == "fsdp" else 1
            found[group, "reduce_scatter"] = scatters * 4 * sum(values)
            parts = values if made.sharding == "fsdp" else _buckets(made, stage, group, size)
            gathers = 2 * times if made.sharding == "fsdp" else 1
            found[group, "all_gather"] = gathers * sum(-(-2 * each // size) for each in parts)
    return Counter({key: count for key, count in found.items() if count})


def _buckets(made: Transformer, stage: int, group: str, size: int) -> list[int]:
    """Units from the last to the first, until there are as many values as Megatron-LM has."""
    found, held = [], 0
    units = _units(made, stage)
    for place in reversed(range(len(units))):
        held += units[place][group]
        if held and (held >= max(40_000_000, 1_000_000 * size) or place == 0):
            found.append(held)
            held = 0
    return found


def _hold_passes(
    made: Transformer, stage: int, nodes: tuple[Node, ...], before: list[set[int]]
) -> None:
    """One forward, one backward: a stage is ahead of the last one by as many microbatches as there
    are stages behind it, and no further."""
    count, final = made.microbatches, stage == made.pp - 1
    ahead = min(made.pp - 1 - stage, count)

    def ends(tag: int, kind: str) -> list[set[int]]:
        """What each send follows, as it holds nothing up itself; or receives, which do."""
        return [
            {*node.after} if kind == SEND else {place}
            for place, node in enumerate(nodes)
            if (node.tag, node.kind) == (tag, kind)
        ]

    forward, backward = ends(4, RECV if final else SEND), ends(5, SEND if final else RECV)
    assert len(forward) == len(backward) == count
    for number in range(count):
        earlier = forward[number].union(*(before[each] for each in forward[number]))
        done = [each for each in range(count) if backward[each] <= earlier]
        assert done == [*range(number - ahead)], (stage, number, done)
        earlier = backward[number].union(*(before[each] for each in backward[number]))
        done = [each for each in range(count) if forward[each] <= earlier]
        assert done == [*range(min(count, number + ahead + 1))], (stage, number, done)
    for place, node in enumerate(nodes):  # gradients are summed up when all microbatches have some
        summed = node.group.partition(".")[0] in ("dp", "dp_ep") and node.dtype == "float32"
        if summed and made.sharding != "fsdp":
            assert all(each <= before[place] for each in backward[: count - final])


def _hold_gathers(made: Transformer, stage: int, nodes: tuple[Node, ...]) -> None:
    """Each pass gathers the weights of each unit, while the unit before computes: from when that
    may begin, but for its own weights."""
    ahead = min(made.pp - 1 - stage, made.microbatches)
    passes = "F" * ahead + "FB" * (made.microbatches - ahead) + "B" * ahead
    gathers, users = [], defaultdict(list)
    for place, node in enumerate(nodes):
        if node.kind == "all_gather" and node.group.partition(".")[0] in ("dp", "dp_ep"):
            gathers.append(place)
        else:
            for each in node.after:
                users[each].append({*node.after})
    left = iter(gathers)
    for one in passes:
        units = [*enumerate(_units(made, stage))][:: 1 if one == "F" else -1]
        held = []
        for _, unit in units:
            wanted = {group: made.layout.group_size(group) for group in unit if unit[group]}
            wanted = {group: size for group, size in wanted.items() if size > 1}
            own = {next(left): (group, -(-2 * unit[group] // wanted[group])) for group in wanted}
            for place, found in own.items():
                assert (nodes[place].group.partition(".")[0], nodes[place].bytes) == found
            held.append({*own})
        for (place, _), own, following in zip(units, held, [*held[1:], set()], strict=True):
            direct = [after for each in own for after in users[each] if not following & after]
            assert direct or not own or place == stage == 0, "nothing waits for weights"
            for after in direct if following else ():
                assert all(after - own == {*nodes[each].after} for each in following), after
    assert not [*left]


def _hold_update(
    made: Transformer, stage: int, nodes: tuple[Node, ...], before: list[set[int]]
) -> None:
    last = max(place for place, node in enumerate(nodes) if node.kind == COMPUTE)
    followed = {each for node in nodes for each in node.after}
    # Sends hold nothing up, nor does what goes on with them at once; nothing follows gradients of
    # weights that are not summed up.
    alone = {
        place
        for place, node in enumerate(nodes)
        if node.kind == SEND
        or (node.kind == RECV and node.tag == 3)
        or (node.kind == COMPUTE and place not in followed)
    }
    assert {*range(last)} - alone <= before[last]
    assert all(last in before[place] for place in range(last + 1, len(nodes)))
    new = [node for node in nodes[last + 1 :] if node.kind != "all_gather"]
    assert not new and (made.sharding == "zero1" or last == len(nodes) - 1)
    held = 0
    for unit in _units(made, stage):
        for group, values in unit.items():
            among = 1 if made.sharding == "none" else made.layout.group_size(group)
            held += -(-values // among)
    assert nodes[last].duration_ns == round(held * UPDATE_BYTES / GPUS[made.gpu].bandwidth * 1e9)
    ends = [place for place, node in enumerate(nodes) if node.group.startswith("ends")]
    sums = ("dp", "dp_ep", "tp")
    for place in ends:  # what both stages hold is summed up when each has its own sums
        others = {
            at
            for at, node in enumerate(nodes)
            if node.group.partition(".")[0] in sums and node.dtype == "float32" and at < last
        }
        assert others - {place} <= before[place]


def _hold_operations(made: Transformer, program: Program) -> None:
    """All ranks together compute what one would alone, but that each tensor parallel rank has all
    of nothing."""
    whole = replace(made, tp=1, cp=1, ep=1, dp=1, pp=1, sharding="none").load()

    def spent(ranks: Iterable[tuple[Node, ...]]) -> int:
        found = 0
        for nodes in ranks:
            *times, _ = (node.duration_ns for node in nodes if node.kind == COMPUTE)
            found += sum(times)
        return found

    assert abs(spent(program.ranks) / spent(whole.ranks) - 1) < 1e-3
