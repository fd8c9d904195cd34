"""Network files out of the P4 tutorials' topologies: topology.json, and each switch's
sX-runtime.json. (`p4_utils` does it for p4app.json.)

    run.py import FOLDER/topology.json [--program FILE.p4] [-o FILE.yaml]

The file that comes out stands by itself: hosts with addresses and commands, links with latency and
bandwidth, and every switch's entries, groups and clone sessions. What a list of two numbers in a
match means depends on the key's kind, so the program is compiled first.
"""

from __future__ import annotations

import os
from pathlib import Path
from reprlib import repr as brief
from typing import TYPE_CHECKING, Any

from p4engine.frontend.diagnostics import P4Error

from testbed.config.data_files import read_json, read_text
from testbed.config.yaml_document import Inline, write_yaml
from testbed.errors import UserError
from testbed.netfile.import_parts import as_list, get, latency, near, only
from testbed.netfile.load_network import load_network
from testbed.netfile.p4_utils import P4App, is_p4app, program_of
from testbed.paths import command_line, program_name

if TYPE_CHECKING:
    from p4engine.program_info import Table

HEAD = """\
# Made from {source} by `{program} import`.
# `{run}` starts the network and runs the checks;
# with --cli Mininet's command line opens afterwards.
"""
# What each kind of object may hold; anything else would be lost, so it is an error.
TOPOLOGY = ("hosts", "switches", "links")
HOST = ("ip", "mac", "commands")
SWITCH = ("runtime_json", "program", "cli_input", "cpu_port", "priority_queues")
RUNTIME = (
    *("target", "p4info", "bmv2_json"),
    *("table_entries", "multicast_group_entries", "clone_session_entries"),
)
ENTRY = ("table", "match", "default_action", "action_name", "action_params", "priority")
GROUP = ("multicast_group_id", "replicas")
CLONE = ("clone_session_id", "replicas", "packet_length_bytes")
REPLICA = ("egress_port", "instance")
FIRST_PORT = 50051
PAIRS = {"lpm": "{}/{}", "ternary": "{} &&& {}", "range": "{} -> {}"}


def import_topology(source: Path, program: Path | None, output: Path | None) -> int:
    """Write a network file for the topology in the JSON file `source`.

    program: of all switches; None: the one that the topology or its folder has. output: the file to
    write; None: named after the program. Raises UserError."""
    topology = read_json(source)
    app = is_p4app(topology)
    if program is None:
        program = program_of(topology, source) if app else find_program(topology, source)
    output = output or Path(f"{program.stem}.yaml")
    if not output.absolute().parent.is_dir():
        raise UserError(f"{output}: there is no folder {output.absolute().parent}: make it first")
    if output.exists():
        raise UserError(f"{output} is there already: remove it, or name another with -o")
    folder = output.absolute().parent
    notes: list[str] = []
    if app:
        found = P4App(topology, source, program, folder)
        data = _file(program, found.network())
        notes = found.notes
    else:
        data = _file(program, Topology(topology, source, program, folder).network())
    head = HEAD.format(
        source=source.name, program=program_name(), run=command_line(output.name, root=True)
    )
    try:
        output.write_text(head + write_yaml(data))
    except OSError as error:
        raise UserError(f"{output} cannot be written: {error.strerror}") from None
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
    print(f"written: {output}; next: {command_line(str(output), root=True)}")
    return 0


def _file(program: Path, network: dict[str, Any]) -> dict[str, Any]:
    """A network file with this network."""
    return {"name": program.stem, "network": network, "checks": [{"ping": "all"}]}


def find_program(topology: Any, path: Path) -> Path:
    """The P4 program whose compiled form the switches' runtime files name. Raises UserError."""
    names = set()
    for name, switch in get(topology, "switches", dict, path).items():
        only(switch, SWITCH, f"{path}: switch {name}")
        if "runtime_json" in switch and "program" not in switch:
            file = near(get(switch, "runtime_json", str, f"{path}: switch {name}"), path)
            compiled = get(only(read_json(file), RUNTIME, file), "bmv2_json", str, file)
            names.add(f"{Path(compiled).stem}.p4")
    if len(names) == 1 and (name := names.pop()) != ".p4":
        return near(name, path)
    raise UserError(f"{path}: which P4 program the switches run is not clear: give --program FILE")


class Topology:
    """One topology on its way into a network file that will lie in `folder`."""

    def __init__(self, topology: Any, path: Path, program: Path, folder: Path) -> None:
        self.topology = topology
        self.path = path
        self.program = program
        self.folder = folder
        self._tables: dict[Path, dict[str, Table]] = {}

    def network(self) -> dict[str, Any]:
        """The key `network` of the network file."""
        only(self.topology, TOPOLOGY, self.path)
        hosts = get(self.topology, "hosts", dict, self.path)
        switches = get(self.topology, "switches", dict, self.path)
        return {
            "program": self._relative(self.program),
            "hosts": {name: self._host(name, host) for name, host in hosts.items()},
            "switches": {
                name: self._switch(number, name, switch)
                for number, (name, switch) in enumerate(switches.items())
            },
            "links": [self._link(link) for link in get(self.topology, "links", list, self.path)],
        }

    def _relative(self, path: Path) -> str:
        return os.path.relpath(path.absolute(), self.folder)

    def _host(self, name: str, host: Any) -> dict[str, Any]:
        where = f"{self.path}: host {name}"
        only(host, HOST, where)
        made: dict[str, Any] = {"ip": get(host, "ip", str, where)}
        if "mac" in host:
            made["mac"] = host["mac"]
        if commands := as_list(host, "commands", where):
            made["commands"] = commands
        return made

    def _link(self, link: Any) -> dict[str, Any]:
        if not isinstance(link, list) or not 2 <= len(link) <= 4:
            raise UserError(
                f"{self.path}: {brief(link)} is not a link: two ends, latency, bandwidth"
            )
        made: dict[str, Any] = {"between": Inline(link[:2])}
        if len(link) > 2:
            try:
                delay = latency(link[2])
            except ValueError:
                raise UserError(
                    f"{self.path}: link {brief(link)}: {brief(link[2])} is no latency;"
                    " allowed: a number of milliseconds, or text with a unit, such as '5ms'"
                ) from None
            if delay != "0 ms":
                made["delay"] = delay
        if len(link) > 3 and link[3] is not None:
            made["bandwidth"] = f"{link[3]} Mbit/s"
        return made

    # ---- switches ----

    def _switch(self, number: int, name: str, switch: Any) -> dict[str, Any]:
        where = f"{self.path}: switch {name}"
        only(switch, SWITCH, where)
        made: dict[str, Any] = {}
        if "cpu_port" in switch:
            # The tutorials' switches count their controllers' ports and device ids like this.
            made |= {"p4runtime": FIRST_PORT + number, "device_id": number}
        for key in ("cpu_port", "priority_queues"):
            if key not in switch:
                continue
            try:
                made[key] = int(switch[key])
            except (TypeError, ValueError, OverflowError):
                raise UserError(f"{where}: {key} {brief(switch[key])} is no number") from None
        program = self.program
        if "program" in switch:
            stem = Path(get(switch, "program", str, where)).stem
            program = near(f"{stem}.p4", self.path)
            made["program"] = self._relative(program)
        if "runtime_json" in switch:
            made |= self._runtime(near(get(switch, "runtime_json", str, where), self.path), program)
        if "cli_input" in switch:
            lines = read_text(near(get(switch, "cli_input", str, where), self.path)).splitlines()
            made["commands"] = [line for line in lines if line.split("#")[0].strip()]
        return made

    def _runtime(self, path: Path, program: Path) -> dict[str, Any]:
        """What a switch's runtime file says."""
        runtime = only(read_json(path), RUNTIME, path)
        made: dict[str, Any] = {}
        if entries := as_list(runtime, "table_entries", path):
            made["entries"] = [self._entry(each, program, path) for each in entries]
        if groups := as_list(runtime, "multicast_group_entries", path):
            made["multicast"] = [_group(each, path) for each in groups]
        if clones := as_list(runtime, "clone_session_entries", path):
            made["clones"] = [_clone(each, path) for each in clones]
        return made

    def _entry(self, entry: Any, program: Path, path: Path) -> dict[str, Any]:
        only(entry, ENTRY, path)
        table = get(entry, "table", str, path)
        made: dict[str, Any] = {"table": table}
        if entry.get("default_action"):
            made["default"] = True
        elif entry.get("match"):
            kinds = self._kinds(table, program, path)
            made["match"] = {
                key: self._match(value, kinds.get(key, ""), f"{path}, table {table}, key {key}")
                for key, value in get(entry, "match", dict, path).items()
            }
        made["action"] = get(entry, "action_name", str, path)
        if entry.get("action_params"):
            made["params"] = get(entry, "action_params", dict, path)
        if entry.get("priority"):
            made["priority"] = entry["priority"]
        return made

    @staticmethod
    def _match(value: Any, kind: str, where: str) -> Any:
        if not isinstance(value, list):
            return value
        if kind == "exact" and len(value) == 1:
            return value[0]
        if kind not in PAIRS or len(value) != 2:
            raise UserError(
                f"{where}: {brief(value)} is no match for a key of kind {kind or 'unknown'}"
            )
        return PAIRS[kind].format(*value)

    def _kinds(self, table: str, program: Path, path: Path) -> dict[str, str]:
        if program not in self._tables:
            from p4engine.backend.build import compile_program

            try:
                compiled = compile_program(program, {}, [program.parent])
            except P4Error as error:
                raise UserError(str(error)) from None
            self._tables[program] = {t.name: t for t in compiled.info.tables}
        found = self._tables[program].get(table)
        if found is None:
            names = ", ".join(self._tables[program])
            raise UserError(f"{path}: {program.name} has no table {table}; it has {names}")
        return {key.name: key.kind for key in found.keys}


def _group(entry: Any, path: Path) -> dict[str, Any]:
    number = get(only(entry, GROUP, path), "multicast_group_id", int, path)
    return {"group": number, "replicas": _replicas(entry, path)}


def _clone(entry: Any, path: Path) -> dict[str, Any]:
    number = get(only(entry, CLONE, path), "clone_session_id", int, path)
    made = {"session": number, "replicas": _replicas(entry, path)}
    if "packet_length_bytes" in entry:
        made["packet_length_bytes"] = get(entry, "packet_length_bytes", int, path)
    return made


def _replicas(entry: dict[str, Any], path: Path) -> list[dict[str, int]]:
    made = []
    for each in get(entry, "replicas", list, path):
        instance = only(each, REPLICA, path).get("instance", 0)
        port = {"port": get(each, "egress_port", int, path)}
        made.append(port | ({"instance": instance} if instance else {}))
    return made
