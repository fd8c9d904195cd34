"""A trace: what one training iteration of a model computes and sends, layer by layer.

The testbed replays models, it does not train them. For this it needs the list of a model's tensors
in forward order, the number of values in each, and how long the forward and backward step of each
takes. That is a small table, so a trace is a text file that a person can read, compare with diff
and write by hand: header lines `# key: value`, then comma-separated columns (docs/models.md).
Reading a trace must not slow the start of a host. So this module needs only the standard library;
numpy is loaded when a trace's float gradients are read.

One entry is one module's parameters (weight and bias together), because they become ready at the
same time. Operations without parameters are part of the entry before them: their time has to be
spent, and nothing is sent for them.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from p4fabric.base.errors import UserError, did_you_mean, sentence

from testbed import plugins
from testbed.protocols import sizes
from testbed.traffic.scaled_integers import scale_times, scale_values

if TYPE_CHECKING:
    import numpy as np

MODELS_FOLDER = Path(__file__).resolve().parent / "models"
# GPUs whose compute times the shipped traces have, and their `hardware`; `a100_v100_batch` has the
# batch sizes of the V100, and `h200` those of the A100.
GPUS = {"v100": "V100", "a100": "A100", "a100_v100_batch": "A100", "h200": "H200"}
COLUMNS = ("name", "shape", "values")
TIME_COLUMNS = ("forward_ns", "backward_ns", "update_ns")  # the last may be missing
TIMES = {
    "published": "from a publication, split over the layers by floating-point operations",
    "computed": "floating-point operations at the stated batch size divided by a stated rate",
    "measured": "measured on the stated hardware",
}
REQUIRED = ("name", "values", "times", "hardware", "source")
OPTIONAL = ("title", "batch", "sample", "gradients")
OF_GPU = ("times", "hardware", "batch")  # header keys that each GPU may have: `batch (v100)`

MAX_VALUES = 2**31 - 1  # per layer; positions are int32 on their way through the hosts
MAX_ARRAYS = 4 << 30  # bytes of float gradients
MAX_NS = 10**15  # eleven days for one layer: surely a wrong unit

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]*")
_WHOLE = re.compile(r"[0-9]{1,18}")
_SHAPE = re.compile(r"[0-9]{1,10}(?:[x+][0-9]{1,10})*")
_TIME_COLUMNS = [list(TIME_COLUMNS), list(TIME_COLUMNS[:2])]
_HEADER = re.compile(r"#\s*([A-Za-z_][A-Za-z_ -]*?)\s*(?:\(([^():]*)\)\s*)?:(.*)")


class TraceError(UserError):
    """A trace that does not exist or cannot be used. Names file, line, key and remedy."""


@dataclass(frozen=True)
class Layer:
    """One tensor: the parameters that become ready together.

    `values` is the number of gradient values sent for it. `shape` holds the shape of each parameter
    of the unscaled model (weight, then bias), so `full_values` is the size before any scaling.
    Times in ns include those operations without parameters that follow the layer. `update_ns` is
    how long the update of the parameters with the aggregated gradient takes.
    """

    name: str
    shape: tuple[tuple[int, ...], ...]
    values: int
    forward_ns: int
    backward_ns: int
    update_ns: int = 0

    @property
    def full_values(self) -> int:
        """Values of the unscaled layer."""
        return sum(math.prod(part) for part in self.shape)


@dataclass(frozen=True)
class Trace:
    """One training iteration of a model: `layers` in forward order and where the numbers come from.

    `times` is a key of `TIMES`. `hardware` says on what the times hold; times of different hardware
    do not belong into one experiment without a warning. `batch` is None where it is not known.
    `gradients` is the .npz file of kept float32 gradients, or None. `gpus` lists the GPUs whose
    times the file has (keys of `GPUS`), and `gpu` is the one whose times these are; () and None for
    a file with times of its own hardware.
    """

    name: str
    title: str
    layers: tuple[Layer, ...]
    times: str
    hardware: str
    sources: tuple[str, ...]
    path: Path
    batch: int | None = None
    sample: str = ""
    gradients: Path | None = None
    gpu: str | None = None
    gpus: tuple[str, ...] = ()
    ranks: str = ""  # of a program of ranks: the text of its source (rank_source)
    dropped: int | None = None  # of experts with a capacity: answers that tokens go without

    @cached_property
    def values(self) -> int:
        """Gradient values per worker and iteration."""
        return sum(layer.values for layer in self.layers)

    @cached_property
    def forward_ns(self) -> int:
        """Time of the whole forward pass in ns."""
        return sum(layer.forward_ns for layer in self.layers)

    @cached_property
    def backward_ns(self) -> int:
        """Time of the whole backward pass in ns."""
        return sum(layer.backward_ns for layer in self.layers)

    @cached_property
    def update_ns(self) -> int:
        """Time of the update of all parameters in ns."""
        return sum(layer.update_ns for layer in self.layers)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Values of each tensor."""
        return tuple(layer.values for layer in self.layers)

    def fragments(self, values: int) -> int:
        """Fragments per worker and iteration, with `values` values in each."""
        return sizes.fragments(self.sizes, values)

    @property
    def compute_ns(self) -> int:
        """Time of all compute steps of one iteration in ns."""
        return self.forward_ns + self.backward_ns + self.update_ns

    def scaled(self, scale: float, compute_scale: float | None = None) -> Trace:
        """The same model with fewer (or more) values and shorter (or longer) times.

        Every layer keeps at least one value, and the total is `round(scale * self.values)`, or the
        number of layers where that is larger. Layers shrink in proportion; the rounding error of a
        layer is carried to the next one. Times shrink by `compute_scale` (default: `scale`; 0 = no
        compute time at all); their totals are rounded in the same way.
        Raises TraceError unless scale > 0 and compute_scale >= 0, both finite.
        """
        compute_scale = scale if compute_scale is None else compute_scale
        if not (math.isfinite(scale) and scale > 0):
            raise TraceError(f"model {self.name}: scale is {scale}; it must be above 0")
        if not (math.isfinite(compute_scale) and compute_scale >= 0):
            raise TraceError(
                f"model {self.name}: compute_scale is {compute_scale}; it must be 0 or above"
            )
        values = scale_values([layer.values for layer in self.layers], scale)
        times = [
            scale_times([getattr(layer, name) for layer in self.layers], compute_scale)
            for name in TIME_COLUMNS
        ]
        layers = tuple(
            replace(layer, values=value, forward_ns=forward, backward_ns=backward, update_ns=update)
            for layer, value, forward, backward, update in zip(
                self.layers, values, *times, strict=True
            )
        )
        return replace(self, layers=layers)


def shipped() -> list[str]:
    """The names of the traces in traffic/models/, sorted."""
    return sorted(path.stem for path in MODELS_FOLDER.glob("*.csv"))


def named_traces() -> dict[str, Path]:
    """The traces that have a name, with their files: the shipped ones, then those of other
    packages.

    Raises UserError if a package's trace has the name of another one."""
    found = {name: MODELS_FOLDER / f"{name}.csv" for name in shipped()}
    for folder in plugins.model_folders():
        for path in sorted(folder.glob("*.csv")):
            if path.stem in found:
                raise UserError(
                    f"two models are called {path.stem}: {found[path.stem]} and {path}; rename one"
                    " or uninstall its package"
                )
            found[path.stem] = path.resolve()
    return found


def has_name(path: Path) -> bool:
    """True if a trace's file is found by its name, so that it needs no path."""
    return path.parent in (MODELS_FOLDER, *(each.resolve() for each in plugins.model_folders()))


def load_trace(
    name_or_path: str | Path, folder: str | Path | None = None, gpu: str | None = None
) -> Trace:
    """Read a shipped trace by name, or a trace file by its path.

    Anything that ends in `.csv` or has a `/` in it is a path, relative to `folder` (default: the
    working directory). Names may be written as in papers: `ResNet-50` is `resnet50`. `gpu`: whose
    times to take where the file has those of several GPUs (None: of the first one).
    Raises TraceError with everything that is wrong with the file, or if it lacks this GPU's times.
    """
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or "/" in text or text.endswith(".csv"):
        return _read(Path(folder or ".") / Path(text).expanduser(), gpu)
    traces = named_traces()
    known = {_plain(name): name for name in traces}
    if _plain(text) in known:
        return _read(traces[known[_plain(text)]], gpu)
    unknown = sentence(f"unknown model {text!r}", did_you_mean(_plain(text), known.values()))
    raise TraceError(
        f"{unknown}\n"
        f"  models: {', '.join(known.values())}\n"
        "  a trace file of your own: give its path, ending in .csv (format: docs/models.md)"
    )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _read(path: Path, gpu: str | None) -> Trace:
    from p4fabric.base.config.data_files import DataError, read_text

    if not os.path.lexists(path):
        raise TraceError(
            f"{path}: no such trace file; check the path (it is relative to the experiment file)"
        )
    try:
        text = read_text(path)
    except DataError as error:
        raise TraceError(str(error)) from None
    return _parsed(path, text, gpu)


@lru_cache(maxsize=64)  # a sweep reads the same few files for each of its points
def _parsed(path: Path, text: str, gpu: str | None) -> Trace:
    return _Reader(path, text).trace(gpu)


class _Reader:
    """Reads one file and collects its problems, so that one attempt shows every error."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.errors: list[str] = []
        self.header: dict[tuple[str, str], tuple[int, str]] = {}  # by key and GPU ("": of all)
        self.sources: list[str] = []
        self.columns: tuple[str, ...] = ()
        self.gpus: tuple[str, ...] = ()
        self.layers: list[Layer] = []  # without times
        self.times: list[list[int]] = []  # of each layer, as in the file
        self.lines_of: dict[str, int] = {}
        for number, raw in enumerate(text.split("\n"), start=1):
            line = raw.strip()
            if not line or line.startswith("##"):
                continue
            if line.startswith("#"):
                self._header_line(number, line)
            elif self.columns:
                self._layer_line(number, line)
            else:
                self._columns_line(number, line)
                if not self.columns:
                    break  # the meaning of the cells below is unknown
        else:
            if not self.lines_of and not self.errors:
                self.errors.append("no layers; write one line per tensor, in forward order")

    def _wrong(self, line: int, key: str, found: str, remedy: str) -> None:
        shown = found if len(found) <= 60 else found[:57] + "..."
        self.errors.append(f"line {line}, {key}: found {shown!r}; {remedy}")

    def _header_line(self, number: int, line: str) -> None:
        match = _HEADER.fullmatch(line)
        if not match:
            self._wrong(number, "header", line, "write '# key: value', or '## ...' for a remark")
            return
        key, gpu, value = match.group(1), match.group(2), match.group(3).strip()
        if key not in REQUIRED + OPTIONAL:
            known = REQUIRED + OPTIONAL
            remedy = sentence(did_you_mean(key, known), f"known keys: {', '.join(known)}")
            self._wrong(number, key, value, remedy)
        elif gpu is not None and key not in OF_GPU:
            keys = ", ".join(OF_GPU)
            self._wrong(number, key, f"({gpu})", f"take it out; keys of a GPU: {keys}")
        elif gpu is not None and gpu not in GPUS:
            remedy = sentence(did_you_mean(gpu, GPUS), f"GPUs: {', '.join(GPUS)}")
            self._wrong(number, key, f"({gpu})", remedy)
        elif not value:
            self._wrong(number, key, value, "write a value or take the line out")
        elif key == "source":
            self.sources.append(value)
        elif (key, gpu or "") in self.header:
            first = self.header[key, gpu or ""][0]
            self._wrong(number, key, value, f"already given in line {first}; keep one of them")
        else:
            self.header[key, gpu or ""] = (number, value)

    def _columns_line(self, number: int, line: str) -> None:
        cells = tuple(cell.strip() for cell in line.split(","))
        groups: dict[str, list[str]] = {}
        for cell in cells[len(COLUMNS) :]:
            gpu, _, name = cell.rpartition(".")
            groups.setdefault(gpu, []).append(name)
        known = set(groups) == {""} or groups and set(groups) <= set(GPUS)
        complete = all(names in _TIME_COLUMNS for names in groups.values())
        if cells[: len(COLUMNS)] == COLUMNS and known and complete:
            self.columns = cells
            self.gpus = tuple(gpu for gpu in groups if gpu)
            return
        self._wrong(
            number,
            "columns",
            line,
            f"write {','.join(COLUMNS + TIME_COLUMNS)} (the last may be left out), or these times"
            f" for each of several GPUs, as v100.forward_ns (GPUs: {', '.join(GPUS)})",
        )

    def _layer_line(self, number: int, line: str) -> None:
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(self.columns):
            expected = f"the {len(self.columns)} of {','.join(self.columns)}"
            self._wrong(number, "layer", line, f"{len(cells)} cells instead of {expected}")
            return
        name, shape_text = cells[0], cells[1]
        before = len(self.errors)
        if not _NAME.fullmatch(name):
            self._wrong(number, "name", name, "use letters, digits and _ . : / -")
        elif name in self.lines_of:
            self._wrong(number, "name", name, f"already used in line {self.lines_of[name]}; rename")
        self.lines_of.setdefault(name, number)
        values = self._whole(number, "values", cells[2], 1, MAX_VALUES, "values")
        times = [
            self._whole(number, column, cell, 0, MAX_NS, "nanoseconds")
            for column, cell in zip(self.columns[3:], cells[3:], strict=True)
        ]
        shape: tuple[tuple[int, ...], ...] = ((values,),)
        if shape_text:
            if not _SHAPE.fullmatch(shape_text):
                self._wrong(
                    number, "shape", shape_text, "write e.g. 64x3x7x7+64, or leave it empty"
                )
            else:
                shape = tuple(
                    tuple(int(side) for side in part.split("x")) for part in shape_text.split("+")
                )
                product = sum(math.prod(part) for part in shape)
                if len(self.errors) == before and product != values:
                    self._wrong(
                        number, "values", cells[2], f"shape {shape_text} has {product} values"
                    )
        if len(self.errors) == before:
            self.layers.append(Layer(name, shape, values, 0, 0))
            self.times.append(times)

    def _whole(self, line: int, key: str, text: str, low: int, high: int, unit: str) -> int:
        if not _WHOLE.fullmatch(text) or not low <= int(text) <= high:
            self._wrong(line, key, text, f"write a whole number of {unit} from {low} to {high}")
            return low
        return int(text)

    def _given(self, key: str, gpu: str = "") -> tuple[int, str] | None:
        """Line and value of a header key for a GPU: its own, or that of all."""
        return self.header.get((key, gpu)) or self.header.get((key, ""))

    def _batch(self, gpu: str) -> int | None:
        given = self._given("batch", gpu)
        return given and self._whole(given[0], "batch", given[1], 1, 10**9, "samples")

    def trace(self, gpu: str | None) -> Trace:
        """The trace with the times of this GPU, of the first one for None. Raises TraceError."""
        self._check_header()
        if self.errors:
            shown = self.errors[:20]
            more = len(self.errors) - len(shown)
            tail = f"\n  ... and {more} more" if more else ""
            lines = "".join(f"\n  {error}" for error in shown)
            raise TraceError(
                f"{self.path}: not a usable trace (format: docs/models.md){lines}{tail}"
            )
        chosen = ""
        if self.gpus:
            chosen = gpu or self.gpus[0]
            if chosen not in self.gpus:
                raise TraceError(
                    f"{self.path}: has no compute times of {chosen}; it has those of"
                    f" {', '.join(self.gpus)}. Name one of these with the key gpu"
                )
        forward, backward, update = (self._times_of(name, chosen) for name in TIME_COLUMNS)
        layers = tuple(
            replace(layer, forward_ns=f, backward_ns=b, update_ns=u)
            for layer, f, b, u in zip(self.layers, forward, backward, update, strict=True)
        )
        header = {key: value for key in REQUIRED + OPTIONAL if (value := self._given(key, chosen))}
        text = {key: value for key, (_, value) in header.items()}
        return Trace(
            name=text["name"],
            title=text.get("title", text["name"]),
            layers=layers,
            times=text["times"],
            hardware=text["hardware"],
            sources=tuple(self.sources),
            path=self.path,
            batch=self._batch(chosen),
            sample=text.get("sample", ""),
            gradients=self.path.parent / text["gradients"] if "gradients" in text else None,
            gpu=chosen or None,
            gpus=self.gpus,
        )

    def _times_of(self, name: str, gpu: str) -> list[int]:
        """One column of times of a GPU; 0 if there is none."""
        column = f"{gpu}.{name}" if gpu else name
        if column not in self.columns:
            return [0] * len(self.times)
        place = self.columns.index(column) - len(COLUMNS)
        return [times[place] for times in self.times]

    def _check_header(self) -> None:
        each = self.gpus or ("",)
        for key in REQUIRED:
            wanted = each if key in OF_GPU else ("",)
            for gpu in wanted:
                if not self._given(key, gpu) and not (key == "source" and self.sources):
                    place = f"{key} ({gpu})" if gpu else key
                    self.errors.append(f"header has no {place}; add a line '# {place}: ...'")
        for (key, gpu), (line, text) in self.header.items():
            if key == "name" and not _NAME.fullmatch(text):
                self._wrong(line, "name", text, "use letters, digits and _ . : / -")
            elif gpu and gpu not in self.gpus and self.columns:
                self._wrong(line, key, f"({gpu})", "there are no columns with its times; add them")
            elif key == "times" and text not in TIMES:
                self._wrong(line, "times", text, f"write one of {', '.join(TIMES)}")
            elif key == "batch":
                self._whole(line, "batch", text, 1, 10**9, "samples")
            elif key == "values":
                total = self._whole(line, "values", text, 1, 10**12, "values")
                found = sum(layer.values for layer in self.layers)
                if not self.errors and total != found:
                    remedy = f"the layers below have {found}; correct one of them"
                    self._wrong(line, "values", text, remedy)
            elif key == "gradients" and (
                not text.endswith(".npz") or not (self.path.parent / text).is_file()
            ):
                self._wrong(line, "gradients", text, "name an .npz file beside the trace file")


@dataclass(frozen=True)
class Gradients:
    """Kept float32 gradients of a really trained model, read with `load_gradients`.

    `values`: float32 [worker, iteration, position], the layers one after the other in forward order
    (read-only). `iterations`: int64 [iteration], the training iterations that were kept.
    `loss`: float32 [worker, iteration]. `trace` may be scaled.
    """

    trace: Trace
    values: np.ndarray
    iterations: np.ndarray
    loss: np.ndarray

    def tensor(self, worker: int, iteration: int, layer: int) -> np.ndarray:
        """The gradient of one tensor: float32 [trace.layers[layer].values].

        Worker and iteration numbers beyond the kept ones start again from 0. A layer that was
        scaled down is cut off at its length, one that was scaled up is repeated.
        """
        import numpy as np

        workers, iterations, _ = self.values.shape
        row = self.values[worker % workers, iteration % iterations]
        entry = self.trace.layers[layer]
        start = sum(each.full_values for each in self.trace.layers[:layer])
        full = row[start : start + entry.full_values]
        return full[: entry.values] if entry.values <= len(full) else np.resize(full, entry.values)


def load_gradients(trace: Trace) -> Gradients:
    """Read the float gradients of `trace` (or of a scaled copy of it).

    Raises TraceError if the trace has none or the file does not fit it.
    """
    import numpy as np
    from p4fabric.base.config.data_files import DAMAGED_ZIP, DataError, opened, require_small

    if trace.gradients is None:
        raise TraceError(
            f"model {trace.name} has no float gradients; use one that has (smallcnn), "
            "or add '# gradients: FILE.npz' to its trace file"
        )
    try:
        with opened(trace.gradients, MAX_ARRAYS) as file:
            require_small(trace.gradients, file, MAX_ARRAYS)
            archive = np.load(file, allow_pickle=False)
            values, iterations, loss = (archive[k] for k in ("gradients", "iterations", "loss"))
    except KeyError as error:
        raise TraceError(
            f"{trace.gradients}: {error.args[0]}; the file must hold gradients, iterations, loss"
        ) from None
    except DataError as error:
        raise TraceError(str(error)) from None
    except (OSError, *DAMAGED_ZIP) as error:
        raise TraceError(f"{trace.gradients}: not a readable .npz file: {error}") from None
    total = sum(layer.full_values for layer in trace.layers)
    if (
        values.dtype != np.float32
        or values.ndim != 3
        or values.shape[2] != total
        or not values.size
    ):
        raise TraceError(
            f"{trace.gradients}: gradients are {values.dtype} {values.shape}; "
            f"{trace.path} needs float32 (workers, iterations, {total})"
        )
    if iterations.shape != values.shape[1:2] or loss.shape != values.shape[:2]:
        raise TraceError(
            f"{trace.gradients}: iterations {iterations.shape} and loss {loss.shape} do not fit "
            f"gradients {values.shape}"
        )
    if not np.isfinite(values).all():
        raise TraceError(f"{trace.gradients}: some gradients are not finite; train again")
    values.flags.writeable = False
    return Gradients(trace, values, iterations.astype(np.int64), loss)
