"""Python with the C of compiled programs under AddressSanitizer and UndefinedBehaviorSanitizer.

The sanitizers' runtime must be loaded before Python, hence a process of its own. Leaks are not
looked for: Python itself keeps memory until the end.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from p4engine.backend.c_build import find_c_compiler

from p4engine_testing import TESTS

FLAGS = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"


def library(name: str) -> str | None:
    """The path of a library of the C compiler, if it has it."""
    compiler = find_c_compiler()
    found = subprocess.run(
        [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return found if os.path.isabs(found) and os.path.exists(found) else None


def sanitized(*command: str) -> subprocess.Popen:
    """Start python with `command` in the folder tests; what it compiles is instrumented."""
    asan, ubsan = library("libasan.so"), library("libubsan.so")
    if asan is None or ubsan is None:
        pytest.skip("the C compiler has no libasan")
    environment = os.environ | {
        "LD_PRELOAD": f"{asan} {ubsan}",
        "P4ENGINE_CFLAGS": FLAGS,
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=99",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=98",
        "PYTHONMALLOC": "malloc",
    }
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=TESTS,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def fuzz(*arguments: object, share: int = 1) -> None:
    """A run of `reference.fuzz`, its programs shared out to one process per core; only one of
    `share` programs."""
    cores = os.cpu_count() or 1
    command = ["-m", "p4engine_testing.reference.fuzz", *map(str, arguments)]
    running = [sanitized(*command, "--part", f"{part}/{share * cores}") for part in range(cores)]
    outputs = [process.communicate()[0] for process in running]
    for process, output in zip(running, outputs, strict=True):
        assert process.returncode == 0, output[-6000:]
        assert "clean: " in output, output[-6000:]
