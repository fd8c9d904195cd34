"""`njit` of numba, for functions that are compiled once for each content of their sources; and
functions that are chosen by the type of an argument.

numba's file cache does not notice a change in an imported module, and it keys a function by the
path and the modification time of its source, so that every checkout, virtual environment and clone
would compile again for minutes. Here the folder is named after the content of all sources
(code_cache.py), and a place in it depends on the module's name alone.

A function belongs to the package of its module. One that is made for a type, with code of that
type's module in it, names that module as its own (`__module__`).
"""

from __future__ import annotations

import contextlib
import functools
import io
import secrets
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from p4engine.backend.cache import sealed, unsealed

from p4fabric.simulate.code_cache import cache_directory, directories, package_of
from p4fabric.simulate.shipped_code import own_baseline, shipped


@contextlib.contextmanager
def _without(*names: str) -> Iterator[None]:
    """Modules that are not needed and take long: importing one of them is an ImportError, unless it
    has been imported before. Other packages still can."""
    absent = [name for name in names if name not in sys.modules]
    for name in absent:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


# numba would import coverage wherever it is installed. And it looks for a library of linear algebra
# when it first compiles or loads something, which imports scipy, and takes as long as all its other
# imports. No function here multiplies matrices.
with _without("coverage"):
    from numba import config
    from numba.core import caching
    from numba.core.caching import Cache, IndexDataCacheFile, UserProvidedCacheLocator
    from numba.core.runtime import rtsys
    from numba.extending import overload

    from p4fabric.simulate.callees import CALLEE, njit

if TYPE_CHECKING:
    from numba.core.compiler import CompileResult
    from numba.core.cpu import CPUContext
    from numba.core.typing import Signature

__all__ = ["CALLEE", "by_type", "njit", "of_module"]

LOCATORS = (  # asked in this order; those after the first are numba's own
    f"{__name__}.ByContent",
    "UserProvidedCacheLocator",
    "InTreeCacheLocator",
    "UserWideCacheLocator",
    "IPythonCacheLocator",
    "ZipCacheLocator",
)


_WRITABLE: set[str] = set()  # folders in which a file could be made


class ByContent(UserProvidedCacheLocator):
    """Cache folder of a function of a package that code_cache.py knows. numba asks this locator
    first. It returns nothing for another package's function, and numba goes on with its own
    locators, in the folder of the highest package, whose functions may be a part of it."""

    def __init__(self, py_func: FunctionType, py_file: str) -> None:
        super().__init__(py_func, py_file)
        place = _place(_file(py_func, py_file))
        assert place is not None, "see from_function"
        self._directory, folder = place
        self._cache_path = str(self._directory / folder)

    def ensure_cache_path(self) -> None:
        """Once for each folder, not for each of some hundred functions."""
        if not Path(self._cache_path).is_dir() or self._cache_path not in _WRITABLE:
            super().ensure_cache_path()
            _WRITABLE.add(self._cache_path)

    def get_source_stamp(self) -> str:
        """The same for ever: the folder's name is the stamp."""
        return self._directory.name

    def get_disambiguator(self) -> str:
        """The line, for functions of one name in one module."""
        return str(self._lineno)

    @classmethod
    def from_function(cls, py_func: FunctionType, py_file: str) -> ByContent | None:
        """A place, or None for a function of another package."""
        if _place(_file(py_func, py_file)) is None:
            vars(config)["CACHE_DIR"] = str(directories()[-1])
            return None
        return super().from_function(py_func, py_file)


class Checked(IndexDataCacheFile):
    """numba's files of one function: an index, and one file for each signature. Each ends with its
    hash, which pickle does not read, and a damaged one counts as missing.

    numba numbers the signatures. Two processes that compile two of them at a time may take one
    number for both, and a third one would run one's code for the other. Here each file has a name
    that nobody else draws.

    A function that is not there may be in an installed package (shipped_code.py)."""

    def load(self, key: tuple) -> object:
        own = super().load(key)
        folder = Path(self._cache_path)
        there = None if own is not None else shipped(folder.parent.name)
        if there is None or (baseline := own_baseline()) is None:
            return own
        signature, (triple, _, _), code = key
        name = self._index_name.removesuffix(".nbi")
        files = Checked(str(there / folder.name), name, self._source_stamp)
        return IndexDataCacheFile.load(
            files, (signature, (triple, baseline.cpu, baseline.flags), code)
        )

    def save(self, key: tuple, data: object) -> None:
        known = self._load_index()
        name = known.get(key) or f"{Path(self._index_path).stem}.{secrets.token_hex(8)}.nbc"
        self._save_data(name, data)
        if key not in known:
            known[key] = name
            self._save_index(known)

    def _load_index(self) -> dict:
        try:
            intact = unsealed(Path(self._index_path)) is not None
        except FileNotFoundError:
            return {}
        return super()._load_index() if intact else {}

    def _load_data(self, name: str) -> object:
        if unsealed(Path(self._data_path(name))) is None:
            raise FileNotFoundError  # numba compiles again
        return super()._load_data(name)

    @contextlib.contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        content = io.BytesIO()
        yield content
        with super()._open_for_write(filepath) as file:
            file.write(sealed(content.getvalue()))


def _files(cache_path: str, **more: object) -> IndexDataCacheFile:
    """The cached files of one function: checked, if it is of this package."""
    ours = Path(cache_path).parent in directories()
    return (Checked if ours else IndexDataCacheFile)(cache_path, **more)


def _load_overload(cache: Cache, signature: Signature, target: CPUContext) -> CompileResult | None:
    """`Cache.load_overload` of numba: compiled code from a file, or None.

    numba first tells its context of every function that compiled code could call, which takes twice
    as long as loading all code of a run. Code that is compiled already needs nothing but numba's
    memory management."""
    rtsys.initialize(target)
    with cache._guard_against_spurious_io_errors():
        return cache._load_overload(signature, target)


def by_type(member: str, name: str) -> Callable:
    """A function that calls the static method `name` of the class of its first argument's `member`.

    numba chooses it when it compiles, so the call costs nothing at run time, and what one class
    does is not part of another one's code."""

    def call(owner: tuple, *arguments: object) -> object:
        return getattr(type(getattr(owner, member)), name)(owner, *arguments)

    @overload(call, jit_options=CALLEE)
    def compiled(owner, *arguments):
        chosen = getattr(owner.types[owner.fields.index(member)].instance_class, name)

        def run(owner, *arguments):
            return chosen(owner, *arguments)

        return run

    return call


def of_module(name: str, otherwise: Callable | None = None) -> Callable:
    """A function that calls the function `name` of the module that has its first argument's class,
    or `otherwise` where it has none. numba chooses it when it compiles, as with `by_type`."""

    def chosen(kind: type) -> Any:
        return getattr(sys.modules[kind.__module__], name, otherwise)

    def call(part: tuple, *arguments: object) -> object:
        return chosen(type(part))(part, *arguments)

    @overload(call, jit_options=CALLEE)
    def compiled(part, *arguments):
        function = chosen(part.instance_class)

        def run(part, *arguments):
            return function(part, *arguments)

        return run

    return call


def _file(function: FunctionType, py_file: str) -> str:
    """The file of the module that a function belongs to."""
    return getattr(sys.modules.get(function.__module__), "__file__", None) or py_file


@functools.cache
def _place(py_file: str) -> tuple[Path, str] | None:
    """Cache directory of a source file's package, and the file's folder there, such as `protocols`
    or `simulate`; None for a package that is not known."""
    path = Path(py_file).resolve()
    package = package_of(path)
    if package is None:
        return None
    folder = "_".join(path.relative_to(package).parts[:-1]) or package.name
    return cache_directory(package), folder


if not vars(config)["DISABLE_JIT"]:
    with _without("scipy.linalg.cython_blas"):
        from numba.np import arraymath  # noqa: F401  # which looks for it
    # numba makes these names when it is imported. One that does not know the second (before 0.62)
    # keys by path, in the same folder.
    vars(config)["CACHE_DIR"] = str(directories()[-1])
    vars(config)["CACHE_LOCATOR_CLASSES"] = ",".join(LOCATORS)
    vars(caching)["IndexDataCacheFile"] = _files  # for all decorators of numba
    type.__setattr__(Cache, "load_overload", _load_overload)
