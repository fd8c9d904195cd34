"""Packets with values of 16 or 8 bits, one at a time, against the P4 programs (docs/wire.md)."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from testbed.dissect import Ina
from testbed.protocols import block_float, wire
from tests.support import switches
from tests.support.switches import OneSwitch, Sent
from tests.support.switchml import SlotSwitch

SHORT = {"flags": wire.SHORT | wire.ROUND}
HEADER_BYTES = 14 + 20 + 8 + 24 + 4


def pool(system: str = "esa", **options: object) -> OneSwitch:
    return OneSwitch(system=system, keys="value_bits: 16", **options)


def only(sent: list[Sent]) -> Sent:
    """The packet, whose lengths and checksum are right, and whose values have as many bits as it
    says."""
    found = switches.only(sent)
    width = Ina.short_bits // 8 if found.flags & wire.SHORT else 4
    assert len(found.packet) == HEADER_BYTES + width * len(found.values)
    return found


@pytest.mark.parametrize("system", ["esa", "atp"])
def test_short_values_are_added_as_int32_and_the_whole_sum_is_rounded(system):
    switch = pool(system)
    assert switch.gradient(0, 0, values=[32767, -32768, 5, -1], **SHORT) == []
    assert switch.gradient(0, 1, values=[32767, -32768, 0, -1], **SHORT) == []
    sent = only(switch.gradient(0, 2, values=[32767, -32767, 1, -1], **SHORT))
    # Three workers: two bits are rounded off, a half to the even number.
    assert sent.values == [24575, -24576, 2, -1]
    assert sent.flags == wire.SHORT and sent.bitmap == 0b111


@pytest.mark.parametrize("system", ["esa", "atp"])
def test_a_part_of_a_sum_is_not_rounded_and_as_wide_as_it_needs(system):
    switch = pool(system)
    switch.gradient(0, 0, values=[30000, 1, -1, 0], **SHORT)
    switch.gradient(0, 1, values=[30000, 1, -1, 0], **SHORT)
    pulled = only(switch.from_server(0, wire.REMINDER, node=1))
    assert pulled.values == [60000, 2, -2, 0]
    assert pulled.flags == wire.PARTIAL | wire.REMINDED | wire.ROUND
    switch.gradient(0, 0, values=[3, 1, -1, 0], **SHORT)
    pulled = only(switch.from_server(0, wire.REMINDER, node=1))
    assert pulled.values == [3, 1, -1, 0]
    assert pulled.flags == wire.PARTIAL | wire.REMINDED | wire.ROUND | wire.SHORT


def test_what_is_not_to_be_rounded_keeps_every_bit():
    switch = pool()
    for worker in range(3):
        sent = switch.gradient(0, worker, values=[1, 2**30, -5, 0])
    assert only(sent).values == [3, 3 * 2**30 - 2**32, -15, 0]
    assert only(sent).flags == wire.OVERFLOW
    for worker in range(3):
        sent = switch.gradient(0, worker, fragment=8, flags=wire.SHORT, values=[1, 2, -5, 0])
    assert only(sent).values == [3, 6, -15, 0] and only(sent).flags == wire.SHORT


def test_a_swap_carries_the_evicted_sum_to_its_own_server_unrounded():
    """Job 1's worker has the same bit as job 0's; its sum is complete for neither."""
    switch = pool()
    for worker in range(2):
        switch.gradient(0, worker, priority=10, values=[20000, 0, 0, 0], **SHORT)
    evicted = only(switch.gradient(1, 2, priority=20, values=[7, 0, 0, 0], **SHORT))
    assert (evicted.port, evicted.job, evicted.bitmap) == (4, 0, 0b011)
    assert evicted.values == [40000, 0, 0, 0] and evicted.flags == wire.PARTIAL | wire.ROUND
    collided = only(switch.gradient(0, 2, priority=1, values=[9, 0, 0, 0], **SHORT))
    assert collided.values == [9, 0, 0, 0]
    assert collided.flags == wire.COLLISION | wire.ROUND | wire.SHORT


def test_switchml_rounds_at_the_root_what_it_returns():
    switch = SlotSwitch(keys="value_bits: 16")
    for worker in range(3):
        sent = switch.chunk(0, worker, values=[32767, -32767, 6, 0], **SHORT)
    expected = [24575, -24575, 4, 0]
    assert [s.values for s in sent] == [expected] * 3
    assert all(only([s]).flags == wire.SHORT for s in sent)
    again = only(switch.chunk(0, 1, values=[32767, -32767, 6, 0], **SHORT))
    assert again.kind == wire.RESULT_ONE and again.values == expected
    assert again.flags == wire.SHORT | wire.RESEND


@pytest.mark.parametrize(
    "value, fits", [(32767, True), (32768, False), (-32768, True), (-32769, False)]
)
def test_every_value_of_16_bits_is_sent_as_such(value, fits):
    sent = only(pool().gradient(0, 0, flags=wire.PARTIAL, values=[0, value, 0, 0]))
    assert sent.values == [0, value, 0, 0]
    assert sent.flags == wire.PARTIAL | (wire.SHORT if fits else 0)


def test_what_leaves_unshortened_does_not_say_that_it_is_short():
    """Floats are never shortened, so a packet that claims to be both leaves with wide values."""
    sent = only(pool("atp").gradient(0, 0, values=[1, 2, 3, 4], flags=wire.SHORT | wire.FLOAT))
    assert (sent.flags, sent.values) == (wire.FLOAT, [1, 2, 3, 4])


@pytest.fixture
def eight_bits(monkeypatch):
    monkeypatch.setattr(Ina, "short_bits", 8)


def int8s(system: str) -> OneSwitch:
    if system == "switchml":
        return SlotSwitch(sum="int8")
    return OneSwitch(32, system, "off", sum="int8")


@pytest.mark.parametrize("system", ["esa", "atp", "switchml"])
def test_sums_of_int8_that_share_a_word_are_exact_in_any_order(eight_bits, system):
    draw = np.random.default_rng(1)
    switch = int8s(system)
    for number, order in enumerate([*permutations(range(3))] * 4):
        edges = draw.choice((-127, 127, 0, 1, -1, 64), (3, 4))
        given = np.where(draw.random((3, 4)) < 0.5, draw.integers(-127, 128, (3, 4)), edges)
        for worker in order:
            values = given[worker].tolist()
            if system == "switchml":
                sent = switch.chunk(0, worker, number, values=values, **SHORT)
            else:
                sent = switch.gradient(0, worker, number, number, values, **SHORT)
        expected = block_float.rounded(given.sum(axis=0, dtype=np.int32), 3).tolist()
        assert {tuple(each.values) for each in sent} == {tuple(expected)}


def test_an_evicted_sum_of_int8_leaves_whole_and_the_new_one_comes_in_whole(eight_bits):
    switch = int8s("esa")
    for worker in range(2):
        switch.gradient(0, worker, priority=10, values=[-127, 127, 3, -127], **SHORT)
    evicted = only(switch.gradient(1, 2, priority=20, values=[7, -7, -1, 0], **SHORT))
    assert (evicted.port, evicted.job, evicted.values) == (4, 0, [-254, 254, 6, -254])
    assert evicted.flags == wire.PARTIAL | wire.ROUND
    pulled = only(switch.from_server(1, wire.REMINDER, node=1))
    assert pulled.values == [7, -7, -1, 0] and pulled.flags & wire.SHORT
