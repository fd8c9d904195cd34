"""Settings that an experiment may have with `switch: bmv2`."""

from __future__ import annotations

import pytest

from testbed.experiment import load_text
from tests.support.experiments import bmv2_links, memory_line, message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bandwidth: 2 Gbit/s", "links.bandwidth: h1 to s1: found 2 Gbit/s; allowed with BMv2"),
        ("bandwidth: 100 kbit/s", "260.8 kbit/s (100 packets of 326 B) to 1 Gbit/s, or unlimited"),
        ("delay: 1 ms\n  jitter: 1 us", "links.jitter: h1 to s1: found 1 us; BMv2 has none"),
        ("duplicate: 1 %", "links.duplicate: h1 to s1: found 1 %; BMv2 has none. Allowed: 0"),
        ("reorder: 1 %", "links.reorder: h1 to s1: found 1 %; BMv2 has none"),
        (
            "each: [{between: [h4, s1], backward: {reorder: 1 %}}]",
            "s1 to h4: found 1 %; BMv2 has none. Allowed: 0; take this key out",
        ),
    ],
)
def test_what_bmv2_cannot_do_is_an_error(text, expected):
    assert expected in message(bmv2_links(text))
    assert "1 error in the experiment" in message(bmv2_links(text))


def test_a_rate_of_exactly_the_limits_is_allowed():
    assert load_text(bmv2_links("bandwidth: 1 Gbit/s")).switch == "bmv2"
    assert load_text(bmv2_links("bandwidth: 260.8 kbit/s")).switch == "bmv2"


def test_a_header_is_no_shorter_on_bmv2():
    text = bmv2_links("bandwidth: 1 Gbit/s").replace("{name: esa", "{zeros: header_only, name: esa")
    assert "zeros: header_only" in text
    assert "system.zeros: found header_only with switch bmv2" in message(text)
    unlimited = text.replace("1 Gbit/s", "unlimited")
    assert load_text(unlimited).system.zeros == "header_only"
    short = bmv2_links("bandwidth: 1 Gbit/s") + "value_bits: 16\n"
    assert "value_bits: found 16 with switch bmv2" in message(short)
    assert load_text(short.replace("1 Gbit/s", "unlimited")).value_bits == 16


def with_values(values: int, system: str, bandwidth: str = "1 Gbit/s") -> str:
    text = bmv2_links(f"bandwidth: {bandwidth}") + f"values_per_packet: {values}\n"
    own = "{name: esa, window: 64}\nmemory: {aggregators: 128}"
    assert own in text
    return text.replace(own, f"{system}\n{memory_line(system, 128)}")


@pytest.mark.parametrize("system", ["esa", "atp", "grid"])
def test_a_reminder_can_grow_by_512_bytes_on_bmv2(system):
    assert load_text(with_values(128, system)).values_per_packet == 128
    said = message(with_values(256, system))
    allowed = f"allowed with switch bmv2 and system {system}: up to 128, because"
    assert f"values_per_packet: found 256; {allowed}" in said
    assert "take 128, or use switch embedded" in said


@pytest.mark.parametrize("system", ["switchml", "ps", "ring"])
def test_packets_that_never_grow_may_have_all_values_on_bmv2(system):
    assert load_text(with_values(2048, system)).values_per_packet == 2048


def test_a_packet_without_values_can_grow_too():
    system = "{name: switchml, zeros: header_only}"
    assert load_text(with_values(128, system, "unlimited")).values_per_packet == 128
    assert "zeros: header_only" in message(with_values(256, system, "unlimited"))
