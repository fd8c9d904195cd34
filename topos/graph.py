"""Graph: any network from a file, GraphML or a list of edges (testbed/routing/graph_file.py).

Networks that are published as GraphML have only switches; `hosts` adds hosts to each of them. Names
in such files may have any form. Names of nodes here are short, so other names are replaced.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from p4fabric.base.errors import UserError
from p4fabric.base.topology import NAME, Topology, TopologyError, within

from testbed.paths import command_line


class Graph(Topology):
    """The nodes and links of a graph file, in its order. A name must have a small letter and up to
    7 more small letters or digits. Other names are converted to small letters. If that is not
    enough, they become numbers in the file's order (s1, s2, ... and h1, h2, ...). Lines of jobs are
    only for `ina plan`.

    file: the file, relative to the experiment; GraphML if it ends in .graphml or .xml, else a list
        of edges
    hosts: hosts to add to each switch, beside those of the file, 0 to 256
    """

    FILES = ("file",)  # keys that are paths relative to the experiment

    def __init__(self, file: str, hosts: int = 0) -> None:
        # Here, because it reads quantities as experiments do, and those know this module.
        from testbed.routing.graph_file import is_failed, read_graph

        within("hosts", hosts, 0, 256)
        try:
            graph = read_graph(Path(file))
            own = (
                graph.hosts()
                if hosts == 0
                else {name for name in graph.hosts() if graph.nodes[name].get("kind") == "host"}
            )
            if graph.directed:
                raise UserError(f"{file}: the graph is directed; a link has both directions")
            names = _names(graph.nodes, own)
            down = {
                name
                for name, attributes in graph.nodes.items()
                if is_failed(graph.where(name), attributes)
            }
            for name in graph.nodes:
                for key in ("slots", "ingress"):
                    if key in graph.nodes[name]:
                        raise UserError(
                            f"{graph.where(name)}: {key} is for {command_line('plan')}; in an"
                            " experiment the switches' memory and the links' bandwidth decide it"
                        )
                if name in own:
                    self.add_host(names[name])
                else:
                    self.add_switch(names[name], **_switch_options(graph.nodes[name]))
            for number, (a, b, attributes) in enumerate(graph.edges):
                options = _link_options(attributes)
                if is_failed(graph.where(number), attributes) or down & {a, b}:
                    options["failed"] = True
                self.add_link(names[a], names[b], **options)
        except TopologyError:
            raise
        except UserError as error:
            raise TopologyError(str(error), option="file") from None
        number = 0
        for switch in self.switches:
            for _ in range(hosts):
                number += 1
                while f"h{number}" in names.values():
                    number += 1
                self.add_link(self.add_host(f"h{number}"), switch)


def _names(nodes: Iterable[str], hosts: set[str]) -> dict[str, str]:
    """A short name for each node, different from all others."""
    nodes = list(nodes)
    found = {name: name for name in nodes if NAME.fullmatch(name)}
    taken = set(found)
    for name in nodes:
        small = name.lower()
        if name not in found and NAME.fullmatch(small) and small not in taken:
            found[name] = small
            taken.add(small)
    numbers = {"h": 0, "s": 0}
    for name in nodes:
        if name in found:
            continue
        letter = "h" if name in hosts else "s"
        while True:
            numbers[letter] += 1
            short = f"{letter}{numbers[letter]}"
            if short not in taken:
                break
        found[name] = short
        taken.add(short)
    return found


def _switch_options(attributes: dict[str, str]) -> dict[str, Any]:
    aggregation = attributes.get("aggregation")
    if aggregation is None:
        return {}
    return {"aggregates": False} if aggregation == "none" else {"capacity": aggregation}


def _link_options(attributes: dict[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if "capacity" in attributes:
        options["bandwidth"] = attributes["capacity"]
    if "back_capacity" in attributes:
        options["backward"] = {"bandwidth": attributes["back_capacity"]}
    if "delay" in attributes:
        options["delay"] = attributes["delay"]
    return options
