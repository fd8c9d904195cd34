"""BMv2's text commands through the control socket, and what packets then meet."""

from __future__ import annotations

import threading

import pytest
from p4engine.control.client import CallError, Client
from p4engine.control.commands import CommandError, Commands
from p4engine.control.server import Server
from p4engine.switch.library import CALLS, Switch
from p4engine_testing.programs import send, source, words
from p4engine_testing.programs import switch as switch_of

from p4engine import compile_program

MS = 1_000_000
PROGRAM = source(
    parser=(
        "value_set<bit<32>>(4) special; state start { packet.extract(hdr.h);"
        " transition select(hdr.h.b) { special: marked; default: accept; } }"
        " state marked { meta.unused = 1; transition accept; }"
    ),
    locals=(
        "register<bit<32>>(4) seen; counter(4, CounterType.packets) hits;"
        " meter(4, MeterType.packets) m; direct_counter(CounterType.packets) aged_hits;"
        " action_profile(8) ap; action_selector(HashAlgorithm.identity, 8, 8) sel;"
        " action set(bit<32> v) { hdr.h.c = v; } action to(bit<9> port) { standard.egress_spec ="
        " port; } action copies(bit<16> group) { standard.mcast_grp = group; }"
        " action twin(bit<32> session) { clone(CloneType.I2E, session); }"
        " table aged { key = { hdr.h.a: exact; } actions = { set; copies; twin; NoAction; }"
        " default_action = NoAction; support_timeout = true; counters = aged_hits; }"
        " table wide { key = { hdr.h.a: ternary; hdr.h.b: range; hdr.h.c: lpm; hdr.h.a: optional"
        ' @name("any"); } actions = { set; NoAction; } }'
        " table given { key = { hdr.h.b: exact; } actions = { set; NoAction; }"
        " entries = { 70: set(71); } default_action = set(7); }"
        " table fixed { key = { hdr.h.b: exact; } actions = { set; NoAction; }"
        " const entries = { 80: set(81); } default_action = NoAction; }"
        " table indirect { key = { hdr.h.a: exact; } actions = { set; to; NoAction; }"
        " implementation = ap; }"
        " table chosen { key = { hdr.h.a: exact; hdr.h.b: selector; } actions = { to; NoAction; }"
        " implementation = sel; }"
    ),
    apply=(
        "bit<32> n; seen.read(n, 0); seen.write(0, n + 1); hits.count(1); bit<2> colour;"
        " m.execute_meter(0, colour);"
        " if (meta.unused == 1) { hdr.h.c = 99; }"
        " else if (hdr.h.a == 1000) { given.apply(); fixed.apply(); }"
        " else { aged.apply(); indirect.apply(); chosen.apply(); wide.apply(); }"
    ),
)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("p4") / "commands.p4"
    path.write_text(PROGRAM)
    return compile_program(path)


@pytest.fixture
def switch(compiled):
    made = Switch(compiled, ports=range(16), priority_queues=2)
    yield made
    made.close()


@pytest.fixture
def run(switch, tmp_path):
    """Runs command lines on `switch`, each with a client of its own; gives what the last one
    prints."""
    server = Server(tmp_path / "control.sock", {name: getattr(switch, name) for name in CALLS})
    thread = threading.Thread(target=server.run)
    thread.start()

    def run_lines(*lines: str) -> str | None:
        said = None
        for line in lines:
            with Client(tmp_path / "control.sock") as client:
                said = Commands(client).run(line)
        return said

    yield run_lines
    server.stop()
    thread.join()
    server.close()


def c_of(switch: Switch, a: int, b: int = 0, now_ns: int = 0) -> list[tuple[int, int]]:
    """(port, hdr.h.c) of what leaves for a packet."""
    return [
        (port, int.from_bytes(data[8:12], "big"))
        for port, data in send(switch, words(a, b, 0), now_ns=now_ns)
    ]


# ---- tables ----


def test_entries(switch, run):
    assert run("table_add aged set 5 => 50") == "entry 0 added to MyIngress.aged"
    assert c_of(switch, 5) == [(1, 50)]
    run("table_modify aged set 0 => 51", "table_modify aged set 0 52")
    assert c_of(switch, 5) == [(1, 52)]
    assert run("table_num_entries aged") == "1"
    assert run("table_dump_entry aged 0").startswith("entry 0: 0x5 => MyIngress.set 52\n")
    run("table_delete aged 0")
    assert c_of(switch, 5) == [(1, 0)]
    with pytest.raises(CallError, match="no such entry"):
        run("table_dump_entry aged 0")
    run("table_add aged set 5 => 1", "table_add aged set 6 => 1", "table_clear aged")
    assert run("table_num_entries aged") == "0"


def test_an_entry_by_its_key_in_every_kind_of_match(run):
    key = "0x5&&&0xff 0x10->0x20 10.0.0.0/8 0x7"
    run(f"table_add wide set {key} => 1 10", f"table_add wide set {key} => 2 11")
    run("table_add wide NoAction 0&&&0 0->0xffffffff 0/0 0&&&0 => 12")
    one = f"entry 1: {key} => MyIngress.set 2, priority 11"
    assert run(f"table_dump_entry_from_key wide {key} 11") == one
    assert run("table_dump wide").splitlines() == [
        f"entry 0: {key} => MyIngress.set 1, priority 10",
        one,
        "entry 2: 0x0&&&0x0 0x0->0xffffffff 0.0.0.0/0 0x0&&&0x0 => NoAction, priority 12",
        "default: => NoAction",
    ]
    for line in run("table_dump wide").splitlines()[:3]:  # what is printed can be given again
        match, _, rest = line.partition(": ")[2].partition(" => ")
        found = run(f"table_dump_entry_from_key wide {match} {rest.rpartition(' ')[2]}")
        assert found == line
    with pytest.raises(CallError, match="no such entry"):
        run(f"table_dump_entry_from_key wide {key} 13")
    with pytest.raises(CommandError, match="4 keys .* 3 values"):
        run("table_dump_entry_from_key wide 1 2 3 11")


def test_addresses_are_printed_as_addresses(tmp_path):
    addressed = switch_of(
        tmp_path,
        headers="header h_t { bit<48> a; bit<32> b; bit<32> c; } struct headers_t { h_t h; }",
        locals=(
            " action to(bit<48> mac, bit<9> port) { hdr.h.a = mac; standard.egress_spec = port; }"
            " action_profile(4) ap;"
            " table t { key = { hdr.h.a: exact; hdr.h.b: lpm; } actions = { to; NoAction; } }"
            " table u { key = { hdr.h.a: ternary; } actions = { to; NoAction; }"
            " implementation = ap; }"
        ),
        apply="t.apply(); u.apply();",
    )
    run = Commands(addressed).run
    entry = "00:00:0a:00:00:01 10.0.0.0/8 => MyIngress.to 00:04:00:00:00:02"
    run(f"table_add t to {entry.replace('MyIngress.to ', '')} 3")
    assert run("table_dump t").splitlines()[0] == f"entry 0: {entry} 3"
    run("act_prof_create_member ap to 00:04:00:00:00:05 1")
    assert run("act_prof_dump ap") == "member 0: MyIngress.to 00:04:00:00:00:05 1"
    run("table_indirect_add u 00:00:00:00:00:00&&&01:00:00:00:00:00 => 0 1")
    assert "00:00:00:00:00:00&&&01:00:00:00:00:00 => member 0" in run("table_dump u")


def test_default_entries(switch, run):
    run("table_set_default given set 8")
    assert c_of(switch, 1000) == [(1, 8)]
    assert run("table_dump given").splitlines()[-1] == "default: => MyIngress.set 8"
    run("table_reset_default given")
    assert c_of(switch, 1000) == [(1, 7)]


def test_idle_timeouts(switch, run):
    run("table_add aged set 5 => 50", "table_set_timeout aged 0 200")
    c_of(switch, 5, now_ns=2_000 * MS)
    switch.advance(5_007 * MS)
    said = run("table_dump_entry aged 0").splitlines()[1]
    assert said == "idle timeout: 200 ms, 3007 ms since the last hit"
    assert switch.pipeline.table_idle("aged")[0] == [0]
    run("table_set_timeout aged 0 0")
    assert "idle timeout: none" in run("table_dump_entry aged 0")
    with pytest.raises(CommandError, match=r"given has no idle timeouts: support_timeout"):
        run("table_set_timeout given 0 5")
    with pytest.raises(CommandError, match="not negative"):
        run("table_set_timeout aged 0 -1")


def test_what_the_program_has(run):
    tables = run("show_tables").splitlines()
    assert [line.split()[0].rpartition(".")[2] for line in tables] == [
        *("aged", "chosen", "fixed", "given", "indirect", "wide")
    ]
    assert tables[1] == (
        "MyIngress.chosen [implementation=MyIngress.sel,"
        " keys: hdr.h.a(exact, 32), hdr.h.b(selector, 32)]"
    )
    actions = ["MyIngress.set [v(32)]", "MyIngress.to [port(9)]", "NoAction []"]
    assert run("table_show_actions indirect").splitlines() == actions
    assert run("table_info indirect").splitlines()[1:] == actions
    assert set(run("show_actions").splitlines()) == {
        *actions,
        "MyIngress.copies [group(16)]",
        "MyIngress.twin [session(32)]",
    }


# ---- action profiles ----


@pytest.mark.parametrize(
    "names", [("act_prof", "ap"), ("table_indirect", "indirect")], ids=["profile", "table"]
)
def test_members(switch, run, names):
    command, name = names
    dump = f"{'act_prof' if command == 'act_prof' else 'table'}_dump_member {name}"
    assert run(f"{command}_create_member {name} set 60") == "member 0"
    assert run(f"{command}_create_member {name} to 3") == "member 1"
    run("table_indirect_add indirect 5 => 0", "table_indirect_add indirect 6 => 1")
    assert (c_of(switch, 5), c_of(switch, 6)) == ([(1, 60)], [(3, 0)])
    assert run(f"{dump} 1") == "member 1: MyIngress.to 3"
    run(f"{command}_modify_member {name} to 1 4")
    assert c_of(switch, 6) == [(4, 0)]
    assert run("table_dump indirect").splitlines()[1] == "entry 1: 0x6 => member 1"
    with pytest.raises(CallError, match="in use"):
        run(f"{command}_delete_member {name} 1")
    run("table_indirect_delete indirect 1", f"{command}_delete_member {name} 1")
    with pytest.raises(CommandError, match="no member 1"):
        run(f"{dump} 1")
    assert c_of(switch, 6) == [(1, 0)]


@pytest.mark.parametrize(
    "names", [("act_prof", "sel"), ("table_indirect", "chosen")], ids=["profile", "table"]
)
def test_groups(switch, run, names):
    command, name = names
    dump = f"{'act_prof' if command == 'act_prof' else 'table'}_dump_group {name}"
    for port in (3, 4, 5):
        run(f"{command}_create_member {name} to {port}")
    assert run(f"{command}_create_group {name}") == "group 0"
    assert run(f"{dump} 0") == "group 0: members none"
    run(*(f"{command}_add_member_to_group {name} {member} 0" for member in (2, 0)))
    assert run(f"{dump} 0") == "group 0: members 0, 2"
    run("table_indirect_add_with_group chosen 5 => 0")
    assert {c_of(switch, 5, b)[0][0] for b in range(8)} == {3, 5}
    run(f"{command}_remove_member_from_group {name} 0 0")
    assert {c_of(switch, 5, b)[0][0] for b in range(8)} == {5}
    assert run("act_prof_dump sel").splitlines() == [
        *(f"member {n}: MyIngress.to {n + 3}" for n in range(3)),
        "group 0: members 2",
    ]
    with pytest.raises(CallError, match="in use"):
        run(f"{command}_delete_group {name} 0")
    run("table_indirect_delete chosen 0", f"{command}_delete_group {name} 0")
    with pytest.raises(CommandError, match="no group 0"):
        run(f"{dump} 0")


def test_indirect_defaults(switch, run):
    run("act_prof_create_member ap to 3", "table_indirect_set_default indirect 0")
    assert c_of(switch, 5) == [(3, 0)]
    with pytest.raises(CallError, match="in use"):  # by the default entry
        run("act_prof_delete_member ap 0")
    run("table_indirect_reset_default indirect", "act_prof_delete_member ap 0")
    assert c_of(switch, 5) == [(1, 0)]
    run("act_prof_create_member sel to 6", "act_prof_create_group sel")
    run("act_prof_add_member_to_group sel 0 0", "table_indirect_set_default_with_group chosen 0")
    assert c_of(switch, 5) == [(6, 0)]
    with pytest.raises(CallError, match="in use"):
        run("act_prof_delete_group sel 0")
    for line in ("delete given 0", "set_default given 0", "reset_default given"):
        with pytest.raises(CommandError, match="given has no action profile"):
            run(f"table_indirect_{line}")
    with pytest.raises(CommandError, match="given has no action profile"):
        run("table_dump_member given 0")


# ---- registers, counters, meters, value sets ----


def test_arrays(switch, run):
    run("register_write seen 2 0x10")
    c_of(switch, 5)
    assert run("register_read seen") == "MyIngress.seen = 1, 0, 16, 0"
    run("register_reset seen")
    assert run("register_read seen 2") == "MyIngress.seen[2] = 0"
    assert run("counter_read hits 1").startswith("hits[1] = 1 packets")
    run("counter_write hits 1 40 0")
    assert run("counter_read hits 1").startswith("hits[1] = 40 packets")
    run("counter_reset hits")
    assert run("counter_read hits 1").startswith("hits[1] = 0 packets")
    run("meter_array_set_rates m 1:2 3:4", "meter_set_rates m 2 5:6 7:8")
    assert run("meter_get_rates m 0") == "m[0]: 1:2 3:4"
    assert run("meter_get_rates m 2") == "m[2]: 5:6 7:8"


def test_value_sets(switch, run):
    assert run("show_pvs") == "MyParser.special [32 bits]"
    run("pvs_add special 17", "pvs_add special 0x12")
    assert run("pvs_get special") == "0x11\n0x12"
    assert [c_of(switch, 5, b)[0][1] for b in (16, 17, 18)] == [0, 99, 99]
    run("pvs_remove special 17", "pvs_remove special 3000")
    assert run("pvs_get special") == "0x12"
    assert [c_of(switch, 5, b)[0][1] for b in (16, 17, 18)] == [0, 0, 99]
    run("pvs_clear special")
    assert run("pvs_get special") == ""
    assert c_of(switch, 5, 18) == [(1, 0)]


# ---- copies ----


def test_nodes_are_the_switchs_and_not_the_clients(switch, run):
    run("mc_mgrp_create 3")
    assert run("mc_node_create 7 4 2") == "node 0"
    assert run("mc_node_create 8 5") == "node 1"
    run("mc_node_associate 3 1", "mc_node_associate 3 0", "table_add aged copies 5 => 3")
    assert [port for port, _ in c_of(switch, 5)] == [5, 2, 4]
    run("mc_node_update 0 9")
    assert [port for port, _ in c_of(switch, 5)] == [5, 9]
    assert run("mc_dump").splitlines() == [
        "group 3",
        "  node 1: rid 8, ports 5",
        "  node 0: rid 7, ports 9",
    ]
    run("mc_node_dissociate 3 1")
    assert run("mc_dump").splitlines()[2] == "in no group: node 1: rid 8, ports 5"
    run("mc_node_destroy 0")
    assert c_of(switch, 5) == []
    with pytest.raises(CallError, match="no multicast node 0"):
        run("mc_node_associate 3 0")
    with pytest.raises(CommandError, match="multicast group 3 exists already"):
        run("mc_mgrp_create 3")
    run("mc_mgrp_destroy 3")
    with pytest.raises(CallError, match="no multicast group 3"):
        run("mc_node_associate 3 1")


def test_a_node_reaches_one_port_of_a_link_aggregation_group(switch, run):
    run("table_add aged copies 5 => 3", "mc_mgrp_create 3", "mc_node_create 7 2 | 4 6")
    run("mc_node_associate 3 0")
    assert [port for port, _ in c_of(switch, 5)] == [2]  # the groups have no ports yet
    run("mc_set_lag_membership 4 8 9", "mc_set_lag_membership 6 10 11 12 13")
    ports = [port for port, _ in c_of(switch, 5)]
    assert ports == [2, 9, 13]  # 255 modulo 2, and modulo 4
    assert run("mc_dump").splitlines() == [
        "group 3",
        "  node 0: rid 7, ports 2, LAGs 4, 6",
        "LAG 4: ports 8, 9",
        "LAG 6: ports 10, 11, 12, 13",
    ]
    with pytest.raises(CallError, match="0 to 255"):
        run("mc_set_lag_membership 256 1")


def test_a_node_with_too_many_copies_changes_nothing(switch, run):
    switch.multicast_group(3, [(1, n) for n in range(2047)])
    run("mc_node_create 7 2", "mc_node_associate 3 0")
    for line in ("mc_node_update 0 2 3", "mc_node_create 8 4", "mc_node_associate 3 1"):
        if line.startswith("mc_node_create"):
            run(line)
            continue
        with pytest.raises(CallError, match="multicast group 3: 2049 copies; 2048 are the most"):
            run(line)
    assert switch.multicast_get(3)[-1] == (2, 7)
    assert switch.multicast_dump()["nodes"][0]["ports"] == [2]


def test_mirroring(switch, run):
    run("table_add aged twin 5 => 6", "mirroring_add 6 9")
    assert sorted(port for port, _ in c_of(switch, 5)) == [1, 9]
    assert run("mirroring_get 6") == "session 6: port 9"
    run("mc_mgrp_create 3", "mc_node_create 1 10 11", "mc_node_associate 3 0")
    run("mirroring_add_mc 6 3")
    assert sorted(port for port, _ in c_of(switch, 5)) == [1, 10, 11]
    assert run("mirroring_get 6") == "session 6: multicast group 3"
    run("mirroring_delete 6")
    assert c_of(switch, 5) == [(1, 0)]
    with pytest.raises(CommandError, match="no mirroring session 6"):
        run("mirroring_get 6")


# ---- the switch ----


def test_the_switch(switch, run):
    switch.advance(3_000_000)
    assert run("get_time_elapsed") == "3000"
    assert run("get_time_since_epoch") == "3000"
    assert run("show_ports").splitlines()[:2] == ["0 -", "1 -"]
    assert run("switch_info").splitlines() == [
        "program: commands.p4",
        f"ports: {', '.join(map(str, range(16)))}",
        "queues of a port: 2",
        "unit of timestamps: 1000 ns",
    ]
    run("set_queue_depth 9 2 1", "set_queue_rate 70 2")
    rows = [row for row in switch.queue_stats() if row["port"] == 2]
    assert [row["queue_packets"] for row in rows] == [None, 9]
    assert [row["rate_pps"] for row in rows] == [70, 70]


def test_reset_state_is_the_beginning_of_the_program(switch, run):
    beginning = [switch.table_dump(table.name) for table in switch.pipeline.info.tables]
    run("table_add aged set 5 => 50", "table_clear given", "table_set_default given set 8")
    run("act_prof_create_member ap set 60", "table_indirect_add indirect 5 => 0")
    run("act_prof_create_member sel to 6", "act_prof_create_group sel", "pvs_add special 9")
    run("act_prof_add_member_to_group sel 0 0", "table_indirect_set_default_with_group chosen 0")
    run("register_write seen 2 5", "counter_write hits 1 3 4", "meter_array_set_rates m 1:1 2:2")
    run("mc_mgrp_create 3", "mc_node_create 1 10", "mc_node_associate 3 0", "mirroring_add 6 9")
    c_of(switch, 5)
    run("reset_state")
    after = [switch.table_dump(table.name) for table in switch.pipeline.info.tables]
    assert [_without_handles(table) for table in after] == [
        _without_handles(table) for table in beginning
    ]
    assert (c_of(switch, 1000, 70), c_of(switch, 1000, 80)) == ([(1, 71)], [(1, 81)])
    assert c_of(switch, 1000, 1) == [(1, 7)]
    run("register_write seen 0 0")
    assert run("register_read seen") == "MyIngress.seen = 0, 0, 0, 0"
    assert run("counter_read hits 2").startswith("hits[2] = 0 ")
    assert run("meter_get_rates m 0") == "m[0]: not set"
    assert [run(line) for line in ("pvs_get special", "act_prof_dump ap", "mc_dump")] == [""] * 3
    assert run("act_prof_dump sel") == ""
    assert run("mirroring_get 6") == "session 6: port 9"
    assert run("act_prof_create_member sel to 5") == "member 0"


def _without_handles(entries: list[dict]) -> list[dict]:
    return [{k: v for k, v in entry.items() if k != "handle"} for entry in entries]


@pytest.mark.parametrize(
    "call",
    [
        ("node_add", 65536, []),
        ("node_add", "x", []),
        ("node_add", 1, [511]),
        ("node_add", 1, [1.5]),
        ("node_add", 1, 5),
        ("node_add", 1, [], [256]),
        ("node_modify", 0, [1]),
        ("node_join", 1, 0),
        ("node_leave", [1], 0),
        ("lag_set", -1, [1]),
        ("lag_set", 1, [-1]),
        ("mirror_get", []),
        ("profile_dump", "sell"),
        ("profile_dump", 3),
        ("value_set_get", "none"),
        ("value_set_remove", "special", 3),
        ("value_set_remove", "special", [1, 2]),
        ("value_set_remove", "special", ["x"]),
        ("table_age", "given", 0),
        ("table_age", "aged", 7),
        ("table_set_timeout", "given", 0, 5),
        ("table_set_timeout", "aged", 0, -1),
        ("table_set_timeout", "aged", 0, 1 << 64),
        ("reset", 1),
    ],
    ids=lambda call: " ".join(map(str, call)),
)
def test_calls_that_make_no_sense(switch, run, tmp_path, call, capsys):
    switch.table_add("aged", "set", [5], [50])
    switch.value_set_add("special", [4])
    with Client(tmp_path / "control.sock") as client:
        with pytest.raises(CallError):
            client.call(*call)
        assert client.multicast_dump() == {"groups": [], "nodes": [], "lags": []}
        assert client.value_set_get("special") == [[[4, 2**32 - 1]]]
    assert "Traceback" not in capsys.readouterr().err


def test_numbers_of_arguments(run):
    with pytest.raises(CommandError, match=r"needs more arguments: table_dump_entry TABLE HANDLE"):
        run("table_dump_entry aged")
    with pytest.raises(CommandError, match=r"takes no more arguments than mc_mgrp_create GROUP"):
        run("mc_mgrp_create 1 2")
    with pytest.raises(CommandError, match=r"takes no more arguments than set_queue_rate"):
        run("set_queue_rate 1 2 0 7")
    assert run("mc_node_create 1") == "node 0"  # BMv2 takes a node without ports, too
    assert "mc_node_create RID PORT... [| LAG...]" in run("help").splitlines()
    with pytest.raises(CommandError, match="no command 'tabel_add'; did you mean 'table_add'"):
        run("help tabel_add")
