"""Runs on Mininet to which things happen at random: exact, or failed with the cause, and nothing
left."""

from __future__ import annotations

import subprocess

import pytest
from p4fabric_testing.matrix import first_of

from tests.support.chaos.campaign import Campaign, table
from tests.support.chaos.plans import SYSTEMS

# Events of seed 1: ESA on a disk without room, a host of no job that floods the switch with packets
# of SwitchML's job, and a switch of GRID that is killed.
EVENTS = [7, 19, 35]


def checked(campaign: Campaign) -> None:
    found = [f"{each.again}: {each.found}" for each in campaign.summary.failures]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("number", first_of(EVENTS, 2))
def test_an_event_breaks_no_invariant(tmp_path, number):
    campaign = Campaign(tmp_path)
    other = subprocess.Popen(["sleep", "600"])  # no process of the run
    try:
        campaign.run(1, [number], SYSTEMS, 1)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
    assert campaign.summary.events == 1 and table(campaign.summary)
    checked(campaign)


@pytest.mark.slow
def test_a_minute_of_events_breaks_no_invariant(tmp_path):
    """Longer ones are a command (docs/reliability.md)."""
    campaign = Campaign(tmp_path)
    campaign.run(1000, range(1000), SYSTEMS, 1)
    assert campaign.summary.events >= 1 and campaign.summary.values > 0
    checked(campaign)
