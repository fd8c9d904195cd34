"""Batches of which all updates are carried out or none, over gRPC."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from p4engine_testing.controller import Controller, Failed, Ids, ServedSwitch, entity

FRAME = bytes.fromhex("000000000002 02000000000a 0800") + b"payload"
ROLLBACK_ON_ERROR, DATAPLANE_ATOMIC = 1, 2
EVERYTHING = (
    "table_entry { counter_data {} meter_config {} time_since_last_hit {} }",
    "action_profile_member {}",
    "action_profile_group {}",
    "counter_entry {}",
    "meter_entry {}",
    "register_entry {}",
    "value_set_entry {}",
    "packet_replication_engine_entry { multicast_group_entry {} }",
    "packet_replication_engine_entry { clone_session_entry {} }",
    "digest_entry {}",
)


@pytest.fixture(params=[ROLLBACK_ON_ERROR, DATAPLANE_ATOMIC], ids=["rollback", "atomic"])
def atomicity(request) -> int:
    return request.param


def state(controller: Controller) -> list[bytes]:
    """All that can be read, default entries too, in an order of its own."""
    asked = [entity(text) for text in EVERYTHING]
    for name in ("stations", "rules", "flows", "prefixes"):
        number = controller.ids[name]
        text = f"table_entry {{ table_id: {number} is_default_action: true counter_data {{}} }}"
        asked.append(entity(text.replace("counter_data {}", "") if name != "stations" else text))
    return sorted(e.SerializeToString(deterministic=True) for e in controller.read(*asked))


def impossible(ids: Ids) -> tuple[str, Any]:
    return "DELETE", ids.station(address="77")


def group(ids: Ids, *members: int, number: int = 5) -> Any:
    weighted = " ".join(f"members {{ member_id: {m} weight: {m} }}" for m in members)
    return ids.entity(
        f"action_profile_group {{ action_profile_id: $paths group_id: {number} {weighted} }}"
    )


def spread(ids: Ids, action: str, ethertype: str = "\\x08\\x00") -> Any:
    return ids.entity(
        f"table_entry {{ table_id: $spread match {{ field_id: 1 exact {{ value: '{ethertype}' }} }}"
        f" action {{ {action} }} }}"
    )


def one_shot(*ports: int) -> str:
    actions = " ".join(
        "action_profile_actions { weight: 2 action { action_id: $send params { param_id: 1"
        f" value: '\\{port}' }} }} }}"
        for port in ports
    )
    return f"action_profile_action_set {{ {actions} }}"


def flow(ids: Ids, port: int, more: str = "") -> Any:
    return ids.entity(
        "table_entry { table_id: $flows priority: 5 match { field_id: 1 ternary { value: '\\1'"
        " mask: '\\1' } } action { action { action_id: $send params { param_id: 1"
        f" value: '\\{port}' }} }} }} {more} }}"
    )


def fill(controller: Controller) -> None:
    """Something of every kind."""
    ids = controller.ids
    rates = "meter_config { cir: 1 cburst: 2 pir: 3 pburst: 4 }"
    controller.write(
        (
            "INSERT",
            ids.station("02", "03", f"metadata: 'm' counter_data {{ byte_count: 9 }} {rates}"),
        ),
        ("INSERT", ids.station("03", "01")),
        ("INSERT", flow(ids, 1, "idle_timeout_ns: 7000000000 controller_metadata: 4")),
        ("INSERT", ids.rule("01", "ff", 7)),
        ("INSERT", ids.member(1, 1)),
        ("INSERT", ids.member(2, 2)),
        ("INSERT", ids.member(3, 3)),
    )
    multicast = "multicast_group_entry { multicast_group_id: 4 replicas { port: '\\1' } }"
    session = "clone_session_entry { session_id: 4 replicas { port: '\\1' instance: 3 } }"
    controller.write(
        ("INSERT", group(ids, 1, 2)),
        ("INSERT", entity(f"packet_replication_engine_entry {{ {multicast} }}")),
        ("INSERT", entity(f"packet_replication_engine_entry {{ {session} }}")),
        (
            "INSERT",
            ids.entity("digest_entry { digest_id: $learned_t config { max_list_size: 3 } }"),
        ),
        (
            "MODIFY",
            ids.entity(
                "value_set_entry { value_set_id: $special"
                " members { match { field_id: 1 exact { value: '\\x86' } } } }"
            ),
        ),
    )
    controller.write(
        ("INSERT", spread(ids, "action_profile_group_id: 5")),
        ("INSERT", spread(ids, one_shot(1, 4), "\\x07")),
    )


def changes(ids: Ids) -> dict[str, list[tuple[str, Any]]]:
    """Batches by what they change; each can be carried out after `fill`."""
    default = "table_entry { table_id: $stations is_default_action: true %s }"
    send = "action { action { action_id: $send params { param_id: 1 value: '\\4' } } }"
    key = "table_entry { table_id: $stations match { field_id: 1 exact { value: '\\2' } } }"
    new = ids.station("02", "04", "counter_data { packet_count: 1 }")
    multicast = "multicast_group_entry { multicast_group_id: %d replicas { port: '\\2' } }"
    session = "clone_session_entry { session_id: %d replicas { port: '\\2' } }"
    pre = "packet_replication_engine_entry { %s }"
    digest = "digest_entry { digest_id: $learned_t %s }"
    element = "index { index: 1 } data { %s }"
    return {
        "entries": [
            ("INSERT", ids.station("05")),
            ("MODIFY", new),
            ("DELETE", ids.station("03")),
            ("INSERT", ids.station("03", "02", "metadata: 'again'")),
            ("DELETE", new),
            ("DELETE", ids.rule("01", "ff", 7)),
        ],
        "default": [
            ("MODIFY", ids.entity(default % (send + " metadata: 'd'"))),
            ("MODIFY", ids.entity(default % "")),
            ("MODIFY", ids.entity(default % send)),
        ],
        "ages": [("MODIFY", flow(ids, 2)), ("DELETE", flow(ids, 2))],
        "direct": [
            ("MODIFY", ids.entity(f"direct_counter_entry {{ {key} data {{ packet_count: 1 }} }}")),
            ("MODIFY", ids.entity(f"direct_meter_entry {{ {key} }}")),
            ("DELETE", new),
        ],
        "arrays": [
            ("MODIFY", ids.entity("counter_entry { counter_id: $ports data { packet_count: 1 } }")),
            (
                "MODIFY",
                ids.entity(f"counter_entry {{ counter_id: $ports {element % 'byte_count: 7'} }}"),
            ),
            ("MODIFY", ids.entity("meter_entry { meter_id: $speed config { pir: 5 pburst: 1 } }")),
            *(
                (
                    "MODIFY",
                    ids.entity(f"register_entry {{ register_id: ${name} {element % data} }}"),
                )
                for name, data in (
                    ("words", "bitstring: '\\7'"),
                    ("numbers", "bitstring: '\\xff\\xf0'"),
                    ("flags", "bool: true"),
                )
            ),
            ("MODIFY", ids.entity("value_set_entry { value_set_id: $special }")),
        ],
        "profiles": [
            ("MODIFY", ids.member(1, 4)),
            ("MODIFY", group(ids, 2, 3)),
            ("DELETE", ids.member(1, 4)),
            ("INSERT", ids.member(9, 1)),
            ("INSERT", group(ids, 9, number=6)),
            ("MODIFY", spread(ids, "action_profile_group_id: 6")),
            ("DELETE", group(ids)),
            ("DELETE", ids.member(2, 2)),
            ("MODIFY", spread(ids, "action_profile_member_id: 3")),
        ],
        "one-shots": [
            ("MODIFY", spread(ids, one_shot(2, 3), "\\x07")),
            ("MODIFY", spread(ids, "action_profile_member_id: 3", "\\x07")),
            ("DELETE", spread(ids, "", "\\x07")),
            ("INSERT", spread(ids, one_shot(3), "\\x07")),
            ("INSERT", spread(ids, one_shot(3), "\\x09")),
        ],
        "replication": [
            ("MODIFY", entity(pre % (multicast % 4))),
            ("DELETE", entity(pre % (multicast % 4))),
            ("INSERT", entity(pre % (multicast % 8))),
            ("MODIFY", entity(pre % (session % 4))),
            ("DELETE", entity(pre % (session % 4))),
            ("INSERT", entity(pre % (session % 8))),
        ],
        "digests": [
            ("MODIFY", ids.entity(digest % "config { max_list_size: 9 }")),
            ("DELETE", ids.entity(digest % "")),
            ("INSERT", ids.entity(digest % "")),
        ],
    }


KINDS = [
    "entries",
    "default",
    "ages",
    "direct",
    "arrays",
    "profiles",
    "one-shots",
    "replication",
    "digests",
]


def test_all_kinds_are_tried(served):
    assert sorted(changes(Ids(served.info))) == sorted(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_of_a_batch_that_fails(served, controller, kind, atomicity):
    ids = controller.ids
    fill(controller)
    served.receive(1, FRAME)
    served.advance(5)
    before, batch = state(controller), changes(ids)[kind]
    for length in range(1, len(batch) + 1):  # so that each update is the last that is taken back
        codes = controller.refused(*batch[:length], impossible(ids), atomicity=atomicity)
        assert codes == [*["ABORTED"] * length, "NOT_FOUND"]
        assert state(controller) == before, batch[length - 1]
    controller.write(*batch, atomicity=atomicity)
    assert state(controller) != before


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_does_the_same_with_every_atomicity(kind):
    results = []
    for value in (0, ROLLBACK_ON_ERROR, DATAPLANE_ATOMIC):
        served = ServedSwitch()
        with Controller(served.address) as controller:
            controller.arbitrate()
            controller.ids = Ids(served.info)
            fill(controller)
            controller.write(*changes(controller.ids)[kind], atomicity=value)
            results.append(state(controller))
        served.close()
    assert results[0] == results[1] == results[2]


def test_the_first_failure_decides_and_is_named(served, controller, atomicity):
    ids = controller.ids
    batch = [("INSERT", ids.station("05")), ("INSERT", ids.station("05")), impossible(ids)]
    with pytest.raises(Failed) as caught:
        controller.write(*batch, ("INSERT", entity("extern_entry {}")), atomicity=atomicity)
    assert caught.value.codes == ["ABORTED", "ALREADY_EXISTS", "ABORTED", "ABORTED"]
    assert "update 1 failed" in caught.value.texts[0]
    many = [("INSERT", ids.rule("01", "ff", n)) for n in range(1, 400)]
    with pytest.raises(Failed, match="index 399: NOT_FOUND"):
        controller.write(*many, impossible(ids), atomicity=atomicity)
    assert controller.read(ids.entity("table_entry { table_id: $rules }")) == []


def test_no_packet_sees_half_of_a_batch(served, controller):
    ids = controller.ids
    controller.write(("INSERT", ids.station("02", "03")))
    stop, wrong = threading.Event(), []

    def packets() -> None:
        while not stop.is_set():
            left = served.receive(1, FRAME)
            if left not in ([(3, FRAME)], [(4, FRAME)]):
                wrong.append(left)

    thread = threading.Thread(target=packets)
    thread.start()
    try:
        for turn in range(30):
            port = "04" if turn % 2 == 0 else "03"
            between = [(kind, ids.rule("01", "ff", 1)) for kind in ("INSERT", "DELETE")] * 60
            controller.write(
                ("DELETE", ids.station("02")),  # from here on the packet would be dropped
                *between,  # more than are carried out at once otherwise
                ("INSERT", ids.station("02", port)),
                atomicity=DATAPLANE_ATOMIC,
            )
    finally:
        stop.set()
        thread.join()
    assert wrong == []
