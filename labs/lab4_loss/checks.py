"""What lab 4 must do: exact sums although packets are lost, duplicated and late."""

from __future__ import annotations

from collections.abc import Sequence

from scapy.packet import Packet

from testbed.labs.grader.bench import Bench, Failure, Switch
from testbed.labs.grader.lab import Lab
from testbed.labs.grader.packets import (
    GRADIENT,
    RESULT,
    SWITCH_IP,
    SWITCH_MAC,
    agg,
    as_number,
    host_ip,
    host_mac,
    rows,
)
from testbed.labs.grader.values import numbers, total

VALUES, SLOTS, JOB, GROUP, WORKERS = 8, 8, 2, 4, 3
EVERYONE = (1 << WORKERS) - 1
LAB = Lab(
    title="Loss",
    hand_in=("loss.p4",),
    given=("packet.p4", "values.p4"),
    program="loss.p4",
    defines={"VALUES": VALUES, "SLOTS": SLOTS},
)
SUM = ("Agg.kind", "Agg.values")


def start(t: Bench) -> Switch:
    """A switch with one job, whose worker n (from 0) is host n + 1 at port n + 1."""
    switch = t.switch()
    mac, ip = as_number(SWITCH_MAC), as_number(SWITCH_IP)
    switch.table_add("job", "aggregate", [JOB], [EVERYONE, WORKERS, GROUP, mac, ip])
    for port in range(1, WORKERS + 1):
        owner = [as_number(host_mac(port)), as_number(host_ip(port))]
        switch.table_add("receiver", "address", [port], owner)
    switch.multicast_group(GROUP, [(port, port) for port in range(1, WORKERS + 1)])
    return switch


def place(number: int, slots: int = SLOTS) -> int:
    """Where fragment `number` goes: a slot, and the sets of it in turn (the top bit)."""
    return number % slots | (number // slots % 2) << 15


def gradient(worker: int, values: Sequence[int], number: int = 0, slots: int = SLOTS) -> Packet:
    fields = {"job": JOB, "number": number, "slot": place(number, slots)}
    return agg(
        worker + 1,
        "switch",
        kind=GRADIENT,
        worker=worker,
        bitmap=1 << worker,
        values=values,
        **fields,
    )


def result(receiver: int, values: Sequence[int], number: int = 0, slots: int = SLOTS) -> Packet:
    fields = {"job": JOB, "number": number, "slot": place(number, slots)}
    bitmap = EVERYONE
    return agg("switch", receiver + 1, kind=RESULT, bitmap=bitmap, values=values, **fields)


def copies(values: Sequence[int], number: int = 0, slots: int = SLOTS) -> dict[int, Packet]:
    return {w + 1: result(w, values, number, slots) for w in range(WORKERS)}


def whole(
    t: Bench, switch: Switch, number: int, slots: int = SLOTS
) -> tuple[list[list[int]], list[int]]:
    """Send a fragment's gradients, each once; returns them and their sum."""
    sent = [numbers(t, VALUES) for _ in range(WORKERS)]
    for worker in range(WORKERS):
        switch.send(worker + 1, gradient(worker, sent[worker], number, slots))
    return sent, total(sent)


@LAB.check(10, "Without losses every sum is right, for every order of the workers")
def lossless(t: Bench) -> None:
    switch = start(t)
    for number in range(4 * SLOTS):
        sent = [numbers(t, VALUES) for _ in range(WORKERS)]
        order = t.random.sample(range(WORKERS), WORKERS)
        for worker in order[:-1]:
            switch.expect(worker + 1, gradient(worker, sent[worker], number), {}, "not complete")
        last = gradient(order[-1], sent[order[-1]], number)
        why = f"fragment {number} is complete, and its sum goes to all workers"
        switch.expect(order[-1] + 1, last, copies(total(sent), number), why, only=SUM)


@LAB.check(15, "A gradient that comes twice is added once")
def doubled(t: Bench) -> None:
    switch = start(t)
    sent = [numbers(t, VALUES) for _ in range(WORKERS)]
    for worker in (1, 1, 2, 1):
        switch.send(worker + 1, gradient(worker, sent[worker]))
    why = "the sum has each worker's values once, however often they came"
    switch.expect_one(1, gradient(0, sent[0]), result(0, total(sent)), why, only=SUM)


@LAB.check(10, "A copy of a gradient neither completes a sum nor leaves the switch")
def not_completed(t: Bench) -> None:
    switch = start(t)
    sent = numbers(t, VALUES)
    for _ in range(WORKERS + 1):
        why = f"one worker of {WORKERS} has sent, however often"
        switch.expect(1, gradient(0, sent), {}, why)


@LAB.check(15, "A worker that has lost the result gets it again, alone")
def retransmission(t: Bench) -> None:
    switch = start(t)
    sent, sums = whole(t, switch, 5)
    for worker in t.random.sample(range(WORKERS), 2):
        why = f"the sum is known, so worker {worker}'s copy is answered with it, to that port only"
        want = {worker + 1: result(worker, sums, 5)}
        switch.expect(
            worker + 1, gradient(worker, sent[worker], 5), want, why, ignore=["Agg.worker"]
        )


@LAB.check(10, "The shadow copy: a result stays while others are one fragment ahead")
def shadow(t: Bench) -> None:
    switch = start(t)
    sent, sums = whole(t, switch, 3)
    ahead = [numbers(t, VALUES) for _ in range(WORKERS)]
    for worker in (0, 1):
        packet = gradient(worker, ahead[worker], 3 + SLOTS)
        switch.expect(worker + 1, packet, {}, "worker 2 is not in this sum yet")
    why = "worker 2 has not got the last result, and it is still in the slot's other set"
    switch.expect(3, gradient(2, sent[2], 3), {3: result(2, sums, 3)}, why, only=SUM)
    why = "what worker 2 asked for again does not disturb the sum that is being made"
    want = result(0, total(ahead), 3 + SLOTS)
    switch.expect_one(3, gradient(2, ahead[2], 3 + SLOTS), want, why, only=SUM)


@LAB.check(5, "A set that is used again starts from zero")
def again(t: Bench) -> None:
    switch = start(t)
    for number in range(5):
        sent = [numbers(t, VALUES) for _ in range(WORKERS)]
        for worker in (0, 1):
            switch.send(worker + 1, gradient(worker, sent[worker], number, 1))
        why = f"fragment {number} is the next in its set, and has nothing of earlier ones"
        want = result(2, total(sent), number, 1)
        switch.expect_one(3, gradient(2, sent[2], number, 1), want, why, only=SUM)


@LAB.check(5, "A late copy of an older fragment changes nothing")
def late(t: Bench) -> None:
    switch = start(t)
    old, _ = whole(t, switch, 0, 1)
    whole(t, switch, 1, 1)
    why = "all workers are past fragment 0; this is a copy that was long on its way"
    switch.expect(1, gradient(0, old[0], 0, 1), {}, why)
    sent = [numbers(t, VALUES) for _ in range(WORKERS)]
    for worker in (1, 2):
        switch.send(worker + 1, gradient(worker, sent[worker], 2, 1))
    why = "fragment 2 has nothing of the late copy of fragment 0"
    want = result(0, total(sent), 2, 1)
    switch.expect_one(1, gradient(0, sent[0], 2, 1), want, why, only=SUM)


@LAB.check(
    10, "Workers that retransmit get every sum through a network that loses and duplicates packets"
)
def lossy(t: Bench) -> None:
    """Workers with a window of SLOTS fragments; what they wait for they send again, in rounds."""
    switch, fragments = start(t), 6 * SLOTS
    sent = [[numbers(t, VALUES) for _ in range(WORKERS)] for _ in range(fragments)]
    missing = [set(range(fragments)) for _ in range(WORKERS)]
    lost = results = 0
    for _ in range(60):
        if not any(missing):
            t.note(
                f"{fragments} fragments came through; {lost} packets lost, {results} results sent"
            )
            return
        for worker in t.random.sample(range(WORKERS), WORKERS):
            for number in sorted(missing[worker]):
                if number - SLOTS in missing[worker]:
                    break  # the window: a slot's next fragment waits for the last one's result
                for _ in range(1 + (t.random.random() < 0.15)):
                    if t.random.random() < 0.2:
                        lost += 1
                        continue
                    packet = gradient(worker, sent[number][worker], number)
                    for port, data in switch.send(worker + 1, packet):
                        results += 1
                        if t.random.random() < 0.2:
                            lost += 1
                            continue
                        _receive(sent, missing, port, data, (worker + 1, bytes(packet)))
    raise Failure(
        f"after 60 rounds of retransmissions {sum(map(len, missing))} results are missing"
    )


def _receive(
    sent: list, missing: list[set[int]], port: int, data: bytes, cause: tuple[int, bytes]
) -> None:
    """A worker gets a packet: it must be a right sum."""
    fields = rows(data)
    number = int(fields.get("Agg.number", -1))
    if port > WORKERS or not 0 <= number < len(sent):
        raise Failure("this packet makes no sense", sent=cause, got=[(port, data)])
    values = [int(fields.get(f"Agg.values[{i}]", 0)) for i in range(VALUES)]
    if values != total(sent[number]):
        want = [(port, bytes(result(port - 1, total(sent[number]), number)))]
        text = f"the sum of fragment {number} is wrong"
        raise Failure(text, sent=cause, expected=want, got=[(port, data)])
    missing[port - 1].discard(number)
