"""Chakra traces: written, read, and what a broken one is told."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from testbed.collective import ina_recorder
from testbed.collective.ina_recorder import attribute, proto, varint
from testbed.traffic import chakra
from testbed.traffic.rank_graph import Node, Program
from testbed.traffic.trace import TraceError
from tests.support.recordings import PROGRAM


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
