"""Recordings: the values of a real training's ranks for all-reduce, as a model that jobs replay.

`testbed.collective.ina_recorder` writes them and says what is in the file. A recording's buckets
are the tensors of a trace. DDP gives them in the order of the backward pass, so the last one is the
front of the model. Each rank has times of its own in each step:

- forward: from the first use of a parameter of the tensor's bucket to that of the next tensor's;
  what comes before the first use in a step belongs to the front tensor.
- backward: from when the bucket before was given to when this one was; the first one counts from
  the end of the forward pass.
- update: the optimizer's step before this step, in proportion to the values; and, for the front
  tensor, what else lay between the optimizer and the forward pass, such as loading data.

Time in which a rank waits for sums is in none of them: the replay makes its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.traffic.scaled_integers import scale_times, share_out
from testbed.traffic.trace import (
    MAX_VALUES,
    Gradients,
    Layer,
    Trace,
    TraceError,
    load_gradients,
    load_trace,
)

if TYPE_CHECKING:
    import numpy as np

SUFFIX = ".npz"

# Of one tensor in one step of one rank: forward, backward, update, in ns.
Times = tuple[int, int, int]


@dataclass(frozen=True)
class Recording:
    """A recording without its values: `header` as in the file, `times` its int64 arrays of ns,
    [ranks, steps, buckets] or [ranks, steps]."""

    path: Path
    header: dict[str, Any]
    times: dict[str, np.ndarray]

    @property
    def ranks(self) -> int:
        return int(self.header["world"])

    @property
    def steps(self) -> int:
        return len(self.header["steps"])

    @property
    def has_values(self) -> bool:
        return bool(self.header["values"])

    @cached_property
    def tensors(self) -> list[Layer]:
        """The buckets in forward order, without times."""
        return [_layer(bucket) for bucket in reversed(self.header["buckets"])]

    def times_of(self, rank: int, step: int) -> list[Times]:
        """The compute times of a rank's tensors in a step, by its place in the recording."""
        count = len(self.tensors)
        one = {name: array[rank, step].tolist() for name, array in self.times.items()}
        needed, ready = one["needed_ns"][::-1], one["ready_ns"]
        starts = [0]
        for tensor in range(1, count):
            starts.append(max(starts[-1], needed[tensor]))
        end = max(starts[-1], one["forward_end_ns"])
        forward = [after - start for start, after in zip(starts, [*starts[1:], end], strict=True)]
        backward, before = [], end
        for given in ready:
            backward.append(max(0, given - before))
            before = max(before, given)
        update = self._update_before(rank, step)
        return list(zip(forward, reversed(backward), update, strict=True))

    def _update_before(self, rank: int, step: int) -> list[int]:
        """The update times of the step before; 0 of the first one, and where no optimizer was
        seen."""
        values = [tensor.values for tensor in self.tensors]
        start, end, following = (
            int(self.times[name][rank, step - 1])
            for name in ("update_start_ns", "update_end_ns", "next_ns")
        )
        if step == 0 or start < 0 or end < start:
            return [0] * len(values)
        update = share_out(end - start, values)
        update[0] += max(0, following - end)
        return update

    def scaled_times(self, rank: int, steps: int, scale: float) -> tuple[tuple[Times, ...], ...]:
        """The times of a rank's first `steps` steps, each tensor's times `scale` as long."""
        found = []
        for step in range(steps):
            kinds = zip(*self.times_of(rank, step), strict=True)
            scaled = [scale_times(each, scale) for each in kinds]
            found.append(tuple(zip(*scaled, strict=True)))
        return tuple(found)

    def trace(self, steps: int | None = None) -> Trace:
        """The recording as a model, with the mean times of all ranks over the first `steps` steps
        (None: all)."""
        count = min(steps or self.steps, self.steps)
        totals = [[0, 0, 0] for _ in self.tensors]
        for rank in range(self.ranks):
            for step in range(count):
                for total, each in zip(totals, self.times_of(rank, step), strict=True):
                    total[:] = [a + b for a, b in zip(total, each, strict=True)]
        mean = self.ranks * count
        updates = self.ranks * max(1, count - 1)  # the first step has no update before it
        layers = tuple(
            replace(
                tensor,
                forward_ns=round(forward / mean),
                backward_ns=round(backward / mean),
                update_ns=round(update / updates),
            )
            for tensor, (forward, backward, update) in zip(self.tensors, totals, strict=True)
        )
        header = self.header
        name = _plain(Path(str(header["script"])).stem) or "recording"
        numbers = header["steps"]
        return Trace(
            name=name,
            title=f"{header['model']} ({header['script']})",
            layers=layers,
            times="measured",
            hardware=", ".join(dict.fromkeys(map(str, header["devices"]))),
            sources=(
                f"recorded from {header['script']}, PyTorch {header['torch']}, {self.ranks} ranks,"
                f" steps {numbers[0]} to {numbers[-1]}",
            ),
            path=self.path,
            gradients=self.path if self.has_values else None,
        )

    def values(self, steps: int | None = None) -> np.ndarray:
        """The values of the ranks in the first steps: float32 [ranks, steps, values], the tensors
        one after the other in forward order. Raises TraceError if they are not in the recording, or
        are not finite."""
        import numpy as np

        if not self.has_values:
            raise TraceError(
                f"{self.path}: has no values; record it without --no-values (values=False)"
            )
        count = min(steps or self.steps, self.steps)
        found = np.empty((self.ranks, count, sum(each.values for each in self.tensors)), np.float32)
        for (rank, step, start, stop), array in self._arrays(count):
            if not np.isfinite(array).all():
                raise TraceError(
                    f"{self.path}: rank {rank} gave a value that is not finite in step"
                    f" {self.header['steps'][step]}; replayed sums are checked exactly, so record"
                    " other steps"
                )
            found[rank, step, start:stop] = array
        return found

    def _arrays(self, steps: int) -> Iterator[tuple[tuple[int, int, int, int], np.ndarray]]:
        from testbed.collective.ina_recorder import Archive

        buckets = len(self.tensors)
        with _named(self.path), Archive(self.path) as archive:
            for rank in range(self.ranks):
                for step in range(steps):
                    start = 0
                    for tensor, layer in enumerate(self.tensors):
                        stop = start + layer.values
                        bucket = buckets - 1 - tensor
                        array = archive.values(rank, step, bucket, layer.values)
                        yield (rank, step, start, stop), array
                        start = stop


class _named:
    """Turns a RecordingError into a TraceError, which names the file already."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        from testbed.collective.ina_recorder import RecordingError

        if isinstance(error, RecordingError):
            raise TraceError(str(error)) from None


def is_recording(name_or_path: str | Path) -> bool:
    """True if a job's `model` is the path of a recording."""
    return str(name_or_path).endswith(SUFFIX)


def load_recording(path: str | Path, folder: str | Path | None = None) -> Recording:
    """Read a recording without its values; `path` is relative to `folder` (default: the working
    directory). Raises TraceError if it is not a whole recording of all ranks."""
    file = Path(folder or ".") / Path(path).expanduser()
    try:
        state = file.stat()
        return _load(file, state.st_mtime_ns, state.st_size)
    except FileNotFoundError:
        raise TraceError(
            f"{file}: no such recording; check the path (it is relative to the experiment file)"
        ) from None
    except OSError as error:  # a name that no file can have, or one that others may not read
        raise TraceError(f"{file}: {error.strerror}") from None


@lru_cache(maxsize=16)  # every worker of a job reads the same one
def _load(path: Path, *_: int) -> Recording:
    from testbed.collective.ina_recorder import Archive, part_of

    with _named(path), Archive(path) as archive:
        header = archive.header
        try:
            ranks, world = list(header["ranks"]), int(header["world"])
            layers = [_layer(bucket) for bucket in header["buckets"]]
            kept = [int(step) for step in header["steps"]]
            for key in ("script", "model", "torch", "devices", "values"):
                header[key]
        except (KeyError, TypeError, ValueError) as error:
            raise TraceError(
                f"{path}: its header is damaged ({error!r}); record it again"
            ) from None
        if ranks != list(range(world)):
            shown = ", ".join(map(str, ranks))
            raise TraceError(
                f"{path}: has rank {shown} of {world} alone; join the parts of all ranks"
                f" ({part_of('RUN.npz', 0)}, ...): `python ina_recorder.py join RUN.npz`"
            )
        if not layers or not kept:
            raise TraceError(f"{path}: has no buckets or no steps; record it again")
        for layer in layers:
            if not 1 <= layer.values <= MAX_VALUES:
                raise TraceError(
                    f"{path}: bucket {layer.name} has {layer.values} values; allowed: 1 to"
                    f" {MAX_VALUES}"
                )
        return Recording(path, header, archive.times())


def _layer(bucket: dict[str, Any]) -> Layer:
    """The tensor of a bucket, without times."""
    shapes = tuple(tuple(int(side) for side in each["shape"]) for each in bucket["parameters"])
    names = [_plain(each["name"]) for each in bucket["parameters"]]
    name = names[0] if len(names) == 1 else f"{names[-1]}:{names[0]}"
    return Layer(name, shapes, sum(math.prod(shape) for shape in shapes), 0, 0)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.:/-]", "_", name)


# -- models of either kind


def load_model(
    name_or_path: str | Path,
    folder: str | Path | None = None,
    gpu: str | None = None,
    steps: int | None = None,
) -> Trace:
    """The trace of a job's `model`: a recording, or one that `load_trace` reads. steps: number of a
    recording's steps that count for its mean times. Raises TraceError."""
    if is_recording(name_or_path):
        return load_recording(name_or_path, folder).trace(steps)
    return load_trace(name_or_path, folder, gpu)


def load_values(trace: Trace, steps: int | None = None) -> Gradients:
    """The real values of a trace, or of a scaled copy of it; steps: as in `load_model`. Raises
    TraceError."""
    import numpy as np

    if not is_recording(trace.path):
        return load_gradients(trace)
    recording = load_recording(trace.path)
    values = recording.values(steps)
    values.flags.writeable = False
    numbers = np.array(recording.header["steps"][: values.shape[1]], np.int64)
    return Gradients(trace, values, numbers, np.full(values.shape[:2], np.nan, np.float32))


def check(trace: Trace, workers: int, iterations: int, buckets: str) -> Sequence[tuple[str, str]]:
    """Keys of a job that do not fit the recording that it replays: (key, message)."""
    if not is_recording(trace.path):
        return []
    recording, problems = load_recording(trace.path), []
    if workers != recording.ranks:
        problems.append(
            (
                "workers",
                f"found {workers}; the recording has {recording.ranks} ranks, each with times and"
                f" values of its own. Write {recording.ranks}, or record with {workers} ranks",
            )
        )
    if iterations > recording.steps:
        problems.append(
            (
                "iterations",
                f"found {iterations}; the recording has {recording.steps} steps. Write at most"
                f" {recording.steps}, or record more (--steps)",
            )
        )
    if buckets != "layers":
        problems.append(
            ("buckets", f"found {buckets}; a recording has buckets of its own. Take this key out")
        )
    return problems
