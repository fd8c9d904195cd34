"""Lab 9: which node aggregates whose gradient, and over which path?

A network is a dictionary:

    {"links": [["w1", "s1", 3.0], ["s1", "s2", 3.0], ...],   Gbit/s, in each direction
     "switches": {"s1": 9.0, ...},                            aggregation capacity, Gbit/s of input
     "workers": ["w1", ...], "ps": "ps", "ps_ingress": 9.0}   the PS is a host at some switch

A plan says for each worker which node aggregates its gradient, a switch or the PS, with the path to
it, and for each switch that aggregates the path of the sum to the PS. Paths have both ends:

    {"workers": {"w1": ["s1", ["w1", "s1"]], "w2": ["ps", ["w2", "s2", "s1", "ps"]], ...},
     "aggregates": {"s1": ["s1", "ps"], ...}}
"""

from __future__ import annotations


def rate(network: dict, plan: dict) -> float:
    """The rate in Gbit/s at which all workers can send at the same time."""
    return 0.0  # TODO (task 1)


def plan_none(network: dict) -> dict:
    """No switch aggregates: all gradients go to the PS over a shortest path."""
    return {"workers": {}, "aggregates": {}}  # TODO (task 2)


def plan_nearest(network: dict) -> dict:
    """Each worker's own switch aggregates, and sends the sum to the PS over a shortest path."""
    return {"workers": {}, "aggregates": {}}  # TODO (task 2)


def plan(network: dict) -> dict:
    """The best plan that you can find in a second."""
    return plan_nearest(network)  # TODO (task 3)
