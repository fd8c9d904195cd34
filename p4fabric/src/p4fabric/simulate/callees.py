"""Compiled functions that compiled functions call, without what only other callers need.

numba gives every function wrappers, which take apart and put together Python's objects, and makes
machine code of it with all that it calls, directly or not. Of some hundred functions, which call
each other ten deep, only a few are called by anything but compiled code. So here a function is two.
What Python calls is numba's own. What compiled code calls is a *callee*: without wrappers, and LLVM
code, which becomes machine code as a part of who is called from outside. Callees are optimised with
all that they call as numba does, which is what makes the whole fast: where only the whole was
optimised, runs in virtual time took a fifth longer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType

import llvmlite.binding as llvm
from numba import config
from numba.core.caching import NullCache
from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen
from numba.core.dispatcher import Dispatcher
from numba.core.environment import Environment, lookup_environment
from numba.core.registry import CPUDispatcher
from numba.core.typing import Signature

CALLEE = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # of a callee
WRAPPERS = ("cpython.", "cfunc.")  # prefixes of functions that are called from outside
ENVIRONMENT = "_ZN08NumbaEnv"  # prefix of a pointer to what a function needs of Python
KIND = "callee"  # of what the cache has of a library


class Twofold(CPUDispatcher):
    """A compiled function. Python calls it as any other one; compiled code calls its callee."""

    @functools.cached_property
    def callee(self) -> Dispatcher:
        """The function that compiled code calls, with its own name in the cache and as a symbol."""
        own = self.py_func
        parts = own.__code__, own.__globals__, own.__name__, own.__defaults__, own.__closure__
        other = FunctionType(*parts)
        other.__qualname__ = f"{own.__qualname__}.{KIND}"
        made = CPUDispatcher(other, targetoptions={**self.targetoptions, **CALLEE})
        if not isinstance(self._cache, NullCache):
            made.enable_caching()
        return made

    def get_call_template(self, args: tuple, kws: dict) -> tuple:
        return self.callee.get_call_template(args, kws)  # type: ignore[attr-defined]

    def get_overload(self, sig: Signature) -> object:
        return self.callee.get_overload(sig)  # type: ignore[attr-defined]


def njit(
    function: FunctionType | None = None, *, cache: bool = False, nogil: bool = False
) -> Callable:
    """numba's decorator, with those of its options that are used here, for twofold functions.

    Raises TypeError for one with defaults: a call from Python that leaves them out would crash."""
    if function is None:
        return functools.partial(njit, cache=cache, nogil=nogil)
    if function.__defaults__:
        raise TypeError(f"{function.__qualname__}: a compiled function has no defaults")
    if vars(config)["DISABLE_JIT"]:
        return function
    options = {"nopython": True, "boundscheck": None, "nogil": nogil}
    made = Twofold(function, targetoptions=options)
    if cache:
        made.enable_caching()
    return made


class Library:
    """Methods of numba's libraries, which hold the code of a function, in place of its own."""

    finish = CPUCodeLibrary._finalize_final_module
    serialize = CPUCodeLibrary.serialize_using_object_code
    unserialize = CPUCodeLibrary._unserialize.__func__
    set_env = JITCPUCodegen.set_env

    @staticmethod
    def finalized(library: CPUCodeLibrary) -> None:
        """Make machine code of what is called from outside, whose callees are linked. A callee
        stays as it is."""
        names = [each.name for each in library._final_module.functions]
        # Without any, its machine code has come from the cache.
        library.is_callee = bool(names) and not any(name.startswith(WRAPPERS) for name in names)
        if library.is_callee:
            library._finalize_dynamic_globals()
            library._verify_declare_only_symbols()
            library._finalized = True
            return
        Library.finish(library)
        for each in library._final_module.global_variables:
            if each.name.startswith(ENVIRONMENT) and (found := lookup_environment(each.name)):
                library.codegen.set_env(each.name, found)

    @staticmethod
    def serialized(library: CPUCodeLibrary) -> tuple:
        """The content of a library that the cache keeps."""
        if not library.is_callee:
            return Library.serialize(library)
        return library.name, KIND, library._get_module_for_linking().as_bitcode()

    @staticmethod
    def loaded(cls: type, codegen: JITCPUCodegen, state: tuple) -> CPUCodeLibrary:
        """A library from the cache."""
        name, kind, data = state
        if kind != KIND:
            return Library.unserialize(cls, codegen, state)
        library = codegen.create_library(name)
        library._final_module = library._shared_module = llvm.parse_bitcode(data)
        library.is_callee = library._finalized = True
        return library

    @staticmethod
    def set_environment(codegen: JITCPUCodegen, name: str, environment: Environment) -> None:
        """A callee's is set by who has linked it."""
        if codegen._engine.is_symbol_defined(name):
            Library.set_env(codegen, name, environment)


for _class, _name, _method in (
    (CPUCodeLibrary, "_finalize_final_module", Library.finalized),
    (CPUCodeLibrary, "serialize_using_object_code", Library.serialized),
    (CPUCodeLibrary, "_unserialize", classmethod(Library.loaded)),
    (JITCPUCodegen, "set_env", Library.set_environment),
):
    type.__setattr__(_class, _name, _method)
