"""The map of the memory that a program shares with its host process: a table of calls, and the
arrays.

A *call* is a collective's array, or a piece of a large one. It has a prelude (prelude.py) and
*blocks* of values. Each block has a scale of its own, and is a tensor to the worker's scoreboard.

The file begins with a `HEADER`, then come `CALLS` records `CALL`, a text for what went wrong, the
workers by rank, and from `ARENA` on 32-bit words, in which the program places its arrays. The
program writes a call's record, then adds one to `submitted`, then rings (an eventfd). The host
process writes `state`, then rings the other way. Call n has record n modulo CALLS, so at most CALLS
are under way.

All fields are int64. Offsets and lengths of arrays count 32-bit words of the arena.
"""

from __future__ import annotations

import mmap
from typing import NamedTuple

import numpy as np

VERSION = 3
CALLS = 256  # under way at a time
MAX_MESSAGE = 65536  # bytes, with which a program says which communicator it joins
TEXT_BYTES = 4096
RANKS = 1024  # at most in a communicator
WHOLE = 1 << 40  # values, more than any array has: a share that is all of it
ARENA = 65536  # bytes before the arena

# Call.form: how the values travel
INTEGERS = 0  # int32, exactly, modulo 2^32
FLOATS = 1  # float32, scaled by a power of two that all ranks agree on for each block
FIXED_SCALE = 2  # float32, with a scale that the experiment says (testbed/protocols/given.py)
UNSCALED = 3  # float32 as they are, where sums are those of floats (option `sum`)

# Call.state
FREE = 0
SUBMITTED = 1
DONE = 2
FAILED = 3


def _record(*names: str) -> np.dtype:
    # Else it could not be read in plain Python (p4fabric/src/p4fabric/simulate/records.py).
    assert not any(hasattr(np.record, name) for name in names)
    fields = np.dtype([(name, np.int64) for name in names], align=True)
    return np.dtype((np.record, fields))


HEADER = _record(
    "version",
    "submitted",  # calls that the program has submitted so far
    "closed",  # 1: it will submit no more
    "failed",  # 1: the job is over, for the reason in the text
    "text_bytes",
)
CALL = _record(
    "form",
    "values",  # of this call, but for those that are in its prelude
    "source",  # their place
    "target",  # place of their sum; may be the same
    "divisor",  # the sum is divided by it (float32 only): the number of ranks for a mean
    "prelude",  # place of the words exchanged before the values (prelude.py)
    "prelude_words",
    "layer",  # 0 is the front layer, the most urgent
    "share",  # values of the collective that belong to each rank: it gets, or gives them; 0: to all
    "share_at",  # the call's first value among those of all ranks
    "from_one",  # 1: the rank gives its share; 0: it gets it
    "wide",  # 1: float32 are not rounded to the fewer bits that the option `sum` gives others
    "state",
    "rare_blocks",  # blocks in which a rank had NaN or an infinity
    "submitted_ns",  # since the run's start, -1: not yet
    "done_ns",
    "in_round",  # its prelude is, for the host process alone, as what follows
    "opening",  # block of it
    "agreed",  # 1: all ranks have said the same of it
)


def submitted_call(
    form: int,
    values: int,
    source: int,
    target: int,
    divisor: int,
    prelude: int,
    prelude_words: int,
    layer: int,
    share: int,
    share_at: int,
    from_one: int,
    wide: int,
) -> tuple[int, ...]:
    """A record CALL for the fields that the program fills in."""
    told = form, values, source, target, divisor, prelude, prelude_words, layer
    return (*told, share, share_at, from_one, wide, SUBMITTED, 0, -1, -1, 0, 0, 0)


class Shared(NamedTuple):
    """The memory as arrays."""

    header: np.ndarray  # HEADER[1]
    calls: np.ndarray  # CALL[CALLS]
    text: np.ndarray  # uint8[TEXT_BYTES]
    places: np.ndarray  # int32[RANKS], the worker that each rank is
    words: np.ndarray  # int32[arena]
    numbers: np.ndarray  # float32[arena], the same memory


def shared_bytes(arena_words: int) -> int:
    """Size of a file with so many words for arrays."""
    return ARENA + 4 * arena_words


def new_memory(arena_words: int) -> np.ndarray:
    """Memory of one process alone, uint8; for machines that no other process gives values."""
    return np.zeros(shared_bytes(arena_words), np.uint8)


def map_memory(descriptor: int, size: int) -> np.ndarray:
    """The bytes of a memory file, uint8[size], shared with all processes that map it."""
    return np.frombuffer(mmap.mmap(descriptor, size), np.uint8)


def shared(memory: np.ndarray) -> Shared:
    """The parts of such memory."""
    calls = HEADER.itemsize + CALLS * CALL.itemsize
    text = calls + TEXT_BYTES
    places = text + 4 * RANKS
    assert places <= ARENA
    arena = memory[ARENA:]
    return Shared(
        header=memory[: HEADER.itemsize].view(HEADER),
        calls=memory[HEADER.itemsize : calls].view(CALL),
        text=memory[calls:text],
        places=memory[text:places].view(np.int32),
        words=arena.view(np.int32),
        numbers=arena.view(np.float32),
    )


def write_failure(memory: Shared, text: str) -> None:
    """Tell the program that the job is over, and why."""
    data = text.encode()[:TEXT_BYTES]
    memory.text[: len(data)] = np.frombuffer(data, np.uint8)
    memory.header["text_bytes"] = len(data)
    memory.header["failed"] = 1


def read_failure(memory: Shared) -> str | None:
    """Cause of the job's end; None while it goes on."""
    if not memory.header["failed"][0]:
        return None
    return bytes(memory.text[: int(memory.header["text_bytes"][0])]).decode(errors="replace")
