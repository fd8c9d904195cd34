"""The trees over which a job's results go from its parameter server to workers and switches.

Switches copy results. So a link carries each result once, and all links of the tree carry the job's
own rate. Gradients may use the same direction of a link. If results have room on some tree, the
shortest such tree is taken, otherwise the tree whose fullest link has the most room left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction

from testbed.routing.network import Network
from testbed.routing.plan import Results

Ends = tuple[str, str]
Tree = tuple[Ends, ...]


def result_trees(
    network: Network,
    jobs: Sequence[tuple[str, Sequence[str], Fraction]],
    loads: Mapping[Ends, Fraction],
    given: Sequence[tuple[Ends, ...]] | None = None,
) -> list[Results]:
    """A tree for each job, one job after the other.

    jobs: (PS, the workers and switches that results must reach, rate in bit/s). loads: what
    gradients take of each link, in bit/s. given: the trees, if they are known already."""
    left = {
        link.ends: link.capacity_bps - loads.get(link.ends, Fraction(0))
        for link in network.links
        if link.capacity_bps is not None
    }
    found = []
    for number, (ps, targets, rate) in enumerate(jobs):
        links = given[number] if given else widest_tree(network, ps, targets, left, rate)
        room = room_of(links, left)
        for ends in links:
            if ends in left:
                left[ends] -= rate if room is None else min(rate, room)
        found.append(Results(links, room))
    return found


def room_of(links: Iterable[Ends], left: Mapping[Ends, Fraction]) -> Fraction | None:
    """The rate that is left on the fullest link; None: unlimited; 0 without links."""
    links = tuple(links)
    if not links:
        return Fraction(0)
    return min((left[ends] for ends in links if ends in left), default=None)


def pruned(tree: Iterable[Ends], needed: Collection[str]) -> Tree:
    """A tree, nearest links first, without the branches that lead to no node that is needed."""
    wanted = set(needed)
    kept = []
    for source, target in reversed(tuple(tree)):
        if target in wanted:
            wanted.add(source)
            kept.append((source, target))
    return tuple(reversed(kept))


def widest_tree(
    network: Network,
    root: str,
    targets: Sequence[str],
    left: Mapping[Ends, Fraction],
    enough: Fraction | None = None,
) -> tuple[Ends, ...]:
    """The links of a tree from `root` to all `targets`, nearest first, with as much `left` on the
    fullest link as there can be, or as is `enough`; () if some target cannot be reached.

    Links that are not in `left` are unlimited."""
    widths = sorted({room for room in left.values() if enough is None or room < enough})
    if enough is not None or not widths:
        widths.append(enough or Fraction(0))

    def tree(place: int) -> tuple[Ends, ...]:
        return _shortest_tree(network, root, targets, left, widths[place])

    low, high = 0, len(widths) - 1
    if widest := tree(high):  # the usual case
        return widest
    best = tree(low)
    while best and high - low > 1:
        middle = (low + high) // 2
        if found := tree(middle):
            best, low = found, middle
        else:
            high = middle
    return best


def _shortest_tree(
    network: Network,
    root: str,
    targets: Sequence[str],
    left: Mapping[Ends, Fraction],
    width: Fraction,
) -> tuple[Ends, ...]:
    """Shortest paths over links with at least `width` left; () if some target has none."""
    before = {root: root}
    queue = deque([root])
    while queue:
        node = queue.popleft()
        if node in network.host and node != root:
            continue  # hosts do not forward
        for after in network.after[node]:
            if after not in before and left.get((node, after), width) >= width:
                before[after] = node
                queue.append(after)
    if any(target not in before for target in targets):
        return ()
    used: set[str] = set()
    for target in targets:
        node = target
        while node != root and node not in used:
            used.add(node)
            node = before[node]
    return tuple((before[node], node) for node in before if node in used)
