"""Work of a rank of a transformer's pipeline stage in an iteration, as a template of nodes.

One forward, one backward (1F1B): stage i of p first does p - 1 - i forward passes, then one
backward pass after each forward pass, then the remaining backward passes. Sends hold nothing up.

    layer, forward     attention, all_reduce, MLP, all_reduce
    sequence parallel  all_gather, attention, reduce_scatter, all_gather, MLP, reduce_scatter
    experts            all_to_all to the experts, MLP, all_to_all back
    backward           the same in the opposite direction. The gradient of the input is passed on;
                       that of the weights is computed beside it

With context parallelism keys and values go round the ring of a cp group while attention computes
with those that are there, and their gradients go round after them.

Gradients are summed in float32 where the last microbatch has made them: in buckets (`none`: an
all_reduce, `zero1`: a reduce_scatter, and an all_gather of the new weights at the end), or `fsdp`:
each unit's weights are gathered before it is used, forward and backward, with the next unit's
gathering beside it, and its gradients are scattered after each microbatch.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.traffic.rank_graph import COMPUTE, RECV, SEND
from testbed.traffic.rank_layout import Exchange, Layout, Template
from testbed.traffic.transformer_shapes import Shape
from testbed.traffic.transformer_times import Part, Times

BF16, FP32 = "bfloat16", "float32"
SHARDING = ("none", "zero1", "fsdp")
# Values of a bucket, at least: Megatron-LM's default, 40 million and one million for each replica.
BUCKET_VALUES, BUCKET_VALUES_PER_REPLICA = 40_000_000, 1_000_000
# Tags of transfers between the same ranks.
KEYS_FORWARD, KEYS_BACKWARD, KEY_GRADIENTS, ACTIVATIONS, GRADIENTS = range(1, 6)

Nodes = tuple[int, ...]


@dataclass(frozen=True)
class Unit:
    """A layer, the embedding or the head: parameters on a rank by the kind of group that sums up
    their gradients."""

    values: dict[str, int]


@dataclass(frozen=True)
class Work:
    """All that the stages of a job share. tokens: of a microbatch on a rank; gathered: whether tp
    ranks hold parts of them between the parts of a layer (sequence parallel)."""

    shape: Shape
    layout: Layout
    layers: int  # of a stage
    microbatches: int
    tokens: int
    gathered: bool
    sharding: str
    times: Times

    @property
    def activation_bytes(self) -> int:
        """Of a microbatch's tokens, all of them."""
        return 2 * self.tokens * self.shape.hidden

    @property
    def resting_bytes(self) -> int:
        """Bytes of activations that a rank keeps between the parts of a layer."""
        return self.activation_bytes // (self.layout.tp if self.gathered else 1)


def bucket_values(layout: Layout, group: str) -> int:
    """Values that fill a bucket of a kind of group."""
    return max(BUCKET_VALUES, BUCKET_VALUES_PER_REPLICA * layout.group_size(group))


def stage_template(work: Work, stage: int) -> Template:
    """The template of a stage."""
    builder = Stage(work, stage)
    count, last = work.microbatches, work.layout.pp - 1
    ahead = min(last - stage, count)
    for number in range(ahead):
        builder.forward(number)
    for number in range(count - ahead):
        builder.forward(ahead + number)
        builder.backward(number)
    for number in range(count - ahead, count):
        builder.backward(number)
    builder.finish()
    return builder.template


class Stage:
    """A stage's graph under construction; inference (inference_stage.py) has the same layers.
    alike: neighbouring ranks that send the same tokens to experts."""

    alike = 1

    def __init__(self, work: Work, stage: int) -> None:
        self.work, self.stage, self.template = work, stage, Template()
        layout, shape = work.layout, work.shape
        self.first, self.final = stage == 0, stage == layout.pp - 1
        dense, experts = shape.layer(layout.tp, layout.ep)
        layer = {"dp": dense, "dp_ep": experts} if experts else {"dp": dense}
        self.units = [Unit(layer) for _ in range(work.layers)]
        if self.first:
            self.units.insert(0, Unit({"dp": shape.embedding(layout.tp)}))
        if self.final:
            tied = shape.gpt and not self.first  # the last stage has a copy of the words
            copied = shape.words(layout.tp) if tied else 0
            self.units.append(Unit({"dp": shape.head(layout.tp) + copied}))
        self.last: Nodes = ()  # what comes next depends on these
        self.gathered: dict[
            tuple[int, int, bool], Nodes
        ] = {}  # weights of units, forward or backward
        self.ready: dict[int, Nodes] = {}  # gradients of units
        self.summed: set[tuple[int, str]] = set()  # those that are in a bucket
        self.buckets: list[tuple[str, int]] = []  # group and values
        self.sums: list[int] = []  # nodes that sum up gradients

    # -- nodes

    def compute(self, duration_ns: int, after: Nodes | None = None) -> Nodes:
        after = self.last if after is None else after
        if not duration_ns:
            return after
        return (self.template.add(COMPUTE, after, duration_ns=duration_ns),)

    def call(self, kind: str, group: str, size: int, dtype: str, after: Nodes) -> Nodes:
        """A collective; nothing in a group of one rank."""
        if self.work.layout.group_size(group) == 1 or not size:
            return after
        return (self.template.add(kind, after, group, bytes=size, dtype=dtype),)

    def share(self, group: str, size: int) -> int:
        """A rank's part of an array."""
        return -(-size // self.work.layout.group_size(group))

    def pass_on(self, kind: str, step: tuple[str, int], size: int, tag: int, after: Nodes) -> Nodes:
        return (self.template.transfer(kind, after, step, size, tag, BF16),)

    # -- parts of a layer

    def enter(self) -> None:
        """All tokens, before a part that needs them."""
        work = self.work
        if work.gathered:
            part = self.share("tp", work.activation_bytes)
            self.last = self.call("all_gather", "tp", part, BF16, self.last)

    def leave(self) -> None:
        """The sum over the tp ranks of what a part has made."""
        work = self.work
        kind = "reduce_scatter" if work.gathered else "all_reduce"
        self.last = self.call(kind, "tp", work.activation_bytes, BF16, self.last)

    @property
    def tokens_of_group(self) -> tuple[int, ...]:
        """Tokens that each rank of an ep group sends to experts."""
        work = self.work
        return (work.resting_bytes // (2 * work.shape.hidden),) * work.layout.ep

    def route(self, *which: int, combine: bool) -> None:
        """Each token to the ranks with its experts, or back. which: layer and microbatch."""
        work = self.work
        token_bytes, tokens = 2 * work.shape.hidden, self.tokens_of_group
        size = work.shape.top_k * token_bytes * max(tokens)
        before = self.last
        self.last = self.call("all_to_all", "ep", size, BF16, self.last)
        if self.last != before:
            made = Exchange(combine, tokens, token_bytes, which, self.alike)
            self.template.exchanges[self.last[0]] = made

    def enter_experts(self) -> None:
        """All tokens of the experts, on each tp rank."""
        work = self.work
        part = work.shape.top_k * self.share("tp", work.activation_bytes)
        self.last = self.call("all_gather", "tp", part, BF16, self.last)

    def leave_experts(self) -> None:
        work = self.work
        size = work.shape.top_k * work.activation_bytes
        self.last = self.call("reduce_scatter", "tp", size, BF16, self.last)

    def weights(self, part: Part) -> Nodes:
        """The gradient of a part's weights, beside what follows."""
        return self.compute(part.weight_ns)

    def attention(self) -> None:
        work, part = self.work, self.work.times.attention
        self.enter()
        cp = work.layout.cp
        if cp == 1:
            self.last = self.compute(part.forward_ns + part.core_ns)
        else:
            inward = self._inward(part.forward_ns)
            self.last = self.compute(inward)
            held = self.last
            for number in range(cp):
                here = held
                if number < cp - 1:
                    self._keys(SEND, KEYS_FORWARD, here)
                    held = self._keys(RECV, KEYS_FORWARD, here)
                after = (*self.last, *here) if number else self.last
                self.last = self.compute(part.core_ns // cp, after)
            self.last = self.compute(part.forward_ns - inward)
        self.leave()

    def attention_backward(self) -> Nodes:
        """Returns the gradient of the weights."""
        work, part = self.work, self.work.times.attention
        self.enter()
        cp = work.layout.cp
        if cp == 1:
            self.last = self.compute(part.input_ns + part.core_input_ns)
        else:
            inward = self._inward(part.input_ns)
            self.last = self.compute(part.input_ns - inward)
            held = begun = self.last
            gradients: Nodes = ()
            for number in range(cp):
                here = held
                if number < cp - 1:
                    self._keys(SEND, KEYS_BACKWARD, here)
                    held = self._keys(RECV, KEYS_BACKWARD, here)
                after = (*self.last, *here) if number else begun
                self.last = self.compute(part.core_input_ns // cp, after)
                # The gradients of what was here go on, with this rank's part.
                self._keys(SEND, KEY_GRADIENTS, (*self.last, *gradients))
                gradients = self._keys(RECV, KEY_GRADIENTS, self.last)
            self.last = self.compute(inward, (*self.last, *gradients))
        found = self.weights(part)
        self.leave()
        return found

    def _inward(self, duration_ns: int) -> int:
        """The share of queries, keys and values in the time of attention's matrices."""
        shape = self.work.shape
        return duration_ns * (shape.attention - shape.outputs) // shape.attention

    def _keys(self, kind: str, tag: int, after: Nodes) -> Nodes:
        work = self.work
        size = 2 * 2 * work.tokens * work.shape.kv_width // work.layout.tp
        return self.pass_on(kind, ("cp", 1 if kind == SEND else -1), size, tag, after)

    def mlp(self, *which: int) -> None:
        """which: layer and microbatch."""
        times = self.work.times
        if not self.work.shape.experts:
            self.enter()
            self.last = self.compute(times.mlp.forward_ns)
            self.leave()
            return
        self.last = self.compute(times.router.forward_ns)
        self.route(*which, combine=False)
        self.enter_experts()
        self.last = self.compute(times.mlp.forward_ns)
        self.leave_experts()
        self.route(*which, combine=True)

    def mlp_backward(self, *which: int) -> Nodes:
        """Returns the gradient of the weights. which: layer and microbatch."""
        times = self.work.times
        if not self.work.shape.experts:
            self.enter()
            self.last = self.compute(times.mlp.input_ns)
            found = self.weights(times.mlp)
            self.leave()
            return found
        self.route(*which, combine=False)
        self.enter_experts()
        self.last = self.compute(times.mlp.input_ns)
        found = self.weights(times.mlp)
        self.leave_experts()
        self.route(*which, combine=True)
        self.last = self.compute(times.router.input_ns + times.router.weight_ns)
        return found

    # -- passes

    def layer(self, place: int) -> int:
        """The number in the model of the layer that is a unit."""
        return self.stage * self.work.layers + place - self.first

    def forward(self, number: int) -> None:
        work = self.work
        if not self.first:
            self.last = self._stage(RECV, -1, ACTIVATIONS, self.last)
        for place in range(len(self.units)):
            self.use(place, number, backward=False)
            if self.first and place == 0:
                self.leave()
            elif self.final and place == len(self.units) - 1:
                self.enter()
                self.last = self.compute(work.times.head.forward_ns)
                self.judge()
            else:
                self.attention()
                self.mlp(self.layer(place), number)
        if not self.final:
            self._stage(SEND, 1, ACTIVATIONS, self.last)

    def judge(self) -> None:
        """The loss, of logits of which each tp rank has a part: the largest one, the right one, the
        sum of exponentials."""
        for _ in range(3):
            size = 4 * self.work.tokens
            self.last = self.call("all_reduce", "tp", size, FP32, self.last)

    def backward(self, number: int) -> None:
        work = self.work
        if not self.final:
            self.last = self._stage(RECV, 1, GRADIENTS, self.last)
        for place in reversed(range(len(self.units))):
            self.use(place, number, backward=True)
            if self.final and place == len(self.units) - 1:
                self.last = self.compute(work.times.head.input_ns)
                done = self.weights(work.times.head)
                self.leave()
            elif self.first and place == 0:
                self.enter()
                done = self.last
            else:
                found = self.mlp_backward(self.layer(place), number)
                done = (*found, *self.attention_backward())
            self.made(place, number, done)
        if not self.first:
            self._stage(SEND, -1, GRADIENTS, self.last)

    def _stage(self, kind: str, distance: int, tag: int, after: Nodes) -> Nodes:
        return self.pass_on(kind, ("pp", distance), self.work.resting_bytes, tag, after)

    # -- weights and gradients

    def use(self, place: int, number: int, backward: bool) -> None:
        """With `fsdp`: a unit's weights have to be there, and the next one's are gathered."""
        if self.work.sharding != "fsdp":
            return
        for each in (place, place - 1 if backward else place + 1):
            key = each, number, backward
            if 0 <= each < len(self.units) and key not in self.gathered:
                self.gathered[key] = self.gather(self.units[each], self.last)
        self.last = (*self.last, *self.gathered[place, number, backward])

    def gather(self, unit: Unit, after: Nodes) -> Nodes:
        found: list[int] = []
        for group, values in unit.values.items():
            if self.work.layout.group_size(group) > 1:
                found += self.call("all_gather", group, self.share(group, 2 * values), BF16, after)
        return tuple(found)

    def made(self, place: int, number: int, done: Nodes) -> None:
        """A microbatch's gradients of a unit are there."""
        work = self.work
        if work.sharding == "fsdp":
            self.sum("reduce_scatter", self.units[place].values, done)
            return
        if number < work.microbatches - 1:
            return
        self.ready[place] = done
        for group in ("dp", "dp_ep"):
            self.fill(group, last=place == 0)

    def fill(self, group: str, last: bool) -> None:
        """Sum up a bucket of a group if it is full, or if it is the last one."""
        places = [each for each in self.ready if (each, group) not in self.summed]
        values = sum(self.units[each].values.get(group, 0) for each in places)
        if not values or values < bucket_values(self.work.layout, group) and not last:
            return
        after = tuple(sorted({node for each in places for node in self.ready[each]}))
        kind = "reduce_scatter" if self.work.sharding == "zero1" else "all_reduce"
        self.sum(kind, {group: values}, after)
        self.buckets.append((group, values))
        self.summed |= {(each, group) for each in places}

    def sum(self, kind: str, values: dict[str, int], after: Nodes) -> None:
        for group, count in values.items():
            self.sums += [
                each for each in self.call(kind, group, 4 * count, FP32, after) if each not in after
            ]

    def finish(self) -> None:
        """Sums of what several ranks hold alike, the update, and the new weights."""
        work, layout, shape = self.work, self.work.layout, self.work.shape
        if work.gathered:  # norms have seen a part of the tokens
            norms = 2 * shape.norm * work.layers + (shape.norm if self.final else 0)
            self.sum("all_reduce", {"tp": norms}, self.last)
        if shape.gpt and layout.pp > 1 and (self.first or self.final):
            tied = shape.words(layout.tp)
            self.sum("all_reduce", {"ends": tied}, (*self.last, *self.sums))
        after = tuple(sorted({*self.last, *self.sums}))
        held = sum(
            -(-values // (1 if work.sharding == "none" else layout.group_size(group)))
            for unit in self.units
            for group, values in unit.values.items()
        )
        self.last = self.compute(round(held * work.times.update_ns_per_value), after)
        if work.sharding == "zero1":
            for group, values in self.buckets:
                self.call("all_gather", group, self.share(group, 2 * values), BF16, self.last)
