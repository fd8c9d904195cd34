"""docs/hardware.md has the figures that `p4engine fit` finds today."""

from __future__ import annotations

import pytest

from tests.support import hardware


@pytest.mark.slow
def test_the_tables_are_the_tool_s():
    page = hardware.PAGE.read_text()
    assert hardware.with_tables(page) == page, "python -m tests.support.hardware writes them again"


@pytest.mark.slow
def test_what_the_page_says_of_the_programs_is_so():
    found = {(row.title): hardware.report(row) for row in hardware.ROWS}
    assert [title for title, report in found.items() if report.fits] == ["`forward.p4`, 64 values"]
    esa, two = found["`esa.p4`, 64 values"], found["`esa_two_passes.p4`, 64 values"]
    (circle,) = esa.circles
    named = {"slot_state", "slot_job", "slot_fragment", "slot_priority", "slot_bitmap"}
    assert named <= set(circle.names)
    assert two.circles == () and two.most_accesses == 1 and two.stages < esa.stages
    atp = found["`atp.p4`, 64 values"]
    assert {"slot_state", "slot_job", "slot_bitmap"} <= set(atp.circles[0].names)
    assert "slot_priority" not in atp.circles[0].names
    switchml = found["`switchml.p4`, two sets, 64 values"]
    assert {"slot_chunk", "first_state", "first_bitmap"} <= set(switchml.circles[0].names)
