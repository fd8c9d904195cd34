"""Every system has all the entries that it needs (docs/architecture.md, "Adding a system")."""

import re

import pytest

from testbed.dataplane.install_tables import INSTALLERS, JOB_TABLES
from testbed.derived import host_specs as plan
from testbed.systems import SYSTEMS
from testbed.workload import machine
from tests.switch import cases

PLACES = {
    "BUILDERS in testbed/workload/machine.py": machine.BUILDERS,
    "SYSTEM_PARTS in testbed/derived/host_specs.py": plan.SYSTEM_PARTS,
    "INSTALLERS in testbed/dataplane/install_tables.py": INSTALLERS,
    "OPTIONS in tests/switch/cases.py": cases.OPTIONS,
}


@pytest.mark.parametrize("place", PLACES)
def test_every_system_is_entered_and_no_other(place):
    assert set(PLACES[place]) == set(SYSTEMS), place


def test_the_tables_of_jobs_are_known_where_jobs_may_come_and_go():
    planned = {name for name, system in SYSTEMS.items() if system.planned}
    assert set(JOB_TABLES) == set(SYSTEMS) - planned


@pytest.mark.parametrize("name", SYSTEMS)
def test_an_entry_can_be_drawn_and_compiled(name):
    system = SYSTEMS[name]
    assert system.name == name and system.program.is_file()
    assert re.fullmatch(r"#[0-9A-F]{6}", system.color)
    assert bool(system.slot_bytes) == system.memory


@pytest.mark.parametrize("look", ["title", "color", "marker"])
def test_no_two_systems_look_alike(look):
    assert len({getattr(system, look) for system in SYSTEMS.values()}) == len(SYSTEMS)
