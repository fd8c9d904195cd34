"""Files that a program has written: read within limits, or one clear error."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from p4fabric.base.config import data_files
from p4fabric.base.config.data_files import DataError, read_json, read_yaml, require

DEEP = 5000


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"a": ', "not JSON"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b"[" * DEEP + b"]" * DEEP, "nested deeper than 100"),
        (b"[" * 101 + b"]" * 101, "nested deeper than 100"),
        (b'{"a": ' * 101 + b"1" + b"}" * 101, "nested deeper than 100"),
        (b"[" + b"9" * 5000 + b"]", "not JSON"),
    ],
)
def test_json_that_cannot_be_read_is_one_line(tmp_path, content, words):
    path = tmp_path / "data.json"
    path.write_bytes(content)
    with pytest.raises(DataError) as error:
        read_json(path)
    assert str(error.value).startswith(f"{path} can't be read: ")
    assert words in str(error.value) and "\n" not in str(error.value)


BOMB = "a: &a [x, x]\n" + "".join(
    f"{new}: &{new} [*{old}, *{old}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (BOMB, "line 2: an alias"),
        ("[" * DEEP + "]" * DEEP, "nested deeper than 100"),
        ("a: [", "not YAML"),
        ("a: !!python/object:os.system {}", "not YAML"),
        ("a: 2024-13-45", "not YAML"),
    ],
)
def test_yaml_that_cannot_be_read_is_one_line(tmp_path, content, words):
    path = tmp_path / "data.yaml"
    path.write_text(content)
    with pytest.raises(DataError) as error:
        read_yaml(path)
    assert str(error.value).startswith(f"{path} can't be read: ")
    assert words in str(error.value) and "\n" not in str(error.value)


def test_what_is_within_the_limits_is_read(tmp_path):
    path = tmp_path / "data"
    path.write_text("[" * 100 + "]" * 100)
    assert data_files._depth(read_json(path)) == 100
    path.write_text("a: {b: [1, 2.5, text, true]}\nc:\n- d\n")
    assert read_yaml(path) == {"a": {"b": [1, 2.5, "text", True]}, "c": ["d"]}


def test_a_file_that_is_too_large_or_not_there(tmp_path, monkeypatch):
    path = tmp_path / "data.json"
    with pytest.raises(DataError, match="can't be read: No such file"):
        read_json(path)
    with pytest.raises(DataError, match="can't be read: Is a directory"):
        read_json(tmp_path)
    monkeypatch.setattr(data_files, "MAX_BYTES", 1 << 20)
    path.write_text("0" * ((1 << 20) + 1))
    with pytest.raises(DataError, match="larger than 1 MiB"):
        read_json(path)


def test_keys_and_kinds_are_required(tmp_path):
    kinds = {"name": str, "end": (str, type(None))}
    assert require({"name": "a", "end": None, "more": 1}, kinds, tmp_path) == {
        "name": "a",
        "end": None,
        "more": 1,
    }
    for data, words in (
        ([], "found no keys and values"),
        ({"name": "a"}, "end is missing"),
        ({"name": 3, "end": None}, "name: found 3"),
        ({"name": "a", "end": [["x"] * 100]}, "end: found .*[.][.][.]$"),
    ):
        with pytest.raises(DataError, match=f"can't be read: {words}"):
            require(data, kinds, tmp_path)


@pytest.mark.parametrize("kind", ["FIFO", "device"])
@pytest.mark.parametrize("read", [data_files.read_text, data_files.read_bytes, data_files.opened])
def test_only_regular_files_are_opened(tmp_path, kind, read):
    path = tmp_path / "fifo" if kind == "FIFO" else Path("/dev/zero")
    if kind == "FIFO":
        os.mkfifo(path)
    with pytest.raises(DataError, match="can't be read: it is a device, FIFO or socket"):
        read(path)


def test_a_file_without_a_size_is_read_within_the_limit():
    """Files of /proc say that they have none."""
    path = Path("/proc/self/maps")
    assert path.stat().st_size == 0 and data_files.read_bytes(path)
    with pytest.raises(DataError, match="larger than 0 MiB"):
        data_files.read_bytes(path, 100)


def test_arrays_are_measured_before_they_are_read(tmp_path):
    path = tmp_path / "arrays.npz"
    np.savez_compressed(path, zeros=np.zeros(1 << 20))
    with data_files.opened(path) as file:
        data_files.require_small(path, file, 9 << 20)
        assert np.load(file)["zeros"].size == 1 << 20
        with pytest.raises(DataError, match="larger than 4 MiB"):
            data_files.require_small(path, file, 4 << 20)
