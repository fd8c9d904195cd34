"""Work of a rank of a pipeline stage that serves requests, as a template of nodes: the forward pass
of transformer_stage.py for each step of the batch (serving.py).

    step        for each layer attention, all_reduce, MLP, all_reduce; one after the other
    embedding   all_reduce of the batch's tokens, as each tp rank has a part of the vocabulary
    head        of each request's last token alone; all_gather of the logits
    stages      one step is under way at a time: the last stage sends the new tokens to the first
    keys        of prompts that other ranks have read, with `ahead` requests for which these may
                work ahead: a step waits for those of the requests that enter the batch with it.
                Each that enters lets the other rank read one prompt more

Experts are divided among the tp ranks as an MLP is, and among ep ranks, each of which has a batch
of its own. Tokens go from the router to their experts, and answers come back before the all_reduce.
A rank without tokens computes for those of the others.

A part of a step takes as long as its operations at the GPU's peak, or as its bytes from the GPU's
memory if that is longer, each at the stated utilisation (the roofline model; Williams, Waterman,
Patterson, CACM 2009). Bytes are those of the weights, once in a step (of experts: of as many as the
tokens can reach), and of the keys and values of all tokens that are attended to. All ep ranks have
equally many tokens for their experts then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from testbed.traffic.rank_graph import COMPUTE, RECV, SEND, Node
from testbed.traffic.rank_layout import Layout, Template
from testbed.traffic.serving import Step
from testbed.traffic.transformer_shapes import Shape
from testbed.traffic.transformer_stage import BF16, Nodes, Stage, Work
from testbed.traffic.transformer_times import Gpu, Part, Times

NEW_TOKENS = 6  # tag of their transfers, beside those of transformer_stage.py
KEYS, NEXT = 7, 8  # tags of keys and values, and of messages that ask for the next prompt's
ASKED = 9  # tag of prompts, from the rank that stands for all clients
OTHER = ("pp", 0)  # the step to a rank whose number is not of the layout
NOTHING = Part(0, 0, 0)
UNTIMED = Times(NOTHING, NOTHING, NOTHING, NOTHING, 0)


@dataclass(frozen=True)
class Served:
    """A stage's graph, of an ep rank. spans: places of the first node of each step and behind its
    last one."""

    template: Template
    spans: tuple[tuple[int, int], ...]

    def computes(self, step: int) -> list[int]:
        """Places of the compute nodes of a step."""
        places = range(*self.spans[step])
        return [each for each in places if self.template.nodes[each].kind == COMPUTE]


def step_times(
    shape: Shape, step: Step, layout: Layout, gpu: Gpu, utilisation: float, everyone: int = 0
) -> Times:
    """Times of a rank's parts for a step. everyone: tokens of all ep ranks; 0: as many on each."""
    tp, ep = layout.tp, layout.ep

    def took(operations: float, size: float) -> int:
        rates = gpu.peak * utilisation, gpu.bandwidth * utilisation
        return round(max(operations / rates[0], size / rates[1]) / tp * 1e9)

    def product(tokens: int, weights: int, copies: int = 1) -> int:
        return took(2 * tokens * weights, 2 * weights * copies)

    tokens, held = step.tokens, sum(step.context)
    everyone, k = everyone or tokens * ep, max(shape.top_k, 1)
    reached = min(shape.experts // ep, everyone * k) if shape.experts else 1
    shared = shape.shared * (tokens > 0)
    operations = 2 * (everyone * k + ep * tokens * shared) * shape.mlp / ep
    mlp = Part(took(operations, 2 * (reached + shared) * shape.mlp), 0, 0)
    if not tokens:
        return replace(UNTIMED, mlp=mlp)
    return Times(
        attention=Part(
            product(tokens, shape.attention),
            *(0, 0),
            took(4 * step.pairs * shape.core_width, 2 * 2 * held * shape.kv_width),
        ),
        mlp=mlp,
        router=Part(product(tokens, shape.hidden * shape.experts), 0, 0),
        head=Part(product(len(step.new), shape.vocabulary * shape.hidden), 0, 0),
        update_ns_per_value=0,
    )


def served_stage(
    work: Work,
    stage: int,
    steps: Sequence[Step],
    gpu: Gpu,
    utilisation: float,
    ahead: int = 0,
    clients: bool = False,
    *,
    tokens: Sequence[tuple[int, ...]],
) -> Served:
    """The graph of a stage. work: but for tokens and times. ahead: 0: prompts' keys are there.
    clients: prompts come from another rank. tokens: of all ep ranks, in each step."""
    made = _Server(work, stage, gpu, utilisation)
    made.clients = clients
    made.ahead, made.coming = ahead, sum(len(step.entered) for step in steps) - ahead
    for number, step in enumerate(steps):
        made.tokens = tokens[number]
        made.serve(step, number == len(steps) - 1)
    return Served(made.template, tuple(made.spans))


def prompt_nodes(
    work: Work, prompts: Sequence[int], gpu: Gpu, utilisation: float, ahead: int, peer: int
) -> tuple[Node, ...]:
    """The graph of a rank that reads a stage's part of prompts for rank `peer`, one after the
    other, and sends it their keys and values. Its own sums with others are left out."""
    found: list[Node] = []
    last: tuple[int, ...] = ()
    for number, prompt in enumerate(prompts):
        step = Step(True, (prompt,), (prompt,))
        times = step_times(work.shape, step, work.layout, gpu, utilisation)
        parts = (times.attention, times.mlp, times.router)
        duration = work.layers * sum(part.forward_ns + part.core_ns for part in parts)
        asked: tuple[int, ...] = ()
        if number >= ahead:
            asked = (len(found),)
            found.append(Node(RECV, peer=peer, tag=NEXT, bytes=4, id=len(found)))
        found.append(Node(COMPUTE, (*last, *asked), duration, id=len(found)))
        last = (len(found) - 1,)
        size = keys_bytes(work, prompt)
        found.append(Node(SEND, last, peer=peer, tag=KEYS, bytes=size, dtype=BF16, id=len(found)))
    return tuple(found)


def client_nodes(
    prompts: Sequence[int], arrivals: Sequence[int], servers: Sequence[int]
) -> tuple[Node, ...]:
    """The graph of a rank that sends prompts at these times in ns, each to all these ranks."""
    found: list[Node] = []
    last: tuple[int, ...] = ()
    for prompt, before_ns, now_ns in zip(prompts, (0, *arrivals), arrivals, strict=False):
        found.append(Node(COMPUTE, last, now_ns - before_ns, id=len(found)))
        last = (len(found) - 1,)
        for server in servers:
            sent = Node(SEND, last, peer=server, tag=ASKED, bytes=4 * prompt, id=len(found))
            found.append(sent)
    return tuple(found)


def keys_bytes(work: Work, prompt: int) -> int:
    """Of the keys and values of a prompt in a rank's layers."""
    return 2 * 2 * work.layers * prompt * work.shape.kv_width // work.layout.tp


class _Server(Stage):
    ahead = coming = 0  # coming: prompts to ask for
    clients = False
    tokens: tuple[int, ...] = ()  # of all ep ranks in the step

    def __init__(self, work: Work, stage: int, gpu: Gpu, utilisation: float) -> None:
        super().__init__(work, stage)
        self.gpu, self.utilisation, self.alike = gpu, utilisation, work.layout.tp
        self.requests = 0  # of the step
        self.spans: list[tuple[int, int]] = []

    def serve(self, step: Step, ends: bool) -> None:
        layout, nodes = self.work.layout, self.template.nodes
        shape, everyone = self.work.shape, sum(self.tokens)
        times = step_times(shape, step, layout, self.gpu, self.utilisation, everyone)
        self.work = replace(self.work, tokens=step.tokens, times=times)
        number, circle = len(self.spans), layout.pp > 1
        if circle and self.first and number:
            self.last = self.pass_on(RECV, ("pp", -1), 4 * self.requests, NEW_TOKENS, self.last)
        if self.ahead and step.entered:
            keys = []
            for prompt in step.entered:
                size = keys_bytes(self.work, prompt)
                keys.append(self.template.transfer(RECV, (), OTHER, size, KEYS, BF16))
                if self.coming > 0:
                    self.coming -= 1
                    self.template.transfer(SEND, (*self.last, keys[-1]), OTHER, 4, NEXT)
            self.last = (*self.last, *keys)
        if self.clients and self.first:
            asked = [
                self.template.transfer(RECV, (), OTHER, 4 * prompt, ASKED)
                for prompt in (step.new if step.prefill else step.entered)
            ]
            self.last = (*self.last, *asked)
        self.requests = len(step.new)
        begin = len(nodes)
        self.forward(number)
        self.spans.append((begin, len(nodes)))
        if circle and self.final and not ends:
            self.pass_on(SEND, ("pp", 1), 4 * self.requests, NEW_TOKENS, self.last)

    @property
    def tokens_of_group(self) -> tuple[int, ...]:
        return self.tokens

    def pass_on(self, kind: str, step: tuple[str, int], size: int, tag: int, after: Nodes) -> Nodes:
        return super().pass_on(kind, step, size, tag, after) if size else after

    def judge(self) -> None:
        """The logits of all words on all tp ranks, which take the same next tokens."""
        work = self.work
        part = 2 * self.requests * -(-work.shape.vocabulary // work.layout.tp)
        self.last = self.call("all_gather", "tp", part, BF16, self.last)

    def mlp(self, *which: int) -> None:
        times = self.work.times
        self.enter()
        self.last = self.compute(times.router.forward_ns)
        self.route(*which, combine=False)
        self.last = self.compute(times.mlp.forward_ns)
        self.route(*which, combine=True)
        self.leave()
