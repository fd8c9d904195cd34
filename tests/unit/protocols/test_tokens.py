"""An owner of tokens and members, and a network that loses, copies, delays, marks and adds up as it
is drawn: each question is for those whose answers the owner lacks and comes again when it is due,
each answer has the flags of its question, and all iterations come to their end with right values.
"""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.collective import memory_map
from testbed.protocols import send_scoreboard, tokens, wire
from testbed.protocols.given import ONE, OTHERS
from testbed.protocols.host_spec import SlotsSpec, Tensor
from testbed.workload import rank_program
from tests.support.host_specs import OPTIONS, host_spec

VALUES, WORKERS, ITERATIONS = 4, 4, 3
BASE = wire.HEADER_WORDS + 2
WANTED, BITMAP = BASE - 2, BASE - 1  # words
STEP = 100  # ns, between two moments at which a rank looks at what has come
TIMEOUT = 20 * STEP
MOMENTS = 5000
SLOTS = {
    **{name: getattr(OPTIONS, name) for name in ("order", "window_rule")},
    "sets": 2,
    "min_timeout_ns": TIMEOUT,
    "max_timeout_ns": 10 * TIMEOUT,
    "min_patience_ns": 5 * STEP,
}


class Rank:
    """A rank's machine, and its scoreboard."""

    def __init__(self, number: int, calls: list[tuple[int, ...]], window: int, timeout: int):
        sizes = [VALUES * (1 + len(members)) - 1 for members in calls for _ in range(2)]
        job = {
            "tensors": tuple(
                Tensor("t", values=size, forward_ns=0, backward_ns=0) for size in sizes
            ),
            "fragments": sum(-(-size // VALUES) for size in sizes),
            "workers": WORKERS,
            "iterations": ITERATIONS,
            "values": VALUES,
            "bitmap_width": 64,
            "omit_zeros": True,
            "wanted": tuple(members for members in calls for _ in range(2)),
            "shares": tuple((memory_map.WHOLE, 0, who) for _ in calls for who in (OTHERS, ONE)),
        }
        options = SlotsSpec(window=window, timeout_ns=timeout, **SLOTS)
        spec = host_spec(job, number=number, options=options)
        self.number, self.job = number, spec.job
        self.machine = tokens.new_worker(spec)._replace(given=rank_program.shares(spec))
        self.scoreboard = send_scoreboard.new_scoreboard(
            sizes, VALUES, ITERATIONS, send_scoreboard.FIFO, window
        )
        self.arrived: list[np.ndarray] = []
        self.deadline = 0
        self.packets = np.zeros((3, BASE + VALUES), np.uint32)
        self.lengths, self.destinations = np.zeros(3, np.int64), np.zeros(3, np.int64)

    @property
    def is_over(self) -> bool:
        state = self.scoreboard.state
        return state.iteration == ITERATIONS - 1 and state.unfinished == 0

    @property
    def is_between(self) -> bool:
        """True if the next iteration may begin."""
        state = self.scoreboard.state
        return bool(state.unfinished == 0 and state.iteration < ITERATIONS - 1)

    @property
    def may_go_on(self) -> bool:
        """The same, or a call of this one."""
        return self.is_between or bool((self.scoreboard.ready == 0).any())

    def go_on(self) -> None:
        """Begin an iteration if the one before is over, or make the next of its calls ready."""
        scoreboard, unready = self.scoreboard, np.flatnonzero(self.scoreboard.ready == 0)
        if self.is_between:
            tokens.begin(self.machine, scoreboard, scoreboard.state.iteration + 1)
        elif unready.size:
            send_scoreboard.make_ready(scoreboard, int(unready[-1]), 0)

    def step(self, now: int) -> list[np.ndarray]:
        """Take what has come; what it sends then."""
        machine, scoreboard = self.machine, self.scoreboard
        if self.arrived:
            rows, count = np.array(self.arrived), len(self.arrived)
            lengths = np.full(count, 4 * (BASE + VALUES))
            tokens.receive(machine, scoreboard, now, rows, lengths, count)
            self.arrived.clear()
        tokens.add_ready(machine, scoreboard, now)
        assert machine.status[0].failed == 0
        sent, more = [], True
        while more:
            count = tokens.send(
                machine, scoreboard, now, self.packets, self.lengths, self.destinations
            )
            for row, length in zip(self.packets[:count], self.lengths, strict=False):
                sent.append(row.copy())
                wire.expand(sent[-1], length, BASE, VALUES, 0)
            more = count == len(self.packets)
            self.deadline = int(tokens.deadline(machine, scoreboard))
            assert not more or self.deadline <= now
        return sent


def bits(members: tuple[int, ...]) -> int:
    return sum(1 << member for member in members)


class Network:
    """All ranks, and what is under way between them."""

    def __init__(self, calls, window: int, timeout: int, faults: float, seed: int) -> None:
        self.chance, self.faults, self.timeout = Random(seed), faults, timeout
        self.ranks = [Rank(number, calls, window, timeout) for number in range(WORKERS)]
        job = self.ranks[0].job
        tensors = np.repeat(np.arange(len(job.tensors)), np.diff(job.first_fragments))
        order = self.ranks[0].machine.fragment
        self.call = [bits(job.wanted[tensors[fragment]]) for fragment in order]
        self.tensor = [int(tensors[fragment]) for fragment in order]
        self.is_dispatch = [tensor % 2 == 1 for tensor in self.tensor]
        self.asked: dict[int, int] = {}  # chunks that are not whole: when they were asked for
        self.answered: dict[int, int] = {}  # by whom
        self.times: dict[int, int] = {}  # how often it was asked
        self.marked: dict[int, bool] = {}
        self.marks = self.gaps = 0
        self.questions: list[dict[int, int]] = [{} for _ in self.ranks]  # to be answered: flags
        self.under_way: list[tuple[int, int, np.ndarray]] = []  # when it comes, to whom

    def carry(self, now: int, to: int, row: np.ndarray) -> None:
        """Lose, copy, mark and delay a packet."""
        for _ in range(1 + (self.chance.random() < self.faults)):
            if self.chance.random() < self.faults:
                continue
            copy = row.copy()
            if self.chance.random() < self.faults:
                wire.set_word(copy, 0, int(wire.word(copy, 0)) | wire.ECN)
            late = 200 if self.chance.random() < 2 * self.faults else 5
            self.under_way.append((now + STEP * self.chance.randint(1, late), to, copy))

    def question(self, now: int, row: np.ndarray) -> None:
        """What the owner sends: to all whose answers it lacks, again if they were asked before."""
        number = int(wire.fragment(row))
        before = self.times.get(number, 0)
        assert wire.kind(row) == wire.RESULT and wire.flags(row) == (wire.RESEND if before else 0)
        assert before == 0 or number in self.asked
        self.times[number], self.asked[number] = before + 1, now
        lacking = self.call[number % len(self.call)] & ~self.answered.get(number, 0)
        assert wire.word(row, BITMAP) == lacking and wire.word(row, WANTED) == 0
        for member in range(1, WORKERS):
            if lacking >> member & 1:
                self.carry(now, member, row)

    def answer(self, now: int, member: int, row: np.ndarray) -> None:
        number = int(wire.fragment(row))
        assert wire.kind(row) == wire.GRADIENT
        assert wire.flags(row) == self.questions[member].pop(number)
        assert wire.word(row, BITMAP) == 1 << member
        assert wire.word(row, WANTED) == self.call[number % len(self.call)]
        for place, (due, to, other) in enumerate(self.under_way):  # a switch may add it to another
            same = to == 0 and wire.fragment(other) == number and due > now
            if same and not wire.word(other, BITMAP) >> member & 1 and self.chance.random() < 0.5:
                for word in range(BASE, BASE + VALUES):
                    total = int(wire.word(other, word)) + int(wire.word(row, word))
                    wire.set_word(other, word, total % 2**32)
                for word in (0, BITMAP):
                    wire.set_word(
                        other, word, int(wire.word(other, word)) | int(wire.word(row, word))
                    )
                self.under_way[place] = due, to, other
                return
        self.carry(now, 0, row)

    def takes(self, row: np.ndarray) -> None:
        """The owner gets an answer: it takes those of members that it lacks."""
        number, their = int(wire.fragment(row)), int(wire.word(row, BITMAP))
        got = self.answered.get(number, 0)
        if number not in self.asked or their & got:
            return
        self.answered[number] = got | their
        self.marked[number] = bool(wire.flags(row) & wire.ECN) or self.marked.get(number, False)
        if self.answered[number] == self.call[number % len(self.call)]:
            del self.asked[number]
            self.marks += self.marked[number]

    def run(self) -> None:
        now = 0
        for _ in range(MOMENTS):
            ranks = [rank for rank in self.ranks if self.is_due(rank, now)]
            for rank in self.chance.sample(ranks, len(ranks)):
                self.step(rank, now)
            if all(rank.is_over for rank in self.ranks) and not self.asked:
                break
            now += STEP
            if not any(rank.may_go_on or self.is_due(rank, now) for rank in self.ranks):
                times = [due for due, _, _ in self.under_way]
                now = max(now, min([*times, *(rank.deadline for rank in self.ranks)]))
        owner = self.ranks[0].machine
        assert all(rank.is_over for rank in self.ranks) and not self.asked
        assert owner.counters[0].marked_results == self.marks
        assert len(self.times) == ITERATIONS * len(self.call) == owner.counters[0].results

    def is_due(self, rank: Rank, now: int) -> bool:
        here = any(due <= now and to == rank.number for due, to, _ in self.under_way)
        return here or rank.deadline <= now or (rank.may_go_on and self.chance.random() < 0.05)

    def step(self, rank: Rank, now: int) -> None:
        if self.chance.random() < 0.3:
            rank.go_on()
        later = []
        for due, to, row in self.under_way:
            if due > now or to != rank.number:
                later.append((due, to, row))
                continue
            rank.arrived.append(row)
            if to == 0:
                self.takes(row)
            else:
                self.note(rank, row)
        self.under_way = later
        sent = rank.step(now)
        if rank.number > 0:
            for row in sent:
                self.answer(now, rank.number, row)
            for number in self.questions[rank.number]:  # what may be answered has been
                place = number % len(self.call)
                assert not self.is_dispatch[place]
                ahead = number // len(self.call) - rank.scoreboard.state.iteration
                assert ahead > 0 or ahead == 0 and not rank.scoreboard.ready[self.tensor[place]]
            return
        gaps = sum(self.is_gap(int(wire.fragment(row))) for row in sent)
        for row in sent:
            self.question(now, row)
        self.gaps += gaps
        assert rank.machine.counters[0].gap_resends <= self.gaps
        if self.timeout:  # else round trips decide
            for number, asked in self.asked.items():
                assert now - asked < self.timeout or self.times[number] > 2

    def is_gap(self, number: int) -> bool:
        """True if a chunk was sent once, and a later one of its call is whole."""
        first, place = number - number % len(self.call), number % len(self.call)
        later = [
            each
            for each in range(place + 1, len(self.call))
            if self.tensor[each] == self.tensor[place] and first + each not in self.asked
        ]
        return self.times.get(number) == 1 and any(first + each in self.times for each in later)

    def note(self, rank: Rank, row: np.ndarray) -> None:
        """A member gets a question: of each slot it answers the newest, as it was asked last."""
        number, window = int(wire.fragment(row)), len(rank.machine.asked)
        if number // len(self.call) > max(rank.scoreboard.state.iteration, 0) + 1:
            return
        waiting = self.questions[rank.number]
        before = next((each for each in waiting if each % window == number % window), number)
        if before <= number:
            waiting.pop(before, None)
            waiting[number] = int(wire.flags(row)) & (wire.RESEND | wire.ECN)


MEMBERS = st.sets(st.integers(1, WORKERS - 1), min_size=1).map(sorted).map(tuple)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    st.lists(MEMBERS, min_size=1, max_size=4),
    st.sampled_from([1, 2, 5]),
    st.sampled_from([0, TIMEOUT]),
    st.sampled_from([0.0, 0.1, 0.3]),
    st.integers(0, 2**32),
)
def test_any_network_brings_tokens_and_answers(calls, window, timeout, faults, seed):
    Network(calls, window, timeout, faults, seed).run()
