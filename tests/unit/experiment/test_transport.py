"""The key `transport`: which congestion controls packets between workers may have."""

from __future__ import annotations

import pytest
from p4fabric.base.errors import UserError
from p4fabric.base.transports import AIMD, CONTROLS, PRODUCT

from testbed.experiment import load_text
from testbed.schemes import set_up
from testbed.setup.host_specs import host_specs

TEXT = """
name: test
runtime: virtual
topology: {kind: star, hosts: 5}
links: {bandwidth: 10 Gbit/s, delay: 2 us}
system: %s
jobs:
  - {model: resnet18, workers: 4, iterations: 1, scale: 0.001}
"""


def spec_of(transport, system="ring", more=""):
    return host_specs(set_up(load_text(f"{TEXT % system}{transport}\n{more}")))[0].job.transport


def test_the_usual_control_needs_no_key():
    assert spec_of("") == spec_of("transport: {congestion_control: aimd}")
    assert spec_of("").control == AIMD


@pytest.mark.parametrize("name", CONTROLS)
def test_hosts_are_told_of_a_control_and_their_path(name):
    told = spec_of(f"transport: {{congestion_control: {name}, window: bdp}}")
    assert (told.control, told.window, told.line_bps) == (name, PRODUCT, 10**10)
    # Four links of 2 us and the hosts' and switch's delays; 318 bytes take 0.25 us.
    assert 8000 < told.trip_ns < 25_000
    assert told.product >= told.trip_ns // 255


@pytest.mark.parametrize(
    "transport, system, more, message",
    [
        ("congestion_control: dcqcn", "ps", "", "no packets between workers"),
        ("congestion_control: dcqcn", "ring", "scale_windows: true", "cannot scale its constants"),
        ("congestion_control: dcqn", "ring", "", "did you mean dcqcn"),
        ("window: 5 packets", "ring", "", "aimd with window"),
    ],
)
def test_what_cannot_be_honoured(transport, system, more, message):
    with pytest.raises(UserError, match=message):
        spec_of(f"transport: {{{transport}}}", system, more)
