"""A wrong value says what has made it: the step of the switch, and what explains the number."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import re
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from p4fabric.base.hops import links_between, switch_of
from p4fabric.simulate import taps
from p4fabric_testing.matrix import first_of

from testbed.emulate.mininet_run import Repetition
from testbed.protocols.sizes import frame_bytes
from testbed.run_parts.program import prepare
from testbed.setup import Setup
from testbed.simulate.simulation import Simulation
from testbed.tracing import blame
from testbed.tracing.fragments import Fragment
from testbed.tracing.packets import numbers, packet_in, value_in
from testbed.tracing.path import HANDLED
from testbed.tracing.rerun import paths
from testbed.workload.wrong_value import WrongValue, WrongValueError, explained
from tests.support.experiments import memory_line, setup_of

SYSTEMS = ("esa", "switchml", "ps", "atp", "{name: ps, servers: 2}", "{name: grid, memory: esa}")
NETWORKS = ("{kind: star, hosts: 6}", "{kind: leaf_spine, leaves: 2, spines: 2, hosts: 4}")
FAILURE = """faults:
  - {at: 20 us, fault: link_down, between: [s1, s3], failover: 20 us}
"""
BIT = 1 << 7


def drawn(seed: int, fails: bool = False) -> Setup:
    system = SYSTEMS[seed % (3 if fails else len(SYSTEMS))]
    return setup_of(f"""
name: drawn
seed: {seed + 1}
runtime: virtual
topology: {NETWORKS[1 if fails else seed // len(SYSTEMS) % 2]}
links: {{bandwidth: 1 Gbit/s, delay: {2 + seed % 3} us}}
system: {system}
{memory_line(system, 24)}
values_per_packet: 16
{FAILURE if fails else ""}
jobs:
  - {{name: a, model: resnet18, workers: 3, iterations: 2, scale: 0.0001, compute_scale: 0.01,
     placement: spread}}
""")


class Flipped:
    """A bit of one value that is wrong when a worker's packet enters its switch: the first one
    after so many ns."""

    def __init__(self, setup: Setup, seed: int, after_ns: int) -> None:
        draw = np.random.default_rng(seed)
        job, platform = setup.jobs[0], setup.platform
        self.bits, self.after_ns = platform.bitmap_bits, after_ns
        self.offset = int(draw.integers(16))
        self.host = str(draw.choice(job.group.workers))
        self.switch = switch_of(platform.topology, self.host)
        self.port = platform.topology.port_to(self.switch, self.host)
        self.came = 0  # the value that is wrong
        self.chosen = None

    def entering(self, name, ports, receive, seen):
        """In place of taps._entering. The same packet is wrong in each run, and where two taps see
        it."""

        def flipped(manager, port, data, length, time_ns):
            if (name, port) == (self.switch, self.port) and time_ns >= self.after_ns:
                frame = ctypes.string_at(data, length)
                packet = packet_in(frame, self.bits)
                if self.chosen is None and packet is not None and self.is_chosen(packet, frame):
                    self.chosen = time_ns, packet
                    self.came = (value_in(frame, packet, self.bits, self.offset) or 0) ^ BIT
                if self.chosen == (time_ns, packet):
                    start = frame_bytes(0, self.bits) + 4 * self.offset
                    value = (self.came % 2**32).to_bytes(4, "big")
                    ctypes.memmove(data, frame[:start] + value + frame[start + 4 :], length)
            return inner(manager, port, data, length, time_ns)

        inner = REAL(name, ports, receive, seen)
        return taps._RECEIVE(flipped)

    def is_chosen(self, packet, frame) -> bool:
        right = packet.is_gradient and not packet.bare
        return right and bool(value_in(frame, packet, self.bits, self.offset))  # 0: there is none


REAL = taps._entering


def failed(setup: Setup, compiled, flipped: Flipped, patch) -> WrongValueError:
    patch.setattr(taps, "_entering", flipped.entering)
    simulation = Simulation(setup, compiled)
    with contextlib.closing(simulation.parts), pytest.raises(WrongValueError) as caught:
        ports = {flipped.switch: [flipped.port]}
        kept = taps.listen(simulation.nodes, ports, lambda *seen: None)
        simulation.run()
        del kept
    return caught.value


@pytest.mark.parametrize("seed", range(3, 9))
def test_each_sum_that_is_wrong_is_named_and_no_right_one(seed):
    """Of a run without a fault, one number of one step at a time is changed."""
    setup, changed = drawn(seed), Counter()
    wanted = [Fragment(0, number) for number in range(0, setup.jobs[0].fragments, 7)]
    found, _ = paths(setup, prepare(setup).compiled, wanted, offset=3)
    for fragment, path in found.items():

        def members(packet, fragment=fragment) -> int:
            """The workers of a sum; 0: it is none, or of another fragment."""
            if packet is None or (packet.job, packet.fragment) != fragment:
                return 0
            return packet.workers if packet.is_gradient else 7 if packet.is_result else 0

        steps = [s for s in path.steps if s.kind == HANDLED and s.values is not None]
        alone = [s for s in steps if members(s.packet) in (1, 2, 4)]
        parts = {s.packet.workers.bit_length() - 1: s.values.came or 0 for s in alone}
        wrong = WrongValue(0, "a", 0, 0, "t", 0, fragment.number, 3, 0, 0, 0, "h1", 3, parts)
        assert blame.first_wrong(path, wrong).startswith("at no switch: ")
        events: dict[str, list[str]] = {}
        for step in (s for s in path.steps if s.kind == HANDLED and not s.packet.is_result):
            events.setdefault(step.node, []).append(step.event.replace("_", " ") or "forwarded")
        met = "; ".join(f"{node} ({', '.join(words)})" for node, words in events.items())
        assert blame.met(path) == met
        if setup.platform.system.name != "grid":  # whose plan has other ways
            told = {*re.findall(r"\bs\d\b", blame.way(setup, wrong))}
            assert told == {s.node for s in path.steps if members(s.packet) and s.kind == HANDLED}
        more = blame.first_wrong(path, dataclasses.replace(wrong, workers=4))
        assert more.startswith("not known: the values of the other")
        for step in steps:
            after, right = step.after, step.values
            filling = after is not None and (after.fragment, after.state) == (fragment, "filling")
            sums = {
                "came": members(step.packet),
                "kept": after.workers if filling else 0,
                "left": members(step.leaves),
            }
            for name, workers in sums.items():
                if (value := getattr(right, name)) is None:
                    continue
                step.values = right._replace(**{name: value ^ BIT})
                text, step.values = blame.first_wrong(path, wrong), right
                changed[name, bool(workers)] += 1
                own = {worker: part for worker, part in parts.items() if workers >> worker & 1}
                if not workers:
                    assert text.startswith("at no switch: ")
                elif name == "came":
                    came = f"the {step.packet.text} that came in there from {step.peer}"
                    assert text == f"before {step.node}: {came} had {value ^ BIT}, not {value}"
                else:
                    event = step.event.replace("_", " ") or "a packet that it forwarded"
                    by = f"{event} by {step.packet.text} at {step.time_ns} ns"
                    there = (
                        f"aggregator {after.place}" if name == "kept" else "the packet that went on"
                    )
                    had = f"{there} then had {value ^ BIT} for workers {numbers(workers)}"
                    why = explained(value ^ BIT, value, own)
                    assert text == f"at {step.node}, {by}: {had}; {why}"
    assert changed["came", True] and changed["left", True]


@pytest.mark.parametrize("seed", first_of(range(12), 3))
def test_switches_are_those_after_links_have_failed(seed, monkeypatch):
    setup = drawn(seed, fails=True)
    compiled = prepare(setup).compiled
    error = failed(setup, compiled, Flipped(setup, seed, after_ns=60_000), monkeypatch)
    before, now = (blame.way(each, error.wrong) for each in (setup, error.setup))
    assert "s1 -> s3" in before and "s1 -> s3" not in now and "s1 -> s4" in now
    # A run on a real clock says it as well.
    session = SimpleNamespace(network=SimpleNamespace(topology=setup.platform.topology))
    repetition = Repetition(setup, None, session)
    told = WrongValueError(error.wrong)
    repetition.__exit__(WrongValueError, told, None)
    assert told.setup is setup
    repetition._failover = SimpleNamespace(setup=error.setup)
    repetition.__exit__(WrongValueError, told, None)
    assert told.setup is error.setup


@pytest.mark.parametrize("seed", range(6))
def test_ways_and_ports_are_those_of_the_hosts(seed):
    setup = drawn(seed)
    job, topology = setup.jobs[0], setup.platform.topology
    workers, servers = job.group.workers, job.group.servers
    for number in (3, job.fragments + 4):
        wrong = SimpleNamespace(number=0, fragment=number)
        targets = servers or (job.group.shapes[0].target,)
        target = targets[number % job.fragments % len(targets)]
        ways = []
        for worker in workers:
            links = links_between(topology, worker, target)
            ways.append(" -> ".join(topology.links[link][1 - end] for link, end in links))
        assert blame.way(setup, wrong) == "; ".join(dict.fromkeys(ways))
        ports = [f"{switch_of(topology, host)}:{host}" for host in (*workers, *servers)]
        assert blame._ports(setup, wrong) == ports
    group = dataclasses.replace(job.group, workers=workers * 9, spread=True)
    jobs = {0: SimpleNamespace(fragments=job.fragments, group=group)}
    many = SimpleNamespace(platform=setup.platform, jobs=jobs)
    assert blame.way(many, wrong) == f"{blame.way(setup, wrong)}, or equal paths"
    assert blame._ports(many, wrong) == (ports[:3] * 9)[:16]
    nobody = SimpleNamespace(number=99, fragment=0)
    assert (blame.way(setup, nobody), blame._ports(setup, nobody)) == ("not known", [])


PARTS = {0: 100, 1: -7, 2: 3000}
RIGHT = sum(PARTS.values())


@pytest.mark.parametrize(
    "found, words",
    [
        (RIGHT - 3000, "the addition of worker 2's value is missing (3000)"),
        (RIGHT + 7 - 100, "the addition of the values of workers 0, 1 is missing"),
        (RIGHT + 100, "worker 0's value was added twice (100)"),
        (RIGHT - 2 * 3000, "worker 2's value was subtracted"),
        (100 | -7 | 3000, "the bitwise or of the workers' values"),
        (100 ^ -7 ^ 3000, "the bitwise xor of the workers' values"),
        ((100 - 7) | 3000, "worker 2's value went in by a bitwise or, not by an addition"),
        (3000, "the addition of the values of workers 0, 1 is missing"),
        (0, "it is 0: nothing was added"),
        (int.from_bytes(RIGHT.to_bytes(4, "little"), "big", signed=True), "the wrong order"),
        (RIGHT + 12345, "it differs by 12345"),
    ],
)
def test_numbers_are_explained(found, words):
    assert words in explained(found, RIGHT, PARTS)


def test_sums_wrap_as_32_bits_do():
    parts = {0: 2**31 - 1, 1: 5}
    right = 2**31 + 4 - 2**32
    assert "worker 1's value was added twice" in explained(right + 5, right, parts)


def test_of_recorded_gradients_only_one_is_known():
    assert "worker 1's value was added twice" in explained(12, 10, {1: 2})
    assert "values of other workers are not known here" in explained(1234, 10, {1: 2})
