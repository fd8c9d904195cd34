"""Network files out of the topology.json of the P4 tutorials, with its sX-runtime.json files.

Hosts keep their addresses, MACs and commands, links their delays and rates. What the runtime files
have a controller write into the switches (entries, multicast groups, clone sessions) becomes
entries of the network file, in its spelling: the runtime files give matches as lists, whose meaning
depends on the key's kind, so the program is read for it.
"""

from __future__ import annotations

import os
from pathlib import Path
from reprlib import repr as brief

from p4engine.backend.build import compile_program
from p4engine.frontend.diagnostics import P4Error
from p4engine.program_info import ProgramInfo
from p4engine.values.names import Names

from p4fabric.base.config.data_files import read_json, read_text
from p4fabric.base.config.yaml_document import Inline
from p4fabric.base.errors import UserError
from p4fabric.netfile.json_parts import LARGEST, JsonObject, list_of, near, of_kind, only, text_of

TOP = ("hosts", "switches", "links")
HOST = ("ip", "mac", "commands")
SWITCH = ("runtime_json", "cli_input", "program")
RUNTIME = (
    *("target", "p4info", "bmv2_json", "table_entries"),
    *("multicast_group_entries", "clone_session_entries"),
)
ENTRY = (
    *("table", "match", "action_name", "action_params", "default_action", "priority"),
    "comment",
)
HIGHEST = 2**31 - 2


def is_topology(data: object) -> bool:
    """True if JSON is such a topology: hosts, switches and links at the top."""
    return isinstance(data, dict) and "topology" not in data and set(TOP) <= set(data)


class Exercise:
    """One topology.json on its way into a network file that will lie in `folder`. `notes`: parts
    that were not taken over, a line each."""

    def __init__(self, data: object, path: Path, program: Path | None, folder: Path) -> None:
        """program: of all switches; None: what the runtime files name. Raises UserError."""
        self.path = path
        self.folder = folder
        self.notes: list[str] = []
        self._data = only(data, TOP, path)
        for kind in ("hosts", "switches"):
            if not isinstance(self._data[kind], dict):
                raise UserError(f"{path}: {kind} is not an object with names")
        self._runtime = {
            name: self._read_runtime(name, only(switch, SWITCH, f"{path}: switch {name}"))
            for name, switch in self._data["switches"].items()
        }
        self._programs = {name: self._program_of(name, program) for name in self._runtime}
        if not self._programs:
            raise UserError(f"{path}: it has no switches")
        self.program = next(iter(self._programs.values()))
        self._names: dict[Path, Names] = {}

    def network(self) -> JsonObject:
        """The key `network` of the network file. Raises UserError."""
        made = {"program": self._relative(self.program)}
        return {
            **made,
            "hosts": {name: self._host(name, each) for name, each in self._data["hosts"].items()},
            "switches": {name: self._switch(name) for name in self._runtime},
            "links": [self._link(each) for each in list_of(self._data, "links", list, self.path)],
        }

    def _relative(self, path: Path) -> str:
        return os.path.relpath(path.absolute(), self.folder)

    # ---- hosts and links ----

    def _host(self, name: str, host: object) -> JsonObject:
        where = f"{self.path}: host {name}"
        found = only(host, HOST, where)
        if not isinstance(found.get("ip"), str):
            raise UserError(f"{where}: there is no 'ip' such as 10.0.1.1/24")
        text_of(found, "mac", where)
        list_of(found, "commands", str, where)
        return {key: found[key] for key in HOST if found.get(key)}

    def _link(self, link: object) -> JsonObject:
        where = f"{self.path}: link {brief(link)}"
        if not isinstance(link, list) or not 2 <= len(link) <= 4:
            raise UserError(f"{where}: a link is two ends, then a delay and a rate in Mbit/s")
        made: JsonObject = {"between": Inline([str(end) for end in link[:2]])}
        if len(link) > 2 and link[2] not in (0, "0", "0ms"):
            given = f"{link[2]} ms" if isinstance(link[2], int | float) else str(link[2])
            made["delay"] = given
        if len(link) > 3 and link[3] is not None:
            if isinstance(link[3], bool) or not isinstance(link[3], int | float):
                raise UserError(f"{where}: {brief(link[3])} is no rate in Mbit/s")
            if abs(link[3]) > LARGEST:
                raise UserError(f"{where}: {brief(link[3])} is too large")
            made["bandwidth"] = f"{link[3]:g} Mbit/s"
        return made

    # ---- switches ----

    def _read_runtime(self, name: str, switch: JsonObject) -> JsonObject:
        named = text_of(switch, "runtime_json", f"{self.path}: switch {name}")
        if named is None:
            return {}
        file = near(named, self.path)
        return only(read_json(file), RUNTIME, file)

    def _program_of(self, name: str, given: Path | None) -> Path:
        """The source: the given one, else the .p4 file with the name of the compiled one."""
        if given is not None:
            return given
        own = self._data["switches"][name].get("program")
        named = own or self._runtime[name].get("bmv2_json")
        if not isinstance(named, str):
            raise UserError(
                f"{self.path}: which P4 program {name} runs is not said: give --program"
            )
        return near(f"{Path(named).stem}.p4", self.path)

    def _switch(self, name: str) -> JsonObject:
        runtime, switch = self._runtime[name], self._data["switches"][name]
        where = f"{self.path}: switch {name}"
        made: JsonObject = {}
        if self._programs[name] != self.program:
            made["program"] = self._relative(self._programs[name])
        listed = list_of(runtime, "table_entries", dict, where)
        entries = [self._entry(name, each, where) for each in listed]
        if entries:
            made["entries"] = entries
        groups = list_of(runtime, "multicast_group_entries", dict, where)
        if groups:
            made["multicast"] = [
                {"group": each.get("multicast_group_id"), "replicas": replicas(each, where)}
                for each in groups
            ]
        sessions = list_of(runtime, "clone_session_entries", dict, where)
        if sessions:
            made["clones"] = [_session(each, where) for each in sessions]
        if file := text_of(switch, "cli_input", where):
            lines = read_text(near(file, self.path)).splitlines()
            made["commands"] = [line for line in lines if line.split("#")[0].strip()]
        return made

    def _entry(self, name: str, entry: JsonObject, where: str) -> JsonObject:
        found = only(entry, ENTRY, f"{where}: table entry")
        for key in ("table", "action_name"):
            if not isinstance(found.get(key), str):
                raise UserError(f"{where}: {brief(entry)}: there is no {key!r}")
        made: JsonObject = {"table": found["table"]}
        if found.get("default_action"):
            made["default"] = True
        elif found.get("match"):
            made["match"] = self._matches(name, found, where)
        made["action"] = found["action_name"]
        if found.get("action_params"):
            made["params"] = found["action_params"]
        if found.get("priority") and not found.get("default_action"):
            made["priority"] = found["priority"]
        return made

    def _matches(self, name: str, entry: JsonObject, where: str) -> JsonObject:
        try:
            keys = self._names_of(name).table(entry["table"]).match_keys
        except P4Error as error:
            raise UserError(f"{where}: {error}") from None
        kinds = {key.name: key.kind for key in keys}
        made = {}
        for key, value in of_kind(entry["match"], dict, f"{where}: match").items():
            if key not in kinds:
                listed = ", ".join(kinds)
                raise UserError(f"{where}: {entry['table']} has no key {key!r}; it has {listed}")
            made[key] = match(kinds[key], value, f"{where}: {entry['table']}, {key}")
        return made

    def _names_of(self, name: str) -> Names:
        program = self._programs[name]
        if program not in self._names:
            self._names[program] = Names(info_of(program))
        return self._names[program]


def info_of(program: Path) -> ProgramInfo:
    """The objects of a program. Raises UserError for one with mistakes."""
    try:
        return compile_program(program, {}, [program.parent]).info
    except P4Error as error:
        raise UserError(str(error)) from None


def match(kind: str, value: object, where: str) -> object:
    """A match of a runtime file as a network file writes it. Raises UserError."""
    signs = {"lpm": "/", "ternary": " &&& ", "range": " -> "}
    if kind not in signs:
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, list | dict):
            raise UserError(f"{where}: {brief(value)} is no value")
        return value
    if not isinstance(value, list) or len(value) != 2:
        raise UserError(f"{where}: {brief(value)} is no list of two, as a match of kind {kind} has")
    return f"{value[0]}{signs[kind]}{value[1]}"


def replicas(entry: JsonObject, where: str) -> list[JsonObject]:
    """The copies of a multicast group or clone session. Raises UserError."""
    try:
        return [
            {"port": each["egress_port"], **_instance(each)} for each in entry.get("replicas", [])
        ]
    except (KeyError, TypeError, AttributeError):
        raise UserError(f"{where}: {brief(entry)}: replicas have an 'egress_port'") from None


def _instance(replica: JsonObject) -> JsonObject:
    return {"instance": replica["instance"]} if replica.get("instance") else {}


def _session(entry: JsonObject, where: str) -> JsonObject:
    made = {"session": entry.get("clone_session_id"), "replicas": replicas(entry, where)}
    if entry.get("packet_length_bytes"):
        made["packet_length_bytes"] = entry["packet_length_bytes"]
    return made
