"""Source of a job's program of ranks: a file, or a model that is generated.

A source is small and has a text. Host processes get the text and make their part of the program.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from testbed.collective_kinds import COLLECTIVES, OWN
from testbed.traffic import chakra, simai
from testbed.traffic.call_algorithms import AlgorithmRules, of_json, with_algorithms
from testbed.traffic.expert_calls import in_packets
from testbed.traffic.inference import Inference
from testbed.traffic.rank_graph import COMPUTE, Node, Program, width_of
from testbed.traffic.rank_layout import StagedRanks
from testbed.traffic.serving import Request
from testbed.traffic.trace import TraceError
from testbed.traffic.transformer import Transformer

SUFFIXES = (chakra.SUFFIX, simai.SUFFIX)


@dataclass(frozen=True)
class FileSource:
    """Traces (`NAME.et`, or the first rank's file), or a workload of SimAI (`NAME.txt`), of which
    `replicas` and `stage` say the slice. scale: factor on the bytes of each call and transfer.
    routes: which algorithms of hosts carry which calls. packets: those of tokens name their ranks
    in packets. experts: of the rows of a workload of SimAI."""

    file: str
    scale: float = 1.0
    replicas: int | None = None
    stage: int | None = None
    routes: AlgorithmRules | None = None
    packets: bool = False
    experts: simai.RowExperts | None = None

    def __str__(self) -> str:
        given = asdict(self)
        for name in ("packets", "experts"):  # as texts were before there was a choice
            if not given[name]:
                del given[name]
        return json.dumps(given)

    @property
    def path(self) -> Path:
        return Path(self.file)

    @property
    def is_trace(self) -> bool:
        return chakra.is_trace(self.file)

    def state(self) -> tuple[int, ...]:
        """Changes when the file does."""
        path = self.path
        if self.is_trace:
            path = path.with_name(chakra.of_all(path).stem + chakra.FIRST)
        try:
            found = path.stat()
        except OSError:
            return ()  # loading it says what is the matter
        return found.st_mtime_ns, found.st_size

    def load(self) -> Program:
        """Read the program. Only that of traces is checked (rank_graph.check). Raises
        TraceError."""
        if not self.file.endswith(SUFFIXES):
            raise TraceError(
                f"{self.file}: not a program of ranks; name Chakra traces ({chakra.SUFFIX}) or a"
                f" workload of SimAI ({simai.SUFFIX})"
            )
        if not self.is_trace:
            made = simai.load(self.file, self.replicas, self.stage, self.experts)
            return with_algorithms(scaled(made, self.scale), self.routes)
        for key in ("replicas", "stage"):
            if getattr(self, key) is not None:
                raise TraceError(
                    f"{self.file}: traces have all ranks, so they have no slice; take {key} out"
                )
        made = scaled(chakra.load(self.file), self.scale)
        return with_algorithms(in_packets(made) if self.packets else made, self.routes)


class _Generated:
    """Common parts of the sources of generated programs."""

    is_trace = False

    def __str__(self) -> str:
        return json.dumps(asdict(self))  # type: ignore[call-overload]

    def state(self) -> tuple[int, ...]:
        return ()


@dataclass(frozen=True)
class TransformerSource(_Generated):
    """A transformer that is generated. scale, routes: as of a file."""

    transformer: Transformer
    scale: float = 1.0
    routes: AlgorithmRules | None = None

    def of_size(self, simulated: int, part: float = 1.0) -> TransformerSource:
        """The same with so many layers simulated (0: all), and such a share of long calls."""
        return replace(self, transformer=self.transformer.of_size(simulated, part))

    def load(self) -> Program:
        """The program, which is not checked. Raises TraceError."""
        made, part = scaled(self.transformer.load(), self.scale), self.transformer.part
        if part != 1:
            made = stretched(scaled(made, part, self.transformer.whole), part)
        return with_algorithms(made, self.routes)


@dataclass(frozen=True)
class InferenceSource(_Generated):
    """A transformer that serves requests. scale, routes: as of a file."""

    inference: Inference
    scale: float = 1.0
    routes: AlgorithmRules | None = None

    def load(self) -> Program:
        """The program, which is not checked. Raises TraceError."""
        return with_algorithms(scaled(self.inference.load(), self.scale), self.routes)


Source = FileSource | TransformerSource | InferenceSource


def of(what: str | Path | Source, folder: str | Path | None = None) -> Source:
    """The source of a text or path; a path is relative to `folder`."""
    if isinstance(what, Source):
        return what
    text = str(what)
    if text.startswith("{"):
        given = json.loads(text)
        given["routes"] = of_json(given["routes"])
        if "transformer" in given:
            made = given["transformer"]
            made["counts"] = tuple(map(tuple, made["counts"]))
            return TransformerSource(**given | {"transformer": Transformer(**made)})
        if "inference" in given:
            made = given["inference"]
            made["requests"] = tuple(Request(*each) for each in made["requests"])
            made["counts"] = tuple(map(tuple, made["counts"]))
            made |= {name: tuple(made[name]) for name in ("arrivals", "ends", "paces")}
            return InferenceSource(**given | {"inference": Inference(**made)})
        if made := given.get("experts"):
            made["counts"] = tuple(map(tuple, made["counts"]))
            given["experts"] = simai.RowExperts(**made)
        return FileSource(**given)
    return FileSource(str(Path(folder or ".") / Path(text).expanduser()))


def scaled(
    program: Program, scale: float, whole: Callable[[int], bool] = lambda size: False
) -> Program:
    """A program with `scale` times the bytes in each call and transfer, at least one value (of
    those with a part for each rank: one for each). whole: of which bytes all stay."""
    if scale == 1:
        return program
    sizes = {name: len(each) for name, each in program.groups.items()}
    if isinstance(program.ranks, StagedRanks):
        sizes = program.ranks.sizes
    return _changed(
        program,
        lambda node: node if whole(node.bytes) else _scaled(node, sizes.get(node.group, 1), scale),
    )


def stretched(program: Program, scale: float) -> Program:
    """A program that computes `scale` times as long."""
    if scale == 1:
        return program
    return _changed(
        program, lambda node: replace(node, duration_ns=round(node.duration_ns * scale))
    )


def _changed(program: Program, change: Callable[[Node], Node]) -> Program:
    """The same with other nodes in their places."""
    ranks = program.ranks
    if isinstance(ranks, StagedRanks):
        return replace(program, ranks=ranks.changed(change))
    return replace(program, ranks=tuple(tuple(map(change, nodes)) for nodes in ranks))


def _scaled(node: Node, ranks: int, scale: float) -> Node:
    if node.kind == COMPUTE or not node.bytes:
        return node
    width = width_of(node)
    if node.parts:
        parts = tuple(_times(part, width, scale) for part in node.parts)
        return replace(node, parts=parts, bytes=sum(parts))
    kind = COLLECTIVES.get(node.kind)
    if kind and kind.parts and kind.gives != OWN and node.bytes % (width * ranks) == 0:
        width *= ranks
    return replace(node, bytes=_times(node.bytes, width, scale))


def _times(size: int, unit: int, scale: float) -> int:
    """A number of bytes, scaled: a multiple of `unit`, at least one of it unless there are none."""
    return max(1, round(size * scale / unit)) * unit if size else 0
