"""The number of values in a packet is a parameter of every program."""

from __future__ import annotations

import pytest

from p4engine import compile_program
from tests.support.paths import ROOT

FORWARD = ROOT / "p4" / "forward.p4"


@pytest.mark.parametrize("values", [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048])
def test_a_packet_has_as_many_values_as_the_program_is_compiled_for(values):
    info = compile_program(FORWARD, {"VALUES": values}).info
    (header,) = (header for header in info.headers if header.name == "values")
    digits = 2 if values <= 256 else 3
    names = [f"v{n:0{digits}x}" for n in range(values)]
    assert [(f.name, f.width) for f in header.fields] == [(name, 32) for name in names]


def test_a_packet_has_64_values_unless_another_number_is_given():
    info = compile_program(FORWARD).info
    (header,) = (header for header in info.headers if header.name == "values")
    assert len(header.fields) == 64
