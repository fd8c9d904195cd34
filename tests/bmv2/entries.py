"""The calls of our control plane, carried out on BMv2 through its Thrift interface.

`testbed.dataplane.install` fills any switch that has `batch`. `Recorder` is one that only keeps the
calls, `replay` carries them out on `simple_switch`. Names and widths come from the JSON that p4c
has made, so that nothing of the embedded switch's compiler takes part.
"""

from __future__ import annotations

import json
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any


class Recorder:
    """A switch that keeps what it is told: `calls` is [(name, *arguments), ...]."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []

    def batch(self, calls: list[tuple]) -> None:
        self.calls += calls


class Bmv2Program:
    """The objects of a program as p4c describes them for BMv2."""

    def __init__(self, path: Path) -> None:
        content = json.loads(path.read_text())
        types = {kind["name"]: kind for kind in content["header_types"]}
        widths = {
            (header["name"], field[0]): field[1]
            for header in content["headers"]
            for field in types[header["header_type"]]["fields"]
        }
        actions = {action["id"]: action for action in content["actions"]}
        self.tables: dict[str, dict[str, Any]] = {}
        for pipeline in content["pipelines"]:
            for table in pipeline["tables"]:
                self.tables[table["name"]] = {
                    "keys": [(k["match_type"], widths[tuple(k["target"])]) for k in table["key"]],
                    "actions": {
                        actions[number]["name"]: [
                            parameter["bitwidth"] for parameter in actions[number]["runtime_data"]
                        ]
                        for number in table["action_ids"]
                    },
                }
        # Name: number of elements.
        self.registers = {array["name"]: array["size"] for array in content["register_arrays"]}


def full_name(name: str, names: Any) -> str:
    """The one of `names` that is `name` or ends in it."""
    (found,) = [one for one in names if one == name or one.endswith("." + name)]
    return found


def encoded(value: int | str, width: int) -> bytes:
    """A number, MAC or IPv4 address as the bytes of a bit<width>."""
    if isinstance(value, str):
        colons = ":" in value
        value = int(value.replace(":", ""), 16) if colons else int(IPv4Address(value))
    return value.to_bytes((width + 7) // 8, "big")


def replay(calls: list[tuple], program: Bmv2Program, standard: Any, multicast: Any) -> None:
    """Carry recorded calls out; `standard` and `multicast` are Thrift clients of the switch."""
    for name, *arguments in calls:
        if name == "table_add":
            _table_add(program, standard, *arguments)
        elif name == "table_set_default":
            table, action, parameters = arguments
            table = full_name(table, program.tables)
            action, data = _action(program, table, action, parameters)
            standard.bm_mt_set_default_action(0, table, action, data)
        elif name == "multicast_group":
            group, copies = arguments
            handle = multicast.bm_mc_mgrp_create(0, group)
            for port, rid in copies:
                node = multicast.bm_mc_node_create(0, rid, f"{1 << port:b}", "")
                multicast.bm_mc_node_associate(0, handle, node)
        elif name == "register_write":
            register, index, value = arguments
            register = full_name(register, program.registers)
            standard.bm_register_write(0, register, index, value)
        else:
            raise ValueError(f"no counterpart of {name} on BMv2")


def _action(
    program: Bmv2Program, table: str, action: str, parameters: list
) -> tuple[str, list[bytes]]:
    actions = program.tables[table]["actions"]
    action = full_name(action, actions)
    pairs = zip(parameters, actions[action], strict=True)
    return action, [encoded(value, width) for value, width in pairs]


def _table_add(
    program: Bmv2Program, standard: Any, table: str, action: str, match: list, parameters: list
) -> None:
    from bm_runtime.standard.ttypes import (
        BmAddEntryOptions,
        BmMatchParam,
        BmMatchParamExact,
        BmMatchParamLPM,
        BmMatchParamType,
    )

    table = full_name(table, program.tables)
    action, data = _action(program, table, action, parameters)
    key = []
    for value, (kind, width) in zip(match, program.tables[table]["keys"], strict=True):
        if kind == "exact":
            exact = BmMatchParamExact(encoded(value, width))
            key.append(BmMatchParam(type=BmMatchParamType.EXACT, exact=exact))
        elif kind == "lpm":
            lpm = BmMatchParamLPM(encoded(value[0], width), value[1])
            key.append(BmMatchParam(type=BmMatchParamType.LPM, lpm=lpm))
        else:
            raise ValueError(f"table {table}: no counterpart of a key that is {kind}")
    standard.bm_mt_add_entry(0, table, key, action, data, BmAddEntryOptions())
