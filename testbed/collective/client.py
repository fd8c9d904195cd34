"""The interface for a program: it joins its job, and calls collectives of arrays.

    from testbed import collective

    job = collective.join()                  # finds its job from the environment
    total = job.allreduce(array)             # float32 or int32, any shape
    handle = job.allreduce_async(array, mean=True, layer=3)
    ...
    average = handle.wait()
    own = job.reduce_scatter(array)          # this rank's part of the sum
    everyone = job.all_gather(own)           # any type, bit by bit
    job.broadcast(array, root=0)
    job.reduce(array, root=0)                # the sum, at the root

The network knows one operation, the sum of all ranks' arrays. In a reduce-scatter and a reduce only
the rank that needs a part of the sum gets its values, the others get headers. In an all-gather and
a broadcast only one rank gives the values of a part, the others give headers, and bytes travel as
int32, so that the sum is what that one has given, bit by bit. So no link carries values that nobody
needs, and every rank hears of every packet: that is what acknowledges it.

A sum of a few float32 (`FEW_WORDS`) is a gather of them, and each rank adds them up: in one round
trip, where the scales of a sum in int32 would need one more. Where switches add floats (option
`sum`), float32 have no scales, and the network adds few of them, too. A few int32, of any
collective, travel in the packet of the prelude, behind what it says.

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
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec

import numpy as np
from p4fabric.base.errors import UserError

from testbed.collective import memory_map, own_rank, prelude, tally
from testbed.collective_kinds import CARRIED, OWN, ROOT

# Environment variables that a rank gets
SOCKET = "INA_SOCKET"  # address of the host process, see `address_of`
BACKEND = "INA_BACKEND"  # the backend of torch.distributed that replaces the program's choice
TIMEOUT_S = "INA_COLLECTIVE_TIMEOUT_S"  # longest wait for a rank
RECORD = "INA_RECORD"  # JSON, the arguments of ina_recorder.start; only if a run is recorded


FEW_WORDS = 64  # of all ranks' values where a sum is a gather, of a prelude with a call's values
FEW_CALLS = 8  # under way, of which each is looked at by itself
NAMED = 20  # results with values that are not finite, of which a rank's log says where they are


class CollectiveError(RuntimeError):
    """The job cannot go on: the ranks disagree, one of them has ended, or the run is over."""


def socket_name(job: int, rank: int) -> str:
    """Under which name the host process of a rank of job number `job` listens."""
    return f"ina-{job}-{rank}"


def address_of(name: str) -> str:
    """The socket address of a name. It is an abstract one, which belongs to a network namespace: so
    it needs no file, and other namespaces cannot reach it."""
    return f"\0{name}"


class Link:
    """A program's end of the link to its host process: the shared memory, and how to wake it.

    The runtime makes it: `connect` over the host process's socket, tests without any process."""

    def __init__(self, memory: np.ndarray, facts: Mapping[str, Any]) -> None:
        """memory: the shared file. facts: rank, ranks, block_values, floats, wide, formats."""
        self.memory = memory_map.shared(memory)
        self.rank = int(facts["rank"])
        self.ranks = int(facts["ranks"])
        self.block_values = int(facts["block_values"])
        self.members: list[int] | None = facts.get("members")  # job's numbers of them; None: all
        self.floats = int(facts["floats"])  # `form` of calls of float32 (memory_map.CALL)
        self.wide = frozenset(facts["wide"])  # types that are not rounded to fewer bits
        # Format of sums, and the one of 32 bits that the same switch program adds, if there is one.
        self.formats: list[str] = facts["formats"]
        self.seat([*range(self.ranks)])

    def seat(self, workers: Sequence[int]) -> None:
        """Say which worker of the communicator each rank is, if not the one of its number."""
        self.memory.places[: self.ranks] = workers

    def ring(self) -> None:
        """Wake the host process."""
        raise NotImplementedError

    def wait(self, timeout_s: float | None) -> None:
        """Until the host process has news, or the time is over."""
        raise NotImplementedError

    def close(self) -> None:
        pass


class Refused(UserError):
    """The testbed does not let a process in. ended: another one has been there, and has left."""

    def __init__(self, why: str, ended: bool) -> None:
        super().__init__(f"cannot join the job: {why}")
        self.ended = ended


class SocketLink(Link):
    """The link to the host process that listens under a name."""

    def __init__(self, name: str, wish: Mapping[str, Any], timeout_s: float | None = None) -> None:
        """wish: {} for the job; for a group its key, its size, this rank's place in it, and, if
        they are known, the job's numbers of its ranks (`join_group`). Raises UserError if the host
        process does not let this process in."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(address_of(name))
            self._socket.send(json.dumps(wish).encode())
            data, descriptors, _, _ = socket.recv_fds(self._socket, 65536, 3)
            facts = json.loads(data)
        except (OSError, ValueError) as error:
            raise UserError(
                f"cannot join the job: its host process does not answer as {name} ({error})"
            ) from None
        if "refused" in facts:
            raise Refused(facts["refused"], facts["ended"])
        self._socket.settimeout(None)
        memory, self._bell, self._news = descriptors
        super().__init__(memory_map.map_memory(memory, facts["bytes"]), facts)
        os.close(memory)
        self._poll = select.poll()
        self._poll.register(self._news, select.POLLIN)
        self._poll.register(self._socket, select.POLLIN)

    def ring(self) -> None:
        os.eventfd_write(self._bell, 1)

    def wait(self, timeout_s: float | None) -> None:
        for descriptor, _ in self._poll.poll(None if timeout_s is None else 1000 * timeout_s):
            if descriptor == self._news:
                os.eventfd_read(self._news)  # at most one thread waits at a time
            elif not memory_map.read_failure(self.memory):
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
        if not words:
            return
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

    def __init__(
        self, job: Job, number: int, said: tuple[int, int, int], result: Callable[[], np.ndarray]
    ) -> None:
        """number: of the collective, from 1. said: of `given_words`. result: makes the result from
        the values that have arrived, at the end."""
        self._job = job
        self._number, self._said = number, said
        self._make = result
        self._result: np.ndarray | None = None
        self._begun_ns = time.monotonic_ns()
        self.counted_as = "", 0  # type and bytes of what the rank has given, for the tally
        self.calls: list[int] = []  # numbers of the calls that it consists of
        self.rare_blocks = 0  # blocks in which a rank had NaN or an infinity, once it is done

    def __str__(self) -> str:
        return f"collective {self._number}, {prelude.described(self._said)}"

    def done(self) -> bool:
        """True if `wait` would return at once."""
        self._job.look()
        return not self.calls

    def wait(self, timeout_s: float | None = None) -> np.ndarray:
        """The collective's result. Raises CollectiveError if the job cannot go on, TimeoutError
        after `timeout_s`."""
        self._job.wait_for(self, timeout_s)
        if self._result is None:
            self._result = self._make()
            took_ns = time.monotonic_ns() - self._begun_ns
            name = prelude.collective_of(self._said).name
            tally.TALLY.add(self._job.label, name, *self.counted_as, took_ns)
        return self._result


@dataclass
class _Sum:
    """A collective as the network sees it: one array, of which it adds up the ranks' values. A rank
    may give a part of the array, with 0 elsewhere, and may want a part of the sum."""

    size: int  # values
    given: np.ndarray  # flat, int32 or float32: this rank's values
    wanted: np.ndarray  # flat, of the same type: where the sum goes
    said: tuple[int, str, np.dtype, int]  # whole, collective, type and root, for the prelude
    given_first: int = 0  # place in the array of the first one
    wanted_first: int = 0
    share: int = 0  # values that belong to each rank; 0: all to all
    share_at: int = 0  # the array's first value among those of all ranks
    from_one: bool = False  # a rank gives its share to the others; False: it alone gets it
    divisor: int = 1
    layer: int = 0
    wide: bool = False


@dataclass
class _Call:
    """A sum, or a piece of it, on its way through shared memory."""

    handle: Handle
    place: int  # word of the arena, where its sum goes
    words: int  # 0: in its prelude, behind what that says
    own: bool  # they are to be given back
    target: np.ndarray  # the wanted part of its sum goes here,
    first: int  # from this value of the piece on,
    index: int  # and is from here on in the collective's result
    prelude: int
    prelude_words: int


def _overlap(first: int, size: int, start: int, stop: int) -> tuple[int, int]:
    """(begin, end) of what an array at `first` shares with values start .. stop - 1 of the whole,
    begin = end if nothing."""
    begin = min(max(first, start), stop)
    return begin, max(begin, min(first + size, stop))


def _lanes(array: np.ndarray) -> np.ndarray:
    """The bytes of an array as int32, the last ones filled up with zeros; not copied if they need
    not be."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    if flat.size % 4:
        flat = np.concatenate([flat, np.zeros(-flat.size % 4, np.uint8)])
    return flat.view(np.int32)


def _of_bytes(array: Any, name: str) -> np.ndarray:
    """The same as an array whose bytes can travel."""
    array = np.asarray(array)
    if array.dtype.hasobject:
        raise TypeError(f"{name} takes arrays of numbers, not of Python objects")
    return array


def _flat_result(out: np.ndarray | None, size: int, dtype: np.dtype) -> np.ndarray:
    """Flat array for a result of `size` values: `out`, or a new array if it is None."""
    if out is None:
        return np.empty(size, dtype)
    if out.dtype != dtype or out.size != size or not out.flags.c_contiguous:
        raise ValueError(
            f"out must be contiguous and have {size} {dtype} values; it has {out.size} {out.dtype}"
        )
    return out.reshape(-1)


P = ParamSpec("P")


def _waiting(
    begin: Callable[Concatenate[Job, P], Handle],
) -> Callable[Concatenate[Job, P], np.ndarray]:
    """A method that begins a collective and waits for its result."""

    def call(self: Job, /, *arguments: P.args, **options: P.kwargs) -> np.ndarray:
        return begin(self, *arguments, **options).wait()

    call.__name__ = begin.__name__.removesuffix("_async")
    call.__doc__ = f"Wait for the result of `{begin.__name__}`."
    return call


class Job:
    """A rank's place in its job. Several threads may use it; the order in which their collectives
    begin must be the same on all ranks."""

    def __init__(self, link: Link, rank: int | None = None) -> None:
        """rank: as of `join`."""
        self._link = link
        self._arena = _Arena(link.memory.words.size)
        self._open: deque[int] = deque()  # calls that are not done, oldest first
        self._calls: dict[int, _Call] = {}
        self._states = link.memory.calls["state"]
        self._rare_blocks = link.memory.calls["rare_blocks"]
        self._submitted = 0
        self._begun = 0  # collectives
        self._named = 0  # results with values that are not finite
        self._closed = False
        self._changed = threading.Condition(threading.Lock())
        self._waiting = False  # a thread waits for news
        self._lent: dict[int, int] = {}  # arrays of `empty`: first word -> words
        self.label = tally.label(link.members)
        self.rank = link.rank if rank is None else rank
        self.size = link.ranks
        if not 0 <= self.rank < self.size:
            raise UserError(f"this process is rank {rank} of its group; the job has {self.size}")
        self._most = prelude.most_blocks(link.ranks, link.block_values) * link.block_values
        self._wide: bool | None = None  # values are rounded to fewer bits by their type

    def add_in(self, name: str) -> None:
        """Add float32 of any type in this format from now on: the experiment's `sum`, or the one of
        32 bits that the same switch program adds. All ranks must say the same, between the same
        collectives. Raises UserError for another one."""
        formats = self._link.formats
        if name not in formats:
            raise UserError(f"sums cannot be {name} here; allowed: {', '.join(formats)}")
        self._wide = formats.index(name) > 0

    @property
    def worker(self) -> int:
        """The job's number of this rank."""
        return self._link.rank

    def seat(self, workers: Sequence[int]) -> None:
        """Say the job's number of each rank, in order, where ranks have others (`join`). All ranks
        must have said it before a collective that gives ranks different values."""
        self._link.seat(workers)

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

    def allreduce_async(
        self,
        array: np.ndarray,
        *,
        mean: bool = False,
        layer: int = 0,
        out: np.ndarray | None = None,
        kind: str = "float32",
    ) -> Handle:
        """Begin to sum an array over all ranks: float32 of any shape, or int32 (modulo 2^32).

        mean: divided by the number of ranks (float32 only). layer: how far from the model's front
        the array belongs; fragments of front layers, 0, are the more urgent ones. kind: the type
        that the values of a float32 array have, "bfloat16" for instance, of those that the key
        `sums` of the experiment names. out: where the result goes, a contiguous array of the same
        size and type, `array` itself for instance; None: a new array. `array` must not change
        before the handle is done."""
        array = self._numbers(array, "allreduce", mean)
        is_scaled = array.dtype == np.float32 and self._link.floats != memory_map.UNSCALED
        if is_scaled and self.size * array.size <= FEW_WORDS:
            wanted = _flat_result(out, array.size, array.dtype)
            return self._sum_of_few(array, wanted, mean, layer)
        return self._sum("all_reduce", array, mean, layer, out, kind=kind)

    def reduce_scatter_async(
        self,
        array: np.ndarray,
        *,
        kind: str = "float32",
        mean: bool = False,
        layer: int = 0,
        out: np.ndarray | None = None,
    ) -> Handle:
        """Begin to sum an array of [N, ...] values, N a multiple of the number of ranks W, of which
        rank r gets the r-th part, [N / W, ...]. Types and options are those of `allreduce_async`;
        `out` has the size of the part."""
        array = self._numbers(array, "reduce_scatter", mean)
        if array.ndim == 0 or array.shape[0] % self.size:
            raise ValueError(
                f"reduce_scatter takes arrays whose first dimension is a multiple of the"
                f" {self.size} ranks, not of shape {array.shape}"
            )
        return self._sum("reduce_scatter", array, mean, layer, out, kind=kind)

    def reduce_async(
        self,
        array: np.ndarray,
        root: int = 0,
        *,
        mean: bool = False,
        layer: int = 0,
        out: np.ndarray | None = None,
        kind: str = "float32",
    ) -> Handle:
        """Begin to sum an array over all ranks, as `allreduce_async` does, for rank `root` alone.
        On the others the result is empty, and `out` stays as it is."""
        array = self._numbers(array, "reduce", mean)
        self._check_root(root)
        wanted = out if self.rank == root else None
        return self._sum("reduce", array, mean, layer, wanted, root, kind)

    def all_gather_async(
        self, array: np.ndarray, *, layer: int = 0, out: np.ndarray | None = None
    ) -> Handle:
        """Begin to collect the arrays of all W ranks, of one shape and any type of numbers: the
        result, [W, ...], has that of rank r at r, bit by bit. `out` has W times as many values."""
        return self._bytes("all_gather", array, layer, out)

    def broadcast_async(
        self, array: np.ndarray, root: int = 0, *, layer: int = 0, out: np.ndarray | None = None
    ) -> Handle:
        """Begin to send the array of rank `root` to all ranks, bit by bit. All ranks give one of
        that shape and type of numbers. out: as of `allreduce_async`."""
        self._check_root(root)
        return self._bytes("broadcast", array, layer, out, root)

    def dispatch_async(
        self, array: np.ndarray, root: int = 0, *, layer: int = 0, out: np.ndarray | None = None
    ) -> Handle:
        """Begin to send the tokens of rank `root` to the experts of all other ranks, as
        `broadcast_async` does."""
        self._check_root(root)
        return self._bytes("dispatch", array, layer, out, root)

    def combine_async(
        self,
        array: np.ndarray,
        root: int = 0,
        *,
        layer: int = 0,
        out: np.ndarray | None = None,
        kind: str = "float32",
    ) -> Handle:
        """Begin to sum the weighted answers of all ranks but `root` for it, as `reduce_async` does.
        What `root` gives says the shape and type, and is not added."""
        self._check_root(root)
        given = np.zeros_like(array) if self.rank == root else array
        given = self._numbers(given, "combine", mean=False)
        wanted = out if self.rank == root else None
        return self._sum("combine", given, False, layer, wanted, root, kind)

    def barrier_async(self) -> Handle:
        """Begin to wait until all ranks have come here."""
        nothing = np.zeros(1, np.int32)
        said = (0, "barrier", nothing.dtype, 0)
        return self._begin(_Sum(1, nothing, nothing, said), lambda: nothing)

    def barrier(self) -> None:
        """Until all ranks have come here."""
        self.barrier_async().wait()

    allreduce = _waiting(allreduce_async)
    reduce_scatter = _waiting(reduce_scatter_async)
    reduce = _waiting(reduce_async)
    all_gather = _waiting(all_gather_async)
    broadcast = _waiting(broadcast_async)
    dispatch = _waiting(dispatch_async)
    combine = _waiting(combine_async)

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

    def _check_root(self, root: int) -> None:
        if not 0 <= root < self.size:
            raise ValueError(f"there is no rank {root}; the job has {self.size}")

    def _sum(
        self,
        name: str,
        array: np.ndarray,
        mean: bool,
        layer: int,
        out: np.ndarray | None,
        root: int = 0,
        kind: str = "float32",
    ) -> Handle:
        """A collective that sums, of which this rank gets all, its part or nothing."""
        carried, shape = CARRIED[name], array.shape
        first, count, share, share_at = 0, array.size, 0, 0
        if carried.gets == OWN:
            count = share = array.size // self.size
            first, shape = self.rank * share, (shape[0] // self.size, *shape[1:])
        elif carried.gets == ROOT:
            share, share_at = memory_map.WHOLE, root * memory_map.WHOLE
            count, shape = (count, shape) if self.rank == root else (0, (0,))
        wanted = _flat_result(out, count, array.dtype)
        return self._begin(
            _Sum(
                size=array.size,
                given=np.ascontiguousarray(array).reshape(-1),
                wanted=wanted,
                wanted_first=first,
                said=(array.size, name, array.dtype, root),
                share=share,
                share_at=share_at,
                divisor=self.size if mean else 1,
                layer=layer,
                wide=kind in self._link.wide if self._wide is None else self._wide,
            ),
            lambda: wanted.reshape(shape),
        )

    def _bytes(
        self, name: str, array: np.ndarray, layer: int, out: np.ndarray | None, root: int = 0
    ) -> Handle:
        """A collective that brings the bytes of all ranks, or of the root, to all."""
        array = _of_bytes(array, name)
        parts = CARRIED[name].gives == OWN
        count = self.size if parts else 1
        result = _flat_result(out, count * array.size, array.dtype)
        words, whole = -(-array.nbytes // 4), array.nbytes % 4 == 0
        gives, nothing = parts or self.rank == root, np.zeros(0, np.int32)
        has = gives and not parts
        wanted = _lanes(result) if whole else np.empty(count * words, np.int32)

        def made() -> np.ndarray:
            if has:
                result[:] = array.reshape(-1)
            elif not whole:
                brought = wanted.view(np.uint8).reshape(count, -1)[:, : array.nbytes]
                result.view(np.uint8).reshape(count, -1)[:] = brought
            return result.reshape(self.size, *array.shape) if parts else result.reshape(array.shape)

        return self._begin(
            _Sum(
                size=count * words,
                given=_lanes(array) if gives else nothing,
                given_first=self.rank * words if parts else 0,
                wanted=nothing if has else wanted,
                said=(array.size, name, array.dtype, root),
                share=words if parts else memory_map.WHOLE,
                share_at=0 if parts else root * memory_map.WHOLE,
                from_one=True,
                layer=layer,
            ),
            made,
        )

    def _sum_of_few(self, array: np.ndarray, wanted: np.ndarray, mean: bool, layer: int) -> Handle:
        """A sum of float32, as a gather of them."""
        given = np.ascontiguousarray(array).reshape(-1)
        gathered = np.empty((self.size, array.size), np.int32)

        def made() -> np.ndarray:
            with np.errstate(invalid="ignore", over="ignore"):
                total = gathered.view(np.float32).sum(0, np.float64)
                wanted[:] = total / self.size if mean else total
            self._name_not_finite(handle, wanted, 0)
            return wanted.reshape(array.shape)

        handle = self._begin(
            _Sum(
                size=gathered.size,
                given=given.view(np.int32),
                given_first=self.rank * array.size,
                wanted=gathered.reshape(-1),
                said=(array.size, "all_reduce", array.dtype, 0),
                layer=layer,
            ),
            made,
        )
        return handle

    def _numbers(self, array: Any, name: str, mean: bool) -> np.ndarray:
        """The same as an array that can be summed."""
        array = np.asarray(array)
        if array.dtype not in (np.float32, np.int32):
            raise TypeError(f"{name} takes float32 and int32 arrays, not {array.dtype}")
        if mean and array.dtype == np.int32:
            raise TypeError("the mean of int32 arrays is not whole; take their sum, or float32")
        return array

    def _begin(self, given: _Sum, result: Callable[[], np.ndarray]) -> Handle:
        if self._closed:
            raise CollectiveError("this rank has left the job")
        whole, collective, dtype, root = given.said
        said = prelude.given_words(given.size, whole, collective, dtype, root, given.wide)
        with self._changed:
            self._begun += 1
            handle = Handle(self, self._begun, said, result)
            handle.counted_as = dtype.name if whole else "", whole * dtype.itemsize
            for start in range(0, given.size, self._most):
                self._submit(handle, given, start, min(start + self._most, given.size))
        return handle

    def _submit(self, handle: Handle, given: _Sum, start: int, stop: int) -> None:
        """Values start .. stop - 1 of a sum as a call."""
        while self._open and self._submitted - self._open[0] >= memory_map.CALLS:
            self._wait_news(None)
        memory, block = self._link.memory, self._link.block_values
        is_float = given.given.dtype == np.float32
        words = memory.numbers if is_float else memory.words
        begin, end = _overlap(given.given_first, given.given.size, start, stop)
        values = given.given[begin - given.given_first : end - given.given_first]
        first, last = _overlap(given.wanted_first, given.wanted.size, start, stop)
        target = given.wanted[first - given.wanted_first : last - given.wanted_first]
        count = stop - start
        size = prelude.prelude_words(self.size, 0)
        rides = not is_float and size + count <= FEW_WORDS
        source = shared = None
        if rides:
            opening = self._room(size + count)
            place = opening + size
        else:
            source = self._shared_place(values) if values.size == count else None
            if given.from_one and target.size:
                source = None  # the network brings this rank's own values to no other place
            shared = self._shared_place(target) if target.size == count else None
            place = shared if shared is not None else self._room(count)
        if source is None:
            source = place
            copied = words[place : place + count]
            copied[: begin - start] = 0
            copied[begin - start : end - start] = values
            copied[end - start :] = 0
        levels, rare = np.zeros(0, np.int64), np.zeros(0, bool)
        if is_float and self._link.floats == memory_map.FLOATS:
            levels, rare = prelude.levels_of(words[source : source + count], block)
            size = prelude.prelude_words(self.size, len(levels))
        call = _Call(
            handle=handle,
            place=place,
            words=0 if rides else count,
            own=shared is None,
            target=target,
            first=first - start,
            index=first - given.wanted_first,
            prelude=opening if rides else self._room(size),
            prelude_words=size + count if rides else size,
        )
        whole, collective, dtype, root = given.said
        prelude.write_prelude(
            memory.words[call.prelude : call.prelude + size],
            self.rank,
            self.size,
            prelude.given_words(count, whole, collective, dtype, root, given.wide),
            levels,
            rare,
        )
        number = self._submitted
        # In one assignment: each field of its own would take as long.
        memory.calls[number % memory_map.CALLS] = memory_map.submitted_call(
            form=self._link.floats if is_float else memory_map.INTEGERS,
            values=call.words,
            source=source,
            target=place,
            divisor=given.divisor,
            prelude=call.prelude,
            prelude_words=call.prelude_words,
            layer=given.layer,
            share=given.share,
            share_at=given.share_at + start,
            from_one=given.from_one,
            wide=given.wide,
        )
        self._submitted += 1
        self._open.append(number)
        self._calls[number] = call
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
        """Take in the calls that are done by now, without waiting. Raises CollectiveError if the
        job cannot go on."""
        with self._changed:
            self._look()

    def _look(self) -> None:
        if not self._open:
            return
        if len(self._open) <= FEW_CALLS:
            states = self._states
            done = [n for n in self._open if states[n % memory_map.CALLS] == memory_map.DONE]
        else:
            oldest = self._open[0]
            found = np.flatnonzero(self._states == memory_map.DONE)
            done = sorted((oldest + (found - oldest) % memory_map.CALLS).tolist())
        for number in done:
            self._finish(number)
        reason = memory_map.read_failure(self._link.memory)
        if reason is not None and self._open:
            raise CollectiveError(reason)

    def _finish(self, number: int) -> None:
        call = self._calls.pop(number)
        self._open.remove(number)
        memory = self._link.memory
        if call.own:
            words = memory.numbers if call.target.dtype == np.float32 else memory.words
            first = call.place + call.first
            call.target[:] = words[first : first + call.target.size]
            self._arena.give_back(call.place, call.words)
        self._arena.give_back(call.prelude, call.prelude_words)
        call.handle.calls.remove(number)
        place = number % memory_map.CALLS
        self._states[place] = memory_map.FREE
        rare_blocks = int(self._rare_blocks[place])
        call.handle.rare_blocks += rare_blocks
        unmarked = self._link.floats != memory_map.FLOATS and call.target.dtype == np.float32
        if rare_blocks or unmarked:
            self._name_not_finite(call.handle, call.target, call.index)

    def _name_not_finite(self, handle: Handle, result: np.ndarray, index: int) -> None:
        """Say in the rank's log where a result is not finite, of the first ones."""
        if self._named > NAMED:
            return
        places = np.flatnonzero(~np.isfinite(result))
        if not places.size:
            return
        self._named += 1
        if self._named > NAMED:
            print("ina: further results that are not finite are not named", file=sys.stderr)
            return
        first = result[places[0]]
        print(
            f"ina: {handle}: {places.size} values of the result are not finite, the first"
            f" is {first} at index {index + int(places[0])}",
            file=sys.stderr,
            flush=True,
        )

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


def in_job() -> bool:
    """True if this process belongs to a job of an experiment."""
    return SOCKET in os.environ or own_rank.RANKS in os.environ


def _host_process() -> str:
    own_rank.adopt()
    name = os.environ.get(SOCKET)
    if not name and own_rank.RANKS in os.environ:
        raise UserError(
            "nobody knows which rank of its server this process is: let it join the job first, or"
            f" set {own_rank.LOCAL}, as torchrun does"
        )
    if not name:
        raise UserError(
            f"this process belongs to no job ({SOCKET} is not set): name the program as `command`"
            " of a job in an experiment file and run that (docs/training.md)"
        )
    return name


def join_group(key: str, ranks: Sequence[int], timeout_s: float | None = None) -> Job:
    """This process's place in a group of ranks, which gets a communicator of its own. All of its
    ranks call this with the same key, which no other group has that is being made, and the same
    order of `ranks`, the job's numbers of its members. The result has their places in that order as
    ranks. Raises Refused on all of them if the testbed has no communicator for it."""
    own = job_rank()
    place = [*ranks].index(own) if own in ranks else 0
    return join_as(key, place, len(ranks), timeout_s, ranks)


def join_as(
    key: str,
    rank: int,
    size: int,
    timeout_s: float | None = None,
    ranks: Sequence[int] | None = None,
) -> Job:
    """The same for rank `rank` of `size`, where nobody knows the job's numbers of the others."""
    wish = {"key": key, "rank": rank, "size": size, "ranks": ranks and [*ranks]}
    return Job(SocketLink(_host_process(), wish, timeout_s))


def job_rank() -> int:
    """The job's number of this rank."""
    return int(_host_process().rpartition("-")[2])


def join(rank: int | None = None) -> Job:
    """This process's place in its job. Raises UserError outside a job of an experiment.

    rank: its number in collectives, if that is not the job's: the ranks' numbers must be those of
    the job in some order."""
    own_rank.adopt()
    open_places = own_rank.entries()
    if not open_places:
        return Job(SocketLink(_host_process(), {}), rank)
    # Somebody else has made the ranks of this server, and has not told them their places in it.
    for number in range(len(open_places)):
        entry = open_places[((rank or 0) + number) % len(open_places)]
        try:
            link = SocketLink(entry[SOCKET], {})
        except Refused as error:
            refused = error
            continue
        own_rank.take(entry)
        return Job(link, rank)
    raise refused
