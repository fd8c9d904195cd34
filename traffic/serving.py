"""Requests to a served model, and the steps in which continuous batching answers them.

As many clients as the batch has places each send a request, wait for its last token, and send the
next one of the list (closed loop; `--max-concurrency` of serving benchmarks). The scheduler decides
anew before each step, as in Orca (OSDI 2022):

    new requests      one step reads the prompts of all of them (prefill), and makes their first
                      tokens; requests that are being answered wait
    otherwise         one step makes the next token of all requests in the batch (decode)

So the steps follow from the lengths of requests alone, and not from how long a step takes.

With times of arrival (open loop) they follow from both: a step takes the requests that have come by
its begin, as far as there are places. It begins when the one before it has ended, or when a request
comes to a batch without any.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from p4fabric.base.errors import UserError

from testbed.traffic.arrivals import is_whole, read_mix
from testbed.traffic.draws import Stream

PREFILL, DECODE, SERVE = "prefill", "decode", "serve"
SERVING = (PREFILL, DECODE, SERVE)
MAX_TOKENS = 1 << 20  # of a prompt, or of an answer
MAX_REQUESTS = 10_000
MAX_STEPS = 100_000
PROMPTS, OUTPUTS, ARRIVALS = 0xB311, 0xB312, 0xB313  # distinguish streams of the same seed
COLUMNS, ARRIVAL = ("prompt", "output"), "arrival_us"
MAX_US = 3600 * 10**6


class Request(NamedTuple):
    """Tokens of a prompt, and of its answer."""

    prompt: int
    output: int


class Lengths(NamedTuple):
    """Numbers of tokens, drawn from `low` to `high`: all equally likely, or from a bounded Pareto
    distribution with exponent `tail` (draws.Stream.pareto)."""

    low: int
    high: int
    tail: float | None = None

    def drawn(self, seed: int, purpose: int, count: int) -> list[int]:
        """`count` of them."""
        stream = Stream(seed, purpose)
        if self.tail is not None:
            return [stream.pareto(self.low, self.high, self.tail) for _ in range(count)]
        return [self.low + stream.below(self.high - self.low + 1) for _ in range(count)]


@dataclass(frozen=True)
class Step:
    """One pass through the model. new: tokens of each request that go through it; context: those
    that each attends to, these included. entered: prompts of the requests that enter the batch with
    it, if other machines have read them."""

    prefill: bool
    new: tuple[int, ...]
    context: tuple[int, ...]
    entered: tuple[int, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(self.new)

    @property
    def pairs(self) -> int:
        """Pairs of a token and one that it attends to, masked ones included."""
        return sum(new * context for new, context in zip(self.new, self.context, strict=True))


class Answered(NamedTuple):
    """Moments of a request, by numbers of steps: it is sent when step `sent` has ended (-1:
    at the start), its first token comes with step `first`, its last one with step `last`."""

    sent: int
    first: int
    last: int


def drawn(seed: int, count: int, prompt: Lengths, output: Lengths) -> tuple[Request, ...]:
    """Requests with drawn lengths."""
    both = prompt.drawn(seed, PROMPTS, count), output.drawn(seed, OUTPUTS, count)
    return tuple(map(Request, *both))


def drawn_arrivals(seed: int, count: int, rate: float) -> tuple[int, ...]:
    """Times of a Poisson process in ns. rate: mean number in a second."""
    stream, mean_ns = Stream(seed, ARRIVALS), round(1e9 / rate)
    return tuple(accumulate(stream.exponential(mean_ns) for _ in range(count)))


def read_requests(path: Path) -> tuple[tuple[Request, ...], tuple[int, ...]]:
    """The requests of a CSV file with columns prompt and output, and their times of arrival in ns,
    if it has a column arrival_us. Raises UserError."""
    found: list[Request] = []
    arrivals: list[int] = []
    for line in read_mix(path, "requests"):
        where = f"{path}, line {line.number}"
        if (cell := line.cells.pop(ARRIVAL, None)) is not None:
            before = arrivals[-1] // 1000 if arrivals else 0
            if not is_whole(cell, before, MAX_US):
                raise UserError(
                    f"{where}: {ARRIVAL}: found {cell[:40]!r}; write a whole number of"
                    f" microseconds, {before} (of the line before) to {MAX_US}"
                )
            arrivals.append(1000 * int(cell))
        for name in COLUMNS:
            cell = line.cells.get(name, "")
            if not is_whole(cell, 1, MAX_TOKENS):
                raise UserError(
                    f"{where}: {name}: found {cell[:40]!r}; write a number of tokens, 1 to"
                    f" {MAX_TOKENS}"
                )
        if unknown := line.cells.keys() - {*COLUMNS}:
            raise UserError(
                f"{where}: unknown column {min(unknown)!r}; known: {', '.join(COLUMNS)}, {ARRIVAL}"
            )
        found.append(Request(*(int(line.cells[name]) for name in COLUMNS)))
    if len(found) > MAX_REQUESTS:
        raise UserError(f"{path}: {len(found)} requests; allowed: up to {MAX_REQUESTS}")
    if arrivals and len(arrivals) < len(found):
        raise UserError(
            f"{path}: {len(arrivals)} of {len(found)} requests have {ARRIVAL}; give it to all, or"
            " to none"
        )
    return tuple(found), tuple(arrivals)


def batched(
    kind: str,
    batch: int,
    requests: Sequence[Request],
    arrivals: Sequence[int] = (),
    end_ns: Callable[[int, int, Step], int] = lambda number, begin_ns, step: begin_ns,
) -> tuple[list[Step], list[Answered]]:
    """The steps, and when each request is answered. kind: PREFILL: prompts are read, and each
    request ends with its first token; DECODE: other machines have read them; SERVE: both.
    arrivals: of requests in ns, ascending; (): a closed loop. end_ns: with arrivals, the end of a
    step by its number and begin. `sent` is then the step after whose end a request enters."""
    steps: list[Step] = []
    running: list[int] = []
    sent, first, last = ([-1] * len(requests) for _ in range(3))
    made = [0] * len(requests)  # tokens of each answer
    waiting = 0  # the next request
    now_ns, come = 0, len(requests)
    while running or waiting < len(requests):
        if arrivals:
            now_ns = now_ns if running else max(now_ns, arrivals[waiting])
            come = bisect_right(arrivals, now_ns)
        new = [*range(waiting, min(waiting + batch - len(running), come))]
        waiting += len(new)
        running += new
        prefill = bool(new) and kind != DECODE
        number, chosen = len(steps), new if prefill else [*running]
        for each in new:
            sent[each] = number - 1
        for each in chosen:
            made[each] += 1
            first[each] = number if made[each] == 1 else first[each]
            if made[each] == (1 if kind == PREFILL else requests[each].output):
                last[each] = number
                running.remove(each)
        prompts = [requests[each].prompt for each in chosen]
        if prefill:
            steps.append(Step(True, tuple(prompts), tuple(prompts)))
            now_ns = end_ns(number, now_ns, steps[-1])
            continue
        # The token before, which is not of the answer if other machines have read the prompt.
        read = [made[each] - (kind == SERVE) for each in chosen]
        contexts = (prompt + tokens for prompt, tokens in zip(prompts, read, strict=True))
        entered = tuple(requests[each].prompt for each in new)
        steps.append(Step(False, (1,) * len(chosen), tuple(contexts), entered))
        now_ns = end_ns(number, now_ns, steps[-1])
    return steps, [Answered(*each) for each in zip(sent, first, last, strict=True)]
