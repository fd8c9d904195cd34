"""Public traces of GPU clusters: their data about each job, in one form.

Three published forms are read, as their files are: Philly (cluster_job_log, JSON), Helios
(cluster_log.csv), and Alibaba's cluster-trace-gpu-v2020 (pai_task_table.csv, which has no line with
its columns' names). Of each job this module takes when it was submitted, how long it ran, and how
many GPUs it had. None of them says what a job computed.

Jobs that never ran or had no GPU are left out; those that failed or were stopped are not, because
they used the cluster as well. A file that is not of its form is an error that names the line.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from math import ceil
from pathlib import Path
from reprlib import repr as brief
from typing import Any, NoReturn

from p4fabric.base.config.data_files import read_text
from p4fabric.base.errors import UserError

from testbed.traffic.draws import Stream

MS = 1_000_000
SECOND = 1_000_000_000
MAX_BYTES = 2**31
SAMPLES = 0xA225  # distinguishes the stream of samples from others of the same seed
REMEDY = "correct it, or take the job out of the file"
HELIOS = ("gpu_num", "submit_time", "start_time", "end_time", "duration")
ALIBABA = (
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
    "gpu_type",
)
NOTHING = ("", "None", "NULL", "null", "nan", "NaN")  # the traces' words for an unknown time


@dataclass(frozen=True)
class TracedJob:
    """A job of a trace: its number there (the line of a table, the place in a list, from 1), its
    time of submission (ns, from any origin), its duration (ns, at least 1), and its number of GPUs
    (at least 1)."""

    number: int
    submit_ns: int
    duration_ns: int
    gpus: int


class _Place:
    """A place in a file, for errors."""

    def __init__(self, path: Path, line: int, column: str) -> None:
        self.text = f"{path}, line {line}, column {column}"

    def fail(self, found: object, allowed: str) -> NoReturn:
        raise UserError(f"{self.text}: found {brief(found)}; allowed: {allowed}; {REMEDY}")

    def number(self, cell: str) -> float:
        """A number of at least 0."""
        try:
            value = float(cell)
        except ValueError:
            value = -1
        if not 0 <= value < 1e12:
            self.fail(cell, "a number of at least 0")
        return value

    def time_s(self, cell: object) -> float:
        """A time such as `2017-10-07 01:12:09`, in seconds from some origin."""
        found = _time_s(cell)
        if found is None:
            self.fail(cell, "a time such as 2017-10-07 01:12:09")
        return found


def read_cluster_trace(path: Path, form: str) -> tuple[TracedJob, ...]:
    """The jobs of a file, in the order of their submission. `form`: one of FORMS. Raises
    UserError."""
    try:
        stat = path.stat()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    return _read(path, form, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=2)
def _read(path: Path, form: str, changed_ns: int, size: int) -> tuple[TracedJob, ...]:
    """The points of a sweep read one file many times; `changed_ns` tells its versions apart."""
    text = read_text(path, MAX_BYTES)
    found = sorted(FORMS[form](path, text), key=lambda job: (job.submit_ns, job.number))
    if not found:
        raise UserError(f"{path}: there is no job with a GPU that ran; is this a trace of {form}?")
    return tuple(found)


def _time_s(text: Any) -> float | None:
    """A time in seconds since the year 2000; None for any other text."""
    try:
        return (datetime.fromisoformat(text) - datetime(2000, 1, 1)).total_seconds()
    except (TypeError, ValueError):
        return None


def _expected(form: str) -> str:
    files = {
        "philly": "the file cluster_job_log of the Philly traces",
        "helios": "a file cluster_log.csv of the Helios traces",
        "alibaba": "the file pai_task_table.csv of Alibaba's cluster-trace-gpu-v2020",
    }
    return f"name {files[form]}, or another `format`"


def _job(number: int, submit_s: float, duration_s: float, gpus: float) -> TracedJob | None:
    if duration_s <= 0 or gpus <= 0:
        return None
    return TracedJob(number, round(submit_s * 1000) * MS, round(duration_s * SECOND), ceil(gpus))


# -- Philly


def _philly(path: Path, text: str) -> Iterator[TracedJob]:
    try:
        entries = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{path}, line {error.lineno}, column {error.colno}"
        raise UserError(f"{place}: not JSON: {error.msg}; download the file again") from None
    if not isinstance(entries, list):
        raise UserError(f"{path}, line 1, column 1: found no list of jobs; {_expected('philly')}")
    for number, entry in enumerate(entries):
        job = _philly_job(path, text, number, entry)
        if job is not None:
            yield job


def _philly_job(path: Path, text: str, number: int, entry: Any) -> TracedJob | None:
    def place(key: str) -> _Place:
        return _Place(path, _line_of_entry(text, number), key)

    if not isinstance(entry, dict) or "attempts" not in entry or "submitted_time" not in entry:
        keys = ", ".join(entry) if isinstance(entry, dict) else type(entry).__name__
        place("attempts").fail(keys, "a job with the keys attempts and submitted_time")
    attempts = entry["attempts"]
    if not isinstance(attempts, list) or not all(isinstance(each, dict) for each in attempts):
        place("attempts").fail(attempts, "a list of attempts")
    seconds, gpus = 0.0, 0
    for count, attempt in enumerate(attempts):
        times = [attempt.get(key) for key in ("start_time", "end_time")]
        if any(each is None or each in NOTHING for each in times):
            continue  # the trace has attempts without times
        started, ended = (
            _checked_s(each, place, f"attempts[{count}].{key}")
            for key, each in zip(("start_time", "end_time"), times, strict=True)
        )
        if ended < started:
            place(f"attempts[{count}].end_time").fail(times[1], f"a time from {times[0]} on")
        try:
            gpus = sum(len(machine["gpus"]) for machine in attempt["detail"])
        except (KeyError, TypeError):
            place(f"attempts[{count}].detail").fail(
                attempt.get("detail"), "a list of machines, each with a list of gpus"
            )
        seconds += ended - started
    submitted = entry["submitted_time"]
    if not seconds or not gpus:
        return None
    submit_s = _checked_s(submitted, place, "submitted_time")
    return _job(number + 1, submit_s, seconds, gpus)


def _checked_s(text: object, place: Callable[[str], _Place], key: str) -> float:
    """A time in seconds. The place is only looked for if there is none, because that takes long."""
    found = _time_s(text)
    return place(key).time_s(text) if found is None else found


def _line_of_entry(text: str, number: int) -> int:
    """The line on which member `number` of a JSON list begins."""
    decoder, at = json.JSONDecoder(), text.index("[") + 1
    for _ in range(number):
        at = decoder.raw_decode(text, _skip(text, at))[1]
    return text.count("\n", 0, _skip(text, at)) + 1


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\r\n,":
        at += 1
    return at


# -- tables


Row = tuple[int, dict[str, str]]  # its line from 1, its cells by column


def _table(
    path: Path, text: str, columns: tuple[str, ...], needed: Iterable[str], form: str
) -> Iterator[Row]:
    """The rows of a table. Its first line names the columns, or it has `columns` in order."""
    names: list[str] = list(columns)
    reader = csv.reader(text.splitlines())
    for line, cells in enumerate(reader, start=1):
        if not cells:
            continue
        if line == 1 and (not columns or cells[0] == columns[0]):
            names = [cell.strip() for cell in cells]
            missing = [name for name in needed if name not in names]
            if missing:
                raise UserError(
                    f"{path}, line 1, column {missing[0]}: missing among {', '.join(names)};"
                    f" {_expected(form)}"
                )
            continue
        if len(cells) != len(names):
            raise UserError(
                f"{path}, line {line}, column {min(len(cells), len(names)) + 1}: found"
                f" {len(cells)} cells; allowed: {len(names)} ({', '.join(names)}); {REMEDY}"
            )
        yield line, dict(zip(names, cells, strict=True))


def _helios(path: Path, text: str) -> Iterator[TracedJob]:
    for line, cells in _table(path, text, (), HELIOS, "helios"):
        if cells["start_time"] in NOTHING or cells["end_time"] in NOTHING:
            continue
        gpus = _Place(path, line, "gpu_num").number(cells["gpu_num"])
        seconds = _Place(path, line, "duration").number(cells["duration"])
        submit_s = _Place(path, line, "submit_time").time_s(cells["submit_time"])
        if job := _job(line, submit_s, seconds, gpus):
            yield job


def _alibaba(path: Path, text: str) -> Iterator[TracedJob]:
    """A job is all tasks of its name: from the earliest start to the latest end, with the GPUs of
    all of their instances (`plan_gpu` is in hundredths)."""
    found: dict[str, tuple[int, float, float, float]] = {}
    for line, cells in _table(path, text, ALIBABA, ALIBABA, "alibaba"):
        if any(cells[name] in NOTHING for name in ("start_time", "end_time", "plan_gpu")):
            continue
        start, end, instances, share = (
            _Place(path, line, name).number(cells[name])
            for name in ("start_time", "end_time", "inst_num", "plan_gpu")
        )
        if end < start:
            _Place(path, line, "end_time").fail(cells["end_time"], f"at least {start:g}")
        first, earliest, latest, gpus = found.get(cells["job_name"], (line, start, end, 0.0))
        found[cells["job_name"]] = (
            first,
            min(earliest, start),
            max(latest, end),
            gpus + instances * share / 100,
        )
    for first, start, end, gpus in found.values():
        if job := _job(first, start, end - start, gpus):
            yield job


FORMS: Mapping[str, Callable[[Path, str], Iterator[TracedJob]]] = {
    "philly": _philly,
    "helios": _helios,
    "alibaba": _alibaba,
}


def sampled(seed: int, population: int, count: int) -> list[int]:
    """`count` different numbers below `population`, ascending, all sets equally likely."""
    stream = Stream(seed, SAMPLES)
    chosen: set[int] = set()
    for last in range(population - count, population):  # Floyd's algorithm
        drawn = stream.below(last + 1)
        chosen.add(last if drawn in chosen else drawn)
    return sorted(chosen)
