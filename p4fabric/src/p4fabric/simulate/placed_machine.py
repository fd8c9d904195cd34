"""Machines at addresses, so that one loop steps machines of any type.

A machine is a named tuple of numpy arrays, and every system has its own types. A loop with machines
as arguments would be compiled again for every mixture of types. Also, compiled code passes a tuple
by value, about three hundred words from function to function, and counts references to each of its
arrays with atomic additions. That takes longer than the work on one packet. Here a machine is
*placed*: the addresses and shapes of its arrays are written one after the other, and the step
function of its type, which has a C signature, finds them there. To the protocols' code a placed
tuple looks like the named tuple that it represents, but it is an address: an array is read when it
is used.

A placed machine does not own its arrays; `Placed` keeps them alive.
"""

from __future__ import annotations

import ctypes
import hashlib
import operator
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from llvmlite import ir
from numba import cfunc, typeof, types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.extending import (
    NativeValue,
    intrinsic,
    lower_builtin,
    lower_getattr_generic,
    register_model,
    unbox,
)
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import as_dtype, from_dtype

from p4fabric.simulate.machine import STEPS, Batch, step
from p4fabric.simulate.native import INTERPRETED, foreign

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.ccallback import CFunc
    from numba.core.datamodel import DataModelManager

# (machine, arrived batch, batch to fill, now in ns, packets that have arrived, where the next
# deadline goes) -> packets filled. The first three are addresses of what is placed.
STEP = types.int64(*[types.int64] * 5, types.CPointer(types.int64))

WORD = ir.IntType(64)
T = TypeVar("T", bound=tuple)


class PlacedArray(types.Array):
    """The numba type of an array of a placed tuple. A negative index does not count from the end,
    which would be asked at every access; the protocols have none."""

    def __init__(self, like: types.Array) -> None:
        digest = hashlib.sha256(str(like).encode()).hexdigest()[:16]
        name = f"PlacedArray_{digest}"
        super().__init__(like.dtype, like.ndim, like.layout, not like.mutable, name, like.aligned)

    @property
    def plain(self) -> types.Array:
        return types.Array(
            self.dtype, self.ndim, self.layout, not self.mutable, aligned=self.aligned
        )


register_model(PlacedArray)(models.ArrayModel)


def _unsigned(
    context: BaseContext, builder: ir.IRBuilder, kind: types.Type, index: ir.Value
) -> tuple[types.Type, ir.Value]:
    """An index, or a tuple of them, as numbers that have no sign: type and value. What is no number
    stays as it is."""
    if isinstance(kind, types.Integer):
        return types.uintp, context.cast(builder, index, kind, types.intp)
    kinds = getattr(kind, "types", ())  # of a tuple
    if kinds and all(isinstance(each, types.Integer) for each in kinds):
        values = cgutils.unpack_tuple(builder, index, len(kinds))
        whole = [
            context.cast(builder, value, each, types.intp)
            for value, each in zip(values, kinds, strict=True)
        ]
        unsigned = types.UniTuple(types.uintp, len(kinds))
        return unsigned, context.make_tuple(builder, unsigned, whole)
    return kind, index


@lower_builtin(operator.getitem, PlacedArray, types.Integer)
@lower_builtin(operator.getitem, PlacedArray, types.BaseTuple)
def _get_element(context, builder, signature, args):
    array, index = signature.args
    kind, value = _unsigned(context, builder, index, args[1])
    plain = context.get_function(operator.getitem, signature.return_type(array.plain, kind))
    return plain(builder, (args[0], value))


@lower_builtin(operator.setitem, PlacedArray, types.Any, types.Any)
def _set_element(context, builder, signature, args):
    array, index, element = signature.args
    kind, value = _unsigned(context, builder, index, args[1])
    plain = context.get_function(operator.setitem, types.void(array.plain, kind, element))
    return plain(builder, (args[0], value, args[2]))


class PlacedTuple(types.NamedTuple):
    """The numba type of a placed named tuple of arrays, records and such tuples; `like` is the
    type of the tuple itself."""

    def __init__(self, like: types.BaseNamedTuple) -> None:
        parts = [_placed(part) for part in like.types]
        super().__init__(parts, like.instance_class)
        # Names of compiled functions contain those of their arguments' types, so it is kept short.
        # Functions of one name are taken for the same one, also if other processes have compiled
        # them: types must not share a name. numba's own names of tuples leave out the module.
        digest = hashlib.sha256(_whole_name(like).encode()).hexdigest()[:16]
        self.name = f"Placed{self.instance_class.__name__}_{digest}"

    def __reduce__(self) -> tuple:
        """Pickled as what it is made from. numba's own way writes the number of the type in this
        process, too, and its file cache looks for pickles: a step would be compiled again wherever
        types are made in another order."""
        return _from_parts, (self.instance_class, tuple(map(_parts_of, self.types)))

    @property
    def words(self) -> int:
        """Number of words: of an array, its address, shape and strides; of a record, its
        address."""
        return sum(_words_of(part) for part in self.types)

    def offset(self, index: int) -> int:
        """Word in which a part begins."""
        return sum(_words_of(part) for part in self.types[:index])


def _whole_name(kind: types.Type) -> str:
    """A type's name, in which each named tuple has its module."""
    if not isinstance(kind, types.BaseNamedTuple):
        return str(kind)
    own = kind.instance_class
    return f"{own.__module__}.{own.__qualname__}({', '.join(map(_whole_name, kind.types))})"


def _placed(kind: types.Type) -> types.Type:
    if isinstance(kind, types.Record):
        return kind
    return PlacedTuple(kind) if isinstance(kind, types.BaseNamedTuple) else PlacedArray(kind)


def _parts_of(kind: types.Type) -> tuple:
    """Parts of a member's type that `_from_parts` needs."""
    if isinstance(kind, PlacedTuple):
        return kind.instance_class, tuple(map(_parts_of, kind.types))
    if isinstance(kind, types.Record):
        return (as_dtype(kind),)
    return as_dtype(kind.dtype), kind.ndim, kind.layout, kind.mutable, kind.aligned


def _from_parts(instance_class: type, parts: tuple) -> PlacedTuple:
    return PlacedTuple(_plain(instance_class, parts))


def _plain(instance_class: type, parts: tuple) -> types.BaseNamedTuple:
    """The numba type of the tuple itself."""
    kinds = []
    for part in parts:
        if isinstance(part[0], type):
            kinds.append(_plain(*part))
        elif len(part) == 1:
            kinds.append(from_dtype(part[0]))
        else:
            dtype, ndim, layout, mutable, aligned = part
            kinds.append(types.Array(from_dtype(dtype), ndim, layout, not mutable, None, aligned))
    return types.BaseTuple.from_types(kinds, instance_class)


def _words_of(part: types.Type) -> int:
    if isinstance(part, types.Record):
        return 1
    return part.words if isinstance(part, PlacedTuple) else 1 + 2 * part.ndim


@register_model(PlacedTuple)
class _PlacedModel(models.PrimitiveModel):
    def __init__(self, manager: DataModelManager, kind: types.Type) -> None:
        super().__init__(manager, kind, WORD)


def _part(
    context: BaseContext, builder: ir.IRBuilder, kind: PlacedTuple, address: ir.Value, index: int
) -> ir.Value:
    """Code for one part of a placed tuple."""
    begin = builder.add(address, ir.Constant(WORD, 8 * kind.offset(index)))
    part = kind.types[index]
    if isinstance(part, PlacedTuple):
        return begin
    words = builder.inttoptr(begin, WORD.as_pointer())

    def word(place: int) -> ir.Value:
        load = builder.load(builder.gep(words, [ir.Constant(WORD, place)]))
        load.set_metadata("invariant.load", builder.module.add_metadata([]))
        return load

    if isinstance(part, types.Record):
        return builder.inttoptr(word(0), context.get_value_type(part))
    array = context.make_array(part)(context, builder)
    item = context.get_data_type(part.dtype)
    populate_array(
        array,
        data=builder.inttoptr(word(0), item.as_pointer()),
        shape=[word(1 + i) for i in range(part.ndim)],
        strides=[word(1 + part.ndim + i) for i in range(part.ndim)],
        itemsize=ir.Constant(WORD, context.get_abi_sizeof(item)),
        meminfo=None,
    )
    return array._getvalue()


@lower_getattr_generic(PlacedTuple)
def _attribute(context, builder, kind, value, name):
    return _part(context, builder, kind, value, kind.fields.index(name))


@lower_builtin("static_getitem", PlacedTuple, types.IntegerLiteral)
def _item(context, builder, signature, args):
    return _part(context, builder, signature.args[0], args[0], args[1])


@unbox(PlacedTuple)
def _from_python(kind, value, c):
    """Placed tuples never come from Python; numba makes a wrapper that would allow it."""
    c.pyapi.err_set_string("PyExc_TypeError", "a placed tuple is for compiled code alone")
    return NativeValue(ir.Constant(WORD, 0), is_error=cgutils.true_bit)


def _at(typing_context, address, kind):
    """The placed tuple of type `kind` at `address`."""
    placed = kind.instance_type
    return placed(types.int64, kind), lambda context, builder, signature, args: args[0]


at: Callable = intrinsic(_at)


def address_of(part: np.ndarray | np.record) -> int:
    """Address of an array's or a record's memory. (`__array_interface__` lists all fields of a
    record, too, and takes ten times as long.)"""
    return int(np.asarray(part).ctypes.data)


def _words(part: tuple) -> Iterator[int]:
    for each in part:
        if type(each) is np.ndarray:
            yield address_of(each)
            yield from each.shape
            yield from each.strides
        elif isinstance(each, np.record):
            yield address_of(each)
        else:
            yield from _words(each)


class Placed(Generic[T]):
    """A machine or a batch at an address. Keeps its arrays alive.

    `room` is where its words are to lie, int64[words], if that matters."""

    def __init__(self, part: T, room: np.ndarray | None = None) -> None:
        self.part = part
        self.words = np.array(list(_words(part)), np.int64)
        if room is not None:
            room[:] = self.words
            self.words = room
        self.address = address_of(self.words)

    @classmethod
    def already(cls, part: T, words: np.ndarray, address: int) -> Placed[T]:
        """A part whose words are in their place, at `address`."""
        made = cls.__new__(cls)
        made.part, made.words, made.address = part, words, address
        return made


@cache
def _compiled(machine_type: PlacedTuple, batch_type: PlacedTuple) -> CFunc:
    """The step of machines of a type, as a C function."""

    def call(machine, arrived, out, now, count, deadline):
        filled, due = step(
            at(machine, machine_type),
            now,
            at(arrived, batch_type),
            count,
            at(out, batch_type),
        )
        deadline[0] = due
        return filled

    # numba names a C function after this one and its signature, the same for all machines. Two
    # processes may have compiled two machines' steps under one name, and whoever loads both from
    # the cache would call one of them for both.
    call.__module__ = machine_type.instance_class.__module__  # whose code it has in it
    call.__name__ = call.__qualname__ = f"step_{machine_type.name}_{batch_type.name}"
    return cfunc(STEP, cache=True)(call)


_steps: dict[tuple, CFunc] = {}
# numpy's flags of an array that its type in numba knows: order of rows and of columns, alignment,
# whether it can be written to.
LAYOUT = 0x1 | 0x2 | 0x100 | 0x400


def _step_of(machine: tuple, batch: Batch) -> CFunc:
    """`_compiled` for a machine and its batches. To ask numba for the type of each of many machines
    takes longer than everything else about them."""
    kind = _kind(machine), _kind(batch)
    if kind not in _steps:
        _steps[kind] = _compiled(PlacedTuple(typeof(machine)), PlacedTuple(typeof(batch)))
    return _steps[kind]


def _kind(part: tuple | np.ndarray | np.record) -> tuple:
    """Key of numba's type of an array or a record, or of a tuple of them."""
    if isinstance(part, tuple):
        return type(part), *map(_kind, part)
    if isinstance(part, np.record):
        return (part.dtype,)
    return part.dtype, part.ndim, part.flags.num & LAYOUT


# What a step in plain Python has raised. An exception cannot pass through a C function: ctypes
# drops it, and what the function returns is then anything. So it waits here; the step returns -1.
raised: list[BaseException] = []


def _interpreted(machine: tuple, arrived: Batch, out: Batch) -> Any:
    """The same for one machine and its batches, in plain Python."""
    chosen = STEPS[type(machine)]

    @ctypes.CFUNCTYPE(*[ctypes.c_int64] * 6, ctypes.POINTER(ctypes.c_int64))
    def call(at, arrived_at, out_at, now, count, deadline):
        try:
            filled, due = chosen(machine, now, arrived, count, out)
            deadline[0] = int(due)
            return int(filled)
        except BaseException as error:  # Ctrl-C, too, which mostly falls into a step
            raised.append(error)
            return -1

    return call


class Stepper:
    """Step function of a machine: `address` is that of a function of type STEP."""

    def __init__(self, machine: tuple, arrived: Batch, out: Batch) -> None:
        if INTERPRETED:
            self._function = _interpreted(machine, arrived, out)
            self.address = ctypes.cast(self._function, ctypes.c_void_p).value
        else:
            self._function = _step_of(machine, arrived)
            self.address = self._function.address


call_step = foreign(types.int64, *[types.int64] * 6)
