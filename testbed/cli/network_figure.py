"""`ina show FILE --figure`: the picture of a network, with loads where FILE is a run."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from p4fabric.base.config.data_files import read_named
from p4fabric.base.errors import UserError
from p4fabric.base.linux.whole_files import writing
from p4fabric.base.topology import Topology

from testbed.analysis.data.network_picture import NetworkPicture, of_ports, of_results, of_topology
from testbed.cli.shared import is_network, is_results

PORTS = "ports.csv"  # of the run of a network file in virtual time
MOST_BYTES = 1 << 28


def draw(source: Path, output: Path, changes: Sequence[str]) -> None:
    """Draw the network of an experiment, of a network file, or of the results of one of them as the
    file `output`. Raises UserError."""
    picture = _picture(source, changes)
    from testbed.analysis.figures import topology_figure

    with writing(output):
        topology_figure.draw(picture, output)
    print(f"picture: {output}")


def _picture(source: Path, changes: Sequence[str]) -> NetworkPicture:
    if (source / PORTS).is_file():
        rows = csv.DictReader(read_named(source / PORTS, "a table", MOST_BYTES).splitlines())
        try:
            picture = of_ports(rows)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{source / PORTS} is not the table of ports of a run: {error}"
            ) from None
    elif is_results(source):
        from testbed.analysis.data.sweep_data import run_at

        picture = of_results(run_at(source))
    else:
        return _of_topology(_topology(source, changes))
    if picture is None:
        raise UserError(
            f"{source}: the packets of its links were not counted; name the file it ran"
        )
    return picture


def _topology(source: Path, changes: Sequence[str]) -> Topology:
    if is_network(source):
        from p4fabric.netfile.load_network import load_network

        return load_network(source).topology
    from testbed.experiment import load
    from testbed.experiment.sweep_file import is_sweep

    if is_sweep(source):
        raise UserError(f"{source}: a sweep has many experiments; name a file with one")
    return load(source, changes).topology_object()


def _of_topology(topology: Topology) -> NetworkPicture:
    linked = {name for ends in topology.links for name in ends}
    if not linked:
        raise UserError("the network has no links to be drawn")
    switches = [name for name in topology.switches if name in linked]
    hosts = [name for name in topology.hosts if name in linked]
    return of_topology(hosts, switches, topology.links)
