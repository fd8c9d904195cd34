"""Names of a fragment: as a place in a job's gradient, and as packets number it.

JOB/ITERATION/TENSOR:POSITION names the fragment that has the value at POSITION of a tensor, as the
error about a wrong value does. JOB#NUMBER is the number in the packets, as filters and the
dissector have it (`ina.fragment`); it works for every job, also for programs, and for systems that
number their packets in another way. What packets call a job may also be a group of a job's ranks,
JOB/group NUMBER, or a number that no job of the run has, job NUMBER: `title_of` prints these, and
`fragment_of` reads all that it prints.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from p4fabric.base.errors import UserError, did_you_mean

from testbed.experiment.schema_jobs import Job
from testbed.protocols.sizes import fragments_of
from testbed.setup import Setup

# Systems whose packets carry fragments by their place in the gradient.
_BY_PLACE = ("one", "many")  # System.servers
FORM = "JOB/ITERATION/TENSOR:POSITION or JOB#NUMBER"
_PLACE = re.compile(r"(?P<job>.+?)/(?P<iteration>\d+)/(?P<tensor>.+):(?P<position>\d+)")
_NUMBER = re.compile(r"(?P<job>.+)#(?P<number>\d+)")


class Fragment(NamedTuple):
    """A fragment as packets name it: the number of the communicator, which they call a job, and
    that of the fragment."""

    job: int
    number: int

    @property
    def filter(self) -> str:
        """A display filter of Wireshark."""
        return f"ina.job == {self.job} && ina.fragment == {self.number}"


class Place(NamedTuple):
    """A fragment's place: the job's name, the iteration, the tensor's name and number, and the
    position of its first value in the tensor."""

    job: str
    iteration: int
    tensor: str
    tensor_number: int
    position: int

    @property
    def text(self) -> str:
        return f"{self.job}/{self.iteration}/{self.tensor}:{self.position}"


def fragment_of(setup: Setup, text: str) -> Fragment:
    """The fragment that a text names. Raises UserError that says what there is."""
    if (found := _NUMBER.fullmatch(text)) is not None:
        return Fragment(_number(setup, found["job"]), int(found["number"]))
    if (found := _PLACE.fullmatch(text)) is None:
        raise UserError(
            f"--fragment: found {text!r}; allowed: {FORM}, such as {_example(setup, 0)}"
        )
    number = _number(setup, found["job"])
    job = setup.listed[int(setup.platform.owners[number])]
    if not _has_places(setup, job):
        raise UserError(
            f"--fragment: packets of job {job.name} are not numbered by tensor and position; name"
            f" one by its number, such as {_example(setup, setup.listed.index(job))}"
        )
    iteration = int(found["iteration"])
    if iteration >= job.iterations:
        last = job.iterations - 1
        raise UserError(f"--fragment: job {job.name} has iterations 0 to {last}, not {iteration}")
    trace = job.trace()
    names = [layer.name for layer in trace.layers]
    word = found["tensor"]
    if word in names:
        tensor = names.index(word)
    elif word.isdecimal() and int(word) < len(names):
        tensor = int(word)
    else:
        hint = did_you_mean(word, names) or f"there are 0 to {len(names) - 1}, such as {names[0]}"
        raise UserError(f"--fragment: {trace.name} has no tensor {word!r}; {hint}")
    position, size = int(found["position"]), trace.sizes[tensor]
    if position >= size:
        raise UserError(
            f"--fragment: tensor {names[tensor]} has positions 0 to {size - 1}, not {position}"
        )
    first = fragments_of(trace.sizes, setup.platform.values)
    place = int(first[tensor]) + position // setup.platform.values
    return Fragment(number, iteration * int(first[-1]) + place)


def offset_of(setup: Setup, texts: Sequence[str]) -> int | None:
    """The value of packets that a trace shows, where switches add floats: that of the position that
    the first text names, else the first one. None where sums have no order."""
    if not setup.platform.sum.is_float:
        return None
    found = _PLACE.fullmatch(texts[0]) if texts else None
    return int(found["position"]) % setup.platform.values if found else 0


def place_of(setup: Setup, fragment: Fragment) -> Place | None:
    """Place of a fragment; None where packets are not numbered by place."""
    if fragment.job >= len(setup.listed):
        return None
    job = setup.listed[fragment.job]
    if not _has_places(setup, job):
        return None
    trace = job.trace()
    first = fragments_of(trace.sizes, setup.platform.values)
    iteration, place = divmod(fragment.number, int(first[-1]))
    tensor = bisect_right(first.tolist(), place) - 1
    position = (place - int(first[tensor])) * setup.platform.values
    name = trace.layers[tensor].name
    if sum(layer.name == name for layer in trace.layers) > 1:
        name = str(tensor)
    return Place(job.name, iteration, name, tensor, position)


def summed_by_hosts(setup: Setup) -> frozenset[int]:
    """The jobs whose hosts add up and do nothing else: all packets between them are sums."""
    if not setup.platform.system.algorithm:
        return frozenset()
    plain = (not job.is_program and not job.has_ranks for job in setup.listed)
    return frozenset(number for number, each in enumerate(plain) if each)


def title_of(setup: Setup, fragment: Fragment) -> str:
    """A fragment in words, for text."""
    place = place_of(setup, fragment)
    if place is not None:
        return place.text
    return f"{job_title(setup, fragment.job)}#{fragment.number}"


def job_title(setup: Setup, number: int) -> str:
    """The name of the job, or of the job and the communicator, that packets call `number`."""
    if number < len(setup.listed):
        return setup.listed[number].name
    if number < setup.platform.numbers:
        return f"{setup.listed[int(setup.platform.owners[number])].name}/group {number}"
    return f"job {number}"


def _number(setup: Setup, text: str) -> int:
    """The number of a job by its name or number, or of a communicator by its title or number."""
    names = [job.name for job in setup.listed]
    if text in names:
        return names.index(text)
    found = re.fullmatch(r"(?:.+/group |job )?(\d+)", text)
    if found is not None:
        number = int(found[1])
        if text == job_title(setup, number) or text.isdecimal() and number < setup.platform.numbers:
            return number
    hint = did_you_mean(text, names) or f"jobs are {', '.join(names[:8])}"
    raise UserError(f"--fragment: there is no job {text!r}; {hint}")


def _has_places(setup: Setup, job: Job) -> bool:
    return setup.platform.system.servers in _BY_PLACE and not job.is_program and not job.has_ranks


def _example(setup: Setup, job: int) -> str:
    """A fragment that the job's packets have."""
    numbers = setup.platform.group_numbers(job) if setup.listed[job].has_ranks else ()
    return title_of(setup, Fragment(next((n for n in numbers if n in setup.groups), job), 0))
