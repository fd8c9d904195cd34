"""SetForwardingPipelineConfig over gRPC: configurations of other switches, and programs to load."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from p4engine.p4runtime.device_config import encode, source_of, unwrapped, wrapped
from p4engine.p4runtime.p4info import p4info
from p4engine.p4runtime.proto import p4runtime_pb2
from p4engine.p4runtime.status import Refused
from p4engine_testing.controller import PROGRAM, Controller, Failed, entity

FRAME = bytes.fromhex("000000000002 02000000000a 0800") + b"payload"
BMV2 = json.dumps({"program": "x.p4", "tables": [], "__meta__": {"version": [2, 23]}}).encode()
DROP = "action drop() { mark_to_drop(standard); }"
# The same objects; what nothing matches leaves through port 4 instead of being dropped.
ELSEWHERE = PROGRAM.read_text().replace(DROP, "action drop() { standard.egress_spec = 4; }")
RENAMED = ELSEWHERE.replace("stations", "neighbours")


def info_of(text: str, folder) -> object:
    path = folder / "other.p4"
    path.write_text(text)
    return p4info(path)


def entries(controller: Controller) -> int:
    return len(controller.read(entity("table_entry {}")))


def station(info, port: int):
    table = next(t.preamble.id for t in info.tables if t.preamble.alias == "stations")
    send = next(a.preamble.id for a in info.actions if a.preamble.alias == "send")
    match = "match { field_id: 1 exact { value: '\\2' } }"
    action = f"action {{ action_id: {send} params {{ param_id: 1 value: '\\{port}' }} }}"
    return entity(f"table_entry {{ table_id: {table} {match} action {{ {action} }} }}")


def test_a_configuration_for_another_switch_is_accepted_and_not_loaded(served, controller):
    for data in (BMV2, wrapped(BMV2), b"\x00\xff\x13binary", wrapped(b"\x00\x01")):
        controller.write(("INSERT", station(served.info, 3)))
        assert served.receive(1, FRAME) == [(3, FRAME)]
        controller.set_config("VERIFY", served.info, device=data)
        assert served.receive(1, FRAME) == [(3, FRAME)], "VERIFY changes nothing"
        controller.set_config("VERIFY_AND_COMMIT", served.info, device=data)
        assert served.receive(1, FRAME) == []
        assert controller.get_config().p4_device_config == data, "what is set is read"
        assert "stays" in served.log.pop() and not served.log


def test_a_p4info_that_does_not_fit_is_refused_with_the_first_difference(served, controller):
    def refuse(change) -> str:
        other = type(served.info).FromString(served.info.SerializeToString())
        change(other)
        with pytest.raises(Failed, match="INVALID_ARGUMENT") as caught:
            controller.set_config("VERIFY_AND_COMMIT", other, device=BMV2)
        return str(caught.value)

    stations = next(i for i, t in enumerate(served.info.tables) if t.preamble.alias == "stations")
    text = refuse(lambda o: setattr(o.tables[stations], "size", 17))
    assert "MyIngress.stations" in text and "size is 17, not 16" in text
    assert "p4runtime.p4" in text, "the program that runs is named"
    text = refuse(lambda o: o.tables.pop(stations))
    assert "MyIngress.stations" in text and "is missing" in text
    text = refuse(lambda o: setattr(o.tables[stations].preamble, "id", 0x02000007))
    assert "MyIngress.stations" in text
    text = refuse(lambda o: setattr(o.tables[stations].match_fields[0], "bitwidth", 32))
    assert "match_fields hdr.ethernet.destination: bitwidth is 32, not 48" in text
    text = refuse(lambda o: o.actions.add().preamble.MergeFromString(b"\x08\x07\x12\x01n"))
    assert "the program has no n (0x00000007)" in text
    text = refuse(lambda o: o.registers[0].type_spec.error.SetInParent())
    assert "type_spec" in text
    text = refuse(lambda o: o.Clear())
    assert "is missing" in text


def test_what_is_only_for_people_may_differ(served, controller):
    other = type(served.info).FromString(served.info.SerializeToString())
    other.pkg_info.name = "another name"
    for table in other.tables:
        table.preamble.annotations.append("@seen")
        table.preamble.alias += "_alias"
        table.ClearField("initial_default_action")
    tables = sorted(other.tables, key=lambda t: -t.preamble.id)
    del other.tables[:]
    other.tables.extend(tables)
    controller.set_config("VERIFY_AND_COMMIT", other, device=BMV2)


@pytest.mark.parametrize("wrap", [bytes, wrapped], ids=["bare", "wrapped"])
def test_a_program_in_the_configuration_runs_instead(served, controller, wrap):
    controller.write(("INSERT", station(served.info, 3)))
    data = wrap(ELSEWHERE.encode())
    controller.set_config("VERIFY", served.info, device=data)
    assert served.receive(1, FRAME) == [(3, FRAME)]
    controller.set_config("VERIFY_AND_COMMIT", served.info, device=data, cookie=7)
    config = controller.get_config()
    assert (config.p4_device_config, config.cookie.cookie) == (data, 7)
    assert served.receive(1, FRAME) == [(4, FRAME)], "the new program's default, no old entry"
    assert served.switch.counter_read("ports", 1) == {"packets": 1, "bytes": len(FRAME)}
    controller.write(("INSERT", station(served.info, 2)))
    assert served.receive(1, FRAME) == [(2, FRAME)]
    assert "program.p4 runs instead of p4runtime.p4" in served.log


def test_a_program_with_other_objects_brings_its_p4info(served, controller, tmp_path):
    info = info_of(RENAMED, tmp_path)
    with pytest.raises(Failed, match="INVALID_ARGUMENT.*MyIngress.neighbours"):
        controller.set_config("VERIFY_AND_COMMIT", served.info, device=RENAMED.encode())
    controller.set_config("VERIFY_AND_COMMIT", info, device=RENAMED.encode())
    names = {t.preamble.name for t in controller.get_config().p4info.tables}
    assert "MyIngress.neighbours" in names and "MyIngress.stations" not in names
    with pytest.raises(Failed):
        controller.write(("INSERT", station(served.info, 3)))
    (table,) = (t for t in info.tables if t.preamble.alias == "neighbours")
    update = station(served.info, 3)
    update.table_entry.table_id = table.preamble.id
    controller.write(("INSERT", update))
    assert served.receive(1, FRAME) == [(3, FRAME)]


def test_controllers_packets_and_digests_go_on_with_the_new_program(served, controller):
    controller.set_config("VERIFY_AND_COMMIT", served.info, device=ELSEWHERE.encode())
    request = p4runtime_pb2.StreamMessageRequest()
    request.packet.payload = FRAME
    request.packet.metadata.add(metadata_id=1, value=b"\x03")
    controller.send(request)
    served.wait_until(lambda: served.out)
    assert served.out == [(3, FRAME)]
    ids = {a.preamble.alias: a.preamble.id for a in served.info.actions}
    rules = next(t.preamble.id for t in served.info.tables if t.preamble.alias == "rules")
    digest = served.info.digests[0].preamble.id
    controller.write(
        ("INSERT", entity(f"digest_entry {{ digest_id: {digest} config {{ max_list_size: 1 }} }}")),
        (
            "INSERT",
            entity(
                f"table_entry {{ table_id: {rules} priority: 1"
                f" action {{ action {{ action_id: {ids['learn']} }} }} }}"
            ),
        ),
    )
    served.receive(1, FRAME)
    (data,) = controller.hear().digest.data
    assert data.struct.members[0].bitstring == FRAME[6:12]


def test_errors_of_a_program_come_back_and_the_old_one_stays(served, controller):
    controller.write(("INSERT", station(served.info, 3)))
    wrong = ELSEWHERE.replace("bit<2> color;", "bit<2> colour;")
    for action in ("VERIFY", "VERIFY_AND_SAVE", "VERIFY_AND_COMMIT", "RECONCILE_AND_COMMIT"):
        with pytest.raises(Failed, match="INVALID_ARGUMENT") as caught:
            controller.set_config(action, served.info, device=wrong.encode())
        text = str(caught.value)
        assert "program.p4:" in text and "color" in text, text
        assert "/tmp" not in text
    many = ELSEWHERE.replace("apply {", "apply { " + "nothing_of_this_name = 1;\n" * 100)
    with pytest.raises(Failed, match="(?s)INVALID_ARGUMENT.*and more"):
        controller.set_config("VERIFY", served.info, device=many.encode())
    with pytest.raises(Failed, match="NOT_FOUND"):
        controller.set_config("COMMIT")
    assert served.receive(1, FRAME) == [(3, FRAME)]
    assert controller.get_config().p4_device_config == b""


def test_a_program_is_saved_first_and_committed_later(served, controller):
    controller.write(("INSERT", station(served.info, 3)))
    controller.set_config("VERIFY_AND_SAVE", served.info, device=ELSEWHERE.encode(), cookie=3)
    assert served.receive(1, FRAME) == [(3, FRAME)]
    controller.set_config("COMMIT")
    assert served.receive(1, FRAME) == [(4, FRAME)]
    assert controller.get_config().cookie.cookie == 3
    with pytest.raises(Failed, match="NOT_FOUND"):
        controller.set_config("COMMIT")


def test_reconciling_keeps_the_entries_of_the_same_program_only(served, controller):
    controller.set_config("VERIFY_AND_COMMIT", served.info, device=ELSEWHERE.encode())
    controller.write(("INSERT", station(served.info, 3)))
    before = entries(controller)
    again = wrapped(ELSEWHERE.encode())
    controller.set_config("RECONCILE_AND_COMMIT", served.info, device=again, cookie=9)
    assert entries(controller) == before
    assert controller.get_config().cookie.cookie == 9
    with pytest.raises(Failed, match="INVALID_ARGUMENT.*VERIFY_AND_COMMIT"):
        controller.set_config("RECONCILE_AND_COMMIT", served.info, device=encode(PROGRAM))
    assert entries(controller) == before


def test_groups_and_sessions_of_controllers_go_with_the_program(served, controller):
    group = "packet_replication_engine_entry { multicast_group_entry { multicast_group_id: 9"
    controller.write(("INSERT", entity(group + " replicas { port: '\\1' } } }")))
    controller.set_config("VERIFY_AND_COMMIT", served.info, device=ELSEWHERE.encode())
    assert controller.read(entity(group.replace(" multicast_group_id: 9", "") + "} }")) == []


# ---- the bundle ----


def test_a_bundle_has_all_files_of_the_author_and_is_the_same_program(tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "shared").mkdir()
    text = PROGRAM.read_text()
    head, _, rest = text.partition("struct headers_t")
    includes, _, types = head.partition("typedef")
    (tmp_path / "shared/types.p4").write_text("typedef" + types)
    main = tmp_path / "app/main.p4"
    main.write_text(includes + '#include "types.p4"\n#include "rest.p4"\n')
    (tmp_path / "app/rest.p4").write_text("struct headers_t" + rest.replace("size = 16", "size=N"))
    arguments = (main, {"N": 16}, [tmp_path / "shared", tmp_path / "app"])
    data = encode(*arguments)
    bundle = json.loads(data)["p4engine"]
    assert set(bundle["files"]) == {"app/main.p4", "app/rest.p4", "shared/types.p4"}
    from p4engine import compile_program

    compiled, info = source_of(wrapped(data)).compile(trace=False)
    assert compiled.hash == compile_program(*arguments).hash
    assert info == p4info(*arguments)


def test_the_command_writes_a_bundle(tmp_path):
    command = [sys.executable, "-m", "p4engine", "p4info", str(PROGRAM), "-o", "out.txt"]
    subprocess.run([*command, "--device-config", "out.json"], cwd=tmp_path, check=True)
    assert (tmp_path / "out.json").read_bytes() == encode(PROGRAM)
    assert "MyIngress.stations" in (tmp_path / "out.txt").read_text()


def test_a_program_reads_no_files_of_the_switchs_machine(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret = 1;")
    for include in (f'"{secret}"', f'"../{tmp_path.name}/secret.txt"', f"<{secret}>"):
        text = f"#include {include}\n{ELSEWHERE}"
        from p4engine.frontend.diagnostics import P4Error

        with pytest.raises(P4Error) as caught:
            source_of(text.encode()).compile(trace=False)
        assert "cannot find the include file" in str(caught.value)
        assert "secret =" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"main": "missing.p4"},
        {"files": {"../a.p4": "x"}, "main": "../a.p4"},
        {"files": {"/a.p4": "x"}, "main": "/a.p4"},
        {"files": ["main.p4"]},
        {"include": ["../.."]},
        {"include": "lib"},
        {"defines": {"A": 1}},
    ],
    ids=str,
)
def test_a_damaged_bundle_is_refused(change):
    bundle = {"format": 1, "main": "main.p4", "files": {"main.p4": ELSEWHERE}}
    assert source_of(json.dumps({"p4engine": bundle}).encode()) is not None
    with pytest.raises(Refused):
        source_of(json.dumps({"p4engine": bundle | change}).encode())


def test_the_tutorials_wrapper_is_told_from_other_data():
    assert unwrapped(wrapped(b"x" * 1000)) == b"x" * 1000
    extras = b"\x12\x07\x0a\x05\x0a\x01a\x12\x00"  # a map entry
    assert unwrapped(extras + wrapped(b"data")) == b"data"
    for other in (
        b"",
        b"{}",
        ELSEWHERE.encode(),
        b"\x08\x01",
        b"\x1a\xff",
        b"\x1a\x05abc",
        b"\xff",
    ):
        assert unwrapped(other) == other
