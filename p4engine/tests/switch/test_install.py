"""Another program in a running switch: what is new, and what stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from p4engine.switch.library import Switch
from p4engine_testing.programs import source, words

from p4engine import compile_program

PACKET = words(1, 2, 3)
WIDE = "header h_t { bit<32> a; bit<32> b; bit<32> c; bit<8000> more; } struct headers_t { h_t h; }"


@pytest.fixture
def compiled(tmp_path: Path):
    def make(name: str, **parts: str) -> Any:
        path = tmp_path / name
        path.write_text(source(**parts))
        return compile_program(path)

    return make


def marked(value: int) -> dict[str, str]:
    """A program that counts packets and writes `value` into them, in egress too."""
    return {
        "locals": "register<bit<32>>(1) seen; counter(2, CounterType.packets) count;",
        "apply": f"count.count(1); seen.write(0, {value}); hdr.h.a = {value};",
        "egress": "hdr.h.b = hdr.h.a + 1;",
    }


def test_the_new_program_handles_packets_and_has_its_own_counts(compiled):
    switch = Switch(compiled("one.p4", **marked(10)))
    switch.receive(0, PACKET, 0)
    assert switch.run() == [(0, 1, words(10, 11, 3))]
    switch.install(compiled("two.p4", **marked(20)))
    assert switch.register_read("seen") == [0]
    assert switch.counter_read("count", 1)["packets"] == 0
    switch.receive(0, PACKET, 5)
    assert switch.run() == [(5, 1, words(20, 21, 3))]
    assert switch.register_read("seen") == [20]
    assert switch.info()["program"]["program"] == "two.p4"
    assert switch.stats()["received"] == 2, "the switch goes on"


@pytest.mark.parametrize("same", [True, False], ids=["same", "other"])
def test_packets_in_queues_belong_to_a_program_and_those_on_links_do_not(compiled, same):
    one = compiled("one.p4", **marked(10))
    two = one if same else compiled("two.p4", **marked(20))
    switch = Switch(one)
    switch.port_shape(1, "egress", rate_bps=8_000_000, delay_ns=50_000)  # 12 bytes take 12 us
    for _ in range(4):
        switch.receive(0, PACKET, 0)
    switch.install(two)
    left = switch.run()
    if same:
        assert [time for time, _, _ in left] == [62_000, 74_000, 86_000, 98_000]
    else:
        assert left == [(62_000, 1, words(10, 11, 3))], "it was on its way already"
    (row,) = (r for r in switch.port_stats() if (r["port"], r["direction"]) == (1, "egress"))
    assert (row["queue"], row["queue_drops"]) == (0, 0 if same else 3)
    switch.receive(0, PACKET, 200_000)
    value = 10 if same else 20
    assert switch.run() == [(262_000, 1, words(value, value + 1, 3))], "the shape stays"


def test_programs_with_larger_and_smaller_packets_follow_each_other(compiled):
    small = compiled("small.p4", **marked(10))
    large = compiled("large.p4", headers=WIDE, **marked(20))
    switch = Switch(small)
    switch.queue_rate(1000, 1)
    for turn in range(6):
        chosen, data = (large, PACKET + bytes(1000)) if turn % 2 else (small, PACKET)
        switch.install(chosen)
        start = turn * 10**9
        for _ in range(20):
            switch.receive(0, data, start)
        left = switch.advance(start + 10**8)
        assert [len(each) for _, _, each in left] == [len(data)] * 20
        assert all(each[:4] == words(20 if turn % 2 else 10) for _, _, each in left)


def test_groups_sessions_and_listeners_stay(compiled):
    parts = {"apply": 'standard.mcast_grp = 7; log_msg("{}", {hdr.h.a}); clone(CloneType.I2E, 3);'}
    switch = Switch(compiled("one.p4", **marked(1)))
    switch.multicast_group(7, [(2, 0), (3, 0)])
    switch.mirror_session(3, port=4)
    texts: list[str] = []
    switch.pipeline.on_log(texts.append)
    switch.install(compiled("two.p4", **parts))
    switch.receive(0, PACKET, 0)
    assert sorted(port for _, port, _ in switch.run()) == [2, 3, 4]
    assert texts == ["1"]


def test_a_trace_ends_with_its_program(tmp_path):
    path = tmp_path / "one.p4"
    path.write_text(source(**marked(1)))
    traced = compile_program(path, trace=True)
    switch = Switch(traced)
    switch.trace()
    switch.install(traced)
    switch.receive(0, PACKET, 0)
    assert switch.trace_lines(), "the same program is followed further"
    path.write_text(source(**marked(2)))
    switch.install(compile_program(path, trace=True))
    switch.receive(0, PACKET, 1)
    assert switch.trace_lines() == []


def test_functions_that_were_looked_up_can_be_looked_up_again(compiled):
    switch = Switch(compiled("one.p4", **marked(10)))
    calls = {"register_read": switch.register_read}
    switch.on_install(lambda: calls.update(register_read=switch.register_read))
    switch.install(compiled("two.p4", **marked(20)))
    switch.receive(0, PACKET, 0)
    assert calls["register_read"]("seen") == [20]
