"""Typical mistakes in lab 9."""

from __future__ import annotations

from labs._teacher import Mistake

MISTAKES = [
    Mistake(
        "nearest switch is the plan",
        "does not look at the switches' capacities",
        (
            (
                "    used = {node for node, _ in best",
                "    best = plan_nearest(network)\n    used = {node for node, _ in best",
            ),
        ),
        frozenset({"on_mesh", "on_leaf_spine", "never_worse"}),
    ),
    Mistake(
        "sums not counted at the server",
        "forgets that a sum is a flow into the server, too",
        (("            at_ps += 1\n", "            at_ps += 0\n"),),
        frozenset({"rates"}),
    ),
    Mistake(
        "links of one direction",
        "adds up what flows both ways over a link",
        (
            (
                "full += [on_link[a, b] / capacity, on_link[b, a] / capacity]",
                "full += [(on_link[a, b] + on_link[b, a]) / capacity]",
            ),
        ),
        frozenset({"rates"}),
    ),
    Mistake(
        "switches are unlimited",
        "leaves the aggregation capacity out",
        (("into[name] / capacity for name", "into[name] / 1e9 for name"),),
        frozenset({"rates", "on_mesh", "on_leaf_spine", "never_worse"}),
    ),
    Mistake(
        "sum not routed",
        "plans the way to the switch, and not from there to the server",
        (
            (
                "    aggregates = {s: p for s, p in best",
                "    aggregates = {s: p[:1] for s, p in best",
            ),
        ),
        frozenset({"valid", "on_mesh", "on_leaf_spine", "never_worse"}),
    ),
    Mistake(
        "through other hosts",
        "lets a path pass through the server or a worker; their links have two ends",
        (
            (
                '    workers = {w: [ps, networkx.shortest_path(graph, w, ps)] for w in network["workers"]}',
                '    first = network["workers"][0]\n    workers = {w: [ps, [w, *networkx.shortest_path(graph, first, ps)[1:]]] for w in network["workers"]}',
            ),
        ),
        frozenset({"none"}),
    ),
]
