"""The environment of a run: enough to explain later why two runs differ.

Versions come from the packages' metadata, so that nothing is imported. Facts that cannot be found
out (no git, no compiler) are null. What does not change while a process lives is looked up once.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from p4engine.backend.c_build import find_c_compiler

import p4engine
import p4fabric
from testbed.paths import CHECKOUT, PACKAGE

PACKAGES = ("numpy", "numba", "pandas", "pyarrow", "pydantic", "mininet", "matplotlib")


def describe(timestamp_unit_ns: int, **more: object) -> dict[str, object]:
    """The environment of this process, ready for JSON.

    `timestamp_unit_ns` is the unit of timestamps inside the P4 program (1000 on a real clock, 1 in
    virtual time). `more` adds entries of the runtime's own, such as the switch.
    """
    return {
        "time_utc": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "timestamp_unit_ns": timestamp_unit_ns,
        "kernel": f"{platform.system()} {platform.release()}",
        "distribution": _distribution(),
        "machine": platform.machine(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "cores_usable": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "cc": _first_line(find_c_compiler(), "--version"),
        "testbed": version(),
        "code": code(),
        **checkout(),
        **more,
    }


def _distribution() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


@functools.cache
def cpu_model() -> str | None:
    """Name of this machine's processor; None if the kernel does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return None
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in pairs}
    return fields.get("model name") or fields.get("CPU part")


@functools.cache
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


_LINES: dict[tuple[str | None, ...], str] = {}  # of programs that have answered


def _first_line(program: str | None, *arguments: str) -> str | None:
    command = program, *arguments
    if command not in _LINES and (output := _output(program, *arguments)):
        _LINES[command] = output.splitlines()[0]
    return _LINES.get(command)


def _output(program: str | None, *arguments: str) -> str | None:
    if program is None:
        return None
    try:
        done = subprocess.run(
            (program, *arguments),
            capture_output=True,
            text=True,
            timeout=5,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def version() -> str:
    """Version of this testbed."""
    return _version("ina-testbed") or "not known"


@functools.cache  # a process goes on with the code that it has loaded
def code() -> str:
    """A hash of the code of the testbed and of the distributions below it that runs depend on:
    commands and reports are not in it."""
    whole = hashlib.sha256()
    below = (Path(package.__file__ or "").parent for package in (p4fabric, p4engine))
    for top in (PACKAGE, PACKAGE / "traffic", PACKAGE / "topos", *below):
        for folder, inside, names in os.walk(top.resolve()):
            inside[:] = sorted(each for each in inside if each not in _NOT_IN_RUNS)
            for name in sorted(name for name in names if name.endswith(_CODE)):
                with open(f"{folder}/{name}", "rb") as file:
                    whole.update(name.encode() + hashlib.sha256(file.read()).digest())
    return whole.hexdigest()


_CODE = (".py", ".c", ".h", ".p4", ".csv")
_NOT_IN_RUNS = ("api", "artifacts", "cli", "definitions", "models", "p4runtime", "tracing", "web")


def of_this_code(environment: Mapping[str, Any]) -> bool:
    """True if a run with this environment was made by the code that runs here."""
    return environment.get("code") == code()


def made_by_other_code(environment: Mapping[str, Any]) -> str:
    """The version that made a run with this environment, if that is not the code that runs here;
    else "", also where that cannot be said."""
    if "code" in environment:
        other = not of_this_code(environment)
    else:  # of an older version
        here = checkout()["commit"]
        other = here is not None and environment.get("commit") not in (None, here)
    if not other:
        return ""
    commit = environment.get("commit")
    return f"commit {commit}" if commit else f"version {environment.get('testbed', 'not known')}"


def checkout() -> dict[str, object]:
    """`commit` of this checkout, and whether it is `dirty`: files differ from it (untracked ones
    count); null where that can't be found out."""
    # Root reads a user's checkout (git calls that dubious) and must not leave root's index there.
    git = (
        shutil.which("git"),
        "-c",
        "safe.directory=*",
        "--no-optional-locks",
        "-C",
        str(CHECKOUT),
    )
    if CHECKOUT is None or not (CHECKOUT / ".git").exists():
        return {"commit": None, "dirty": None}
    commit = _output(*git, "rev-parse", "HEAD")
    changes = _output(*git, "status", "--porcelain")
    return {"commit": commit, "dirty": None if changes is None else bool(changes)}
