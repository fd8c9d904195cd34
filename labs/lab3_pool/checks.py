"""Checks of lab 3: a pool of slots, 64 values, UDP, checksums."""

from __future__ import annotations

from collections.abc import Sequence

from scapy.layers.inet import UDP
from scapy.packet import Packet

from testbed.labs.grader.bench import Bench, Switch, numbers, total
from testbed.labs.grader.lab import Lab
from testbed.labs.grader.packets import (
    GRADIENT,
    RESULT,
    SWITCH_IP,
    SWITCH_MAC,
    Agg,
    agg,
    as_number,
    host_ip,
    host_mac,
    rows,
)

VALUES, SLOTS, JOB, GROUP = 64, 16, 5, 9
LAB = Lab(
    title="A pool of slots",
    hand_in=("pool.p4",),
    given=("packet.p4", "values.p4"),
    program="pool.p4",
    defines={"VALUES": VALUES, "SLOTS": SLOTS},
)


def start(t: Bench, workers: int = 3) -> Switch:
    """A switch with one job, whose worker n (from 0) is host n + 1 at port n + 1."""
    switch = t.switch()
    mac, ip = as_number(SWITCH_MAC), as_number(SWITCH_IP)
    switch.table_add("job", "aggregate", [JOB], [workers, GROUP, mac, ip])
    for port in range(1, workers + 1):
        owner = [as_number(host_mac(port)), as_number(host_ip(port))]
        switch.table_add("receiver", "address", [port], owner)
    switch.multicast_group(GROUP, [(port, port) for port in range(1, workers + 1)])
    return switch


def gradient(worker: int, values: Sequence[int], slot: int = 0, number: int = 0) -> Packet:
    fields = {"job": JOB, "slot": slot, "number": number, "worker": worker, "bitmap": 1 << worker}
    return agg(worker + 1, "switch", kind=GRADIENT, values=values, **fields)


def result(receiver: int, last: int, values: Sequence[int], slot: int = 0) -> Packet:
    """The result of a slot, made of worker `last`'s gradient, as worker `receiver` gets it."""
    fields = {"job": JOB, "slot": slot, "worker": last, "bitmap": 1 << last}
    return agg("switch", receiver + 1, kind=RESULT, values=values, **fields)


def fan_in(t: Bench) -> int:
    """Of a check, drawn at random."""
    return t.random.randrange(2, 8)


def finish(t: Bench, only: Sequence[str], why: str) -> None:
    """One sum; what the last one makes leave is compared."""
    workers, slot = fan_in(t), t.random.randrange(SLOTS)
    switch, sent = start(t, workers), [numbers(t, VALUES) for _ in range(workers)]
    *others, last = t.random.sample(range(workers), workers)
    for worker in others:
        switch.send(worker + 1, gradient(worker, sent[worker], slot))
    leaving = {n + 1: result(n, last, total(sent), slot) for n in range(workers)}
    switch.expect(last + 1, gradient(last, sent[last], slot), leaving, why, only)


@LAB.check(5, "A gradient that is not the last of its sum does not leave the switch")
def absorbed(t: Bench) -> None:
    workers, slot = fan_in(t), t.random.randrange(SLOTS)
    switch = start(t, workers)
    for worker in t.random.sample(range(workers), workers - 1):
        packet = gradient(worker, numbers(t, VALUES), slot)
        switch.expect(worker + 1, packet, {}, "the gradients so far are no complete sum")


@LAB.check(15, "The result has the sums of all 64 values")
def sums(t: Bench) -> None:
    workers = fan_in(t)
    switch, sent = start(t, workers), [numbers(t, VALUES) for _ in range(workers)]
    *others, last = t.random.sample(range(workers), workers)
    for worker in others:
        switch.send(worker + 1, gradient(worker, sent[worker]))
    why = "each value is the sum of what the workers have at this position"
    want, packet = result(last, last, total(sent)), gradient(last, sent[last])
    switch.expect_one(last + 1, packet, want, why, only=["Agg.values", "Agg.kind"])


@LAB.check(15, "Slots do not mix")
def slots(t: Bench) -> None:
    workers = fan_in(t)
    switch = start(t, workers)
    sent = {slot: [numbers(t, VALUES) for _ in range(workers)] for slot in range(SLOTS)}
    order = [(slot, worker) for slot in sent for worker in range(workers)]
    t.random.shuffle(order)
    seen = dict.fromkeys(sent, 0)
    for slot, worker in order:
        packet = gradient(worker, sent[slot][worker], slot)
        seen[slot] += 1
        if seen[slot] < workers:
            why = f"slot {slot} has {seen[slot]} of {workers} gradients"
            switch.expect(worker + 1, packet, {}, why)
        else:
            want, why = result(0, worker, total(sent[slot]), slot), f"the sum of slot {slot}"
            switch.expect_one(worker + 1, packet, want, why, only=["Agg.values", "Agg.slot"])


@LAB.check(5, "A slot can be used again")
def again(t: Bench) -> None:
    switch = start(t, 2)
    for number in range(3):
        sent = [numbers(t, VALUES) for _ in range(2)]
        switch.send(1, gradient(0, sent[0], 7, number))
        why = f"sum {number} of this slot has nothing of the earlier ones"
        want = result(1, 1, total(sent), 7)
        switch.expect_one(2, gradient(1, sent[1], 7, number), want, why, only=["Agg.values"])


@LAB.check(10, "A slot outside of the pool is refused")
def outside(t: Bench) -> None:
    switch = start(t, 2)
    sent = [numbers(t, VALUES) for _ in range(2)]
    switch.send(1, gradient(0, sent[0], 0))
    switch.send(1, gradient(0, sent[0], SLOTS - 1))
    for slot in (SLOTS, SLOTS + 1, 1 << 15):
        for worker in (0, 1):
            packet = gradient(worker, numbers(t, VALUES), slot)
            why = f"there is no slot {slot} among {SLOTS}, so the packet is dropped"
            switch.expect(worker + 1, packet, {}, why)
    why = "the pool's last slot is untouched by what was outside"
    want = result(1, 1, total(sent), SLOTS - 1)
    switch.expect_one(2, gradient(1, sent[1], SLOTS - 1), want, why, only=["Agg.values"])
    alone = start(t, 1)  # one worker: whatever is not refused is complete at once
    for slot in (SLOTS, 40000):
        packet = gradient(0, numbers(t, VALUES), slot)
        alone.expect(1, packet, {}, f"there is no slot {slot} among {SLOTS}")


@LAB.check(10, "Each copy comes from the switch and is addressed to its worker")
def addresses(t: Bench) -> None:
    only = ["Ether", "IP.src", "IP.dst"]
    finish(t, only, "a host takes only what is addressed to it, and not from itself")


@LAB.check(10, "The checksum of the IPv4 header is right")
def ip_checksum(t: Bench) -> None:
    finish(t, ["IP.chksum", "IP.len"], "the addresses have changed, so the checksum has, too")


@LAB.check(5, "The UDP checksum of a result is 0")
def udp_checksum(t: Bench) -> None:
    switch, sent = start(t, 2), [numbers(t, VALUES) for _ in range(2)]
    packets = [gradient(worker, sent[worker]) for worker in (0, 1)]
    for packet in packets:
        packet[UDP].chksum = t.random.randrange(1, 65536)
    switch.send(1, packets[0])
    want = result(1, 1, total(sent))
    why = "the sender's checksum does not fit the switch's values; 0 says that there is none"
    switch.expect_one(2, packets[1], want, why, only=["UDP"])


@LAB.check(5, "Other jobs and other kinds are dropped and change nothing")
def others(t: Bench) -> None:
    switch, sent = start(t, 2), [numbers(t, VALUES) for _ in range(2)]
    switch.send(1, gradient(0, sent[0], 2))
    strangers = [gradient(1, numbers(t, VALUES), 2) for _ in range(2)]
    strangers[0][Agg].job = JOB + 1
    strangers[1][Agg].kind = RESULT
    for packet in strangers:
        before = rows(bytes(packet))
        what = f"job {before['Agg.job']}, kind {before['Agg.kind']}"
        switch.expect(2, packet, {}, f"{what} is not to be aggregated")
    want = result(1, 1, total(sent), 2)
    why = "what was not aggregated was neither counted nor added"
    switch.expect_one(2, gradient(1, sent[1], 2), want, why, only=["Agg.values"])
