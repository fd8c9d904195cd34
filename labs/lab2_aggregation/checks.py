"""Checks of lab 2: one slot, four values, count and multicast."""

from __future__ import annotations

from collections.abc import Sequence

from scapy.layers.l2 import Ether
from scapy.packet import Packet

from testbed.labs.grader.bench import Bench, Switch
from testbed.labs.grader.lab import Lab
from testbed.labs.grader.packets import (
    GRADIENT,
    RESULT,
    SWITCH_MAC,
    Sum,
    as_number,
    host_mac,
    wrapped,
)

LAB = Lab(
    title="First aggregation",
    hand_in=("aggregation.p4",),
    program="aggregation.p4",
)
GROUP = 1
EVERYONE = "ff:ff:ff:ff:ff:ff"


def gradient(worker: int, values: Sequence[int], round_: int = 0, kind: int = GRADIENT) -> Ether:
    header = Sum(kind=kind, worker=worker, round=round_, values=list(values))
    return Ether(src=host_mac(worker + 1), dst=SWITCH_MAC) / header


def result(values: Sequence[int], round_: int = 0) -> Ether:
    header = Sum(kind=RESULT, worker=255, round=round_, values=[wrapped(v) for v in values])
    return Ether(src=SWITCH_MAC, dst=EVERYONE) / header


def start(t: Bench, workers: int) -> Switch:
    """A switch whose control plane knows `workers` workers, on ports 1, 2, ..."""
    switch = t.switch()
    switch.table_set_default("job", "set_job", [workers, as_number(SWITCH_MAC)])
    switch.multicast_group(GROUP, [(port, port) for port in range(1, workers + 1)])
    return switch


def numbers(t: Bench, bits: int = 20) -> list[int]:
    return [t.random.randrange(-(1 << bits), 1 << bits) for _ in range(4)]


def one_round(
    t: Bench,
    switch: Switch,
    workers: int,
    round_: int,
    why: str,
    only: Sequence[str],
    bits: int = 20,
) -> None:
    """All workers send once, in any order; what the last one makes leave is compared."""
    order = t.random.sample(range(workers), workers)
    sent = [numbers(t, bits) for _ in order]
    for worker, values in zip(order[:-1], sent[:-1], strict=True):
        switch.send(worker + 1, gradient(worker, values, round_))
    total = [sum(column) for column in zip(*sent, strict=True)]
    last = gradient(order[-1], sent[-1], round_)
    switch.expect_one(order[-1] + 1, last, result(total, round_), why, only)


def fan_in(t: Bench) -> int:
    """Of a check, drawn at random."""
    return t.random.randrange(3, 9)


@LAB.check(5, "A gradient that is not the last of its round does not leave the switch")
def absorbed(t: Bench) -> None:
    workers = fan_in(t)
    switch = start(t, workers)
    for worker in t.random.sample(range(workers), workers - 1):
        packet = gradient(worker, numbers(t))
        switch.expect(worker + 1, packet, {}, "the sum is not complete yet, so nothing leaves")


@LAB.check(15, "The last gradient of a round goes to every worker, once")
def multicast(t: Bench) -> None:
    workers = fan_in(t)
    switch = start(t, workers)
    *others, last = t.random.sample(range(workers), workers)
    for worker in others:
        switch.send(worker + 1, gradient(worker, [1, 1, 1, 1]))
    leaving = {port: result([workers] * 4) for port in range(1, workers + 1)}
    why = f"the last of {workers} gradients leaves on the ports of all workers"
    packet = gradient(last, [1, 1, 1, 1])
    switch.expect(last + 1, packet, leaving, why, only=["Sum.round"])


@LAB.check(15, "The result carries the sum of all four values")
def sums(t: Bench) -> None:
    workers = fan_in(t)
    switch = start(t, workers)
    why = "each value of the result is the sum of the workers' values at this position"
    one_round(t, switch, workers, 0, why, only=["Sum.values"])


@LAB.check(5, "Negative numbers and sums that leave the range wrap like int32")
def negative(t: Bench) -> None:
    workers = fan_in(t)
    switch = start(t, workers)
    one_round(t, switch, workers, 0, "bit<32> adds as int32 does", ["Sum.values"], bits=31)


@LAB.check(10, "The result has the kind, sender and addresses of a result")
def header(t: Bench) -> None:
    workers = fan_in(t)
    switch = start(t, workers)
    why = "a result is a new packet: from the switch, to everybody"
    only = ["Sum.kind", "Sum.worker", "Ether"]
    one_round(t, switch, workers, t.random.randrange(1, 1000), why, only)


@LAB.check(15, "Every round starts from zero")
def rounds(t: Bench) -> None:
    workers, first = fan_in(t), t.random.randrange(10)
    switch = start(t, workers)
    for round_ in range(first, first + 6):
        why = f"round {round_} has nothing of the rounds before in it"
        one_round(t, switch, workers, round_, why, only=["Sum.values", "Sum.round"])


@LAB.check(10, "The control plane sets the number of workers")
def any_number(t: Bench) -> None:
    for workers in (2, t.random.randrange(5, 9), 1):
        switch = start(t, workers)
        for worker in range(workers - 1):
            packet = gradient(worker, numbers(t))
            why = f"gradient {worker + 1} of {workers} is not the last"
            switch.expect(worker + 1, packet, {}, why)
        t.case = "the last of the workers' gradients"
        why = f"{workers} workers have sent, so the sum is complete"
        last = gradient(workers - 1, numbers(t))
        switch.expect_one(workers, last, last, why, only=["Sum.round"])


@LAB.check(5, "Packets that are not gradients are dropped and change nothing")
def others(t: Bench) -> None:
    switch = start(t, 2)
    first, second = numbers(t), numbers(t)
    switch.send(1, gradient(0, first))
    strangers: list[Packet | bytes] = [
        gradient(1, numbers(t), kind=RESULT),
        *(gradient(1, numbers(t), kind=k) for k in (0, 3, 255, t.random.randrange(4, 255))),
        bytes(gradient(1, numbers(t)))[: -t.random.randrange(1, 20)],
        Ether(src=host_mac(2), dst=SWITCH_MAC, type=0x86DD) / bytes(gradient(1, numbers(t)))[14:],
        Ether(src=host_mac(2), dst=SWITCH_MAC, type=0x0800) / bytes(40),
    ]
    for packet in strangers:
        switch.expect(2, packet, {}, "this is no gradient")
    total = [a + b for a, b in zip(first, second, strict=True)]
    why = "what was no gradient was neither counted nor added"
    switch.expect_one(2, gradient(1, second), result(total), why, only=["Sum.values"])
