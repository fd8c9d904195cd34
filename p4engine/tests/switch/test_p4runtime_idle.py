"""Idle timeouts over gRPC, under a clock that the test moves."""

from __future__ import annotations

from typing import Any

import pytest
from p4engine.p4runtime.idle import LONGEST_LIST
from p4engine.p4runtime.proto import p4runtime_pb2
from p4engine.switch.library import Switch
from p4engine.values.numbers import ControlError
from p4engine_testing.controller import Controller, Failed, ServedSwitch, entity
from p4engine_testing.programs import source, words

from p4engine import compile_program

FRAME = bytes.fromhex("000000000002 02000000000a 0800") + b"payload"
OTHER = FRAME[:6] + bytes.fromhex("02000000000b") + FRAME[12:]
S = 1_000_000_000


def flow(controller: Controller, source: int = 0xA, ttl_ns: int = 0, more: str = "") -> Any:
    """An entry of `flows` for one station, 02:..:`source`."""
    number = controller.ids
    value = "".join(f"\\x{byte:02x}" for byte in (2 << 40 | source).to_bytes(6, "big"))
    mask = "\\xff" * 6
    made = entity(
        f"table_entry {{ table_id: {number['flows']} priority: 5 match {{ field_id: 1 ternary {{"
        f" value: '{value}' mask: '{mask}' }} }} action {{ action {{"
        f" action_id: {number['send']} params {{ param_id: 1 value: '\\3' }} }} }} {more} }}"
    )
    made.table_entry.idle_timeout_ns = ttl_ns
    return made


def age(controller: Controller) -> int:
    """Time since the last hit of the only entry of `flows`."""
    table = controller.ids["flows"]
    asked = entity(f"table_entry {{ table_id: {table} time_since_last_hit {{}} }}")
    (found,) = controller.read(asked)
    return found.table_entry.time_since_last_hit.elapsed_ns


def hear(controller: Controller) -> Any:
    message = controller.hear()
    assert message.WhichOneof("update") == "idle_timeout_notification"
    return message.idle_timeout_notification


def silence(served: ServedSwitch, controller: Controller) -> None:
    """Nothing has been sent: what is sent now is heard first."""
    request = p4runtime_pb2.StreamMessageRequest()
    request.packet.payload = b"x"
    controller.send(request)  # without its metadata: an error comes back
    assert controller.hear().WhichOneof("update") == "error"


def test_an_entry_that_no_packet_hits_is_reported_and_stays(served, controller):
    ttl = flow(controller, ttl_ns=3 * S, more="metadata: 'mine' controller_metadata: 8")
    controller.write(("INSERT", ttl))
    served.advance(3 * S - 1)
    silence(served, controller)
    served.advance(1)
    (entry,) = hear(controller).table_entry
    expected = type(ttl).FromString(ttl.SerializeToString()).table_entry
    expected.ClearField("action")
    assert entry == expected
    (read,) = controller.read(entity(f"table_entry {{ table_id: {controller.ids['flows']} }}"))
    assert read == ttl
    assert served.receive(1, FRAME) == [(3, FRAME)]


def test_a_hit_starts_the_time_again(served, controller):
    controller.write(("INSERT", flow(controller, ttl_ns=3 * S)))
    for _ in range(4):
        served.advance(2 * S)
        served.receive(1, FRAME)
        served.receive(1, OTHER)  # hits nothing
    silence(served, controller)
    served.advance(3 * S)
    assert len(hear(controller).table_entry) == 1


def test_after_a_report_the_time_starts_again_but_the_hit_does_not(served, controller):
    controller.write(("INSERT", flow(controller, ttl_ns=3 * S)))
    served.advance(3 * S)
    assert len(hear(controller).table_entry) == 1
    served.advance(2 * S)
    silence(served, controller)
    assert age(controller) == 5 * S
    served.advance(S)
    assert len(hear(controller).table_entry) == 1


def test_the_time_since_the_last_hit_is_read_without_a_timeout_too(served, controller):
    controller.write(("INSERT", flow(controller)))
    served.advance(4 * S)
    assert age(controller) == 4 * S, "before the first hit, since it was added"
    served.receive(1, FRAME)
    served.advance(7 * S)
    assert age(controller) == 7 * S
    controller.write(("MODIFY", flow(controller)))
    assert age(controller) == 7 * S, "a change of the entry is no hit"
    silence(served, controller)
    (plain,) = controller.read(entity(f"table_entry {{ table_id: {controller.ids['flows']} }}"))
    assert not plain.table_entry.HasField("time_since_last_hit"), "only where it is asked for"


def test_a_timeout_is_changed_and_taken_away(served, controller):
    controller.write(("INSERT", flow(controller, ttl_ns=100 * S)))
    served.advance(2 * S)
    controller.write(("MODIFY", flow(controller, ttl_ns=5 * S)))
    served.advance(3 * S)
    assert hear(controller).table_entry[0].idle_timeout_ns == 5 * S
    controller.write(("MODIFY", flow(controller)))
    served.advance(500 * S)
    silence(served, controller)
    controller.write(("MODIFY", flow(controller, ttl_ns=S)), ("DELETE", flow(controller)))
    served.advance(500 * S)
    silence(served, controller)


def test_a_table_has_one_report_for_all_its_entries(served, controller):
    numbers = controller.ids
    member = entity(
        f"action_profile_member {{ action_profile_id: {numbers['targets']} member_id: 1"
        f" action {{ action_id: {numbers['drop']} }} }}"
    )
    indirect = entity(
        f"table_entry {{ table_id: {numbers['sources']} idle_timeout_ns: {S}"
        " match { field_id: 1 exact { value: '\\x11' } } action { action_profile_member_id: 1 } }"
    )
    controller.write(("INSERT", member))
    controller.write(*(("INSERT", flow(controller, n, S)) for n in (1, 2, 3)), ("INSERT", indirect))
    served.advance(S)
    lists = sorted((hear(controller).table_entry for _ in range(2)), key=len)
    assert [e.table_id for e in lists[0]] == [numbers["sources"]]
    assert [e.table_id for e in lists[1]] == [numbers["flows"]] * 3
    silence(served, controller)


def test_many_idle_entries_come_in_several_reports(served, controller):
    many = LONGEST_LIST + 76
    controller.write(*(("INSERT", flow(controller, n, S)) for n in range(many)))
    served.advance(S)
    first, second = hear(controller), hear(controller)
    assert [len(first.table_entry), len(second.table_entry)] == [LONGEST_LIST, 76]
    values = {e.match[0].ternary.value for e in (*first.table_entry, *second.table_entry)}
    assert len(values) == many
    silence(served, controller)


@pytest.mark.parametrize(
    "table, text",
    [
        ("stations", "idle_timeout_ns: 5 match { field_id: 1 exact { value: '\\1' } }"),
        ("stations", "time_since_last_hit {} match { field_id: 1 exact { value: '\\1' } }"),
        ("flows", "idle_timeout_ns: -5 priority: 1"),
        ("flows", "idle_timeout_ns: 5 is_default_action: true"),
        ("flows", "time_since_last_hit {} priority: 1"),
    ],
)
def test_timeouts_that_make_no_sense_are_refused(served, controller, table, text):
    numbers = controller.ids
    action = f"action {{ action {{ action_id: {numbers['NoAction']} }} }}"
    update = entity(f"table_entry {{ table_id: {numbers[table]} {text} {action} }}")
    kind = "MODIFY" if "is_default" in text else "INSERT"
    assert controller.refused((kind, update)) == ["INVALID_ARGUMENT"]
    if table == "stations":
        with pytest.raises(Failed):
            controller.read(update)


def test_what_is_deleted_is_found_by_its_key_alone(served, controller):
    controller.write(("INSERT", flow(controller)))
    nonsense = flow(controller, ttl_ns=-7, more="time_since_last_hit {} counter_data {}")
    controller.write(("DELETE", nonsense))
    assert served.receive(1, FRAME) == []


def test_a_new_program_has_no_timeouts_yet(served, controller):
    controller.write(("INSERT", flow(controller, ttl_ns=S)))
    before = served.device.idle
    controller.set_config("VERIFY_AND_COMMIT", served.info)
    served.advance(2 * S)
    silence(served, controller)
    assert before.scan(0) == [] and before.next_ns is None, "one that was under way ends"
    controller.write(("INSERT", flow(controller, ttl_ns=S)))
    served.advance(S)
    assert len(hear(controller).table_entry) == 1


# ---- the engine alone ----


def test_the_engine_says_when_to_ask_again(tmp_path):
    path = tmp_path / "program.p4"
    table = "table t { key = { hdr.h.a: exact; } actions = { NoAction; } %s }"
    own = "support_timeout = true; entries = { 7: NoAction(); }"
    path.write_text(source(locals=table % own, apply="t.apply();"))
    switch = Switch(compile_program(path), epoch_ns=50)
    assert switch.now_ns() == 50
    program = switch.pipeline
    first, second = (program.table_add("t", "NoAction", [n]) for n in (1, 2))
    written = program.table_find("t", [7])
    assert program.table_age("t", written) == (0, 0)
    assert program.table_idle("t") == ([], None)
    program.table_set_timeout("t", first, 100)
    program.table_set_timeout("t", second, 300)
    assert program.table_idle("t") == ([], 150)
    switch.receive(0, words(1, 2, 3), 140)
    switch.advance(200)
    assert program.table_age("t", first) == (100, 60)
    assert program.table_idle("t") == ([], 240)
    switch.advance(400)
    assert program.table_idle("t", most=1) == ([first], 500)
    assert program.table_idle("t", after=first) == ([second], 700)
    assert program.table_idle("t") == ([], 500)
    path.write_text(source(locals=table % "", apply="t.apply();"))
    plain = Switch(compile_program(path))
    handle = plain.table_add("t", "NoAction", [1])
    with pytest.raises(ControlError, match="does not belong here"):
        plain.pipeline.table_set_timeout("t", handle, 5)
