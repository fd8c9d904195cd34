"""Networks of other simulators (p4fabric.netfile.fabrics): experiment files out of them, and the
network of an experiment as such a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from p4fabric.base.config.yaml_document import Inline, write_yaml
from p4fabric.base.errors import UserError
from p4fabric.base.linux.whole_files import write_whole, writing
from p4fabric.netfile.fabrics import simai_topology
from p4fabric.netfile.fabrics.fabric import Fabric, Line, topology_of

from testbed.experiment import load, load_text
from testbed.experiment.experiment import LinkDirection
from testbed.paths import command_line
from testbed.topos.explicit import listed

HEAD = """\
# The network of {source}, {kind}.
# `{run}` runs one job on all of its hosts, in virtual time; without its computation
# (compute_scale: 0). Systems with parameter servers (esa, atp, ps) need hosts for these, so fewer
# workers.
"""


def import_fabric(source: Path, kind: str, fabric: Fabric, output: Path | None) -> int:
    """Write an experiment file for the network in `source`: one job with all hosts as workers.
    kind, fabric: what `fabric_in` finds there. output: the file to write; None: named after the
    source. Raises UserError."""
    output = output or Path(f"{source.stem}-experiment.yaml")
    if output.exists():
        raise UserError(f"{output} is there already: remove it, or name another with -o")
    topology, notes = topology_of(fabric)
    parts = listed(topology)
    for link in parts["links"]:
        if isinstance(link, dict):
            link["between"] = Inline(link["between"])
    job = {"model": "resnet50", "workers": len(topology.hosts), "iterations": 1}
    job |= {"scale": 0.001, "compute_scale": 0}
    made = {
        "runtime": "virtual",
        "topology": {"kind": "explicit", **parts},
        "system": "switchml",
        "memory": {"aggregators": 512},
        "jobs": [job],
    }
    head = HEAD.format(source=source.name, kind=kind, run=command_line(str(output)))
    text = head + write_yaml(made)
    load_text(text, str(output), output.absolute().parent, output.stem)
    _write(output, text)
    print(f"{source} is {kind}: {len(topology.hosts)} hosts, {len(topology.switches)} switches")
    for note in (*fabric.notes, *notes):
        print(note)
    print(f"written: {output}; next: {command_line(str(output))}")
    return 0


def export_network(source: Path, output: Path, changes: Sequence[str]) -> int:
    """Write the network of the experiment file `source` as a topology of SimAI. Raises UserError if
    a link has what the format has no word for."""
    experiment = load(source, changes)
    if output.exists():
        raise UserError(f"{output} is there already: remove it, or name another")
    lines = [_line(*both) for both in experiment.directions]
    _write(output, simai_topology.text_of(experiment.topology_object(), lines))
    print(f"written: {output}; not said: queues, and where congestion is marked")
    return 0


def _line(forward: LinkDirection, backward: LinkDirection) -> Line:
    """A link for other simulators. Raises UserError."""
    name = f"link {forward.source}-{forward.target}"
    ways = [
        replace(way, source="", target="", queue_packets=0, ecn_threshold_packets=None)
        for way in (forward, backward)
    ]
    if ways[0] != ways[1]:
        raise UserError(f"{name}: its directions differ, and a topology of SimAI has one for both")
    if forward.jitter_ns or forward.duplicate or forward.reorder:
        raise UserError(f"{name}: a topology of SimAI has no jitter, duplicate and reorder")
    ends = forward.source, forward.target
    return Line(*ends, forward.bandwidth_bps, forward.delay_ns, forward.loss)


def _write(output: Path, text: str) -> None:
    with writing(output):
        write_whole(output, text)
