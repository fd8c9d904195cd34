"""Jobs that replay a program of ranks (testbed/traffic/rank_graph.py): all collectives of all
groups. Each group has a communicator of its own.

The communicator of all workers has nothing to do then, so its trace has a single value, which
nobody sends. It stands for the job: its compute time is that of a rank, the mean of all.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from p4fabric.base.errors import did_you_mean, sentence

from testbed.collective_kinds import CARRIED
from testbed.experiment.schema_jobs import ALL, SAMPLED, Parallel, Sample
from testbed.number_formats import INT32, format_of
from testbed.systems import SYSTEMS
from testbed.traffic import rank_source, simai
from testbed.traffic.call_algorithms import names_of_sums
from testbed.traffic.chakra import FIRST, SUFFIX, of_all
from testbed.traffic.expert_calls import DROPPED, MOST_MEMBERS, RAILS, DrawnExperts
from testbed.traffic.expert_routing import read_counts
from testbed.traffic.inference import Inference
from testbed.traffic.rank_calls import Group, check_program, load_groups, load_program
from testbed.traffic.rank_graph import COMPUTE, Program
from testbed.traffic.rank_source import FileSource, InferenceSource, Source, TransformerSource
from testbed.traffic.serving import PREFILL, Lengths, drawn, drawn_arrivals, read_requests
from testbed.traffic.trace import Layer, Trace, TraceError
from testbed.traffic.transformer import Transformer
from testbed.traffic.transformer_shapes import shape_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from testbed.experiment.schema_jobs import Job, RankModel
    from testbed.systems.options import SystemOptions
    from testbed.traffic.call_algorithms import AlgorithmRules

    Fields = dict[str, Any]
    Parts = Mapping[str, Any]

# What a program does not have, with its value where the file does not say it.
NOT_FOR_RANKS = {"buckets": "layers", "gpu": None}


def source_of(
    job: Job, folder: Path, routes: AlgorithmRules | None = None, per_server: int = 1, word: int = 4
) -> Source:
    """Source of the program of such a job; its paths are relative to `folder`. routes: what
    carries its calls. per_server: ranks that share a server. word: bytes of a value of sums."""
    model = job.model
    if not isinstance(model, str) and model.transformer is not None:
        chosen = _drawn_experts(model, folder, per_server, word)
        if model.serves:
            served = _inference(model, job.parallel, folder, chosen)
            return InferenceSource(served, job.scale, routes)
        trained = _transformer(model, job.parallel, chosen)
        return TransformerSource(trained, job.scale, routes)
    named = model if isinstance(model, str) else model.file
    assert named is not None
    file = (folder / Path(named).expanduser()).absolute()
    if file.suffix == SUFFIX and not file.name.endswith(FIRST):
        file = file.with_suffix(FIRST)
    if isinstance(model, str):
        return FileSource(str(file), job.scale, routes=routes)
    packets, rows = job.tokens_in_packets, None
    if file.suffix == simai.SUFFIX and model.experts is not None:
        assert model.experts.token_bytes is not None
        chosen = _drawn_experts(model, folder, per_server, word)
        packets, rows = False, simai.RowExperts(token_bytes=model.experts.token_bytes, **chosen)
    return FileSource(str(file), job.scale, model.replicas, model.stage, routes, packets, rows)


def _drawn_experts(model: RankModel, folder: Path, per_server: int, word: int) -> Fields:
    """Fields of expert_calls.DrawnExperts. Raises UserError."""
    if (asked := model.experts) is None:
        return {}
    found: Fields = {"experts": asked.calls, "skew": asked.skew, "routing_seed": asked.seed}
    found |= {"number": asked.number or 0, "top_k": asked.top_k or 0, "word": word}
    found |= {"capacity": asked.capacity, "per_server": per_server if asked.calls == RAILS else 1}
    if asked.counts is not None:
        assert model.transformer is not None
        layers = model.layers if isinstance(model.layers, int) else 0
        shape = DrawnExperts(**found).shaped(shape_of(model.transformer, layers))
        of = shape.layers, shape.experts, shape.top_k
        found["counts"] = read_counts(_named(asked.counts, folder), *of)
    return found


def _transformer(model: RankModel, parallel: Parallel | None, chosen: Fields) -> Transformer:
    assert model.transformer is not None
    assert model.sequence is not None and model.global_batch is not None
    usual = Transformer(model.transformer, model.sequence, model.global_batch)
    given = {
        name: getattr(model, name)
        for name in ("micro_batch", "gpu", "times", "utilisation", "layers")
        if getattr(model, name) is not None
    }
    given |= chosen
    sizes = {} if parallel is None else parallel.model_dump()
    if model.layers != SAMPLED:
        return replace(usual, **given, **sizes)
    sample = model.sample or Sample()
    layers = 0 if sample.of in (None, usual.shape.layers) else sample.of  # 0: as published
    given |= sample.model_dump(exclude={"of"}) | {"layers": layers}
    whole = replace(usual, **given, **sizes)
    return whole.of_size(whole.sample.sizes[-1], whole.messages)


def _inference(
    model: RankModel, parallel: Parallel | None, folder: Path, chosen: Fields
) -> Inference:
    """Raises UserError."""
    assert model.transformer is not None and model.kind is not None and model.batch is not None
    asked = model.requests
    assert asked is not None
    arrivals: tuple[int, ...] = ()
    if asked.file is not None:
        requests, arrivals = read_requests(_named(asked.file, folder))
    else:
        if asked.output is None and model.kind != PREFILL:
            raise TraceError("requests: found no output; write how many tokens an answer has")
        assert asked.count is not None and asked.prompt is not None
        output = asked.output or Lengths(1, 1)
        requests = drawn(asked.seed or 0, asked.count, asked.prompt, output)
        if asked.rate is not None:
            arrivals = drawn_arrivals(asked.seed or 0, asked.count, asked.rate)
    if parallel is not None:
        usual = Parallel()
        for name in type(usual).model_fields:
            if name not in ("tp", "ep", "pp") and getattr(parallel, name) != getattr(usual, name):
                raise TraceError(
                    f"parallel.{name}: found {getattr(parallel, name)}; a served model has tp,"
                    " ep and pp. Take this key out; replicas of the model are jobs of their own"
                )
    given = {
        name: getattr(model, name)
        for name in ("gpu", "utilisation", "layers", "transfers")
        if getattr(model, name) is not None
    }
    if parallel is not None:
        given |= {"tp": parallel.tp, "ep": parallel.ep, "pp": parallel.pp}
    if arrivals:
        given |= {"arrivals": arrivals, "ends": asked.steps or ()}
    elif asked.steps is not None:
        raise TraceError("requests.steps: found without times of arrival; take it out")
    return Inference(model.transformer, model.kind, model.batch, requests, **given, **chosen)


def _named(named: str, folder: Path) -> Path:
    return (folder / Path(named).expanduser()).absolute()


def resolved_model(job: Job, source: Source, folder: Path) -> RankModel | str:
    """The job's model with its defaults, or with the absolute path of its file; `folder`: as of
    source_of."""
    if isinstance(source, InferenceSource):
        made = source.inference
        assert not isinstance(job.model, str) and job.model.requests is not None
        requests = job.model.requests
        if requests.file is not None:
            file = str(_named(requests.file, folder))
            requests = requests.model_copy(update={"file": file})
        update = {"gpu": made.gpu, "utilisation": made.utilisation, "requests": requests}
        return job.model.model_copy(update=update | _experts_at(job.model, folder))
    if isinstance(source, TransformerSource):
        return _with_defaults(job.model, source.transformer, folder)
    if isinstance(job.model, str):
        return source.file
    return job.model.model_copy(update={"file": source.file})


def _with_defaults(model: RankModel | str, transformer: Transformer, folder: Path) -> RankModel:
    assert not isinstance(model, str)
    names = ("micro_batch", "gpu", "times", "utilisation")
    update: dict[str, object] = {name: getattr(transformer, name) for name in names}
    update |= _experts_at(model, folder)
    if transformer.simulated:
        layers = transformer.shape.layers
        update["sample"] = (model.sample or Sample()).model_copy(update={"of": layers})
    return model.model_copy(update=update)


def _experts_at(model: RankModel, folder: Path) -> dict[str, object]:
    """The key `experts` with the absolute path of its file."""
    if model.experts is None or model.experts.counts is None:
        return {}
    counts = str(_named(model.experts.counts, folder))
    return {"experts": model.experts.model_copy(update={"counts": counts})}


def rank_trace(source: Source, compute_scale: float) -> Trace:
    """Trace in place of the model of such a job. Raises TraceError."""
    program = check_program(source)
    if isinstance(source, TransformerSource):
        file = Path(source.transformer.model)
    elif isinstance(source, InferenceSource):
        file = Path(source.inference.model)
    else:
        file = of_all(source.path)
    ranks = program.ranks
    if _stands_for_clients(source):
        ranks = ranks[:-1]  # the one that stands for clients waits
    compute_ns = sum(node.duration_ns for nodes in ranks for node in nodes if node.kind == COMPUTE)
    mean_ns = round(compute_ns * compute_scale / len(ranks))
    return Trace(
        name=program.about.get("name", file.stem),
        title=program.about.get("title", f"program of {len(program.ranks)} ranks"),
        layers=(Layer("none", ((1,),), 1, mean_ns, 0),),
        times="measured",
        hardware=program.about.get("device", "unknown"),
        sources=(),
        path=file,
        ranks=str(source),
        dropped=int(program.about[DROPPED]) if DROPPED in program.about else None,
    )


def calls_trace(parent: Trace, group: Group) -> Trace:
    """The calls of a communicator as tensors, the first one as the last."""
    layers = tuple(
        Layer(f"{call.node.kind} {call.node.id}", ((call.values,),), call.values, 0, 0)
        for call in reversed(group.calls)
    )
    return Trace(
        name=parent.name,
        title=parent.title,
        layers=layers,
        times=parent.times,
        hardware=parent.hardware,
        sources=(),
        path=parent.path,
    )


def count_groups(trace: Trace, values: int) -> int:
    """Number of communicators of such a trace's program, without that of all workers."""
    return len(load_groups(trace.ranks, values))


def problems_of(trace: Trace, job: Job, parts: Parts) -> Sequence[tuple[str, str]]:
    """Keys of a job that do not fit the program that it replays: (key, message)."""
    program = load_program(trace.ranks)
    ranks = len(program.ranks)
    found = []
    if job.workers != ranks:
        found.append(
            ("workers", f"found {job.workers}; the program has {ranks} ranks. Write {ranks}")
        )
    named = names_of_sums(load_program(trace.ranks))
    for name in job.sums or {}:
        if name not in named:
            message = f"found {name}; groups and types of the program: {', '.join(named)}"
            found.append(("sums", message))
    for key, usual in NOT_FOR_RANKS.items():
        if getattr(job, key) != usual:
            message = f"found {getattr(job, key)}; a program of ranks is replayed as it is."
            found.append((key, f"{message} Take this key out"))
    if parts.get("arrivals") is not None:
        found.append(("model", "is a program of ranks, and drawn jobs have no groups of ranks"))
    groups = {*program.groups, *(name.partition(".")[0] for name in program.groups)}
    allowed = [ALL, *CARRIED, *sorted(groups)]
    for name in (job.priorities or {}).keys() - {*allowed}:
        wrong = f"found {name}; allowed: {', '.join(allowed[:20])}"
        found.append(("priorities", sentence(wrong, did_you_mean(name, allowed))))
    source = rank_source.of(trace.ranks)
    if isinstance(source, InferenceSource) and source.inference.arrivals:
        scale = job.scale if job.compute_scale is None else job.compute_scale
        for key, is_wrong, needed in (
            ("iterations", job.iterations != 1, "iterations: 1"),
            ("compute_scale", scale != 1, "compute_scale: 1"),
            ("compute_jitter", job.compute_jitter, "no jitter"),
            ("speed_spread", job.speed_spread, "workers of one speed"),
            ("model", parts.get("runtime") == "mininet", "runtime: virtual"),
            ("model", parts.get("repetitions", 1) > 1, "repetitions: 1; take sweep over seed"),
        ):
            if is_wrong:
                found.append((key, f"requests with times of arrival need {needed}"))
    if job.tokens_in_packets and (why := _why_no_tokens(program, parts.get("system"))):
        found.append(("model", f"experts.calls: packets needs {why}. Take calls: sets"))
    if why := why_no_groups(parts):
        found.append(("model", f"is a program of ranks, which {why}"))
    return found


def has_clients(job: Job) -> bool:
    """True if the last rank of a job stands for clients, who send requests at given times."""
    return _stands_for_clients(rank_source.of(job.trace().ranks))


def _stands_for_clients(source: Source) -> bool:
    """The same of the program that a source gives."""
    return isinstance(source, InferenceSource) and bool(source.inference.arrivals)


def _why_no_tokens(program: Program, options: SystemOptions | None) -> str:
    """Need of tokens whose packets name their ranks that an experiment does not meet; "": none."""
    entry = SYSTEMS.get(options.name) if options is not None else None
    if entry is not None and not entry.carries_tokens:
        names = (each.name for each in SYSTEMS.values() if each.carries_tokens)
        return f"one of the systems {', '.join(names)}; found {entry.name}"
    form = format_of(options)
    if entry is not None and (form.adder != INT32 or form.is_bytes):
        return f"sums of int32 or int16; found sum: {form.name}"
    nodes = (node for nodes in program.ranks for node in nodes if node.through)
    ranks = {node.route: program.groups[node.through] for node in nodes}
    if not ranks:
        return "calls of dispatch or combine, of which the program has none"
    most = max(map(len, ranks.values()))
    if most > MOST_MEMBERS:
        return f"up to {MOST_MEMBERS} ranks of ep; found {most}"
    if any(route.algorithm or route.sum for route in ranks):
        return "calls of the system; found an algorithm of hosts or a format for them (collectives)"
    return ""


def why_no_groups(parts: Parts) -> str:
    """Change that an experiment needs, so that groups of ranks can have communicators; "" if they
    can. A run asks the same of its Setup (testbed/emulate/communicators.py)."""
    if any(fault.of_link for fault in parts.get("faults", ())):
        return "needs links that do not fail; take one of the two out"
    options = parts.get("system")
    if options is not None and (reason := options.lossless_reason):
        return f"needs queues that may overflow: {reason}"
    return ""
