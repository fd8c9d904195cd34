"""Every system has all the entries that it needs (docs/architecture.md, "Adding a system")."""

import re

import pytest

from testbed.systems import SYSTEMS
from tests.support.histories import cases

HOOKS = (
    *("host_part", "worker_part", "peers", "machine", "tables"),
    *("definitions", "statistics", "release"),
)


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_hook_leads_to_a_function(name):
    hooks = {hook: SYSTEMS[name].hook(hook) for hook in HOOKS}
    assert all(callable(function) for function in hooks.values() if function is not None)
    assert all(hooks[needed] for needed in ("host_part", "machine", "tables"))


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
