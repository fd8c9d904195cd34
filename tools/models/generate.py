"""Makes the files of traffic/models/ again: `python -m tools.models.generate MODEL... | --all`.

Needs the extra `traces` of pyproject.toml (torch); nothing else in the testbed does. Every number
of a file comes from the model's definition, from the published times in measured.csv, or from a
rate stated in the file, so on the same torch version the output is the same to the last
character.
"""

from __future__ import annotations

import argparse
import io
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from p4fabric.base.errors import UserError, did_you_mean, sentence

from testbed.traffic.trace import COLUMNS, MODELS_FOLDER, TIME_COLUMNS, Layer, Trace

if TYPE_CHECKING:
    from tools.models.train import Training


def generate(name: str, folder: Path) -> list[Path]:
    """Write the trace of the model `name` (and its gradients, if it is trained) into `folder`.

    Returns the files written. Raises UserError for an unknown name or a missing torch.
    """
    _need_torch()
    from tools.models import definitions, times

    if name not in definitions.MODELS:
        unknown = sentence(f"unknown model {name!r}", did_you_mean(name, definitions.MODELS))
        raise UserError(
            f"{unknown}\n  models: {', '.join(definitions.MODELS)}\n"
            "  a new one: add it to tools/models/definitions/ (docs/models.md)"
        )
    model = definitions.MODELS[name]
    layers = times.operations(model)
    timings, sources = times.timings(name, layers)
    sources = [f"layers: {model.architecture}; counted on torch's meta device", *sources]
    path = folder / f"{name}.csv"
    written = [path]
    gradients = None
    if name == "smallcnn":
        from tools.models import train

        gradients = folder / f"{name}.npz"
        sources.append(train.SOURCE)
        _write_gradients(gradients, train.train(layers))
        written.append(gradients)
    traces = [
        Trace(
            name=name,
            title=model.title,
            layers=tuple(
                Layer(layer.name, tuple(layer.shape), layer.values, *each)
                for layer, *each in zip(
                    layers, timing.forward_ns, timing.backward_ns, timing.update_ns, strict=True
                )
            ),
            times=timing.times,
            hardware=timing.hardware,
            sources=tuple(sources),
            path=path,
            batch=timing.batch,
            sample=model.sample,
            gradients=gradients,
            gpu=gpu or None,
        )
        for gpu, timing in timings.items()
    ]
    path.write_text(trace_text(traces), encoding="utf-8")
    return written


def trace_text(traces: Sequence[Trace]) -> str:
    """The text of a trace file, as docs/models.md describes it; `traces`: the same model with the
    times of each GPU, or one trace without a GPU."""
    trace = traces[0]
    lines = [
        f"## One training iteration of {trace.title}, layer by layer in forward order.",
        f"## Format: docs/models.md. Made by: python -m tools.models.generate {trace.name}",
        f"# name: {trace.name}",
        f"# title: {trace.title}",
        f"# values: {trace.values}",
        f"# times: {trace.times}",
        *(f"# times ({each.gpu}): {each.times}" for each in traces if each.times != trace.times),
        *(f"# {_key('hardware', each)}: {each.hardware}" for each in traces),
        *(f"# {_key('batch', each)}: {each.batch}" for each in traces if each.batch is not None),
    ]
    if trace.sample:
        lines.append(f"# sample: {trace.sample}")
    if trace.gradients is not None:
        lines.append(f"# gradients: {trace.gradients.name}")
    lines += [f"# source: {source}" for source in trace.sources]
    names = TIME_COLUMNS if trace.update_ns else TIME_COLUMNS[:-1]
    prefixes = [f"{each.gpu}." if each.gpu else "" for each in traces]
    lines.append(",".join((*COLUMNS, *(prefix + name for prefix in prefixes for name in names))))
    for layers in zip(*(each.layers for each in traces), strict=True):
        shape = "+".join("x".join(map(str, part)) for part in layers[0].shape)
        times = [getattr(layer, name) for layer in layers for name in names]
        lines.append(",".join(map(str, (layers[0].name, shape, layers[0].values, *times))))
    return "\n".join(lines) + "\n"


def _key(key: str, trace: Trace) -> str:
    return f"{key} ({trace.gpu})" if trace.gpu else key


def _write_gradients(path: Path, training: Training) -> None:
    """An .npz without time stamps, so that equal gradients give equal files."""
    import numpy as np

    arrays = {
        "gradients": training.gradients,
        "iterations": training.iterations,
        "loss": training.loss,
    }
    with zipfile.ZipFile(path, "w") as archive:
        for key, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{key}.npy"), buffer.getvalue())


def _need_torch() -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        raise UserError(
            "making traces needs torch, which is not installed: "
            "install the extra `traces` (pip install '.[traces]')"
        ) from None


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.models.generate", description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="names as in traffic/models/")
    parser.add_argument("--all", action="store_true", help="every model that ships")
    parser.add_argument("--output", type=Path, default=MODELS_FOLDER, help="folder (%(default)s)")
    chosen = parser.parse_args(arguments)
    if chosen.all == bool(chosen.models):
        parser.error("name the models, or give --all")
    try:
        _need_torch()
        from tools.models.definitions import MODELS

        chosen.output.mkdir(parents=True, exist_ok=True)
        for name in MODELS if chosen.all else chosen.models:
            for path in generate(name, chosen.output):
                print(path)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
