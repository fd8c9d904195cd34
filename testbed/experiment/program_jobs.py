"""Jobs that are programs: what an experiment file says of them, and what stands in for a model.

Such a job has rounds in place of iterations (testbed/workload/feed.py). A round is the same for
every program, so the rest of the testbed sees a job whose model has `TENSORS` layers of one block
each, and which computes nothing.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from p4fabric.base.config.fields import user_file
from p4fabric.base.config.problems import Path as KeyPath
from p4fabric.base.config.problems import Problem
from p4fabric.base.config.units import FieldError

from testbed.experiment.schema_jobs import (
    COLLECTIVE_TIMEOUT_NS,
    OF_PROGRAM,
    OF_REPLAY,
    RANKS,
    Job,
    Parallel,
)
from testbed.traffic.trace import Layer, Trace

TENSORS = 256  # of a round
FLOATS = ("float32", "bfloat16", "float16")  # types whose sums the switches make
# A block's values have one exponent. Small blocks are more precise and have longer preludes.
BLOCK_FRAGMENTS = 64
FEWEST_BLOCKS = 16  # that one prelude describes


def block_fragments(workers: int, values: int) -> int:
    """Fragments of a block, with `values` values each; a job of many workers has a long prelude,
    which must fit into a block, too."""
    from testbed.collective import prelude  # it needs numpy

    words = prelude.prelude_words(workers, FEWEST_BLOCKS)
    return max(BLOCK_FRAGMENTS, -(-words // values))


def round_trace(name: str, workers: int, values: int) -> Trace:
    """A trace that stands in for the model of a program."""
    fragments = block_fragments(workers, values)
    size = fragments * values
    layers = tuple(Layer(f"block{i}", ((size,),), size, 0, 0) for i in range(TENSORS))
    return Trace(
        name=name,
        title=name,
        layers=layers,
        times="measured",
        hardware="this machine",
        sources=(),
        path=Path(name),
    )


def misplaced(path: KeyPath, job: Job) -> list[Problem]:
    """The keys of a job that its kind does not have: those of a program without one, or those of a
    replay with one."""
    names: tuple[str, ...] = OF_REPLAY
    why = "replay a model; this job has a command. Take one out"
    if not job.is_program:
        names = OF_PROGRAM if job.is_transformer else (*OF_PROGRAM, "parallel")
        names = names if job.has_ranks else (*names, "sums")
        why = "are programs; this job replays a model. Take it out"
    return [
        Problem((*path, Job.model_fields[name].alias or name), f"is for jobs that {why}")
        for name in names
        if name in job.model_fields_set and (job.is_program or getattr(job, name))
    ]


def _script(words: list[str], folder: Path) -> tuple[int, str] | None:
    """Place and absolute path of the Python file that a command such as torchrun starts, if it is
    beside the experiment and not in the current folder."""
    for place, word in enumerate(words[1:], 1):
        if word.endswith(".py") and not word.startswith("-"):
            try:
                return None if Path(word).is_file() else (place, str(user_file(word, folder)))
            except FieldError:
                return None
    return None


def check(path: KeyPath, job: Job, folder: Path) -> tuple[Job, list[Problem]]:
    """The job with its command as absolute paths and the defaults of a program, and the problems of
    its keys."""
    problems = misplaced(path, job)
    for name in set(job.sums or ()) - set(FLOATS):
        message = f"found {name}; types of a program: {', '.join(FLOATS)}"
        problems.append(Problem((*path, "sums"), message))
    for name in ("sequence_parallel", "sharding"):
        usual = Parallel.model_fields[name].default
        if job.parallel is not None and getattr(job.parallel, name) != usual:
            message = "is for model: {transformer: ...}; a program shards by itself. Take it out"
            problems.append(Problem((*path, "parallel", name), message))
    try:
        words = shlex.split(job.command)
    except ValueError as error:
        problems.append(Problem((*path, "command"), f"found {job.command!r}: {error}"))
        return job, problems
    if not words:
        problems.append(Problem((*path, "command"), "is empty; name a program"))
        return job, problems
    if "/" in words[0] or words[0].endswith(".py"):
        base = folder
        try:
            user_file(words[0], folder)
        except FieldError as error:
            base = Path.cwd()
            if not (base / words[0]).is_file():
                problems.append(Problem.of((*path, "command"), error))
                return job, problems
        # As it is called: the python of a virtual environment is a link to another one.
        words[0] = os.path.abspath(base / words[0])
    elif script := _script(words, folder):
        words[script[0]] = script[1]
    update: dict[str, object] = {"command": shlex.join(words)}
    if job.launch is None:
        update["launch"] = RANKS
    if job.numbers is None:
        update["numbers"] = "exponents"
    if job.collective_timeout_ns is None:
        update["collective_timeout_ns"] = COLLECTIVE_TIMEOUT_NS
    return job.model_copy(update=update), problems
