"""Jobs of lab 19 drawn at random, and what their switch should send."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from scapy.layers.inet import UDP
from scapy.packet import Packet

from labs.grader.bench import Bench, Failure, draw_bits, first_number
from labs.grader.histories import Message, leaving
from labs.grader.jobs import SLOTS
from labs.grader.packets import (
    GRADIENT,
    SWITCH_IP,
    SWITCH_MAC,
    Agg,
    Difference,
    agg,
    as_number,
    host_ip,
    host_mac,
    wrapped,
)
from labs.grader.slots import SlotJob, place
from labs.lab19_floats.model import BACK, EVERYONE, LEAST, MOST, NOWHERE, SERVER, FloatSwitch, shown

PORTS = 8
LOOKED_AT = ("Agg.kind", "Agg.number", "Agg.values")


@dataclass
class Job(SlotJob):
    """A job on a switch.

    Args:
        server: port of an exact job's server; 0: the job adds in the order of arrival.
        model: of the switch.
    """

    server: int
    model: FloatSwitch = field(init=False)

    def __post_init__(self) -> None:
        self.model = FloatSwitch(self.everyone, self.server)

    def draw_base(self) -> int:
        rng = self.t.random
        return rng.choice((rng.randrange(LEAST, MOST + 1), rng.randrange(232, 247), LEAST, MOST, 6))

    def message(
        self, who: int, codes: Sequence[int], fragment: int = 0, base: int = 0, flags: int = 0
    ) -> Message:
        """A worker's gradient. What is above its numbers means nothing."""
        values = [wrapped(self.t.random.getrandbits(16) << 16 | code) for code in codes]
        bit = 1 << self.workers[who]
        return Message(GRADIENT, flags, self.first + fragment, base, bit, values)

    def packet(self, port: int, m: Message) -> Packet:
        """A packet from the host at a port."""
        fields = {"kind": m.kind, "flags": m.flags, "job": self.number, "bitmap": m.bitmap}
        fields |= {"priority": m.base, "number": m.number, "slot": place(m.number)}
        made = agg(port, "switch", values=m.values, **fields)
        made[UDP].chksum = None  # the right one, which does not fit what the switch sends
        return made

    def meets(
        self,
        port: int,
        m: Message,
        why: str,
        only: Sequence[str] = (),
        packet: Packet | None = None,
    ) -> str:
        """A message comes, in a packet: what the model says of it has to leave. Where that goes."""
        packet = packet or self.packet(port, m)
        m = replace(m, flags=int(packet[Agg].flags))
        to, answer = self.model.take(port, packet[Agg].slot, m)
        ports = {BACK: [port], SERVER: [self.server], EVERYONE: self.ports}.get(to, [])
        want = {}
        if answer:
            fields = {"kind": answer.kind, "flags": answer.flags, "bitmap": answer.bitmap}
            want = {
                p: leaving(packet, p, to != SERVER, values=answer.values, **fields) for p in ports
            }
        try:
            self.switch.expect(port, packet, want, f"{why} ({to} should leave)", only)
        except Failure as failure:
            failure.differences = [_as_number(each) for each in failure.differences]
            raise
        return to

    def whole(self, rows: Sequence[Sequence[int]], fragment: int, base: int, why: str) -> str:
        """A fragment's gradients come, in any order; where the last one's answer goes."""
        to = NOWHERE
        for who in self.order():
            m = self.message(who, rows[who], fragment, base)
            to = self.meets(self.ports[who], m, why, LOOKED_AT)
        return to


def _as_number(difference: Difference) -> Difference:
    """A difference of values with the numbers that they are."""
    texts = (difference.expected, difference.got)
    if not difference.field.startswith("Agg.values") or None in texts:
        return difference
    codes = [int(text or 0) for text in texts]
    made = [shown(c) if c >> 16 == 0 else f"{c & 0xFFFFFFFF:#010x}" for c in codes]
    return Difference(difference.field, *made)


def start(
    t: Bench, exact: bool, count: int, first: int | None = None, beside: Job | None = None
) -> Job:
    """A job with workers and a server at ports drawn at random. `beside`: one that its switch has
    already."""
    ports = t.random.sample(range(1, PORTS + 1), count + 1)
    known = beside.number if beside else t.random.randrange(1, 256)
    number = known if not beside else 0 if known else t.random.randrange(1, 256)
    switch = beside.switch if beside else t.switch()
    at = first_number(t, SLOTS) if first is None else first
    workers = draw_bits(t, count)
    made = Job(t, switch, number, workers, ports[:count], at, ports[count] if exact else 0)
    group = 100 if beside else t.random.randrange(1, 100)
    row = [made.everyone, group, as_number(SWITCH_MAC), as_number(SWITCH_IP)]
    action, more = ("exact", [made.server]) if exact else ("in_order", [])
    switch.table_add("job", action, [number], [*row, *more])
    for port in [] if beside else range(1, PORTS + 1):
        owner = [as_number(host_mac(port)), as_number(host_ip(port))]
        switch.table_add("receiver", "address", [port], owner)
    switch.multicast_group(group, [(port, port) for port in made.ports])
    return made


def columns(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    return [list(column) for column in zip(*rows, strict=True)]
