"""Every P4 program on both switches, with few packets; `python -m tests.bmv2` sends many."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from testbed import dataplane
from tests.support.bmv2.cases import CASES, Case
from tests.support.bmv2.compare import Difference, compare
from tests.support.bmv2.simple_switch import why_not

pytestmark = [pytest.mark.bmv2, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

EACH = [
    pytest.param(
        case,
        id=f"{case.system}: {case.title()}",
        marks=[pytest.mark.slow] if "sum: " in case.options else [],
    )
    for cases in CASES.values()
    for case in cases
]


@pytest.mark.parametrize("case", EACH)
def test_both_switches_agree(case):
    outcome = compare(case, 600, seed=7)
    assert outcome.outputs > (200 if case.admission == "off" else 20)
    assert (outcome.registers > 10) == case.has_events()


@pytest.mark.parametrize(
    ("case", "file", "piece", "instead", "where"),
    [
        (Case("ps"), "routes.p4", "hdr.ip.ttl - 1", "hdr.ip.ttl - 2", "out of port"),
        (Case("esa"), "pool_tables.p4", "meta.event), n + 1", "meta.event), n + 2", r"events\["),
        (Case("switchml"), "switchml.p4", "(SETS - 1)) |", "(SETS - 1)) ^ 1 ^", "slot_"),
    ],
)
def test_a_difference_is_seen(tmp_path, case, file, piece, instead, where):
    """The embedded switch runs a program with a defect, BMv2 the right one."""
    source = dataplane.program(case.setup(4).platform)[0]
    shutil.copytree(source.parent, tmp_path / "p4")
    changed = tmp_path / "p4" / file
    text = changed.read_text()
    assert piece in text
    changed.write_text(text.replace(piece, instead))
    with pytest.raises(Difference, match=where):
        compare(case, 300, seed=7, embedded=tmp_path / "p4" / Path(source).name)
