"""Training of a transformer as a program of ranks: shapes, parallelism, times, and what may be
asked together. transformer_stage.py has the graph.

Data parallel replicas are `ep` times `dp`: ranks that differ in ep hold different experts, and the
same of everything else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from testbed.traffic.expert_calls import DrawnExperts
from testbed.traffic.layer_sample import TOLERANCE, USUAL_SIZES, LayerSample, sample_of
from testbed.traffic.rank_graph import MAX_RANKS, Program
from testbed.traffic.rank_layout import DIMENSIONS, Layout, staged
from testbed.traffic.trace import TraceError
from testbed.traffic.transformer_shapes import SHAPES, Shape, shape_of
from testbed.traffic.transformer_stage import SHARDING, Work, stage_template
from testbed.traffic.transformer_times import GPUS, TIMES, measured, times_of

__all__ = ["GPUS", "SHAPES", "SHARDING", "TIMES", "Transformer"]
UTILISATION = 0.5
PARTS = 3  # of a sample of messages: two steps, which have to agree
LEAST_BYTES = 65_536  # of a call in the smallest part; all bytes of shorter calls are simulated


@dataclass(frozen=True)
class Transformer(DrawnExperts):
    """A model and how it is trained. layers: of the model, 0: as published. utilisation: the share
    of the GPU's peak that computation reaches. simulated: layers that stand for all (layer_sample),
    0: all are there; part: the share of long calls and of computation that is, too; least, sizes,
    tolerance, messages: of the sample, the last one the largest part."""

    model: str
    sequence: int
    global_batch: int
    micro_batch: int = 1
    gpu: str = "a100"
    utilisation: float = UTILISATION
    times: str = "computed"
    layers: int = 0
    tp: int = 1
    cp: int = 1
    ep: int = 1
    dp: int = 1
    pp: int = 1
    sequence_parallel: bool = False
    sharding: str = "none"
    simulated: int = 0
    part: float = 1.0
    least: int = 1
    sizes: int = USUAL_SIZES
    tolerance: float = TOLERANCE
    messages: float = 1.0

    @property
    def shape(self) -> Shape:
        return self.shaped(shape_of(self.model, self.layers))

    @property
    def layout(self) -> Layout:
        return Layout(self.tp, self.cp, self.ep, self.dp, self.pp)

    @property
    def replicas(self) -> int:
        """Ranks with different sequences of a batch, in groups of tp, cp and pp."""
        return self.ep * self.dp

    @property
    def microbatches(self) -> int:
        """Of a replica in an iteration."""
        return self.global_batch // self.micro_batch // self.replicas

    @property
    def tokens(self) -> int:
        """Of an iteration."""
        return self.global_batch * self.sequence

    @property
    def sample(self) -> LayerSample:
        """The sizes in which its layers are sampled. Raises TraceError."""
        self.check()
        return sample_of(self.shape, self.layout, self.sharding, self.least, self.sizes)

    @property
    def parts(self) -> tuple[float, ...]:
        """Shares of long calls and of computation of its samples, each twice the one before it."""
        if self.messages == 1:
            return (1.0,)
        return tuple(self.messages / 2**halved for halved in reversed(range(PARTS)))

    def whole(self, size: int) -> bool:
        """True if samples have all bytes of calls of so many."""
        return size * self.parts[0] < LEAST_BYTES

    def of_size(self, simulated: int, part: float = 1.0) -> Transformer:
        """The same with so many layers simulated (0: all), and such a share of long calls."""
        return replace(self, simulated=simulated, part=part)

    def check(self) -> None:
        """Raises TraceError if the parts do not fit each other."""
        for wrong in self._wrong():
            raise TraceError(wrong)

    def _wrong(self) -> Iterator[str]:
        shape, sizes = self.shape, self.layout
        yield from undivided(self.model, shape, sizes, self.sequence)
        if self.sequence_parallel and self.sequence // self.cp % self.tp:
            yield (
                f"parallel.sequence_parallel: tp: {self.tp} times cp: {self.cp} does not divide the"
                f" sequence of {self.sequence} tokens; change one of them"
            )
        if shape.experts and self.tp > 1 and not self.sequence_parallel:
            yield (
                f"parallel.sequence_parallel: {self.model} has experts, which with tp above 1 need"
                " it; write sequence_parallel: true"
            )
        yield from self.missing(self.model, shape, self.ep)
        if shape.gpt and self.sequence > shape.context:
            yield (
                f"sequence: found {self.sequence}; {self.model} has positions for"
                f" {shape.context} tokens. Write at most that"
            )
        once = self.micro_batch * self.replicas
        if self.global_batch % once:
            yield (
                f"global_batch: found {self.global_batch}, no multiple of micro_batch:"
                f" {self.micro_batch} times {self.replicas} replicas (ep times dp). Write"
                f" {max(self.global_batch // once, 1) * once}"
            )
        if sizes.ranks > MAX_RANKS:
            yield f"parallel: {sizes.ranks} ranks; allowed: up to {MAX_RANKS}"
        if self.times == "measured" and (self.gpu != "h200" or self.cp > 1 or shape.experts):
            yield (
                "times: measured: they are those of gpu: h200, of models without experts and"
                " without cp. Take times: computed, or these"
            )

    def load(self) -> Program:
        """The program. Raises TraceError."""
        self.check()
        shape, layout, gpu = self.shape, self.layout, GPUS[self.gpu]
        tokens = self.micro_batch * self.sequence // self.cp
        times = times_of(shape, tokens, self.sequence, self.tp, gpu, self.utilisation)
        if self.times == "measured":
            times = measured(times, self.model, self.sequence, self.micro_batch, self.tp)
        work = Work(
            shape=shape,
            layout=layout,
            layers=(self.simulated or shape.layers) // self.pp,
            microbatches=self.microbatches,
            tokens=tokens,
            gathered=self.sequence_parallel and self.tp > 1,
            sharding=self.sharding,
            times=times,
        )
        templates = [stage_template(work, stage) for stage in range(self.pp)]
        about = {
            "name": self.model,
            "title": self.title,
            "device": gpu.title,
            # Of the whole, which takes longer than the layers that are simulated.
            **({} if self.simulated else {"tokens": str(self.tokens)}),
        }
        program = staged(layout, templates, about)
        if not self.experts:
            return program
        return self.routed(program, shape.experts, shape.top_k, self.ep)[0]

    @property
    def title(self) -> str:
        """The model and its parallelism."""
        sizes = [f"{key} {self.layout.size(key)}" for key in DIMENSIONS]
        sizes = [each for each in sizes if not each.endswith(" 1")] or ["1 rank"]
        if self.sequence_parallel:
            sizes.append("sequence parallel")
        if self.sharding != "none":
            sizes.append(self.sharding)
        sizes += self.ways
        layers = f" with {self.layers} layers" if self.layers else ""
        if self.simulated:
            part = f", {self.part:.3g} of long calls" if self.part < 1 else ""
            layers += f" ({self.simulated} of {self.shape.layers} layers simulated{part})"
        how = "measured" if self.times == "measured" else f"{self.utilisation:.0%} of its peak"
        return (
            f"{self.model}{layers}, {self.shape.parameters:,} parameters, {self.layout.ranks} ranks"
            f" ({', '.join(sizes)}), batch {self.global_batch} of {self.sequence} tokens in"
            f" {self.microbatches} microbatches, {GPUS[self.gpu].title}, {how}"
        )


def undivided(model: str, shape: Shape, sizes: Layout, tokens: int) -> Iterator[str]:
    """Problems of sizes that do not divide what they have to."""
    divided = [
        ("pp", "layers", shape.layers),
        ("tp", "heads of keys and values", shape.kv_heads),
        ("tp", "values between the matrices of an MLP", shape.ffn),
        ("ep", "experts", max(shape.experts, 1)),
        ("cp", "tokens of the sequence", tokens),
    ]
    for key, what, number in divided:
        if number % (size := sizes.size(key)):
            yield (
                f"parallel.{key}: found {size}, which does not divide the {number} {what} of"
                f" {model}; take a divisor"
            )
