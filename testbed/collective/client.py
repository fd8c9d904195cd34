"""What a program uses: it joins its job, and gives arrays to be summed.

    from testbed import collective

    job = collective.join()                  # finds its job from the environment
    total = job.allreduce(array)             # float32 or int32, any shape
    handle = job.allreduce_async(array, mean=True, layer=3)
    ...
    average = handle.wait()

All ranks must call the same collectives in the same order with arrays of the same shape and type,
as with any such library.

The arrays go through memory that the host process shares. `job.empty` makes arrays that lie there
already; others are copied in, and their sums out, once per call. Values never pass through Python.
"""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from testbed.collective import layout, prelude
from testbed.errors import UserError

SOCKET = "INA_SOCKET"  # environment variable: where the host process listens, see `address_of`


class CollectiveError(RuntimeError):
    """The job cannot go on: the ranks disagree, one of them has ended, or the run is over."""


def socket_name(job: int, rank: int) -> str:
    """Under which name the host process of a rank of job number `job` listens."""
    return f"ina-{job}-{rank}"


def address_of(name: str) -> str:
    """The socket address of a name. It is an abstract one, which belongs to a network namespace: so
    it needs no file, and nobody else can reach it."""
    return f"\0{name}"


class Link:
    """A program's end of the link to its host process: the shared memory, and how to wake it.

    The runtime makes it: `connect` over the host process's socket, tests without any process."""

    def __init__(self, memory: np.ndarray, facts: Mapping[str, Any]) -> None:
        """memory: the shared file. facts: rank, ranks, block_values."""
        self.memory = layout.shared(memory)
        self.rank = int(facts["rank"])
        self.ranks = int(facts["ranks"])
        self.block_values = int(facts["block_values"])

    def ring(self) -> None:
        """Wake the host process."""
        raise NotImplementedError

    def wait(self, timeout_s: float | None) -> None:
        """Until the host process has news, or the time is over."""
        raise NotImplementedError

    def close(self) -> None:
        pass


class SocketLink(Link):
    """The link to the host process that listens under a name."""

    def __init__(self, name: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._socket.connect(address_of(name))
            data, (memory, self._bell, self._news), _, _ = socket.recv_fds(self._socket, 65536, 3)
        except (OSError, ValueError) as error:
            raise UserError(
                f"cannot join the job: its host process does not answer as {name} ({error})"
            ) from None
        facts = json.loads(data)
        super().__init__(layout.map_memory(memory, facts["bytes"]), facts)
        os.close(memory)

    def ring(self) -> None:
        os.eventfd_write(self._bell, 1)

    def wait(self, timeout_s: float | None) -> None:
        poll = select.poll()
        poll.register(self._news, select.POLLIN)
        poll.register(self._socket, select.POLLIN)
        for descriptor, _ in poll.poll(None if timeout_s is None else 1000 * timeout_s):
            if descriptor == self._news:
                os.eventfd_read(self._news)  # at most one thread waits at a time
            elif not layout.read_failure(self.memory):
                raise CollectiveError("the host process of this rank has ended")

    def close(self) -> None:
        self._socket.close()
        os.close(self._bell)
        os.close(self._news)


class _Arena:
    """The shared words: which are free. Lowest first, so that few pages are ever touched."""

    def __init__(self, words: int) -> None:
        self.free: list[tuple[int, int]] = [(0, words)]  # (start, end), in order
        self.words = words

    def take(self, words: int) -> int | None:
        """The first place with room, or None."""
        words = -(-words // 16) * 16  # so that arrays begin at cache lines
        for i, (start, end) in enumerate(self.free):
            if end - start >= words:
                self.free[i : i + 1] = [(start + words, end)] if end - start > words else []
                return start
        return None

    def give_back(self, start: int, words: int) -> None:
        words = -(-words // 16) * 16
        spans = sorted([*self.free, (start, start + words)])
        self.free = spans[:1]
        for begin, end in spans[1:]:
            if begin == self.free[-1][1]:
                self.free[-1] = self.free[-1][0], end
            else:
                self.free.append((begin, end))


class Handle:
    """A collective that is under way."""

    def __init__(self, job: Job, result: np.ndarray, shape: tuple[int, ...]) -> None:
        self._job = job
        self._result = result
        self._shape = shape
        self.calls: list[int] = []  # numbers of the calls that it consists of
        self.last = -1
        self.rare_blocks = 0  # blocks in which a rank had NaN or an infinity, once it is done

    def done(self) -> bool:
        """Whether `wait` would return at once."""
        self._job.look()
        return not self.calls

    def wait(self, timeout_s: float | None = None) -> np.ndarray:
        """The sum (or mean), of the shape that was given. Raises CollectiveError if the job cannot
        go on, TimeoutError after `timeout_s`."""
        self._job.wait_for(self, timeout_s)
        return self._result.reshape(self._shape)


class _Part:
    """A call: a piece of an array on its way through shared memory."""

    def __init__(self, handle: Handle, piece: np.ndarray, place: int, own: bool) -> None:
        self.handle = handle
        self.piece = piece  # where its result belongs
        self.place = place  # word of the arena
        self.own = own  # its words are to be given back
        self.prelude = 0
        self.prelude_words = 0


class Job:
    """A rank's place in its job. Several threads may use it; the order in which their collectives
    begin must be the same on all ranks."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._arena = _Arena(link.memory.words.size)
        self._open: deque[int] = deque()  # calls that are not done, oldest first
        self._parts: dict[int, _Part] = {}
        self._submitted = 0
        self._closed = False
        self._changed = threading.Condition(threading.Lock())
        self._waiting = False  # a thread waits for news
        self._lent: dict[int, int] = {}  # arrays of `empty`: first word -> words
        self.rank = link.rank
        self.size = link.ranks
        self._most = prelude.most_blocks(link.ranks, link.block_values) * link.block_values

    def empty(self, shape: int | tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
        """An array in shared memory, float32 or int32; its collectives copy nothing. It lives as
        long as the job."""
        count = int(np.prod(shape))
        with self._changed:
            place = self._room(max(count, 1))
        memory = self._link.memory
        words = memory.numbers if np.dtype(dtype) == np.float32 else memory.words
        self._lent[place] = count
        return words[place : place + count].reshape(shape)

    def allreduce(
        self,
        array: np.ndarray,
        *,
        mean: bool = False,
        layer: int = 0,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """The sum over all ranks; see `allreduce_async`."""
        return self.allreduce_async(array, mean=mean, layer=layer, out=out).wait()

    def allreduce_async(
        self,
        array: np.ndarray,
        *,
        mean: bool = False,
        layer: int = 0,
        out: np.ndarray | None = None,
    ) -> Handle:
        """Begin to sum an array over all ranks: float32 of any shape, or int32 (modulo 2^32).

        mean: divided by the number of ranks (float32 only). layer: how far from the model's front
        the array belongs; fragments of front layers, 0, are the more urgent ones. out: where the
        result goes, a contiguous array of the same size and type, `array` itself for instance;
        None: a new array. `array` must not change before the handle is done."""
        array = np.asarray(array)
        if array.dtype not in (np.float32, np.int32):
            raise TypeError(f"allreduce takes float32 and int32 arrays, not {array.dtype}")
        if mean and array.dtype == np.int32:
            raise TypeError("the mean of int32 arrays is not whole; take their sum, or float32")
        if self._closed:
            raise CollectiveError("this rank has left the job")
        if out is None:
            out = np.empty(array.size, array.dtype)
        elif out.dtype != array.dtype or out.size != array.size or not out.flags.c_contiguous:
            raise ValueError("out must be contiguous, and of the size and type of the array")
        handle = Handle(self, out.reshape(-1), array.shape)
        flat = np.ascontiguousarray(array).reshape(-1)
        with self._changed:
            for start in range(0, flat.size, self._most):
                piece = slice(start, min(start + self._most, flat.size))
                self._submit(handle, flat[piece], handle._result[piece], array.size, mean, layer)
        return handle

    def barrier(self) -> None:
        """Until all ranks have come here."""
        self.allreduce(np.zeros(1, np.int32))

    def close(self) -> None:
        """Leave the job when all collectives are done; no further ones may follow."""
        with self._changed:
            if self._closed:
                return
            while self._open:
                self._wait_news(None)
            self._closed = True
            self._link.memory.header["closed"] = 1
            self._link.ring()
            self._link.close()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        # After an error, the host process notices that this one has gone.
        if kind is None:
            self.close()

    # -- calls

    def _submit(
        self,
        handle: Handle,
        values: np.ndarray,
        result: np.ndarray,
        whole: int,
        mean: bool,
        layer: int,
    ) -> None:
        while self._open and self._submitted - self._open[0] >= layout.CALLS:
            self._wait_news(None)
        memory, block = self._link.memory, self._link.block_values
        is_float = values.dtype == np.float32
        form = layout.FLOATS if is_float else layout.INTEGERS
        levels, rare = np.zeros(0, np.int64), np.zeros(0, bool)
        if is_float:
            levels, rare = prelude.levels_of(values, block)
        source, target = self._shared_place(values), self._shared_place(result)
        place = target if target is not None else self._room(values.size)
        part = _Part(handle, result, place, own=target is None)
        if source is None:
            source = place
            words = memory.numbers if is_float else memory.words
            words[place : place + values.size] = values
        part.prelude_words = prelude.prelude_words(self.size, len(levels))
        part.prelude = self._room(part.prelude_words)
        words = memory.words[part.prelude : part.prelude + part.prelude_words]
        given = prelude.given_words(form, values.size, whole)
        prelude.write_prelude(words, self.rank, self.size, given, levels, rare)
        number = self._submitted
        call = memory.calls[number % layout.CALLS]
        call.form, call.values = form, values.size
        call.source, call.target = source, place
        call.divisor = self.size if mean else 1
        call.prelude, call.prelude_words = part.prelude, part.prelude_words
        call.layer = layer
        call.rare_blocks = 0
        call.submitted_ns = call.done_ns = -1
        call.state = layout.SUBMITTED
        self._submitted += 1
        self._open.append(number)
        self._parts[number] = part
        handle.calls.append(number)
        memory.header["submitted"] = self._submitted
        self._link.ring()

    def _shared_place(self, array: np.ndarray) -> int | None:
        """The word at which an array begins that lies in the arena; None if it lies elsewhere."""
        words = self._link.memory.words
        offset = array.ctypes.data - words.ctypes.data
        if not 0 <= offset < 4 * words.size or not array.size:
            return None
        return offset // 4

    def _room(self, words: int) -> int:
        """Free words of the arena; waits for calls to be done if there are none."""
        while (place := self._arena.take(words)) is None:
            if not self._open:
                raise MemoryError(
                    f"an array of {words} values does not fit into the"
                    f" {4 * self._arena.words >> 20} MiB that a rank shares with its host process"
                )
            self._wait_news(None)
        return place

    def look(self) -> None:
        """Take in what is done by now, without waiting. Raises CollectiveError if the job cannot
        go on."""
        with self._changed:
            self._look()

    def _look(self) -> None:
        calls = self._link.memory.calls
        for number in [*self._open]:
            if calls[number % layout.CALLS].state == layout.DONE:
                self._finish(number)
        reason = layout.read_failure(self._link.memory)
        if reason is not None and self._open:
            raise CollectiveError(reason)

    def _finish(self, number: int) -> None:
        part = self._parts.pop(number)
        self._open.remove(number)
        memory = self._link.memory
        if part.own:
            words = memory.numbers if part.piece.dtype == np.float32 else memory.words
            part.piece[:] = words[part.place : part.place + part.piece.size]
            self._arena.give_back(part.place, part.piece.size)
        self._arena.give_back(part.prelude, part.prelude_words)
        part.handle.calls.remove(number)
        part.handle.rare_blocks += int(memory.calls[number % layout.CALLS].rare_blocks)

    def _wait_news(self, timeout_s: float | None) -> None:
        """Until a call is done, or the time is over; with the lock, which others get meanwhile."""
        before = len(self._open)
        self._look()
        if len(self._open) < before:
            return
        if self._waiting:
            self._changed.wait(timeout_s)
            return
        self._waiting = True
        self._changed.release()
        try:
            self._link.wait(timeout_s)
        finally:
            self._changed.acquire()
            self._waiting = False
            self._changed.notify_all()
        self._look()

    def wait_for(self, handle: Handle, timeout_s: float | None) -> None:
        """Until the handle is done."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            self._look()
            while handle.calls:
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError(f"a collective is not done after {timeout_s:g} s")
                self._wait_news(left)


def join() -> Job:
    """This process's place in its job. Raises UserError outside a job of an experiment."""
    name = os.environ.get(SOCKET)
    if not name:
        raise UserError(
            f"this process belongs to no job ({SOCKET} is not set): name the program as `command`"
            " of a job in an experiment file and run that (docs/training.md)"
        )
    return Job(SocketLink(name))
