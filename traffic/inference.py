"""Inference of a transformer as a program of ranks: shapes, parallelism, requests, and what may be
asked together. serving.py has the steps, inference_stage.py the graph of each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from testbed.traffic.expert_calls import PACKETS, DrawnExperts
from testbed.traffic.inference_stage import (
    ASKED,
    KEYS,
    NEXT,
    UNTIMED,
    Served,
    client_nodes,
    prompt_nodes,
    served_stage,
    step_times,
)
from testbed.traffic.rank_graph import MAX_RANKS, Program
from testbed.traffic.rank_layout import DIMENSIONS, Layout, staged
from testbed.traffic.serving import DECODE, MAX_STEPS, PREFILL, Answered, Request, Step, batched
from testbed.traffic.trace import TraceError
from testbed.traffic.transformer import UTILISATION, undivided
from testbed.traffic.transformer_shapes import Shape, shape_of
from testbed.traffic.transformer_stage import Work
from testbed.traffic.transformer_times import GPUS

MAX_NODES = 2_000_000  # of a rank


@dataclass(frozen=True)
class Inference(DrawnExperts):
    """A served model. kind: of serving.SERVING; batch: requests that an ep rank answers at a time;
    layers: of the model, 0: as published. transfers: with DECODE, as many ranks more read the
    prompts, and send keys and values. arrivals: times at which clients send requests, in ns; (): a
    closed loop. ends: with arrivals, the ends of steps that are known, in ns from the begin.
    paces: the times of other steps over their computation, of prefill and of decoding."""

    model: str
    kind: str
    batch: int
    requests: tuple[Request, ...]
    gpu: str = "a100"
    utilisation: float = UTILISATION
    layers: int = 0
    tp: int = 1
    ep: int = 1
    pp: int = 1
    transfers: bool = False
    arrivals: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    paces: tuple[float, float] = (1.0, 1.0)

    @property
    def shape(self) -> Shape:
        return self.shaped(shape_of(self.model, self.layers))

    @property
    def layout(self) -> Layout:
        return Layout(tp=self.tp, ep=self.ep, pp=self.pp)

    def dealt(self, place: int) -> tuple[Request, ...]:
        """The requests of an ep rank: they are dealt to them in turn."""
        return self.requests[place :: self.ep]

    @cached_property
    def schedules(self) -> list[tuple[list[Step], list[Answered]]]:
        """Of each ep rank: its steps, and when its requests are answered. The n-th steps of all are
        one; who has no request left has steps without tokens."""
        end_ns = self._end_ns
        found = [
            batched(self.kind, self.batch, self.dealt(place), self.arrivals, end_ns)
            for place in range(self.ep)
        ]
        most = max(len(steps) for steps, _ in found)
        for steps, _ in found:
            steps += [Step(False, (), ())] * (most - len(steps))
        return found

    @property
    def schedule(self) -> tuple[list[Step], list[Answered]]:
        """Of the first ep rank."""
        return self.schedules[0]

    def _end_ns(self, number: int, begin_ns: int, step: Step) -> int:
        if number < len(self.ends):
            return self.ends[number]
        return begin_ns + round(self.computed_ns(step) * self.paces[not step.prefill])

    def computed_ns(self, step: Step) -> int:
        """Computation of a step, of all stages."""
        gpu = GPUS[self.gpu]
        times = step_times(self.shape, step, self.layout, gpu, self.utilisation)
        parts = (times.attention, times.mlp, times.router)
        layer = sum(part.forward_ns + part.core_ns for part in parts)
        return self.shape.layers * layer + times.head.forward_ns

    def stages(self) -> tuple[Served, ...]:
        """The graphs of all stages, before tokens go to experts: those of each ep rank."""
        return _stages(self)

    def steps_of(self, rank: int, program: Program) -> list[list[int]]:
        """Places of the nodes of each step in a rank's graph. program: of this model, whatever
        carries its calls."""
        served = self.stages()[rank // self.tp]
        bounds = [each for span in served.spans for each in span]
        if self.experts:
            ends = _placed(self)[1][rank]
            bounds = [ends[each - 1] + 1 if each else 0 for each in bounds]
        found: list[list[int]] = [[] for _ in served.spans]
        for place, node in enumerate(program.ranks[rank]):
            step, beside = divmod(bisect_right(bounds, node.id) - 1, 2)
            if not beside:
                found[step].append(place)
        return found

    def check(self) -> None:
        """Raises TraceError if the parts do not fit each other."""
        for wrong in self._wrong():
            raise TraceError(wrong)

    def _wrong(self) -> Iterator[str]:
        shape = self.shape
        yield from undivided(self.model, shape, self.layout, 1)
        if self.ep > 1 and not self.experts:
            yield (
                f"parallel.ep: found {self.ep} and no experts; write how tokens travel, such as"
                f" experts: {{calls: {PACKETS}}}"
            )
        yield from self.missing(self.model, shape, self.ep)
        if self.ep > 1 and self.arrivals:
            yield "parallel.ep: found with times of arrival; take one of the two out"
        if self.transfers and self.arrivals:
            yield "transfers: found with times of arrival; take one of the two out"
        if self.transfers and self.kind != DECODE:
            yield f"transfers: found with kind: {self.kind}; write kind: {DECODE}, or take it out"
        if self.layout.ranks > MAX_RANKS:
            yield f"parallel: {self.layout.ranks} ranks; allowed: up to {MAX_RANKS}"
        for number, (prompt, output) in enumerate(self.requests):
            whole = prompt + (0 if self.kind == PREFILL else output)
            if shape.gpt and whole > shape.context:
                yield (
                    f"requests: request {number} has {whole} tokens; {self.model} has positions for"
                    f" {shape.context}. Make it shorter"
                )
        parts = 4 * shape.layers // self.pp + 6  # of a step
        most = min(MAX_STEPS, MAX_NODES // parts)
        # A batch has at most as many steps as its requests have tokens.
        steps = len(self.requests) + sum(each.output for each in self.requests)
        if steps > most and (steps := len(self.schedule[0])) > most:
            yield (
                f"requests: {steps} steps of {shape.layers} layers; allowed: up to {most} steps"
                " (of so many layers). Take fewer requests, shorter ones, or fewer layers"
            )

    def load(self) -> Program:
        """The program. Raises TraceError."""
        self.check()
        program = _placed(self)[0] if self.experts else self.staged()
        if self.arrivals:
            return self._with_clients(program)
        return self._with_prompts(program) if self.transfers else program

    def staged(self) -> Program:
        """The program before tokens go to experts."""
        templates = [each.template for each in self.stages()]
        about = {"name": self.model, "title": self.title, "device": GPUS[self.gpu].title}
        return staged(self.layout, templates, about)

    def _with_clients(self, program: Program) -> Program:
        """The same with a rank that stands for all clients, behind the others."""
        size = self.layout.ranks
        ranks = [
            tuple(replace(node, peer=size) if node.tag == ASKED else node for node in nodes)
            for nodes in program.ranks
        ]
        prompts = [each.prompt for each in self.requests]
        ranks.append(client_nodes(prompts, self.arrivals, range(self.tp)))
        return replace(program, ranks=tuple(ranks))

    def _with_prompts(self, program: Program) -> Program:
        """The same with the ranks that read prompts, behind the others."""
        ranks, size = [], self.layout.ranks
        for rank, nodes in enumerate(program.ranks):
            other = size + rank
            ranks.append(
                tuple(
                    replace(node, peer=other) if node.tag in (KEYS, NEXT) else node
                    for node in nodes
                )
            )
        gpu = GPUS[self.gpu]
        for rank in range(size):
            prompts = [each.prompt for each in self.dealt(rank // self.tp % self.ep)]
            ranks.append(prompt_nodes(self.work, prompts, gpu, self.utilisation, self.batch, rank))
        return replace(program, ranks=tuple(ranks))

    @property
    def work(self) -> Work:
        """Of a rank, but for tokens and times."""
        layers = self.shape.layers // self.pp
        steps = len(self.schedule[0])
        return Work(
            *(self.shape, self.layout, layers, steps, 1),
            gathered=False,
            sharding="none",
            times=UNTIMED,
        )

    @property
    def title(self) -> str:
        """The model, its parallelism, and its requests."""
        sizes = [f"{key} {self.layout.size(key)}" for key in DIMENSIONS]
        sizes = [each for each in sizes if not each.endswith(" 1")] or ["1 rank"]
        sizes += self.ways
        layers = f" with {self.layers} layers" if self.layers else ""
        what = "decoding" if self.kind == DECODE else self.kind
        if self.transfers:
            what += f" beside {self.layout.ranks} ranks that read prompts"
        return (
            f"{self.model}{layers}, {what}, {self.layout.ranks} ranks ({', '.join(sizes)}),"
            f" {len(self.requests)} requests, {self.batch} at a time, {GPUS[self.gpu].title},"
            f" {self.utilisation:.0%} of its peak"
        )


@lru_cache(maxsize=16)
def _stages(made: Inference) -> tuple[Served, ...]:
    gpu, utilisation = GPUS[made.gpu], made.utilisation
    ahead = made.batch if made.transfers else 0
    of_all = [steps for steps, _ in made.schedules]
    tokens = [tuple(step.tokens for step in together) for together in zip(*of_all, strict=True)]
    clients = bool(made.arrivals)
    return tuple(
        served_stage(made.work, stage, steps, gpu, utilisation, ahead, clients, tokens=tokens)
        for stage in range(made.pp)
        for steps in of_all
    )


@lru_cache(maxsize=4)
def _placed(made: Inference) -> tuple[Program, list[list[int]]]:
    return made.routed(made.staged(), made.shape.experts, made.shape.top_k, made.ep)
