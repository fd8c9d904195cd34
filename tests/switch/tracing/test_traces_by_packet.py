"""What traces say of packets, against the packets: random small networks with losses, doubles and
full queues, in which every packet of a host carries a number of its own.

The number is in the IPv4 header's identification, which hosts, switches and traces leave alone. All
copies of a packet and what a switch sends in its place have it, so it says what followed from what.
Time in a queue follows from the link's rate, and an aggregator is after a packet what it is before
the next one.
"""

from __future__ import annotations

import contextlib
import ctypes
import operator
from collections import Counter, defaultdict
from itertools import groupby

import numpy as np
import pytest
from p4fabric.base import units
from p4fabric.simulate import taps
from p4fabric_testing.matrix import first_of
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from testbed import dataplane
from testbed.dissect import Ina
from testbed.protocols import wire
from testbed.protocols.sizes import frame_bytes
from testbed.run_parts import result_rows as collect
from testbed.run_parts.program import prepare
from testbed.setup import Setup
from testbed.tracing import lanes, path, rerun, trace_text, watch
from testbed.tracing.fragments import Fragment, place_of, summed_by_hosts, title_of
from testbed.tracing.packets import Packet, packet_in
from tests.support.experiments import memory_line, setup_of

SYSTEMS = ("esa", "atp", "switchml", "ps", "{name: grid, memory: esa}", "ring", "a2tp")
STAR = "{kind: star, hosts: 8}"
RACKS = "{kind: two_level, tors: 2, hosts: 4, servers: 2}"
VALUES, QUEUE = 16, 5
FAILING = """faults:
  - {at: 6550 us, fault: link_down, between: [h2, s1], failover: 20 us, for: 10 ms}
"""
NS_PER_BYTE = 8  # of a link
IDENTIFICATION, CHECKSUM = slice(18, 20), slice(24, 26)


class Numbered(Packet):
    """A packet with the number that its host has given it."""

    number = -1

    @classmethod
    def of(cls, frame: bytes, *bits: int) -> Numbered | None:
        packet = packet_in(frame, *bits)
        if packet is None:
            return None
        made = cls(*packet)
        made.number = int.from_bytes(frame[IDENTIFICATION], "big")
        return made


def drawn(seed: int) -> Setup:
    """A star or racks, whose links lose and double packets and have short queues."""
    draw = np.random.default_rng(seed)
    system = SYSTEMS[seed % len(SYSTEMS)]
    loss, double = draw.choice([0, 1, 4], 2)
    return setup_of(f"""
name: drawn
seed: {seed + 1}
runtime: virtual
topology: {STAR if seed // len(SYSTEMS) % 2 else RACKS}
links: {{bandwidth: 1 Gbit/s, delay: {draw.choice([2, 5])} us, loss: {loss} %,
  duplicate: {double} %, queue: {QUEUE} packets}}
system: {system}
{memory_line(system, 24)}
values_per_packet: {VALUES}
{FAILING if seed % 4 == 3 else ""}
jobs:
  - {{name: a, model: resnet18, workers: 3, iterations: 1, scale: 0.0002, compute_scale: 0.01}}
  - {{name: b, model: vgg16, workers: 3, iterations: 1, scale: 0.00001, compute_scale: 0.01}}
""")


@contextlib.contextmanager
def numbering(patch: pytest.MonkeyPatch):
    """Hosts number their packets."""
    real, count = taps._entering, iter(range(1, 1 << 16))

    def entering(name, ports, receive, seen):
        def numbered(manager, port, data, length, time_ns):
            frame = bytearray(ctypes.string_at(data, length))
            if port in ports and frame[IDENTIFICATION] == b"\0\0":
                number = next(count)
                total = number + (int.from_bytes(frame[CHECKSUM], "big") ^ 0xFFFF)
                frame[IDENTIFICATION] = number.to_bytes(2, "big")
                frame[CHECKSUM] = ((total & 0xFFFF) + (total >> 16) ^ 0xFFFF).to_bytes(2, "big")
                ctypes.memmove(data, bytes(frame), length)
            return inner(manager, port, data, length, time_ns)

        inner = real(name, ports, receive, seen)
        return taps._RECEIVE(numbered)

    patch.setattr(taps, "_entering", entering)
    for module in (watch, rerun):
        patch.setattr(module, "packet_in", Numbered.of)
    yield


@pytest.mark.parametrize("seed", first_of(range(28), 7))
def test_traces_say_what_happened_to_each_packet(seed, monkeypatch):
    setup = drawn(seed)
    compiled = prepare(setup).compiled
    survey, _ = rerun.survey(setup, compiled)
    wanted = sorted({*survey._first, *(fragment for fragment, _ in survey._had)})
    runs = []
    run = rerun._run
    monkeypatch.setattr(rerun, "_run", lambda made, *rest: runs.append(made) or run(made, *rest))
    with numbering(monkeypatch):
        found, error = rerun.paths(setup, compiled, wanted)
    assert not error
    steps = [step for each in found.values() for step in each.steps]
    causes(found)
    hosts(found)
    sums(found)
    words(setup, found)
    assert not any(step.packet.is_acknowledgement for step in steps)
    if not summed_by_hosts(setup):  # acknowledgements are in no trace
        ends(steps, runs[0])
        queues(setup, steps)
    if setup.platform.system.memory and not setup.platform.scheme.statistics(setup.platform).sets:
        aggregators(steps)
    late_paths(setup, found, survey)
    pictures(setup, found)
    stopped(setup, compiled, found)


def causes(found) -> None:
    """Each packet follows from the one with its number at the place that it came from, and each is
    followed as often as it went on."""
    for fragment, each in found.items():
        own = [step for step in each.steps if (step.packet.job, step.packet.fragment) == fragment]
        followed = Counter(step.cause.number for step in each.steps if step.cause is not None)
        entered = Counter(
            (step.packet.number, step.peer, step.node) for step in own if step.kind in IN
        )
        for step in own:
            cause = step.cause
            if step.kind == path.SENT:
                assert cause is None or cause.node == step.node
            else:
                assert cause is not None, step
                left = cause.leaves if cause.kind == path.HANDLED else cause.packet
                assert left.number == step.packet.number, (cause, step)
                assert cause.peer == step.node if step.kind in IN else cause.node == step.node
            assert cause is None or cause.time_ns <= step.time_ns
            ends = [what for what, _ in step.ends]
            copies = 2 if "duplicated" in ends else 0 if ends else 1
            if step.kind == path.GONE:
                assert followed[step.number] == copies, step
            elif step.kind == path.HANDLED and not step.copies:
                leaves = step.leaves
                goes = leaves is not None and (leaves.job, leaves.fragment) == fragment
                assert followed[step.number] == (1 if goes and not ends else 0), step
            elif step.kind == path.SENT:
                assert entered[step.packet.number, step.node, step.peer] == copies, step


IN = (path.HANDLED, path.ARRIVED)


def ends(steps, simulation) -> None:
    """What a link has lost, doubled or dropped is what it has counted, in each direction."""
    marks = Counter()
    for step in steps:
        for what, peer in step.ends:
            marks[what, step.node, peer] += 1
    platform = simulation.setup.platform
    for name, switch in simulation.nodes.switches.items():
        stats, _ = dataplane.port_counts(platform, switch)
        for row in collect.link_rows(platform, name, stats):
            node, peer = row["node"], row["neighbour"]
            if row["direction"] == "ingress":
                if not platform.topology.is_host(peer):
                    continue
                node, peer = peer, node
            assert marks["lost", node, peer] == row["losses"], (node, peer)
            assert marks["duplicated", node, peer] == row["duplicates"], (node, peer)
            assert marks["queue drop", node, peer] == row["queue_drops"], (node, peer)
            assert marks["down", node, peer] == (row.get("down_drops") or 0), (node, peer)


def queues(setup, steps) -> None:
    """Packets leave a queue one after the other, as fast as the link takes them."""
    with_values, without = (
        frame_bytes(values, setup.platform.bitmap_bits) * NS_PER_BYTE for values in (VALUES, 0)
    )
    ports = defaultdict(list)
    for step in steps:
        if step.kind == path.GONE:
            ports[step.node, step.port].append(step)
    for line in ports.values():
        line.sort(key=lambda step: (step.time_ns, step.number))
        free_ns = 0
        for step in line:
            assert step.cause is not None
            came_ns = step.cause.time_ns
            has_values = step.packet.is_gradient or step.packet.is_result
            assert step.time_ns == max(came_ns, free_ns), step
            free_ns = step.time_ns + (with_values if has_values else without)


def aggregators(steps) -> None:
    """An aggregator is empty at first, and then what the packet before has left; a packet's workers
    are in it, or in the sum that they complete."""
    places = defaultdict(dict)
    for step in steps:
        if step.kind == path.HANDLED and step.before is not None:
            places[step.node, step.before.place][step.mark] = step
    for line in places.values():
        state, owner, workers = "empty", None, 0
        for mark in sorted(line):
            step, before, after = line[mark], line[mark].before, line[mark].after
            assert (before.state, before.fragment) == (state, owner), step
            assert before.state == "empty" or before.workers == workers, step
            state, owner, workers = after.state, after.fragment, after.workers
            now = {
                "allocations": (state, owner, workers),
                "additions": (state, owner, workers),
                "completions": (before.state, before.fragment, step.leaves and step.leaves.workers),
            }
            if step.event in now:
                held = 0 if step.event == "allocations" else before.workers
                fragment = step.packet.job, step.packet.fragment
                assert now[step.event] == ("filling", fragment, held | step.packet.workers), step


def hosts(found) -> None:
    """What a host sends follows from the last packet that it got, else from what it sent before;
    its first gradient from nothing. A result has the values of the last gradient that came."""
    for each in found.values():
        for step in each.steps:
            if step.kind != path.SENT:
                continue
            before = [other for other in each.steps[: step.number] if other.node == step.node]
            got = [other for other in before if other.kind == path.ARRIVED]
            kind = step.packet.is_gradient
            own = [o for o in before if o.kind == path.SENT and o.packet.is_gradient == kind]
            assert step.cause == (None if kind and not own else [None, *own[-1:], *got][-1]), step
            parts = [other for other in got if other.packet.is_gradient]
            assert step.content == ([None, *parts][-1] if step.packet.is_result else None), step


def sums(found) -> None:
    """Where a sum leaves for another reason than its own gradients, its values are those of the
    last one that was added there."""
    for fragment, each in found.items():
        added: dict[str, path.Step] = {}
        for step in each.steps:
            if step.kind != path.HANDLED:
                continue
            mine = step.packet.is_gradient and (step.packet.job, step.packet.fragment) == fragment
            left = step.leaves
            goes = left and left.is_gradient and (left.job, left.fragment) == fragment
            assert step.content == (added.get(step.node) if goes and not mine else None), step
            if mine and step.after is not None:
                added[step.node] = step


def late_paths(setup, found, survey) -> None:
    """The waits of a fragment go from its first packet to its last worker's first result, back from
    step to step, along the values."""
    late = {each.fragment: each.time_ns for each in survey.late}
    assert [*late.values()] == sorted(late.values(), reverse=True)
    workers = rerun.workers_of(setup)
    for fragment, each in found.items():
        if fragment not in late:
            assert not each.waits
            continue
        assert each.late_ns == late[fragment]
        whole = "is_whole_of_hosts" if fragment.job in summed_by_hosts(setup) else "is_result"
        part = "is_part_of_hosts" if fragment.job in summed_by_hosts(setup) else "is_gradient"
        members = [step for step in each.steps if step.node in workers[fragment.job]]
        assert not getattr(each.steps[0].packet, whole)  # what leaves first is a part
        ends = [s for s in members if s.kind == path.ARRIVED and getattr(s.packet, whole)]
        at = max(
            (
                min(filter(lambda s: s.node == w, ends), key=lambda s: s.number)
                for w in {s.node for s in ends}
            ),
            key=lambda s: s.number,
        )
        waits = []
        while (before := at.content or at.cause) is not None:
            waits.append((*worded(before, at), before.time_ns, at.time_ns))
            at = before
        begin = next(s for s in members if s.kind == path.SENT and getattr(s.packet, part))
        if begin.time_ns < at.time_ns:
            text = f"{at.node} sent its part so much later than {begin.node}"
            waits.append((text, at.node, begin.time_ns, at.time_ns))
        waits = [wait for wait in reversed(waits) if wait[2] < wait[3]]
        groups = [[*group] for _, group in groupby(waits, lambda wait: wait[0])]
        wanted = [(*group[0][:3], group[-1][3]) for group in groups]
        assert [tuple(wait) for wait in each.waits] == wanted


def worded(before, step) -> tuple[str, str]:
    """What a part of a late path is called, and where it is."""
    node, kind = step.node, step.packet.kind
    if step.kind == path.ARRIVED:
        return f"on the link {step.peer} to {node}", f"{step.peer}-{node}"
    if step.kind == path.GONE:
        return f"in the queue of {node} to {step.peer}", node
    if step.kind == path.HANDLED and before.kind != path.HANDLED:
        return f"on the link {before.node} to {node}", f"{before.node}-{node}"
    if step.kind == path.HANDLED:
        until = "a reminder pulled it" if kind == wire.REMINDER else "it was evicted"
        return f"in an aggregator of {node}, until {until}", node
    rests = {wire.REMINDER: "sent a reminder", wire.ASK: "asked a worker"}
    if before.kind == path.ARRIVED:
        asks = kind in rests
        return f"{node} waited for the rest, then {rests[kind]}" if asks else f"in {node}", node
    if step.packet.flags & wire.RESEND:
        return f"{node} had no result, until it sent it again", node
    reminds = kind == wire.REMINDER
    return f"{node} waited for an answer, then reminded again" if reminds else f"in {node}", node


def stopped(setup, compiled, found) -> None:
    """A trace that ends earlier has the same steps until then; what was on its way then, and that
    alone, went on or ended later."""
    times = sorted(step.time_ns for each in found.values() for step in each.steps)
    early, _ = rerun.paths(setup, compiled, [*found], until_ns=times[len(times) // 3])
    last_ns = max(step.time_ns for each in early.values() for step in each.steps)
    for fragment, each in early.items():
        went_on = {
            step.cause.number for step in each.steps if step.cause and step.kind != path.SENT
        }
        for step in each.steps:  # nothing disappears
            left = step.leaves if step.kind == path.HANDLED else step.packet
            goes = left is not None and (left.job, left.fragment) == fragment
            goes &= step.kind != path.ARRIVED
            assert not goes or step.ends or step.number in went_on, step
        # What a host sends is seen when its switch has it, and switches take turns.
        whole = [step for step in found[fragment].steps if step.time_ns < last_ns - 50_000]
        now = [step for step in each.steps if step.time_ns < last_ns - 50_000]
        place = operator.attrgetter("time_ns", "node", "kind", "peer", "packet", "port")
        assert [place(step) for step in now] == [place(step) for step in whole]
        steps = found[fragment].steps
        then = {
            s.cause.number: s.time_ns for s in reversed(steps) if s.cause and s.kind != path.SENT
        }
        for step, later in zip(now, whole, strict=True):
            open_ = [end for end in step.ends if end[0] in ("waiting", "under way")]
            if open_:
                assert later.ends or then[later.number] >= last_ns, step
                assert step.kind != path.GONE or open_[0][0] == "under way"
                assert step.kind != path.HANDLED or open_[0][0] == "waiting"
            elif step.kind != path.HANDLED or not step.copies:
                assert step.ends == later.ends, step


OF_OTHERS = ("", "passes", "over_rate", "results_passed")  # what a switch does with no aggregator


def words(setup, found) -> None:
    """A trace as text and as data says of every step all that it has, and nothing else."""
    heads = {
        path.SENT: "sent to {}",
        path.GONE: "leaves its queue to {}",
        path.ARRIVED: "arrives from {}",
    }
    for fragment, each in found.items():
        data, lines = (
            trace_text.data(setup, fragment, each),
            trace_text.lines(setup, fragment, each),
        )
        rows, lines = data["steps"], beginning(setup, fragment, each, data, [*lines])
        for number, (step, row, line) in enumerate(zip(each.steps, rows, lines, strict=True)):
            said = trace_text.what(setup, fragment, step)
            assert line.endswith(f"  {said}") and f"  {step.node} " in line
            assert (row["number"], row["time_ns"], row["node"]) == (number, step.time_ns, step.node)
            assert (row["kind"], row["peer"], row["end"]) == (
                step.kind,
                step.peer,
                step.end or None,
            )
            for name, other in (("cause", step.cause), ("content", step.content)):
                assert row[name] == (None if other is None else each.steps.index(other))
            told, packet = row["packet"], step.packet
            assert sum(1 << bit for bit in told["workers"]) == packet.workers
            assert (told["job"], told["fragment"]) == (packet.job, packet.fragment)
            if step.end:
                assert said.endswith(f"; {step.end}") and step.kind != path.ARRIVED
                said = said.removesuffix(f"; {step.end}")
            if step.kind in heads:
                assert said == heads[step.kind].format(step.peer)
            else:
                handled(setup, fragment, step, row, said.split("; "))


def beginning(setup, fragment, each, data, lines) -> list[str]:
    """What a trace says before its steps: the fragment's names, and where its result waited.
    Returns the lines of the steps."""
    title, place = title_of(setup, fragment), place_of(setup, fragment)
    assert lines.pop(0) == f"{title}  (in packets: {fragment.filter})"
    found = {"fragment": title, "filter": fragment.filter, "late_ns": each.late_ns}
    assert {key: data[key] for key in found} == found
    assert data["place"] == (place._asdict() if place else None)
    if place is not None:
        said = lines.pop(0)
        for part in place:
            assert str(part) in said
    nothing = [*trace_text.lines(setup, fragment, path.Path([], []))]
    assert nothing[-1] == "  no packet of it was seen" and len(nothing) == 2 + bool(place)
    waited = [(w.what, w.where, w.end_ns - w.begin_ns) for w in each.waits]
    assert [(w["what"], w["where"], w["time_ns"]) for w in data["waits"]] == waited
    if waited:
        assert lines[:1] == [""] and lines[1].endswith(f": {units.time(each.late_ns)}")
        del lines[:3]
        for what, _, time_ns in waited:
            assert lines.pop(0).endswith(f"{units.share(time_ns / each.late_ns)}  {what}")
    else:
        assert lines.pop(0) == "  no worker got a result of it"
    assert lines[0] == "" and lines[1].startswith("  every step, from ")
    assert len(lines) == 3 + len(each.steps)
    return lines[3:]


def handled(setup, fragment, step, row, parts) -> None:
    """What a switch did with a packet, in words and as data."""
    before, after, leaves = step.before, step.after, step.leaves
    own = (step.packet.job, step.packet.fragment)
    assert parts.pop(0) == (step.event.replace("_", " ") or "forwarded")
    assert row["event"] == (step.event or None)
    both = before is not None and after is not None
    if before is not None and (both and before != after or step.event not in OF_OTHERS):
        place, *told = parts.pop(0).partition(": ")
        states = told[1].split(" -> ")
        assert place == f"aggregator {before.place}"
        assert len(states) == (2 if both and before != after else 1)
        for text, slot in zip(states, (before, after), strict=False):
            is_other = slot.fragment not in (None, fragment)
            assert text.startswith(slot.state if slot.fragment else "empty")
            assert is_other == bool(slot.fragment and title_of(setup, slot.fragment) in text)
            has = slot.fragment is not None and slot.priority is not None
            assert text.endswith(f" priority {slot.priority}") == has
    for name, slot in (("before", before), ("after", after)):
        if slot is None:
            assert row[name] is None
            continue
        held = slot.fragment is not None
        assert row[name] == {
            "aggregator": slot.place,
            "state": slot.state,
            "fragment": title_of(setup, slot.fragment) if held else None,
            "workers": [n for n in range(64) if slot.workers >> n & 1] if held else [],
            "priority": slot.priority if held else None,
        }
    evicts = both and before.fragment not in (None, own) and after.fragment == own
    assert row["evicted_by"] == (title_of(setup, after.fragment) if evicts else None)
    if evicts:
        assert parts.pop(0) == f"evicted by {row['evicted_by']}, priority {step.packet.priority}"
    assert (row["leaves"] is None) == (leaves is None)
    if leaves is not None and leaves.key != step.packet.key:
        other = (leaves.job, leaves.fragment) != fragment
        words = f"{leaves.text} of {title_of(setup, Fragment(leaves.job, leaves.fragment))}"
        assert parts.pop(0) == f"{words if other else leaves.text} goes on"
        assert row["leaves"]["text"] == leaves.text
    assert not parts


def pictures(setup, found) -> None:
    """Each end is marked."""
    worst = max(found.items(), key=lambda pair: sum(len(step.ends) for step in pair[1].steps))
    drawn = [line.get_marker() for line in lanes.figure(setup, *worst).axes[0].get_lines()]
    ended = Counter(what for step in worst[1].steps for what, _ in step.ends)
    for what, mark in lanes.MARKS.items():
        if what != "egress drop":  # which looks like an eviction
            assert drawn.count(mark) == ended[what]
    for fragment, each in found.items():
        assert all(begin <= end for _, begin, end in lanes._held(fragment, each))
    evicted = [trace_text.evicted_by(step) for step in worst[1].steps if step.kind == path.HANDLED]
    assert drawn.count("v") == ended["egress drop"] + len(evicted) - evicted.count(None)


def test_the_two_bitmaps_of_tokens_are_told_apart(monkeypatch):
    monkeypatch.setattr(Ina, "tokens", True)
    made = Ina(kind="gradient", wanted=0b110, bitmap=0b10, values=[7])
    frame = bytes(Ether() / IP() / UDP(dport=wire.PORT) / made)
    packet = packet_in(frame, 64, tokens=True)
    assert (packet.workers, packet.wanted, packet.text) == (2, 6, "gradient {1} of {1, 2}")
    seen = Ether(frame)[Ina]
    assert (seen.wanted, seen.bitmap, seen.values) == (6, 2, [7])
