"""Checks of lab 3: a pool of slots, 64 values, UDP, checksums."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scapy.layers.inet import UDP
from scapy.packet import Packet

from labs.grader.bench import Bench, Switch, numbers, total
from labs.grader.histories import Strangers, draw_slots, dress, leaving
from labs.grader.lab import Lab
from labs.grader.packets import (
    GRADIENT,
    RESULT,
    SWITCH_IP,
    SWITCH_MAC,
    Agg,
    agg,
    as_number,
    host_ip,
    host_mac,
)

VALUES, SLOTS = 64, 16
Fields = Sequence[str]
LAB = Lab(
    title="A pool of slots",
    hand_in=("pool.p4",),
    given=("packet.p4", "values.p4"),
    program="pool.p4",
    defines={"VALUES": VALUES, "SLOTS": SLOTS},
)


@dataclass
class Pool:
    """A switch with one job. Host n is at port n.

    Args:
        number: of the job, in packets.
        ports: of the workers, by their numbers from 0 on.
        first: number of the job's first fragment, of which the switch makes nothing.
        workers: how many there are.
    """

    switch: Switch
    number: int
    ports: list[int]
    first: int
    workers: int

    def gradient(
        self, worker: int, values: Sequence[int], slot: int = 0, number: int = 0
    ) -> Packet:
        fields = {"job": self.number, "slot": slot, "number": self.first + number}
        fields |= {"worker": worker, "bitmap": 1 << worker}
        return agg(self.ports[worker], "switch", kind=GRADIENT, values=values, **fields)

    def result(self, receiver: int, last: int, values: Sequence[int], slot: int = 0) -> Packet:
        """The result of a slot, made of worker `last`'s gradient, as worker `receiver` gets it."""
        fields = {"job": self.number, "slot": slot, "number": self.first}
        fields |= {"worker": last, "bitmap": 1 << last}
        return agg("switch", self.ports[receiver], kind=RESULT, values=values, **fields)

    def send(self, worker: int, packet: Packet) -> None:
        self.switch.send(self.ports[worker], packet)

    def expect(
        self,
        worker: int,
        packet: Packet,
        leaving: Mapping[int, Packet],
        why: str,
        only: Fields = (),
    ) -> None:
        """A worker sends; `leaving`: what the workers get."""
        wanted = {self.ports[n]: each for n, each in leaving.items()}
        self.switch.expect(self.ports[worker], packet, wanted, why, only)

    def expect_one(self, worker: int, packet: Packet, want: Packet, why: str, only: Fields) -> None:
        self.switch.expect_one(self.ports[worker], packet, want, why, only)


def start(t: Bench, workers: int = 3, beside: Pool | None = None) -> Pool:
    """A switch with one job, whose workers are at any ports; more than there are ports share
    these. `beside`: a job that the switch has already."""
    switch = beside.switch if beside else t.switch()
    number, group = t.random.randrange(256), t.random.randrange(1, 1000)
    if beside:
        number, group = 0 if beside.number else 1, group + 1000
    mac, ip = as_number(SWITCH_MAC), as_number(SWITCH_IP)
    ports = t.random.sample(range(1, 9), min(workers, 8))
    switch.table_add("job", "aggregate", [number], [workers, group, mac, ip])
    for port in [] if beside else range(1, 9):
        owner = [as_number(host_mac(port)), as_number(host_ip(port))]
        switch.table_add("receiver", "address", [port], owner)
    switch.multicast_group(group, [(port, port) for port in ports])
    return Pool(switch, number, ports, t.random.randrange(1 << 31), workers)


def fan_in(t: Bench) -> int:
    """Of a check, drawn at random. With two workers, what the second stores would not matter."""
    return t.random.randrange(3, 8)


def finish(t: Bench, why: str, only: Fields = (), ignore: Fields = ()) -> None:
    """One sum; what the last one makes leave is compared."""
    workers, slot = fan_in(t), t.random.randrange(SLOTS)
    pool, sent = start(t, workers), [numbers(t, VALUES) for _ in range(workers)]
    *others, last = t.random.sample(range(workers), workers)
    for worker in others:
        pool.send(worker, pool.gradient(worker, sent[worker], slot))
    packet = dress(t.random, pool.gradient(last, sent[last], slot))
    fields = {"kind": RESULT, "values": total(sent)}
    want = {port: leaving(packet, port, True, **fields) for port in pool.ports}
    pool.switch.expect(pool.ports[last], packet, want, why, only, ignore)


@LAB.check(5, "A gradient that is not the last of its sum does not leave the switch")
def absorbed(t: Bench) -> None:
    workers, slot = fan_in(t), t.random.randrange(SLOTS)
    pool = start(t, workers)
    for worker in t.random.sample(range(workers), workers - 1):
        packet = pool.gradient(worker, numbers(t, VALUES), slot)
        pool.expect(worker, packet, {}, "the gradients so far are no complete sum")


@LAB.check(10, "The result has the sums of all 64 values")
def sums(t: Bench) -> None:
    workers = fan_in(t)
    pool, sent = start(t, workers), [numbers(t, VALUES) for _ in range(workers)]
    *others, last = t.random.sample(range(workers), workers)
    for worker in others:
        pool.send(worker, pool.gradient(worker, sent[worker]))
    why = "each value is the sum of what the workers have at this position"
    want, packet = pool.result(last, last, total(sent)), pool.gradient(last, sent[last])
    pool.expect_one(last, packet, want, why, only=["Agg.values", "Agg.kind"])


@LAB.check(10, "Slots do not mix")
def slots(t: Bench) -> None:
    workers = fan_in(t)
    pool = start(t, workers)
    sent = {slot: [numbers(t, VALUES) for _ in range(workers)] for slot in range(SLOTS)}
    order = [(slot, worker) for slot in sent for worker in range(workers)]
    t.random.shuffle(order)
    seen = dict.fromkeys(sent, 0)
    for slot, worker in order:
        packet = pool.gradient(worker, sent[slot][worker], slot)
        seen[slot] += 1
        if seen[slot] < workers:
            why = f"slot {slot} has {seen[slot]} of {workers} gradients"
            pool.expect(worker, packet, {}, why)
        else:
            want, why = pool.result(0, worker, total(sent[slot]), slot), f"the sum of slot {slot}"
            pool.expect_one(worker, packet, want, why, only=["Agg.values", "Agg.slot"])


@LAB.check(5, "A slot can be used again")
def again(t: Bench) -> None:
    pool, slot = start(t, 2), t.random.randrange(SLOTS)
    for number in range(3):
        sent = [numbers(t, VALUES) for _ in range(2)]
        pool.send(0, pool.gradient(0, sent[0], slot, number))
        why = f"sum {number} of this slot has nothing of the earlier ones"
        want, packet = pool.result(1, 1, total(sent), slot), pool.gradient(1, sent[1], slot, number)
        pool.expect_one(1, packet, want, why, only=["Agg.values"])


def other_slots(t: Bench) -> list[int]:
    """Slots that there are not, which look like one that there is if some bits are not read."""
    return [(1 << bit) + t.random.randrange(SLOTS) for bit in (t.random.randrange(5, 8), 8, 15)]


@LAB.check(10, "A slot outside of the pool is refused")
def outside(t: Bench) -> None:
    for kept in (0, SLOTS - 1):
        pool, sent = start(t, 2), [numbers(t, VALUES) for _ in range(2)]
        pool.send(0, pool.gradient(0, sent[0], kept))
        for slot in (SLOTS, SLOTS + 1, 1 << 15, *other_slots(t)):
            for worker in (0, 1):
                packet = pool.gradient(worker, numbers(t, VALUES), slot)
                why = f"there is no slot {slot} among {SLOTS}, so the packet is dropped"
                pool.expect(worker, packet, {}, why)
        why = f"the pool's slot {kept} is untouched by what was outside"
        want, packet = pool.result(1, 1, total(sent), kept), pool.gradient(1, sent[1], kept)
        pool.expect_one(1, packet, want, why, only=["Agg.values"])
    alone = start(t, 1)  # one worker: whatever is not refused is complete at once
    for slot in (SLOTS, *other_slots(t)):
        packet = alone.gradient(0, numbers(t, VALUES), slot)
        alone.expect(0, packet, {}, f"there is no slot {slot} among {SLOTS}")


@LAB.check(10, "Each copy comes from the switch and is addressed to its worker")
def addresses(t: Bench) -> None:
    why = "a host takes only what is addressed to it, and not from itself; other fields stay"
    finish(t, why, ignore=["IP.chksum", "IP.len", "UDP.chksum", "Agg.kind", "Agg.values"])


@LAB.check(10, "The checksum of the IPv4 header is right")
def ip_checksum(t: Bench) -> None:
    finish(t, "the addresses have changed, so the checksum has, too", ["IP.chksum", "IP.len"])


@LAB.check(5, "The UDP checksum of a result is 0")
def udp_checksum(t: Bench) -> None:
    pool, sent = start(t, 2), [numbers(t, VALUES) for _ in range(2)]
    packets = [pool.gradient(worker, sent[worker]) for worker in (0, 1)]
    for packet in packets:
        packet[UDP].chksum = t.random.randrange(1, 65536)
    pool.send(0, packets[0])
    want = pool.result(1, 1, total(sent))
    why = "the sender's checksum does not fit the switch's values; 0 says that there is none"
    pool.expect_one(1, packets[1], want, why, only=["UDP"])


@LAB.check(5, "Other jobs and other kinds are dropped and change nothing")
def others(t: Bench) -> None:
    pool, sent = start(t, 2), [numbers(t, VALUES) for _ in range(2)]
    pool.send(0, pool.gradient(0, sent[0], 2))
    kinds = (0, RESULT, 3, *t.random.sample(range(4, 256), 3))
    strange = Strangers(t.random, kinds, [pool.number])
    for _ in range(strange.count):
        t.case, data = strange.next(pool.gradient(1, numbers(t, VALUES), 2))
        pool.switch.expect(pool.ports[1], data, {}, f"{t.case} is not to be aggregated")
    want = pool.result(1, 1, total(sent), 2)
    why = "what was not aggregated was neither counted nor added"
    pool.expect_one(1, pool.gradient(1, sent[1], 2), want, why, only=["Agg.values"])


@LAB.check(10, "In long histories every field of every packet that leaves is right")
def histories(t: Bench) -> None:
    """Two jobs with slots of their own, one of many workers, and strangers between their
    gradients."""
    rng, few = t.random, start(t, fan_in(t))
    many = start(t, rng.randrange(17, 40), beside=few)
    outside = itertools.cycle(rng.sample(range(4, 16), 12))

    def far(packet: Packet) -> None:
        packet[Agg].slot |= 1 << next(outside)

    kinds = [0, RESULT, *(GRADIENT ^ 1 << bit for bit in range(2, 8))]
    more = {"outside of the pool": far}
    strange = Strangers(rng, kinds, [few.number, many.number], more=more)
    slots = dict(zip(draw_slots(rng, SLOTS, 3), (few, few, many), strict=True))
    left = {slot: (2 if pool is few else 1) * pool.workers for slot, pool in slots.items()}
    inside: dict[int, list[list[int]]] = {slot: [] for slot in slots}
    while some := [slot for slot, count in left.items() if count]:
        slot = rng.choice(some)
        pool, port = slots[slot], rng.choice(slots[slot].ports)
        values = numbers(t, VALUES)
        fields = {"job": pool.number, "slot": slot, "worker": rng.randrange(1 << 16)}
        fields |= {"number": rng.getrandbits(32), "bitmap": rng.getrandbits(32)}
        packet = agg(port, "switch", kind=GRADIENT, values=values, **fields)
        packet[UDP].chksum = rng.randrange(1 << 16)
        dress(rng, packet)
        for t.case, data in strange.before(packet, matters=True):
            pool.switch.expect(port, data, {}, f"{t.case} is not to be aggregated")
        left[slot] -= 1
        inside[slot].append(values)
        want, count = {}, len(inside[slot])
        if count == pool.workers:
            sums = {"kind": RESULT, "values": total(inside[slot])}
            want = {each: leaving(packet, each, True, **sums) for each in pool.ports}
            inside[slot] = []
        t.case = "the last gradient of a sum" if want else "a gradient that is not the last"
        pool.switch.expect(port, packet, want, f"{count} of {pool.workers} gradients are in")
