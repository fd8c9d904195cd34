"""Many broken files for one reader."""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from p4fabric.base.errors import RunError, UserError

from tests.support.broken_files.changes import (
    KINDS,
    as_text,
    changed_bytes,
    changed_data,
    places,
)
from tests.support.broken_files.readers import READERS, Reader

LIMIT_S = 20  # processor time of one file
LONGEST = 20_000  # characters of a message


class TookTooLong(BaseException):
    """The limit of processor time was reached."""


@dataclass
class Outcome:
    """`ends`: how often files were read, refused or failed. `failures`: (file, what happened)."""

    ends: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[Path, str]] = field(default_factory=list)


def run(name: str, count: int, seed: int, folder: Path, kept: Path) -> Outcome:
    """`count` broken files for the reader of this name, made in `folder`, which is empty. Those
    that fail are copied to `kept`. Equal seeds make equal files."""
    reader = READERS[name]
    rng = random.Random(f"{name} {seed}")
    work = folder / "work"
    work.mkdir()
    with quiet():
        files = reader.sound(work)
    if len(files) > count:  # so that not more sound files are read than broken ones
        files = rng.sample(files, count)
    contents = [path.read_bytes() for path in files]
    for path in files:
        assert _read(reader, path)[0] == "read", path
    outcome = Outcome()
    for number in range(count):
        place = rng.randrange(len(files))
        content = broken(files[place], contents[place], rng.choice(contents), rng)
        end, what = read_changed(reader, files[place], content)
        outcome.ends[end] += 1
        if end == "failed":
            kept.mkdir(parents=True, exist_ok=True)
            copy = kept / f"{name}-{seed}-{number}{files[place].suffix}"
            copy.write_bytes(content)
            outcome.failures.append((copy, what))
    shutil.rmtree(work)
    return outcome


def broken(path: Path, content: bytes, other: bytes, rng: random.Random) -> bytes:
    if path.suffix in (".yaml", ".json") and rng.random() < 0.6:
        return as_text(changed_data(yaml.safe_load(content), rng), path.suffix)
    return changed_bytes(content, other, rng)


def with_other_kinds(name: str, folder: Path, most: int) -> Outcome:
    """Each value of a reader's JSON files in turn as a value of another kind: `most` of KINDS at
    each place, other ones at the next."""
    reader, outcome, turn = READERS[name], Outcome(), 0
    with quiet():
        files = [path for path in reader.sound(folder) if path.suffix == ".json"]
    for path in files:
        data = json.loads(path.read_bytes())
        for holder, key in [*places(data)]:
            before = holder[key]
            for _ in range(most):
                holder[key], turn = KINDS[turn % len(KINDS)], turn + 1
                end, what = read_changed(reader, path, json.dumps(data).encode())
                outcome.ends[end] += 1
                if end == "failed":
                    outcome.failures.append((path, f"{key}: {holder[key]!r}: {what}"))
            holder[key] = before
    return outcome


def read_changed(reader: Reader, path: Path, content: bytes) -> tuple[str, str]:
    """Outcome of the reader with this content in a file: `read`, `refused` with the message, or
    `failed` with the error. Afterwards the file has its own content again."""
    sound = path.read_bytes()
    path.write_bytes(content)
    try:
        return _read(reader, path)
    finally:
        path.write_bytes(sound)


def told(ends: Counter[str]) -> str:
    """Text with the number of files per outcome."""
    return ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))


def _read(reader: Reader, path: Path) -> tuple[str, str]:

    def stop(*_: object) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        with quiet() as said:
            code = reader.read(path)
    except (UserError, RunError) as error:
        return _judged(str(error))
    except TookTooLong:
        return "failed", f"more than {LIMIT_S} s of processor time"
    except (Exception, RecursionError, SystemExit):
        return "failed", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    if isinstance(code, int) and code:
        return _judged(said.getvalue()) if code in (1, 2) else ("failed", f"exit code {code}")
    return "read", ""


def _judged(message: str) -> tuple[str, str]:
    if not message.strip() or "Traceback" in message or len(message) > LONGEST:
        return "failed", f"the message: {message[:LONGEST]!r}"
    return "refused", message


@contextlib.contextmanager
def quiet() -> Iterator[io.StringIO]:
    said = io.StringIO()
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(said),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error", RuntimeWarning)
        yield said
