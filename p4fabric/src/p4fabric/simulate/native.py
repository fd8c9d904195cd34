"""C functions and memory by address, from compiled code and from plain Python.

Every switch may run another shared object, and machines of many types are stepped by one loop, so
what is called is known only as a number when the loop runs. numba cannot cache code that holds a
ctypes pointer (it is an address of one process); these functions take the address as an argument.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from p4fabric.simulate.jit import njit

# Whether what numba would compile runs as plain Python.
INTERPRETED: bool = config.DISABLE_JIT

_CTYPES: dict[types.Type, Any] = {
    types.void: None,
    types.int32: ctypes.c_int32,
    types.uint32: ctypes.c_uint32,
    types.int64: ctypes.c_int64,
}


def _compiled(result: types.Type, kinds: tuple[types.Type, ...]) -> Callable:
    """`foreign` for compiled code."""

    @intrinsic
    def call(typing_context, address, arguments):
        signature = result(types.int64, arguments)

        def generate(context, builder, sig, args):
            kind = ir.FunctionType(
                context.get_value_type(result), [context.get_value_type(each) for each in kinds]
            )
            function = builder.inttoptr(args[0], kind.as_pointer())
            values = [
                context.cast(builder, builder.extract_value(args[1], i), given, wanted)
                for i, (given, wanted) in enumerate(zip(sig.args[1], kinds, strict=True))
            ]
            made = builder.call(function, values)
            return context.get_dummy_value() if result == types.void else made

        return signature, generate

    return call


def foreign(result: types.Type, *kinds: types.Type) -> Callable:
    """A function (address, (arguments...)) that calls the C function of this type at `address`."""
    if not INTERPRETED:
        return _compiled(result, kinds)
    prototype = ctypes.CFUNCTYPE(_CTYPES[result], *(_CTYPES[kind] for kind in kinds))
    at = cache(prototype)

    def call(address: int, arguments: tuple) -> Any:
        return at(int(address))(*(int(each) for each in arguments))

    return call


if INTERPRETED:

    def peek(address: int) -> int:
        """The int64 at an address."""
        return ctypes.c_int64.from_address(int(address)).value

    def poke(address: int, value: int) -> None:
        """Set the int64 at an address."""
        ctypes.c_int64.from_address(int(address)).value = int(value)

    def copy(target: Any, source: Any, count: Any) -> None:
        """Copy `count` bytes between addresses that do not overlap."""
        ctypes.memmove(int(target), int(source), int(count))

    def equal(one: int, other: int, count: int) -> bool:
        """True if `count` bytes at two addresses are the same."""
        return ctypes.string_at(int(one), int(count)) == ctypes.string_at(int(other), int(count))

    def prefetch(address: int, count: int) -> None:
        """Have the processor fetch `count` bytes, which will be read soon. Only costs time here."""

    def prefetch_to_write(address: int, count: int) -> None:
        """The same of bytes that will be written."""

else:

    @intrinsic
    def peek(typing_context, address):
        """The int64 at an address."""

        def generate(context, builder, signature, args):
            return builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()))

        return types.int64(types.int64), generate

    @intrinsic
    def _poke(typing_context, address, value):
        def generate(context, builder, signature, args):
            builder.store(args[1], builder.inttoptr(args[0], ir.IntType(64).as_pointer()))
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    @njit(cache=True)
    def poke(address, value):
        """Set the int64 at an address."""
        _poke(address, value)  # numba gives the first argument

    @intrinsic
    def _copy(typing_context, target, source, count):
        def generate(context, builder, signature, args):
            byte = ir.IntType(8).as_pointer()
            target, source = (builder.inttoptr(each, byte) for each in args[:2])
            cgutils.raw_memcpy(builder, target, source, args[2], 1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    @njit(cache=True)
    def copy(target, source, count):
        """Copy `count` bytes between addresses that do not overlap."""
        _copy(target, source, count)  # numba gives the first argument

    @intrinsic
    def _compare(typing_context, one, other, count):
        def generate(context, builder, signature, args):
            byte = ir.IntType(8).as_pointer()
            kind = ir.FunctionType(ir.IntType(32), [byte, byte, ir.IntType(64)])
            function = cgutils.get_or_insert_function(builder.module, kind, "memcmp")
            places = [builder.inttoptr(each, byte) for each in args[:2]]
            return builder.call(function, [*places, args[2]])

        return types.int32(types.int64, types.int64, types.int64), generate

    @njit(cache=True)
    def equal(one, other, count):
        """True if `count` bytes at two addresses are the same."""
        return _compare(one, other, count) == 0  # numba gives the first argument

    def _prefetch(typing_context, address, to_write):
        def generate(context, builder, signature, args):
            byte = ir.IntType(8).as_pointer()
            flag = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
            writing, every_level, data = (
                ir.Constant(flag, int(to_write.literal_value)),
                ir.Constant(flag, 3),
                ir.Constant(flag, 1),
            )
            builder.call(function, [builder.inttoptr(args[0], byte), writing, every_level, data])
            return context.get_dummy_value()

        return types.void(types.int64, to_write), generate

    _prefetch_line: Any = intrinsic(prefer_literal=True)(_prefetch)

    @njit(cache=True)
    def prefetch(address, count):
        """Have the processor fetch `count` bytes, which will be read soon."""
        for line in range(0, count, 64):
            _prefetch_line(address + line, 0)

    @njit(cache=True)
    def prefetch_to_write(address, count):
        """The same of bytes that will be written."""
        for line in range(0, count, 64):
            _prefetch_line(address + line, 1)
