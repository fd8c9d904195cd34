"""An experiment for each system whose communication time has a bound."""

from __future__ import annotations

WINDOW = 128  # of the systems with the largest; others keep their defaults
TEXT = """
name: bound
runtime: %(runtime)s
topology: {kind: star, hosts: 5}
links: {bandwidth: 10 Mbit/s, queue: 1000 packets}
system: {name: %(name)s%(options)s}
%(memory)s
jobs:
  - {model: vgg16, workers: 4, iterations: 1, scale: %(scale)s, compute_scale: 0}
"""
# Options and memory of each: room for all fragments in flight, so the switch completes all.
SYSTEMS = {
    "esa": ("", "memory: {aggregators: 512}"),
    "atp": (", index: consecutive", "memory: {aggregators: 512}"),
    "a2tp": (", index: consecutive", "memory: {aggregators: 512}"),
    "switchml": ("", f"memory: {{aggregators: {2 * WINDOW}}}"),
    "tree": ("", f"memory: {{aggregators: {2 * WINDOW}}}"),
    "ps": ("", ""),
    **dict.fromkeys(
        ("ring", "halving_doubling", "double_tree", "hierarchical", "colocated_ps"), ("", "")
    ),
}


def text_of(name: str, runtime: str = "mininet") -> str:
    """The experiment of a system: about 2900 fragments, 0.8 s on its own link."""
    options, memory = SYSTEMS[name]
    parts = {"name": name, "options": options, "memory": memory, "runtime": runtime}
    return TEXT % {**parts, "scale": 0.00135}
