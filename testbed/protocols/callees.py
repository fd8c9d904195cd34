"""Compiled functions that compiled functions call: made once, as a part of who calls them.

numba makes machine code of every function by itself, with a copy of all that it calls, directly or
not, and with wrappers that take Python's objects apart. Of some hundred functions, which call each
other ten deep, only a few are called by anything but compiled code. So here a function is two. What
Python calls is numba's own. What compiled code calls is a *callee*: typed and translated, without
wrappers, not yet optimised. Who is called from outside links its callees, each of them once; the
whole is optimised and becomes machine code. That takes a third of the time, and gives the same
code: numba optimises with all callees in place, too.

A callee in the cache is its LLVM code and that of all that it calls, each a module of its own.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any

import llvmlite.binding as llvm
from numba import config
from numba.core.caching import NullCache
from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen
from numba.core.dispatcher import Dispatcher
from numba.core.environment import lookup_environment
from numba.core.registry import CPUDispatcher

CALLEE = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # of a callee
WRAPPERS = ("cpython.", "cfunc.")  # prefixes of functions that are called from outside
ENVIRONMENT = "_ZN08NumbaEnv"  # prefix of a pointer to what a function needs of Python
KIND = "callee"  # of what the cache has of a library


class Twofold(CPUDispatcher):
    """A compiled function. Python calls it as any other one; compiled code calls its callee."""

    @functools.cached_property
    def callee(self) -> Dispatcher:
        """What compiled code calls. It has a name of its own, in the cache and as a symbol."""
        own = self.py_func
        parts = own.__code__, own.__globals__, own.__name__, own.__defaults__, own.__closure__
        other = FunctionType(*parts)
        other.__qualname__ = f"{own.__qualname__}.{KIND}"
        made = CPUDispatcher(other, targetoptions={**self.targetoptions, **CALLEE})
        if not isinstance(self._cache, NullCache):
            made.enable_caching()
        return made

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return self.callee.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        return self.callee.get_overload(sig)


def njit(function: FunctionType | None = None, *, cache: bool = False, nogil: bool = False) -> Any:
    """numba's decorator, with those of its options that are used here, for twofold functions."""
    if function is None:
        return functools.partial(njit, cache=cache, nogil=nogil)
    if vars(config)["DISABLE_JIT"]:
        return function
    options = {"nopython": True, "boundscheck": None, "nogil": nogil}
    made = Twofold(function, targetoptions=options)
    if cache:
        made.enable_caching()
    return made


class Library:
    """Methods of numba's libraries, which hold the code of a function, in place of its own."""

    original = CPUCodeLibrary.finalize, CPUCodeLibrary.serialize_using_object_code
    unserialize = CPUCodeLibrary._unserialize.__func__  # type: ignore[attr-defined]
    set_env = JITCPUCodegen.set_env

    @staticmethod
    def finalize(library: Any) -> None:
        """Leave a callee as it is; link the callees of any other one."""
        wrapped = any(each.name.startswith(WRAPPERS) for each in library._final_module.functions)
        if not wrapped:
            library._raise_if_finalized()
            for each in library._linking_libraries:
                library._reload_init.update(each._reload_init)
            library.is_callee = library._finalized = True
            return
        library._linking_libraries = [*_with_callees(library._linking_libraries)]
        Library.original[0](library)
        for environment in _environments(library):
            library.codegen.set_env(environment.env_name, environment)

    @staticmethod
    def serialize(library: Any) -> Any:
        """What the cache keeps of a library."""
        if not _is_callee(library):
            return Library.original[1](library)
        parts = [*_with_callees([library])]
        environments = [each for part in parts for each in _environments(part) if each.can_cache()]
        return library.name, KIND, ([_bitcode(part) for part in parts], environments)

    @staticmethod
    def load(cls: Any, codegen: Any, state: Any) -> Any:
        """A library from the cache."""
        _, kind, data = state
        if kind != KIND:
            return Library.unserialize(cls, codegen, state)
        (own, *others), environments = data
        library = _part(codegen, own)
        library._linking_libraries = [_part(codegen, each) for each in others]
        library.environments = environments  # alive, for who links it
        return library

    @staticmethod
    def set_environment(codegen: Any, name: str, environment: Any) -> None:
        """A callee's is set by who has linked it."""
        if codegen._engine.is_symbol_defined(name):
            Library.set_env(codegen, name, environment)


def _is_callee(library: Any) -> bool:
    return getattr(library, "is_callee", False)


def _with_callees(libraries: Iterable[Any]) -> Iterator[Any]:
    """Libraries, and all that those of them that are callees call, each once."""
    seen, left = set(), [*libraries]
    for each in left:
        if each not in seen:
            seen.add(each)
            yield each
            left += each._linking_libraries if _is_callee(each) else []


def _environments(library: Any) -> Iterator[Any]:
    for each in library._final_module.global_variables:
        if each.name.startswith(ENVIRONMENT) and (found := lookup_environment(each.name)):
            yield found


def _bitcode(library: Any) -> bytes:
    if "bitcode" not in vars(library):
        library.bitcode = library._get_module_for_linking().as_bitcode()
    return library.bitcode


_parts: dict[bytes, Any] = {}  # those that were loaded, each of which many others call


def _part(codegen: Any, bitcode: bytes) -> Any:
    if bitcode not in _parts:
        library = _parts[bitcode] = codegen.create_library(KIND)
        library._final_module = library._shared_module = llvm.parse_bitcode(bitcode)
        library.bitcode = bitcode
        library.is_callee = library._finalized = True
    return _parts[bitcode]


for _class, _name, _method in (
    (CPUCodeLibrary, "finalize", Library.finalize),
    (CPUCodeLibrary, "serialize_using_object_code", Library.serialize),
    (CPUCodeLibrary, "_unserialize", classmethod(Library.load)),
    (JITCPUCodegen, "set_env", Library.set_environment),
):
    type.__setattr__(_class, _name, _method)
