"""scapy's layer for the testbed's packets."""

from __future__ import annotations

import random

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from testbed.dissect import Ina
from testbed.protocols import wire
from testbed.protocols.sizes import MAX_VALUES


@pytest.mark.parametrize("flags, most", [(0, 1 << 31), (wire.SHORT, 1 << 15)])
def test_all_values_of_the_largest_packet_are_read(flags, most):
    """Of longer lists than 100 scapy makes bytes by itself."""
    draw = random.Random(3)
    values = [draw.randrange(-most, most) for _ in range(MAX_VALUES)]
    udp = UDP(sport=wire.PORT, dport=wire.PORT)
    found = Ether(bytes(Ether() / IP() / udp / Ina(flags=flags, values=values)))
    assert found[Ina].values == values
