"""Recorder of a DistributedDataParallel (DDP) training: the values for all-reduce, with their
times.

This file works alone: copy it to any machine with torch and numpy. What it writes is a recording,
which the testbed replays (docs/recordings.md).

    import ina_recorder

    model = torch.nn.parallel.DistributedDataParallel(model)
    ina_recorder.attach(model, "run.npz", steps=8)

or, with a script that stays as it is:

    torchrun --nproc-per-node 4 ina_recorder.py run -o run.npz --steps 8 train.py --epochs 3

Each rank writes a part, `run.rank0.npz` and so on. Afterwards, where all parts are in one folder:

    python ina_recorder.py join run.npz

What is recorded of each step: when the forward pass first used a parameter of each bucket and when
the pass ended, when each bucket was given to all-reduce, when the optimizer began and ended, when
the next step began; and, unless `values=False`, the buckets' values. Times of a GPU are those of
its stream (CUDA events), others those of a monotonic clock. What copying values takes is not in
them.

Values are what DDP sends by default: the rank's gradient divided by the number of ranks. A
communication hook that the script registers goes on to work; the values are then those that the
hook is given.
"""

from __future__ import annotations

import argparse
import atexit
import io
import json
import lzma
import os
import runpy
import struct
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
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


# -- the recorder


class _Clock:
    """Marks in time, and the ns between two; of the processor or of a GPU's stream."""

    def __init__(self, device: Any) -> None:
        self._cuda = None
        if device.type == "cuda":
            import torch

            self._cuda = torch.cuda
        self._paused_ns = 0

    def mark(self) -> Any:
        """This moment, on a GPU when its stream comes here."""
        if self._cuda is None:
            return time.perf_counter_ns() - self._paused_ns
        event = self._cuda.Event(enable_timing=True)
        event.record()
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

    def between_ns(self, first: Any, second: Any) -> int:
        if second is None:
            return UNKNOWN
        if self._cuda is None:
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


# -- the command


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a script, and record its first DDP model")
    run.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.npz")
    run.add_argument("--steps", type=int, default=STEPS, help="steps (default: %(default)s)")
    run.add_argument(
        "--skip", type=int, default=SKIP, help="steps before the first one (default: %(default)s)"
    )
    run.add_argument("--no-values", action="store_true", help="sizes and times alone")
    run.add_argument(
        "--limit",
        type=float,
        default=LIMIT_MB,
        metavar="MB",
        help="most values of a rank, uncompressed (default: %(default)s)",
    )
    run.add_argument("script", metavar="SCRIPT.py")
    run.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...")
    joined = commands.add_parser("join", help="make one recording of the ranks' parts")
    joined.add_argument("output", type=Path, metavar="FILE.npz")
    joined.add_argument("parts", type=Path, nargs="*", metavar="PART.npz", help="default: beside")
    options = parser.parse_args(arguments)
    if options.command == "join":
        try:
            print(join(options.output, options.parts))
        except RecordingError as error:
            parser.exit(2, f"error: {error}\n")
        return
    attach_to_first(
        options.output.absolute(),
        steps=options.steps,
        skip=options.skip,
        values=not options.no_values,
        limit_mb=options.limit,
    )
    sys.argv = [options.script, *options.arguments]
    sys.path[0] = str(Path(options.script).absolute().parent)
    runpy.run_path(options.script, run_name="__main__")


if __name__ == "__main__":
    main()
