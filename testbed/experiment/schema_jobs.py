"""The keys of an experiment file for jobs and planned faults; see schema.py."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from p4fabric.base.config.fields import (
    ANY_TEXT,
    HOUR,
    MS,
    NAME,
    NODE,
    SECOND,
    Choice,
    Flag,
    JsonSchema,
    Kind,
    Nodes,
    Number,
    Quantity,
    Reads,
    Section,
    Variables,
    Whole,
    WordOr,
    as_pydantic,
)
from p4fabric.base.config.units import PERCENT, TIME, FieldError, describe
from pydantic import Field, PrivateAttr, model_validator

from testbed.experiment.placement import POLICIES
from testbed.experiment.schema_serving import Requests, ServingChecks
from testbed.number_formats import FORMATS
from testbed.protocols.sizes import MAX_WORKERS
from testbed.traffic.buckets import BUCKETS
from testbed.traffic.expert_calls import CALLS, PACKETS, SETS
from testbed.traffic.layer_sample import SIZES, TOLERANCE, USUAL_SIZES
from testbed.traffic.serving import PREFILL, SERVING
from testbed.traffic.trace import GPUS
from testbed.traffic.transformer import GPUS as TRANSFORMER_GPUS
from testbed.traffic.transformer import SHAPES, SHARDING, TIMES

if TYPE_CHECKING:
    from testbed.traffic.rank_calls import Group
    from testbed.traffic.trace import Trace


SAMPLED = "sampled"  # layers that stand for all
TRAIN = "train"  # what a transformer does, if it does not serve requests
MAX_BATCH = 4096


class Placement(Section):
    """The hosts of a job. A host has one role."""

    workers: tuple[Annotated[str, NODE], ...] = Field(
        description="The workers' hosts, one for each worker.",
    )
    servers: Annotated[tuple[str, ...], Nodes()] = Field(
        default=(),
        alias="ps",
        json_schema_extra={"default": "required if the system has parameter servers"},
        description="The parameter server's host; a list for several.",
    )

    @classmethod
    def of(cls, hosts: Sequence[str], workers: int) -> Placement:
        """The first `workers` hosts for them, the others for parameter servers."""
        servers = {"ps": tuple(hosts[workers:])} if len(hosts) > workers else {}
        return cls(workers=tuple(hosts[:workers]), **servers)

    @property
    def ps(self) -> str:
        """The parameter server of a system that has one per job."""
        (server,) = self.servers
        return server


@dataclass(frozen=True)
class ByName(Kind):
    """Values of one kind by name; which names there are, the job's program says."""

    kind: Kind
    said: str

    @property
    def allowed(self) -> str:
        return self.said

    def parse(self, value: object) -> dict[str, object]:
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
            raise FieldError(describe(value), self.allowed)
        return {name: self.kind.parse(each) for name, each in value.items()}

    def json_schema(self) -> JsonSchema:
        return {"type": "object", "additionalProperties": self.kind.json_schema()}


SUMS = ByName(
    Choice(tuple(FORMATS)), "a mapping of types or groups to formats, such as {float32: float32}"
)
PRIORITIES = ByName(
    Whole(1, 255), "a mapping of names to priorities from 1 to 255, such as {tp: 255, all: 100}"
)
ALL = "all"  # in priorities: what they do not name otherwise


class Parallel(Section):
    """The groups of ranks of a program or a transformer, by the sizes of its dimensions: ranks that
    differ in one of them alone are a group. Neighbouring ranks differ in the first one, `tp`, then
    in `cp`, and so on. The product is the number of workers. A transformer has `ep` times `dp`
    replicas."""

    tp: Annotated[int, Whole(1, MAX_WORKERS)] = Field(default=1, description="Tensor parallel.")
    cp: Annotated[int, Whole(1, MAX_WORKERS)] = Field(default=1, description="Context parallel.")
    ep: Annotated[int, Whole(1, MAX_WORKERS)] = Field(default=1, description="Expert parallel.")
    dp: Annotated[int, Whole(1, MAX_WORKERS)] = Field(default=1, description="Data parallel.")
    pp: Annotated[int, Whole(1, MAX_WORKERS)] = Field(default=1, description="Pipeline parallel.")
    sequence_parallel: Annotated[bool, Flag()] = Field(
        default=False,
        description="Between the parts of a layer, tp ranks hold parts of the tokens: all_gather"
        " and reduce_scatter in place of all_reduce. Only with `model: {transformer: ...}`.",
    )
    sharding: Annotated[str, Choice(SHARDING)] = Field(
        default="none",
        description="How data parallel replicas hold what they have alike: `none`: all of it;"
        " `zero1`: parts of the optimizer; `fsdp`: parts of everything. Only with `model:"
        " {transformer: ...}`.",
    )

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.tp, self.cp, self.ep, self.dp, self.pp

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The ranks of each group, without those of one rank."""
        found, stride, ranks = [], 1, math.prod(self.sizes)
        for size in self.sizes:
            for first in range(ranks) if size > 1 else ():
                if first // stride % size == 0:
                    found.append(tuple(range(first, first + size * stride, stride)))
            stride *= size
        return tuple(found)


@dataclass(frozen=True)
class WholeOrWord(Whole):
    """The same, or `word`, which stays."""

    def parse(self, value: object) -> int | str | None:  # type: ignore[override]
        return self.word if value == self.word else super().parse(value)

    def show(self, value: int | str | None) -> int | str | None:
        return value


class Sample(Section):
    """With `layers: sampled`, which layers are simulated, and how alike they have to be
    ([workloads.md](workloads.md#sampled-layers))."""

    of: Annotated[int | None, Whole(1, 1000)] = Field(
        default=None,
        json_schema_extra={"default": "as published"},
        description="Layers of the model.",
    )
    least: Annotated[int, Whole(1, 1000)] = Field(
        default=1,
        description="Layers of a stage that the smallest simulation has, at least.",
    )
    sizes: Annotated[int, Whole(*SIZES)] = Field(
        default=USUAL_SIZES,
        description="Number of simulations, each with a layer of a stage more (or a bucket of"
        " gradients); what each adds has to agree.",
    )
    tolerance: Annotated[float, Quantity(PERCENT, 0, 20)] = Field(
        default=TOLERANCE,
        description="By how much the times that further layers add may differ, and those of a"
        " further byte of all messages.",
    )
    messages: Annotated[float, Quantity(PERCENT, 1, 100)] = Field(
        default=1.0,
        description="Share of each long message, and of computation, that simulations have; below"
        " 100 %, others have a half and a quarter of it, and the time of the whole follows.",
    )


class Experts(Section):
    """The ways of the tokens of a transformer with experts ([experts.md](experts.md))."""

    calls: Annotated[str, Choice(CALLS)] = Field(
        default=SETS,
        description="`sets`: a dispatch and a combine for each rank and set of ranks that hold"
        " experts of its tokens, which the system carries, each in a communicator; `packets`: the"
        " same in one communicator for each rank with tokens, and packets name the set; `flows`:"
        " all_to_alls, in flows between ranks; `rails`: two, of which one brings a token once to"
        " each other server with its experts, over the network card of its owner's place there, and"
        " one goes on inside.",
    )
    number: Annotated[int | None, Whole(2, 4096)] = Field(
        default=None,
        json_schema_extra={"default": "as published"},
        description="E, experts of a layer.",
    )
    top_k: Annotated[int | None, Whole(1, 64)] = Field(
        default=None,
        json_schema_extra={"default": "as published"},
        description="k, experts that answer a token.",
    )
    token_bytes: Annotated[int | None, Whole(1, 1 << 20)] = Field(
        default=None,
        json_schema_extra={"default": "those of the model"},
        description="Bytes of a token. Only with a workload of SimAI, which needs it, `number` and"
        " `top_k`.",
    )
    skew: Annotated[float, Number(0, 10)] = Field(
        default=0.0,
        description="Exponent of Zipf's law, by which a router chooses among a layer's experts; 0:"
        " all alike.",
    )
    capacity: Annotated[float, Number(0, 1000)] = Field(
        default=0.0,
        description="Capacity factor c: an expert takes c tokens k / E of a rank's tokens in a"
        " call, rounded up, of k of E experts for each token. It drops the others, which go"
        " without its answer; table `jobs` counts them. 0: no limit.",
    )
    seed: Annotated[int, Whole(0, 2 * 10**9)] = Field(
        default=0,
        description="Other seeds draw other experts.",
    )
    counts: Annotated[str | None, ANY_TEXT, Reads("counts of experts")] = Field(
        default=None,
        json_schema_extra={"default": "none"},
        description="A CSV file with columns `expert`, `count` and, where layers differ, `layer`,"
        " all from 0: a token's experts are drawn with these weights. In place of `skew`.",
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Experts:
        if self.counts is not None and self.skew:
            raise as_pydantic(FieldError("counts and skew", "one of them"))
        return self


class RankModel(Section):
    """A program of ranks as a job's model ([workloads.md](workloads.md)): a file, or a transformer,
    whose parallelism is in the job's `parallel`."""

    file: Annotated[str | None, ANY_TEXT, Reads("model")] = Field(
        default=None,
        json_schema_extra={"default": "this or `transformer` is required"},
        description="Chakra traces, `NAME.et`, or a workload of SimAI, `NAME.txt`.",
    )
    replicas: Annotated[int | None, Whole(1, MAX_WORKERS)] = Field(
        default=None,
        json_schema_extra={"default": "all of the file"},
        description="How many data parallel replicas of a SimAI workload are replayed, a multiple"
        " of its `ep`. The arrays that they exchange keep their sizes.",
    )
    stage: Annotated[int | None, Whole(0, 0)] = Field(
        default=None,
        json_schema_extra={"default": "required if the workload has several"},
        description="The pipeline stage of a SimAI workload that is replayed: 0, which is what its"
        " file describes.",
    )
    transformer: Annotated[str | None, Choice(tuple(SHAPES))] = Field(
        default=None,
        json_schema_extra={"default": "this or `file` is required"},
        description="A transformer with its published shape.",
    )
    kind: Annotated[str | None, Choice((TRAIN, *SERVING))] = Field(
        default=None,
        json_schema_extra={"default": "`train` with `transformer`"},
        description="What the transformer does: `train`; or it serves requests"
        " ([inference.md](inference.md)): `prefill`: it reads their prompts; `decode`: it makes the"
        " tokens of their answers, one after the other; `serve`: both.",
    )
    batch: Annotated[int | None, Whole(1, MAX_BATCH)] = Field(
        default=None,
        json_schema_extra={"default": "required if it serves"},
        description="Requests that are answered at a time, at most; with ep by each ep rank.",
    )
    requests: Requests | None = Field(
        default=None,
        json_schema_extra={"default": "required if it serves"},
        description="The requests.",
    )
    transfers: Annotated[bool | None, Flag()] = Field(
        default=None,
        json_schema_extra={"default": "no"},
        description="With `kind: decode`, as many ranks more, behind the others, read the prompts,"
        " and send keys and values to them, in flows beside decoding.",
    )
    checks: ServingChecks | None = Field(
        default=None,
        json_schema_extra={"default": "none"},
        description="What must hold for the run not to fail. Only if it serves.",
    )
    sequence: Annotated[int | None, Whole(1, 10**7)] = Field(
        default=None,
        json_schema_extra={"default": "required with `transformer` to train"},
        description="Tokens of a sequence.",
    )
    global_batch: Annotated[int | None, Whole(1, 10**6)] = Field(
        default=None,
        json_schema_extra={"default": "required with `transformer` to train"},
        description="Sequences of an iteration, of all replicas together.",
    )
    micro_batch: Annotated[int | None, Whole(1, 10**4)] = Field(
        default=None,
        json_schema_extra={"default": "1 with `transformer`"},
        description="Sequences that a replica computes at a time.",
    )
    gpu: Annotated[str | None, Choice(tuple(TRANSFORMER_GPUS))] = Field(
        default=None,
        json_schema_extra={"default": "`a100` with `transformer`"},
        description="The GPU whose peak, or whose measurements, the compute times follow.",
    )
    times: Annotated[str | None, Choice(TIMES), Reads("times of layers")] = Field(
        default=None,
        json_schema_extra={"default": "`computed` with `transformer`"},
        description="`computed`: floating-point operations / (peak x `utilisation`). `measured`:"
        " times of layers on an H200 ([workloads.md](workloads.md#times)).",
    )
    utilisation: Annotated[float | None, Quantity(PERCENT, 1, 100)] = Field(
        default=None,
        json_schema_extra={"default": "50 % with `transformer`"},
        description="The share of the GPU's peak that computation reaches.",
    )
    layers: Annotated[int | str | None, WholeOrWord(1, 1000, word=SAMPLED)] = Field(
        default=None,
        json_schema_extra={"default": "as published"},
        description="Fewer or more layers than the published model has, for a quick look."
        " `sampled`: some layers are simulated, with all their messages, and the time of the others"
        " is added ([workloads.md](workloads.md#sampled-layers)). Only in virtual time.",
    )
    sample: Sample | None = Field(
        default=None,
        json_schema_extra={"default": "four sizes from the fewest layers on"},
        description="How layers are sampled. Only with `layers: sampled`.",
    )

    experts: Experts | None = Field(
        default=None,
        json_schema_extra={"default": "as many tokens from each rank to each other one"},
        description="Experts that are drawn for each token, and how tokens travel to them.",
    )

    @property
    def serves(self) -> bool:
        """True if it is a transformer that serves requests."""
        return self.transformer is not None and self.kind in SERVING

    @model_validator(mode="after")
    def _one_of_two(self) -> RankModel:
        if (self.file is None) == (self.transformer is None):
            found = "neither" if self.file is None else "both"
            raise as_pydantic(FieldError(found, "one of file, transformer"))
        what = "file"
        needed: tuple[str, ...] = ()
        others: tuple[str, ...] = (*OF_TRANSFORMER, *OF_TRAINING, *OF_SERVING)
        if self.serves:
            what, needed = f"kind: {self.kind}", ("batch", "requests")
            others = tuple(name for name in OF_TRAINING if name != "experts")
        elif self.transformer:
            what, needed, others = "transformer", OF_TRAINING[:2], (*OF_FILE, *OF_SERVING)
        asked = self.experts
        if self.transformer is None and asked is not None:
            others = tuple(name for name in others if name != "experts")
            if str(self.file).endswith(".txt"):
                lacks = [name for name in OF_ROWS if getattr(asked, name) is None]
                if lacks:
                    found = f"experts without {', '.join(lacks)}"
                    raise as_pydantic(FieldError(found, "these, as the file does not say them"))
                if asked.counts is not None:
                    raise as_pydantic(FieldError("counts", "skew, as rows have no layers"))
            elif asked.model_fields_set - {"calls"} or asked.calls not in OF_CALLS:
                found = f"experts: {asked.model_dump(exclude_unset=True)}"
                raise as_pydantic(
                    FieldError(found, "calls: sets or packets, since a file has calls")
                )
        elif asked is not None and asked.token_bytes is not None:
            raise as_pydantic(FieldError("token_bytes", "it with a workload of SimAI"))
        for name in others:
            if getattr(self, name) is not None:
                raise as_pydantic(FieldError(name, f"keys that belong to {what}"))
        for name in needed:
            if getattr(self, name) is None:
                raise as_pydantic(FieldError(f"no {name}", f"{what} with {name}"))
        if self.serves and self.layers == SAMPLED:
            found = f"layers: {SAMPLED}"
            raise as_pydantic(FieldError(found, "a number of layers, as requests have times"))
        checked = self.checks.model_fields_set if self.checks and self.kind == PREFILL else ()
        if of_more := next((name for name in checked if name.endswith("tpot")), None):
            found = f"a check of {of_more.replace('_', ' ')}, and kind: {PREFILL}"
            raise as_pydantic(FieldError(found, "checks of what a first token has"))
        if self.experts is not None and self.layers == SAMPLED:
            found = f"experts and layers: {SAMPLED}"
            raise as_pydantic(FieldError(found, "one of them, as layers have different tokens"))
        if self.sample is not None and self.layers != SAMPLED:
            raise as_pydantic(FieldError("sample", f"sample with layers: {SAMPLED}"))
        return self


FILE_OR_MAPPING = WordOr(RankModel, (), "{file: run.et}")
OF_CALLS = (SETS, PACKETS)  # how dispatches and combines of a file travel
OF_ROWS = ("number", "top_k", "token_bytes")  # of the experts of a workload of SimAI
OF_FILE = ("replicas", "stage")
OF_TRANSFORMER = ("kind", "gpu", "utilisation", "layers")
OF_TRAINING = ("sequence", "global_batch", "micro_batch", "times", "sample", "experts")
OF_SERVING = ("batch", "requests", "transfers", "checks")


class JobShape(Section):
    """The keys of a job except its hosts and its start."""

    name: Annotated[str, NAME] = Field(
        default="",
        json_schema_extra={"default": "model and number, such as `resnet50-0`"},
        description="The job's name in tables and figures.",
    )
    model: Annotated[str, ANY_TEXT, Reads("model")] = Field(
        description="A trace: the name of a shipped one, or the path of your own file.",
    )
    gpu: Annotated[str | None, Choice(tuple(GPUS))] = Field(
        default=None,
        json_schema_extra={"default": "the experiment's `gpu`"},
        description="The GPU of the job's compute times, if its model has several.",
    )
    workers: Annotated[int, Whole(1, MAX_WORKERS)] = Field(
        description="Number of workers, each on its own host.",
    )
    iterations: Annotated[int, Whole(1, 10**6)] = Field(
        description="Training iterations to replay.",
    )
    scale: Annotated[float, Number(0, 100, with_low=False)] = Field(
        default=1.0,
        description="Factor on the number of values of the model (every layer keeps at least one).",
    )
    compute_scale: Annotated[float | None, Number(0, 10_000)] = Field(
        default=None,
        json_schema_extra={"default": "the same as `scale`"},
        description="Factor on the model's compute times; 0: workers only communicate.",
    )
    buckets: Annotated[str, Choice(BUCKETS)] = Field(
        default="layers",
        description="The unit of exchange (tensor): `layers`: a layer's gradient; `ddp`: a"
        " bucket of PyTorch's DistributedDataParallel, neighbouring layers of at least 25 MiB"
        " before scaling (docs/models.md).",
    )
    compute_jitter: Annotated[float, Quantity(PERCENT, 0, 99)] = Field(
        default=0.0,
        description="Variation of the compute time between iterations: a worker's steps of one"
        " iteration take 1 - jitter to 1 + jitter times as long, drawn for each worker and"
        " iteration (uniform, with standard deviation jitter / sqrt 3).",
    )
    speed_spread: Annotated[float, Quantity(PERCENT, 0, 99)] = Field(
        default=0.0,
        description="Constant differences between workers: all compute steps of a worker take 1 -"
        " spread to 1 + spread times as long, drawn once for each worker.",
    )


# Keys of a job that say how a model is replayed; a program has none of them.
OF_REPLAY = (
    "model",
    "gpu",
    "iterations",
    "scale",
    "compute_scale",
    "buckets",
    "compute_jitter",
    "speed_spread",
)
# Keys of a job that is a program; one that replays a model has none of them.
OF_PROGRAM = (
    "command",
    "env",
    "launch",
    "backend",
    "numbers",
    "groups",
    "collective_timeout_ns",
)
RANKS, SERVERS = "ranks", "servers"  # what a program is started for, by `launch`
# Variables of a rank that the testbed sets (testbed/emulate/program_environment.py).
RESERVED = (
    r"(LOCAL_|GROUP_|ROLE_|NODE_)?RANK|(LOCAL_|GROUP_|ROLE_)?WORLD_SIZE|ROLE_NAME"
    r"|MASTER_(ADDR|PORT)|GLOO_SOCKET_IFNAME|(INA|P4FABRIC|PET)_.*"
)
WHY_RESERVED = "the testbed sets it, from the job's place in the network and its other keys"
GROUPS = 255  # of ranks that a program can make, unless the experiment says otherwise
MAX_GROUPS = 4096


class Job(JobShape):
    """One training job: it replays a model, or runs a program (docs/training.md). Jobs are numbered
    from 0 in the order of the file."""

    model: Annotated[RankModel | str, FILE_OR_MAPPING, Reads("model")] = Field(  # type: ignore[assignment]
        default="",
        json_schema_extra={"default": "required without `command`"},
        description="A trace: the name of an included one, or the path of your own file, of a"
        " recording (`.npz`), or of a program of ranks (`.et`), which has as many workers"
        " (docs/recordings.md). A mapping for more of such programs.",
    )
    iterations: Annotated[int, Whole(1, 10**6)] = Field(
        default=0,
        json_schema_extra={"default": "required without `command`"},
        description="Training iterations to replay.",
    )
    command: Annotated[str, ANY_TEXT, Reads("command")] = Field(
        default="",
        json_schema_extra={"default": "none: the job replays a model"},
        description="A program and its arguments, instead of `model` and all keys for replay:"
        " one process on each worker's host, which supplies the values. The testbed's Python"
        " runs Python files. Its path is relative to the experiment file or to the current"
        " folder. Only on Mininet.",
    )
    env: Annotated[dict[str, str] | None, Variables(RESERVED, WHY_RESERVED)] = Field(
        default=None,
        json_schema_extra={"default": "none"},
        description="Environment variables of `command`, beside those of the caller and of the"
        " testbed, such as `{OMP_NUM_THREADS: 2}`. Those that say a rank's place (`RANK`,"
        " `MASTER_ADDR`, ...) are the testbed's. Only with `command`.",
    )
    launch: Annotated[str | None, Choice((RANKS, SERVERS))] = Field(
        default=None,
        json_schema_extra={"default": "`ranks` with `command`"},
        description="How often `command` is started: `ranks`: once for each worker, as a rank with"
        " `torchrun`'s environment; `servers`: once on each server with workers, and makes the"
        " processes of its ranks itself, as `torchrun` does (docs/training.md). Only with"
        " `command`.",
    )
    backend: Annotated[str | None, Choice(("ina", "gloo"))] = Field(
        default=None,
        json_schema_extra={"default": "what the program names"},
        description="The torch.distributed backend of a program's `init_process_group`,"
        " overriding the program's choice: `ina`, sums in the switches; `gloo`, PyTorch's own"
        " collectives on the same emulated network. Only with `command`.",
    )
    numbers: Annotated[str | None, Choice(("exponents", "fixed"))] = Field(
        default=None,
        json_schema_extra={"default": "`exponents` with `command`"},
        description="Conversion of a program's float32 to int32: `exponents`: each block with the"
        " exponent of its largest value, agreed on by the ranks in advance; `fixed`: with"
        " ATP's `fixed_point_scale`, and as float32 past the switches if that does not fit"
        " (system `atp`). Only with `command` (docs/training.md).",
    )
    sums: Annotated[dict[str, str] | None, SUMS] = Field(
        default=None,
        json_schema_extra={"default": "that of the system's `sum` for all"},
        description="Formats by type of tensor, e.g. `{float32: float32}` with `sum:"
        " bfloat16_in_float32`: then bfloat16 have 16 bits in packets, and float32 keep all theirs"
        " ([numbers.md](numbers.md#programs)). Of a program of ranks also by group or kind of"
        " group, e.g. `{tp: float32}`.",
    )
    groups: Annotated[int | None, Whole(0, MAX_GROUPS)] = Field(
        default=None,
        json_schema_extra={"default": "255 with `command`; 0 if the system divides the memory"},
        description="How many groups of its ranks a program can have at a time that get a"
        " communicator of their own (docs/training.md). SwitchML divides the switches' memory among"
        " the jobs and all these groups. Only with `command`; with a recorded program of ranks it"
        " follows from the file.",
    )
    parallel: Parallel | None = Field(
        default=None,
        json_schema_extra={"default": "none"},
        description="The groups of ranks that a program will make, such as `{tp: 2, dp: 4}`. Their"
        " communicators are there from the start of the run; others are made when all of their"
        " ranks have asked for them (docs/training.md). Or how a transformer is trained. Only with"
        " `command` or `model: {transformer: ...}`.",
    )
    priorities: Annotated[dict[str, int] | None, PRIORITIES] = Field(
        default=None,
        json_schema_extra={"default": "the system's `priority` says them"},
        description="ESA's priorities of the job's fragments, 255 the most urgent: of a program of"
        " ranks by group (`tp.0`), else by dimension (`tp`), else by kind of call (`all_reduce`);"
        " of all others of the job, `all`. Only with system `esa`.",
    )
    collective_timeout_ns: Annotated[int | None, Quantity(TIME, SECOND, 24 * HOUR)] = Field(
        default=None,
        alias="collective_timeout",
        json_schema_extra={"default": "5 min with `command`"},
        description="How long ranks of a program wait for a rank that does not call the same"
        " collective or does not join the job, before the job fails with an error that names it."
        " Only with `command`.",
    )
    start_ns: Annotated[int, Quantity(TIME, 0, HOUR)] = Field(
        default=0,
        alias="start",
        description="Start of the job, from the start of the run.",
    )
    placement: Annotated[
        Placement | str, WordOr(Placement, POLICIES, "{workers: [h1, h2], ps: h3}")
    ] = Field(
        default="packed",
        json_schema_extra={"default": "`packed`"},
        description="The job's hosts, first for its workers, then for its parameter servers, if"
        " any. `packed`: the next free hosts in the topology's order; `spread`: each next one on"
        " the switch with the most free hosts; `random`: drawn once from `seed`. `spread` and"
        " `random` take whole machines where these have several ranks"
        " ([servers.md](servers.md#placement))."
        " Hosts named by any job are not free. Where a topology keeps hosts for parameter servers"
        " (rails), workers get these last, and with `packed` each parameter server is on the"
        " nearest of them.",
    )

    _trace: Trace | None = PrivateAttr(default=None)
    # With `arrivals`, for a running job: when it was submitted.
    _submitted_ns: int | None = PrivateAttr(default=None)

    def trace(self) -> Trace:
        """The job's computation and gradients per iteration, scaled; only in a loaded
        experiment."""
        if self._trace is None:
            raise ValueError(f"job {self.name}: the model is not resolved")
        return self._trace

    @property
    def is_program(self) -> bool:
        """True if a program gives the values, and no model is replayed."""
        return bool(self.command)

    @property
    def is_transformer(self) -> bool:
        """True if its program of ranks is generated."""
        return isinstance(self.model, RankModel) and self.model.transformer is not None

    @property
    def has_ranks(self) -> bool:
        """True if it replays a program of ranks (testbed/traffic/rank_graph.py)."""
        return isinstance(self.model, RankModel) or self.model.endswith(".et")

    @property
    def tokens_in_packets(self) -> bool:
        """True if its dispatches and combines name their ranks in packets."""
        asked = None if isinstance(self.model, str) else self.model.experts
        return asked is not None and asked.calls == PACKETS

    def rank_groups(self, values: int) -> tuple[Group, ...]:
        """The communicators of such a job, once loaded, with `values` values per packet."""
        from testbed.traffic.rank_calls import load_groups

        return load_groups(self.trace().ranks, values)

    @property
    def fixed_placement(self) -> Placement:
        """The hosts of a job that has hosts. In a loaded experiment without `arrivals`, every job
        has."""
        if not isinstance(self.placement, Placement):
            raise ValueError(f"job {self.name} has no hosts yet")
        return self.placement

    @property
    def placed(self) -> bool:
        """True if it has hosts."""
        return isinstance(self.placement, Placement)

    @property
    def submitted_ns(self) -> int:
        """Time of submission: the job's start, unless it had to wait."""
        return self.start_ns if self._submitted_ns is None else self._submitted_ns

    def started(self, start_ns: int, placement: Placement) -> Job:
        """The same job on these hosts, from `start_ns` on."""
        job = self.model_copy(update={"start_ns": start_ns, "placement": placement})
        job._submitted_ns = self.submitted_ns
        return job

    def of_group(self, name: str, workers: int, trace: Trace) -> Job:
        """A program's job as one of a group of its ranks, which have a trace of their own."""
        job = self.model_copy(update={"name": name, "workers": workers})
        job._trace = trace
        return job


LINK_FAULTS = ("link_down", "link_up")
FAILOVER_NS = 50 * MS
COLLECTIVE_TIMEOUT_NS = 300 * SECOND


class Fault(Section):
    """A planned fault.

    Its target is a job (`job`: all its processes), one of its workers (`job` and `worker`), one of
    its parameter servers (`job` and `ps`), or a switch (`switch`). That of `link_down` and
    `link_up` is the link between two nodes (`between`) or all links of a switch (`switch`)."""

    at_ns: Annotated[int, Quantity(TIME, 0, 24 * HOUR)] = Field(
        alias="at",
        description="Time of the fault, from the start of the run; for a job not before its start.",
    )
    kind: Annotated[str, Choice(("pause", "slow", "kill", "restart", *LINK_FAULTS))] = Field(
        alias="fault",
        description="`pause`: the process is stopped (SIGSTOP), then continues. `slow`: a worker's"
        " compute steps that begin during the fault take `factor` times as long; the process"
        " of a server or switch runs 1/`factor` of the time, in periods of 20 ms. `kill`: the"
        " process ends (SIGKILL). `restart`: a switch's process ends, and a new one with"
        " empty registers gets the tables, multicast groups and link settings again."
        " `link_down`: both directions of a link fail, and its queued packets and those in"
        " flight are lost; `link_up`: it works again.",
    )
    job: Annotated[str | None, NAME] = Field(
        default=None,
        description="The name of the job.",
    )
    worker: Annotated[int | None, Whole(0, MAX_WORKERS - 1)] = Field(
        default=None,
        description="Number of the worker in its job, from 0.",
    )
    server: Annotated[int | None, Whole(0, 63)] = Field(
        default=None,
        alias="ps",
        description="Number of the parameter server in its job, from 0.",
    )
    switch: Annotated[str | None, NODE] = Field(
        default=None,
        description="The switch; with `link_down` and `link_up`, all its links.",
    )
    between: Annotated[
        tuple[Annotated[str, NODE], ...] | None, Field(min_length=2, max_length=2)
    ] = Field(
        default=None,
        json_schema_extra={"default": "none; `link_down`, `link_up`: required without `switch`"},
        description="The two nodes of a link. The fault affects all links between them.",
    )
    duration_ns: Annotated[int | None, Quantity(TIME, 10 * MS, 24 * HOUR)] = Field(
        default=None,
        alias="for",
        json_schema_extra={
            "default": "`pause`: required; `slow`: to the end of the run; `link_down`: until a"
            " `link_up`"
        },
        description="Duration; only with `pause`, `slow` and `link_down`.",
    )
    failover_ns: Annotated[int | None, Quantity(TIME, 0, HOUR)] = Field(
        default=None,
        alias="failover",
        json_schema_extra={"default": "50 ms with `link_down` and `link_up`"},
        description="Time from a link's failure or return to the new routes (GRID: the new plan)"
        " of the control plane; only with `link_down` and `link_up`.",
    )
    factor: Annotated[float | None, Number(1, 1000, with_low=False)] = Field(
        default=None,
        json_schema_extra={"default": "required with `slow`"},
        description="Slow-down factor; only with `slow`.",
    )

    @property
    def end_ns(self) -> int | None:
        """Time at which the fault's effect ends; None: never."""
        if self.kind in ("restart", "link_up"):
            return self.at_ns
        return None if self.duration_ns is None else self.at_ns + self.duration_ns

    def with_failover(self) -> Fault:
        """The same with its default `failover`."""
        if not self.of_link or self.failover_ns is not None:
            return self
        return self.model_copy(update={"failover_ns": FAILOVER_NS})

    @property
    def of_link(self) -> bool:
        """True if it is a fault of links."""
        return self.kind in LINK_FAULTS

    @property
    def loses_memory(self) -> bool:
        """True if results in switches may be lost: other switches add up, or one begins anew."""
        return self.of_link or self.kind == "restart"

    @property
    def only_computes_slowly(self) -> bool:
        """True if it changes compute steps of workers and nothing else."""
        return self.kind == "slow" and self.switch is None and self.server is None

    @property
    def needs_processes(self) -> bool:
        """True if it acts on a process. Virtual time has no processes."""
        pauses_hosts = self.kind == "pause" and self.switch is None
        return not (pauses_hosts or self.only_computes_slowly or self.of_link)
