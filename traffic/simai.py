"""Workload files of SimAI and AICB as programs of ranks.

A file is text: a line with the policy and `key: value` pairs, a line with the number of rows, then
a row for each layer and microbatch. A row has a name, -1, and for the forward pass, the input
gradient and the weight gradient each a compute time in ns, a collective and its bytes; at the end
the time of the update, in ns. It is what one GPU of the first pipeline stage does, and all ranks of
a *slice* do the same: the first stage, and some of the data parallel replicas.

The order is that of SimAI's simulator: forward through all rows, then back through them, input
gradient before weight gradient. Collectives of forward and input gradient block what follows.
Collectives of a weight gradient overlap with it; the row's update waits for its own.

Bytes are those of the whole array: the input of a reduce_scatter or all_to_all, what all ranks have
after an all_gather. A collective of 0 bytes moves nothing and gets no node.

A file does not say what its all_to_alls among ep ranks are, but they come in pairs: tokens to their
experts, and answers back. With drawn experts each pair is a dispatch and a combine, and so is its
backward pass, with the same tokens.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from p4fabric.base.config.data_files import DataError, read_text

from testbed.collective_kinds import COLLECTIVES
from testbed.traffic.expert_calls import DrawnExperts
from testbed.traffic.rank_graph import COMPUTE, MAX_BYTES, MAX_RANKS, Program
from testbed.traffic.rank_layout import Exchange, Layout, Template, staged
from testbed.traffic.trace import MAX_NS, TraceError

SUFFIX = ".txt"
POLICIES = ("HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID_TRANSFORMER")
SIZES = ("model_parallel_NPU_group", "ep", "pp", "vpp", "ga", "all_gpus")
RECOMPUTED = ("checkpoints", "checkpoint_initiates")
KEYS = (*SIZES, *RECOMPUTED, "pp_comm")
WORDS = {
    COLLECTIVES[name].nccl.upper(): name
    for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
}
NONE = "NONE"
SUFFIXES = {"_DP_EP": "dp_ep", "_EP": "ep"}
PASSES = ("forward", "input gradient", "weight gradient")
COLUMNS = 12
MAX_FILE_BYTES = 1 << 28
MAX_ROWS = 500_000

_WHOLE = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class Pass:
    """Work of a row in a pass. kind: of the collective; "": none."""

    compute_ns: int
    kind: str
    group: str
    bytes: int


@dataclass(frozen=True)
class Row:
    """A row of the file."""

    line: int
    name: str
    passes: tuple[Pass, Pass, Pass]  # in the order of PASSES
    update_ns: int


@dataclass(frozen=True, kw_only=True)
class RowExperts(DrawnExperts):
    """Experts of a file's rows, whose numbers it does not say. token_bytes: of a token."""

    token_bytes: int


@dataclass(frozen=True)
class Workload:
    """A file: its header and its rows. replicas: data parallel ones, with `ep` different sets of
    experts."""

    path: Path
    tp: int
    ep: int
    stages: int
    replicas: int
    keys: dict[str, int]
    rows: tuple[Row, ...]


def load(
    path: str | Path,
    replicas: int | None = None,
    stage: int | None = None,
    experts: RowExperts | None = None,
) -> Program:
    """The program of a file. replicas: how many data parallel ones, a multiple of `ep`; None: all.
    stage: the pipeline stage, 0, which has to be said if there are several. experts: of the tokens
    of its all_to_alls among ep ranks; None: these stay. Raises TraceError."""
    workload = read(path)
    if stage is None and workload.stages > 1:
        _fail(
            workload.path,
            f"the job has {workload.stages} pipeline stages, and the file is of the first one, so"
            " only that can be replayed. Write stage: 0",
            1,
        )
    if stage not in (None, 0):
        _fail(workload.path, f"is of stage 0, and not of {stage}; write stage: 0", 1)
    if replicas is None:
        replicas = workload.replicas
    ep = workload.ep
    if replicas > workload.replicas or replicas % ep or replicas < 1:
        allowed = f"{ep}, {2 * ep}, ..., {workload.replicas}" if workload.replicas > ep else ep
        _fail(
            workload.path,
            f"found {replicas} replicas; its {workload.replicas} data parallel replicas hold {ep}"
            f" different sets of experts. Allowed: {allowed}",
            1,
        )
    layout = Layout(tp=workload.tp, ep=ep, dp=replicas // ep)
    if layout.ranks > MAX_RANKS:
        _fail(
            workload.path,
            f"a slice of {layout.ranks} ranks; allowed: up to {MAX_RANKS}. Name fewer replicas",
            1,
        )
    of = _slice(workload, replicas)
    whole = f", a slice of {workload.keys['all_gpus']:,} GPUs: {of}" if of else ""
    about = {
        "name": f"{workload.path.stem} ({of})" if of else workload.path.stem,
        "title": f"SimAI workload {workload.path.name}, {layout.ranks} ranks{whole}",
        "device": "unknown",
    }
    template, calls = _template(workload, layout)
    files = (str(workload.path),) * layout.ranks
    if experts is None:
        program = staged(layout, [template], about)
        return Program(program.groups, program.ranks, files, about)
    template.exchanges = _exchanges(workload.path, calls, experts, ep)
    about["title"] += f" ({', '.join(experts.ways)})"
    routed = experts.routed(staged(layout, [template], about), experts.number, experts.top_k, ep)[0]
    return replace(routed, files=files)


def _exchanges(
    path: Path, calls: dict[int, tuple[Row, Pass, bool]], experts: RowExperts, ep: int
) -> dict[int, Exchange]:
    """The exchanges of a template's calls among ep ranks, of which each forward pair is a dispatch
    and a combine."""
    rows: dict[int, int] = {}  # numbers of the calls of forward passes, by line
    for row, _, forward in calls.values():
        if forward:
            rows.setdefault(row.line, len(rows))
    if not rows or len(rows) % 2 or any(row.line not in rows for row, *_ in calls.values()):
        _fail(
            path,
            f"experts need all_to_alls of ep ranks in pairs, there and back; found {len(rows)} in"
            " forward passes. Take this key out, or name a file that has them",
            1,
        )
    if experts.number % ep or experts.top_k > experts.number:
        _fail(
            path,
            f"experts.number: found {experts.number}; it is a multiple of ep: {ep}, and at least"
            f" top_k: {experts.top_k}",
            1,
        )
    found = {}
    for place, (row, part, forward) in calls.items():
        tokens, rest = divmod(part.bytes, experts.top_k * experts.token_bytes)
        if rest:
            _fail(
                path,
                f"{part.bytes} bytes of an all_to_all are no multiple of {experts.top_k} experts"
                f" times {experts.token_bytes} bytes of a token; correct experts.top_k or"
                " experts.token_bytes",
                row.line,
            )
        pair, back = divmod(rows[row.line], 2)
        combine = bool(back) == forward  # the gradient of one is the other
        found[place] = Exchange(combine, (tokens,) * ep, experts.token_bytes, (pair,))
    return found


def _slice(workload: Workload, replicas: int) -> str:
    """Parts that a slice leaves out; "" for the whole job."""
    parts = []
    if replicas < workload.replicas or workload.stages > 1:
        parts.append(f"{replicas} of {workload.replicas} replicas")
    if workload.stages > 1:
        parts.append(f"stage 0 of {workload.stages}")
    return ", ".join(parts)


def _template(
    workload: Workload, layout: Layout
) -> tuple[Template, dict[int, tuple[Row, Pass, bool]]]:
    """The graph, and its all_to_alls among ep ranks: their rows and passes, True: forward."""
    template, among_ep = Template(), {}

    def compute(after: tuple[int, ...], duration_ns: int) -> tuple[int, ...]:
        if not duration_ns:
            return after
        return (template.add(COMPUTE, after, duration_ns=duration_ns),)

    def call(after: tuple[int, ...], row: Row, number: int) -> tuple[int, ...]:
        part = row.passes[number]
        if not part.kind or not part.bytes:
            return after
        # A node counts what a rank gives.
        size = COLLECTIVES[part.kind].given_size(part.bytes, layout.group_size(part.group))
        place = template.add(part.kind, after, part.group, bytes=size)
        if (part.kind, part.group) == ("all_to_all", "ep"):
            among_ep[place] = row, part, number == 0
        return (place,)

    last: tuple[int, ...] = ()
    for row in workload.rows:
        last = call(compute(last, row.passes[0].compute_ns), row, 0)
    for row in reversed(workload.rows):
        _, inputs, weights = row.passes
        last = call(compute(last, inputs.compute_ns), row, 1)
        last = compute(last, weights.compute_ns)
        called = call(last, row, 2)
        updated = compute(called, row.update_ns)
        if called == last:
            last = updated
    return template, among_ep


# -- reading


def read(path: str | Path) -> Workload:
    """Read a file. Raises TraceError, which names file, line and remedy."""
    path = Path(path)
    try:
        lines = read_text(path, MAX_FILE_BYTES).splitlines()
    except DataError as error:
        raise TraceError(str(error)) from None
    keys = _header(path, lines)
    tp, ep, pp = (keys[each] for each in ("model_parallel_NPU_group", "ep", "pp"))
    replicas, rest = divmod(keys["all_gpus"], tp * pp)
    if rest or replicas % ep or not replicas:
        _fail(
            path,
            f"all_gpus: {keys['all_gpus']} is not a multiple of model_parallel_NPU_group: {tp}"
            f" times pp: {pp} times ep: {ep}; correct one of them",
            1,
        )
    count = lines[1].strip() if len(lines) > 1 else ""
    if not _WHOLE.fullmatch(count):
        _fail(path, f"found {count[:40]!r}; write the number of rows", 2)
    found = [(n, line) for n, line in enumerate(lines[2:], start=3) if line.strip()]
    if int(count) != len(found) or not found:
        _fail(path, f"says {count} rows, and {len(found)} follow; copy the file again", 2)
    if len(found) > MAX_ROWS:
        _fail(path, f"has {count} rows; allowed: up to {MAX_ROWS}. Write fewer iterations", 2)
    rows = tuple(_row(path, number, line) for number, line in found)
    return Workload(path, tp, ep, pp, replicas, keys, rows)


def _fail(path: Path, message: str, line: int) -> NoReturn:
    raise TraceError(f"{path}, line {line}: {message}")


def _header(path: Path, lines: list[str]) -> dict[str, int]:
    words = lines[0].split() if lines else []
    if not words or words[0] not in POLICIES:
        found = f"the policy {words[0][:40]!r}" if words else "an empty file"
        _fail(path, f"found {found}; replayed are {', '.join(POLICIES)}. Generate the file so", 1)
    keys: dict[str, int] = {}
    at = 1
    while at < len(words):
        key = words[at].removesuffix(":")
        if key not in KEYS:
            _fail(path, f"unknown key {key[:40]!r}; known: {', '.join(KEYS)}. Correct it", 1)
        if key in keys:
            _fail(path, f"{key} is there twice; take one out", 1)
        value = words[at + 1] if at + 1 < len(words) else ""
        if not _WHOLE.fullmatch(value):
            _fail(path, f"{key}: found {value[:40]!r}; write a whole number", 1)
        keys[key] = int(value)
        if keys[key] and key in RECOMPUTED:
            _fail(
                path,
                f"{key}: found {value}; recomputation of layers is not replayed. Generate the file"
                " without it",
                1,
            )
        at += 2
    for key in ("model_parallel_NPU_group", "all_gpus"):
        if key not in keys:
            _fail(path, f"lacks {key}; add it", 1)
    for key in SIZES:
        if keys.setdefault(key, 1) < 1:
            _fail(path, f"{key}: found 0; write at least 1", 1)
    return keys


def _row(path: Path, line: int, text: str) -> Row:
    words = text.split()
    if len(words) != COLUMNS:
        _fail(
            path,
            f"has {len(words)} columns; a row has {COLUMNS}: name, -1, three times compute time,"
            " collective and bytes, update time. Correct it",
            line,
        )
    if words[1] != "-1":
        _fail(path, f"found the dependency {words[1][:40]!r}; only -1 is replayed. Write it", line)
    passes = []
    for number, name in enumerate(PASSES):
        compute, collective, size = words[2 + 3 * number : 5 + 3 * number]
        compute_ns = _whole(path, line, f"compute time of the {name}", compute, MAX_NS)
        kind, group = _collective(path, line, name, collective)
        held = _whole(path, line, f"bytes of the {name}", size, MAX_BYTES)
        if not kind and held:
            _fail(path, f"the {name} has {held} bytes and no collective; name one", line)
        passes.append(Pass(compute_ns, kind, group, held))
    update_ns = _whole(path, line, "update time", words[-1], MAX_NS)
    return Row(line, words[0], (passes[0], passes[1], passes[2]), update_ns)


def _whole(path: Path, line: int, what: str, text: str, most: int) -> int:
    if not _WHOLE.fullmatch(text) or int(text) > most:
        _fail(path, f"{what}: found {text[:40]!r}; write a whole number up to {most}", line)
    return int(text)


def _collective(path: Path, line: int, name: str, word: str) -> tuple[str, str]:
    """Kind and kind of group of a collective; ("", "") for none."""
    if word == NONE:
        return "", ""
    group = "dp" if name == PASSES[2] else "tp"
    bare = word
    for suffix, other in SUFFIXES.items():
        if word.endswith(suffix):
            bare, group = word.removesuffix(suffix), other
            break
    if bare not in WORDS:
        _fail(
            path,
            f"unknown collective {word[:40]!r} of the {name}; known: {NONE},"
            f" {', '.join(WORDS)}, each also with {' or '.join(reversed(SUFFIXES))}."
            " Correct it",
            line,
        )
    return WORDS[bare], group
