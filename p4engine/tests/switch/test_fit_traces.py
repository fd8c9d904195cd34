"""No packet of a random program makes more accesses to an array than `p4engine fit` finds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from p4engine.fit.analysis import analyse
from p4engine.switch.library import Switch
from p4engine.trace.events import Event
from p4engine.trace.tracer import Tracer
from p4engine_testing.programs import send
from p4engine_testing.reference.generate import generate, packets
from p4engine_testing.reference.tree import text

from p4engine import compile_program

PACKETS = 60


def accesses(events: list[Event], arrays: set[str]) -> Iterator[tuple[str, int]]:
    """For each pass of a packet and each array that it uses: the accesses, where reads and then a
    write at one index are one. A trace names no index that has an effect; such a one may be any."""
    count: dict[str, int] = {}
    last: dict[str, tuple[str, int | None]] = {}
    for event in events:
        if event.kind == "packet":
            yield from count.items()
            count, last = {}, {}
        if event.kind != "extern":
            continue
        array, _, method = event.site["name"].rpartition(".")
        if array not in arrays:
            continue
        index = dict(zip(event.site["names"], event.values, strict=False)).get("index")
        before, at = last.get(array, ("", None))
        same = index == at or index is None or at is None
        joins = method in ("read", "write") and before == "read" and same
        count[array] = count.get(array, 0) + (not joins)
        last[array] = method, index
    yield from count.items()


def compared(seed: int, folder) -> int:
    """Compares a program; returns how often a packet used an array."""
    program, path = generate(seed), folder / "program.p4"
    path.write_text(text(program))
    most = {array.name: len(array.accesses) for array in analyse(path).arrays}
    switch = Switch(compile_program(path, trace=True))
    tracer = Tracer(switch)
    used = 0
    for data in packets(program, seed, PACKETS):
        send(switch, data)
        for array, count in accesses(tracer.take(), set(most)):
            assert count <= most[array], f"seed {seed}, {array}\n{path.read_text()}"
            used += 1
    return used


def test_random_programs(tmp_path, monkeypatch):
    monkeypatch.setenv("P4ENGINE_CFLAGS", "-O0")
    assert sum(compared(seed, tmp_path) for seed in range(100, 106)) > 50


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_random_programs(tmp_path, monkeypatch):
    monkeypatch.setenv("P4ENGINE_CFLAGS", "-O0")
    assert sum(compared(seed, tmp_path) for seed in range(40_000, 40_020)) > 100
