"""Chakra traces: written, read, and what a broken one is told."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from testbed.collective import ina_recorder
from testbed.collective.ina_recorder import attribute, proto, varint
from testbed.traffic import chakra
from testbed.traffic.rank_graph import Node, Program
from testbed.traffic.trace import TraceError
from tests.support.recordings import PROGRAM
from tests.support.workloads import example


def message(body: bytes) -> bytes:
    return varint(len(body)) + body


def node(number: int, kind: int, *fields: bytes, **given: bool | int | str) -> bytes:
    """A node as other programs write it: the id 0 is left out, whole numbers are int64."""
    body = proto(1, number) if number else b""
    body += proto(2, "a node") + proto(3, kind) + b"".join(fields)
    return body + b"".join(proto(10, attribute(name, value)) for name, value in given.items())


def write_rank(folder: Path, rank: int, *nodes: bytes, metadata: bytes = b"") -> Path:
    path = folder / f"run.{rank}.et"
    path.write_bytes(b"".join(map(message, [metadata, *nodes])))
    return path


def refused(path: Path) -> str:
    with pytest.raises(TraceError) as caught:
        chakra.load(path)
    return str(caught.value)


def without_files(program: Program) -> tuple:
    return program.groups, program.ranks, program.about


def test_what_is_written_is_read_again(tmp_path):
    chakra.write(tmp_path / "run.et", PROGRAM)
    assert json.loads((tmp_path / "run.json").read_text()) == {
        name: list(ranks) for name, ranks in PROGRAM.groups.items()
    }
    for name in ("run.et", "run.0.et"):
        assert without_files(chakra.load(tmp_path / name)) == without_files(PROGRAM)
    # Without the groups beside them, the ranks' own ones count; and packed files are traces.
    (tmp_path / "run.json").unlink()
    for rank in range(3):
        path = tmp_path / f"run.{rank}.et"
        path.write_bytes(gzip.compress(path.read_bytes()))
    assert without_files(chakra.load(tmp_path / "run.et")) == without_files(PROGRAM)


def test_traces_of_other_programs_are_read(tmp_path):
    """As ASTRA-sim's micro-benchmarks: no groups, no dependencies, the id is the rank's number."""
    given = {"is_cpu_op": False, "comm_type": 2, "comm_size": 1 << 20}
    for rank in range(4):
        write_rank(tmp_path, rank, node(rank, 7, **given), metadata=proto(1, "0.0.4"))
    program = chakra.load(tmp_path / "run.et")
    assert program.groups == {"": (0, 1, 2, 3)}
    expected = [(Node("all_gather", bytes=1 << 20, id=rank),) for rank in range(4)]
    assert [*program.ranks] == expected
    # Other groups, dependencies in both fields, packed or not, types of numbers, no metadata.
    (tmp_path / "run.json").write_text('{"1": [1, 0], "2": [2, 3]}')
    sized = proto(10, proto(1, "comm_size") + proto(15, 96 << 1))  # sint32
    for rank in range(4):
        write_rank(
            tmp_path,
            rank,
            node(5, 4, proto(7, 3)),
            node(6, 2, proto(4, 5), proto(7, 2)),
            node(
                7,
                7,
                proto(5, varint(5) + varint(6)),
                sized,
                comm_type=5,
                pg_name=str(1 + rank // 2),
            ),
        )
    program = chakra.load(tmp_path / "run.et")
    assert program.groups == {"1": (1, 0), "2": (2, 3)}
    assert program.ranks[3] == (
        Node("compute", duration_ns=3000, id=5),
        Node("compute", (0,), duration_ns=2000, id=6),
        Node("broadcast", (0, 1), group="2", bytes=96, peer=2, id=7),  # the group's first rank
    )


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        (
            [node(0, 7, comm_type=0, comm_size=8), b"\x0a\xff"],
            "node 2 in file order cannot be read: a",
        ),
        (
            [node(0, 7, comm_type=12)],
            "node 1 in file order cannot be read: a collective with comm_",
        ),
        ([node(0, 9)], "it is of the unknown type 9; convert or record it again"),
        ([node(0, 4, num_ops=5)], "it has a number of operations (num_ops) and no duration"),
        ([node(0, 5, comm_size=4)], "cannot be read: 'comm_dst'"),
        ([node(0, 5, comm_src=3, comm_dst=0)], "a send with comm_src 3 on rank 0"),
        ([node(3, 4), node(3, 4)], "two nodes have the id 3; give each one its own"),
        (
            [node(0, 7, proto(5, 8), comm_type=0)],
            "node 0 (all_reduce) depends on node 8, which is not in the file, so nothing lets it",
        ),
        (
            [node(0, 7, comm_type=0, pg_name="tp")],
            "rank 0, node 0 (all_reduce in group tp): there is",
        ),
        ([b"\x0b"], "a field of the unknown wire type 3"),
        ([proto(10, 5)], "an attribute is a number"),
    ],
)
def test_a_broken_node_is_told(tmp_path: Path, nodes: Sequence[bytes], told: str):
    path = write_rank(tmp_path, 0, *nodes)
    message = refused(path)
    assert message.startswith(f"{path}: ") and told in message


def test_broken_files_are_told(tmp_path):
    path = tmp_path / "run.et"
    assert "run.0.et: there is no such trace; name NAME.et or NAME.0.et" in refused(path)
    chakra.write(path, replace(PROGRAM, about={"tokens": "many"}))
    assert "run.0.et: its tokens are no whole number; export it again" in refused(path)
    chakra.write(path, PROGRAM)
    first = tmp_path / "run.0.et"
    whole = first.read_bytes()
    first.write_bytes(whole[:-3])
    assert "run.0.et: message 7 is cut off; copy or record it again" in refused(path)
    first.write_bytes(gzip.compress(whole)[:-9])
    assert "run.0.et: not a whole gzip file" in refused(path)
    first.write_bytes(whole)
    (tmp_path / "run.json").write_text('{"world": [0, "1"]}')
    assert 'run.json: its groups are not of the form {"1": [0, 1]}' in refused(path)
    (tmp_path / "run.json").write_text("{")
    assert "run.json can't be read: not JSON" in refused(path)
    (tmp_path / "run.json").unlink()
    (tmp_path / "run.2.et").rename(tmp_path / "kept")
    assert "run.2.et: is missing, the recording has 3 ranks; copy" in refused(path)
    for about in ("[", "[" * 100_000, "{}", '{"format": "ina-recording", "version": 9}'):
        write_rank(tmp_path, 0, metadata=proto(2, attribute("ina", about)))
        assert "run.0.et: its metadata is damaged" in refused(path)
    first.unlink()
    first.mkdir()
    assert "run.0.et can't be read: Is a directory" in refused(path)


def test_a_packed_file_cannot_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(chakra, "MAX_BYTES", 1 << 20)
    monkeypatch.setattr(chakra, "MAX_NODES", 3)
    path = tmp_path / "run.0.et"
    path.write_bytes(gzip.compress(bytes(2 << 20)))
    assert "run.0.et: unpacked, it is larger than 1 MiB" in refused(path)
    path.write_bytes(bytes(2 << 20))
    assert "run.0.et can't be read: it is larger than 1 MiB" in refused(path)
    write_rank(tmp_path, 0, *(node(number, 4) for number in range(4)))
    assert "run.0.et: has more than 3 nodes; record fewer steps" in refused(path)


def test_the_recorder_joins_the_groups_of_the_ranks(tmp_path):
    chakra.write(tmp_path / "run.et", PROGRAM)
    (tmp_path / "run.json").unlink()
    ina_recorder.join_traces(tmp_path / "run.et")
    assert json.loads((tmp_path / "run.json").read_text())["pair"] == [2, 0]
    said = ina_recorder.summary(tmp_path / "run.et")
    assert "rank 0: 1.235 ms of computation" in said
    assert "world            send                    1 calls    8,589,934,592 bytes" in said
    (tmp_path / "run.1.et").unlink()
    with pytest.raises(ina_recorder.RecordingError, match="run.1.et is missing; copy the traces"):
        ina_recorder.join_traces(tmp_path / "run.et")
    write_rank(tmp_path, 1, metadata=struct.pack("<Q", 1))
    with pytest.raises(ina_recorder.RecordingError, match="run.1.et: not a trace of the recorder"):
        ina_recorder.join_traces(tmp_path / "run.et")
    write_rank(tmp_path, 1)
    with pytest.raises(ina_recorder.RecordingError, match="run.1.et: the recorder has not written"):
        ina_recorder.join_traces(tmp_path / "run.et")


# -- dependencies, and ASTRA-sim


def called(number: int, *before: int, **given: int) -> bytes:
    depends = [proto(5, each) for each in before]
    return node(number, 7, *depends, comm_type=0, comm_size=8, **given)


def computed(number: int, micros: int, *before: int) -> bytes:
    return node(number, 4, *[proto(5, each) for each in before], proto(7, micros))


@pytest.mark.parametrize(
    "nodes, named",
    [
        # All have lost theirs; or some have, and the file has the last one after computation.
        ((computed(0, 5), called(1), called(2), called(3)), 3),
        ((called(1), called(2), computed(3, 5, 1)), 2),
        ((computed(0, 5), called(1, 0), called(2), called(3, 1), called(4)), 4),
    ],
)
def test_collectives_that_lost_their_dependencies_are_refused(nodes, named, tmp_path):
    said = refused(write_rank(tmp_path, 0, *nodes))
    assert f"run.0.et: rank 0, node {named} (all_reduce): depends on nothing" in said
    assert "would all begin at time 0" in said and "convert or record it again" in said


@pytest.mark.parametrize(
    "nodes",
    [
        (called(1), called(2)),  # a benchmark computes nothing
        (called(1), called(2), computed(3, 5, 1), called(4, 3)),  # gathered before the first layer
        (computed(0, 5), called(1), called(2, 0)),  # one may run beside the first computation
        (computed(0, 0), called(1), called(2)),
    ],
)
def test_collectives_that_may_begin_with_the_program_are_read(nodes, tmp_path):
    assert len(chakra.load(write_rank(tmp_path, 0, *nodes)).ranks[0]) == len(nodes)


def counted(file: Path) -> list[tuple[int, int, str]]:
    """Type, bytes and group of the collectives of a trace, by an own reader of protobuf."""

    def number(data: bytes, at: int) -> tuple[int, int]:
        found = shift = 0
        while True:
            byte = data[at]
            found |= (byte & 127) << shift
            shift, at = shift + 7, at + 1
            if byte < 128:
                return found, at

    def fields(data: bytes) -> list[tuple[int, int | bytes]]:
        found, at = [], 0
        while at < len(data):
            key, at = number(data, at)
            assert key % 8 in (0, 2)
            value, at = number(data, at)
            if key % 8 == 2:
                at += value
                found.append((key // 8, data[at - value : at]))
            else:
                found.append((key // 8, value))
        return found

    data = file.read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    messages, at = [], 0
    while at < len(data):
        size, at = number(data, at)
        messages.append(fields(data[at : at + size]))
        at += size
    found = []
    for each in messages[1:]:
        if dict(each)[3] == 7:
            named = [dict(fields(value)) for key, value in each if key == 10]
            given = {own[1].decode(): [own[k] for k in own if k != 1] for own in named}
            group = given.get("pg_name", [b""])[0]
            kind, size = (given[name] or [0] for name in ("comm_type", "comm_size"))
            found.append((kind[0], size[0], group.decode()))
    return found


def test_the_micro_benchmarks_of_astra_sim_have_their_own_counts():
    numbers = {"all_reduce": 0, "all_gather": 2, "all_to_all": 6, "reduce_scatter": 7}
    read = 0
    for folder in sorted(example("chakra").glob("*/*")):
        kind = folder.parent.name
        program = chakra.load(folder / f"{kind}.et")
        files = sorted(folder.glob("*.et"))
        assert len(program.ranks) == len(files) == int(folder.name.split("npus")[0])
        beside = folder / f"{kind}.json"
        groups = json.loads(beside.read_text()) if beside.exists() else {}
        for rank, nodes in enumerate(program.ranks):
            calls = [each for each in nodes if each.kind != "compute"]
            found = counted(folder / f"{kind}.{rank}.et")
            assert [(numbers[each.kind], each.bytes, each.group) for each in calls] == found
            for each in calls:
                members = groups.get(each.group, range(len(files)))
                assert program.groups[each.group] == tuple(members)
            read += len(found)
    assert read >= 4 * (4 + 8)


def test_exported_groups_have_numbers_and_keep_their_names(tmp_path):
    """ASTRA-sim reads group names as numbers, and ends of transfers as int32."""
    chakra.write(tmp_path / "run.et", PROGRAM, numbered=True)
    groups = json.loads((tmp_path / "run.json").read_text())
    assert sorted(groups) == [str(n) for n in range(1, 1 + len(PROGRAM.groups))]
    assert without_files(chakra.load(tmp_path / "run.et")) == without_files(PROGRAM)
    data = (tmp_path / "run.0.et").read_bytes()
    assert proto(1, "comm_src") + proto(7, 0) in data
    assert proto(1, "comm_size") + proto(9, 0)[:1] in data
    assert proto(1, "pg_name") + proto(29, "1") in data


def test_a_call_of_all_ranks_names_no_group(tmp_path):
    everyone = Program({"": (0, 1)}, ((Node("barrier", id=0),), (Node("barrier", id=0),)))
    chakra.write(tmp_path / "run.et", everyone, numbered=True)
    assert b"pg_name" not in (tmp_path / "run.0.et").read_bytes()
    assert without_files(chakra.load(tmp_path / "run.et")) == without_files(everyone)


def test_attributes_of_all_types_of_whole_numbers_are_read():
    """As protobuf writes them: of signed types in two's complement, or in zigzag."""
    values = (0, 1, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**64 - 1)
    for field in (7, 9, 11, 13, 15, 17, 27):
        signed, zigzag = field in (7, 9, 15, 17), field in (15, 17)
        for value in values:
            if (value < 0 and not signed) or (value >= 2**63 and signed):
                continue
            written = value << 1 ^ value >> 63 if zigzag else value & 2**64 - 1
            data = proto(1, "n") + proto(field, written)
            assert chakra._attribute(data) == ("n", value), field
