"""Checks of lab 2: one slot, four values, count and multicast."""

from __future__ import annotations

from collections.abc import Sequence

from scapy.layers.l2 import Ether
from scapy.packet import Packet

from labs.grader.bench import Bench, Switch
from labs.grader.bench import numbers as bench_numbers
from labs.grader.lab import Lab
from labs.grader.packets import (
    ETHERNET_BYTES,
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
PORTS = 8
AT_TYPE, AT_KIND = ETHERNET_BYTES - 2, ETHERNET_BYTES
EVERYONE = "ff:ff:ff:ff:ff:ff"


def gradient(worker: int, values: Sequence[int], round_: int = 0, kind: int = GRADIENT) -> Ether:
    header = Sum(kind=kind, worker=worker, round=round_, values=list(values))
    return Ether(src=host_mac(worker + 1), dst=SWITCH_MAC) / header


def result(values: Sequence[int], round_: int = 0) -> Ether:
    header = Sum(kind=RESULT, worker=255, round=round_, values=[wrapped(v) for v in values])
    return Ether(src=SWITCH_MAC, dst=EVERYONE) / header


def start(t: Bench, workers: int) -> Switch:
    """A switch whose control plane knows `workers` workers, on ports 1, 2, ... (more than PORTS
    share these)."""
    switch = t.switch()
    switch.table_set_default("job", "set_job", [workers, as_number(SWITCH_MAC)])
    ports = range(1, min(workers, PORTS) + 1)
    switch.multicast_group(GROUP, [(port, port) for port in ports])
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


@LAB.check(10, "The result carries the sum of all four values")
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


@LAB.check(10, "Every round starts from zero")
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


def strangers(packet: Packet) -> list[tuple[str, bytes]]:
    """Frames that differ from a gradient in one place, so that they are none."""
    data, made = bytes(packet), []
    for name, at in (("ethertype", AT_TYPE), ("ethertype", AT_TYPE + 1), ("kind", AT_KIND)):
        for bit in range(8):
            other = data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
            made.append((f"a packet with another {name}", other))
    cut = range(AT_KIND, len(data))
    return [*made, *(("a packet that is cut off", data[:size]) for size in cut)]


@LAB.check(10, "In long histories every field of every packet that leaves is right")
def histories(t: Bench) -> None:
    """Rounds of few and of many workers, with strangers between their gradients."""
    for workers, last in ((fan_in(t), 0xFFFF), (t.random.randrange(129, 255), 0)):
        switch, left = start(t, workers), strangers(gradient(0, numbers(t, 31)))
        t.random.shuffle(left)
        low = t.random.randrange(1, 0x7FFF)
        for round_ in sorted([*range(low, low + 3), 0x7FFF, 0x8000, last]) if last else [last]:
            sent = [bench_numbers(t, 4) for _ in range(workers)]
            order = t.random.sample(range(workers), workers)
            for place, worker in enumerate(order, 1):
                port = worker % PORTS + 1
                for t.case, data in [left.pop() for _ in range(min(2, len(left)))]:
                    switch.expect(port, data, {}, "this is no gradient")
                t.case = f"a gradient of a round of {'many' if workers > PORTS else 'few'} workers"
                total = [sum(column) for column in zip(*sent, strict=True)]
                ports = range(1, min(workers, PORTS) + 1) if place == workers else ()
                want = dict.fromkeys(ports, result(total, round_))
                why = f"{place} of {workers} workers have sent"
                packet = gradient(worker, sent[worker], round_)
                switch.expect(port, packet, want, why)
