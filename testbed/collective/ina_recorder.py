"""Recorder of distributed PyTorch trainings: what the ranks give to their collectives, and when.

This file works alone: copy it to any machine with torch and numpy. What it writes is a recording,
which the testbed reads (docs/recordings.md). There are two kinds:

- `run.npz`: the gradients that one DistributedDataParallel (DDP) model sums up, with their values.
- `run.et`: every collective and transfer of every process group, without values.

A script stays as it is:

    torchrun --nproc-per-node 4 ina_recorder.py run -o run.et --steps 8 train.py --epochs 3

or says so itself:

    import ina_recorder

    ina_recorder.record("run.et", steps=8)  # or, of a DDP model:
    ina_recorder.attach(model, "run.npz", steps=8)

Each rank writes a part: `run.0.et`, or `run.rank0.npz`, and so on. Afterwards, where all parts are
in one folder:

    python ina_recorder.py join run.et

An .npz holds of each step: when the forward pass first used a parameter of each bucket and when
the pass ended, when each bucket was given to all-reduce, when the optimizer began and ended, when
the next step began; and, unless `values=False`, the buckets' values. Times of a GPU are those of
its stream (CUDA events), others those of a monotonic clock. What copying values takes is not in
them. Values are what DDP sends by default: the rank's gradient divided by the number of ranks. A
communication hook that the script registers goes on to work; the values are then those that the
hook is given.

An .et is a Chakra execution trace: a graph of the rank's collectives, transfers and compute times.
PyTorch's C++ gives every collective of every backend to its dispatcher, whoever calls it: DDP,
FSDP, DTensor or the script. There the recorder sees it. `_Program` says how it finds dependencies.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import functools
import io
import json
import lzma
import os
import runpy
import struct
import sys
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = "ina-recording"
VERSION = 1
STEPS = 8  # that are recorded
SKIP = 3  # steps before; DDP orders its buckets anew in the first ones
LIMIT_MB = 256  # of a rank's values, uncompressed
HEADER = "header.json"
MAX_HEADER = 64 << 20  # bytes
UNKNOWN = -1  # a time that was not seen
VALUES, TRACE = ".npz", ".et"  # how the names of the two kinds end

# int64 arrays of a recording, in ns since the step's first forward pass began: [R, S, B] for R
# ranks, S steps and B buckets, or [R, S].
BUCKET_TIMES = ("needed_ns", "ready_ns")
STEP_TIMES = ("forward_end_ns", "update_start_ns", "update_end_ns", "next_ns")


# What reading a damaged zip archive raises, beside OSError.
DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(EOFError, RuntimeError, ValueError),
)


class RecordingError(ValueError):
    """A recording cannot be made or read. Names the file or key, and the remedy."""


def part_of(path: str | Path, rank: int) -> Path:
    """The file of one rank's part."""
    path = Path(path)
    return path.with_name(f"{path.stem}.rank{rank}{path.suffix}")


# -- the file


def member_of(rank: int, step: int, bucket: int) -> str:
    """The member with the values that a rank gave; step and bucket by their places."""
    return f"values/{rank}/{step}/{bucket}.npy"


def write(
    path: str | Path,
    header: dict[str, Any],
    times: dict[str, np.ndarray],
    values: Iterator[tuple[str, np.ndarray]],
) -> None:
    """Write a recording, under its name only once it is whole. values: members with float32 [n],
    which are stored as bytes [4, n]: the bytes of a place in all numbers side by side, since they
    are more alike than the bytes of a number."""
    path = Path(path)
    unfinished = path.with_name(f"{path.name}.unfinished")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        archive.writestr(HEADER, json.dumps(header, indent=1))
        for name in (*BUCKET_TIMES, *STEP_TIMES):
            archive.writestr(f"{name}.npy", _as_npy(times[name].astype(np.int64)))
        for name, array in values:
            archive.writestr(name, _as_npy(_planes(array)))
    os.replace(unfinished, path)


def _as_npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def _planes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array.astype("<f4").view(np.uint8).reshape(-1, 4).T)


class Archive:
    """A recording's file, open for reading. Raises RecordingError for any other file."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_file():  # a FIFO would wait for a writer
            raise RecordingError(f"{path}: not a regular file; name a recording")
        try:
            self._zip = zipfile.ZipFile(self.path)
        except FileNotFoundError:
            raise RecordingError(f"{path}: no such recording; check the path") from None
        except (OSError, *DAMAGED) as error:
            raise RecordingError(
                f"{path}: not a whole recording ({error}); copy or record it again"
            ) from None
        if HEADER not in self._zip.namelist():
            self._zip.close()
            raise RecordingError(
                f"{path}: no recording, it has no {HEADER}; name a file that ina_recorder.py or"
                " the command record has written"
            )
        try:
            if self._zip.getinfo(HEADER).file_size > MAX_HEADER:
                raise ValueError
            self.header = json.loads(self._read(HEADER))
            found = self.header["format"], self.header["version"]
        except (ValueError, KeyError, TypeError):
            self._zip.close()
            raise RecordingError(f"{path}: {HEADER} cannot be read; record again") from None
        if found != (FORMAT, VERSION):
            self._zip.close()
            raise RecordingError(
                f"{path}: found format {found[0]}, version {found[1]}; allowed: {FORMAT}, version"
                f" {VERSION}. Record again with the ina_recorder.py of this version"
            )

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def _read(self, member: str) -> bytes:
        try:
            return self._zip.read(member)
        except KeyError:
            raise RecordingError(f"{self.path}: has no {member}; record again") from None
        except (OSError, *DAMAGED) as error:
            raise RecordingError(
                f"{self.path}: {member} is damaged ({error!s:.200}); copy or record it again"
            ) from None

    def array(self, member: str, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
        """An array that must have this type and shape."""
        try:
            size = self._zip.getinfo(member).file_size
        except KeyError:
            size = 0
        wanted = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if size > wanted + 4096:  # before it takes memory; the header of an array is shorter
            raise RecordingError(
                f"{self.path}: {member} has {size} bytes; {HEADER} says {wanted}. Record again"
            )
        try:
            found = np.lib.format.read_array(io.BytesIO(self._read(member)), allow_pickle=False)
        except (ValueError, EOFError) as error:
            if isinstance(error, RecordingError):
                raise
            raise RecordingError(f"{self.path}: {member} is damaged ({error!s:.200})") from None
        if found.dtype != dtype or found.shape != shape:
            raise RecordingError(
                f"{self.path}: {member} is {found.dtype} {found.shape}; {HEADER} says"
                f" {np.dtype(dtype)} {shape}. Record again"
            )
        return found

    def times(self) -> dict[str, np.ndarray]:
        """All arrays of times by name."""
        ranks, steps = len(self.header["ranks"]), len(self.header["steps"])
        buckets = len(self.header["buckets"])
        shapes: dict[str, tuple[int, ...]] = {
            name: (ranks, steps, buckets) for name in BUCKET_TIMES
        }
        shapes |= {name: (ranks, steps) for name in STEP_TIMES}
        return {name: self.array(f"{name}.npy", np.int64, shape) for name, shape in shapes.items()}

    def values(self, rank: int, step: int, bucket: int, count: int) -> np.ndarray:
        """float32 [count] that a rank gave; step and bucket by their places."""
        planes = self.array(member_of(rank, step, bucket), np.uint8, (4, count))
        return np.ascontiguousarray(planes.T).view("<f4").reshape(-1)


def bucket_values(bucket: dict[str, Any]) -> int:
    """Number of values in a bucket of a header."""
    return sum(int(np.prod(each["shape"])) for each in bucket["parameters"])


def join(path: str | Path, parts: Sequence[str | Path] = ()) -> Path:
    """Make one recording of the parts of all ranks; parts: none for those beside `path`. Raises
    RecordingError if a rank's part is missing, or if parts do not belong together."""
    path = Path(path)
    found = [Path(each) for each in parts]
    if not found:
        found = sorted(path.parent.glob(f"{path.stem}.rank*{path.suffix}"))
    if not found:
        raise RecordingError(f"{path}: there are no parts {part_of(path, 0).name}, ... beside it")
    archives: dict[int, Archive] = {}
    try:
        for each in found:
            archive = Archive(each)
            for rank in archive.header["ranks"]:
                if rank in archives:
                    raise RecordingError(
                        f"{each}: has rank {rank}, as {archives[rank].path} has; name one of them"
                    )
                archives[rank] = archive
        first = archives[min(archives)]
        for archive in archives.values():
            for key in ("world", "steps", "buckets", "values"):
                if archive.header[key] != first.header[key]:
                    raise RecordingError(
                        f"{archive.path}: {key} is not that of {first.path}; join the parts of one"
                        " run"
                    )
        world = first.header["world"]
        missing = sorted(set(range(world)) - set(archives))
        if missing:
            raise RecordingError(
                f"{path}: the part of rank {missing[0]} of {world} is missing; copy"
                f" {part_of(path, missing[0]).name} to the others"
            )
        order = [archives[rank] for rank in range(world)]
        header = {**first.header, "ranks": list(range(world))}
        header["devices"] = [archive.header["devices"][0] for archive in order]
        each_times = [archive.times() for archive in order]
        times = {
            name: np.concatenate([part[name] for part in each_times]) for name in each_times[0]
        }
        write(path, header, times, _joined(header, order))
    finally:
        for archive in archives.values():
            archive.__exit__()
    return path


def _joined(header: dict[str, Any], order: list[Archive]) -> Iterator[tuple[str, np.ndarray]]:
    if not header["values"]:
        return
    for rank, archive in enumerate(order):
        for step in range(len(header["steps"])):
            for number, bucket in enumerate(header["buckets"]):
                count = bucket_values(bucket)
                yield member_of(rank, step, number), archive.values(rank, step, number, count)


# -- the file of a program: a Chakra execution trace

CHAKRA = "0.0.4"  # version of the format
ABOUT = "ina"  # attribute of the metadata, what a part says of itself: JSON
NODE_TYPES = {"compute": 4, "send": 5, "recv": 6}
COLLECTIVE = 7  # type of the nodes of all collectives
COMM_TYPES = {
    **{"all_reduce": 0, "reduce": 1, "all_gather": 2, "gather": 3, "scatter": 4, "broadcast": 5},
    **{"all_to_all": 6, "reduce_scatter": 7, "barrier": 9},
}


def trace_part(path: str | Path, rank: int) -> Path:
    """The file of one rank's trace."""
    path = Path(path)
    return path.with_name(f"{path.stem}.{rank}{path.suffix}")


def varint(number: int) -> bytes:
    """A whole number as protobuf writes it."""
    number &= (1 << 64) - 1  # negative ones
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def proto(number: int, value: int | str | bytes) -> bytes:
    """A field of a protobuf message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def proto_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message: number and value, of fixed size ones the bytes. Raises
    ValueError if the message is damaged."""
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = read_varint(data, at)
            yield key >> 3, value
            continue
        if kind == 2:
            size, at = read_varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of the unknown wire type {kind}")
        if at + size > len(data):
            raise ValueError("a field is cut off")
        yield key >> 3, data[at : at + size]
        at += size


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A whole number and where it ends. Raises ValueError."""
    found = 0
    for place in range(at, min(at + 10, len(data))):
        found |= (data[place] & 0x7F) << 7 * (place - at)
        if data[place] < 0x80:
            return found, place + 1
    raise ValueError("a number is cut off")


ENDS = ("comm_src", "comm_dst", "comm_tag")  # attributes that are int32, as in other converters


def attribute(name: str, value: bool | int | str | Sequence[int]) -> bytes:
    """A named value of a node or of the metadata."""
    if isinstance(value, int):
        kind = 27 if isinstance(value, bool) else 7 if name in ENDS else 9
        field = proto(kind, value)
    elif isinstance(value, str):
        field = proto(29, value)
    else:
        field = proto(10, proto(1, b"".join(map(varint, value))))
    return proto(1, name) + field


def trace_node(
    number: int, kind: str, after: Sequence[int], duration_ns: int, given: dict[str, Any]
) -> bytes:
    """A node of a trace; given: its attributes. Microseconds are the format's unit, so others have
    an attribute."""
    if kind == "compute":
        given = {"duration_ns": duration_ns, **given}
    elif kind in COMM_TYPES:
        given = {"comm_type": COMM_TYPES[kind], **given}
    body = [proto(1, number), proto(2, kind), proto(3, NODE_TYPES.get(kind, COLLECTIVE))]
    if after:
        body.append(proto(5, b"".join(map(varint, after))))
    body.append(proto(7, round(duration_ns / 1000)))
    for name, value in {"is_cpu_op": False, **given}.items():
        body.append(proto(10, attribute(name, value)))
    return b"".join(body)


# A node: its kind, the places of those before it, its duration in ns, and its attributes.
Graph = Sequence[tuple[str, Sequence[int], int, dict[str, Any]]]


def write_trace(path: Path, about: dict[str, Any], graph: Graph) -> None:
    """Write a rank's trace, under its name only once it is whole."""
    calls: dict[tuple[str, str], list[int]] = {}
    for kind, _, _, given in graph:
        if kind != "compute":
            entry = calls.setdefault((given.get("pg_name", ""), kind), [0, 0])
            entry[0] += 1
            entry[1] += given["comm_size"]
    said = {
        "format": FORMAT,
        "version": VERSION,
        **about,
        "compute_ns": sum(duration_ns for _, _, duration_ns, _ in graph),
        "calls": [[*key, *entry] for key, entry in calls.items()],
    }
    unfinished = path.with_name(f"{path.name}.unfinished")
    with unfinished.open("wb") as file:
        metadata = proto(1, CHAKRA) + proto(2, attribute(ABOUT, json.dumps(said)))
        file.write(varint(len(metadata)) + metadata)
        for place, node in enumerate(graph):
            message = trace_node(place, *node)
            file.write(varint(len(message)) + message)
    os.replace(unfinished, path)


def about_trace(metadata: bytes) -> dict[str, Any]:
    """Description in the metadata of a trace; {} if the recorder has not written it. Raises
    ValueError."""
    for number, value in proto_fields(metadata):
        if number == 2 and isinstance(value, bytes):
            fields: dict[int, Any] = dict(proto_fields(value))
            if fields.get(1) == ABOUT.encode():
                try:
                    about: dict[str, Any] = json.loads(fields[29])
                except RecursionError:
                    raise ValueError("it is nested too deep") from None
                if (about["format"], about["version"]) != (FORMAT, VERSION):
                    raise ValueError("another version of the recorder has written it")
                if type(about["world"]) is not int:
                    raise ValueError("its number of ranks is no number")
                return about
    return {}


def join_traces(path: Path) -> Path:
    """Write the groups of all ranks' traces, which lie beside `path`: NAME.json for NAME.et. Raises
    RecordingError if a part is missing, or if parts do not belong together."""
    first: dict[str, Any] = {}
    groups: dict[str, list[int]] = {}
    rank = 0
    while rank < first.get("world", 1):
        part = trace_part(path, rank)
        about = _about_part(part)
        first = first or about
        if about["world"] != first["world"]:
            raise RecordingError(
                f"{part}: has a world of {about['world']} ranks, and {trace_part(path, 0)} one of"
                f" {first['world']}; join the parts of one run"
            )
        for name, ranks in about["groups"].items():
            if groups.setdefault(name, ranks) != ranks:
                raise RecordingError(
                    f"{part}: its group {name} has ranks {ranks}, and that of an earlier rank"
                    f" {groups[name]}; join the parts of one run"
                )
        rank += 1
    written = path.with_suffix(".json")
    unfinished = path.with_name(f"{written.name}.unfinished{os.getpid()}")
    unfinished.write_text(json.dumps(groups, indent=1) + "\n")
    os.replace(unfinished, written)
    return written


def _about_part(part: Path) -> dict[str, Any]:
    if part.exists() and not part.is_file():  # a FIFO would wait for a writer
        raise RecordingError(f"{part}: not a regular file; name the trace of a rank")
    try:
        with part.open("rb") as file:
            size, at = read_varint(start := file.read(10), 0)
            if size > MAX_HEADER:
                raise ValueError(f"metadata of {size} bytes")
            about = about_trace(start[at:] + file.read(size - len(start) + at))
    except FileNotFoundError:
        raise RecordingError(
            f"{part} is missing; copy the traces of all ranks into a folder"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordingError(f"{part}: not a trace of the recorder ({error!s:.200})") from None
    if not about:
        raise RecordingError(f"{part}: the recorder has not written it; name one of its traces")
    return about


def summary(path: Path) -> str:
    """Summary of the traces of all ranks, as text."""
    lines = []
    world = _about_part(trace_part(path, 0))["world"]
    for rank in range(world):
        about = _about_part(trace_part(path, rank))
        lines.append(f"rank {rank}: {about['compute_ns'] / 1e6:.3f} ms of computation")
        for group, kind, calls, size in about["calls"]:
            lines.append(f"    {group:16} {kind:16} {calls:8,} calls {size:16,} bytes")
    return "\n".join(lines)


# -- the recorder of a DDP model


class _Clock:
    """Marks in time, and the ns between two; of the processor or of a GPU's stream."""

    def __init__(self, device: Any) -> None:
        self._cuda = None
        if device.type == "cuda":
            import torch

            self._cuda = torch.cuda
        self._paused_ns = 0

    def mark(self, *stream: Any) -> Any:
        """This moment, on a GPU when its stream comes here (default: the current one)."""
        if self._cuda is None:
            return time.perf_counter_ns() - self._paused_ns
        event = self._cuda.Event(enable_timing=True)
        event.record(*stream)
        return event

    def without(self, work: Callable[[], Any]) -> Any:
        """Do something that takes no time on a processor's clock."""
        begun = time.perf_counter_ns()
        result = work()
        self._paused_ns += time.perf_counter_ns() - begun
        return result

    def settle(self) -> None:
        """Until all marks have been passed."""
        if self._cuda is not None:
            self._cuda.synchronize()

    @staticmethod
    def between_ns(first: Any, second: Any) -> int:
        if second is None:
            return UNKNOWN
        if isinstance(first, int):
            return max(0, second - first)
        return max(0, round(1e6 * first.elapsed_time(second)))


class _Step:
    """The marks of one step, and its values."""

    def __init__(self, number: int, start: Any) -> None:
        self.number = number
        self.start = start
        self.needed: dict[str, Any] = {}  # by module, in the latest forward pass
        self.forward_end: Any = None
        self.ready: list[Any] = []
        self.values: list[Any] = []
        self.update_start: Any = None
        self.update_end: Any = None
        self.next: Any = None
        self.whole = False  # its last bucket has been given


class Recorder:
    """Records some steps of a DDP model; made by `attach`."""

    def __init__(
        self, model: Any, path: str | Path, steps: int, skip: int, values: bool, limit_mb: float
    ) -> None:
        import torch
        import torch.distributed as dist

        parameters = [each for each in model.module.parameters() if each.requires_grad]
        size_mb = 4e-6 * steps * sum(each.numel() for each in parameters)
        if values and size_mb > limit_mb:
            raise RecordingError(
                f"recording {path}: the values of {steps} steps are {size_mb:.0f} MB on each rank,"
                f" more than the limit of {limit_mb:g} MB; record fewer steps, no values"
                " (values=False, --no-values), or raise the limit (limit_mb, --limit)"
            )
        if steps < 1 or skip < 0:
            raise RecordingError(
                f"recording {path}: found steps {steps} and skip {skip}; allowed: steps from 1,"
                " skip from 0"
            )
        self.path = part_of(path, dist.get_rank(model.process_group))
        self._torch, self._dist, self._model = torch, dist, model
        self._wanted, self._skip, self._with_values = steps, skip, values
        self._world = dist.get_world_size(model.process_group)
        self._device = parameters[0].device
        self._clock = _Clock(self._device)
        self._names = {id(each): name for name, each in model.module.named_parameters()}
        self._buckets: list[dict[str, Any]] = []
        self._steps: list[_Step] = []
        self._values: list[list[np.ndarray]] = []  # of each finished step
        self._current: _Step | None = None
        self._count = 0  # steps that have begun
        self._over = False
        self._handles: list[Any] = []
        self._inner: Callable[[Any, Any], Any] = self._all_reduce
        self._inner_state: Any = None
        self._hook_model()
        atexit.register(self.finish)

    def _hook_model(self) -> None:
        from torch.optim.optimizer import (
            register_optimizer_step_post_hook,
            register_optimizer_step_pre_hook,
        )

        model = self._model
        # DDP checks the annotations of a hook, which are text here.
        model.register_comm_hook(None, lambda state, bucket: self._hook(state, bucket))
        model.register_comm_hook = self._set_inner  # of the script, from now on
        self._handles = [
            model.register_forward_pre_hook(self._before_forward),
            model.register_forward_hook(self._after_forward),
            register_optimizer_step_pre_hook(self._before_update),
            register_optimizer_step_post_hook(self._after_update),
        ]
        for name, module in model.module.named_modules():
            if next(module.parameters(recurse=False), None) is not None:
                self._handles.append(module.register_forward_pre_hook(self._first_use(name)))

    def _set_inner(self, state: Any, hook: Callable[[Any, Any], Any]) -> None:
        self._inner, self._inner_state = hook, state

    # -- what happens in a step

    def _before_forward(self, *_: Any) -> None:
        if self._over or not self._torch.is_grad_enabled() or not self._model.training:
            return
        step = self._current
        if step is not None and not step.whole:
            step.needed.clear()  # gradients are accumulated over several passes
            return
        if step is not None:
            step.next = self._clock.mark()
            self._keep(step)
        if len(self._steps) == self._wanted:
            self.finish()
            return
        number, self._count = self._count, self._count + 1
        if number >= self._skip:
            self._current = _Step(number, self._clock.mark())

    def _first_use(self, name: str) -> Callable[..., None]:
        def before(*_: Any) -> None:
            step = self._current
            if step is not None and not step.ready and name not in step.needed:
                step.needed[name] = self._clock.mark()

        return before

    def _after_forward(self, *_: Any) -> None:
        if self._current is not None and not self._current.ready:
            self._current.forward_end = self._clock.mark()

    def _before_update(self, *_: Any) -> None:
        step = self._current
        if step is not None and step.whole and step.update_start is None:
            step.update_start = self._clock.mark()

    def _after_update(self, *_: Any) -> None:
        if self._current is not None and self._current.update_start is not None:
            self._current.update_end = self._clock.mark()

    def _hook(self, _: Any, bucket: Any) -> Any:
        buffer = bucket.buffer()
        if self._inner == self._all_reduce:
            buffer.div_(self._world)
        step = self._current
        if step is not None and not step.whole:
            self._note(step, bucket, buffer)
        return self._inner(self._inner_state, bucket)

    def _all_reduce(self, _: Any, bucket: Any) -> Any:
        """All-reduce that DDP does without a hook. The division comes before, since the recording
        holds the values that are given to it."""
        work = self._dist.all_reduce(
            bucket.buffer(), group=self._model.process_group, async_op=True
        )
        return work.get_future().then(lambda future: future.value()[0])

    def _note(self, step: _Step, bucket: Any, buffer: Any) -> None:
        step.ready.append(self._clock.mark())
        described = {
            "dtype": str(buffer.dtype).removeprefix("torch."),
            "parameters": [
                {"name": self._names[id(each)], "shape": list(each.shape)}
                for each in bucket.parameters()
            ],
        }
        place = bucket.index()
        if place == len(self._buckets):
            self._buckets.append(described)
        elif self._buckets[place] != described:  # DDP has ordered its buckets anew
            if self._steps:
                self._steps.clear()
                self._values.clear()
            self._buckets[place:] = [described]
        if self._with_values:
            step.values.append(self._clock.without(buffer.detach().clone))
        if bucket.is_last():
            del self._buckets[place + 1 :]
            step.whole = True

    def _keep(self, step: _Step) -> None:
        """A step is over. Its values leave the GPU now, between two steps."""
        self._current = None
        if len(step.ready) != len(self._buckets):
            return  # it began before the buckets were ordered anew
        self._steps.append(step)
        if self._with_values:
            self._values.append([each.float().cpu().numpy() for each in step.values])
            step.values.clear()

    # -- the end

    def finish(self) -> None:
        """Write this rank's part, with the steps that there are; more than once does no harm."""
        if self._over:
            return
        self._over = True
        atexit.unregister(self.finish)
        for handle in self._handles:
            handle.remove()
        if self._current is not None and self._current.whole:
            self._keep(self._current)
        self._current = None
        steps = self._steps[: self._wanted]
        if not steps:
            print(
                f"ina_recorder: nothing is recorded: the training had {self._count} steps, and the"
                f" first {self._skip} are left out (skip)",
                file=sys.stderr,
            )
            return
        self._clock.settle()
        write(self.path, self._header(steps), self._times(steps), self._members())
        if len(steps) < self._wanted:
            print(
                f"ina_recorder: {self.path} has {len(steps)} steps; the training had no more",
                file=sys.stderr,
            )

    def _members(self) -> Iterator[tuple[str, np.ndarray]]:
        rank = self._dist_rank()
        for step, values in enumerate(self._values[: self._wanted]):
            for bucket, array in enumerate(values):
                yield member_of(rank, step, bucket), array

    def _dist_rank(self) -> int:
        return int(self.path.stem.rpartition(".rank")[2])

    def _header(self, steps: list[_Step]) -> dict[str, Any]:
        device = "CPU"
        if self._device.type == "cuda":
            device = self._torch.cuda.get_device_name(self._device)
        return {
            "format": FORMAT,
            "version": VERSION,
            "script": Path(sys.argv[0]).name,
            "model": type(self._model.module).__name__,
            "torch": self._torch.__version__,
            "world": self._world,
            "ranks": [self._dist_rank()],
            "devices": [device],
            "steps": [step.number for step in steps],
            "values": self._with_values,
            "divided": self._inner == self._all_reduce,  # by the number of ranks, before the sum
            "buckets": self._buckets,
        }

    def _times(self, steps: list[_Step]) -> dict[str, np.ndarray]:
        def since(step: _Step, mark: Any) -> int:
            return self._clock.between_ns(step.start, mark)

        needed = [
            [
                self._first(step, [each["name"] for each in bucket["parameters"]])
                for bucket in self._buckets
            ]
            for step in steps
        ]
        found = {
            "needed_ns": needed,
            "ready_ns": [[since(step, mark) for mark in step.ready] for step in steps],
            "forward_end_ns": [since(step, step.forward_end) for step in steps],
            "update_start_ns": [since(step, step.update_start) for step in steps],
            "update_end_ns": [since(step, step.update_end) for step in steps],
            "next_ns": [since(step, step.next) for step in steps],
        }
        return {name: np.array([times], np.int64) for name, times in found.items()}

    def _first(self, step: _Step, names: list[str]) -> int:
        """Time at which the forward pass came to the first of some parameters."""
        modules = {name.rpartition(".")[0] for name in names}
        marks = [step.needed[module] for module in modules if module in step.needed]
        return min((self._clock.between_ns(step.start, mark) for mark in marks), default=UNKNOWN)


def attach(
    model: Any,
    path: str | Path,
    *,
    steps: int = STEPS,
    skip: int = SKIP,
    values: bool = True,
    limit_mb: float = LIMIT_MB,
) -> Recorder:
    """Record `steps` training steps of a DistributedDataParallel model after the first `skip`, this
    rank's part beside `path`. It is written after the last of them, or at the end of the process.

    values: with what is given to all-reduce; False: sizes and times alone. limit_mb: of a rank's
    values, uncompressed. All ranks call it, before the first step. Raises RecordingError."""
    if Path(path).suffix == TRACE:
        raise RecordingError(f"recording {path}: call record(), which needs no model")
    return Recorder(model, path, steps, skip, values, limit_mb)


def attach_to_first(path: str | Path, **options: Any) -> None:
    """The same for the first model that this process wraps in DistributedDataParallel."""
    from torch.nn.parallel import DistributedDataParallel

    original = DistributedDataParallel.__init__

    def wrapped(self: Any, *arguments: Any, **keys: Any) -> None:
        original(self, *arguments, **keys)
        DistributedDataParallel.__init__ = original
        attach(self, path, **options)

    DistributedDataParallel.__init__ = wrapped


# -- the recorder of a program

MAX_NODES = 1_000_000  # of a rank

# c10d's operations: the kind, and the argument that the rank gives. The one before it, or itself,
# is what the rank gets. A process group that is written in Python is called directly, by these
# methods.
OPERATIONS = {
    "allreduce_": ("all_reduce", 0, ("allreduce",)),
    "allreduce_coalesced_": ("all_reduce", 0, ("allreduce_coalesced",)),
    "reduce_scatter_": ("reduce_scatter", 1, ("reduce_scatter",)),
    "_reduce_scatter_base_": (
        *("reduce_scatter", 1),
        ("_reduce_scatter_base", "reduce_scatter_single"),
    ),
    "reduce_scatter_tensor_coalesced_": (
        *("reduce_scatter", 1),
        ("reduce_scatter_tensor_coalesced", "reduce_scatter_single_coalesced"),
    ),
    "allgather_": ("all_gather", 1, ("allgather",)),
    "_allgather_base_": ("all_gather", 1, ("_allgather_base", "all_gather_single")),
    "allgather_coalesced_": ("all_gather", 1, ("allgather_coalesced",)),
    "allgather_into_tensor_coalesced_": (
        *("all_gather", 1),
        ("allgather_into_tensor_coalesced", "all_gather_single_coalesced"),
    ),
    "broadcast_": ("broadcast", 0, ("broadcast",)),
    "reduce_": ("reduce", 0, ("reduce",)),
    "gather_": ("gather", 1, ("gather",)),
    "scatter_": ("scatter", 0, ("scatter",)),
    "alltoall_": ("all_to_all", 1, ("alltoall",)),
    "alltoall_base_": ("all_to_all", 1, ("alltoall_base", "all_to_all_single")),
    "barrier": ("barrier", None, ("barrier",)),
    "monitored_barrier_": ("barrier", None, ("monitored_barrier",)),
    "send": ("send", 0, ("send",)),
    "recv_": ("recv", 0, ("recv",)),
    "recv_any_source_": ("recv", 0, ("recv_anysource",)),
}
# C++ functions that make collectives and return when these are done.
BLOCKING = (
    ("torch.distributed", "_broadcast_coalesced"),
    ("torch.distributed", "_verify_params_across_processes"),
    ("torch.distributed.Reducer", "_rebuild_buckets"),
)
METHODS = {name: operation for operation, (_, _, names) in OPERATIONS.items() for name in names}
WAITS = ("wait", "synchronize", "block_current_stream")  # methods of a work


class _Node:
    """A node of the graph; begin, end: marks of a compute node."""

    __slots__ = ("after", "begin", "end", "given", "kind")

    def __init__(self, kind: str, after: Iterable[int], begin: Any = None, end: Any = None) -> None:
        self.kind, self.after, self.begin, self.end = kind, tuple(sorted(after)), begin, end
        self.given: dict[str, Any] = {}


class _Issued:
    """Operations that are under way: their nodes, their work, and what else they are known by."""

    def __init__(self, nodes: list[int], work: Any, keys: list[Any]) -> None:
        self.nodes, self.work, self.keys = nodes, work, keys


class _Program:
    """Records the graph of this rank's program; made by `record`.

    An operation depends on what came before its call on the same stream; what comes after a wait
    depends on what was waited for. Compute nodes are the times between, on the stream on which the
    optimizer runs; on a CPU, threads are the streams. Other streams compute nothing, they only
    order; events carry that from stream to stream. Where the C++ of a backward
    pass calls (DDP), it waits at the end of the pass."""

    def __init__(self, path: str | Path, steps: int, skip: int) -> None:
        import torch
        import torch.distributed as dist

        if steps < 1 or skip < 0:
            raise RecordingError(
                f"recording {path}: found steps {steps} and skip {skip}; allowed: steps from 1,"
                " skip from 0"
            )
        if not hasattr(dist.Work, "unbox"):
            raise RecordingError(
                f"recording {path}: PyTorch {torch.__version__} is too old; install 2.11 or later"
            )
        self._path = Path(path).absolute()
        self._torch, self._dist = torch, dist
        self._wanted, self._skip, self._count = steps, skip, 0
        self._optimizer: int | None = None  # the first one that makes a step
        self._rank, self._world = -1, 0
        self._clock = _Clock(torch.device("cpu"))
        self._device = "CPU"
        self._main = threading.get_ident()  # the stream that computes, by its number
        self._compute_stream: tuple[Any, ...] = ()  # itself, of a GPU
        self._lock = threading.RLock()
        self._own = threading.local()  # busy: this thread is in the recorder
        self._over = False
        self._groups: dict[str, list[int]] = {}
        self._watched: set[type] = set()
        self._unknown: list[Any] = []  # groups that are not recorded
        self._undo: list[Callable[[], Any]] = []
        self._begin()
        self._install()
        atexit.register(self.finish)

    def _begin(self) -> None:
        """Forget what there is."""
        self._nodes: list[_Node] = []
        self._tails: dict[int, set[int]] = {}  # of each stream: what comes next depends on these
        self._under_way: dict[Any, _Issued] = {}
        self._together: list[int] | None = None  # operations of one work
        self._blocked: list[int] | None = None  # operations of a blocking C++ function
        self._backward: list[int] = []  # operations for which the end of a backward pass waits
        self._pass = -1  # the latest backward pass with such operations
        self._since = self._mark()

    # -- where PyTorch tells what happens

    def _install(self) -> None:
        torch, dist = self._torch, self._dist
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self._undo.append(register_optimizer_step_post_hook(self._stepped).remove)
        # The last stop before the backend, on every thread and in every mode.
        key = torch._C.DispatchKeySet(torch._C.DispatchKey.BackendSelect)
        for namespace, names in (
            ("c10d", [*OPERATIONS]),
            ("_c10d_functional", ["wait_tensor"]),
        ):
            library = torch.library.Library(namespace, "IMPL")
            self._undo.append(library._destroy)
            for name in names:
                if hasattr(getattr(torch.ops, namespace), name):
                    operation = getattr(getattr(torch.ops, namespace), name).default
                    make = self._kernel if namespace == "c10d" else self._wait_kernel
                    library.impl(name, make(operation, key), "BackendSelect", with_keyset=True)
        classes = [dist.ProcessGroup]
        while classes:
            classes += (group := classes.pop()).__subclasses__()
            for name in group.__dict__.keys() & METHODS.keys():
                if group is not dist.ProcessGroup:
                    self._replace(group, name, functools.partial(self._method, METHODS[name]))
        self._watch(dist.Work)
        self._replace(dist.ProcessGroup, "_start_coalescing", self._coalescing)
        self._replace(dist.ProcessGroup, "_end_coalescing", self._coalesced)
        for owner, name in BLOCKING:
            place = dist.Reducer if owner.endswith("Reducer") else dist
            self._replace(place, name, self._blocking)
        self._replace(torch.cuda.Event, "record", self._event_record)
        self._replace(torch.cuda.Event, "wait", self._event_wait)

    def _replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        if (original := getattr(owner, name, None)) is not None:
            own = name in vars(owner)
            setattr(owner, name, functools.wraps(original)(make(original)))
            self._undo.append(
                functools.partial(setattr, owner, name, original)
                if own
                else functools.partial(delattr, owner, name)
            )

    def _watch(self, work: type) -> None:
        """Replace the methods of a class of works, once."""
        if work in self._watched:
            return
        self._watched.add(work)
        for name in WAITS:
            if name in vars(work):
                self._replace(work, name, self._wait)
        if "get_future" in vars(work):
            self._replace(work, "get_future", self._get_future)

    def _kernel(self, operation: Any, own: Any) -> Callable[..., Any]:
        """The kernel of one of c10d's operations."""
        name = operation._schema.name.partition("::")[2]
        kind, given, _ = OPERATIONS[name]
        names = [each.name for each in operation._schema.arguments]
        at = names.index("process_group")

        def kernel(keys: Any, *values: Any, **named: Any) -> Any:
            def call() -> Any:
                return operation.redispatch(keys - own, *values, **named)

            if self._passive:
                return call()
            more = dict(zip(names, values, strict=False))
            root = more.get("root_rank", more.get("dst", more.get("src")))
            options = root, more.get("tag"), more.get("input_split_sizes")
            group = self._dist.ProcessGroup.unbox(values[at])
            return self._operation(kind, group, values, given, options, call, self._work_of)

        return kernel

    def _work_of(self, result: Any) -> Any:
        boxed = result[-1] if isinstance(result, (tuple, list)) else result
        return None if boxed is None else self._dist.Work.unbox(boxed)

    def _method(self, operation: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """The same for a method of a process group that is written in Python."""
        kind, given, _ = OPERATIONS[operation]

        def method(group: Any, *values: Any, **named: Any) -> Any:
            def call() -> Any:
                return original(group, *values, **named)

            if self._passive:
                return call()
            last = values[-1] if values else named.get("opts")
            root, tag, splits = getattr(last, "rootRank", None), None, None
            if kind in ("send", "recv"):
                root = None if operation == "recv_any_source_" else values[1]
                tag = values[-1]
            elif operation == "alltoall_base_" and len(values) > 3:
                splits = values[3]
            options = root, tag, splits
            return self._operation(kind, group, values, given, options, call, self._work_itself)

        return method

    def _work_itself(self, work: Any) -> Any:
        for each in type(work).__mro__:
            self._watch(each)
        return work

    @property
    def _passive(self) -> bool:
        """True: this thread is in the recorder already, or nothing is recorded any more."""
        return self._over or getattr(self._own, "busy", False)

    def _operation(
        self,
        kind: str,
        group: Any,
        values: Sequence[Any],
        given: int | None,
        options: tuple[Any, Any, Any],
        call: Callable[[], Any],
        work_of: Callable[[Any], Any],
    ) -> Any:
        """Record an operation, and do it."""
        if len(self._nodes) > MAX_NODES:
            self._over = True
            print(
                f"ina_recorder: {self._path}: nothing is recorded: more than {MAX_NODES} operations"
                " and times between; record fewer steps",
                file=sys.stderr,
            )
            return call()
        caller = sys._getframe(1).f_back
        from_backward = self._in_backward() and (
            caller is None or caller.f_code.co_name == "_engine_run_backward"
        )
        with self._busy():
            try:
                name, ranks = self._named(group)
            except (KeyError, ValueError):
                if group not in self._unknown:
                    self._unknown.append(group)
                    print(
                        "ina_recorder: a process group that torch.distributed has not made is not"
                        " recorded",
                        file=sys.stderr,
                    )
                return call()
            place, stream = self._issue(kind, name, ranks, values, given, options)
            result = call()
            self._keep(place, stream, work_of(result), values, from_backward)
        return result

    @contextlib.contextmanager
    def _busy(self) -> Iterator[None]:
        self._own.busy = True
        try:
            yield
        finally:
            self._own.busy = False

    def _in_backward(self) -> bool:
        return bool(self._torch._C._current_graph_task_id() != -1)

    # -- the graph

    def _stream(self) -> int:
        """The current stream. Threads are those of a CPU."""
        if self._device == "CPU":
            return threading.get_ident()
        return int(self._torch.cuda.current_stream().cuda_stream)

    def _tail(self, stream: int) -> set[int]:
        return self._tails.setdefault(stream, set(self._tails.get(self._main, ())))

    def _add(self, node: _Node) -> int:
        self._nodes.append(node)
        return len(self._nodes) - 1

    def _compute(self) -> None:
        """The stream that computes comes to a call: what it did since the last one is a node."""
        now = self._mark()
        if self._blocked is None:
            tail = self._tail(self._main)
            place = self._add(_Node("compute", tail, self._since, now))
            self._tails[self._main] = {place}
        self._since = now

    def _mark(self) -> Any:
        return self._clock.mark(*self._compute_stream)

    def _then(self, stream: int, places: Iterable[int]) -> None:
        """Let the next node of a stream depend on these nodes, too."""
        tail = self._tail(stream)
        tail.update(places)
        computed = [place for place in tail if self._nodes[place].kind == "compute"]
        tail.difference_update(sorted(computed)[:-1])  # they run one after another
        tail.difference_update([each for place in tail for each in self._nodes[place].after])

    def _issue(
        self,
        kind: str,
        name: str,
        ranks: list[int],
        values: Sequence[Any],
        given: int | None,
        options: tuple[Any, Any, Any],
    ) -> tuple[int, int]:
        """A new node of an operation in this group, and its stream."""
        own = [] if given is None else [*_tensors(values[given])]
        first = next(_tensors(values[:1]), None)
        if self._device == "CPU" and first is not None and first.device.type == "cuda":
            self._use_gpu(first.device)
        on_host = first is not None and first.device.type != "cuda" and self._device != "CPU"
        stream = self._main if on_host else self._stream()
        with self._lock:
            if stream == self._main:
                self._compute()
            node = _Node(kind, self._tail(stream))
            place = self._add(node)
        sizes = [each.numel() * each.element_size() for each in own]
        size = sum(sizes) * (len(ranks) if kind == "scatter" else 1)
        node.given = {"pg_name": name, "comm_size": size}
        if own:
            node.given["dtype"] = str(own[0].dtype).removeprefix("torch.")
        root, tag, splits = options
        peer = ranks[root] if root is not None else -1
        if kind in ("send", "broadcast", "scatter"):
            node.given["comm_src"] = self._rank if kind == "send" else peer
        if kind == "recv":
            node.given["comm_src"] = peer
        if kind in ("send", "recv"):
            node.given["comm_dst"] = peer if kind == "send" else self._rank
            node.given["comm_tag"] = tag
        if kind in ("reduce", "gather"):
            node.given["comm_dst"] = peer
        if kind == "all_to_all":
            rows = splits or [1] * len(sizes)
            parts = [size * row // max(1, sum(rows)) for row in rows] if splits else sizes
            if len(set(parts)) > 1:
                node.given["comm_parts"] = parts
        return place, stream

    def _keep(
        self, place: int, stream: int, work: Any, values: Sequence[Any], from_backward: bool
    ) -> None:
        """An operation has been given to its backend."""
        with self._lock:
            if self._together is not None:
                self._together.append(place)
            elif self._blocked is not None:
                self._blocked.append(place)
            elif work is None:  # it was done on the current stream, or is done
                self._then(stream, [place])
            elif from_backward:
                self._await_backward([place])
            else:
                got = [each.untyped_storage()._cdata for each in _tensors(values[:1])]
                self._enter([place], work, got)
            if stream == self._main:
                self._since = self._mark()

    def _enter(self, places: list[int], work: Any, storages: list[int]) -> None:
        keys = [("work", id(work)), *(("storage", each) for each in storages)]
        issued = _Issued(places, work, keys)
        self._under_way.update(dict.fromkeys(keys, issued))

    def _take(self, key: tuple[str, int]) -> _Issued | None:
        """An operation under way that is waited for now."""
        with self._lock:
            issued = self._under_way.get(key)
            for each in [] if issued is None else issued.keys:
                if self._under_way.get(each) is issued:
                    del self._under_way[each]
        return issued

    def _named(self, group: Any) -> tuple[str, list[int]]:
        """The name of a group, and its ranks."""
        dist = self._dist
        if self._rank < 0:
            self._rank, self._world = dist.get_rank(), dist.get_world_size()
        ranks = dist.get_process_group_ranks(group)
        name = base = group.group_name
        if (described := group.group_desc) == "default_pg":
            name = base = "world"
        elif described not in ("", "undefined"):
            name = base = f"{described}.{base}"
        number = 1
        while self._groups.setdefault(name, ranks) != ranks:  # of another world
            number += 1
            name = f"{base}#{number}"
        return name, ranks

    def _use_gpu(self, device: Any) -> None:
        """The first tensor on a GPU has come."""
        cuda = self._torch.cuda
        with self._lock:
            self._device = cuda.get_device_name(device)
            self._clock = _Clock(device)
            self._compute_on(cuda.default_stream(device))

    def _compute_on(self, stream: Any) -> None:
        """This stream computes from now on."""
        tail = self._tails.pop(self._main, set())
        self._compute_stream, self._main = (stream,), int(stream.cuda_stream)
        self._tail(self._main).update(tail)
        self._since = self._mark()

    # -- waiting

    def _waited(self, places: Sequence[int], call: Callable[[], Any]) -> Any:
        """Wait, and note it."""
        with self._busy():
            stream = self._stream()
            with self._lock:
                if stream == self._main:
                    self._compute()
            result = call()
            with self._lock:
                self._then(stream, places)
                if stream == self._main:
                    self._since = self._mark()
        return result

    def _wait(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(work: Any, *values: Any, **named: Any) -> Any:
            issued = None if self._passive else self._take(("work", id(work)))
            if issued is None:
                return original(work, *values, **named)
            result = self._waited(issued.nodes, lambda: original(work, *values, **named))
            for place in issued.nodes:
                given = self._nodes[place].given
                if given.get("comm_src") == -1:  # a receive from any rank
                    given["comm_src"] = self._groups[given["pg_name"]][work._source_rank()]
            return result

        return wait

    def _wait_kernel(self, operation: Any, own: Any) -> Callable[..., Any]:
        """The kernel of functional collectives' wait."""

        def kernel(keys: Any, tensor: Any) -> Any:
            def call() -> Any:
                return operation.redispatch(keys - own, tensor)

            storage = tensor.untyped_storage()._cdata
            issued = None if self._passive else self._take(("storage", storage))
            return call() if issued is None else self._waited(issued.nodes, call)

        return kernel

    def _get_future(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A future that a hook of DDP makes is waited for in C++; a hook may call more when it is
        done, on a thread of the backend."""

        def get_future(work: Any) -> Any:
            known = not self._passive and (self._in_backward() or self._backward)
            if known and (issued := self._take(("work", id(work)))) is not None:
                with self._lock:
                    self._await_backward(issued.nodes)
            return original(work)

        return get_future

    def _await_backward(self, places: Sequence[int]) -> None:
        """These are waited for at the end of the backward pass that runs now."""
        task = self._torch._C._current_graph_task_id()
        if task not in (-1, self._pass):  # an earlier one may have failed before its end
            self._pass = task
            engine = self._torch.autograd.Variable._execution_engine
            engine.queue_callback(self._backward_over)
        self._backward += places

    def _backward_over(self) -> None:
        """The pass has computed everything. DDP's callback, which waits, comes after this one."""
        if self._over or not self._backward:
            return
        with self._busy():
            self._compute()
            self._torch.autograd.Variable._execution_engine.queue_callback(self._backward_waited)

    def _backward_waited(self) -> None:
        if not self._over:
            with self._busy():
                self._then(self._main, self._backward)
                self._backward = []
                self._since = self._mark()

    def _blocking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def blocking(*values: Any, **named: Any) -> Any:
            if self._passive or self._blocked is not None:
                return original(*values, **named)
            with self._busy():
                self._compute()
                self._blocked = []
            try:
                return original(*values, **named)
            finally:
                with self._busy():
                    places, self._blocked = self._blocked, None
                    self._then(self._main, places)
                    self._since = self._mark()

        return blocking

    def _coalescing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def start(*values: Any, **named: Any) -> Any:
            if not self._passive:
                self._together = []
            return original(*values, **named)

        return start

    def _coalesced(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def end(*values: Any, **named: Any) -> Any:
            work = original(*values, **named)
            places, self._together = self._together or [], None
            if places and not self._passive:
                with self._busy(), self._lock:
                    if work is None:
                        self._then(stream := self._stream(), places)
                        if stream == self._main:
                            self._since = self._mark()
                    else:
                        self._enter(places, work, [])
            return work

        return end

    def _event_record(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """An event stands for all that is on its stream."""

        def record(event: Any, stream: Any = None) -> Any:
            if not self._passive and self._device != "CPU":
                with self._busy(), self._lock:
                    of = self._stream() if stream is None else int(stream.cuda_stream)
                    if of == self._main:
                        self._compute()
                    event.ina_recorded = self._nodes, frozenset(self._tail(of))
            return original(event, stream)

        return record

    def _event_wait(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(event: Any, stream: Any = None) -> Any:
            nodes, places = getattr(event, "ina_recorded", (None, ()))
            if self._passive or nodes is not self._nodes:
                return original(event, stream)
            with self._busy(), self._lock:
                of = self._stream() if stream is None else int(stream.cuda_stream)
                if of == self._main:
                    self._compute()
                result = original(event, stream)
                self._then(of, places)
                if of == self._main:
                    self._since = self._mark()
            return result

        return wait

    # -- steps, and the end

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        """An optimizer has made a step. Those of the first one count."""
        if self._over or id(optimizer) != (self._optimizer or id(optimizer)):
            return
        self._optimizer = id(optimizer)
        self._count += 1
        with self._busy():
            if self._count == self._skip:
                if self._device == "CPU":
                    self._main = self._stream()
                else:
                    self._compute_on(self._torch.cuda.current_stream())
                self._begin()
            elif self._count == self._skip + self._wanted:
                self.finish()

    def finish(self) -> None:
        """Write this rank's part, with what there is; more than once does no harm."""
        if self._over:
            return
        atexit.unregister(self.finish)
        with self._busy():
            self._compute()
            self._over = True
            for undo in reversed(self._undo):
                undo()
            self._clock.settle()
        done = self._count - self._skip
        if self._count and done <= 0:
            print(
                f"ina_recorder: nothing is recorded: the training had {self._count} steps, and the"
                f" first {self._skip} are left out (skip)",
                file=sys.stderr,
            )
            return
        if all(node.kind == "compute" for node in self._nodes):
            print("ina_recorder: nothing is recorded: there were no collectives", file=sys.stderr)
            return
        if self._count and done < self._wanted:
            print(
                f"ina_recorder: {self._path} has {done} steps; the training had no more",
                file=sys.stderr,
            )
        self._write([self._skip, self._count - 1] if self._count else [])

    def _write(self, steps: list[int]) -> None:
        times = [
            0 if each.end is None else self._clock.between_ns(each.begin, each.end)
            for each in self._nodes
        ]
        about = {
            "script": Path(sys.argv[0]).name,
            "torch": self._torch.__version__,
            "device": self._device,
            "rank": self._rank,
            "world": self._world,
            "steps": steps,
            "groups": self._groups,
        }
        graph = [
            (each.kind, each.after, time_ns, each.given)
            for each, time_ns in zip(self._nodes, times, strict=True)
        ]
        write_trace(trace_part(self._path, self._rank), about, graph)
        # The last rank of those that write into one folder joins the parts.
        with contextlib.suppress(RecordingError, OSError):
            join_traces(self._path)


def _tensors(value: Any) -> Iterator[Any]:
    """The tensors of nested lists."""
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)
    elif hasattr(value, "untyped_storage"):
        yield value


def record(path: str | Path, *, steps: int = STEPS, skip: int = SKIP) -> _Program:
    """Record all collectives of `steps` training steps after the first `skip`; this rank's part
    beside `path`, which ends in .et. A step ends where the optimizer that is used first has made
    one; without an optimizer, all is recorded. It is written after the last step, or at the end of
    the process. All ranks call it, before their first step. Raises RecordingError."""
    if Path(path).suffix != TRACE:
        raise RecordingError(f"recording {path}: name a file that ends in {TRACE}")
    return _Program(path, steps, skip)


# -- the command


def start(path: str | Path, **options: Any) -> None:
    """Record this process from now on, into a file of the kind that its name says; options: of
    `attach` or `record`. Raises RecordingError."""
    kind = Path(path).suffix
    if kind == TRACE:
        known = ("steps", "skip")
        record(path, **{key: value for key, value in options.items() if key in known})
    elif kind == VALUES:
        attach_to_first(path, **options)
    else:
        raise RecordingError(f"{path}: name a file that ends in {VALUES} or {TRACE}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a script, and record it")
    run.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="FILE.npz: the gradients of the first DDP model; FILE.et: all collectives",
    )
    run.add_argument("--steps", type=int, default=STEPS, help="steps (default: %(default)s)")
    run.add_argument(
        "--skip", type=int, default=SKIP, help="steps before the first one (default: %(default)s)"
    )
    run.add_argument("--no-values", action="store_true", help=".npz: sizes and times alone")
    run.add_argument(
        "--limit",
        type=float,
        default=LIMIT_MB,
        metavar="MB",
        help=".npz: most values of a rank, uncompressed (default: %(default)s)",
    )
    run.add_argument("script", metavar="SCRIPT.py")
    run.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...")
    joined = commands.add_parser("join", help="make one recording of the ranks' parts")
    joined.add_argument("output", type=Path, metavar="FILE")
    joined.add_argument("parts", type=Path, nargs="*", metavar="PART.npz", help="default: beside")
    options = parser.parse_args(arguments)
    try:
        if options.command == "join":
            if options.output.suffix != TRACE:
                print(join(options.output, options.parts))
                return
            if options.parts:
                raise RecordingError(f"{options.output}: copy the parts into this folder")
            print(join_traces(options.output))
            print(summary(options.output))
            return
        start(
            options.output.absolute(),
            steps=options.steps,
            skip=options.skip,
            values=not options.no_values,
            limit_mb=options.limit,
        )
    except RecordingError as error:
        parser.exit(2, f"error: {error}\n")
    sys.argv = [options.script, *options.arguments]
    sys.path[0] = str(Path(options.script).absolute().parent)
    runpy.run_path(options.script, run_name="__main__")


if __name__ == "__main__":
    main()
