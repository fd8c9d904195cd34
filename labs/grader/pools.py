"""Long histories of a pool whose slots jobs share, packet by packet against a model (labs 5 and 6).

Fragments of two jobs compete for few slots: with equal numbers, with numbers that differ in one
bit, in slots that there are and that there are not. A lab's model says what leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from scapy.packet import Packet

from labs.grader.bench import Bench, Switch
from labs.grader.histories import NUMBERS, Strangers
from labs.grader.jobs import RESEND, Job, draw_values
from labs.grader.packets import DATA, GRADIENT, RECEIPT, REMINDER, RESULT, Agg, wrapped

RESULTS, OTHERS, OUTSIDE, RENEWED = 0.08, 0.08, 0.1, 0.1  # shares of packets
RESULTS_OF_HELD = 0.4  # of the packets of a fragment whose sum is complete
PRIORITIES = (1, 127, 128, 254, 255)
KINDS = {GRADIENT: "a gradient", RESULT: "a result", REMINDER: "a reminder"}


@dataclass
class Content:
    """The content of a slot. `held`: the sum is complete, and waits for its result."""

    job: Job
    number: int
    bitmap: int
    values: list[int]
    priority: int = 0
    held: bool = False

    def add(self, packet: Packet) -> None:
        both = zip(self.values, packet[Agg].values, strict=True)
        self.values = [wrapped(a + b) for a, b in both]
        self.bitmap |= int(packet[Agg].bitmap)


@dataclass(frozen=True)
class Answer:
    """Packets that have to leave, by port; `ignore`: fields that the hand-out leaves open."""

    leaving: dict[int, Packet] = field(default_factory=dict)
    ignore: tuple[str, ...] = ()


class Model:
    """A lab's switch. parts: base and size of a job's part of the pool, by the jobs' numbers."""

    def __init__(self, parts: dict[int, tuple[int, int]]) -> None:
        self.parts = parts
        self.slots: dict[int, Content] = {}

    def own(self, slot: int | None) -> Content | None:
        return None if slot is None else self.slots.get(slot)

    def take(self, job: Job, packet: Packet, slot: int | None, mine: bool) -> Answer:
        """The answer to a packet of a job for a slot (None: outside of the job's part), which its
        fragment owns if it is `mine`."""
        raise NotImplementedError

    def take_result(self, job: Job, packet: Packet, slot: int | None, mine: bool) -> Answer:
        """The sum's slot is free, and all workers get the result."""
        if slot is not None and mine:
            del self.slots[slot]
        return Answer(dict.fromkeys(job.ports, packet))


@dataclass
class Fragment:
    """A fragment that workers send; `slot` as in packets."""

    job: Job
    number: int
    slot: int
    priority: int
    values: list[list[int]]


class History:
    """A history of `steps` packets. `other`: RESEND (some gradients have that flag) or REMINDER."""

    def __init__(
        self, t: Bench, switch: Switch, jobs: Sequence[Job], model: Model, other: int
    ) -> None:
        self.t, self.rng, self.switch, self.jobs = t, t.random, switch, jobs
        self.model, self.other = model, other
        self._bits: list[int] = []
        self.fragments = [f for n in range(2) for f in self._rivals(n)]
        kinds = [0, RECEIPT, DATA, *(GRADIENT ^ 1 << bit for bit in range(3, 8))]
        kinds += [REMINDER] if other == RESEND else []
        self.strange = Strangers(self.rng, kinds, [job.number for job in jobs])

    def play(self, steps: int) -> None:
        """Raises Failure at the first packet whose answer is wrong."""
        t = self.t
        for _ in range(steps):
            job, port, packet = self._next()
            for t.case, data in self.strange.before(packet, matters=False):
                self.switch.expect(port, data, {}, "no job has sent this")
            slot = self._place(job, packet[Agg].slot)
            own = None if slot is None else self.model.slots.get(slot)
            mine = own is not None and (own.job, own.number) == (job, packet[Agg].number)
            where = "outside of the pool" if slot is None else "its own" if mine else "another's"
            where = "empty" if slot is not None and own is None else where
            name = KINDS[int(packet[Agg].kind)]
            name += ", sent again," if int(packet[Agg].flags) & RESEND else ""
            t.case = f"{name} whose slot is {where}"
            answer = self.model.take(job, packet, slot, mine)
            why = f"{t.case}: {'this' if answer.leaving else 'nothing'} should leave"
            self.switch.expect(port, packet, answer.leaving, why, ignore=answer.ignore)

    def _place(self, job: Job, slot: int) -> int | None:
        base, size = self.model.parts[job.number]
        return base + slot if slot < size else None

    def _rivals(self, n: int) -> list[Fragment]:
        """Fragments that compete for a slot, if the jobs share the pool."""
        slot = self.rng.randrange(min(size for _, size in self.model.parts.values()))
        made = [self._fragment(job, self.rng.choice(NUMBERS[n]), slot) for job in self.jobs]
        made[1].number = made[0].number
        made.append(self._fragment(made[n].job, self._much_like(made[0].number), slot))
        for each in made[: 3 * n]:
            each.priority = PRIORITIES[-1]
        return made

    def _fragment(self, job: Job, number: int, slot: int) -> Fragment:
        priority = self.rng.choice((self.rng.randrange(1, 256), *PRIORITIES))
        own = self.model.slots.get(slot)
        if own is not None and own.priority and self.rng.random() < 0.5:
            priority = min(255, max(1, own.priority + self.rng.randrange(-1, 2)))
        return Fragment(job, number, slot, priority, [draw_values(self.t) for _ in job.workers])

    def _much_like(self, number: int) -> int:
        """A number that differs in one bit, each in turn."""
        if not self._bits:
            self._bits = self.rng.sample(range(32), 32)
        return number ^ 1 << self._bits.pop()

    def _next(self) -> tuple[Job, int, Packet]:
        """A job's packet, and the port at which it comes."""
        rng, fragment = self.rng, self.rng.choice(self.fragments)
        owners = [f for f in self.fragments if self._own(f)]
        if owners and rng.random() < 0.6:
            fragment = rng.choice(owners)
        own = self._own(fragment)
        if own is None and rng.random() < RENEWED:
            fragment = self._renewed(fragment)
        job, slot = fragment.job, fragment.slot
        if rng.random() < OUTSIDE:
            slot = rng.choice((self.model.parts[job.number][1], slot | 1 << rng.randrange(3, 16)))
        results = RESULTS_OF_HELD if own is not None and own.held else RESULTS
        drawn = rng.random() - results
        if drawn < 0:
            packet = job.result(draw_values(self.t), fragment.number, slot)
        elif drawn < OTHERS and self.other == REMINDER:
            packet = job.reminder(fragment.number, slot)
            packet[Agg].bitmap = rng.getrandbits(32)
        else:
            return (job, *self._gradient(fragment, slot, drawn < OTHERS))
        packet[Agg].worker, packet[Agg].priority = rng.randrange(1 << 16), rng.randrange(256)
        if own is not None and rng.random() < 0.5:
            packet[Agg].priority = own.priority
        return job, job.server, packet

    def _renewed(self, old: Fragment) -> Fragment:
        """Another fragment of the job for the slot: with the number of a rival, or one like it."""
        rivals = [f for f in self.fragments if f.slot == old.slot]
        number = self.rng.choice(rivals).number
        taken = any((f.job, f.number) == (old.job, number) for f in rivals)
        if taken or self.rng.random() < 0.5:
            number = self._much_like(number)
        made = self._fragment(old.job, number, old.slot)
        self.fragments[self.fragments.index(old)] = made
        return made

    def _own(self, fragment: Fragment) -> Content | None:
        """The slot's content, if it is the fragment's."""
        place = self._place(fragment.job, fragment.slot)
        own = None if place is None else self.model.slots.get(place)
        owner = own and (own.job, own.number)
        return own if owner == (fragment.job, fragment.number) else None

    def _gradient(self, fragment: Fragment, slot: int, again: bool) -> tuple[int, Packet]:
        job, every, own = fragment.job, range(len(fragment.values)), self._own(fragment)
        bitmap = own.bitmap if own is not None else 0
        missing = [n for n in every if not bitmap >> job.workers[n] & 1]
        who = self.rng.choice(missing if missing and self.rng.random() < 0.7 else every)
        again = again if self.other == RESEND else self.rng.random() < 0.3  # a flag like others
        flags = RESEND if again else 0
        values, priority = fragment.values[who], fragment.priority
        made = job.gradient(who, values, fragment.number, slot, flags, priority)
        return job.ports[who], made
