"""Registers that lie together and take more than a line of the processor's cache: a read prefetches
what is behind them."""

from __future__ import annotations

import pytest
from p4engine_testing.programs import c_text


@pytest.mark.parametrize(("registers", "times"), [(1, 0), (16, 0), (17, 1), (40, 1)])
def test_records_of_several_lines_are_prefetched_once_a_function(tmp_path, registers, times):
    numbers = range(registers)
    made = c_text(
        tmp_path,
        locals="".join(f"register<bit<32>>(8) r{n};" for n in numbers),
        apply="".join(f"r{n}.read(hdr.h.a, hdr.h.b);" for n in numbers),
    )
    assert made.count("P4_PREFETCH_BEHIND(") == times


def test_registers_of_other_sizes_are_other_records(tmp_path):
    made = c_text(
        tmp_path,
        locals="".join(f"register<bit<32>>({8 + n % 2}) r{n};" for n in range(40)),
        apply="".join(f"r{n}.read(hdr.h.a, hdr.h.b);" for n in range(40)),
    )
    assert made.count("P4_PREFETCH_BEHIND(") == 2
    assert "P4_PREFETCH_BEHIND(R0, " in made and "P4_PREFETCH_BEHIND(R1, " in made
