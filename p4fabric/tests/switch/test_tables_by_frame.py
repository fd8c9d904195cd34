"""The tables of a network file's run, against every frame that a link has taken or given: random
stars, whose links lose, double and reorder, and whose queues are short."""

from __future__ import annotations

import math
import re
import struct
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from p4fabric.base.config.pcapng import INBOUND
from p4fabric.netfile.virtual_results import OVER_TIME, as_csv, as_json, printed
from p4fabric.netfile.virtual_run import VirtualRun
from p4fabric.netfile.virtual_tables import tables
from p4fabric.simulate import taps
from p4fabric.simulate.captures import Captures
from p4fabric_testing.matrix import first_of
from p4fabric_testing.virtual_networks import MARKING, built, star

DATA, ANSWER = 0x1A51, 0x1A52
HOSTS = 4


class Frame(NamedTuple):
    """A frame at a host's port, with its tag. time_ns: of its sending, or of its arrival."""

    time_ns: int
    host: str
    sent: bool
    length: int
    marked: bool
    kind: int
    flow: int
    number: int
    begun_ns: int


def drawn(seed: int) -> str:
    draw = np.random.default_rng(seed)
    loss, double, late = draw.choice([0, 2, 8], 3)
    links = (
        f"bandwidth: {draw.choice([1, 10])} Gbit/s, delay: 1 us, queue: {draw.choice([4, 500])}"
        f" packets, loss: {loss} %, duplicate: {double} %, reorder: {late} %, reorder_delay: 3 us"
    )
    lines = [f"virtual: {{duration: {draw.choice([40, 90])} us, seed: {seed + 1}}}", "flows:"]
    for number in range(int(draw.integers(1, 5)) if seed % 7 else 45):
        source, target = draw.choice(np.arange(1, HOSTS + 1), 2, replace=False)
        start = draw.choice([0, 7])
        rate = draw.choice(["100 Mbit/s", "900 Mbit/s", "7 Gbit/s"])
        lines.append(
            f"  - {{name: f{number}, from: h{source}, to: h{target}, rate: {rate},"
            f" size: {draw.choice([64, 900])} B, gaps: exponential, start: {start} us,"
            f" ecn: {draw.choice(['ect0', 'not-ect'])}}}"
        )
    if seed % 3 == 1:
        lines += ["  - {name: t, kind: tcp, from: h1, to: h2, size: 500 B}"]
    if seed % 4 == 2:
        lines += ["changes:", "  - {at: 9 us, link: [s1, h2], up: false}"]
        lines += ["  - {at: 21 us, link: [s1, h2], up: true}"]
    answers = {2: "answer: {delay: 2 us}"} if seed % 2 else {}
    return star(MARKING, HOSTS, "\n".join(lines) + "\n", links=links, host=answers)


def watched(folder, text: str) -> tuple[VirtualRun, list[Frame]]:
    run, found = built(folder, text), []
    network = run.network
    ports = network.topology.ports("s1")

    def seen(switch: str, port: int, direction: int, time_ns: int, frame: bytes) -> None:
        kind, flow, number, begun_ns = struct.unpack("<HHIq", frame[-16:])
        sent = direction == INBOUND
        made = time_ns, ports[port][0], sent, len(frame), frame[15] & 3 == 3
        found.append(Frame(*made, kind, flow, number, begun_ns))

    kept = taps.listen(network.nodes, {"s1": [*ports]}, seen)
    with Captures((), folder / "captures") as captures:
        run.run(captures)
    del kept
    return run, found


@pytest.mark.parametrize("seed", first_of(range(48), 12))
def test_tables_say_what_the_frames_say(seed, tmp_path):
    text = drawn(seed)
    run, frames = watched(tmp_path, text)
    found = tables(run)
    hosts(found, frames)
    ports(run, found, frames, 8 / int(re.search(r"bandwidth: (\d+) Gbit", text)[1]))
    flows(run, found, frames)
    over_time(run, found, frames)
    shown(run, found)


def hosts(found, frames: list[Frame]) -> None:
    count, size = Counter(), Counter()
    for frame in frames:
        count[frame.host, frame.sent] += 1
        size[frame.host, frame.sent] += frame.length
    for row in found["hosts"]:
        for sent, what in ((True, "sent"), (False, "received")):
            key = row["host"], sent
            assert (row[what], row[f"{what}_bytes"]) == (count[key], size[key]), row
        assert (row["untagged"], row["answers_dropped"]) == (0, 0)


def ports(run: VirtualRun, found, frames: list[Frame], byte_ns: float) -> None:
    leads = {number: each[0] for number, each in run.network.topology.ports("s1").items()}
    counted = run.network.nodes.switches["s1"].port_stats()
    both = {(number, direction) for number in leads for direction in ("ingress", "egress")}
    assert {(row["port"], row["direction"]) for row in found["ports"]} == both
    assert len(found["ports"]) == len(both)
    told = Counter()
    for row in found["ports"]:
        stats = next(
            s for s in counted if (s["port"], s["direction"]) == (row["port"], row["direction"])
        )
        assert all(stats[name] == row[name] for name in stats.keys() & row.keys())
        assert row["neighbour"] == leads[row["port"]]
        sent = row["direction"] == "ingress"
        mine = [f for f in frames if f.host == row["neighbour"] and f.sent == sent]
        dropped = row["queue_drops"] + row["down_drops"]
        if sent:
            # While it is down, a link may have a frame taken that does not come out.
            assert row["packets"] + row["queue_drops"] <= len(mine) <= row["packets"] + dropped
        elif run.drained:
            lost = row["losses"] + row["down_drops"]
            assert row["packets"] - lost + row["duplicates"] <= len(mine)
            assert len(mine) <= row["packets"] - row["losses"] + row["duplicates"]
        whole = dropped == 0 if sent else not row["losses"] + row["duplicates"] + dropped
        if whole and run.drained:
            assert row["bytes"] == sum(f.length for f in mine)
        depths = run.looks.queues["s1", row["port"], row["direction"]]
        assert row["queue_mean"] == pytest.approx(sum(depths) / len(depths))
        wire_ns = min(row["bytes"] * byte_ns, run.end_ns)  # less than a ns of each is rounded off
        assert row["busy"] * run.end_ns == pytest.approx(wire_ns, abs=row["packets"] + 0.5)
        causes = {"queue full": "queue_drops", "lost on the link": "losses"}
        for cause, column in {**causes, "link down": "down_drops"}.items():
            told["s1", row["port"], f"{cause} ({row['direction']})"] = row[column]
    listed = [(r["switch"], r["port"], r["cause"], r["packets"]) for r in found["drops"]]
    of_ports = {(*key, count) for key, count in told.items() if count}
    assert {row for row in listed if row[1] is not None} == of_ports
    assert len({*listed}) == len(listed)


def flows(run: VirtualRun, found, frames: list[Frame]) -> None:
    by_number = {flow.number: flow for flow in run.network.flows}
    sent, got = defaultdict(list), defaultdict(list)
    for frame in frames:
        if frame.flow in by_number and frame.kind in (DATA, ANSWER):
            name = by_number[frame.flow].name
            place = (name, frame.kind == ANSWER)
            (sent[place] if frame.sent else got[(*place, frame.host)]).append(frame)
    keys = set()
    for row in found["flows"]:
        answers = row["what"] == "answers"
        key = row["flow"], answers, row["host"]
        keys.add(key)
        first = sent[row["flow"], False]
        assert row["sent"] == len(first) and row["sent_bytes"] == sum(f.length for f in first)
        mine = got.get(key, [])
        numbers = [frame.number for frame in mine]
        assert row["received"] == len(mine)
        assert row["received_bytes"] == sum(frame.length for frame in mine)
        if row["kind"] == "tcp":
            continue
        assert row["duplicates"] == len(mine) - len({*numbers})
        furthest = np.maximum.accumulate([-1, *numbers])
        again = [n in numbers[:at] for at, n in enumerate(numbers)]
        behind = [n < most for n, most in zip(numbers, furthest, strict=False)]
        assert row["late"] == sum(b and not a for a, b in zip(again, behind, strict=True))
        assert row["marked"] == sum(frame.marked for frame in mine)
        lost = len(first) - len({*numbers})
        assert row["lost"] == lost
        assert row["loss"] == (lost / len(first) if first else None)
        flow = next(each for each in run.network.flows if each.name == row["flow"])
        latency = sorted(frame.time_ns - frame.begun_ns for frame in mine)
        if not latency:
            assert row["throughput_bps"] == 0 and row["min_ns"] is None
            continue
        assert (row["min_ns"], row["max_ns"]) == (latency[0], latency[-1])
        assert row["mean_ns"] == pytest.approx(sum(latency) / len(latency))
        for part in (50, 99):
            exact = latency[math.ceil(len(latency) * part / 100) - 1]
            assert row[f"p{part}_ns"] == pytest.approx(exact, rel=1 / 128, abs=1)
        end_ns = flow.keys.ends_ns(run.network.plan.file.virtual.duration_ns)
        end_ns = max(end_ns, mine[-1].time_ns - latency[0])
        rate = 8 * 10**9 * row["received_bytes"] // (end_ns - flow.keys.start_ns)
        assert row["throughput_bps"] == rate
    assert keys >= got.keys() and len(keys) == len(found["flows"])
    order = [row["flow"] for row in found["flows"]]
    assert sorted(order, key=order.index) == order
    assert [*dict.fromkeys(order)] == [flow.name for flow in run.network.flows]


def over_time(run: VirtualRun, found, frames: list[Frame]) -> None:
    """Rates between looks are those of the frames that came between them."""
    names = {flow.number: flow.name for flow in run.network.flows}
    last: dict[str, int] = {}
    for row in found["throughput"]:
        begin, end = last.get(row["flow"], 0), row["time_ns"]
        last[row["flow"]] = end
        octets = sum(
            f.length
            for f in frames
            if not f.sent and names.get(f.flow) == row["flow"] and f.kind == DATA
            if begin < f.time_ns <= end
        )
        assert row["throughput_bps"] == 8 * octets * 10**9 // (end - begin), row
    most = {(row["port"], row["direction"]): row["queue_max"] for row in found["ports"]}
    deep = defaultdict(int)
    for row in found["queues"]:
        key = row["port"], row["direction"]
        look = run.looks.times_ns.index(row["time_ns"])
        assert row["packets"] == run.looks.queues[("s1", *key)][look]
        deep[key] = max(deep[key], row["packets"])
    assert all(0 < depth <= most[key] for key, depth in deep.items())
    waited = {key[1:] for key, depths in run.looks.queues.items() if any(depths)}
    assert waited == {*deep}


def shown(run: VirtualRun, found) -> None:
    """What is printed, in CSV and in JSON is what the tables have."""
    by_name = {table.name: table for table in printed(run, found)}
    assert ("drops" in by_name) == bool(found["drops"])
    rows = by_name["flows"].rows
    assert len(rows) == min(len(found["flows"]), 40)
    assert by_name["flows"].title == (
        f"Flows (the first 40 of {len(found['flows'])})" if len(found["flows"]) > 40 else "Flows"
    )
    columns = ("sent", "received", "loss", "throughput_bps", "mean_ns", "p99_ns", "max_ns")
    for shown_row, row in zip(rows, found["flows"], strict=False):
        title, *values = shown_row.values
        assert values == [row[each] for each in columns]
        extra = {"answers": " (answers)"}.get(row["what"])
        other = "" if row["host"] == row["to"] else f" at {row['host']}"
        assert title == row["flow"] + (extra or other)
    used = [r for r in found["ports"] if r["packets"] or r["queue_drops"] or r["down_drops"]]
    for shown_row, row in zip(by_name["ports"].rows, used, strict=True):
        drops = row["queue_drops"] + row["losses"] + row["down_drops"]
        to = row["neighbour"] if row["direction"] == "egress" else f"from {row['neighbour']}"
        values = [f"s1-p{row['port']}", to, *(row[e] for e in ("packets", "busy"))]
        assert [*shown_row.values] == [*values, row["queue_mean"], row["queue_max"], drops]
    for shown_row, row in zip(
        getattr(by_name.get("drops"), "rows", ()), found["drops"], strict=True
    ):
        where = "s1" if row["port"] is None else f"s1-p{row['port']}"
        assert [*shown_row.values] == [where, row["cause"], row["packets"]]
    made = as_json(run, found, [])
    assert made.keys() & found.keys() == found.keys() - {*OVER_TIME}
    assert all(made[name] is found[name] for name in found.keys() - {*OVER_TIME})
    assert made["drained"] == run.drained and made["end_ns"] == run.end_ns
    for table in filter(None, found.values()):
        assert [*lines(as_csv(table))] == [
            ["" if value is None else str(value) for value in row.values()] for row in table
        ]


def lines(text: str) -> Iterator[list[Any]]:
    for line in text.splitlines()[1:]:
        yield line.split(",")
