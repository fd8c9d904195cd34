"""BMv2's text commands through the control socket, and what packets then meet."""

from __future__ import annotations

import pytest
from p4engine.control.client import CallError, Client
from p4engine.control.commands import Commands
from p4engine.switch.library import Switch
from p4engine_testing.cases import read
from p4engine_testing.programs import send, serving, source, words

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

    def run_lines(*lines: str) -> str | None:
        said = None
        for line in lines:
            with Client(tmp_path / "control.sock") as client:
                said = Commands(client).run(line)
        return said

    with serving(tmp_path / "control.sock", switch):
        yield run_lines


@pytest.mark.parametrize("case", read("commands.txt"), ids=lambda case: case.name)
def test_case(switch, run, case):
    case.check(switch, run)


def c_of(switch: Switch, a: int, b: int = 0, now_ns: int = 0) -> list[tuple[int, int]]:
    """(port, hdr.h.c) of what leaves for a packet."""
    return [
        (port, int.from_bytes(data[8:12], "big"))
        for port, data in send(switch, words(a, b, 0), now_ns=now_ns)
    ]


def test_idle_timeouts(switch, run):
    run("table_add aged set 5 => 50", "table_set_timeout aged 0 200")
    c_of(switch, 5, now_ns=2_000 * MS)
    switch.advance(5_007 * MS)
    said = run("table_dump_entry aged 0").splitlines()[1]
    assert said == "idle timeout: 200 ms, 3007 ms since the last hit"
    assert switch.pipeline.table_idle("aged")[0] == [0]
    run("table_set_timeout aged 0 0")
    assert "idle timeout: none" in run("table_dump_entry aged 0")


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
