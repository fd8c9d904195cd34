"""Every system has all the entries that it needs (docs/architecture.md, "Adding a system")."""

import itertools
import re

import numpy as np
import pytest

from testbed.schemes import scheme_of
from testbed.setup.job_setups import Scheme
from testbed.systems import SYSTEMS
from tests.support.histories import cases


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_has_a_scheme_with_all_that_it_needs(name):
    scheme = type(scheme_of(name))
    needed = ["machine", "tables"] + ["statistics"] * SYSTEMS[name].memory
    assert all(getattr(scheme, method) is not getattr(Scheme, method) for method in needed)


def test_every_system_s_options_are_drawn_by_the_random_histories():
    assert set(cases.OPTIONS) == set(SYSTEMS)


@pytest.mark.parametrize("name", SYSTEMS)
def test_an_entry_can_be_drawn_and_compiled(name):
    system = SYSTEMS[name]
    assert system.name == name and system.program.is_file()
    assert re.fullmatch(r"#[0-9A-F]{6}", system.color)
    assert bool(system.slot_bytes) == system.memory


@pytest.mark.parametrize("look", ["title", "color", "marker"])
def test_no_two_systems_look_alike(look):
    assert len({getattr(system, look) for system in SYSTEMS.values()}) == len(SYSTEMS)


def in_lab(color: str) -> np.ndarray:
    """A colour in CIE 1976 L*a*b*, in which equal distances look alike (white point D65)."""
    encoded = np.array([int(color[first : first + 2], 16) for first in (1, 3, 5)]) / 255
    linear = np.where(encoded > 0.04045, ((encoded + 0.055) / 1.055) ** 2.4, encoded / 12.92)
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    x, y, z = (np.array(to_xyz) @ linear) / (0.9505, 1, 1.089)
    x, y, z = (np.cbrt(v) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_systems_can_be_told_apart_by_their_colours():
    pairs = itertools.combinations(SYSTEMS.values(), 2)
    near = [
        (a.name, b.name, float(distance))
        for a, b in pairs
        if (distance := np.linalg.norm(in_lab(a.color) - in_lab(b.color))) < 20
    ]
    assert not near
