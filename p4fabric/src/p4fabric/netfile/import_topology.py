"""A network file out of a topology of p4-utils, of the P4 tutorials, or of another simulator
(fabrics/).

The network file stands by itself, and runs on Mininet; with `--virtual` in virtual time, with a
slow flow between all hosts instead of a ping.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os.path import relpath
from pathlib import Path
from typing import Any

from p4fabric.base.config.data_files import read_json
from p4fabric.base.config.yaml_document import write_yaml
from p4fabric.base.errors import UserError
from p4fabric.base.linux.whole_files import write_whole, writing
from p4fabric.netfile import p4_utils
from p4fabric.netfile.fabrics import fabric_in
from p4fabric.netfile.fabrics.fabric import Fabric, network_of, topology_of
from p4fabric.netfile.host_routes import Routes
from p4fabric.netfile.load_network import load_network
from p4fabric.netfile.p4_utils import P4App
from p4fabric.netfile.p4lang import Exercise, is_topology

HEAD = """\
# Made from {source}.
# `{run}` starts the network and runs the checks{prompt}.
"""
PROMPT = ";\n# with --cli Mininet's command line opens afterwards"
FLOWS = [{"name": "all", "from": "all", "to": "all", "packet_rate": 1000, "size": "100 B"}]


def import_topology(
    source: Path,
    program: Path | None,
    output: Path | None,
    virtual: bool,
    command: Callable[[str, bool], str],
) -> int:
    """Write a network file for the topology `source`.

    program: of all switches; None: the one that the file names. output: the file to write; None:
    named after the program. virtual: the file is for virtual time. command: how a command that runs
    a file is quoted, given the file's name and whether it needs root. Raises UserError."""
    if found := fabric_in(source):
        return _import_fabric(*found, source, program, output, virtual, command)
    data = read_json(source)
    if isinstance(data, dict) and "topology" in data:
        program = program or p4_utils.program_of(data, source)
        folder = _output(output, program, source).absolute().parent
        app: P4App | Exercise = P4App(data, source, program, folder)
    elif is_topology(data):
        folder = (output or Path()).absolute().parent if output else Path().absolute()
        app = Exercise(data, source, program, folder)
        program = app.program
    else:
        raise UserError(
            f"{source}: a p4app.json of p4-utils has the key 'topology'; a topology.json of the P4"
            " tutorials has hosts, switches and links; exercises also run with their own Makefiles:"
            " p4engine/docs/shims.md"
        )
    output = _output(output, program, source)
    made: dict[str, Any] = {"name": program.stem, "network": app.network()}
    kind = "p4app.json of p4-utils" if "topology" in data else "topology.json of the P4 tutorials"
    notes = [f"{source} is a {kind}", *app.notes]
    if virtual:
        notes += _without_shells(made["network"])
    else:
        made["checks"] = [{"ping": "all"}]
    return _write(output, made, source, notes, virtual, command)


def _import_fabric(
    kind: str, fabric: Fabric, source: Path, program: Path | None, output: Path | None, *how: Any
) -> int:
    if program is None:
        raise UserError(
            f"{source} is {kind}: give the switches a P4 program with --program FILE.p4"
        )
    topology, notes = topology_of(fabric)
    output = _output(output, program, source)
    folder = output.absolute().parent
    network = {"program": relpath(program.absolute(), folder), **network_of(topology)}
    made = {"name": program.stem, "network": network}
    return _write(output, made, source, [f"{source} is {kind}", *fabric.notes, *notes], *how)


def _write(
    output: Path,
    made: dict[str, Any],
    source: Path,
    notes: Sequence[str],
    virtual: bool,
    command: Callable[[str, bool], str],
) -> int:
    """Write the network file, unless it is not valid, and print the notes."""
    if virtual:
        made = {**made, "runtime": "virtual", "flows": FLOWS}
    run = command(output.name, not virtual)
    head = HEAD.format(source=source.name, run=run, prompt=PROMPT if "checks" in made else "")
    with writing(output):
        write_whole(output, head + write_yaml(made))
    try:
        load_network(output)
    except UserError as error:
        output.unlink()
        raise UserError(
            f"{source}: this topology is not a valid network. Lines are those of the network file"
            f" that would have been written.\n{error}"
        ) from None
    for note in notes:
        print(note)
    print(f"written: {output}; next: {command(str(output), not virtual)}")
    return 0


def _output(output: Path | None, program: Path, source: Path) -> Path:
    """The file to write. Raises UserError if it cannot be made."""
    output = output or Path(f"{program.stem}.yaml")
    folder = output.absolute().parent
    if not folder.is_dir():
        raise UserError(f"{output}: there is no folder {folder}: make it first")
    if output.exists():
        raise UserError(f"{output} is there already: remove it, or name another with -o")
    return output


def _without_shells(network: dict[str, Any]) -> list[str]:
    """Take out the commands of hosts that mean nothing in virtual time; returns notes."""
    notes = []
    for name, host in network["hosts"].items():
        routes = Routes()
        commands = host.pop("commands", [])
        known = [command for command in commands if routes.learn(command)]
        if known:
            host["commands"] = known
        notes += [f"not taken over: {name}: {each}" for each in commands if each not in known]
    return notes
