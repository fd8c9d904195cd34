"""Trees of switches in virtual time: one with losses whose root fails, and those whose time is
measured."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from labs.grader.bench import Bench, Failure, Packets, first_number
from labs.grader.fabric import Answer, Fabric, Link, P4Node
from labs.grader.jobs import SLOTS, VALUES, header
from labs.grader.packets import AT_AGG, HEADER, RESULT
from labs.grader.senders import WindowSender
from labs.grader.timing import (
    HEAD,
    PART,
    WHOLE,
    Adder,
    Host,
    Measured,
    elapsed_s,
    frame,
    ring_s,
)
from labs.lab18_trees.model import LEAST, MOST, RESEND, draw_codes, rounded, total

MS = 1_000_000
UPLINKS = (7, 8)  # ports of a leaf to the two roots
FRAGMENTS = 5 * SLOTS
MOST_EVENTS = 40_000


class TreeHost(WindowSender):
    """A host of a tree.

    Args:
        tier: the leaf (checks.Tier).
        who: the host, by its place in the leaf's list.
        sent, wanted: its values and the right results, of each fragment.
    """

    def __init__(self, tier: Any, who: int, sent: Sequence, wanted: Sequence) -> None:
        super().__init__(FRAGMENTS)
        self.tier, self.who, self.sent, self.wanted = tier, who, sent, wanted

    def packet(self, fragment: int, again: bool) -> bytes:
        m = self.tier.gradient(self.who, self.sent[fragment], fragment, RESEND * again)
        return bytes(self.tier.packet(self.tier.ports[self.who], m))

    def result(self, data: bytes) -> int | None:
        kind, _, _, number, _ = header(data)
        fragment = number - self.tier.first
        if kind != RESULT or not 0 <= fragment < FRAGMENTS:
            return None  # a leaf's reminder, say, which hosts do not answer
        size = AT_AGG + HEADER.size
        got = [int.from_bytes(data[at : at + 4], "big") for at in range(size, len(data), 4)]
        if got != self.wanted[fragment]:
            text = "a result is wrong, or not the same bits as in another tree"
            told = f"fragment {fragment}: {got}, expected {self.wanted[fragment]}"
            raise Failure(text, details=[told], got=[(self.tier.ports[self.who], data)], case=text)
        return fragment


class Control:
    """Events at some times: failures, and what the control plane does about them."""

    def __init__(self, steps: Sequence[tuple[int, Callable[[], None]]]) -> None:
        self.steps = list(steps)

    def take(self, now_ns: int, port: int, frame: bytes | None) -> Answer:
        while self.steps and self.steps[0][0] <= now_ns:
            self.steps.pop(0)[1]()
        return [], self.steps[0][0] if self.steps else None


def fails(t: Bench, make: Callable[..., Any], set_up: Callable[[Any], int]) -> None:
    """Three leaves with hosts, and two roots of which the first fails; the first leaf gets no
    results from it a while before, and is told later than the others of the second root. So the
    others have results that this leaf and the second root do not have, and send sums that the
    second root has to wait with. Raises Failure.

    Args:
        make: checks.Tier.
        set_up: the control plane's facts, of a switch with a job.
    """
    rng, count = t.random, 3
    job, first, base = rng.randrange(256), first_number(t, SLOTS), rng.randrange(LEAST, MOST + 1)
    delay_ns, loss = rng.randrange(5, 20) * 1000, rng.uniform(0.05, 0.1)
    mute_ns = 6 * delay_ns  # in the second of five round trips
    fail_ns = mute_ns + 7 * delay_ns
    net, link = Fabric(rng, fail_ns), Link(delay_ns, 4.0, loss, 0.1, 8 * delay_ns)
    bits, root_ports = rng.sample(range(32), count), rng.sample(range(1, 9), count)
    leaves, handles = [], []
    for name in ("root 0", "root 1"):
        tier = make(t, t.switch(), job, bits, root_ports, 0, 0, first, base)
        set_up(tier)
        net.add(name, P4Node(tier.switch))
    for n in range(count):
        size = rng.randrange(2, 4)
        ports, own = rng.sample(range(1, 7), size), rng.sample(range(32), size)
        leaf = make(t, t.switch(), job, own, ports, UPLINKS[0], bits[n], first, base)
        leaves.append(leaf)
        handles.append(set_up(leaf))
        net.add(f"leaf {n}", P4Node(leaf.switch))
        for root, port in enumerate(UPLINKS):
            net.join((f"leaf {n}", port), (f"root {root}", root_ports[n]), link)
    hosts = _hosts(net, rng, leaves, link)

    def move(some: Sequence[int]) -> None:
        for n in some:
            leaves[n].parent = UPLINKS[1]
            row = leaves[n].switch.table_get("job", handles[n])["params"]
            new = [*row[:4], UPLINKS[1], row[5]]
            leaves[n].switch.table_modify("job", handles[n], "inner", new)

    steps = [
        (mute_ns, lambda: net.mute("root 0", root_ports[0])),
        (fail_ns, lambda: net.cut("root 0")),
        (fail_ns + MS // 2, lambda: move(range(1, count))),
        (fail_ns + 4 * MS, lambda: move([0])),
    ]
    net.add("control", Control(steps))
    if not net.run(lambda: all(host.done for host in hosts), 3000 * MS, MOST_EVENTS):
        left = sum(FRAGMENTS - len(host.got) for host in hosts)
        text = "after the root has failed, some results never come"
        raise Failure(f"{text}: {left} are missing after three seconds", case=text)
    t.note(f"{count} leaves, {len(hosts)} hosts, {FRAGMENTS} fragments, {net.now_ns / 1e6:.1f} ms")


def _hosts(net: Fabric, rng: random.Random, leaves: Sequence, link: Link) -> list[TreeHost]:
    """Hosts at all children of the leaves."""
    places = [(n, who) for n, leaf in enumerate(leaves) for who in range(len(leaf.bits))]
    base, made = leaves[0].base, []
    codes = [draw_codes(rng, base, len(places), VALUES) for _ in range(FRAGMENTS)]
    wanted = [rounded(total(rows, base), base) for rows in codes]
    for place, (n, who) in enumerate(places):
        made.append(TreeHost(leaves[n], who, [rows[place] for rows in codes], wanted))
        net.add(f"host {place}", made[-1])
        net.join((f"host {place}", 0), (f"leaf {n}", leaves[n].ports[who]), link)
    return made


class WindowHost(Host):
    """Sends fragments in a window: the result of one makes it send that a window later."""

    def __init__(self, fragments: int, window: int, size: int) -> None:
        made = [frame(PART, 0, n, size) for n in range(fragments)]
        super().__init__(made[:window])
        self.all, self.window = made, window

    def take(self, now_ns: int, port: int, frame: bytes | None) -> Answer:
        sent = super().take(now_ns, port, frame)
        if frame is None:
            return sent
        number = HEAD.unpack_from(frame)[2] + self.window
        return [(0, each) for each in self.all[number : number + 1]], None


def tree_s(tiers: int, fragments: int, size: int, window: int, link: Link) -> float:
    """Seconds of an all-reduce in a tree in which each switch has two children."""
    net, hosts = Fabric(random.Random(0)), []

    def grow(name: str, tier: int) -> None:
        if tier == 0:
            hosts.append(WindowHost(fragments, window, size))
            net.add(name, hosts[-1])
            return
        below = [(0, WHOLE), (1, WHOLE)]
        up = below if tier == tiers else [(2, PART)]

        def leaving(number: int) -> Packets:
            return [(port, frame(kind, 0, number, size)) for port, kind in up]

        net.add(name, Adder(lambda number: 2, leaving, lambda port, data: [(0, data), (1, data)]))
        for child in range(2):
            grow(f"{name}{child}", tier - 1)
            net.join((f"{name}{child}", 2 if tier > 1 else 0), (name, child), link)

    grow("root ", tiers)
    return elapsed_s(net, lambda: all(host.got[WHOLE] == fragments for host in hosts))


def measured(rng: random.Random) -> list[Measured]:
    """All-reduces in trees and rings of several sizes, measured without losses."""
    made: list[Measured] = []
    for tiers in rng.sample((1, 2, 3), 3):
        size, byte_ns = rng.randrange(80, 300), rng.randrange(1, 5)
        time = size * byte_ns  # of a packet on a link
        most = 20 / (2 * tiers) - 1  # so that some 20 slots are enough
        delay = round(rng.uniform(0.4, 0.9) * most * time)
        delay += (2 * tiers * delay % time == 0) * 1  # so that no number of slots is just enough
        link, units = Link(delay, byte_ns), (delay / 1e9, byte_ns / 1e9)
        alone = tree_s(tiers, 1, size, 1, link)
        made.append(Measured("round_trip_s", (tiers, size, *units), alone))
        full = tree_s(tiers, 60, size, 60, link)
        slots = next(n for n in range(1, 60) if tree_s(tiers, 60, size, n, link) == full)
        made.append(Measured("slots", (tiers, size, *units), slots))
        for window in (rng.randrange(3, 6), slots, 2 * slots):
            fragments = (60 if window < slots else 4) * window  # so few that the first trip counts
            value = tree_s(tiers, fragments, size, window, link)
            made.append(Measured("tree_s", (tiers, fragments, size, window, *units), value))
        workers, share = rng.randrange(3, 7), rng.randrange(60, 90)
        far = Link(6 * delay, byte_ns)
        value = ring_s(workers, share, size, far)
        units = (6 * delay / 1e9, byte_ns / 1e9)
        made.append(Measured("ring_s", (workers, workers * share, size, *units), value))
    return made
