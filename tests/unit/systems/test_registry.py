"""Every system has all the entries that it needs (docs/architecture.md, "Adding a system")."""

import re

import pytest

from testbed.schemes import scheme_of
from testbed.setup.records import Scheme
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
