"""Whole networks whose frames get lost, doubled and held up, against the record of what they did
(tests/support/recorded.py): every packet at its time, and what hosts and switches have counted.

Hosts get strange packets, too: what comes to them is cut off or has another field now and then.
Cases are drawn from the options of test_any_history.py, but not by Hypothesis, so that they stay
the same.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pytest
from p4fabric.base.errors import UserError

from testbed.protocols import server_store, sizes, wire
from testbed.setup import Setup
from testbed.setup.host_specs import host_specs
from testbed.workload import worker
from tests.support import recorded
from tests.support.experiments import setup_of
from tests.support.fabric import MS, US, Host, check_values, lossy
from tests.support.histories import cases
from tests.support.histories.history import (
    FAULTY_FRAMES,
    LATE,
    LOST,
    Fault,
    History,
    Network,
    Pause,
)
from tests.support.programs import draw as draw_arrays
from tests.support.programs import programs
from tests.support.programs import text as program_text
from tests.support.recorded import Draw

FILE = "histories"
EACH = 4  # histories of a system
STRANGE = 6  # percent of the frames that come to hosts
LIMIT_NS = 300 * MS
HEAD = struct.Struct("!BBHHHIIIH")
FIELDS = ["kind", "priority", "flags", "job", "node", "fragment", "index", "extra", "sender"]
ZEROS_AND_BITS = (("sent", 32), ("header_only", 32), ("header_only", 16))
NAMES = [f"{system} {number}" for system in cases.SYSTEMS for number in range(EACH)]


def case_of(draw: Draw, system: str) -> Setup:
    """An experiment of the system."""
    while True:
        options = {k: draw.one(v) for k, v in cases.OPTIONS[system].items() if draw.chance(40)}
        network = draw.one(tuple(cases.NETWORKS)) if system in cases.IN_NETWORK else "star"
        options["zeros"], bits = draw.one(ZEROS_AND_BITS)
        if cases.KNOWN[system].algorithm:
            bits = 32
        if system == "switchml":
            options["sets"] = draw.one((2, 2, 1))
        text = cases.text_of(system, network, 16, bits=bits, **options)
        if system != "grid":
            rate = draw.one(("unlimited", "1 Gbit/s", "100 Mbit/s"))
            text += f"links: {{bandwidth: {rate}}}\n"
        try:
            return setup_of(text)
        except UserError:
            continue


def history_of(draw: Draw, setup: Setup) -> History:
    topology = setup.platform.topology
    wires = [
        (node, there)
        for node in (*topology.hosts, *topology.switches)
        for there, _, _ in topology.ports(node).values()
    ]
    kept = getattr(host_specs(setup)[0].options, "sets", 2) > 1  # else what is lost is lost
    events: list[Fault | Pause] = [
        Fault(*draw.one(wires), draw.randrange(FAULTY_FRAMES), draw.one(LOST * kept + LATE))
        for _ in range(draw.one((0, 10, 30, 60)))
    ]
    if draw.chance(40):
        start, length = draw.randrange(400) * US, draw.randrange(20) * MS
        host = draw.one(setup.jobs[0].group.workers)
        events.append(Pause(host, start, start + length))
    return History(tuple(events), draw.randrange(100))


class Strange:
    """A forger (see fabric.py): what comes to hosts comes once more, changed."""

    def __init__(self, draw: Draw, network: Network) -> None:
        self.draw, self.network = draw, network

    def __call__(self, now: int, node: str, frame: bytes) -> Iterator[tuple[int, bytes]]:
        to_host = frame[:4] == b"\2\0\0\0"
        if node in self.network.switches and to_host and self.draw.chance(STRANGE):
            yield self.draw.one((-1, 0, 3000)), self.changed(frame)

    def changed(self, frame: bytes) -> bytes:
        """A frame that does no harm: a value of a sum would be wrong if it were another
        fragment's."""
        draw, payload = self.draw, frame[sizes.FRAME_OVERHEAD :]
        head = dict(zip(FIELDS, HEAD.unpack_from(payload), strict=True))
        rest, kind = payload[HEAD.size :], head["kind"] & 15
        acks = kind == wire.CONTROL and head["extra"] == 0
        what = draw.one(("cut", "kind", "job", "sender", "iteration", "number", "twice", "ask"))
        if what == "cut":
            few = 7 if kind == wire.CONTROL else 6  # 6: its values are all 0
            rest = rest[: draw.one((0, 5, few, max(few, len(rest) - 4), max(few, len(rest) // 2)))]
        elif what == "kind":
            head["kind"] = draw.one((0x0F, 0x2F, 0x10 | kind ^ 4 | 8, 0x10, 0x1C))
        elif what == "job":
            head["job"] += draw.one((1, 2, 0x100))
        elif what == "sender" and kind == wire.CONTROL:
            head["sender"] = draw.one((head["sender"], 3, 4, 31, 0xFFFF))
        elif what == "iteration" and kind != wire.CONTROL:
            fragments = self.network.setup.jobs[min(head["job"], 1)].fragments
            head["fragment"] = (head["fragment"] + fragments * draw.one((2, 3, -1))) & 0xFFFFFFFF
        elif what == "number" and acks:
            shift = draw.one((1, -1, 31, 32, 63, 64, 255, 256, -256, 1 << 20))
            head["index"] = (head["index"] + shift) & 0xFFFFFFFF
        elif what == "ask" and kind in (wire.RESULT, wire.RESULT_ONE) and head["sender"] >> 14:
            head["kind"] = 0x10 | wire.ASK
            head["flags"], rest = draw.one((0, wire.AGAIN)), rest[:6]
        head["flags"] ^= draw.one((0, 0, 0, wire.ECN, wire.RESEND))
        return frame[: sizes.FRAME_OVERHEAD] + HEAD.pack(*head.values()) + rest


class Recorded(Network):
    """A network that notes all frames."""

    made: recorded.Record

    def _delays(self, node: str, neighbour: str, frame: bytes) -> tuple[int, ...]:
        self.made.note(self.now, f"{node} -> {neighbour}", frame)
        return super()._delays(node, neighbour, frame)


@pytest.mark.parametrize("name", NAMES)
def test_a_system_does_what_it_did(name, monkeypatch):
    system, _, number = name.partition(" ")
    draw = Draw(name)
    setup = case_of(draw, system)
    if number == "1":  # servers keep few results
        monkeypatch.setattr(server_store, "KEPT_WINDOWS", 0)
        monkeypatch.setattr(server_store, "KEPT_ROWS", 3)
    network = Recorded(setup, cases.start_switches(setup), history_of(draw, setup))
    network.made = recorded.Record()
    if number != "0":
        network.forger = Strange(draw, network)
    network.made.facts["end"] = network.play(LIMIT_NS) or "every value is right"
    network.made.note_hosts([*network.hosts.values()])
    network.made.note_switches(setup, network.switches)
    network.made.hold(FILE, name)


# ---- programs ----

CALLS = ("allreduce", "reduce_scatter", "all_gather", "broadcast", "reduce")
ON_SLOW_LINKS = ("ring", "double_tree", "colocated_ps")
PROGRAMS = {
    **{f"{each}, program": each for each in ("esa", "atp", "ring", "switchml", "grid", "ps")},
    "esa that delivers, program": "esa, results_from: switch",
    "atp that delivers, program": "atp, release: on_completion, results_from: switch",
    "colocated_ps, program": "colocated_ps",
    **{f"{each} on a slow link, program": f"{each}, window: 4" for each in ON_SLOW_LINKS},
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_s_calls_go_as_they_did(name):
    """The result of a sum gets lost for one rank and its server, too."""
    draw, made = Draw(name), recorded.Record()
    system, _, more = PROGRAMS[name].partition(", ")
    faults = lossy(draw.randrange(100), 0.03, 0.03, 0.03)
    text = program_text(system, options=f", {more}" * bool(more))
    slow = "slow" in name
    fabric, jobs = programs(text.replace("1 Gbit/s", "200 kbit/s") if slow else text)
    unlucky = {host.spec.host for host in (*fabric.workers()[1:2], *fabric.servers())}
    addresses = {bytes(map(int, fabric.hosts[h].spec.address.split("."))) for h in unlucky}

    def schedule(now: int, node: str, frame: bytes) -> tuple[int, ...]:
        made.note(now, node, frame)
        kind, sender = frame[sizes.FRAME_OVERHEAD] & 15, frame[62] << 8 | frame[63]
        by_switch = kind in (wire.RESULT, wire.RESULT_ZEROS) and sender != wire.SERVER
        if more and by_switch and frame[30:34] in addresses and draw.chance(60):
            return ()
        return faults(now, node, frame)

    fabric.schedule = schedule
    for number in range(7 if slow else 6):
        call, root = CALLS[number % len(CALLS)], draw.randrange(4)
        size = draw.one((16, 100, 256) if slow else (1, 16, 40, 100))
        arrays = [each >> 3 for each in draw_arrays(number, 4 * size, np.int32)]
        for each in arrays:
            each[size // 2 : size] = 0
        arguments = (root,) if call in ("broadcast", "reduce") else ()
        handles = [
            getattr(job, f"{call}_async")(array, *arguments)
            for job, array in zip(jobs, arrays, strict=True)
        ]
        found = [handle.wait() for handle in handles]
        right = arrays[root] if call in ("broadcast", "all_gather") else np.sum(arrays, axis=0)
        if call in ("allreduce", "broadcast"):
            for each in found:
                np.testing.assert_array_equal(each, right)
        for array in arrays:
            array[:] = -1  # a program's arrays are its own again
    made.note_hosts([*fabric.hosts.values()])
    made.note_switches(fabric.setup, fabric.switches)
    made.hold(FILE, name)


# ---- trees that change ----

CHANGED = [f"tree that changes {number}" for number in range(3)]
WAYS = (150, 400, 401, 900)  # events before which a worker is told so


@pytest.mark.parametrize("name", CHANGED)
def test_workers_of_changed_trees_ask_as_they_did(name):
    """A worker that is told of other trees (they are where they were) sends again what is in
    flight, and asks others for results, as one does that gets none from its switch."""
    draw, made = Draw(name), recorded.Record()
    network = "star" if name[-1] == "0" else "racks"
    text = cases.text_of("tree", network, 16, zeros="sent", timeout="2 ms")
    setup = setup_of(text + "faults: [{fault: restart, switch: s1, at: 1 s}]\n")
    events = (Fault("s1", "h1", number, ()) for number in range(draw.one((5, 40))))
    fabric = Recorded(setup, cases.start_switches(setup), History((*events,), 7))
    fabric.made = made
    fabric.forger = Strange(draw, fabric)
    for count in range(20_000):
        if all(host.finished() for host in fabric.workers()):
            break
        if count in WAYS:
            host: Host = draw.one([host for host in fabric.workers() if not host.finished()])
            host.use(worker.on_new_way(host.machine, host.spec.worker_part))
            fabric._call(fabric.now, host.spec.host)
            fabric._wake.pop(host.spec.host, None)
        fabric.step()
    check_values(fabric)
    made.note_hosts([*fabric.hosts.values()])
    made.note_switches(setup, fabric.switches)
    assert any(frame[sizes.FRAME_OVERHEAD] & 15 == wire.ASK for _, _, frame in made.packets)
    made.hold(FILE, name)


def test_each_record_has_its_case():
    assert recorded.names(FILE) == {*NAMES, *PROGRAMS, *CHANGED}
