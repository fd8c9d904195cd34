"""The tables of docs/models.md: `python -m tools.models.page` prints them.

Kept here so that the page cannot drift from the files: a test compares the two.
"""

from __future__ import annotations

from testbed.traffic.trace import GPUS, Trace, load_trace, shipped

COLUMNS = (
    *("model", "name in `model:`", "values", "layers"),
    *("forward ms", "backward ms", "update ms", "times"),
)
THROUGHPUT_COLUMNS = ("model", "batch V100 / A100", *GPUS, "published")

_NVIDIA = "https://github.com/NVIDIA/DeepLearningExamples/blob/master/PyTorch"
_RESNET = f"[NVIDIA]({_NVIDIA}/Classification/ConvNets/resnet50v1.5/README.md)"
_BERT = f"[NVIDIA]({_NVIDIA}/LanguageModeling/BERT/README.md)"
_NCF = f"[NVIDIA]({_NVIDIA}/Recommendation/NCF/README.md)"
_LAMBDA_TF = "[Lambda 1](https://github.com/lambdal/lambda-tensorflow-benchmark)"
_LAMBDA = "[Lambda 2](https://github.com/lambdal/deeplearning-benchmark/tree/master/pytorch)"
_MXNET = "[MXNet](https://mxnet.apache.org/api/faq/perf)"
_OUMI = "[Oumi](https://github.com/oumi-ai/oumi/pull/103)"

# Published training throughput of one GPU, in samples per second.
PUBLISHED = {
    "alexnet": f"FP32: V100 5,132, A100 10,187 ({_LAMBDA_TF}); V100 2,994 ({_MXNET})",
    "bert_base": f"mixed precision: V100 189, A100 368 to 443; FP32: V100 42 ({_LAMBDA})",
    "bert_large": "mixed precision: V100 52 (batch 16), A100 110.5 (batch 32); FP32: V100 12, TF32:"
    f" A100 61.5 ({_BERT})",
    "gpt2": f"A100 66 (batch 44; {_OUMI})",
    "inception_v3": f"FP32: V100 273, A100 627 ({_LAMBDA_TF}); V100 253.7 (batch 128, {_MXNET})",
    "neumf": f"FP32: V100 10.4 million, TF32: A100 22.6 million (batch 1,048,576, {_NCF})",
    "resnet50": f"FP32: V100 356 and 367, TF32: A100 938 ({_RESNET})",
    "resnet152": f"FP32: V100 167, A100 390 ({_LAMBDA_TF})",
    "vgg16": f"FP32: V100 249, A100 504 ({_LAMBDA_TF})",
}


def model_table() -> str:
    """The table of what ships in Markdown, one row per trace, largest first; times of the V100."""
    traces = sorted((load_trace(name) for name in shipped()), key=lambda trace: -trace.values)
    rules = ("---", "---", "---:", "---:", "---:", "---:", "---:", "---")
    return _table([COLUMNS, rules, *(_row(trace) for trace in traces)])


def throughput_table() -> str:
    """Batch sizes and samples per second of each model on each GPU, next to published figures."""
    names = [name for name in shipped() if load_trace(name).gpus]
    rules = ("---", "---", *["---:"] * len(GPUS), "---")
    return _table([THROUGHPUT_COLUMNS, rules, *(_throughput_row(name) for name in names)])


def _table(rows: list[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _row(trace: Trace) -> tuple[str, ...]:
    return (
        trace.title,
        f"`{trace.name}`",
        f"{trace.values:,}",
        str(len(trace.layers)),
        f"{trace.forward_ns / 1e6:.1f}",
        f"{trace.backward_ns / 1e6:.1f}",
        f"{trace.update_ns / 1e6:.1f}",
        _times(trace),
    )


def _times(trace: Trace) -> str:
    """The kinds of times, each with its hardware."""
    kinds: dict[str, list[str]] = {}
    for each in [load_trace(trace.name, gpu=gpu) for gpu in trace.gpus] or [trace]:
        hardware = kinds.setdefault(each.times, [])
        if each.hardware not in hardware:
            hardware.append(each.hardware)
    return "; ".join(f"{kind}: {', '.join(hardware)}" for kind, hardware in kinds.items())


def _throughput_row(name: str) -> tuple[str, ...]:
    traces = {gpu: load_trace(name, gpu=gpu) for gpu in GPUS}
    batches = (f"{traces[gpu].batch:,}" for gpu in ("v100", "a100"))
    trace = traces["v100"]
    return (
        trace.title,
        f"{' / '.join(batches)}, {trace.sample}",
        *(_per_second(each) for each in traces.values()),
        PUBLISHED.get(name, "none found"),
    )


def _per_second(trace: Trace) -> str:
    samples = (trace.batch or 0) * 1e9 / trace.compute_ns
    return f"{samples / 1e6:.1f} million" if samples >= 1e6 else f"{samples:,.0f}"


if __name__ == "__main__":
    print(model_table(), throughput_table(), sep="\n\n")
