"""docs/p4runtime_conformance.md has a row for every field of P4Runtime, and its tests exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from p4engine_testing import ENGINE

PAGE = (ENGINE / "docs" / "p4runtime_conformance.md").read_text()
# | `Message` | `field`, ... | what is so | `file::test`, ... |
ROW = re.compile(r"^\| `([\w.]+)` \| ([^|]*)\| ([^|]+) \| ([^|]*)\|$", re.MULTILINE)
WITHOUT_TEST = ("ignored", "not set", "never sent", "accepted")


def names(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def messages(descriptor: Any, outer: str = "") -> Iterator[tuple[str, set[str]]]:
    name = outer + descriptor.name
    yield name, {field.name for field in descriptor.fields}
    for inner in descriptor.nested_types:
        yield from messages(inner, f"{name}.")


def test_each_field_has_one_row():
    pytest.importorskip("google.protobuf")
    from p4engine.p4runtime.proto import p4runtime_pb2

    found: dict[str, list[str]] = {}
    for message, fields, *_ in ROW.findall(PAGE):
        found.setdefault(message, []).extend(names(fields))
    every = p4runtime_pb2.DESCRIPTOR.message_types_by_name.values()
    wanted = dict(pair for each in every for pair in messages(each))
    assert set(found) == set(wanted)
    for message, fields in found.items():
        assert sorted(fields) == sorted(wanted[message]), message


def test_each_test_exists():
    rows = ROW.findall(PAGE)
    lines = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(rows) == len(lines), "a row that this test does not understand"
    for message, _, answer, tests in rows:
        named = names(tests)
        assert named or answer.startswith(WITHOUT_TEST), f"{message}: {answer}: no test"
        for each in named:
            file, _, test = each.partition("::")
            path = ENGINE / "tests" / (file if "/" in file else f"switch/{file}")
            assert path.is_file(), each
            assert re.search(rf"^def {test}\(", path.read_text(), re.MULTILINE), each
