"""Requests to a served model, and the steps in which continuous batching answers them.

As many clients as the batch has places each send a request, wait for its last token, and send the
next one of the list (closed loop; `--max-concurrency` of serving benchmarks). The scheduler decides
anew before each step, as in Orca (OSDI 2022):

    new requests      one step reads the prompts of all of them (prefill), and makes their first
                      tokens; requests that are being answered wait
    otherwise         one step makes the next token of all requests in the batch (decode)

So the steps follow from the lengths of requests alone, and not from how long a step takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from p4fabric.base.errors import UserError

from testbed.traffic.arrivals import read_mix
from testbed.traffic.draws import Stream

PREFILL, DECODE, SERVE = "prefill", "decode", "serve"
SERVING = (PREFILL, DECODE, SERVE)
MAX_TOKENS = 1 << 20  # of a prompt, or of an answer
MAX_REQUESTS = 10_000
MAX_STEPS = 100_000
PROMPTS, OUTPUTS = 0xB311, 0xB312  # distinguish streams of the same seed
COLUMNS = ("prompt", "output")


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


def read_requests(path: Path) -> tuple[Request, ...]:
    """The requests of a CSV file with columns prompt and output. Raises UserError."""
    found = []
    for line in read_mix(path, "requests"):
        where = f"{path}, line {line.number}"
        for name in COLUMNS:
            cell = line.cells.get(name, "")
            if not cell.isascii() or not cell.isdigit() or not 1 <= int(cell[:18]) <= MAX_TOKENS:
                raise UserError(
                    f"{where}: {name}: found {cell[:40]!r}; write a number of tokens, 1 to"
                    f" {MAX_TOKENS}"
                )
        if unknown := line.cells.keys() - {*COLUMNS}:
            raise UserError(
                f"{where}: unknown column {min(unknown)!r}; known: {', '.join(COLUMNS)}. Requests"
                " are sent in their order, each when an earlier one has been answered"
            )
        found.append(Request(*(int(line.cells[name]) for name in COLUMNS)))
    if len(found) > MAX_REQUESTS:
        raise UserError(f"{path}: {len(found)} requests; allowed: up to {MAX_REQUESTS}")
    return tuple(found)


def batched(
    kind: str, batch: int, requests: Sequence[Request]
) -> tuple[list[Step], list[Answered]]:
    """The steps, and when each request is answered. kind: PREFILL: prompts are read, and each
    request ends with its first token; DECODE: other machines have read them; SERVE: both."""
    steps: list[Step] = []
    running: list[int] = []
    sent, first, last = ([-1] * len(requests) for _ in range(3))
    made = [0] * len(requests)  # tokens of each answer
    waiting = 0  # the next request
    while running or waiting < len(requests):
        new = [*range(waiting, min(waiting + batch - len(running), len(requests)))]
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
            continue
        # The token before, which is not of the answer if other machines have read the prompt.
        read = [made[each] - (kind == SERVE) for each in chosen]
        contexts = (prompt + tokens for prompt, tokens in zip(prompts, read, strict=True))
        entered = tuple(requests[each].prompt for each in new)
        steps.append(Step(False, (1,) * len(chosen), tuple(contexts), entered))
    return steps, [Answered(*each) for each in zip(sent, first, last, strict=True)]
