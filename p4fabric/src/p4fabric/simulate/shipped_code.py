"""Compiled functions that a package was installed with, for processors of a baseline.

Who installs such a package does not wait for the compiler. It has a folder for each content of the
sources, as the user's own cache has (code_cache.py), and what the cache lacks is looked for in the
folder of the same name. So code of other sources or of other versions is not found, and everything
that is not found is compiled here, for this processor. Where NUMBA_CPU_NAME names a processor, the
package is not used.

Code from a file is run. So a package is not used if others could have written it (writers.py).
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from p4fabric.base.linux.writers import writable_by_others

MADE_WITH = "made_with.json"  # in a package: versions, and the machine


@dataclass(frozen=True)
class Baseline:
    """A processor for which packages are compiled: its name in LLVM, and features that a processor
    needs to run the code."""

    cpu: str
    features: tuple[str, ...]

    @property
    def flags(self) -> str:
        """The features, as LLVM reads them."""
        return ",".join(f"+{each}" for each in self.features)

    def environment(self) -> dict[str, str]:
        """Variables with which numba compiles for it."""
        return {"NUMBA_CPU_NAME": self.cpu, "NUMBA_CPU_FEATURES": self.flags}


BASELINES = {  # by machine, as Python names it
    "x86_64": Baseline(
        "x86-64-v2", ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
    ),
    "aarch64": Baseline("generic", ("fp-armv8", "neon")),
}
_PACKAGES: list[str] = []  # names of modules that may be installed


def add_shipped(module: str) -> None:
    """Look for compiled functions in this module, too, if it is installed."""
    _PACKAGES.append(module)
    shipped.cache_clear()


def own_baseline() -> Baseline | None:
    """Of this machine."""
    return BASELINES.get(platform.machine())


def installed() -> list[Path]:
    """The folders of the packages that are there."""
    found = [importlib.util.find_spec(name) for name in _PACKAGES]
    return [Path(spec.origin).resolve().parent for spec in found if spec and spec.origin]


@functools.cache
def shipped(made_from: str) -> Path | None:
    """The folder of functions that were compiled from these sources and versions, by the name of
    the cache's folder for them. None: there is none, or it cannot be used."""
    for package in installed():
        if (package / made_from).is_dir() and not _unusable(package):
            return package / made_from
    return None


def why_unused(package: Path, made_with: Mapping[str, str]) -> str:
    """The reason in words for which functions of a package cannot be used with these versions.
    Without another one, the package is of other sources."""
    if reason := _unusable(package):
        return reason
    try:
        there = json.loads((package / MADE_WITH).read_text())
        others = [
            f"{name} {there[name]}, not {version}"
            for name, version in made_with.items()
            if there[name] != version
        ]
    except (OSError, ValueError, LookupError, TypeError):
        return f"{package / MADE_WITH} cannot be read"
    return f"it was made with {' and '.join(others)}" if others else "it was made of other sources"


@functools.cache
def _unusable(package: Path) -> str:
    """The reason for which code of a package must not be run here; "": it may be."""
    if "NUMBA_CPU_NAME" in os.environ:
        return "NUMBA_CPU_NAME asks for code for another processor"
    if open_to_others := writable_by_others(package):
        return f"others could have written {open_to_others}"
    baseline = own_baseline()
    if baseline is None:
        return f"there is no code for machines of type {platform.machine()}"
    missing = [name for name in baseline.features if not _host_features().get(name)]
    return f"this processor has no {', '.join(missing)}" if missing else ""


def _host_features() -> Mapping[str, bool]:
    """Features of this processor by their names in LLVM: True for those that it has."""
    import llvmlite.binding

    try:
        found: Mapping[str, bool] = llvmlite.binding.get_host_cpu_features()
    except RuntimeError:  # LLVM cannot find out
        return {}
    return found
