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
import math
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
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:  # numpy: who only reads names of files does not wait for it
    import numpy as np
    from torch import Tensor
    from torch.cuda import Event, Stream
    from torch.distributed import GradBucket, ProcessGroup, Work
    from torch.futures import Future
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim import Optimizer

# The border: what is JSON, and functions of PyTorch that are passed on, whose types nothing knows.
Json: TypeAlias = dict[str, Any]
Call: TypeAlias = Callable[..., Any]
Mark: TypeAlias = "int | Event"  # a moment, of a processor's clock or on a GPU's stream
Given: TypeAlias = dict[str, "int | str | Sequence[int]"]  # attributes of a node

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


@contextlib.contextmanager
def _whole(path: Path, of: object = "") -> Iterator[Path]:
    """The path to write to; the file has its own name only once it is whole."""
    unfinished = path.with_name(f"{path.name}.unfinished{of}")
    yield unfinished
    os.replace(unfinished, path)


def _regular(path: Path, wanted: str) -> None:
    """Refuse what is no file: a FIFO would wait for a writer."""
    if path.exists() and not path.is_file():
        raise RecordingError(f"{path}: not a regular file; name {wanted}")


def _say(text: str) -> None:
    print(f"ina_recorder: {text}", file=sys.stderr)


# -- the file


def member_of(rank: int, step: int, bucket: int) -> str:
    """The member with the values that a rank gave; step and bucket by their places."""
    return f"values/{rank}/{step}/{bucket}.npy"


def write(
    path: str | Path,
    header: Json,
    times: dict[str, np.ndarray],
    values: Iterator[tuple[str, np.ndarray]],
) -> None:
    """Write a recording, under its name only once it is whole. values: members with float32 [n],
    which are stored as bytes [4, n]: the bytes of a place in all numbers side by side, since they
    are more alike than the bytes of a number."""
    with (
        _whole(Path(path)) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive,
    ):
        archive.writestr(HEADER, json.dumps(header, indent=1))
        for name in (*BUCKET_TIMES, *STEP_TIMES):
            archive.writestr(f"{name}.npy", _as_npy(times[name].astype("int64")))
        for name, array in values:
            archive.writestr(name, _as_npy(_planes(array)))


def _as_npy(array: np.ndarray) -> bytes:
    import numpy as np

    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def _planes(array: np.ndarray) -> np.ndarray:
    import numpy as np

    return np.ascontiguousarray(array.astype("<f4").view("u1").reshape(-1, 4).T)


class Archive:
    """A recording's file, open for reading. Raises RecordingError for any other file."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        _regular(self.path, "a recording")
        try:
            self._zip = zipfile.ZipFile(self.path)
        except FileNotFoundError:
            raise RecordingError(f"{path}: no such recording; check the path") from None
        except (OSError, *DAMAGED) as error:
            raise RecordingError(
                f"{path}: not a whole recording ({error}); copy or record it again"
            ) from None
        try:
            self.header = self._header()
        except RecordingError:
            self._zip.close()
            raise

    def _header(self) -> Json:
        path = self.path
        if HEADER not in self._zip.namelist():
            raise RecordingError(
                f"{path}: no recording, it has no {HEADER}; name a file that ina_recorder.py or"
                " the command record has written"
            )
        try:
            if self._zip.getinfo(HEADER).file_size > MAX_HEADER:
                raise ValueError
            header: Json = json.loads(self._read(HEADER))
            found = header["format"], header["version"]
        except (ValueError, KeyError, TypeError):
            raise RecordingError(f"{path}: {HEADER} cannot be read; record again") from None
        if found != (FORMAT, VERSION):
            raise RecordingError(
                f"{path}: found format {found[0]}, version {found[1]}; allowed: {FORMAT}, version"
                f" {VERSION}. Record again with the ina_recorder.py of this version"
            )
        return header

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

    def array(self, member: str, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
        """An array that must have this type and shape."""
        import numpy as np

        try:
            size = self._zip.getinfo(member).file_size
        except KeyError:
            size = 0
        wanted = math.prod(shape) * np.dtype(dtype).itemsize
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
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(BUCKET_TIMES, (ranks, steps, buckets))
        shapes |= dict.fromkeys(STEP_TIMES, (ranks, steps))
        return {name: self.array(f"{name}.npy", "int64", shape) for name, shape in shapes.items()}

    def values(self, rank: int, step: int, bucket: int, count: int) -> np.ndarray:
        """float32 [count] that a rank gave; step and bucket by their places."""
        planes = self.array(member_of(rank, step, bucket), "uint8", (4, count))
        return planes.T.copy().view("<f4").reshape(-1)


def bucket_values(bucket: Json) -> int:
    """Number of values in a bucket of a header."""
    return sum(math.prod(each["shape"]) for each in bucket["parameters"])


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
    with contextlib.ExitStack() as opened:
        for each in found:
            archive = opened.enter_context(Archive(each))
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
        if missing := sorted(set(range(world)) - set(archives)):
            raise RecordingError(
                f"{path}: the part of rank {missing[0]} of {world} is missing; copy"
                f" {part_of(path, missing[0]).name} to the others"
            )
        order = [archives[rank] for rank in range(world)]
        header = {**first.header, "ranks": list(range(world))}
        header["devices"] = [archive.header["devices"][0] for archive in order]
        import numpy as np

        parts_times = [archive.times() for archive in order]
        times = {
            name: np.concatenate([part[name] for part in parts_times])
            for name in (*BUCKET_TIMES, *STEP_TIMES)
        }
        write(path, header, times, _joined(header, order))
    return path


def _joined(header: Json, order: list[Archive]) -> Iterator[tuple[str, np.ndarray]]:
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
    **{"all_to_all": 6, "reduce_scatter": 7, "barrier": 9, "dispatch": 64, "combine": 65},
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
    number: int, kind: str, after: Sequence[int], duration_ns: int, given: Given
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
Graph: TypeAlias = Sequence[tuple[str, Sequence[int], int, Given]]


def write_trace(path: Path, about: Json, graph: Graph) -> None:
    """Write a rank's trace, under its name only once it is whole."""
    calls: dict[tuple[str, str], list[int]] = {}
    for kind, _, _, given in graph:
        if kind != "compute":
            entry = calls.setdefault((str(given.get("pg_name", "")), kind), [0, 0])
            entry[0] += 1
            entry[1] += given["comm_size"]  # type: ignore[operator]
    said = {
        "format": FORMAT,
        "version": VERSION,
        **about,
        "compute_ns": sum(duration_ns for _, _, duration_ns, _ in graph),
        "calls": [[*key, *entry] for key, entry in calls.items()],
    }
    with _whole(path) as unfinished, unfinished.open("wb") as file:
        metadata = proto(1, CHAKRA) + proto(2, attribute(ABOUT, json.dumps(said)))
        file.write(varint(len(metadata)) + metadata)
        for place, node in enumerate(graph):
            message = trace_node(place, *node)
            file.write(varint(len(message)) + message)


def about_trace(metadata: bytes) -> Json:
    """Description in the metadata of a trace; {} if the recorder has not written it. Raises
    ValueError."""
    for number, value in proto_fields(metadata):
        if number == 2 and isinstance(value, bytes):
            fields = dict(proto_fields(value))
            if fields.get(1) == ABOUT.encode():
                try:
                    about: Json = json.loads(fields[29])  # type: ignore[arg-type]
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
    first: Json = {}
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
    with _whole(written, os.getpid()) as unfinished:  # the last ranks may do it at one time
        unfinished.write_text(json.dumps(groups, indent=1) + "\n")
    return written


def _about_part(part: Path) -> Json:
    _regular(part, "the trace of a rank")
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


# -- what both recorders share


class _Clock:
    """Marks in time, and the ns between two; of the processor or of a GPU's stream."""

    def __init__(self, device: Any) -> None:
        self._cuda: ModuleType | None = None
        if device.type == "cuda":
            import torch

            self._cuda = torch.cuda
        self._paused_ns = 0

    def mark(self, *stream: Stream) -> Mark:
        """This moment, on a GPU when its stream comes here (default: the current one)."""
        if self._cuda is None:
            return time.perf_counter_ns() - self._paused_ns
        event: Event = self._cuda.Event(enable_timing=True)
        event.record(*stream)
        return event

    def without(self, work: Call) -> Any:
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
    def between_ns(first: Mark, second: Mark | None) -> int:
        if second is None:
            return UNKNOWN
        if isinstance(first, int):
            return max(0, second - first)
        return max(0, round(1e6 * first.elapsed_time(second)))


class _Recorder:
    """The core: the steps that are wanted, a clock, what is undone in PyTorch, and the end."""

    def __init__(self, path: Path, steps: int, skip: int) -> None:
        import torch
        import torch.distributed as dist

        if steps < 1 or skip < 0:
            raise RecordingError(
                f"recording {path}: found steps {steps} and skip {skip}; allowed: steps from 1,"
                " skip from 0"
            )
        self._path = path
        self._torch: ModuleType = torch
        self._dist: ModuleType = dist
        self._wanted, self._skip = steps, skip
        self._count = 0  # steps of the training so far
        self._clock = _Clock(torch.device("cpu"))
        self._over = False
        self._undo: list[Call] = []

    def finish(self) -> None:
        """Write this rank's part, with what there is; more than once does no harm."""
        if self._over:
            return
        atexit.unregister(self.finish)
        self._stop()
        self._over = True
        for undo in reversed(self._undo):
            undo()
        self._clock.settle()
        self._write()

    def _stop(self) -> None:
        """Take in what was going on."""
        raise NotImplementedError

    def _write(self) -> None:
        raise NotImplementedError

    def _are_enough(self, done: int) -> bool:
        """True if there are recorded steps; also say if there are fewer than wanted."""
        if done <= 0:
            _say(
                f"nothing is recorded: the training had {self._count} steps, and the first"
                f" {self._skip} are left out (skip)"
            )
        elif done < self._wanted:
            _say(f"{self._path} has {done} steps; the training had no more")
        return done > 0

    def _about(self) -> Json:
        """The beginning of every part's header."""
        return {"script": Path(sys.argv[0]).name, "torch": self._torch.__version__}


# -- the recorder of a DDP model


class _Step:
    """The marks of one step, and its values."""

    def __init__(self, number: int, start: Mark) -> None:
        self.number = number
        self.start = start
        self.needed: dict[str, Mark] = {}  # by module, in the latest forward pass
        self.ready: list[Mark] = []
        self.marks: dict[str, Mark] = {}  # by STEP_TIMES
        self.values: list[Tensor] = []
        self.whole = False  # its last bucket has been given


class Recorder(_Recorder):
    """Records some steps of a DDP model; made by `attach`."""

    def __init__(
        self,
        model: DistributedDataParallel,
        path: str | Path,
        steps: int,
        skip: int,
        values: bool,
        limit_mb: float,
    ) -> None:
        parameters = [each for each in model.module.parameters() if each.requires_grad]
        size_mb = 4e-6 * steps * sum(each.numel() for each in parameters)
        if values and size_mb > limit_mb:
            raise RecordingError(
                f"recording {path}: the values of {steps} steps are {size_mb:.0f} MB on each rank,"
                f" more than the limit of {limit_mb:g} MB; record fewer steps, no values"
                " (values=False, --no-values), or raise the limit (limit_mb, --limit)"
            )
        super().__init__(Path(path), steps, skip)
        self._rank = self._dist.get_rank(model.process_group)
        self._world = self._dist.get_world_size(model.process_group)
        self._path = part_of(path, self._rank)
        self._model, self._with_values = model, values
        self._device = parameters[0].device
        self._clock = _Clock(self._device)
        self._names = {id(each): name for name, each in model.module.named_parameters()}
        self._buckets: list[Json] = []
        self._steps: list[_Step] = []
        self._current: _Step | None = None
        self._inner: Call = self._all_reduce
        self._inner_state: object = None
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
        handles = [
            model.register_forward_pre_hook(self._before_forward),
            model.register_forward_hook(self._after_forward),
            register_optimizer_step_pre_hook(self._before_update),
            register_optimizer_step_post_hook(self._after_update),
        ]
        for name, module in model.module.named_modules():
            if next(module.parameters(recurse=False), None) is not None:
                used = functools.partial(self._first_use, name)
                handles.append(module.register_forward_pre_hook(used))
        self._undo += [handle.remove for handle in handles]

    def _set_inner(self, state: object, hook: Call) -> None:
        self._inner, self._inner_state = hook, state

    # -- what happens in a step

    def _before_forward(self, *_: object) -> None:
        if self._over or not self._torch.is_grad_enabled() or not self._model.training:
            return
        step = self._current
        if step is not None and not step.whole:
            step.needed.clear()  # gradients are accumulated over several passes
            return
        if step is not None:
            step.marks["next_ns"] = self._clock.mark()
            self._keep(step)
        if len(self._steps) == self._wanted:
            self.finish()
            return
        self._count += 1
        if self._count > self._skip:
            self._current = _Step(self._count - 1, self._clock.mark())

    def _first_use(self, name: str, *_: object) -> None:
        step = self._current
        if step is not None and not step.ready and name not in step.needed:
            step.needed[name] = self._clock.mark()

    def _after_forward(self, *_: object) -> None:
        if self._current is not None and not self._current.ready:
            self._current.marks["forward_end_ns"] = self._clock.mark()

    def _before_update(self, *_: object) -> None:
        step = self._current
        if step is not None and step.whole and "update_start_ns" not in step.marks:
            step.marks["update_start_ns"] = self._clock.mark()

    def _after_update(self, *_: object) -> None:
        if self._current is not None and "update_start_ns" in self._current.marks:
            self._current.marks["update_end_ns"] = self._clock.mark()

    def _hook(self, _: object, bucket: GradBucket) -> Future:
        buffer = bucket.buffer()
        if self._inner == self._all_reduce:
            buffer.div_(self._world)
        step = self._current
        if step is not None and not step.whole:
            self._note(step, bucket, buffer)
        return self._inner(self._inner_state, bucket)

    def _all_reduce(self, _: object, bucket: GradBucket) -> Future:
        """All-reduce that DDP does without a hook. The division comes before, since the recording
        holds the values that are given to it."""
        work = self._dist.all_reduce(
            bucket.buffer(), group=self._model.process_group, async_op=True
        )
        return work.get_future().then(lambda future: future.value()[0])

    def _note(self, step: _Step, bucket: GradBucket, buffer: Tensor) -> None:
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
            self._steps.clear()
            self._buckets[place:] = [described]
        if self._with_values:
            step.values.append(self._clock.without(buffer.detach().clone))
        if bucket.is_last():
            del self._buckets[place + 1 :]
            step.whole = True

    def _keep(self, step: _Step) -> None:
        """A step is over. Its values leave the GPU now, between two steps."""
        self._current = None
        if len(step.ready) == len(self._buckets):  # or it began before they were ordered anew
            step.values = [each.float().cpu() for each in step.values]
            self._steps.append(step)

    # -- the end

    def _stop(self) -> None:
        if self._current is not None and self._current.whole:
            self._keep(self._current)
        self._current = None
        del self._steps[self._wanted :]

    def _write(self) -> None:
        if self._are_enough(len(self._steps)):
            write(self._path, self._header(), self._times(), self._members())

    def _members(self) -> Iterator[tuple[str, np.ndarray]]:
        for place, step in enumerate(self._steps):
            for bucket, array in enumerate(step.values):
                yield member_of(self._rank, place, bucket), array.numpy()

    def _header(self) -> Json:
        device = "CPU"
        if self._device.type == "cuda":
            device = self._torch.cuda.get_device_name(self._device)
        return {
            "format": FORMAT,
            "version": VERSION,
            **self._about(),
            "model": type(self._model.module).__name__,
            "world": self._world,
            "ranks": [self._rank],
            "devices": [device],
            "steps": [step.number for step in self._steps],
            "values": self._with_values,
            "divided": self._inner == self._all_reduce,  # by the number of ranks, before the sum
            "buckets": self._buckets,
        }

    def _times(self) -> dict[str, np.ndarray]:
        import numpy as np

        between, steps = self._clock.between_ns, self._steps
        modules = [
            {each["name"].rpartition(".")[0] for each in bucket["parameters"]}
            for bucket in self._buckets
        ]
        found: dict[str, list[Any]] = {
            name: [between(step.start, step.marks.get(name)) for step in steps]
            for name in STEP_TIMES
        }
        found["ready_ns"] = [[between(step.start, mark) for mark in step.ready] for step in steps]
        # When the forward pass came to the first of a bucket's parameters.
        found["needed_ns"] = [
            [
                min(
                    (between(step.start, step.needed[each]) for each in names & {*step.needed}),
                    default=UNKNOWN,
                )
                for names in modules
            ]
            for step in steps
        ]
        return {name: np.array([times], np.int64) for name, times in found.items()}


def attach(
    model: DistributedDataParallel,
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

    def wrapped(self: DistributedDataParallel, *arguments: object, **keys: object) -> None:
        original(self, *arguments, **keys)
        DistributedDataParallel.__init__ = original
        attach(self, path, **options)

    DistributedDataParallel.__init__ = wrapped


# -- the recorder of a program

MAX_NODES = 1_000_000  # of a rank

# c10d's operations: the kind, and the argument that the rank gives. The one before it, or itself,
# is what the rank gets. A process group that is written in Python is called directly, by these
# methods.
OPERATIONS: dict[str, tuple[str, int | None, str]] = {
    "allreduce_": ("all_reduce", 0, "allreduce"),
    "allreduce_coalesced_": ("all_reduce", 0, "allreduce_coalesced"),
    "reduce_scatter_": ("reduce_scatter", 1, "reduce_scatter"),
    "_reduce_scatter_base_": ("reduce_scatter", 1, "_reduce_scatter_base reduce_scatter_single"),
    "reduce_scatter_tensor_coalesced_": (
        *("reduce_scatter", 1),
        "reduce_scatter_tensor_coalesced reduce_scatter_single_coalesced",
    ),
    "allgather_": ("all_gather", 1, "allgather"),
    "_allgather_base_": ("all_gather", 1, "_allgather_base all_gather_single"),
    "allgather_coalesced_": ("all_gather", 1, "allgather_coalesced"),
    "allgather_into_tensor_coalesced_": (
        *("all_gather", 1),
        "allgather_into_tensor_coalesced all_gather_single_coalesced",
    ),
    "broadcast_": ("broadcast", 0, "broadcast"),
    "reduce_": ("reduce", 0, "reduce"),
    "dispatch": ("dispatch", 0, "dispatch"),  # of the testbed's backend alone, as the next one
    "combine": ("combine", 0, "combine"),
    "gather_": ("gather", 1, "gather"),
    "scatter_": ("scatter", 0, "scatter"),
    "alltoall_": ("all_to_all", 1, "alltoall"),
    "alltoall_base_": ("all_to_all", 1, "alltoall_base all_to_all_single"),
    "barrier": ("barrier", None, "barrier"),
    "monitored_barrier_": ("barrier", None, "monitored_barrier"),
    "send": ("send", 0, "send"),
    "recv_": ("recv", 0, "recv"),
    "recv_any_source_": ("recv", 0, "recv_anysource"),
}
METHODS = {each: name for name, (_, _, methods) in OPERATIONS.items() for each in methods.split()}
# C++ functions that make collectives and return when these are done.
BLOCKING = (
    ("torch.distributed", "_broadcast_coalesced"),
    ("torch.distributed", "_verify_params_across_processes"),
    ("torch.distributed.Reducer", "_rebuild_buckets"),
)
WAITS = ("wait", "synchronize", "block_current_stream")  # methods of a work


class _Node:
    """A node of the graph; begin, end: marks of a compute node."""

    __slots__ = ("after", "begin", "end", "given", "kind")

    def __init__(
        self, kind: str, after: Iterable[int], begin: Mark = 0, end: Mark | None = None
    ) -> None:
        self.kind, self.after, self.begin, self.end = kind, tuple(sorted(after)), begin, end
        self.given: Given = {}

    def duration_ns(self, clock: _Clock) -> int:
        return 0 if self.end is None else clock.between_ns(self.begin, self.end)


class _Issued:
    """Operations that are under way: their nodes, their work, and what else they are known by."""

    def __init__(self, nodes: list[int], work: Work, keys: list[tuple[str, int]]) -> None:
        self.nodes, self.work, self.keys = nodes, work, keys


class _Program(_Recorder):
    """Records the graph of this rank's program; made by `record`.

    An operation depends on what came before its call on the same stream; what comes after a wait
    depends on what was waited for. Compute nodes are the times between, on the stream on which the
    optimizer runs; on a CPU, threads are the streams. Other streams compute nothing, they only
    order; events carry that from stream to stream. Where the C++ of a backward
    pass calls (DDP), it waits at the end of the pass."""

    def __init__(self, path: str | Path, steps: int, skip: int) -> None:
        super().__init__(Path(path).absolute(), steps, skip)
        if not hasattr(self._dist.Work, "unbox"):
            version = self._torch.__version__
            raise RecordingError(
                f"recording {path}: PyTorch {version} is too old; install 2.11 or later"
            )
        self._optimizer: int | None = None  # the first one that makes a step
        self._rank, self._world = -1, 0
        self._device = "CPU"
        self._main = threading.get_ident()  # the stream that computes, by its number
        self._compute_stream: tuple[Stream, ...] = ()  # itself, of a GPU
        self._lock = threading.RLock()
        self._own = threading.local()  # busy: this thread is in the recorder
        self._groups: dict[str, list[int]] = {}
        self._watched: set[type] = set()
        self._unknown: list[ProcessGroup] = []  # groups that are not recorded
        self._begin()
        self._install()
        atexit.register(self.finish)

    def _begin(self) -> None:
        """Forget what there is."""
        self._nodes: list[_Node] = []
        self._tails: dict[int, set[int]] = {}  # of each stream: what comes next depends on these
        self._under_way: dict[tuple[str, int], _Issued] = {}
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

    def _replace(self, owner: object, name: str, watch: Call) -> None:
        """Let `watch` do what a function does, unless the recorder is passive. It gets the original
        call, then the arguments."""
        original = getattr(owner, name, None)
        if original is None:
            return

        @functools.wraps(original)
        def watched(*values: object, **named: object) -> object:
            call = functools.partial(original, *values, **named)
            return call() if self._passive else watch(call, *values, **named)

        undo = functools.partial(delattr, owner, name)
        if name in vars(owner):
            undo = functools.partial(setattr, owner, name, original)
        self._undo.append(undo)
        setattr(owner, name, watched)

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

    def _kernel(self, operation: Any, own: Any) -> Call:
        """The kernel of one of c10d's operations."""
        kind, given, _ = OPERATIONS[operation._schema.name.partition("::")[2]]
        names = [each.name for each in operation._schema.arguments]
        at = names.index("process_group")

        def kernel(keys: Any, *values: Any, **named: object) -> object:
            call = functools.partial(operation.redispatch, keys - own, *values, **named)
            if self._passive:
                return call()
            more = dict(zip(names, values, strict=False))
            root = more.get("root_rank", more.get("dst", more.get("src")))
            options = root, more.get("tag"), more.get("input_split_sizes")
            group = self._dist.ProcessGroup.unbox(values[at])
            return self._operation(kind, group, values, given, options, call, self._work_of)

        return kernel

    def _work_of(self, result: Any) -> Work | None:
        boxed = result[-1] if isinstance(result, (tuple, list)) else result
        return None if boxed is None else self._dist.Work.unbox(boxed)

    def _method(
        self, operation: str, call: Call, group: ProcessGroup, *values: Any, **named: object
    ) -> object:
        """The same for a method of a process group that is written in Python."""
        kind, given, _ = OPERATIONS[operation]
        last = values[-1] if values else named.get("opts")
        root, tag, splits = getattr(last, "rootRank", None), None, None
        if kind in ("send", "recv"):
            root = None if operation == "recv_any_source_" else values[1]
            tag = values[-1]
        elif operation == "alltoall_base_" and len(values) > 3:
            splits = values[3]
        options = root, tag, splits
        return self._operation(kind, group, values, given, options, call, self._work_itself)

    def _work_itself(self, work: Work) -> Work:
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
        group: ProcessGroup,
        values: Sequence[object],
        given: int | None,
        options: tuple[Any, Any, Any],
        call: Call,
        work_of: Callable[[Any], Work | None],
    ) -> object:
        """Record an operation, and do it. options: the root or the other end, the tag, and the
        sizes of the parts."""
        if len(self._nodes) > MAX_NODES:
            self._over = True
            _say(
                f"{self._path}: nothing is recorded: more than {MAX_NODES} operations and times"
                " between; record fewer steps"
            )
            return call()
        caller = sys._getframe(1)
        while caller is not None and caller.f_globals is globals():
            caller = caller.f_back  # type: ignore[assignment]
        from_backward = self._in_backward() and (
            caller is None or caller.f_code.co_name == "_engine_run_backward"
        )
        with self._busy():
            try:
                name, ranks = self._named(group)
            except (KeyError, ValueError):
                if group not in self._unknown:
                    self._unknown.append(group)
                    _say("a process group that torch.distributed has not made is not recorded")
                return call()
            own = [] if given is None else [*_tensors(values[given])]
            got = [*_tensors(values[:1])]
            stream = self._stream_of(got)
            with self._lock:
                if stream == self._main:
                    self._compute()
                place = self._add(_Node(kind, self._tail(stream)))
            self._nodes[place].given = {"pg_name": name, **self._given(kind, ranks, own, options)}
            result = call()
            with self._lock:
                self._issued(place, stream, work_of(result), got, from_backward)
                self._resume(stream)
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

    def _stream(self, stream: Stream | None = None) -> int:
        """The number of a stream (default: the current one). Threads are those of a CPU."""
        if self._device == "CPU":
            return threading.get_ident()
        stream = self._torch.cuda.current_stream() if stream is None else stream
        return int(stream.cuda_stream)

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

    def _mark(self) -> Mark:
        return self._clock.mark(*self._compute_stream)

    @contextlib.contextmanager
    def _noted(self, stream: int) -> Iterator[None]:
        """In the recorder: what this stream has computed is a node, and it computes on after it."""
        with self._busy():
            with self._lock:
                if stream == self._main:
                    self._compute()
            yield
            self._resume(stream)

    def _resume(self, stream: int) -> None:
        if stream == self._main:
            self._since = self._mark()

    def _then(self, stream: int, places: Iterable[int]) -> None:
        """Let the next node of a stream depend on these nodes, too."""
        with self._lock:
            tail = self._tail(stream)
            tail.update(places)
            computed = [place for place in tail if self._nodes[place].kind == "compute"]
            tail.difference_update(sorted(computed)[:-1])  # they run one after another
            tail.difference_update([each for place in tail for each in self._nodes[place].after])

    def _stream_of(self, tensors: list[Tensor]) -> int:
        """The number of the stream of an operation with these tensors."""
        on_gpu = [each.device.type == "cuda" for each in tensors[:1]]
        if self._device == "CPU" and any(on_gpu):
            self._use_gpu(tensors[0].device)
        on_host = self._device != "CPU" and not all(on_gpu)
        return self._main if on_host else self._stream()

    def _given(
        self, kind: str, ranks: list[int], own: list[Tensor], options: tuple[Any, Any, Any]
    ) -> Given:
        """Attributes of an operation; own: what the rank gives."""
        sizes = [each.numel() * each.element_size() for each in own]
        size = sum(sizes) * (len(ranks) if kind == "scatter" else 1)
        given: Given = {"comm_size": size}
        if own:
            given["dtype"] = str(own[0].dtype).removeprefix("torch.")
        root, tag, splits = options
        peer = ranks[root] if root is not None else -1
        if kind in ("send", "recv"):
            ends = (self._rank, peer) if kind == "send" else (peer, self._rank)
            given |= zip(ENDS, (*ends, tag), strict=True)
        elif kind in ("broadcast", "scatter", "dispatch"):
            given["comm_src"] = peer
        elif kind in ("reduce", "gather", "combine"):
            given["comm_dst"] = peer
        elif kind == "all_to_all":
            rows = splits or [1] * len(sizes)
            parts = [size * row // max(1, sum(rows)) for row in rows] if splits else sizes
            if len(set(parts)) > 1:
                given["comm_parts"] = parts
        return given

    def _issued(
        self, place: int, stream: int, work: Work | None, got: list[Tensor], from_backward: bool
    ) -> None:
        """An operation has been given to its backend."""
        if self._together is not None:
            self._together.append(place)
        elif self._blocked is not None:
            self._blocked.append(place)
        elif work is None:  # it was done on the current stream, or is done
            self._then(stream, [place])
        elif from_backward:
            self._await_backward([place])
        else:
            self._enter([place], work, [each.untyped_storage()._cdata for each in got])

    def _enter(self, places: list[int], work: Work, storages: list[int]) -> None:
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

    def _named(self, group: ProcessGroup) -> tuple[str, list[int]]:
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

    def _compute_on(self, stream: Stream) -> None:
        """This stream computes from now on."""
        tail = self._tails.pop(self._main, set())
        self._compute_stream, self._main = (stream,), int(stream.cuda_stream)
        self._tail(self._main).update(tail)
        self._since = self._mark()

    # -- waiting

    def _waited(self, places: Sequence[int], call: Call) -> object:
        """Wait, and note it."""
        stream = self._stream()
        with self._noted(stream):
            result = call()
            self._then(stream, places)
        return result

    def _wait(self, call: Call, work: Any, *_: object, **__: object) -> object:
        issued = self._take(("work", id(work)))
        if issued is None:
            return call()
        result = self._waited(issued.nodes, call)
        for place in issued.nodes:
            given = self._nodes[place].given
            if given.get("comm_src") == -1:  # a receive from any rank
                given["comm_src"] = self._groups[str(given["pg_name"])][work._source_rank()]
        return result

    def _wait_kernel(self, operation: Any, own: Any) -> Call:
        """The kernel of functional collectives' wait."""

        def kernel(keys: Any, tensor: Tensor) -> object:
            call = functools.partial(operation.redispatch, keys - own, tensor)
            storage = tensor.untyped_storage()._cdata
            issued = None if self._passive else self._take(("storage", storage))
            return call() if issued is None else self._waited(issued.nodes, call)

        return kernel

    def _get_future(self, call: Call, work: Work) -> object:
        """A future that a hook of DDP makes is waited for in C++; a hook may call more when it is
        done, on a thread of the backend."""
        known = self._in_backward() or self._backward
        if known and (issued := self._take(("work", id(work)))) is not None:
            with self._lock:
                self._await_backward(issued.nodes)
        return call()

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
                self._resume(self._main)

    def _blocking(self, call: Call, *_: object, **__: object) -> object:
        if self._blocked is not None:
            return call()
        with self._busy():
            self._compute()
            self._blocked = []
        try:
            return call()
        finally:
            with self._busy():
                places, self._blocked = self._blocked, None
                self._then(self._main, places)
                self._resume(self._main)

    def _coalescing(self, call: Call, *_: object, **__: object) -> object:
        self._together = []
        return call()

    def _coalesced(self, call: Call, *_: object, **__: object) -> object:
        work = call()
        places, self._together = self._together or [], None
        if places and not self._passive:
            with self._busy(), self._lock:
                stream = self._stream()
                if work is None:
                    self._then(stream, places)
                    self._resume(stream)
                else:
                    self._enter(places, work, [])
        return work

    def _event_record(self, call: Call, event: Event, stream: Stream | None = None) -> object:
        """An event stands for all that is on its stream."""
        if self._device != "CPU":
            with self._busy(), self._lock:
                of = self._stream(stream)
                if of == self._main:
                    self._compute()
                event.ina_recorded = self._nodes, frozenset(self._tail(of))
        return call()

    def _event_wait(self, call: Call, event: Event, stream: Stream | None = None) -> object:
        nodes, places = getattr(event, "ina_recorded", (None, ()))
        if nodes is not self._nodes:
            return call()
        of = self._stream(stream)
        with self._noted(of):
            result = call()
            self._then(of, places)
        return result

    # -- steps, and the end

    def _stepped(self, optimizer: Optimizer, *_: object) -> None:
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

    def _stop(self) -> None:
        with self._busy():
            self._compute()

    def _write(self) -> None:
        if self._count and self._count <= self._skip:
            self._are_enough(0)
        elif all(node.kind == "compute" for node in self._nodes):
            _say("nothing is recorded: there were no collectives")
        elif not self._count or self._are_enough(self._count - self._skip):
            self._write_part([self._skip, self._count - 1] if self._count else [])

    def _write_part(self, steps: list[int]) -> None:
        about = {
            **self._about(),
            "device": self._device,
            "rank": self._rank,
            "world": self._world,
            "steps": steps,
            "groups": self._groups,
        }
        graph = [
            (each.kind, each.after, each.duration_ns(self._clock), each.given)
            for each in self._nodes
        ]
        write_trace(trace_part(self._path, self._rank), about, graph)
        # The last rank of those that write into one folder joins the parts.
        with contextlib.suppress(RecordingError, OSError):
            join_traces(self._path)


def _tensors(value: object) -> Iterator[Tensor]:
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
