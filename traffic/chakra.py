"""Chakra execution traces (MLCommons), the format of ASTRA-sim's workloads, as a rank graph.

One file per rank, `NAME.0.et` and so on, raw or gzip: protobuf messages, each behind its length.
The first one is the metadata, the others are nodes. `NAME.json` beside them has the groups. Without
that file, those of the recorder's metadata count, and nodes that name no group belong to all ranks.
`ina_recorder.py`, which records such traces, also has what is common to reading and writing.
"""

from __future__ import annotations

import functools
import gzip
import io
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from p4fabric.base.config.data_files import DataError, read_bytes, read_json

from testbed.collective import ina_recorder
from testbed.collective_kinds import COLLECTIVES, ROOT
from testbed.traffic.rank_graph import (
    COMPUTE,
    NOBODY,
    RECV,
    SEND,
    Node,
    Program,
    check,
    describe,
)
from testbed.traffic.trace import TraceError

SUFFIX = ina_recorder.TRACE
FIRST = f".0{SUFFIX}"  # with which the first rank\'s file ends
MAX_BYTES = 1 << 30  # of a rank's file, also unpacked
MAX_NODES = 4_000_000  # of a rank

_COMM_KINDS = {number: name for name, each in COLLECTIVES.items() for number in each.chakra}
# The attribute that has the root: the rank that gives, or the one that gets.
_ROOT = {
    name: "comm_src" if each.gives == ROOT else "comm_dst"
    for name, each in COLLECTIVES.items()
    if each.rooted
}
_GZIP = b"\x1f\x8b"
# Types of nodes that only order others, or that take time on the processor: METADATA, MEM_LOAD,
# MEM_STORE, COMP.
_COMPUTING = (1, 2, 3, 4)
_SEND, _RECV, _COLLECTIVE = 5, 6, 7
# Fields of an attribute: plain numbers, and those of fixed size or with a zigzag.
_WHOLE = (7, 9, 11, 13, 27)
_ZIGZAG = (15, 17)
_FIXED = {3: "<d", 5: "<f", 19: "<I", 21: "<Q", 23: "<i", 25: "<q"}
_LISTS = (8, 10, 12, 14)  # of whole numbers


def is_trace(name_or_path: str | Path) -> bool:
    """True if a path names a program's traces."""
    return str(name_or_path).endswith(SUFFIX)


def of_all(path: Path) -> Path:
    """NAME.et, by that or by the first rank's file, NAME.0.et."""
    if not path.name.endswith(FIRST):
        return path
    return path.with_name(path.name.removesuffix(FIRST) + SUFFIX)


def files_of(first: Path) -> list[Path]:
    """All files of a program that are there, by that of its first rank."""
    path = of_all(first)
    found = [first]
    while (file := ina_recorder.trace_part(path, len(found))).is_file():
        found.append(file)
    groups = path.with_suffix(".json")
    return [*found, *([groups] if groups.is_file() else [])]


def load(path: str | Path) -> Program:
    """Read and check the traces of all ranks. path: NAME.et, or the first rank's file, NAME.0.et.
    Raises TraceError, which names file and node."""
    path = of_all(Path(path))
    part = functools.partial(ina_recorder.trace_part, path)
    if not part(0).exists():
        raise TraceError(f"{part(0)}: there is no such trace; name NAME{SUFFIX} or NAME.0{SUFFIX}")
    about, nodes = _read(part(0), 0)
    ranks = [nodes]
    groups = _groups_in(about, part(0))
    world = about.get("world")  # files of more ranks are of an earlier recording
    while len(ranks) != world and (file := part(len(ranks))).exists():
        says, nodes = _read(file, len(ranks))
        groups |= _groups_in(says, file)
        ranks.append(nodes)
    if world is not None and len(ranks) < world:
        raise TraceError(
            f"{part(len(ranks))}: is missing, the recording has {world} ranks; copy the traces of"
            " all ranks into this folder"
        )
    if (beside := path.with_suffix(".json")).exists():
        groups = _groups_in({"groups": _json(beside)}, beside)
    names = about.get("names", {})
    if names:
        groups = {names.get(name, name): members for name, members in groups.items()}
        ranks = [
            tuple(replace(each, group=names.get(each.group, each.group)) for each in nodes)
            for nodes in ranks
        ]
    if any(not each.group and each.kind in COLLECTIVES for nodes in ranks for each in nodes):
        groups[""] = tuple(range(len(ranks)))
    # A trace need not say who the root is.
    rooted = [
        tuple(
            replace(node, peer=groups[node.group][0])
            if node.kind in _ROOT and node.peer == NOBODY and groups.get(node.group)
            else node
            for node in nodes
        )
        for nodes in ranks
    ]
    files = tuple(str(part(rank)) for rank in range(len(ranks)))
    # All text is the program's own about itself; lists and numbers are of the format.
    says = {key: text for key, text in about.items() if isinstance(text, str) and key != "format"}
    if not says.get("tokens", "0").isdecimal():
        raise TraceError(f"{part(0)}: its tokens are no whole number; export it again")
    program = Program(groups, tuple(rooted), files, says)
    check(program)
    _check_dependencies(program)
    return program


def _check_dependencies(program: Program) -> None:
    """Converters are known to lose the dependencies of collectives, which then would all begin with
    the program. Raises TraceError if several of a rank that computes have none, and if one of them
    comes after computation in its file, or if no collective comes after any. Those in front of the
    first computation may be meant so."""
    for rank, nodes in enumerate(program.ranks):
        computes = [place for place, node in enumerate(nodes) if node.duration_ns]
        free = [
            place for place, node in enumerate(nodes) if node.kind in COLLECTIVES and not node.after
        ]
        if not computes or len(free) < 2:
            continue
        if free[-1] > computes[0] or not _any_waits(nodes, computes):
            raise TraceError(
                f"{program.where(rank, free[-1])}: depends on nothing, as {len(free) - 1} other"
                f" collective{'s' if len(free) > 2 else ''} of this rank, so they would all begin"
                " at time 0, although the rank computes. The trace has lost its dependencies:"
                " convert or record it again"
            )


def _any_waits(nodes: tuple[Node, ...], computes: list[int]) -> bool:
    """True if a collective comes after one of these nodes."""
    after: list[list[int]] = [[] for _ in nodes]
    for place, node in enumerate(nodes):
        for before in node.after:
            after[before].append(place)
    reached, found = set(computes), list(computes)
    while found:
        for place in after[found.pop()]:
            if nodes[place].kind in COLLECTIVES:
                return True
            if place not in reached:
                reached.add(place)
                found.append(place)
    return False


def write(path: str | Path, program: Program, numbered: bool = False) -> None:
    """Write a program as NAME.0.et, ... and NAME.json, for the path NAME.et. numbered: groups have
    numbers, as ASTRA-sim needs it, and their names are in the metadata only. The algorithms of
    calls are not in it: an experiment chooses them."""
    path = Path(path)
    named = [name for name in program.groups if name]
    numbers = {
        name: str(number) if numbered else name for number, name in enumerate(named, start=1)
    }
    members = {name: frozenset(ranks) for name, ranks in program.groups.items()}
    for rank, nodes in enumerate(program.ranks):
        own = {numbers[name]: list(program.groups[name]) for name in named if rank in members[name]}
        about = {
            **program.about,
            "rank": rank,
            "world": len(program.ranks),
            "groups": own,
        }
        if numbered:
            about["names"] = {number: name for name, number in numbers.items()}
        graph = [
            (each.kind, each.after, each.duration_ns, _attributes(each, rank, numbers))
            for each in nodes
        ]
        ina_recorder.write_trace(ina_recorder.trace_part(path, rank), about, graph)
    ina_recorder.join_traces(path)


def _attributes(node: Node, rank: int, numbers: dict[str, str]) -> dict[str, Any]:
    """The attributes of a node of the recorder. numbers: of the groups."""
    if node.kind == COMPUTE:
        return {}
    found: dict[str, Any] = {"comm_size": node.bytes}
    if node.group:
        found["pg_name"] = numbers[node.group]
    if node.dtype:
        found["dtype"] = node.dtype
    if node.parts:
        found["comm_parts"] = list(node.parts)
    if node.kind in (SEND, RECV):
        ends = (rank, node.peer) if node.kind == SEND else (node.peer, rank)
        found |= {"comm_src": ends[0], "comm_dst": ends[1], "comm_tag": node.tag}
    if node.kind in COLLECTIVES:
        found["comm_type"] = COLLECTIVES[node.kind].chakra[0]
    if node.kind in _ROOT:
        found[_ROOT[node.kind]] = node.peer
    return found


# -- reading


def _json(path: Path) -> Any:
    try:
        return read_json(path)
    except DataError as error:
        raise TraceError(str(error)) from None


def _groups_in(about: dict[str, Any], file: Path) -> dict[str, tuple[int, ...]]:
    groups = about.get("groups", {})
    names = about.get("names", {})
    if not isinstance(names, dict) or not all(isinstance(each, str) for each in names.values()):
        raise TraceError(f"{file}: the names of its groups are damaged; export it again")
    whole = isinstance(groups, dict) and all(
        isinstance(ranks, list) and all(type(each) is int for each in ranks)
        for ranks in groups.values()
    )
    if not whole:
        raise TraceError(f'{file}: its groups are not of the form {{"1": [0, 1]}}; correct it')
    return {name: tuple(ranks) for name, ranks in groups.items()}


def _read(file: Path, rank: int) -> tuple[dict[str, Any], tuple[Node, ...]]:
    """Description of a trace, and its nodes."""
    messages = _messages(file)
    try:
        about = ina_recorder.about_trace(next(messages, b""))
    except (ValueError, KeyError, TypeError) as error:
        raise TraceError(f"{file}: its metadata is damaged ({error!s:.200})") from None
    nodes: list[tuple[Node, list[int]]] = []
    for number, message in enumerate(messages, start=1):
        if number > MAX_NODES:
            raise TraceError(f"{file}: has more than {MAX_NODES} nodes; record fewer steps")
        try:
            nodes.append(_node(message, rank))
        except (ValueError, KeyError, TypeError, struct.error) as error:
            raise TraceError(
                f"{file}: node {number} in file order cannot be read: {error!s:.200}; convert or"
                " record it again"
            ) from None
    places: dict[int, int] = {}
    for place, (node, _) in enumerate(nodes):
        if places.setdefault(node.id, place) != place:
            raise TraceError(f"{file}: two nodes have the id {node.id}; give each one its own")
    found = []
    for node, before in nodes:
        for each in before:
            if each not in places:
                raise TraceError(
                    f"{file}: node {node.id} ({describe(node)}) depends on node {each}, which is"
                    " not in the file, so nothing lets it start; convert or record it again"
                )
        found.append(replace(node, after=tuple(places[each] for each in before)))
    return about, tuple(found)


def _messages(file: Path) -> Iterator[bytes]:
    try:
        data = read_bytes(file, MAX_BYTES)
        if data.startswith(_GZIP):
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
                data = packed.read(MAX_BYTES + 1)
            if len(data) > MAX_BYTES:
                raise TraceError(f"{file}: unpacked, it is larger than {MAX_BYTES >> 20} MiB")
    except DataError as error:
        raise TraceError(str(error)) from None
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"{file}: not a whole gzip file ({error}); copy it again") from None
    at = number = 0
    while at < len(data):
        try:
            size, at = ina_recorder.read_varint(data, at)
        except ValueError:
            size = len(data)
        if at + size > len(data):
            raise TraceError(f"{file}: message {number} is cut off; copy or record it again")
        yield data[at : at + size]
        at += size
        number += 1


def _node(message: bytes, rank: int) -> tuple[Node, list[int]]:
    """A node and the ids of those that it depends on. Raises ValueError and others."""
    number = kind_number = micros = 0
    before: list[int] = []
    given: dict[str, Any] = {}
    for field, value in ina_recorder.proto_fields(message):
        if field in (4, 5):
            before += _whole_numbers(value)
        elif field == 10:
            name, content = _attribute(value)
            given[name] = content
        elif isinstance(value, int):
            if field == 1:
                number = value
            elif field == 3:
                kind_number = value
            elif field == 7:
                micros = value
    node = Node(
        COMPUTE,
        group=str(given.get("pg_name", "")),
        bytes=int(given.get("comm_size", 0)),
        dtype=str(given.get("dtype", "")),
        id=number,
    )
    if kind_number in _COMPUTING:
        duration_ns = int(given.get("duration_ns", 1000 * micros))
        if not duration_ns and given.get("num_ops"):
            raise ValueError("it has a number of operations (num_ops) and no duration")
        return Node(COMPUTE, duration_ns=duration_ns, id=number), before
    if kind_number in (_SEND, _RECV):
        kind, own, other = (
            (SEND, "comm_src", "comm_dst")
            if kind_number == _SEND
            else (RECV, "comm_dst", "comm_src")
        )
        if int(given.get(own, rank)) != rank:
            raise ValueError(f"a {kind} with {own} {given[own]} on rank {rank}")
        tag = int(given.get("comm_tag", 0))
        return replace(node, kind=kind, peer=int(given[other]), tag=tag), before
    if kind_number != _COLLECTIVE:
        raise ValueError(f"it is of the unknown type {kind_number}")
    kind = _COMM_KINDS.get(given.get("comm_type", -1), "")
    if not kind:
        raise ValueError(f"a collective with comm_type {given.get('comm_type')}")
    root = int(given.get(_ROOT.get(kind, ""), NOBODY))
    parts = tuple(given.get("comm_parts", ()))
    return replace(node, kind=kind, peer=root, parts=parts), before


def _attribute(data: int | bytes) -> tuple[str, Any]:
    if isinstance(data, int):
        raise ValueError("an attribute is a number")
    name, found = "", None  # type: str, Any
    for field, value in ina_recorder.proto_fields(data):
        if field == 1 and isinstance(value, bytes):
            name = value.decode()
        elif field in _WHOLE and isinstance(value, int):
            found = value - (1 << 64) if field in (7, 9) and value >> 63 else value
        elif field in _ZIGZAG and isinstance(value, int):
            found = value >> 1 ^ -(value & 1)
        elif field in _FIXED and isinstance(value, bytes):
            (found,) = struct.unpack(_FIXED[field], value)
        elif field == 29 and isinstance(value, bytes):
            found = value.decode()
        elif field in _LISTS and isinstance(value, bytes):
            found = [
                n for each in ina_recorder.proto_fields(value) for n in _whole_numbers(each[1])
            ]
    return name, found


def _whole_numbers(value: int | bytes) -> list[int]:
    """A repeated field: one number, or several in a packed form."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = ina_recorder.read_varint(value, at)
        found.append(number)
    return found
