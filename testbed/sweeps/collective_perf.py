"""Times of single collectives over size, for systems and algorithms: what `ina perf` measures.

Each point is an experiment of its own, in some repetitions: a job whose ranks begin a call at the
same time, after calls that warm windows and timers up and do not count. The time of the call is
that of the last rank. (nccl-tests make calls back to back and give the mean of all ranks. Then a
rank that is done early begins the next call before the others, and small calls seem to take less
time than a packet needs.)
"""

from __future__ import annotations

import math
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml
from p4fabric.base import units
from p4fabric.base.config.fields import kind_of
from p4fabric.base.config.link_settings import LinkSettings
from p4fabric.base.config.units import FieldError
from p4fabric.base.errors import RunError, UserError, did_you_mean, sentence
from rich.console import Console

from testbed import results
from testbed.algorithms.bounds import busbw_factor
from testbed.collective_kinds import COLLECTIVES
from testbed.experiment import Experiment, load_text
from testbed.runner import carry_out
from testbed.schemes import set_up
from testbed.setup.call_times import CallTime, call_time
from testbed.systems import SYSTEMS
from testbed.traffic import chakra
from testbed.traffic.rank_graph import COMPUTE, NOBODY, Node, Program

GROUP = "all"
AUTO = "auto"  # in place of a system: whichever takes the least time in the alpha-beta model
CANDIDATES = ("switchml", "ring", "halving_doubling", "double_tree")  # if no others are named
VALUE_BYTES = 4
# A call begins after PAUSES times the least time of the one before, and this.
PAUSES = 20
PAUSE_NS = {"virtual": 10**6, "mininet": 3 * 10**8}

EXPERIMENT = """
name: perf
runtime: %(runtime)s
topology: %(topology)s
links: {bandwidth: %(rate)s, delay: %(delay)s, loss: %(loss)s, queue: %(queue)s}
system: %(system)s
%(memory)s
%(costs)s
values_per_packet: %(values)d
repetitions: %(iterations)d
jobs:
  - {name: perf, model: %(model)s, workers: %(ranks)d, iterations: 1}
"""


@dataclass(frozen=True)
class Setting:
    """Setting of all points. topology: as an experiment says it; "": a star. costs: a profile,
    likewise; "": none is named."""

    collective: str
    ranks: int
    runtime: str = "virtual"
    topology: str = ""
    rate: str = "100 Gbit/s"
    delay: str = "1 us"
    loss: str = "0"
    queue: str = "1000 packets"
    values: int = 256
    iterations: int = 3
    warmup: int = 1
    aggregators: int = 65_536
    costs: str = ""


@dataclass(frozen=True)
class Point:
    """A measurement. size: bytes of the whole array, of all ranks' parts together where they have
    parts. count: values of an array, or of a part. time_ns: of a call; NaN if a value was wrong.
    wrong: how many were, 0 or 1, since the first one ends a run. chosen: what carried it, where
    `system` is AUTO."""

    system: str
    title: str
    collective: str
    ranks: int
    size: int
    count: int
    time_ns: float
    wrong: int
    bound: CallTime
    chosen: str = ""

    @property
    def redop(self) -> str:
        return "sum" if COLLECTIVES[self.collective].sums else "none"

    @property
    def algbw(self) -> float:
        """Bytes per ns, which is GB/s."""
        return self.size / self.time_ns

    @property
    def busbw(self) -> float:
        return self.algbw * busbw_factor(self.collective, self.ranks)

    @property
    def over_bound(self) -> float:
        return self.time_ns / self.bound.least_ns if self.bound.least_ns else math.nan


def check(setting: Setting, systems: Sequence[str]) -> None:
    """Raises UserError for a system or a link that cannot be."""
    for system in systems:
        allowed = (*SYSTEMS, AUTO)
        name = system if system == AUTO else name_of(system)
        if name not in allowed:
            wrong = f"--system: found {name!r}; allowed: {', '.join(allowed)}"
            raise UserError(sentence(wrong, did_you_mean(name, allowed)))
    for option, key in (("rate", "bandwidth_bps"), ("delay", "delay_ns"), ("loss", "loss")):
        kind, given = kind_of(LinkSettings.model_fields[key]), getattr(setting, option)
        assert kind is not None
        try:
            kind.parse(0 if given == "0" else given)
        except FieldError as error:
            wrong = f"--{option}: found {error.found}; allowed: {error.allowed}"
            raise UserError(sentence(wrong, error.hint)) from None


def systems_of(text: str) -> list[str]:
    """Systems with commas between them, each as an experiment says it: NAME, or with options
    "{name: NAME, ...}"."""
    return [each.strip() for each in re.split(r",(?![^{]*\})", text)]


def name_of(system: str) -> str:
    """The name of a system that may have options. Raises UserError."""
    if not system.startswith("{"):
        return system
    try:
        return str(yaml.safe_load(system)["name"])
    except (yaml.YAMLError, KeyError, TypeError):
        form = "{name: SYSTEM, OPTION: VALUE, ...}"
        raise UserError(f"--system: found {system!r}; allowed: NAME, or {form}") from None


def sizes_of(text: str) -> list[int]:
    """Sizes in bytes of MIN:MAX:FACTOR, or of single ones with commas between them; K, M and G are
    powers of 1024. Raises UserError."""
    try:
        if ":" not in text:
            return [_bytes(each) for each in text.split(",")]
        first, last, factor = text.split(":")
        size, most, times = _bytes(first), _bytes(last), float(factor)
        if times <= 1 or size > most:
            raise ValueError
    except ValueError:
        raise UserError(
            f"--sizes: found {text!r}; allowed: MIN:MAX:FACTOR, such as 1K:64M:2, or sizes with"
            " commas between them, such as 4K,48K,1M"
        ) from None
    found = []
    while size <= most:
        found.append(size)
        size = max(size + 1, round(size * times))
    return found


def _bytes(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    word = text.strip().upper().removesuffix("B").removesuffix("I")
    unit = units.get(word[-1:], 1)
    found = round(float(word[:-1] if unit > 1 else word) * unit)
    if found < 1:
        raise ValueError
    return found


def measure(
    setting: Setting, systems: Sequence[str], sizes: Sequence[int], console: Console
) -> Iterator[Point]:
    """One point after the other, sizes of a system in turn. Raises UserError and RunError."""
    candidates = [name for name in systems if name != AUTO] or CANDIDATES
    known: dict[tuple[str, int], Point] = {}
    with tempfile.TemporaryDirectory(prefix="ina-perf-") as folder:
        for system in systems:  # an option that cannot be is an error at once
            if system != AUTO:
                _bound(setting, system, sizes[0], Path(folder))
        for system in systems:
            for size in sizes:
                carries, at = system, Path(folder)
                if system == AUTO:
                    carries = min(
                        candidates, key=lambda name: _bound(setting, name, size, at).model_ns
                    )
                if (carries, size) not in known:
                    known[carries, size] = _point(setting, carries, size, at, console)
                point = known[carries, size]
                if system == AUTO:
                    point = replace(point, system=AUTO, title="auto", chosen=carries)
                yield point


def _counts(setting: Setting, size: int) -> tuple[int, int, int]:
    """Values of an array or of a part, of all parts together, and what a rank gives."""
    kind, ranks = COLLECTIVES[setting.collective], setting.ranks
    count = whole = max(1, size // VALUE_BYTES)
    if kind.parts:
        count = max(1, count // ranks)
        whole = count * ranks
    return count, whole, kind.given_size(whole, ranks)


def _bound(setting: Setting, system: str, size: int, folder: Path) -> CallTime:
    *_, given = _counts(setting, size)
    experiment = _of(setting, system, VALUE_BYTES * given, folder / f"{size}.et", 0)
    return call_time(set_up(experiment), 0, setting.warmup + 1)


def _point(setting: Setting, system: str, size: int, folder: Path, console: Console) -> Point:
    collective, ranks = setting.collective, setting.ranks
    count, whole, given = _counts(setting, size)
    model = folder / f"{size}.et"
    bound = _bound(setting, system, size, folder)
    pause_ns = PAUSES * bound.model_ns + PAUSE_NS[setting.runtime]
    experiment = _of(setting, system, VALUE_BYTES * given, model, pause_ns)
    made = folder / "run"
    time_ns, wrong = math.nan, 0
    try:
        time_ns = _time_ns(carry_out(experiment, made, (), console))
    except RunError as error:
        if not str(error).startswith("wrong value"):
            raise
        wrong = 1
    shutil.rmtree(made, ignore_errors=True)
    title = system if system.startswith("{") else SYSTEMS[system].title
    size = VALUE_BYTES * whole
    return Point(system, title, collective, ranks, size, count, time_ns, wrong, bound)


def experiment_of(setting: Setting, system: str, model: Path) -> Experiment:
    """The experiment of a point. model: its program. Raises UserError."""
    entry = SYSTEMS[name_of(system)]
    hosts = setting.ranks + 1
    keys = {name: getattr(setting, name) for name in ("runtime", "rate", "delay", "loss", "queue")}
    return load_text(
        EXPERIMENT
        % {
            **keys,
            "topology": setting.topology or f"{{kind: star, hosts: {hosts}}}",
            "system": system,
            "memory": f"memory: {{aggregators: {setting.aggregators}}}" if entry.memory else "",
            "costs": f"costs: {setting.costs}" if setting.costs else "",
            "values": setting.values,
            "model": model,
            "ranks": setting.ranks,
            "iterations": setting.iterations,
        }
    )


def _of(setting: Setting, system: str, size: int, model: Path, pause_ns: int) -> Experiment:
    """The experiment of a point with its program, which is written. size: what a rank gives."""
    path = model.with_stem(f"{model.stem}-{pause_ns}")  # what has been read is not read again
    _write(setting, size, path, pause_ns)
    return experiment_of(setting, system, path)


def _write(setting: Setting, size: int, model: Path, pause_ns: int) -> None:
    """Write the program: each rank computes for the pause, call after call, and begins a call when
    that is over. So all ranks begin it at the same time. size: what a rank gives."""
    root = 0 if COLLECTIVES[setting.collective].rooted else NOBODY
    nodes: list[Node] = []
    for _ in range(setting.warmup + 1):
        after = (len(nodes) - 2,) if nodes else ()
        nodes.append(Node(COMPUTE, after, pause_ns))
        last = (*(each + 1 for each in after), len(nodes) - 1)
        nodes.append(
            Node(setting.collective, last, group=GROUP, bytes=size, peer=root, dtype="int32")
        )
    ranks = setting.ranks
    chakra.write(model, Program({GROUP: tuple(range(ranks))}, (tuple(nodes),) * ranks))


def _time_ns(folder: Path) -> float:
    """The mean over repetitions of the time from the beginning of the last call, when computation
    ends, until all ranks have its result."""
    table = results.read(folder).table("iterations")
    last = table.groupby("repetition")[["compute_end_ns", "end_ns"]].max()
    return float((last["end_ns"] - last["compute_end_ns"]).mean())


def crossovers(points: Sequence[Point]) -> list[str]:
    """For each size from which another system is the fastest one, a line that says so."""
    by_size: dict[int, Point] = {}
    for point in points:
        best = by_size.get(point.size)
        known = not point.chosen and not math.isnan(point.time_ns)
        if known and (best is None or point.time_ns < best.time_ns):
            by_size[point.size] = point
    found, last = [], None
    for size, best in sorted(by_size.items()):
        if best.system != last:
            found.append(f"fastest from {units.number(size)} B on: {best.system}")
            last = best.system
    return found if len({each.system for each in points if not each.chosen}) > 1 else []
