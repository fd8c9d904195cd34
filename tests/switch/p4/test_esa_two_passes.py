"""ESA in two passes is ESA: the same packets leave, and the registers hold the same at the end.

Also with packets in between: where several packets are between their passes at once, no
contribution is lost or added twice. Without the comparison of versions this would not be so.
"""

from __future__ import annotations

import contextlib
import random
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from p4engine.switch.library import Switch
from p4engine.trace.events import Event
from p4engine.trace.tracer import Tracer
from p4fabric.base.topology import host_ip
from p4fabric_testing.matrix import first_of
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from p4engine import compile_program
from testbed import dataplane
from testbed.dissect import Ina
from testbed.paths import P4
from testbed.protocols import wire
from tests.support.bmv2.cases import CASES, Case, calls_of, surroundings
from tests.support.bmv2.compare import TIMES, events_of, outputs
from tests.support.bmv2.packets import sequence
from tests.support.experiments import setup_of
from tests.support.paths import ROOT
from tests.support.switches import TWO_JOBS

TWO_PASSES = P4 / "esa_two_passes.p4"
ROUND = 200  # a port through which packets go round
SEVERAL = (*CASES["esa"], Case("esa", "max_age: 50us"), Case("esa", "preempt: coin"))
EVENTS = set(range(20))  # of pool_types.p4, by number: all but OVER_RATE, which is GRID's


def start(case: Case, source: Path, values: int, *, trace: bool = False, **more: int) -> Switch:
    """A switch of the case with its tables filled, which runs `source`."""
    settings = case.setup(values)
    _, definitions, folders = dataplane.program(settings.platform)
    ports = [*surroundings(case, settings).ports, ROUND]
    compiled = compile_program(source, definitions | more, folders, trace=trace)
    switch = Switch(compiled, ports=ports, seed=1)
    switch.batch(calls_of(case, settings))
    return switch


def short(name: str) -> str:
    """A register's name without the control of the egress, which is another one in two passes."""
    return name.removeprefix("InaEgress.")


def compare(case: Case, count: int, seed: int, values: int = 4, **more: int) -> Counter[int]:
    """Send `count` random packets through both programs; returns how often each event occurred."""
    packets = list(sequence(surroundings(case, case.setup(values)), count, seed))
    with contextlib.ExitStack() as stack:
        one = stack.enter_context(contextlib.closing(start(case, P4 / "esa.p4", values)))
        two = stack.enter_context(contextlib.closing(start(case, TWO_PASSES, values, **more)))
        left, right = outputs(one, packets), outputs(two, packets)
        assert left == right
        least = count / 3 if case.admission == "off" else count / 30
        assert sum(map(len, left.values())) > least
        ports = range(ROUND + 1)
        refused, again = (
            dataplane.refusals(case.setup(4).platform, each, ports) for each in (one, two)
        )
        assert refused == again and (sum(refused.values()) > 0) == (case.admission == "port")
        for register in one.compiled.info.registers:
            name = short(register.name)
            assert np.array_equal(one.register_read(name), two.register_read(name)), name
        return Counter(events_of(one))


WAYS = [{}, {"RECIRCULATION_PORT": ROUND}]


@pytest.mark.parametrize("more", first_of(WAYS, 1), ids=["resubmit", "round"])
def test_it_does_what_esa_does(more):
    events: Counter[int] = Counter()
    for seed, case in enumerate(SEVERAL):
        events += compare(case, 1000, seed, **more)
    assert set(events) == EVENTS


def test_a_pass_reads_an_array_once_and_then_writes_it_once():
    case = CASES["esa"][0]
    made: list[dict[str, list[str]]] = []
    with contextlib.closing(start(case, TWO_PASSES, 4, trace=True)) as switch:
        tracer = Tracer(switch)
        for number, (port, data) in enumerate(
            sequence(surroundings(case, case.setup(4)), 400, 11), 1
        ):
            switch.receive(port, data, 1000 * number)
            switch.advance(1000 * number)
            for event in tracer.take():
                if event.kind == "packet":
                    made.append({})
                elif event.kind == "extern" and "." in event.site["name"]:
                    array, _, method = event.site["name"].rpartition(".")
                    made[-1].setdefault(array, []).append(method)
    accesses = {tuple(each) for one in made for each in one.values()}
    assert len(made) > 400 and accesses <= {("read",), ("write",), ("read", "write"), ("count",)}
    assert ("read", "write") in accesses


# ---- packets in between ----


def gradient(job: int, worker: int, fragment: int, index: int, value: int, priority: int) -> bytes:
    return bytes(
        Ether(src="02:00:00:00:00:99", dst="02:00:00:01:00:01")
        / IP(src=host_ip(1 + 4 * job + worker), dst=host_ip(4 + 4 * job))
        / UDP(sport=wire.PORT, dport=wire.PORT, chksum=0)
        / Ina(
            kind=wire.GRADIENT,
            job=job,
            fragment_number=fragment,
            index=index,
            sender=worker,
            priority=priority,
            bitmap=1 << worker,
            values=[value] * 4,
        )
    )


def contributions(count: int, seed: int) -> Iterator[tuple[int, int, int, int]]:
    """(job, worker, fragment, priority) of two jobs of three workers, with fragments that compete
    for few aggregators, in an order in which neighbours often mean the same one."""
    draw = random.Random(seed)
    for first in range(0, count, 3):
        some = [
            (job, worker, first + n, draw.randrange(1, 256))
            for job in (0, 1)
            for n in range(3)
            for worker in range(3)
        ]
        draw.shuffle(some)
        yield from some


def value_of(job: int, worker: int, fragment: int) -> int:
    """Sums of these tell whose values are in them."""
    return 7 ** (3 * job + worker) * (fragment % 97 + 1)


Contribution = tuple[int, int, int]  # job, worker, fragment


def last_passes(events: list[Event]) -> list[Contribution]:
    """The contributions of traced packets in the order of the passes after which they do not go
    round again."""
    order: list[Contribution] = []
    for event in events:
        if event.kind == "extract" and event.what() == "hdr.ina":
            found = {name: value for name, value, *_ in event.fields()}
            order.append((found["job"], found["sender"], found["fragment"]))
        elif event.kind == "assign" and event.site["source"].strip() == "meta.again = 1;":
            order.pop()
    return order


class Crowd:
    """Contributions to two aggregators of a switch, `at_once` of which are between their passes at
    once; `left`: what leaves, by port."""

    def __init__(self, source: Path, seed: int, at_once: int = 12, fragments: int = 30) -> None:
        memory = "memory: {aggregators: 2}"
        self.setup = setup_of(TWO_JOBS % {"system": "esa", "memory": memory, "options": ""})
        self.frames = {
            (job, worker, n): (
                1 + 4 * job + worker,
                gradient(job, worker, n, n % 2, value_of(job, worker, n), priority),
            )
            for job, worker, n, priority in contributions(fragments, seed)
        }
        with contextlib.closing(self.started(source, trace=True)) as switch:
            switch.queue_rate(1_000_000, port=ROUND)  # packets wait there, and others pass
            tracer, sent = Tracer(switch), list(self.frames)
            self.order: list[Contribution] = []
            self.left: dict[int, list[bytes]] = {}
            for number, first in enumerate(range(0, len(sent), at_once), 1):
                for each in sent[first : first + at_once]:
                    port, data = self.frames[each]
                    switch.receive(port, data, 1_000_000 * number)
                by_port(switch, 1_000_000 * number + 999_999, self.left)
                self.order += last_passes(tracer.take())
            assert sorted(self.order) == sorted(sent)
            self.registers = registers(switch)
            self.passes = switch.stats()["recirculations"] + len(sent)

    def started(self, source: Path, **options: bool) -> Switch:
        _, definitions, folders = dataplane.program(self.setup.platform)
        definitions = definitions | {"RECIRCULATION_PORT": ROUND}
        compiled = compile_program(source, definitions, folders, **options)
        switch = Switch(compiled, ports=[*range(1, 9), ROUND], seed=1, priority_queues=2)
        dataplane.install(self.setup, "s1", switch)
        return switch

    def is_as_in_order(self) -> bool:
        """True if ESA sends and holds the same if packets come one by one in the order of their
        last passes."""
        left: dict[int, list[bytes]] = {}
        with contextlib.closing(self.started(P4 / "esa.p4")) as switch:
            for number, each in enumerate(self.order, 1):
                port, data = self.frames[each]
                switch.receive(port, data, 1000 * number)
                by_port(switch, 1000 * number, left)
            found = registers(switch)
        assert sum(map(len, left.values())) > 20
        return left == self.left and all(self.registers[name] == found[name] for name in found)


def by_port(switch: Switch, now: int, into: dict[int, list[bytes]]) -> None:
    for _, port, data in switch.advance(now):
        into.setdefault(port, []).append(data)


def registers(switch: Switch) -> dict[str, list[int]]:
    """All but those of times."""
    names = {register.name.rpartition(".")[2] for register in switch.compiled.info.registers}
    return {name: list(switch.register_read(name)) for name in names - {*TIMES}}


@pytest.mark.parametrize("seed", first_of(range(3), 1))
def test_packets_in_between_act_as_if_they_came_in_the_order_of_their_last_passes(seed):
    crowd = Crowd(TWO_PASSES, seed)
    assert crowd.is_as_in_order() and crowd.order != list(crowd.frames)
    assert crowd.passes > 2 * len(crowd.frames)  # some had to go round more than once


@pytest.mark.slow
def test_the_passes_are_those_that_the_page_tells():
    page = (ROOT / "docs" / "hardware.md").read_text()
    told = re.findall(r"(?m)^  \| (\d+) \| (\d\.\d) \|$", page)
    assert len(told) == 3
    for in_flight, passes in told:
        crowd = Crowd(TWO_PASSES, 0, int(in_flight), 90)
        assert f"{crowd.passes / len(crowd.frames):.1f}" == passes, in_flight


def test_without_versions_packets_in_between_do_harm(tmp_path):
    shutil.copytree(P4, tmp_path / "p4")
    changed = tmp_path / "p4" / "two_passes.p4"
    check = "meta.decided == 1 && version == meta.version"
    assert check in changed.read_text()
    changed.write_text(changed.read_text().replace(check, "meta.decided == 1"))
    assert not Crowd(changed.parent / TWO_PASSES.name, 0).is_as_in_order()
