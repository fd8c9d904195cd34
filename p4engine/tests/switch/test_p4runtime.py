"""P4Runtime over gRPC: entities, errors, elections, packets, as a controller sees them."""

from __future__ import annotations

import random
from typing import Any

import grpc
import pytest
from p4engine.p4runtime.arbitration import MAX_CONTROLLERS, MAX_ROLES, Arbitration
from p4engine.p4runtime.proto import p4runtime_pb2
from p4engine.p4runtime.status import Refused
from p4engine_testing.controller import PROGRAM, Controller, Failed, Ids, ServedSwitch, entity

FRAME = bytes.fromhex("000000000002 02000000000a 0800") + b"payload"


@pytest.fixture(scope="module")
def served():
    made = ServedSwitch()
    yield made
    made.close()


@pytest.fixture
def controller(served):
    """The primary controller of a switch that is as it was when it was loaded."""
    with Controller(served.address) as made:
        arbitration = made.arbitrate()
        if arbitration.status.code:  # an earlier test has seen larger election ids
            made.arbitrate(arbitration.election_id.low + 1)
        made.set_config("VERIFY_AND_COMMIT", served.info)
        made.ids = Ids(served.info)
        yield made


# ---- tables ----


def test_an_entry_is_inserted_used_modified_read_and_deleted(served, controller):
    ids = controller.ids
    assert served.receive(1, FRAME) == [], "the default action drops"
    controller.write(("INSERT", ids.station()))
    assert served.receive(1, FRAME) == [(2, FRAME)]
    controller.write(("MODIFY", ids.station(port="03", more='metadata: "mine"')))
    assert served.receive(1, FRAME) == [(3, FRAME)]
    (read,) = controller.read(ids.entity("table_entry { table_id: $stations counter_data {} }"))
    expected = ids.station(port="03", more='metadata: "mine"')
    expected.table_entry.counter_data.packet_count = 2
    expected.table_entry.counter_data.byte_count = 2 * len(FRAME)
    assert read == expected
    controller.write(("DELETE", ids.station()))
    assert served.receive(1, FRAME) == []
    assert controller.read(ids.entity("table_entry { table_id: $stations }")) == []


def test_every_update_of_a_batch_has_a_fate_of_its_own(controller):
    ids = controller.ids
    long = ids.station(address="0102030405060708")
    wide = ids.station(address="06", port="0fff")
    codes = controller.refused(
        ("INSERT", ids.station()),
        ("INSERT", ids.station()),
        ("DELETE", ids.station(address="09")),
        ("INSERT", long),
        ("INSERT", wide),
        ("INSERT", ids.station(address="07")),
        ("UNSPECIFIED", ids.station(address="08")),
        ("INSERT", p4runtime_pb2.Entity()),
    )
    assert codes == [
        "OK",
        "ALREADY_EXISTS",
        "NOT_FOUND",
        "OUT_OF_RANGE",
        "OUT_OF_RANGE",
        "OK",
        "INVALID_ARGUMENT",
        "INVALID_ARGUMENT",
    ]
    found = controller.read(ids.entity("table_entry { table_id: $stations }"))
    assert {e.table_entry.match[0].exact.value for e in found} == {b"\x02", b"\x07"}


def test_a_full_table_says_so(controller):
    ids = controller.ids
    controller.write(*(("INSERT", ids.station(f"{n:02x}")) for n in range(1, 17)))
    assert controller.refused(("INSERT", ids.station("20"))) == ["RESOURCE_EXHAUSTED"]


KEY = "match { field_id: 1 exact { value: 'a' } }"
TERNARY = "match { field_id: 1 ternary { value: 'a' mask: 'a' } }"
DROP = "action { action { action_id: $drop } }"
NOTHING = "action { action { action_id: $NoAction } }"
NONSENSE = {
    "NOT_FOUND": (
        "table_id: 1",
        "table_id: $send",
        f"table_id: $chosen {KEY} action {{ action_profile_member_id: 4 }}",
    ),
    "PERMISSION_DENIED": (
        f"table_id: $rules priority: 1 {NOTHING}",
        f"table_id: $fixed priority: 7 {TERNARY} {NOTHING}",
    ),
    "INVALID_ARGUMENT": (
        "table_id: $stations",
        "table_id: $stations match { field_id: 1 exact { value: '' } }",
        "table_id: $stations match { field_id: 9 exact { value: 'a' } }",
        f"table_id: $stations {TERNARY}",
        f"table_id: $stations priority: 3 {KEY} {DROP}",
        f"table_id: $stations {KEY} action {{ action {{ action_id: $send }} }}",
        f"table_id: $stations {KEY} action {{ action {{ action_id: $learn }} }}",
        f"table_id: $stations {KEY} action {{ action_profile_member_id: 1 }}",
        f"table_id: $stations {KEY} idle_timeout_ns: 5 {DROP}",
        f"table_id: $flows priority: 1 meter_counter_data {{}} {NOTHING}",
        f"table_id: $rules {DROP}",
        "table_id: $rules priority: 1"
        f" match {{ field_id: 1 ternary {{ value: '\\1' mask: '\\2' }} }} {DROP}",
        "table_id: $rules priority: 1"
        f" match {{ field_id: 2 range {{ low: '\\2' high: '\\1' }} }} {DROP}",
        "table_id: $prefixes match { field_id: 1 lpm { value: '\\1' prefix_len: 40 } }"
        f" match {{ field_id: 2 exact {{ value: '\\1' }} }} {NOTHING}",
    ),
}


@pytest.mark.parametrize(
    "code, text", [(code, text) for code, texts in NONSENSE.items() for text in texts]
)
def test_entries_that_make_no_sense_are_refused(controller, code, text):
    before = controller.read(entity("table_entry {}"))
    text = "table_entry { " + text + " }"
    assert controller.refused(("INSERT", controller.ids.entity(text))) == [code]
    assert controller.read(entity("table_entry {}")) == before


def test_the_higher_priority_wins_and_is_read_back(served, controller):
    ids = controller.ids
    controller.write(
        ("INSERT", ids.station()),
        ("INSERT", ids.rule("02000000000a", "ffffffffffff", 10)),
        (
            "INSERT",
            ids.rule(
                "020000000000", "ff0000000000", 20, "mirror", 'params { param_id: 1 value: "\\1" }'
            ),
        ),
    )
    assert served.receive(1, FRAME) == [(2, FRAME)], "the mirror rule wins"
    found = controller.read(ids.entity("table_entry { table_id: $rules priority: 10 }"))
    assert [e.table_entry.priority for e in found] == [10]
    controller.write(("DELETE", ids.rule("020000000000", "ff0000000000", 20, "mirror")))
    assert served.receive(1, FRAME) == [], "the drop rule is left"


def test_default_entries_are_modified_and_reset_and_never_inserted(served, controller):
    ids = controller.ids
    default = "table_entry { table_id: $stations is_default_action: true %s }"
    send = "action { action { action_id: $send params { param_id: 1 value: '\\4' } } }"
    change = ids.entity(default % send)
    controller.write(("MODIFY", change))
    assert served.receive(1, FRAME) == [(4, FRAME)]
    assert controller.read(ids.entity(default % "")) == [change]
    assert controller.refused(("INSERT", change), ("DELETE", change)) == ["INVALID_ARGUMENT"] * 2
    controller.write(("MODIFY", ids.entity(default % "")))
    assert served.receive(1, FRAME) == []
    constant = ids.entity(
        "table_entry { table_id: $fixed is_default_action: true"
        " action { action { action_id: $NoAction } } }"
    )
    assert controller.refused(("MODIFY", constant)) == ["PERMISSION_DENIED"]


def test_const_entries_are_read_with_priorities_and_stay(controller):
    ids = controller.ids
    found = controller.read(ids.entity("table_entry { table_id: $fixed }"))
    assert [(e.table_entry.priority, e.table_entry.is_const) for e in found] == [
        (2, True),
        (1, True),
    ]
    assert controller.refused(("DELETE", found[0])) == ["PERMISSION_DENIED"]
    assert controller.read(ids.entity("table_entry { table_id: $fixed }")) == found


def test_reads_filter_and_wildcard(controller):
    ids = controller.ids
    controller.write(
        ("INSERT", ids.station("01", "01", "metadata: 'a'")),
        ("INSERT", ids.station("02", "02", "controller_metadata: 7")),
        ("INSERT", ids.rule("01", "ff", 1)),
    )

    def count(text: str) -> int:
        return len(controller.read(ids.entity(f"table_entry {{ {text} }}")))

    assert count("") == 5, "with the two const entries"
    assert count("table_id: $stations") == 2
    assert count("table_id: $stations metadata: 'a'") == 1
    assert count("table_id: $stations controller_metadata: 7") == 1
    assert count("table_id: $stations action { action { action_id: $send } }") == 2
    assert count("table_id: $stations action { action { action_id: $drop } }") == 0
    assert count("table_id: $stations match { field_id: 1 exact { value: '\\2' } }") == 1
    with pytest.raises(Failed, match="NOT_FOUND"):
        count("table_id: 77")
    assert controller.read(entity("table_entry {}"), entity("counter_entry {}"))


def test_a_read_gives_what_it_can_and_says_what_it_cannot(controller):
    ids = controller.ids
    controller.write(("INSERT", ids.station("01")), ("INSERT", ids.station("02")))
    asked = [
        ids.entity("table_entry { table_id: $stations }"),
        entity("table_entry { table_id: 77 }"),
        entity("counter_entry { counter_id: 5 }"),
        ids.entity("counter_entry { counter_id: $ports index { index: 2 } }"),
        p4runtime_pb2.Entity(),
    ]
    request = p4runtime_pb2.ReadRequest(device_id=1, entities=asked)
    found = []
    with pytest.raises(grpc.RpcError) as caught:
        for reply in controller._call("Read", "ReadResponse", "unary_stream")(request, timeout=10):
            found += reply.entities
    assert [e.WhichOneof("entity") for e in found] == ["table_entry"] * 2 + ["counter_entry"]
    failed = Failed(caught.value)
    assert failed.code == "UNKNOWN"
    assert failed.codes == ["OK", "NOT_FOUND", "NOT_FOUND", "OK", "INVALID_ARGUMENT"]


def test_everything_can_be_asked_for_at_once(controller):
    ids = controller.ids
    group = "packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 1 } }"
    session = "packet_replication_engine_entry { clone_session_entry { session_id: 1 } }"
    controller.write(
        ("INSERT", ids.station()),
        ("INSERT", ids.member(1, 1)),
        ("INSERT", ids.entity("action_profile_group { action_profile_id: $paths group_id: 1 }")),
        ("INSERT", entity(group)),
        ("INSERT", entity(session)),
        ("INSERT", ids.entity("digest_entry { digest_id: $learned_t }")),
    )
    kinds = {
        "extern_entry": 0,
        "table_entry": 3,
        "action_profile_member": 1,
        "action_profile_group": 1,
        "meter_entry": 4,
        "direct_meter_entry": 1,
        "counter_entry": 4,
        "direct_counter_entry": 1,
        "packet_replication_engine_entry": 2,
        "value_set_entry": 1,
        "register_entry": 20,
        "digest_entry": 1,
    }
    assert set(kinds) == {f.name for f in p4runtime_pb2.Entity.DESCRIPTOR.fields}
    found = controller.read(*(entity(f"{kind} {{}}") for kind in kinds))
    names = [e.WhichOneof("entity") for e in found]
    assert {kind: names.count(kind) for kind in kinds} == kinds
    with pytest.raises(Failed, match="NOT_FOUND"):
        controller.read(entity("extern_entry { extern_type_id: 129 }"))


def test_what_cannot_be_changed_reads_as_const(controller):
    ids = controller.ids
    default = "table_entry { table_id: $%s is_default_action: true }"
    names = ("stations", "fixed", "spread")
    found = [controller.read(ids.entity(default % name))[0].table_entry for name in names]
    assert [each.is_const for each in found] == [False, True, True]
    const = ids.station(more="is_const: true")
    controller.write(("INSERT", ids.station()))
    codes = controller.refused(*((kind, const) for kind in ("INSERT", "MODIFY", "DELETE")))
    assert codes == ["INVALID_ARGUMENT"] * 3


# ---- direct resources and arrays ----


def test_direct_counters_and_meters(served, controller):
    ids = controller.ids
    controller.write(("INSERT", ids.station(more="counter_data { packet_count: 40 }")))
    served.receive(1, FRAME)
    (count,) = controller.read(
        ids.entity("direct_counter_entry { table_entry { table_id: $stations } }")
    )
    assert count.direct_counter_entry.data.packet_count == 41
    key = "table_entry { table_id: $stations match { field_id: 1 exact { value: '\\2' } } }"
    rates = "config { cir: 1000 cburst: 10 pir: 2000 pburst: 20 }"
    meter = ids.entity(f"direct_meter_entry {{ {key} {rates} }}")
    controller.write(
        ("MODIFY", meter),
        ("MODIFY", ids.entity(f"direct_counter_entry {{ {key} data {{ packet_count: 3 }} }}")),
    )
    assert controller.read(ids.entity(f"direct_meter_entry {{ {key} }}")) == [meter]
    (found,) = controller.read(
        ids.entity("table_entry { table_id: $stations counter_data {} meter_config {} }")
    )
    assert found.table_entry.counter_data.packet_count == 3
    controller.write(("MODIFY", ids.entity(f"direct_counter_entry {{ {key} }}")))
    (count,) = controller.read(ids.entity(f"direct_counter_entry {{ {key} }}"))
    assert count.direct_counter_entry.data.packet_count == 3, "without data nothing changes"
    assert found.table_entry.meter_config.pir == 2000
    controller.write(("MODIFY", ids.entity(f"direct_meter_entry {{ {key} }}")))
    (found,) = controller.read(ids.entity("table_entry { table_id: $stations meter_config {} }"))
    assert not found.table_entry.HasField("meter_config")


def test_registers_are_read_and_written(served, controller):
    ids = controller.ids
    served.receive(3, FRAME)

    def read(name: str, index: int) -> Any:
        which = f"register_id: ${name} index {{ index: {index} }}"
        (found,) = controller.read(ids.entity(f"register_entry {{ {which} }}"))
        return found.register_entry.data

    assert read("words", 0).bitstring == b"\x08\x00"
    assert read("numbers", 0).bitstring == b"\xff\xfe", "two's complement"
    assert read("flags", 1).bool is True
    write = "register_entry { register_id: $%s index { index: %d } data { %s } }"
    controller.write(
        ("MODIFY", ids.entity(write % ("words", 7, "bitstring: '\\xde\\xad\\xbe\\xef'"))),
        ("MODIFY", ids.entity(write % ("numbers", 3, "bitstring: '\\xff\\xff'"))),
        ("MODIFY", ids.entity(write % ("flags", 2, "bool: true"))),
    )
    assert served.switch.register_read("words", 7, 1) == [0xDEADBEEF]
    assert served.switch.register_read("numbers", 3, 1) == [-1]
    assert read("flags", 2).bool is True
    assert len(controller.read(ids.entity("register_entry { register_id: $words }"))) == 8
    assert len(controller.read(entity("register_entry {}"))) == 20
    codes = controller.refused(
        ("MODIFY", ids.entity(write % ("words", 8, "bitstring: '\\1'"))),
        ("MODIFY", ids.entity(write % ("words", 1, "bitstring: '\\1\\1\\1\\1\\1'"))),
        ("MODIFY", ids.entity(write % ("words", 1, "bool: true"))),
        ("INSERT", ids.entity(write % ("words", 1, "bitstring: '\\1'"))),
        ("MODIFY", ids.entity("register_entry { register_id: 5 }")),
    )
    assert codes == [
        "OUT_OF_RANGE",
        "OUT_OF_RANGE",
        "INVALID_ARGUMENT",
        "INVALID_ARGUMENT",
        "NOT_FOUND",
    ]


def test_counters_and_meters_by_index(served, controller):
    ids = controller.ids
    served.receive(3, FRAME)
    (found,) = controller.read(
        ids.entity("counter_entry { counter_id: $ports index { index: 3 } }")
    )
    assert found.counter_entry.data.packet_count == 1
    assert found.counter_entry.data.byte_count == len(FRAME)
    config = "config { cir: 1 cburst: 1 pir: 5 pburst: 2 }"
    controller.write(
        (
            "MODIFY",
            ids.entity("counter_entry { counter_id: $ports data { byte_count: 9 } }"),
        ),
        ("MODIFY", ids.entity(f"meter_entry {{ meter_id: $speed index {{ index: 2 }} {config} }}")),
    )
    counts = controller.read(entity("counter_entry {}"))
    assert [e.counter_entry.data.byte_count for e in counts] == [9] * 4
    meters = controller.read(ids.entity("meter_entry { meter_id: $speed }"))
    assert [e.meter_entry.HasField("config") for e in meters] == [False, False, True, False]
    assert meters[2].meter_entry.config.pir == 5
    bad = "meter_entry { meter_id: $speed config { cir: 9 pir: 5 } }"
    assert controller.refused(("MODIFY", ids.entity(bad))) == ["INVALID_ARGUMENT"]
    at = "counter_entry { counter_id: $ports index { index: %d } }"
    controller.write(("MODIFY", ids.entity(at % 1)))
    controller.write(("MODIFY", ids.entity("counter_entry { counter_id: $ports }")))
    assert controller.read(entity("counter_entry {}")) == counts, "without data nothing changes"
    codes = controller.refused(("MODIFY", ids.entity(at % -1)), ("MODIFY", ids.entity(at % 4)))
    assert codes == ["INVALID_ARGUMENT", "OUT_OF_RANGE"]


def test_a_value_set_is_replaced_as_a_whole(served, controller):
    ids = controller.ids
    wanted = ids.entity(
        "value_set_entry { value_set_id: $special"
        " members { match { field_id: 1 exact { value: '\\x08\\x00' } } } }"
    )
    known = ids.entity(
        "table_entry { table_id: $rules priority: 1 match { field_id: 3 optional { value: '\\1' }"
        " } action { action { action_id: $drop } } }"
    )
    controller.write(("INSERT", ids.station()), ("INSERT", known))
    assert served.receive(1, FRAME) == [(2, FRAME)]
    controller.write(("MODIFY", wanted))
    assert served.receive(1, FRAME) == []
    assert controller.read(entity("value_set_entry {}")) == [wanted]
    controller.write(("MODIFY", ids.entity("value_set_entry { value_set_id: $special }")))
    assert served.receive(1, FRAME) == [(2, FRAME)]


# ---- action profiles ----


def ports_used(served: ServedSwitch) -> dict[int, int]:
    """The number of sources, of 200, that go to each port."""
    used: dict[int, int] = {}
    chance = random.Random(1)
    for _ in range(200):
        frame = FRAME[:6] + chance.randbytes(6) + FRAME[12:]
        for port, _ in served.receive(1, frame):
            used[port] = used.get(port, 0) + 1
    return used


def test_members_groups_and_weights(served, controller):
    ids = controller.ids
    group = (
        "action_profile_group { action_profile_id: $paths group_id: 5"
        " members { member_id: 70 weight: 1 } members { member_id: 71 weight: %d } }"
    )
    entry = ids.entity(
        "table_entry { table_id: $spread match { field_id: 1 exact { value: '\\x08\\x00' } }"
        " action { action_profile_group_id: 5 } }"
    )
    assert controller.refused(("INSERT", entry)) == ["NOT_FOUND"]
    controller.write(
        ("INSERT", ids.member(70, 1)),
        ("INSERT", ids.member(71, 2)),
        ("INSERT", ids.entity(group % 1)),
        ("INSERT", entry),
    )
    even = ports_used(served)
    assert set(even) == {1, 2}
    controller.write(("MODIFY", ids.entity(group % 9)))
    assert ports_used(served)[2] > even[2]
    controller.write(("MODIFY", ids.member(71, 4)))
    assert set(ports_used(served)) == {1, 4}, "all copies of a weighted member change"
    assert controller.read(ids.entity("table_entry { table_id: $spread }")) == [entry]
    assert controller.read(entity("action_profile_group {}")) == [ids.entity(group % 9)]
    assert (
        len(controller.read(ids.entity("action_profile_member { action_profile_id: $paths }"))) == 2
    )
    codes = controller.refused(
        ("DELETE", ids.member(70, 1)),
        ("DELETE", ids.entity(group % 1)),
        ("INSERT", ids.member(70, 1)),
    )
    assert codes == ["FAILED_PRECONDITION", "FAILED_PRECONDITION", "ALREADY_EXISTS"]
    controller.write(
        ("DELETE", entry),
        ("DELETE", ids.entity(group % 1)),
        ("DELETE", ids.member(70, 1)),
        ("DELETE", ids.member(71, 1)),
    )


def test_one_shots_come_and_go_with_their_entry(served, controller):
    ids = controller.ids
    text = (
        "table_entry { table_id: $spread match { field_id: 1 exact { value: '\\x08\\x00' } }"
        " action { action_profile_action_set {"
        " action_profile_actions { weight: 1 action { action_id: $send params { param_id: 1 value:"
        " '\\1' } } } action_profile_actions { weight: 3 action { action_id: $send params {"
        " param_id: 1 value: '\\%d' } } } } } }"
    )
    for round_ in range(40):  # more than the profile could hold if some were left behind
        controller.write(("INSERT", ids.entity(text % 3)))
        controller.write(("MODIFY", ids.entity(text % 4)))
        if round_ == 0:
            used = ports_used(served)
            assert set(used) == {1, 4} and used[4] > used[1]
            found = controller.read(ids.entity("table_entry { table_id: $spread }"))
            assert found == [ids.entity(text % 4)]
        controller.write(("DELETE", ids.entity(text % 4)))


def test_a_profile_without_selector_has_members_only(served, controller):
    ids = controller.ids
    entry = ids.entity(
        "table_entry { table_id: $chosen match { field_id: 1 exact { value: '\\x08\\x00' } }"
        " action { action_profile_member_id: 3 } }"
    )
    controller.write(("INSERT", ids.member(3, 3, "targets")), ("INSERT", entry))
    assert served.receive(1, FRAME) == [(3, FRAME)]
    group = ids.entity("action_profile_group { action_profile_id: $targets group_id: 1 }")
    assert controller.refused(("INSERT", group)) == ["INVALID_ARGUMENT"]


def test_profiles_and_groups_have_sizes(controller):
    ids = controller.ids
    members = [("INSERT", ids.member(n, 1, "targets")) for n in range(1, 10)]
    assert controller.refused(*members) == [*["OK"] * 8, "RESOURCE_EXHAUSTED"]
    group = (
        "action_profile_group { action_profile_id: $paths group_id: 5 max_size: %d"
        " members { member_id: 1 weight: %d } }"
    )
    controller.write(("INSERT", ids.member(1, 1)), ("INSERT", ids.entity(group % (3, 3))))
    codes = controller.refused(
        ("MODIFY", ids.entity(group % (3, 4))),
        ("MODIFY", ids.entity(group % (4, 1))),
        ("MODIFY", ids.entity(group % (3, 0))),
        ("MODIFY", ids.entity(group % (3, 2))),
    )
    assert codes == ["RESOURCE_EXHAUSTED", "INVALID_ARGUMENT", "INVALID_ARGUMENT", "OK"]


@pytest.mark.parametrize("by_members", [False, True])
def test_the_program_limits_the_size_of_groups(tmp_path, by_members):
    marks = "@max_group_size(4) "
    if by_members:
        marks += '@selector_size_semantics("sum_of_members") @max_member_weight(9) '
    program = tmp_path / "program.p4"
    program.write_text(PROGRAM.read_text().replace("action_selector(", marks + "action_selector("))
    made = ServedSwitch(program)
    with Controller(made.address) as controller:
        controller.arbitrate()
        ids = Ids(made.info)
        controller.write(*(("INSERT", ids.member(n, 1)) for n in (1, 2, 3)))
        group = "action_profile_group { action_profile_id: $paths group_id: %d max_size: %d %s }"
        weights = [(1, 0, (1,)), (2, 5, (1,)), (3, 4, (2, 2)), (4, 4, (2, 3)), (5, 2, (1, 1, 1))]
        weights.append((6, 4, (10,)))
        updates = []
        for number, size, each in weights:
            inside = " ".join(
                f"members {{ member_id: {n} weight: {w} }}" for n, w in enumerate(each, 1)
            )
            updates.append(("INSERT", ids.entity(group % (number, size, inside))))
        codes = controller.refused(*updates)
        full, bad = "RESOURCE_EXHAUSTED", "INVALID_ARGUMENT"
        if by_members:
            assert codes == [bad, bad, "OK", "OK", full, bad]
        else:
            assert codes == [bad, bad, "OK", full, full, full]
        actions = (
            "action_profile_actions { weight: 1 action { action_id: $send"
            " params { param_id: 1 value: '\\1' } } }"
        )
        text = (
            "table_entry { table_id: $spread match { field_id: 1 exact { value: '\\1' } }"
            " action { action_profile_action_set { %s } } }"
        )
        assert controller.refused(("INSERT", ids.entity(text % (actions * 5)))) == [bad]
        controller.write(("INSERT", ids.entity(text % (actions * 4))))
    made.close()


# ---- replication ----


def test_multicast_groups(served, controller):
    ids = controller.ids
    group = "packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 9 %s } }"
    ports = "replicas { egress_port: 1 instance: 1 } replicas { port: '\\3' instance: 2 }"
    flood = ids.entity(
        "table_entry { table_id: $stations is_default_action: true action { action {"
        " action_id: $multicast params { param_id: 1 value: '\\x09' } } } }"
    )
    controller.write(("INSERT", entity(group % ports)), ("MODIFY", flood))
    assert served.receive(2, FRAME) == [(1, FRAME), (3, FRAME)]
    controller.write(("MODIFY", entity(group % "replicas { port: '\\4' } metadata: 'm'")))
    assert served.receive(2, FRAME) == [(4, FRAME)]
    asked = "packet_replication_engine_entry { multicast_group_entry { } }"
    assert controller.read(entity(asked)) == [
        entity(group % "replicas { port: '\\4' } metadata: 'm'")
    ]
    codes = controller.refused(
        ("INSERT", entity(group % "")),
        ("MODIFY", entity(group % "replicas { port: '\\x99' }")),
        ("MODIFY", entity(group % (ports + ports))),
        ("MODIFY", entity(group.replace("9", "70000") % "")),
        ("MODIFY", entity(group % "replicas { port: '\\1' instance: 70000 }")),
    )
    assert codes == ["ALREADY_EXISTS", *["INVALID_ARGUMENT"] * 4]
    controller.write(("DELETE", entity(group % "")))
    assert served.receive(2, FRAME) == []


def test_clone_sessions(served, controller):
    ids = controller.ids
    session = "packet_replication_engine_entry { clone_session_entry { session_id: 7 %s } }"
    rule = ids.rule(
        "02000000000a", "ffffffffffff", 1, "mirror", "params { param_id: 1 value: '\\7' }"
    )
    controller.write(
        ("INSERT", ids.station()),
        ("INSERT", rule),
        ("INSERT", entity(session % "replicas { port: '\\3' }")),
    )
    assert sorted(served.receive(1, FRAME)) == [(2, FRAME), (3, FRAME)]
    two = "replicas { port: '\\3' instance: 1 } replicas { port: '\\4' instance: 2 }"
    controller.write(("MODIFY", entity(session % two)))
    assert sorted(served.receive(1, FRAME)) == [(2, FRAME), (3, FRAME), (4, FRAME)]
    asked = "packet_replication_engine_entry { clone_session_entry { } }"
    assert controller.read(entity(asked)) == [entity(session % two)]
    codes = controller.refused(
        ("MODIFY", entity(session % "class_of_service: 1")),
        ("MODIFY", entity(session % "packet_length_bytes: -64")),
    )
    assert codes == ["UNIMPLEMENTED", "INVALID_ARGUMENT"]
    short = entity(session % "replicas { port: '\\3' } packet_length_bytes: 17")
    controller.write(("MODIFY", short))
    assert sorted(served.receive(1, FRAME)) == [(2, FRAME), (3, FRAME[:17])]
    assert controller.read(entity(asked)) == [short]
    controller.write(("DELETE", entity(session % "")))
    assert served.receive(1, FRAME) == [(2, FRAME)]


# ---- packets and digests ----


def test_packets_go_out_and_come_in_with_metadata(served, controller):
    ids = controller.ids
    request = p4runtime_pb2.StreamMessageRequest()
    request.packet.payload = FRAME
    request.packet.metadata.add(metadata_id=1, value=b"\x03")
    served.out.clear()
    controller.send(request)
    punt = ids.entity(
        "table_entry { table_id: $stations is_default_action: true"
        " action { action { action_id: $to_controller } } }"
    )
    controller.write(("MODIFY", punt))
    # Nothing orders a stream's message and a call: the packet may still be on its way.
    served.wait_until(lambda: served.out)
    served.receive(4, FRAME)
    packet = controller.hear().packet
    assert packet.payload == FRAME
    assert {m.metadata_id: m.value for m in packet.metadata} == {1: b"\x04", 2: b"\x00"}
    assert served.out == [(3, FRAME)]
    request.packet.metadata[0].metadata_id = 5
    controller.send(request)
    error = controller.hear().error
    assert error.canonical_code == 3 and "no field 5" in error.message
    assert error.packet_out.packet_out == request.packet


def test_digests_come_in_lists_without_duplicates(served, controller):
    ids = controller.ids
    entry = "digest_entry { digest_id: $learned_t %s }"
    config = (
        "config { max_list_size: 2 max_timeout_ns: 3600000000000 ack_timeout_ns: 3600000000000 }"
    )
    rule = ids.rule("020000000000", "ff0000000000", 1, "learn")
    controller.write(("INSERT", ids.entity(entry % config)), ("INSERT", rule))
    for source in (1, 1, 2, 1, 2):
        served.receive(3, FRAME[:6] + b"\2\0\0\0\0" + bytes([source]) + FRAME[12:])
    digest = controller.hear().digest
    assert [
        (m.struct.members[0].bitstring, m.struct.members[1].bitstring, m.struct.members[2].bool)
        for m in digest.data
    ] == [(b"\2\0\0\0\0\1", b"\3", True), (b"\2\0\0\0\0\2", b"\3", True)]
    assert controller.read(entity("digest_entry {}")) == [ids.entity(entry % config)]
    ack = p4runtime_pb2.StreamMessageRequest()
    ack.digest_ack.digest_id, ack.digest_ack.list_id = digest.digest_id, digest.list_id
    controller.send(ack)
    wrong = p4runtime_pb2.StreamMessageRequest()
    wrong.digest_ack.digest_id = 7
    controller.send(wrong)
    error = controller.hear().error
    assert error.canonical_code == 3
    assert error.digest_list_ack.digest_list_ack == wrong.digest_ack
    at_once = "config { max_list_size: 1 }"
    controller.write(("MODIFY", ids.entity(entry % at_once)))
    served.receive(3, FRAME[:6] + b"\2\0\0\0\0\1" + FRAME[12:])
    assert controller.hear().digest.data[0].struct.members[0].bitstring == b"\2\0\0\0\0\1"
    controller.write(("DELETE", ids.entity(entry % "")))
    assert controller.refused(("DELETE", ids.entity(entry % ""))) == ["NOT_FOUND"]


# ---- the pipeline ----


def test_the_configuration_is_what_runs(served, controller):
    config = controller.get_config()
    assert config.p4info.SerializeToString(deterministic=True) == served.info.SerializeToString(
        deterministic=True
    )
    controller.write(("INSERT", controller.ids.station()))
    controller.set_config("VERIFY", served.info)
    controller.set_config("RECONCILE_AND_COMMIT", served.info, cookie=55)
    assert controller.get_config().cookie.cookie == 55
    assert len(controller.read(controller.ids.entity("table_entry { table_id: $stations }"))) == 1
    served.switch.register_write("words", 2, 9)
    controller.set_config("VERIFY_AND_SAVE", served.info)
    controller.set_config("COMMIT")
    assert controller.read(controller.ids.entity("table_entry { table_id: $stations }")) == []
    assert served.switch.register_read("words", 2, 1) == [0]
    other = type(served.info).FromString(served.info.SerializeToString())
    other.tables[0].size += 1
    for action, info, code in (
        ("VERIFY", other, "INVALID_ARGUMENT"),
        ("VERIFY", None, "INVALID_ARGUMENT"),
        ("COMMIT", None, "NOT_FOUND"),
        ("UNSPECIFIED", served.info, "INVALID_ARGUMENT"),
    ):
        with pytest.raises(Failed, match=code):
            controller.set_config(action, info)


def test_parts_of_the_configuration_are_read(served, controller):
    controller.set_config("VERIFY_AND_COMMIT", served.info, cookie=5, device=b"{}")
    name = "GetForwardingPipelineConfig"
    request = p4runtime_pb2.GetForwardingPipelineConfigRequest(device_id=1)
    parts = {
        "ALL": {"p4info", "p4_device_config", "cookie"},
        "COOKIE_ONLY": {"cookie"},
        "P4INFO_AND_COOKIE": {"p4info", "cookie"},
        "DEVICE_CONFIG_AND_COOKIE": {"p4_device_config", "cookie"},
    }
    for kind, expected in parts.items():
        request.response_type = request.ResponseType.Value(kind)
        config = controller.raw(name, request, f"{name}Response").config
        assert {field.name for field, _ in config.ListFields()} == expected, kind
    request.device_id = 2
    with pytest.raises(Failed, match="NOT_FOUND"):
        controller.raw(name, request, f"{name}Response")


# ---- controllers ----


def test_the_largest_election_id_is_primary(served):
    def status(made: Controller, **of: int) -> tuple[int, int]:
        heard = made.hear().arbitration if not of else made.arbitrate(**of)
        return heard.status.code, heard.election_id.low

    with Controller(served.address) as watch:
        highest = watch.arbitrate(0).election_id.low
    low, high = highest + 10, highest + 20
    with Controller(served.address) as first, Controller(served.address) as second:
        assert status(first, election=low) == (0, low)
        assert status(second, election=high) == (0, high)
        assert status(first) == (6, high), "it hears that another is primary"
        ids = Ids(served.info)
        with pytest.raises(Failed, match="PERMISSION_DENIED"):
            first.write(("INSERT", ids.station()))
        first.election = high  # claims another's id, which nothing proves: as specified
        second.write(("INSERT", ids.station()), ("DELETE", ids.station()))
        with Controller(served.address) as third, pytest.raises(Failed, match="INVALID_ARGUMENT"):
            third.arbitrate(high)
        second.close()
        assert status(first) == (5, high), "nobody is primary"
        with pytest.raises(Failed, match="PERMISSION_DENIED"):
            first.write(("INSERT", ids.station()))
        with Controller(served.address, election=None) as reader:
            assert reader.arbitrate().status.code == 5
            assert reader.read(entity("table_entry {}"))
        assert status(first, election=high) == (0, high)


def test_an_election_id_is_free_once_its_controller_has_left(served):
    with Controller(served.address) as watch:
        election = watch.arbitrate(0).election_id.low + 1
    for _ in range(5):
        with Controller(served.address) as made:
            assert made.arbitrate(election).status.code == 0
        assert not served.service.arbitration.role_of


def test_roles_elect_apart_and_devices_are_checked(served):
    with Controller(served.address, role="other") as made:
        assert made.arbitrate(1).status.code == 0
        made.write(("INSERT", Ids(served.info).station("55")))
        made.write(("DELETE", Ids(served.info).station("55")))
    with Controller(served.address) as made, pytest.raises(Failed, match="NOT_FOUND"):
        made.arbitrate(1, device=2)
    with Controller(served.address, role="limited") as made:
        request = p4runtime_pb2.StreamMessageRequest()
        request.arbitration.device_id, request.arbitration.role.name = 1, "limited"
        request.arbitration.role.config.type_url = "type.googleapis.com/of.another.Scheme"
        made.send(request)
        with pytest.raises(Failed, match="INVALID_ARGUMENT.*role"):
            made.hear()
    with Controller(served.address) as made:
        with pytest.raises(Failed, match="NOT_FOUND"):
            made.read(entity("table_entry {}"), device=3)
        request = p4runtime_pb2.StreamMessageRequest()
        request.packet.payload = FRAME
        made.send(request)
        assert made.hear().error.canonical_code == 7, "a packet before any arbitration"


def test_unimplemented_things_say_so(controller):
    with pytest.raises(Failed, match="INVALID_ARGUMENT"):
        controller.write(("INSERT", controller.ids.station()), atomicity=3)
    ids = controller.ids
    controller.write(("INSERT", ids.member(1, 1)))
    group = (
        "action_profile_group { action_profile_id: $paths group_id: 1"
        " members { member_id: 1 weight: 1 %s } }"
    )
    one_shot = (
        "table_entry { table_id: $spread match { field_id: 1 exact { value: '\\1' } }"
        " action { action_profile_action_set { %s action_profile_actions { weight: 1 %s"
        " action { action_id: $drop } } } } }"
    )
    replica = "replicas { port: '\\1' backup_replicas { port: '\\2' } }"
    multicast = f"multicast_group_entry {{ multicast_group_id: 1 {replica} }}"
    texts = (
        "extern_entry {}",
        group % "watch_port: '\\1'",
        group % "watch: 1",
        one_shot % ("", "watch_port: '\\1'"),
        one_shot % ("", "watch: 1"),
        one_shot % ("action_selection_mode: HASH", ""),
        one_shot % ("size_semantics: SUM_OF_WEIGHTS", ""),
        one_shot % ("group_action { action_id: 1 }", ""),
        f"packet_replication_engine_entry {{ {multicast} }}",
    )
    updates = [("INSERT", ids.entity(text)) for text in texts]
    assert controller.refused(*updates) == ["UNIMPLEMENTED"] * len(texts)
    request = p4runtime_pb2.StreamMessageRequest()
    request.other.type_url = "type.googleapis.com/of.another.Scheme"
    controller.send(request)
    error = controller.hear().error
    assert (error.canonical_code, error.WhichOneof("details")) == (12, "other")
    reply = controller.raw(
        "Capabilities", p4runtime_pb2.CapabilitiesRequest(), "CapabilitiesResponse"
    )
    assert reply.p4runtime_api_version.startswith("1.")
    with pytest.raises(Failed, match="NOT_FOUND"):
        of_another = p4runtime_pb2.CapabilitiesRequest(device_id=7)
        controller.raw("Capabilities", of_another, "CapabilitiesResponse")


def test_controllers_and_roles_are_limited():
    elections = Arbitration(1)

    def ask(stream: object, role: str = "", election: int | None = None) -> None:
        message = p4runtime_pb2.MasterArbitrationUpdate(device_id=1)
        if role:
            message.role.name = role
        if election is not None:
            message.election_id.high = election
        elections.update(stream, message)

    for number in range(MAX_CONTROLLERS):
        ask(number, election=number)
    with pytest.raises(Refused, match="controllers are connected"):
        ask("one more")
    elections.leave(0)
    ask("one more")
    for number in range(1, MAX_ROLES):
        ask(f"of role {number}", role=f"role {number}")
    with pytest.raises(Refused, match="roles are known"):
        ask("another role", role="another role")
    assert elections.primary() == MAX_CONTROLLERS - 1


# ---- nonsense ----


def test_garbage_harms_nothing(served, controller, capfd):
    ids = controller.ids
    controller.write(("INSERT", ids.station()))
    before = controller.read(entity("table_entry {}"))
    chance = random.Random(7)
    valid = p4runtime_pb2.WriteRequest(device_id=1)
    valid.election_id.low = controller.election
    for each in (ids.rule("01", "ff", 5), ids.station("03")):
        valid.updates.add(type=2).entity.CopyFrom(each)  # MODIFY of what does not exist
    good = valid.SerializeToString()
    names = {"Write": "WriteResponse", "SetForwardingPipelineConfig": "WriteResponse"}
    for round_ in range(90):
        data = bytearray(good)
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if round_ % 3 == 0:
            data = data[: chance.randrange(len(data))]
        if round_ % 10 == 0:
            data = bytearray(chance.randbytes(chance.randrange(200)))
        for name, reply in names.items():
            try:
                controller.raw(name, bytes(data), reply)
            except Failed as failed:
                assert failed.code not in ("DEADLINE_EXCEEDED", "INTERNAL", "UNAVAILABLE")
                assert "INTERNAL" not in failed.codes, failed.texts
    with pytest.raises(Failed):
        controller.raw("Write", bytes(40 << 20), "WriteResponse")
    stream = controller._call("StreamChannel", "StreamMessageResponse", "stream_stream")
    with pytest.raises(grpc.RpcError) as caught:
        next(stream(iter([b"\xff\xff\xff"]), timeout=5))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "Traceback" not in capfd.readouterr().err
    left = controller.read(entity("table_entry {}"))
    assert [e for e in left if e in before] == before
    assert served.receive(1, FRAME) == [(2, FRAME)]
