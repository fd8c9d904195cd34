"""Meters over gRPC: their types, counts per colour, default entries."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from p4engine_testing.controller import Controller, Ids, ServedSwitch, entity
from p4engine_testing.programs import source, words

PROGRAM = source(
    metadata="bit<2> colour;",
    locals="""
        meter(2, MeterType.packets) two_rates;
        @single_rate_three_color meter(2, MeterType.packets) one_rate;
        @single_rate_two_color meter(2, MeterType.bytes) two_colours;
        @single_rate_three_color direct_meter<bit<2>>(MeterType.packets) of_entry;
        action look() { of_entry.read(meta.colour); }
        table entries_ {
            key = { hdr.h.a: exact; }
            actions = { look; NoAction; }
            meters = of_entry;
        }
    """,
    apply="""
        if (hdr.h.a == 1) two_rates.execute_meter((bit<32>) 1, meta.colour);
        else if (hdr.h.a == 2) one_rate.execute_meter((bit<32>) 1, meta.colour);
        else if (hdr.h.a == 3) two_colours.execute_meter((bit<32>) 1, meta.colour);
        else entries_.apply();
        hdr.h.b = (bit<32>) meta.colour;
    """,
)
NAMES = ("green", "yellow", "red")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("meters") / "program.p4"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def served(program):
    made = ServedSwitch(program)
    yield made
    made.close()


@pytest.fixture
def controller(controller):
    controller.write(("INSERT", controller.ids.entity(f"table_entry {{ {ENTRY} {LOOK} }}")))
    return controller


ENTRY = "table_id: $entries_ match { field_id: 1 exact { value: '\\x09' } }"
LOOK = "action { action { action_id: $look } }"


def meter(ids: Ids, name: str, text: str) -> Any:
    return ids.entity(f"meter_entry {{ meter_id: ${name} index {{ index: 1 }} {text} }}")


def colours(served: ServedSwitch, which: int, packets: int) -> list[int]:
    """The colours that so many packets get one after the other, a microsecond apart."""
    left = [data for _ in range(packets) for _, data in served.receive(1, words(which, 9, 0))]
    return [int.from_bytes(data[4:8], "big") for data in left]


def counts(controller: Controller, name: str) -> list[tuple[int, int]]:
    """(packets, bytes) for each colour."""
    (found,) = controller.read(meter(controller.ids, name, "counter_data {}"))
    data = found.meter_entry.counter_data
    return [(getattr(data, n).packet_count, getattr(data, n).byte_count) for n in NAMES]


def test_the_types_are_in_the_p4info(served):
    types = {
        m.preamble.alias: m.spec.type for m in (*served.info.meters, *served.info.direct_meters)
    }
    assert types == {"two_rates": 0, "one_rate": 1, "two_colours": 2, "of_entry": 1}


def test_a_single_rate_meter_has_an_excess_burst(served, controller):
    rates = "config { cir: 1 cburst: 3 pir: 1 pburst: 3 eburst: 2 }"
    wanted = meter(controller.ids, "one_rate", rates)
    controller.write(("MODIFY", wanted))
    assert colours(served, 2, 7) == [0, 0, 0, 1, 1, 2, 2]
    assert controller.read(meter(controller.ids, "one_rate", "")) == [wanted]
    served.advance(4_000_000_000)  # one a second: three fill the first bucket, one the excess
    assert colours(served, 2, 6) == [0, 0, 0, 1, 2, 2]
    served.advance(100_000_000_000)
    assert colours(served, 2, 7) == [0, 0, 0, 1, 1, 2, 2]
    assert counts(controller, "one_rate") == [(9, 108), (5, 60), (6, 72)]


def test_a_two_rate_meter_takes_a_token_of_both_buckets(served, controller):
    rates = "config { cir: 1 cburst: 2 pir: 2 pburst: 4 }"
    controller.write(("MODIFY", meter(controller.ids, "two_rates", rates)))
    assert colours(served, 1, 6) == [0, 0, 1, 1, 2, 2]
    served.advance(1_000_000_000)
    assert Counter(colours(served, 1, 4)) == {0: 1, 1: 1, 2: 2}


def test_a_two_colour_meter_says_green_or_red(served, controller):
    rates = "config { cir: 1 cburst: 24 pir: 1 pburst: 24 }"
    controller.write(("MODIFY", meter(controller.ids, "two_colours", rates)))
    assert colours(served, 3, 4) == [0, 0, 2, 2], "12 bytes each"
    assert counts(controller, "two_colours") == [(2, 24), (0, 0), (2, 24)]


@pytest.mark.parametrize(
    "name, rates",
    [
        ("two_rates", "cir: 1 cburst: 1 pir: 1 pburst: 1 eburst: 1"),
        ("one_rate", "cir: 1 cburst: 1 pir: 2 pburst: 1"),
        ("one_rate", "cir: 1 cburst: 1 pir: 1 pburst: 2 eburst: 5"),
        ("one_rate", "cir: 1 cburst: 1 pir: 1 pburst: 1 eburst: -5"),
        ("two_colours", "cir: 1 cburst: 1 pir: 1 pburst: 1 eburst: 1"),
        ("two_colours", "cir: 1 cburst: 1 pir: 2 pburst: 2"),
    ],
)
def test_rates_that_do_not_fit_the_type_are_refused(controller, name, rates):
    wrong = meter(controller.ids, name, f"config {{ {rates} }}")
    assert controller.refused(("MODIFY", wrong)) == ["INVALID_ARGUMENT"]
    (found,) = controller.read(meter(controller.ids, name, ""))
    assert not found.meter_entry.HasField("config")


def test_colours_are_counted_without_rates_and_set_to_zero(served, controller):
    ids = controller.ids
    assert colours(served, 1, 3) == [0, 0, 0]
    assert counts(controller, "two_rates") == [(3, 36), (0, 0), (0, 0)]
    (plain,) = controller.read(meter(ids, "two_rates", ""))
    assert not plain.meter_entry.HasField("counter_data"), "only where it is asked for"
    controller.write(("MODIFY", meter(ids, "two_rates", "")))
    assert counts(controller, "two_rates")[0] == (3, 36), "unset: left as they are"
    bad = meter(ids, "two_rates", "counter_data { red { packet_count: 1 } }")
    assert controller.refused(("MODIFY", bad)) == ["INVALID_ARGUMENT"]
    controller.write(("MODIFY", meter(ids, "two_rates", "counter_data { red {} }")))
    assert counts(controller, "two_rates") == [(0, 0)] * 3
    found = controller.read(entity("meter_entry { counter_data {} }"))
    assert len(found) == 6 and all(e.meter_entry.HasField("counter_data") for e in found)


def test_a_direct_meter_counts_for_its_entry(served, controller):
    ids = controller.ids
    config = "{ cir: 1 cburst: 2 pir: 1 pburst: 2 eburst: 1 }"
    key = f"table_entry {{ {ENTRY} }}"
    controller.write(("MODIFY", ids.entity(f"direct_meter_entry {{ {key} config {config} }}")))
    assert colours(served, 9, 4) == [0, 0, 1, 2]
    asked = f"table_entry {{ {ENTRY} meter_config {{}} meter_counter_data {{}} }}"
    (found,) = controller.read(ids.entity(asked))
    assert found.table_entry.meter_config.eburst == 1
    data = found.table_entry.meter_counter_data
    assert [getattr(data, n).packet_count for n in NAMES] == [2, 1, 1]
    (direct,) = controller.read(ids.entity(f"direct_meter_entry {{ {key} counter_data {{}} }}"))
    assert direct.direct_meter_entry.counter_data == data
    everywhere = controller.read(entity("direct_meter_entry { counter_data {} }"))
    assert [e.direct_meter_entry.counter_data for e in everywhere] == [data]
    wrong = f"table_entry {{ {ENTRY} meter_counter_data {{ red {{ byte_count: 1 }} }} }}"
    assert controller.refused(("MODIFY", ids.entity(wrong))) == ["INVALID_ARGUMENT"]
    again = f"table_entry {{ {ENTRY} meter_config {config} meter_counter_data {{}} }}"
    controller.write(("MODIFY", ids.entity(again)))
    (found,) = controller.read(ids.entity(asked))
    assert found.table_entry.meter_counter_data.ByteSize() == 6, "three empty counts"
    assert found.table_entry.meter_config.cburst == 2


def test_the_default_entry_has_a_meter(controller):
    ids = controller.ids
    default = "table_entry { table_id: $entries_ is_default_action: true %s }"
    config = "meter_config { cir: 1 cburst: 2 pir: 1 pburst: 2 eburst: 4 }"
    wanted = ids.entity(default % f"{LOOK} {config} metadata: 'd'")
    controller.write(("MODIFY", wanted))
    (found,) = controller.read(ids.entity(default % "meter_config {}"))
    assert found == wanted
    controller.write(("MODIFY", ids.entity(default % "")))
    (found,) = controller.read(ids.entity(default % "meter_config {} meter_counter_data {}"))
    assert not found.table_entry.HasField("meter_config") and not found.table_entry.metadata
    direct = "direct_meter_entry { %s %s }"
    change = ids.entity(direct % (default % "", config.replace("meter_config", "config")))
    controller.write(("MODIFY", change))
    assert controller.read(ids.entity(direct % (default % "", ""))) == [change]
