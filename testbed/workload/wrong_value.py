"""A wrong value in a sum: its place, and what explains the number.

The values of generated gradients are known for every worker, so a number that is not the sum can be
compared with what a defect would have made of them: a value that is missing, was added twice or was
subtracted, or a bitwise operation in the place of an addition. Of recorded gradients a worker knows
its own values and the sum alone. The hosts' protocols are imported only when a value was wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from p4fabric.base.errors import RunError

from testbed.number_formats import FORMATS

if TYPE_CHECKING:
    from p4fabric.simulate.machine import Machine

    from testbed.protocols.host_spec import HostSpec

_BITWISE = {"or": np.bitwise_or, "xor": np.bitwise_xor, "and": np.bitwise_and}
MOST_SETS = 4096  # of workers that are tried


@dataclass(frozen=True)
class WrongValue:
    """A value that a worker has found wrong. `number`: of the communicator, which packets call a
    job; `fragment`: its number in packets, None: not known; `tensor`: number of the tensor;
    `position`: in the tensor; `offset`: in the packet; `parts`: the right values of the workers
    there, as far as they are known."""

    number: int
    job: str
    iteration: int
    tensor: int
    tensor_name: str
    position: int
    fragment: int | None
    offset: int
    found: int
    expected: int
    worker: int
    host: str
    workers: int
    parts: dict[int, int]
    floats: bool = False  # `found` and `expected` are the bits of float32

    @property
    def place(self) -> str:
        """As `ina trace --fragment` takes it, of systems that number packets by place."""
        return f"{self.job}/{self.iteration}/{self.tensor_name}:{self.position}"

    @property
    def first_line(self) -> str:
        return (
            f"wrong value: job {self.job}, iteration {self.iteration}, "
            f"tensor {self.tensor_name} ({self.tensor}), position {self.position}: "
            f"got {self._shown(self.found)}, expected {self._shown(self.expected)} "
            f"(worker {self.worker} on {self.host})"
        )

    @property
    def text(self) -> str:
        """The error, with what this host alone can say about it."""
        lines = [self.first_line]
        if self.fragment is not None:
            lines.append(f"  packets: ina.job == {self.number} && ina.fragment == {self.fragment}")
        if self.floats:
            lines.append("  the number: it is further from the exact sum than roundings explain")
        else:
            lines.append(f"  the number: {explained(self.found, self.expected, self.parts)}")
        return "\n".join(lines)

    def _shown(self, value: int) -> str:
        return repr(float(np.int32(value).view(np.float32))) if self.floats else str(value)

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> WrongValue:
        parts = {int(worker): int(value) for worker, value in data["parts"].items()}
        return cls(**{**data, "parts": parts})


class WrongValueError(RunError):
    """A run that ended with a wrong value. In virtual time: `setup`, of the repetition, and the
    number of `events` until then."""

    def __init__(
        self,
        wrong: WrongValue,
        log_tail: str = "",
        log: str | None = None,
        setup: Any = None,
        events: int | None = None,
    ) -> None:
        super().__init__(wrong.text, log_tail, log)
        self.wrong, self.setup, self.events = wrong, setup, events


def wrong_value(spec: HostSpec, machine: Machine) -> WrongValue | None:
    """The wrong value that a machine has found; None in what single ranks give to each other."""
    from testbed.protocols import flows

    status, scoreboard = machine.status[0], machine.scoreboard
    if isinstance(machine.protocol, flows.Flows):
        return None
    fragment, offset = int(status.fragment), int(status.position)
    tensor = int(scoreboard.tensor[fragment])
    place = (fragment - int(scoreboard.first[tensor])) * spec.job.values
    whole = int(status.iteration) * spec.job.fragments + fragment
    return WrongValue(
        number=spec.job.number,
        job=spec.job.name,
        iteration=int(status.iteration),
        tensor=tensor,
        tensor_name=spec.job.tensors[tensor].name,
        position=place + offset,
        fragment=_number_in_packets(spec, machine, whole, fragment),
        offset=offset,
        found=int(status.found),
        expected=int(status.expected),
        worker=spec.number,
        host=spec.host,
        workers=spec.job.workers,
        parts=_parts(spec, machine, whole, int(status.iteration), fragment, offset),
        floats=FORMATS[spec.job.sum].is_float,
    )


def described(spec: HostSpec, machine: Machine) -> tuple[str, dict[str, object] | None]:
    """The error in a machine that has failed, and the same as data, if it is about a sum."""
    from testbed.workload import rank_program

    found = wrong_value(spec, machine)
    if found is None:
        return rank_program.wrong_transfer(spec, machine.protocol), None
    return found.text, found.to_json()


def generated_parts(
    seed: int, number: int, workers: int, whole: int, iteration: int, offset: int, bits: int
) -> dict[int, int]:
    """The generated value of each worker at an offset of a fragment, int32."""
    from testbed.protocols import values

    key = values.fragment_key(seed, number, whole)
    shift = values.hash_shift(workers, bits)
    hashed = int(values.position_hash(key, offset, shift))
    return {
        worker: int32(hashed * int(values.factor(seed, number, iteration, worker)))
        for worker in range(workers)
    }


def int32(number: int) -> int:
    """The number as 32 bits hold it."""
    return (number + 2**31) % 2**32 - 2**31


def explained(found: int, right: int, parts: Mapping[int, int]) -> str:
    """Explanation of `found` by the workers' values, which should give their sum `right`."""
    named = next(_explanations(found, right, dict(parts)), None)
    if named is not None:
        return named
    known = "values of other workers are not known here; " if len(parts) < 2 else ""
    return (
        f"{known}no value that is missing or was added twice, and no bitwise operation explains"
        f" it; it differs by {int32(found - right)}"
    )


def _explanations(found: int, right: int, parts: dict[int, int]) -> Iterator[str]:
    count = len(parts)
    tried = 0
    for size in range(1, count + 1):
        for chosen in combinations(parts, size):
            tried += 1
            if tried > MOST_SETS:
                break
            sum_ = sum(parts[worker] for worker in chosen)
            if found == int32(right - sum_) and size < count:
                yield f"the addition of {_workers(chosen)} is missing ({_values(chosen, parts)})"
            if found == int32(right + sum_):
                yield f"{_workers(chosen)} was added twice ({_values(chosen, parts)})"
            if found == int32(right - 2 * sum_):
                yield f"{_workers(chosen)} was subtracted, not added ({_values(chosen, parts)})"
    if count > 1:
        for word, operation in _BITWISE.items():
            numbers = [np.int32(value) for value in parts.values()]
            if found == int(operation.reduce(numbers)):
                yield f"the bitwise {word} of the workers' values, not their sum"
            for worker, value in parts.items():
                if found == int(operation(np.int32(int32(right - value)), np.int32(value))):
                    yield f"{_workers((worker,))} went in by a bitwise {word}, not by an addition"
        if found == max(parts.values()):
            yield "the largest of the workers' values, not their sum"
    if found == 0:
        yield "it is 0: nothing was added"
    if found == int.from_bytes(right.to_bytes(4, "big", signed=True), "little", signed=True):
        yield "the bytes of the sum are in the wrong order"
    if found == (right + 2**15) % 2**16 - 2**15:
        yield "the sum was cut to 16 bits"


def _workers(chosen: tuple[int, ...]) -> str:
    if len(chosen) == 1:
        return f"worker {chosen[0]}'s value"
    return f"the values of workers {', '.join(map(str, chosen))}"


def _values(chosen: tuple[int, ...], parts: Mapping[int, int]) -> str:
    shown = [str(parts[worker]) for worker in chosen[:4]]
    return ", ".join(shown) + (", ..." if len(chosen) > 4 else "")


def _number_in_packets(spec: HostSpec, machine: Machine, whole: int, fragment: int) -> int | None:
    """Number of the fragment in packets. With slots it is that of a chunk: one chunk has the
    fragment's values, and perhaps another its exponent. The wrong one is still in flight."""
    from testbed.protocols.host_spec import SlotsSpec

    worker = getattr(machine.protocol, "worker", machine.protocol)
    if spec.job.wanted:  # chunks, too
        return whole - fragment + int(np.flatnonzero(worker.fragment == fragment)[0])
    if not isinstance(spec.options, SlotsSpec):
        return whole
    stream, window = worker.stream, worker.window
    places = np.flatnonzero((stream.fragment == fragment) | (stream.announced == fragment))
    numbers = int(window.first_chunk) + places
    slots = numbers % worker.busy.size
    in_flight = numbers[(worker.busy[slots] > 0) & (worker.chunk[slots] == numbers)]
    return next(map(int, (*in_flight, *numbers)), None)


def _parts(
    spec: HostSpec, machine: Machine, whole: int, iteration: int, fragment: int, offset: int
) -> dict[int, int]:
    """The values of the workers, as far as this one knows them."""
    worker = getattr(machine.protocol, "worker", machine.protocol)
    recorded = getattr(worker, "recorded", None)
    own = spec.number
    if recorded is not None and recorded.shape[0] > 0:
        if not np.issubdtype(recorded.dtype, np.integer):
            return {}
        place = fragment * spec.job.values + offset
        row = recorded[iteration % recorded.shape[0]]
        return {own: int(row[place])} if place < len(row) else {}
    if spec.job.program or spec.program is not None or recorded is None:
        return {}
    # Of floats, sums of some of them have no one value; of bytes, sums are rounded.
    if FORMATS[spec.job.sum].is_float or spec.job.value_bits == 8 or spec.job.parts:
        return {}
    job = spec.job
    bits = job.value_bits
    return generated_parts(job.seed, job.number, job.workers, whole, iteration, offset, bits)
