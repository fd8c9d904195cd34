"""No packet makes other accesses than `p4engine fit` finds in a program, and some make all of them.

Packets of all kinds go through traced builds. What each pass of a packet does to each array is
compared with the analysis: at most that many reads and writes, and for most arrays as many.
"""

from __future__ import annotations

import contextlib
from collections import Counter

import pytest
from p4engine.fit.analysis import analyse
from p4engine.fit.report import Report
from p4engine.switch.library import Switch
from p4engine.trace.tracer import Tracer

from p4engine import compile_program
from testbed import dataplane
from testbed.paths import P4
from tests.support.bmv2.cases import CASES, Case, calls_of, surroundings
from tests.support.bmv2.packets import sequence

EACH = [
    *[(case, None) for name in ("esa", "atp", "switchml", "grid") for case in CASES[name][:1]],
    (CASES["esa"][0], "esa_two_passes.p4"),
]
PACKETS = 400
Pass = Counter[tuple[str, str]]  # array and method


def passes(case: Case, program: str | None) -> tuple[list[Pass], Report]:
    """Passes of random packets, and the report of the analysis."""
    settings = case.setup(4)
    source, definitions, folders = dataplane.program(settings.platform)
    source = source if program is None else P4 / program
    around = surroundings(case, settings)
    compiled = compile_program(source, definitions, folders, trace=True)
    made: list[Pass] = []
    with contextlib.closing(Switch(compiled, ports=around.ports, seed=1)) as switch:
        switch.batch(calls_of(case, settings))
        tracer = Tracer(switch)
        for number, (port, data) in enumerate(sequence(around, PACKETS, 11), 1):
            switch.receive(port, data, 1000 * number)
            switch.advance(1000 * number)
            for event in tracer.take():
                if event.kind == "packet":
                    made.append(Counter())
                elif event.kind == "extern" and "." in event.site["name"]:
                    array, _, method = event.site["name"].rpartition(".")
                    made[-1][array.rpartition(".")[2], method] += 1
    return made, analyse(source, definitions, folders)


@pytest.mark.parametrize(
    ("case", "program"),
    [
        pytest.param(c, p, id=f"{p or c.system}: {c.title()}", marks=pytest.mark.slow if n else ())
        for n, (c, p) in enumerate(EACH)
    ],
)
def test_packets_make_the_accesses_that_the_analysis_finds(case, program):
    made, report = passes(case, program)
    assert len(made) >= PACKETS
    reached = 0
    for array in report.arrays:
        name = array.name.rpartition(".")[2]
        most = max(each[name, "read"] + each[name, "write"] for each in made)
        found = sum(len(access.spots) for access in array.accesses)
        assert most <= found, name
        reached += most == found
    assert reached > 0.8 * len(report.arrays)
