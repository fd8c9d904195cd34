"""No packet can take an index of our programs out of its array, whatever it says of itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from p4engine.indices.bounds import index_warnings
from p4engine.switch.library import Switch
from p4engine.trace.tracer import Tracer
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from p4engine import compile_program
from testbed import dataplane
from testbed.dissect import Ina
from testbed.protocols import wire
from tests.support.bmv2.cases import CASES, calls_of
from tests.support.paths import ROOT

P4, FOLDERS = ROOT / "p4", [ROOT / name for name in ("p4", "labs/common")]
DEFINITIONS = [
    {"VALUES": 1, "DEPARTURES": 1, "ZEROS": 1},
    pytest.param(
        {"VALUES": 64, "DEPARTURES": 1, "JOBS": 65536, "TREES": 1}, marks=pytest.mark.slow
    ),
    pytest.param(
        {"VALUES": 1, "AGGREGATORS": 1000, "SETS": 1, "MEMORY": 0}, marks=pytest.mark.slow
    ),
    pytest.param(
        {"VALUES": 1, "DEPARTURES": 1, "DELIVERY": 1, "VALUE_BITS": 16, "ZEROS": 1},
        marks=pytest.mark.slow,
    ),
]


def is_program(path: Path) -> bool:
    """True if a file has a `main`, or includes one that has."""
    text = path.read_text()
    found = [P4 / name for name in re.findall(r'#include "(.*)"', text)]
    return ") main;" in text or any(is_program(each) for each in found if each.exists())


def programs(*folders: str) -> list:
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.p4"))]
    return [pytest.param(p, id=str(p.relative_to(ROOT))) for p in found if is_program(p)]


@pytest.mark.parametrize("definitions", DEFINITIONS, ids=str)
@pytest.mark.parametrize("path", programs("p4"))
def test_the_systems(path, definitions):
    if path.name == "forward.p4" and "DELIVERY" in definitions:
        pytest.skip("no pool")
    assert [str(each) for each in index_warnings(path, definitions, FOLDERS)] == []


@pytest.mark.parametrize(
    "path", programs("labs", "examples", "bench", "tests/data", "p4fabric/tests")
)
def test_labs_and_examples(path):
    definitions = {"VALUES": 8, "EVICTION_AGE": 1}
    assert [str(each) for each in index_warnings(path, definitions, FOLDERS)] == []


@pytest.mark.parametrize(
    "system",
    [s if s == "forward" else pytest.param(s, marks=pytest.mark.slow) for s in CASES],
)
def test_hostile_packets(system, monkeypatch):
    """Packets with the largest numbers of jobs, of every kind: no access is out of its array."""
    monkeypatch.setenv("P4ENGINE_CFLAGS", "-O0")
    case = CASES[system][0]
    setup = case.setup(values=1)
    source, definitions, folders = dataplane.program(setup.platform)
    compiled = compile_program(source, definitions, folders, trace=True)
    sizes = {each.name: each.size for each in (*compiled.info.registers, *compiled.info.counters)}
    if places := definitions.get("AGGREGATORS", 0):  # of which the pool has some; or slots of two
        used = {places: setup.platform.aggregators, places // 2: setup.platform.aggregators // 2}
        sizes = {name: used.get(size, size) for name, size in sizes.items()}
    switch = Switch(compiled, ports=sorted(setup.platform.topology.ports(case.switch)), seed=1)
    switch.batch(calls_of(case, setup))
    tracer, at = Tracer(switch), set()
    for job in (0, 255, 256, 0x7FFF, 0xFFFE, 0xFFFF):
        for kind in range(16):
            for to in ("10.0.0.1", "10.0.0.9"):
                packet = IP(src="10.0.0.2", dst=to) / UDP(
                    sport=wire.PORT, dport=wire.PORT, chksum=0
                )
                numbers = {"fragment_number": 0xFFFFFFFF, "index": 0xFFFFFFFF, "bitmap": 1}
                ina = Ina(kind=kind, job=job, sender=0xFFFF, values=[1], **numbers)
                switch.receive(2, bytes(Ether() / packet / ina), 1000)
                switch.advance(1000)
        for event in tracer.take():
            array, _, method = event.site.get("name", "").rpartition(".")
            if array in sizes and method in ("read", "write", "count"):
                index = dict(zip(event.site["names"], event.values, strict=False))["index"]
                assert index < sizes[array], (array, method, index, job)
                at.add(array)
    assert at, "no access was traced"
